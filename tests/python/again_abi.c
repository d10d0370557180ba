/* again_abi.c -- our declarations of Python's and DLPack's interfaces beside their own, where both are
 * installed (run.sh). */
#include <Python.h>

#include <ATen/dlpack.h>

#include "python_abi.h"

#define PLACE(ours, member, theirs, name)                                                                    \
  _Static_assert(offsetof(ours, member) == offsetof(theirs, name), #ours "." #member);
PLACE(py_method, at, PyMethodDef, ml_meth)
PLACE(py_method, flags, PyMethodDef, ml_flags)
PLACE(py_method, doc, PyMethodDef, ml_doc)
_Static_assert(PY_FASTCALL == METH_FASTCALL, "flags");
_Static_assert(sizeof(ptrdiff_t) == sizeof(Py_ssize_t), "count");
PLACE(dl_tensor, device_type, DLTensor, device.device_type)
PLACE(dl_tensor, device, DLTensor, device.device_id)
PLACE(dl_tensor, dims, DLTensor, ndim)
PLACE(dl_tensor, code, DLTensor, dtype.code)
PLACE(dl_tensor, bits, DLTensor, dtype.bits)
PLACE(dl_tensor, lanes, DLTensor, dtype.lanes)
PLACE(dl_tensor, shape, DLTensor, shape)
PLACE(dl_tensor, stride, DLTensor, strides)
PLACE(dl_tensor, offset, DLTensor, byte_offset)
_Static_assert(sizeof(dl_tensor) == sizeof(DLTensor), "tensor");
PLACE(dl_functions, major, DLPackExchangeAPI, header.version.major)
PLACE(dl_functions, read, DLPackExchangeAPI, dltensor_from_py_object_no_sync)
PLACE(dl_functions, stream, DLPackExchangeAPI, current_work_stream)
_Static_assert(DL_MAJOR == DLPACK_MAJOR_VERSION && DL_CUDA == kDLCUDA, "numbers");
