"""torch.py -- what bindings/python/fatune/tensors.py uses of PyTorch, on the memory of the fake driver.

A stand-in for machines without PyTorch: tensors with strides in device memory, one device, one stream, and of autograd
one function between leaves and outputs."""

import ctypes
import itertools
import math
import os
import struct
from contextlib import contextmanager

_cu = ctypes.CDLL(os.environ["FATUNE_LIBCUDA"])
float32, float16, bfloat16, uint8, int32, int64 = "float32", "float16", "bfloat16", "uint8", "int32", "int64"
_BYTES = {float32: 4, float16: 2, bfloat16: 2, uint8: 1, int32: 4, int64: 8}


def _must(result):
    assert result == 0, result


class device:
    def __init__(self, name):
        self.index = name.index if isinstance(name, device) else int(name)


class Tensor:
    is_cuda = True

    def __init__(self, at, shape, strides, dtype):
        self.at, self.shape, self._strides, self.dtype, self.device = at, tuple(shape), tuple(strides), dtype, cuda.only
        self.requires_grad, self.made_by = False, None

    def dim(self):
        return len(self.shape)

    def get_device(self):
        return 0

    def stride(self, dim=None):
        return self._strides if dim is None else self._strides[dim]

    def data_ptr(self):
        return self.at

    def element_size(self):
        return _BYTES[self.dtype]

    def transpose(self, a, b):
        shape, strides = list(self.shape), list(self._strides)
        shape[a], shape[b], strides[a], strides[b] = shape[b], shape[a], strides[b], strides[a]
        return Tensor(self.at, shape, strides, self.dtype)

    def expand(self, shape):
        more = [0] * (len(shape) - self.dim())
        strides = more + [0 if n == 1 else s for n, s in zip(self.shape, self._strides)]
        return Tensor(self.at, shape, strides, self.dtype)

    def new_empty(self, shape, dtype=None):
        return empty(shape, dtype or self.dtype)

    def contiguous(self):
        copy = empty(self.shape, self.dtype)
        for index in itertools.product(*map(range, self.shape)):
            _copy(_cu.cuMemcpyDtoD_v2, copy.address(index), self.address(index), _BYTES[self.dtype])
        return copy

    def address(self, index):
        return ctypes.c_uint64(self.at + _BYTES[self.dtype] * sum(i * s for i, s in zip(index, self._strides)))

    def at_index(self, index):
        raw = ctypes.create_string_buffer(4)
        _copy(_cu.cuMemcpyDtoH_v2, raw, self.address(index), _BYTES[self.dtype])
        if self.dtype == bfloat16:
            return struct.unpack("f", b"\0\0" + raw.raw[:2])[0]
        return struct.unpack("e", raw.raw[:2])[0] if self.dtype == float16 else struct.unpack("f", raw.raw)[0]

    def put(self, index, value):
        raw = struct.pack("e" if self.dtype == float16 else "f", value)
        _copy(_cu.cuMemcpyHtoD_v2, self.address(index), raw[2:] if self.dtype == bfloat16 else raw, _BYTES[self.dtype])


class _DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("dims", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("stride", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


_Read = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_DlTensor))
_Stream_of = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _DlFunctions(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("others", ctypes.c_void_p * 4), ("read", _Read), ("stream", _Stream_of)]


_CODES = {bfloat16: 4, uint8: 1, int32: 0, int64: 0}  # of types; float: 2
stream_now = None


@_Read
def _dl_read(tensor, out):
    if not isinstance(tensor, Tensor):
        return -1  # PyTorch's sets an error too, which a function of ctypes cannot
    tensor.lent = [(ctypes.c_int64 * tensor.dim())(*numbers) for numbers in (tensor.shape, tensor.stride())]
    at = out.contents
    at.data, at.device_type, at.device, at.dims = tensor.at, 2, 0, tensor.dim()
    at.code, at.bits, at.lanes, at.offset = _CODES.get(tensor.dtype, 2), 8 * tensor.element_size(), 1, 0
    at.shape, at.stride = (ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64)) for numbers in tensor.lent)
    return 0


@_Stream_of
def _dl_stream(device_type, device, out):
    assert (device_type, device) == (2, 0)
    out[0] = stream_now
    return 0


_dl_functions = _DlFunctions(1, 3, (ctypes.c_void_p * 4)(), _dl_read, _dl_stream)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_dl_name = b"dlpack_exchange_api"  # the capsule keeps its address
Tensor.__dlpack_c_exchange_api__ = _new_capsule(ctypes.addressof(_dl_functions), _dl_name, None)


def _copy(call, to, source, count):
    _must(call(to, source, ctypes.c_size_t(count)))


def _dense(shape):
    strides, count = [], 1
    for n in reversed(shape):
        strides.insert(0, count)
        count *= n
    return strides


def empty(shape, dtype=float32, device=None):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    at = ctypes.c_uint64()
    _must(_cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(max(1, math.prod(shape) * _BYTES[dtype]))))
    return Tensor(at.value, shape, _dense(shape), dtype)


def empty_like(tensor):
    """With the tensor's strides where its elements fill their memory."""
    made = empty(tensor.shape, tensor.dtype)
    order = sorted((i for i, n in enumerate(tensor.shape) if n > 1), key=lambda i: -tensor.stride(i))
    strides = _dense([tensor.shape[i] for i in order])
    if [tensor.stride(i) for i in order] == strides:
        made._strides = tensor.stride()
    return made


def zeros_like(tensor):
    made = empty_like(tensor)
    for index in itertools.product(*map(range, made.shape)):
        made.put(index, 0.0)
    return made


def zeros(shape, dtype=float32, device=None):
    t = empty(shape, dtype)
    raw = bytes(math.prod(t.shape) * _BYTES[dtype])
    _copy(_cu.cuMemcpyHtoD_v2, ctypes.c_uint64(t.at), raw, len(raw))
    return t


def tensor(values, shape, dtype=float32):
    t = empty(shape, dtype)
    raw = struct.pack(f"{len(values)}{dict(int32='i', int64='q', float16='e').get(dtype, 'f')}", *values)
    _copy(_cu.cuMemcpyHtoD_v2, ctypes.c_uint64(t.at), raw, len(raw))
    return t


class _Stream:
    cuda_stream = None

    def synchronize(self):
        context = ctypes.c_void_p()
        _must(_cu.cuInit(0))
        number = ctypes.c_int()
        _must(_cu.cuDeviceGet(ctypes.byref(number), 0))
        _must(_cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
        _must(_cu.cuCtxSetCurrent(context))


def is_grad_enabled():
    return grad_enabled


def are_deterministic_algorithms_enabled():
    return deterministic


grad_enabled, deterministic = True, False


class _C:
    pass


class _Context:
    saved_tensors, materializes = (), True

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def set_materialize_grads(self, value):
        self.materializes = value


class Function:
    @classmethod
    def apply(cls, *arguments):
        global grad_enabled
        context = _Context()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in arguments)
        grad_enabled = False
        try:
            results = cls.forward(context, *arguments)
        finally:
            grad_enabled = True
        all_ = results if isinstance(results, tuple) else (results,)
        for result in all_:
            result.requires_grad, result.made_by = True, (cls, context, arguments, all_)
        return results


def _grad(output, inputs, gradient):
    global grad_enabled
    cls, context, arguments, results = output.made_by
    assert not context.materializes
    grad_enabled = False
    try:
        found = cls.backward(context, *(gradient if result is output else None for result in results))
    finally:
        grad_enabled = True
    assert len(found) == len(arguments)
    for is_needed, argument, part in zip(context.needs_input_grad, arguments, found):
        assert (part is not None) == is_needed and (part is None or part.shape == argument.shape)
    return tuple(next(g for a, g in zip(arguments, found) if a is wanted) for wanted in inputs)


class autograd:
    Function, grad = Function, staticmethod(_grad)


class cuda:
    only = None

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def current_stream(_=None):
        return _Stream()

    @staticmethod
    @contextmanager
    def device(_):
        yield


cuda.only = device(0)
