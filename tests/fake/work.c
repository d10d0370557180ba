/* work.c -- copies and fills, and the one way that all work goes: done now, or kept by a capture.
 *
 * A copy by a blocking call is work of the default stream and a wait for it. Device addresses must lie inside
 * one allocation of the current context's device; any other address is the host's. */
#include "fake.h"
#include <stdlib.h>
#include <string.h>

#define ADDRESS(a) ((void *)(uintptr_t)(a))

/* How long bytes take: over the bus of a machine, or to and from device memory. */
static double copy_ms(const fake_stream *s, size_t bytes, bool host)
{
  const fake_row *row = fake_device_row(s->head.context->ordinal);
  double rate = host || !row ? 25e9 : 2e3 * row->memory_clock * row->bus / 8; /* bytes a second */
  return 1e3 * (double)(host ? bytes : 2 * bytes) / rate;
}

static void fill_row(char *to, const fake_work *w)
{
  if (w->element == 1) {
    memset(to, (int)w->value, w->width);
    return;
  }
  for (size_t i = 0; i < w->width; i++)
    memcpy(to + i * w->element, &w->value, w->element); /* little endian, as the device */
}

static void fill(const fake_work *w)
{
  for (size_t row = 0; row < w->height; row++) {
    char *to = (char *)w->to + row * w->pitch;
    fill_row(to, w);
    fake_memory_written(to, w->width * w->element);
  }
}

int fake_work_do(fake_stream *s, const fake_work *w)
{
  if (w->kind == FAKE_WORK_LAUNCH)
    return fake_launch_do(s, w);
  if (fake_stream_is_hung(s))
    return 0; /* it is behind what never ends */
  if (w->kind == FAKE_WORK_COPY) {
    memmove(w->to, w->from, w->bytes);
    fake_memory_written(w->to, w->bytes);
    fake_stream_advance(s, copy_ms(s, w->bytes, w->host));
  } else {
    fill(w);
    fake_stream_advance(s, copy_ms(s, w->width * w->height * w->element, false));
  }
  return 0;
}

int fake_work_submit(fake_stream *s, const fake_work *w)
{
  struct fake_capture *capture = atomic_load_explicit(&s->capture, memory_order_relaxed);
  if (capture)
    return fake_capture_add(capture, w);
  return fake_work_do(s, w);
}

/* ---- copies ---- */

typedef enum direction { IN, OUT, WITHIN } direction;

static int check_copy(const fake_context *c, direction d, const fake_work *w)
{
  if (w->bytes == 0)
    return 0;
  if (!w->to || !w->from)
    return 1;
  if (d != OUT && !fake_memory_holds(c, (uintptr_t)w->to, w->bytes))
    return 1;
  return d != IN && !fake_memory_holds(c, (uintptr_t)w->from, w->bytes) ? 1 : 0;
}

static int copy(fake_context *c, void *stream, direction d, void *to, const void *from, size_t bytes)
{
  const fake_work w = {.kind = FAKE_WORK_COPY, .to = to, .from = from, .bytes = bytes, .host = d != WITHIN};
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  int result = check_copy(c, d, &w);
  return result ? result : fake_work_submit(s, &w);
}

/* The same by a call that returns when it is done. */
static int copy_now(fake_context *c, direction d, void *to, const void *from, size_t bytes)
{
  int result = fake_capture_unsafe();
  if (result == 0)
    result = copy(c, NULL, d, to, from, bytes);
  return result ? result : fake_stream_wait(&c->null);
}

int cuMemcpyHtoD_v2(fat_cuda_address to, const void *from, size_t bytes)
{
  FAKE_ENTER_CONTEXT(cuMemcpyHtoD_v2, c);
  return copy_now(c, IN, ADDRESS(to), from, bytes);
}

int cuMemcpyDtoH_v2(void *to, fat_cuda_address from, size_t bytes)
{
  FAKE_ENTER_CONTEXT(cuMemcpyDtoH_v2, c);
  return copy_now(c, OUT, to, ADDRESS(from), bytes);
}

int cuMemcpyDtoD_v2(fat_cuda_address to, fat_cuda_address from, size_t bytes)
{
  FAKE_ENTER_CONTEXT(cuMemcpyDtoD_v2, c);
  return copy_now(c, WITHIN, ADDRESS(to), ADDRESS(from), bytes);
}

int cuMemcpyHtoDAsync_v2(fat_cuda_address to, const void *from, size_t bytes, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemcpyHtoDAsync_v2, c);
  return copy(c, stream, IN, ADDRESS(to), from, bytes);
}

int cuMemcpyDtoHAsync_v2(void *to, fat_cuda_address from, size_t bytes, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemcpyDtoHAsync_v2, c);
  return copy(c, stream, OUT, to, ADDRESS(from), bytes);
}

int cuMemcpyDtoDAsync_v2(fat_cuda_address to, fat_cuda_address from, size_t bytes, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemcpyDtoDAsync_v2, c);
  return copy(c, stream, WITHIN, ADDRESS(to), ADDRESS(from), bytes);
}

/* ---- fills ---- */

/* `height` rows of `width` elements, `pitch` bytes from row to row. */
typedef struct area {
  fat_cuda_address to;
  size_t pitch, width, height;
} area;

static int fill_area(fake_context *c, void *stream, area a, unsigned value, unsigned element)
{
  const fake_work w = {.kind = FAKE_WORK_FILL,
                       .to = ADDRESS(a.to),
                       .pitch = a.pitch,
                       .width = a.width,
                       .height = a.height,
                       .value = value,
                       .element = element};
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  if (a.width == 0 || a.height == 0)
    return 0;
  size_t bytes = (a.height - 1) * a.pitch + a.width * element;
  if (a.to % element || (a.height > 1 && a.pitch < a.width * element) || !fake_memory_holds(c, a.to, bytes))
    return 1;
  return fake_work_submit(s, &w);
}

static int fill_now(fake_context *c, fat_cuda_address to, size_t count, unsigned value, unsigned element)
{
  int result = fake_capture_unsafe();
  return result ? result : fill_area(c, NULL, (area){to, 0, count, 1}, value, element);
}

int cuMemsetD8_v2(fat_cuda_address to, unsigned char value, size_t count)
{
  FAKE_ENTER_CONTEXT(cuMemsetD8_v2, c);
  return fill_now(c, to, count, value, 1);
}

int cuMemsetD16_v2(fat_cuda_address to, unsigned short value, size_t count)
{
  FAKE_ENTER_CONTEXT(cuMemsetD16_v2, c);
  return fill_now(c, to, count, value, 2);
}

int cuMemsetD32_v2(fat_cuda_address to, unsigned value, size_t count)
{
  FAKE_ENTER_CONTEXT(cuMemsetD32_v2, c);
  return fill_now(c, to, count, value, 4);
}

int cuMemsetD8Async(fat_cuda_address to, unsigned char value, size_t count, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemsetD8Async, c);
  return fill_area(c, stream, (area){to, 0, count, 1}, value, 1);
}

int cuMemsetD16Async(fat_cuda_address to, unsigned short value, size_t count, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemsetD16Async, c);
  return fill_area(c, stream, (area){to, 0, count, 1}, value, 2);
}

int cuMemsetD32Async(fat_cuda_address to, unsigned value, size_t count, void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemsetD32Async, c);
  return fill_area(c, stream, (area){to, 0, count, 1}, value, 4);
}

int cuMemsetD2D8Async(fat_cuda_address to, size_t pitch, unsigned char value, size_t width, size_t height,
                      void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemsetD2D8Async, c);
  return fill_area(c, stream, (area){to, pitch, width, height}, value, 1);
}

int cuMemsetD2D32Async(fat_cuda_address to, size_t pitch, unsigned value, size_t width, size_t height,
                       void *stream)
{
  FAKE_ENTER_CONTEXT(cuMemsetD2D32Async, c);
  return fill_area(c, stream, (area){to, pitch, width, height}, value, 4);
}
