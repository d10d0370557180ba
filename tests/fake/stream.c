/* stream.c -- streams, events and the virtual clock.
 *
 * Work is done when it is asked for, so a stream is no more than the time at which its work would be done. A
 * launch moves it on by a scripted duration; a host that waits moves its own clock to it. The default stream
 * waits for all blocking streams and they for it. A query of what is not ready yet says so once, and lets
 * that time pass. A stream on which a kernel hangs is never ready: who waits for it waits for ever. */
#include "fake.h"
#include <stdlib.h>

enum { NON_BLOCKING = 1, NO_TIMING = 2 };
typedef enum event_state { NEVER, RECORDED, HUNG, CAPTURED } event_state;
typedef struct event {
  fake_head head;
  unsigned flags;
  _Atomic int state;
  _Atomic double time;
  struct fake_capture *_Atomic capture;
} event;

#define GET(object)        atomic_load_explicit(&(object), memory_order_relaxed)
#define SET(object, value) atomic_store_explicit(&(object), (value), memory_order_relaxed)

static void raise_to(_Atomic double *clock, double ms)
{
  double old = GET(*clock);
  while (old < ms &&
         !atomic_compare_exchange_weak_explicit(clock, &old, ms, memory_order_relaxed, memory_order_relaxed))
    continue;
}

static bool is_null(const fake_stream *s)
{
  return s == &s->head.context->null;
}

/* The streams that one waits for: the default one for all blocking ones, a blocking one for the default. */
static fake_stream *first_other(const fake_stream *s)
{
  fake_context *c = s->head.context;
  if (is_null(s))
    return atomic_load_explicit(&c->streams, memory_order_acquire);
  return s->flags & NON_BLOCKING ? NULL : &c->null;
}

static bool counts(const fake_stream *s, const fake_stream *other)
{
  return !(other->flags & NON_BLOCKING) && fake_handle_is(other, FAKE_STREAM, s->head.context);
}

double fake_stream_ready(const fake_stream *s)
{
  double ready = GET(s->ready), host = GET(s->head.context->host);
  for (const fake_stream *o = first_other(s); o; o = is_null(s) ? o->next : NULL)
    if (counts(s, o) && GET(o->ready) > ready)
      ready = GET(o->ready);
  return ready > host ? ready : host;
}

bool fake_stream_is_hung(const fake_stream *s)
{
  bool hung = GET(s->hung);
  for (const fake_stream *o = first_other(s); o; o = is_null(s) ? o->next : NULL)
    hung = hung || (counts(s, o) && GET(o->hung));
  return hung;
}

double fake_stream_advance(fake_stream *s, double ms)
{
  double old = GET(s->ready), end;
  do {
    double start = fake_stream_ready(s);
    end = (old > start ? old : start) + ms;
  } while (!atomic_compare_exchange_weak_explicit(&s->ready, &old, end, memory_order_relaxed,
                                                  memory_order_relaxed));
  return end;
}

void fake_context_pass(fake_context *c, double ms)
{
  raise_to(&c->host, ms);
}

int fake_context_take_error(fake_context *c)
{
  int code = atomic_exchange_explicit(&c->pending, 0, memory_order_relaxed);
  if (code)
    SET(c->sticky, code);
  return GET(c->sticky);
}

int fake_stream_wait(fake_stream *s)
{
  if (fake_stream_is_hung(s))
    fake_script_hang();
  fake_context_pass(s->head.context, fake_stream_ready(s));
  return fake_context_take_error(s->head.context);
}

int fake_context_wait(fake_context *c)
{
  for (fake_stream *s = atomic_load_explicit(&c->streams, memory_order_acquire); s; s = s->next)
    if (fake_handle_is(s, FAKE_STREAM, c) && s->flags & NON_BLOCKING)
      fake_stream_wait(s);
  return fake_stream_wait(&c->null);
}

/* ---- streams ---- */

int fake_stream_find(fake_context *c, void *handle, fake_stream **stream)
{
  *stream = (uintptr_t)handle <= 2 ? &c->null : handle;
  return fake_handle_is(*stream, FAKE_STREAM, c) ? 0 : 400;
}

/* The stream of a handle, or the calling function is left with 400. */
#define FIND(s, context, handle)                                                                             \
  fake_stream *s;                                                                                            \
  if (fake_stream_find(context, handle, &s))                                                                 \
  return 400

int cuStreamCreate(void **stream, unsigned flags)
{
  static _Atomic unsigned long long numbers = 10;
  FAKE_ENTER_CONTEXT(cuStreamCreate, c);
  if (flags > NON_BLOCKING)
    return 1;
  fake_stream *s = fake_handle_make(sizeof *s, FAKE_STREAM, c);
  if (!s)
    return 2;
  s->flags = flags;
  s->id = numbers++;
  s->next = atomic_load(&c->streams);
  while (!atomic_compare_exchange_weak(&c->streams, &s->next, s))
    continue;
  *stream = s;
  return 0;
}

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
  (void)priority;
  return cuStreamCreate(stream, flags);
}

int cuStreamDestroy_v2(void *stream)
{
  FAKE_ENTER_CONTEXT(cuStreamDestroy_v2, c);
  FIND(s, c, stream);
  if (is_null(s))
    return 400;
  fake_handle_bury(s);
  return 0;
}

int cuStreamSynchronize(void *stream)
{
  FAKE_ENTER_CONTEXT(cuStreamSynchronize, c);
  FIND(s, c, stream);
  if (GET(s->capture))
    return fake_capture_break(GET(s->capture));
  return fake_stream_wait(s);
}

/* 600 once, then the time is over. */
static int query(fake_context *c, double time, bool hung)
{
  int error = fake_context_take_error(c);
  if (error || hung)
    return error ? error : FAT_CUDA_NOT_READY;
  if (GET(c->host) >= time)
    return 0;
  fake_context_pass(c, time);
  return FAT_CUDA_NOT_READY;
}

int cuStreamQuery(void *stream)
{
  FAKE_ENTER_CONTEXT(cuStreamQuery, c);
  FIND(s, c, stream);
  if (GET(s->capture))
    return fake_capture_break(GET(s->capture));
  return query(c, fake_stream_ready(s), fake_stream_is_hung(s));
}

int cuStreamGetCtx(void *stream, void **context)
{
  FAKE_ENTER_CONTEXT(cuStreamGetCtx, c);
  FIND(s, c, stream);
  *context = s->head.context;
  return 0;
}

/* ---- events ---- */

int cuEventCreate(void **handle, unsigned flags)
{
  FAKE_ENTER_CONTEXT(cuEventCreate, c);
  event *e = fake_handle_make(sizeof *e, FAKE_EVENT, c);
  if (!e)
    return 2;
  e->flags = flags;
  *handle = e;
  return 0;
}

int cuEventDestroy_v2(void *handle)
{
  FAKE_ENTER_CONTEXT(cuEventDestroy_v2, c);
  if (!fake_handle_is(handle, FAKE_EVENT, c))
    return 400;
  fake_handle_bury(handle);
  return 0;
}

int cuEventRecord(void *handle, void *stream)
{
  FAKE_ENTER_CONTEXT(cuEventRecord, c);
  FIND(s, c, stream);
  event *e = handle;
  if (!fake_handle_is(e, FAKE_EVENT, c))
    return 400;
  struct fake_capture *capture = GET(s->capture);
  SET(e->capture, capture);
  SET(e->time, fake_stream_ready(s));
  SET(e->state, capture ? CAPTURED : fake_stream_is_hung(s) ? HUNG : RECORDED);
  return 0;
}

int cuStreamWaitEvent(void *stream, void *handle, unsigned flags)
{
  FAKE_ENTER_CONTEXT(cuStreamWaitEvent, c);
  FIND(s, c, stream);
  event *e = handle;
  (void)flags;
  if (!fake_handle_is(e, FAKE_EVENT, c))
    return 400;
  if (GET(e->state) == CAPTURED)
    return fake_capture_join(s, GET(e->capture));
  if (GET(e->state) == HUNG)
    SET(s->hung, 1);
  if (GET(e->state) != NEVER)
    raise_to(&s->ready, GET(e->time));
  return 0;
}

int cuEventSynchronize(void *handle)
{
  FAKE_ENTER_CONTEXT(cuEventSynchronize, c);
  event *e = handle;
  if (!fake_handle_is(e, FAKE_EVENT, c))
    return 400;
  if (GET(e->state) == CAPTURED)
    return 907;
  if (GET(e->state) == HUNG)
    fake_script_hang();
  if (GET(e->state) == RECORDED)
    fake_context_pass(c, GET(e->time));
  return fake_context_take_error(c);
}

int cuEventQuery(void *handle)
{
  FAKE_ENTER_CONTEXT(cuEventQuery, c);
  event *e = handle;
  if (!fake_handle_is(e, FAKE_EVENT, c))
    return 400;
  if (GET(e->state) == CAPTURED)
    return 907;
  return GET(e->state) == NEVER ? 0 : query(c, GET(e->time), GET(e->state) == HUNG);
}

int cuEventElapsedTime(float *milliseconds, void *start, void *end)
{
  FAKE_ENTER_CONTEXT(cuEventElapsedTime, c);
  const event *pair[2] = {start, end};
  for (int i = 0; i < 2; i++) {
    if (!fake_handle_is(pair[i], FAKE_EVENT, c) || pair[i]->flags & NO_TIMING ||
        (GET(pair[i]->state) != RECORDED && GET(pair[i]->state) != HUNG))
      return 400;
    if (GET(pair[i]->state) == HUNG || GET(pair[i]->time) > GET(c->host))
      return FAT_CUDA_NOT_READY;
  }
  *milliseconds = (float)(GET(pair[1]->time) - GET(pair[0]->time));
  return fake_context_take_error(c);
}

int cuEventElapsedTime_v2(float *milliseconds, void *start, void *end)
{
  return cuEventElapsedTime(milliseconds, start, end);
}
