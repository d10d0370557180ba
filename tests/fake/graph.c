/* graph.c -- capture: what a stream is given is kept and done when the graph is launched.
 *
 * An allocation, a free or a wait by a thread that a capture concerns breaks that capture (900), and every
 * later call on it says so (901), as the real driver does: in global mode threads of relaxed mode are free to
 * do what they like, in thread-local mode other threads are. */
#include "fake.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum mode { GLOBAL, THREAD_LOCAL, RELAXED } mode;
typedef struct graph {
  fake_head head;
  int count;
  fake_work *first, *last;
} graph;
struct fake_capture {
  fake_stream *origin;
  int mode;
  pthread_t thread;
  _Atomic int broken;
  graph *graph;
  struct fake_capture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_capture *captures, *old;
static _Atomic int going;
static _Thread_local mode own_mode;

static void free_work(fake_work *w)
{
  while (w) {
    fake_work *next = w->next;
    free(w->params);
    free(w);
    w = next;
  }
}

static void empty(graph *g)
{
  free_work(g->first);
  g->first = g->last = NULL;
  g->count = 0;
}

/* A copy of work at the end of a graph. */
static int append(graph *g, const fake_work *w)
{
  fake_work *copy = malloc(sizeof *copy);
  if (!copy)
    return 2;
  *copy = *w;
  copy->next = NULL;
  copy->params = NULL;
  if (w->kind == FAKE_WORK_LAUNCH && w->function->bytes > 0) {
    size_t units = ((size_t)w->function->bytes + FAT_CUDA_MAP_ALIGN - 1) / FAT_CUDA_MAP_ALIGN;
    copy->params = aligned_alloc(FAT_CUDA_MAP_ALIGN, units * FAT_CUDA_MAP_ALIGN);
    if (!copy->params) {
      free(copy);
      return 2;
    }
    memcpy(copy->params, w->params, (size_t)w->function->bytes);
  }
  if (g->last)
    g->last->next = copy;
  else
    g->first = copy;
  g->last = copy;
  g->count++;
  return 0;
}

int fake_capture_break(struct fake_capture *capture)
{
  return atomic_exchange_explicit(&capture->broken, 1, memory_order_relaxed) ? 901 : 900;
}

int fake_capture_unsafe(void)
{
  int result = 0;
  if (atomic_load_explicit(&going, memory_order_relaxed) == 0 || own_mode == RELAXED)
    return 0;
  pthread_mutex_lock(&lock);
  for (struct fake_capture *c = captures; c; c = c->next) {
    bool own = pthread_equal(c->thread, pthread_self());
    if (c->mode != RELAXED && (own || (c->mode == GLOBAL && own_mode == GLOBAL))) {
      fake_capture_break(c);
      result = 900;
    }
  }
  pthread_mutex_unlock(&lock);
  return result;
}

int fake_capture_add(struct fake_capture *capture, const fake_work *w)
{
  if (atomic_load_explicit(&capture->broken, memory_order_relaxed))
    return 901;
  pthread_mutex_lock(&lock);
  int result = append(capture->graph, w);
  pthread_mutex_unlock(&lock);
  return result;
}

int fake_capture_join(fake_stream *s, struct fake_capture *capture)
{
  struct fake_capture *own = atomic_load_explicit(&s->capture, memory_order_relaxed);
  if (own && own != capture)
    return 902;
  atomic_store_explicit(&s->capture, capture, memory_order_relaxed);
  return 0;
}

int cuThreadExchangeStreamCaptureMode(int *given)
{
  FAKE_ENTER(cuThreadExchangeStreamCaptureMode);
  if (*given < GLOBAL || *given > RELAXED)
    return 1;
  mode before = own_mode;
  own_mode = (mode)*given;
  *given = (int)before;
  return 0;
}

int cuStreamBeginCapture_v2(void *stream, int how)
{
  FAKE_ENTER_CONTEXT(cuStreamBeginCapture_v2, c);
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  if (s == &c->null)
    return 900;
  if (how < GLOBAL || how > RELAXED || atomic_load_explicit(&s->capture, memory_order_relaxed))
    return 1;
  struct fake_capture *capture = calloc(1, sizeof *capture);
  graph *g = capture ? fake_handle_make(sizeof *g, FAKE_GRAPH, c) : NULL;
  if (!g) {
    free(capture);
    return 2;
  }
  capture->origin = s;
  capture->mode = how;
  capture->thread = pthread_self();
  capture->graph = g;
  pthread_mutex_lock(&lock);
  capture->next = captures;
  captures = capture;
  pthread_mutex_unlock(&lock);
  atomic_fetch_add_explicit(&going, 1, memory_order_relaxed);
  atomic_store_explicit(&s->capture, capture, memory_order_relaxed);
  return 0;
}

/* Takes a capture off the list and off every stream. It stays allocated: events may still name it. */
static void finish(fake_context *c, struct fake_capture *capture)
{
  pthread_mutex_lock(&lock);
  for (struct fake_capture **at = &captures; *at; at = &(*at)->next)
    if (*at == capture) {
      *at = capture->next;
      break;
    }
  capture->next = old;
  old = capture;
  pthread_mutex_unlock(&lock);
  atomic_fetch_sub_explicit(&going, 1, memory_order_relaxed);
  for (fake_stream *s = atomic_load_explicit(&c->streams, memory_order_acquire); s; s = s->next)
    if (atomic_load_explicit(&s->capture, memory_order_relaxed) == capture)
      atomic_store_explicit(&s->capture, NULL, memory_order_relaxed);
}

int cuStreamEndCapture(void *stream, void **result)
{
  FAKE_ENTER_CONTEXT(cuStreamEndCapture, c);
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  struct fake_capture *capture = atomic_load_explicit(&s->capture, memory_order_relaxed);
  *result = NULL;
  if (!capture)
    return 1;
  if (capture->origin != s)
    return 903;
  if (capture->mode != RELAXED && !pthread_equal(capture->thread, pthread_self()))
    return 908;
  finish(c, capture);
  if (atomic_load_explicit(&capture->broken, memory_order_relaxed)) {
    empty(capture->graph);
    fake_handle_bury(capture->graph);
    return 901;
  }
  *result = capture->graph;
  return 0;
}

int cuStreamIsCapturing(void *stream, int *capturing)
{
  FAKE_ENTER_CONTEXT(cuStreamIsCapturing, c);
  fake_stream *s;
  if (fake_stream_find(c, stream, &s))
    return 400;
  struct fake_capture *capture = atomic_load_explicit(&s->capture, memory_order_relaxed);
  *capturing = !capture ? 0 : atomic_load_explicit(&capture->broken, memory_order_relaxed) ? 2 : 1;
  return 0;
}

void fake_capture_reset(void)
{
  pthread_mutex_lock(&lock);
  while (captures) {
    struct fake_capture *c = captures;
    captures = c->next;
    atomic_store_explicit(&c->origin->capture, NULL, memory_order_relaxed);
    empty(c->graph);
    c->next = old;
    old = c;
  }
  pthread_mutex_unlock(&lock);
  atomic_store_explicit(&going, 0, memory_order_relaxed);
  own_mode = GLOBAL;
}

/* ---- graphs ---- */

int cuGraphInstantiateWithFlags(void **handle, void *of, unsigned long long flags)
{
  FAKE_ENTER_CONTEXT(cuGraphInstantiateWithFlags, c);
  graph *from = of;
  (void)flags;
  if (!fake_handle_is(from, FAKE_GRAPH, c))
    return 400;
  graph *exec = fake_handle_make(sizeof *exec, FAKE_EXEC, c);
  int result = exec ? 0 : 2;
  for (const fake_work *w = from->first; w && !result; w = w->next)
    result = append(exec, w);
  if (result && exec) {
    empty(exec);
    fake_handle_bury(exec);
  }
  *handle = result ? NULL : exec;
  return result;
}

int cuGraphLaunch(void *handle, void *stream)
{
  FAKE_ENTER_CONTEXT(cuGraphLaunch, c);
  graph *exec = handle;
  fake_stream *s;
  int result = fake_stream_find(c, stream, &s);
  if (result || !fake_handle_is(exec, FAKE_EXEC, c))
    return 400;
  for (const fake_work *w = exec->first; w && !result; w = w->next)
    result = fake_work_do(s, w);
  return result;
}

int cuGraphGetNodes(void *handle, void **nodes, size_t *count)
{
  FAKE_ENTER_CONTEXT(cuGraphGetNodes, c);
  graph *g = handle;
  size_t n = 0;
  if (!fake_handle_is(g, FAKE_GRAPH, c))
    return 400;
  for (fake_work *w = g->first; w && nodes && n < *count; w = w->next)
    nodes[n++] = w;
  *count = nodes ? n : (size_t)g->count;
  return 0;
}

static int destroy(fake_context *c, void *handle, fake_magic magic)
{
  if (!fake_handle_is(handle, magic, c))
    return 400;
  empty(handle);
  fake_handle_bury(handle);
  return 0;
}

int cuGraphExecDestroy(void *exec)
{
  FAKE_ENTER_CONTEXT(cuGraphExecDestroy, c);
  return destroy(c, exec, FAKE_EXEC);
}

int cuGraphDestroy(void *handle)
{
  FAKE_ENTER_CONTEXT(cuGraphDestroy, c);
  return destroy(c, handle, FAKE_GRAPH);
}
