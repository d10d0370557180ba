/* again.c -- an attention call that Python has made before, queued again.
 *
 * In: q, k, v as Python's objects. Out: what the call gives, in new tensors, queued on the stream that is
 * current; or None where no call of these shapes, strides, types and device was learned, or it cannot be
 * queued this way: then Python goes its own way, which also says what is wrong. What a call takes of the host
 * beside PyTorch's allocation and fatune_run is 4.4 us where Python reads its tensors, and 1.2 with this
 * (Python 3.12 beside an H200). A table belongs to one thread, since addresses are written into what its
 * calls hold. */
#include "python_abi.h"
#include "fatune.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { DIMS = 4, INPUTS = 3, BUCKETS = 256, CALLS = 512 }; /* CALLS: beyond that a table begins anew */

/* All that decides a call, of one input. */
typedef struct form {
  int64_t shape[DIMS], stride[DIMS];
  int32_t device_type, device;
  uint32_t type, unused; /* without a hole: forms are compared as bytes */
} form;

/* What Python says of a call; all is good as long as `owner` is, and empty_like as long as Python runs. ORDER
 * AGAIN */
typedef struct fatune_again_call {
  fatune_status (*run)(const fatune_plan *, const fatune_tensors *, const fatune_sizes *, void *, void *);
  const fatune_plan *plan;
  const fatune_tensors *tensors;
  const fatune_sizes *sizes;
  void **in[INPUTS], **o, **lse; /* where addresses go; lse: NULL where none is given back */
  void *workspace;               /* for the default stream; NULL: none is kept */
  PyObject *owner;
  PyObject *empty_like, *like_o, *like_lse; /* a function and what it takes; like_o: NULL: q */
  PyObject *room;                           /* a function that makes a workspace; NULL: none is needed */
} fatune_again_call;

typedef struct entry {
  struct entry *next; /* in its bucket */
  form forms[INPUTS];
  fatune_again_call call;
} entry;

typedef struct table {
  const dl_functions *dl;
  entry *last, *bucket[BUCKETS];
  int count;
} table;

EXPORT PyObject *fatune_again_make(const dl_functions *dl);
EXPORT int fatune_again_learn(PyObject *capsule, const fatune_again_call *call, PyObject *q, PyObject *k,
                              PyObject *v);

static const char capsule_name[] = "fatune_again";

/* Whether a tensor could be read. */
static bool read_tensor(const table *t, PyObject *tensor, dl_tensor *out)
{
  if (t->dl->read(tensor, out) == 0)
    return true;
  PyErr_Clear();
  return false;
}

static void *address_of(const dl_tensor *t)
{
  return (char *)t->data + t->offset;
}

static bool form_of(const dl_tensor *t, form *f)
{
  if (t->dims != DIMS || !t->stride)
    return false;
  memcpy(f->shape, t->shape, sizeof f->shape);
  memcpy(f->stride, t->stride, sizeof f->stride);
  f->device_type = t->device_type;
  f->device = t->device;
  f->type = (uint32_t)t->code << 24 | (uint32_t)t->bits << 16 | t->lanes;
  f->unused = 0;
  return true;
}

static unsigned bucket_of(const form forms[INPUTS])
{
  uint64_t hash = 0;
  for (int i = 0; i < INPUTS; i++)
    for (int j = 0; j < DIMS; j++)
      hash = (hash ^ (uint64_t)forms[i].shape[j] ^ (uint64_t)forms[i].stride[j] << 24) * 0x9E3779B97F4A7C15u;
  return (unsigned)(hash >> 56) % BUCKETS;
}

static entry *find(table *t, const form forms[INPUTS])
{
  if (t->last && memcmp(t->last->forms, forms, sizeof t->last->forms) == 0)
    return t->last;
  for (entry *e = t->bucket[bucket_of(forms)]; e; e = e->next)
    if (memcmp(e->forms, forms, sizeof e->forms) == 0)
      return t->last = e;
  return NULL;
}

/* Takes it out of the table; the call itself may live on in Python. */
static void drop(table *t, entry *e)
{
  entry **at = &t->bucket[bucket_of(e->forms)];
  while (*at != e)
    at = &(*at)->next;
  *at = e->next;
  if (t->last == e)
    t->last = NULL;
  t->count--;
  PyObject *owner = e->call.owner;
  free(e);
  Py_DecRef(owner);
}

static void clear(table *t)
{
  for (int i = 0; i < BUCKETS; i++)
    while (t->bucket[i])
      drop(t, t->bucket[i]);
}

static void destroy(PyObject *capsule)
{
  table *t = PyCapsule_GetPointer(capsule, capsule_name);
  if (!t)
    return;
  clear(t);
  free(t);
}

/* What Python's function gives, a tensor, and its address; NULL where it gives none, with Python's error
 * where it raised one: out of memory, or Ctrl-C. */
static PyObject *made_by(const table *t, PyObject *function, PyObject *argument, void **at)
{
  dl_tensor read;
  PyObject *tensor = PyObject_CallFunctionObjArgs(function, argument, NULL);
  if (!tensor)
    return NULL;
  if (read_tensor(t, tensor, &read)) {
    *at = address_of(&read);
    return tensor;
  }
  Py_DecRef(tensor);
  return NULL;
}

/* What one run holds. */
typedef struct held {
  PyObject *o, *lse, *room;
  void *at_o, *at_lse, *workspace, *stream;
} held;

/* Memory for all that the call writes, and the stream. */
static bool prepare(const table *t, const fatune_again_call *c, PyObject *q, const form *of_q, held *h)
{
  if (of_q->device_type == DL_CUDA && t->dl->stream(DL_CUDA, of_q->device, &h->stream) != 0) {
    PyErr_Clear();
    return false;
  }
  h->workspace = c->workspace;
  h->o = made_by(t, c->empty_like, c->like_o ? c->like_o : q, &h->at_o);
  if (h->o && c->lse)
    h->lse = made_by(t, c->empty_like, c->like_lse, &h->at_lse);
  if (!h->o || !c->lse != !h->lse)
    return false;
  if (!c->room || (c->workspace && !h->stream))
    return true;
  h->room = made_by(t, c->room, NULL, &h->workspace);
  return h->room;
}

/* Whether it was queued. Other threads of Python go on meanwhile: a full queue makes the driver wait. */
static bool queue(const fatune_again_call *c, const dl_tensor in[INPUTS], const held *h)
{
  for (int i = 0; i < INPUTS; i++)
    *c->in[i] = address_of(&in[i]);
  *c->o = h->at_o;
  if (c->lse)
    *c->lse = h->at_lse;
  void *thread = PyEval_SaveThread();
  const fatune_status status = c->run(c->plan, c->tensors, c->sizes, h->workspace, h->stream);
  PyEval_RestoreThread(thread);
  return status == FATUNE_OK;
}

static void let_go(PyObject *object)
{
  if (object)
    Py_DecRef(object);
}

/* Runs a call that was found: o, or (o, lse); NULL where it could not be queued, or with Python's error. The
 * call is a copy: what Python runs meanwhile may clear the table. */
static PyObject *run(const table *t, fatune_again_call c, const form *of_q, PyObject *q,
                     const dl_tensor in[INPUTS])
{
  held h = {0};
  PyObject *result = NULL;
  Py_IncRef(c.owner);
  if (prepare(t, &c, q, of_q, &h) && queue(&c, in, &h)) {
    if (!h.lse)
      Py_IncRef(h.o);
    result = h.lse ? PyTuple_Pack(2, h.o, h.lse) : h.o;
  }
  let_go(h.o);
  let_go(h.lse);
  let_go(h.room);
  Py_DecRef(c.owner);
  return result;
}

static bool read_forms(const table *t, PyObject *const *inputs, dl_tensor in[INPUTS], form forms[INPUTS])
{
  for (int i = 0; i < INPUTS; i++)
    if (!read_tensor(t, inputs[i], &in[i]) || !form_of(&in[i], &forms[i]))
      return false;
  return true;
}

/* again(q, k, v): see the head. A call that fails is forgotten: Python may have another plan for it by now.
 */
static PyObject *again(PyObject *self, PyObject *const *args, ptrdiff_t count)
{
  table *t = PyCapsule_GetPointer(self, capsule_name);
  form forms[INPUTS];
  dl_tensor in[INPUTS];
  entry *e;
  if (t && count == INPUTS && read_forms(t, args, in, forms) && (e = find(t, forms))) {
    PyObject *result = run(t, e->call, forms, args[0], in);
    if (result || PyErr_Occurred())
      return result;
    if ((e = find(t, forms)))
      drop(t, e);
  }
  return Py_BuildValue("");
}

static const py_method method = {"again", again, PY_FASTCALL,
                                 "again(q, k, v): their known call, queued; or None"};

static bool knows_interfaces(const dl_functions *dl)
{
  return PyCFunction_NewEx && PyCapsule_New && PyCapsule_GetPointer && PyObject_CallFunctionObjArgs &&
         PyTuple_Pack && Py_IncRef && Py_DecRef && PyErr_Clear && PyErr_Occurred && PyEval_SaveThread &&
         PyEval_RestoreThread && dl->major == DL_MAJOR && dl->read && dl->stream;
}

/* The function `again` of a table without calls, which its capsule (__self__) holds. None where Python's or
 * DLPack's interface is another, or there is no memory: ctypes of Python 3.11 crashes where it is given NULL.
 */
PyObject *fatune_again_make(const dl_functions *dl)
{
  table *t = knows_interfaces(dl) ? calloc(1, sizeof *t) : NULL;
  if (!t)
    return Py_BuildValue("");
  t->dl = dl;
  PyObject *capsule = PyCapsule_New(t, capsule_name, destroy), *function = NULL;
  if (!capsule) {
    free(t);
  } else {
    function = PyCFunction_NewEx(&method, capsule, NULL);
    Py_DecRef(capsule);
  }
  if (!function)
    PyErr_Clear();
  return function ? function : Py_BuildValue("");
}

/* Makes a call known to the table of `capsule` for tensors such as these; -1 where it cannot be. */
int fatune_again_learn(PyObject *capsule, const fatune_again_call *call, PyObject *q, PyObject *k,
                       PyObject *v)
{
  table *t = PyCapsule_GetPointer(capsule, capsule_name);
  PyObject *const inputs[INPUTS] = {q, k, v};
  dl_tensor in[INPUTS];
  form forms[INPUTS];
  if (!t || !read_forms(t, inputs, in, forms))
    return -1;
  entry *e = find(t, forms);
  if (e)
    drop(t, e);
  if (t->count >= CALLS)
    clear(t);
  e = malloc(sizeof *e);
  if (!e)
    return -1;
  memcpy(e->forms, forms, sizeof e->forms);
  e->call = *call;
  Py_IncRef(call->owner);
  entry **bucket = &t->bucket[bucket_of(forms)];
  e->next = *bucket;
  *bucket = e;
  t->count++;
  return 0;
}
