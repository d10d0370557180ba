/* alloc.c -- the driver's calls that give and take memory, and tell of it. */
#include "fake.h"
#include <stdlib.h>

int cuMemAlloc_v2(fat_cuda_address *address, size_t bytes)
{
  FAKE_ENTER_CONTEXT(cuMemAlloc_v2, c);
  int unsafe = fake_capture_unsafe();
  return unsafe ? unsafe : fake_memory_alloc(c, address, bytes);
}

int cuMemFree_v2(fat_cuda_address address)
{
  FAKE_ENTER_CONTEXT(cuMemFree_v2, c);
  int unsafe = fake_capture_unsafe();
  if (unsafe || !address)
    return unsafe;
  fake_context_wait(c); /* a free waits for all work */
  return fake_memory_free(c, address);
}

int cuMemAllocAsync(fat_cuda_address *address, size_t bytes, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemAllocAsync, c);
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  struct fake_capture *capture = atomic_load_explicit(&s->capture, memory_order_relaxed);
  return capture ? fake_capture_break(capture) : fake_memory_alloc(c, address, bytes);
}

int cuMemFreeAsync(fat_cuda_address address, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemFreeAsync, c);
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  struct fake_capture *capture = atomic_load_explicit(&s->capture, memory_order_relaxed);
  return capture ? fake_capture_break(capture) : fake_memory_free(c, address);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
  FAKE_ENTER_CONTEXT(cuMemGetInfo_v2, c);
  *total = fake_device_memory(c->ordinal);
  *free_bytes = fake_memory_available(c);
  return 0;
}

int cuMemAllocHost_v2(void **memory, size_t bytes)
{
  FAKE_ENTER_CONTEXT(cuMemAllocHost_v2, c);
  int unsafe = fake_capture_unsafe();
  if (unsafe || !c)
    return unsafe;
  *memory = bytes ? malloc(bytes) : NULL;
  return *memory ? 0 : bytes ? 2 : 1;
}

int cuMemFreeHost(void *memory)
{
  FAKE_ENTER(cuMemFreeHost);
  free(memory);
  return 0;
}

/* What is asked for most: the context (1), the kind of memory (2: device), the device (9), its start (11),
 * its size (12). */
int cuPointerGetAttribute(void *value, int attribute, fat_cuda_address address)
{
  FAKE_ENTER(cuPointerGetAttribute);
  fake_context *c = fake_context_of_thread();
  char *data;
  size_t bytes;
  if (!fake_memory_around(address, &data, &bytes))
    return 1;
  if (attribute == 1)
    *(void **)value = c;
  else if (attribute == 2)
    *(unsigned *)value = 2;
  else if (attribute == 9)
    *(int *)value = c ? c->ordinal : 0;
  else if (attribute == 11)
    *(fat_cuda_address *)value = (uintptr_t)data;
  else if (attribute == 12)
    *(size_t *)value = bytes;
  else
    return 1;
  return 0;
}
