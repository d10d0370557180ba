/* context.c -- contexts: the primary one of each device, others, and the stack that each thread has of them.
 *
 * A primary context lies at the same address in each of its lives, as with the real driver; only its number
 * (cuCtxGetId) tells them apart, and a handle of an earlier life is refused. */
#include "fake.h"
#include <pthread.h>
#include <stdlib.h>

enum { DEPTH = 32 };
static fake_context primary[FAKE_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long numbers;
static fake_context *others[64];
static _Thread_local fake_context *stack[DEPTH];
static _Thread_local int depth;

static bool is_alive(const fake_context *c)
{
  return fake_handle_is(c, FAKE_CONTEXT, NULL);
}

fake_context *fake_context_of_thread(void)
{
  return depth > 0 && is_alive(stack[depth - 1]) ? stack[depth - 1] : NULL;
}

int fake_context_current(fake_context **context)
{
  *context = depth > 0 ? stack[depth - 1] : NULL;
  if (!*context)
    return 201;
  return is_alive(*context) ? atomic_load_explicit(&(*context)->sticky, memory_order_relaxed) : 709;
}

static void begin(fake_context *c, int ordinal, int references)
{
  c->ordinal = ordinal;
  c->references = references;
  atomic_store_explicit(&c->id, ++numbers, memory_order_relaxed);
  atomic_store_explicit(&c->sticky, 0, memory_order_relaxed);
  atomic_store_explicit(&c->pending, 0, memory_order_relaxed);
  atomic_store_explicit(&c->host, 0, memory_order_relaxed);
  atomic_store_explicit(&c->null.ready, 0, memory_order_relaxed);
  atomic_store_explicit(&c->null.hung, 0, memory_order_relaxed);
  atomic_store_explicit(&c->streams, NULL, memory_order_relaxed);
  c->null.head.context = c;
  c->null.head.context_id = numbers;
  atomic_store_explicit(&c->null.head.magic, FAKE_STREAM, memory_order_relaxed);
  atomic_store_explicit(&c->head.magic, FAKE_CONTEXT, memory_order_relaxed);
  fake_log("context %llu on device %d", numbers, ordinal);
}

static void end(fake_context *c)
{
  fake_memory_free_context(c);
  fake_handle_bury_context(c);
  fake_handle_bury(&c->head);
  fake_handle_bury(&c->null.head);
}

int fake_context_count(void)
{
  int count = 0;
  for (int i = 0; i < FAKE_DEVICES; i++)
    count += is_alive(&primary[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    count += is_alive(others[i]);
  return count;
}

void fake_context_reset_all(void)
{
  pthread_mutex_lock(&lock);
  for (int i = 0; i < FAKE_DEVICES; i++) {
    if (is_alive(&primary[i]))
      end(&primary[i]);
    primary[i].references = 0;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (is_alive(others[i]))
      end(others[i]);
    others[i] = NULL;
  }
  pthread_mutex_unlock(&lock);
  depth = 0;
}

/* ---- primary contexts ---- */

static bool is_prohibited(void)
{
  const char *mode = getenv("FAKE_CUDA_MODE");
  return mode && mode[0] == '2';
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
  FAKE_ENTER(cuDevicePrimaryCtxRetain);
  int ordinal = fake_device_ordinal(device);
  if (ordinal < 0)
    return 101;
  if (is_prohibited())
    return 46;
  pthread_mutex_lock(&lock);
  if (!is_alive(&primary[ordinal]))
    begin(&primary[ordinal], ordinal, 0);
  primary[ordinal].references++;
  pthread_mutex_unlock(&lock);
  *context = &primary[ordinal];
  return 0;
}

static int release(int device, bool all)
{
  int ordinal = fake_device_ordinal(device), result = 0;
  if (ordinal < 0)
    return 101;
  pthread_mutex_lock(&lock);
  fake_context *c = &primary[ordinal];
  if (!all && c->references == 0)
    result = 201;
  else if (!all && --c->references > 0)
    result = 0;
  else if (is_alive(c))
    end(c);
  pthread_mutex_unlock(&lock);
  return result;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
  FAKE_ENTER(cuDevicePrimaryCtxRelease_v2);
  return release(device, false);
}

int cuDevicePrimaryCtxReset_v2(int device)
{
  FAKE_ENTER(cuDevicePrimaryCtxReset_v2);
  return release(device, true);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
  FAKE_ENTER(cuDevicePrimaryCtxGetState);
  int ordinal = fake_device_ordinal(device);
  *flags = 0;
  *active = ordinal >= 0 && is_alive(&primary[ordinal]);
  return ordinal < 0 ? 101 : 0;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags)
{
  FAKE_ENTER(cuDevicePrimaryCtxSetFlags_v2);
  (void)flags;
  return fake_device_ordinal(device) < 0 ? 101 : 0;
}

/* ---- the thread's stack ---- */

static int push(fake_context *c)
{
  if (!is_alive(c))
    return 201;
  if (depth == DEPTH)
    return 999;
  stack[depth++] = c;
  return 0;
}

int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
  FAKE_ENTER(cuCtxCreate_v2);
  int ordinal = fake_device_ordinal(device), result = 2;
  (void)flags;
  if (ordinal < 0)
    return 101;
  if (is_prohibited())
    return 46;
  fake_context *c = fake_handle_make(sizeof *c, FAKE_CONTEXT, NULL);
  pthread_mutex_lock(&lock);
  for (size_t i = 0; c && i < sizeof others / sizeof *others; i++)
    if (!is_alive(others[i])) {
      begin(c, ordinal, -1);
      others[i] = *context = c;
      result = 0;
      break;
    }
  pthread_mutex_unlock(&lock);
  return result ? result : push(c);
}

int cuCtxDestroy_v2(void *context)
{
  FAKE_ENTER(cuCtxDestroy_v2);
  fake_context *c = context;
  if (!is_alive(c) || c->references >= 0)
    return 201;
  if (depth > 0 && stack[depth - 1] == c)
    depth--;
  pthread_mutex_lock(&lock);
  end(c);
  pthread_mutex_unlock(&lock);
  return 0;
}

int cuCtxGetCurrent(void **context)
{
  FAKE_ENTER(cuCtxGetCurrent);
  *context = depth > 0 ? stack[depth - 1] : NULL;
  return 0;
}

int cuCtxSetCurrent(void *context)
{
  FAKE_ENTER(cuCtxSetCurrent);
  if (context && !is_alive(context))
    return 201;
  if (depth > 0)
    depth--;
  return context ? push(context) : 0;
}

int cuCtxPushCurrent_v2(void *context)
{
  FAKE_ENTER(cuCtxPushCurrent_v2);
  return push(context);
}

int cuCtxPopCurrent_v2(void **context)
{
  FAKE_ENTER(cuCtxPopCurrent_v2);
  if (depth == 0)
    return 201;
  depth--;
  if (context)
    *context = stack[depth];
  return 0;
}

int cuCtxGetDevice(int *device)
{
  FAKE_ENTER(cuCtxGetDevice);
  fake_context *c = fake_context_of_thread();
  if (c)
    *device = FAKE_FIRST_DEVICE + c->ordinal;
  return c ? 0 : 201;
}

int cuCtxGetId(void *context, unsigned long long *id)
{
  FAKE_ENTER(cuCtxGetId);
  fake_context *c = context ? context : fake_context_of_thread();
  if (!is_alive(c))
    return 201;
  *id = atomic_load_explicit(&c->id, memory_order_relaxed);
  return 0;
}

int cuCtxSynchronize(void)
{
  FAKE_ENTER_CONTEXT(cuCtxSynchronize, c);
  int unsafe = fake_capture_unsafe();
  return unsafe ? unsafe : fake_context_wait(c);
}

int fake_sticky(void)
{
  fake_context *c = fake_context_of_thread();
  if (!c)
    return 0;
  int sticky = atomic_load_explicit(&c->sticky, memory_order_relaxed);
  return sticky ? sticky : atomic_load_explicit(&c->pending, memory_order_relaxed);
}

double fake_clock(void)
{
  fake_context *c = fake_context_of_thread();
  return c ? fake_stream_ready(&c->null) : 0;
}
