/* python_abi.h -- of Python's stable interface and of DLPack's what again.c needs, declared by ourselves.
 *
 * Python's functions are found in the program that loads the library; one that is missing is NULL. DLPack's
 * table of functions hangs on a class of tensors, PyTorch's from 2.10 on. Names are ours, but Python's
 * functions'; tests/python/again_abi.c compares places with both headers where they are installed. */
#ifndef FATUNE_PYTHON_ABI_H
#define FATUNE_PYTHON_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct _object PyObject;
typedef PyObject *py_function(PyObject *self, PyObject *const *args, ptrdiff_t count);

typedef struct py_method {
  const char *name;
  py_function *at;
  int flags;
  const char *doc;
} py_method;

enum { PY_FASTCALL = 0x80 };

#ifndef Py_PYTHON_H /* the test has Python's own */
#define PYTHON __attribute__((weak)) extern
PYTHON PyObject *PyCFunction_NewEx(const py_method *method, PyObject *self, PyObject *module);
PYTHON PyObject *PyCapsule_New(void *at, const char *name, void (*destroy)(PyObject *));
PYTHON void *PyCapsule_GetPointer(PyObject *capsule, const char *name);
PYTHON PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...); /* ends with NULL */
PYTHON PyObject *PyTuple_Pack(ptrdiff_t count, ...);
PYTHON PyObject *Py_BuildValue(const char *format, ...); /* "": None */
PYTHON void Py_IncRef(PyObject *);
PYTHON void Py_DecRef(PyObject *);
PYTHON void PyErr_Clear(void);
PYTHON PyObject *PyErr_Occurred(void); /* lent; NULL: no error is set */
PYTHON void *PyEval_SaveThread(void);
PYTHON void PyEval_RestoreThread(void *thread);
#undef PYTHON
#endif

enum { DL_MAJOR = 1, DL_CUDA = 2 };

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device;
  int32_t dims;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *stride;
  uint64_t offset; /* bytes */
} dl_tensor;

typedef struct dl_functions {
  uint32_t major, minor;
  void *older;
  int (*allocate)(void);
  int (*export)(void);
  int (*import)(void);
  int (*read)(PyObject *tensor,
              dl_tensor *out); /* lent: good as long as the tensor is; -1 with Python's error */
  int (*stream)(int device_type, int32_t device, void **out);
} dl_functions;

#endif
