"""torch.py -- what bindings/python/fatune.py uses of PyTorch, on the memory of the fake driver.

A stand-in for machines without PyTorch: tensors with strides in device memory, one device, one stream."""

import ctypes
import os
import struct
from contextlib import contextmanager

_cu = ctypes.CDLL(os.environ["FATUNE_LIBCUDA"])
float32, float16, bfloat16, uint8 = "float32", "float16", "bfloat16", "uint8"
_BYTES = {float32: 4, float16: 2, bfloat16: 2, uint8: 1}


def _must(result):
    assert result == 0, result


class device:
    def __init__(self, name):
        self.index = name.index if isinstance(name, device) else int(name)


class Tensor:
    is_cuda, requires_grad = True, False

    def __init__(self, at, shape, strides, dtype):
        self.at, self.shape, self._strides, self.dtype, self.device = at, tuple(shape), tuple(strides), dtype, cuda.only

    def dim(self):
        return len(self.shape)

    def stride(self, dim=None):
        return self._strides if dim is None else self._strides[dim]

    def data_ptr(self):
        return self.at

    def transpose(self, a, b):
        shape, strides = list(self.shape), list(self._strides)
        shape[a], shape[b], strides[a], strides[b] = shape[b], shape[a], strides[b], strides[a]
        return Tensor(self.at, shape, strides, self.dtype)

    def at_index(self, index):
        value = ctypes.c_float()
        offset = sum(i * s for i, s in zip(index, self._strides))
        _must(_cu.cuMemcpyDtoH_v2(ctypes.byref(value), ctypes.c_uint64(self.at + 4 * offset), ctypes.c_size_t(4)))
        return value.value


def empty(shape, dtype=float32, device=None):
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    strides, count = [], 1
    for n in reversed(shape):
        strides.insert(0, count)
        count *= n
    at = ctypes.c_uint64()
    _must(_cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(max(1, count * _BYTES[dtype]))))
    return Tensor(at.value, shape, strides, dtype)


def tensor(values, shape):
    t = empty(shape)
    raw = struct.pack(f"{len(values)}f", *values)
    _must(_cu.cuMemcpyHtoD_v2(ctypes.c_uint64(t.at), raw, ctypes.c_size_t(len(raw))))
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


grad_enabled = True


class cuda:
    only = None

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def current_stream():
        return _Stream()

    @staticmethod
    @contextmanager
    def device(_):
        yield


cuda.only = device(0)
