/* xla.c -- libfatune as handlers of XLA's foreign function interface: attention in JAX programs.
 *
 * In: a call frame: arrays, dense in the order of their dimensions, and the attributes family, scale,
 * window_left, window_right. Out: work on the frame's stream, or XLA's error with libfatune's sentence. The
 * families' plans are made at their first call and kept until the process ends. Handlers are not said to be
 * fit for command buffers: their scratch memory is XLA's for one call, and a graph would replay into what
 * others own by then. */
#include "xla_abi.h"
#include "fatune.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT xla_error *fatune_xla_forward(xla_frame *frame);
EXPORT xla_error *fatune_xla_backward(xla_frame *frame);

enum { FAMILY = 256, TENSORS = 9, PLANS = 256 };

/* Where each argument and result of an op goes in fatune_tensors. */
typedef struct op {
  int arguments, results;
  size_t place[TENSORS]; /* arguments first */
} op;
#define AT(member) offsetof(fatune_tensors, member)
static const op forward = {3, 2, {AT(Q), AT(K), AT(V), AT(O), AT(LSE)}};
static const op backward = {6, 3, {AT(Q), AT(K), AT(V), AT(O), AT(LSE), AT(dO), AT(dQ), AT(dK), AT(dV)}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static fatune *library;
static fatune_plan *plans[PLANS];

static xla_error *fail(const xla_frame *frame, int code, const char *message)
{
  xla_error_create args = {.size = sizeof args, .message = message, .code = code};
  return frame->api->error_create(&args);
}

/* What libfatune said last. */
static xla_error *fail_of(const xla_frame *frame, fatune_status status)
{
  char text[1024];
  const int code = status == FATUNE_ERR_INPUT ? XLA_INVALID_ARGUMENT
                   : status == FATUNE_ERR_MEMORY || status == FATUNE_ERR_DEVICE_MEMORY
                       ? XLA_RESOURCE_EXHAUSTED
                   : status == FATUNE_ERR_UNSUPPORTED ? XLA_UNIMPLEMENTED
                                                      : XLA_INTERNAL;
  snprintf(text, sizeof text, "fatune: %s: %s", fatune_status_text(status), fatune_detail());
  return fail(frame, code, text);
}

static const void *attribute(const xla_frame *frame, const char *name, int type)
{
  const xla_attributes *a = &frame->attributes;
  for (int64_t i = 0; i < a->count; i++)
    if (a->types[i] == type && a->names[i]->length == strlen(name) &&
        memcmp(a->names[i]->at, name, a->names[i]->length) == 0)
      return a->at[i];
  return NULL;
}

static bool read_number(const xla_frame *frame, const char *name, int dtype, void *value, size_t bytes)
{
  const xla_scalar *s = attribute(frame, name, XLA_ATTR_SCALAR);
  if (!s || s->dtype != dtype)
    return false;
  memcpy(value, s->value, bytes);
  return true;
}

/* The family's plan in the context that is current, with the kernel for a call of these sizes. One reference
 * of each is kept; libfatune finds it by itself. */
static fatune_status plan_of(const char *family, const fatune_sizes *sizes, fatune_plan **plan)
{
  const fatune_request request = {
      .size = sizeof request, .problem = family, .policy = FATUNE_COMPILE, .sizes = sizes};
  fatune_status status = FATUNE_OK;
  pthread_mutex_lock(&lock);
  if (!library)
    status = fatune_open(NULL, &library);
  if (status == FATUNE_OK)
    status = fatune_plan_make(library, &request, plan);
  if (status == FATUNE_OK) {
    int i = 0;
    while (i < PLANS && plans[i] && plans[i] != *plan)
      i++;
    if (i < PLANS && plans[i])
      fatune_plan_free(*plan);
    else if (i < PLANS)
      plans[i] = *plan;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

/* A dense array [b, h, n, d] or, of numbers by row, [b, h, n]. */
static fatune_tensor dense(const xla_buffer *b)
{
  const int64_t wide = b->rank == 4 ? b->dims[3] : 1;
  return (fatune_tensor){b->data, {b->dims[1] * b->dims[2] * wide, b->dims[2] * wide, wide}};
}

static xla_error *queue(const xla_frame *frame, const fatune_plan *plan, const fatune_tensors *tensors,
                        const fatune_sizes *sizes)
{
  xla_stream_get stream = {.size = sizeof stream, .context = frame->context};
  xla_error *error = frame->api->stream_get(&stream);
  if (error)
    return error;
  size_t bytes;
  fatune_status status = fatune_workspace(plan, sizes, &bytes);
  if (status != FATUNE_OK)
    return fail_of(frame, status);
  xla_memory_allocate room = {
      .size = sizeof room, .context = frame->context, .bytes = bytes, .alignment = 256};
  if (bytes && (error = frame->api->memory_allocate(&room)))
    return error;
  status = fatune_run(plan, tensors, sizes, room.data, stream.stream);
  error = status == FATUNE_OK ? NULL : fail_of(frame, status);
  xla_memory_free give = {.size = sizeof give, .context = frame->context, .bytes = bytes, .data = room.data};
  xla_error *kept = bytes ? frame->api->memory_free(&give) : NULL; /* in the order of the stream */
  return error ? error : kept;
}

static xla_error *execute(const xla_frame *frame, const op *o)
{
  char family[FAMILY];
  fatune_tensor all[TENSORS];
  fatune_tensors tensors = {.size = sizeof tensors};
  fatune_sizes sizes = {.size = sizeof sizes};
  fatune_plan *plan;
  const xla_text *text = attribute(frame, "family", XLA_ATTR_STRING);
  if (!text || text->length >= FAMILY || frame->arguments.count != o->arguments ||
      frame->results.count != o->results ||
      !read_number(frame, "scale", XLA_F32, &tensors.scale, sizeof tensors.scale) ||
      !read_number(frame, "window_left", XLA_S64, &sizes.window_left, sizeof sizes.window_left) ||
      !read_number(frame, "window_right", XLA_S64, &sizes.window_right, sizeof sizes.window_right))
    return fail(frame, XLA_INVALID_ARGUMENT,
                "fatune: this call has other arguments or attributes than fatune.xla makes: both must be of "
                "one release");
  memcpy(family, text->at, text->length);
  family[text->length] = 0;
  for (int i = 0; i < o->arguments + o->results; i++) {
    const xla_buffer *b = i < o->arguments ? frame->arguments.at[i] : frame->results.at[i - o->arguments];
    if (b->rank != 3 && b->rank != 4)
      return fail(frame, XLA_INVALID_ARGUMENT, "fatune: arrays of 4 dimensions are needed, [b, h, n, d]");
    all[i] = dense(b);
    const fatune_tensor *at = &all[i];
    memcpy((char *)&tensors + o->place[i], &at, sizeof at);
  }
  const xla_buffer *q = frame->arguments.at[0], *k = frame->arguments.at[1];
  sizes.b = q->dims[0];
  sizes.h = q->dims[1];
  sizes.hk = k->dims[1];
  sizes.q = q->dims[2];
  sizes.k = k->dims[2];
  const fatune_status status = plan_of(family, &sizes, &plan);
  return status == FATUNE_OK ? queue(frame, plan, &tensors, &sizes) : fail_of(frame, status);
}

static xla_error *handle(xla_frame *frame, const op *o)
{
  for (xla_extension *e = frame->extension; e; e = e->next)
    if (e->type == XLA_METADATA) { /* a question when the handler is registered */
      xla_metadata *m = ((xla_metadata_extension *)e)->metadata;
      m->version.major = XLA_API_MAJOR;
      m->version.minor = XLA_API_MINOR;
      m->traits = 0;
      return NULL;
    }
  return frame->stage == XLA_EXECUTE ? execute(frame, o) : NULL;
}

xla_error *fatune_xla_forward(xla_frame *frame)
{
  return handle(frame, &forward);
}

xla_error *fatune_xla_backward(xla_frame *frame)
{
  return handle(frame, &backward);
}
