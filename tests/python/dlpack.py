"""dlpack.py -- attention through DLPack, without PyTorch: arrays of this file's own, in the fake driver's memory."""

import ctypes
import math
import os
import random
import struct
import sys

import fatune
from fatune import dlpack

import refusal

assert "torch" not in sys.modules
cu = ctypes.CDLL(os.environ["FATUNE_LIBCUDA"])
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Array:
    """A float32 (or float16, or byte) array with a byte offset, as DLPack allows."""
    letter = {32: "f", 16: "e", 8: "B"}

    def __init__(self, shape, strides=None, values=None, device=2, code=2, bits=32, offset=64, number=0):
        self.shape, self.strides, self.dtype = shape, strides or dlpack._dense(shape), (code, bits)
        count = math.prod(shape)
        at = ctypes.c_uint64()
        assert cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(count * bits // 8 + offset)) == 0
        self.at, self.offset, self.device, self.number, self.asked = at.value, offset, device, number, None
        if values is not None:
            raw = struct.pack(f"{count}{self.letter[bits]}", *values)
            assert cu.cuMemcpyHtoD_v2(ctypes.c_uint64(self.at + offset), raw, ctypes.c_size_t(len(raw))) == 0

    def __dlpack__(self, stream=None):
        self.asked = stream
        n = len(self.shape)
        self.held = dlpack._DLTensor(self.at, self.device, self.number, n, *self.dtype, 1, (ctypes.c_int64 * n)(*self.shape),
                                     (ctypes.c_int64 * n)(*self.strides), self.offset)
        return new(ctypes.addressof(self.held), b"dltensor", None)

    def __array_namespace__(self):
        return Namespace

    def numbers(self):
        count, bits = math.prod(self.shape), self.dtype[1]
        raw = ctypes.create_string_buffer(count * bits // 8)
        assert cu.cuMemcpyDtoH_v2(raw, ctypes.c_uint64(self.at + self.offset), ctypes.c_size_t(len(raw))) == 0
        return struct.unpack(f"{count}{self.letter[bits]}", raw.raw)


class Namespace:
    uint8 = (1, 8)
    made = []

    @staticmethod
    def empty(shape, dtype):
        Namespace.made.append(dtype)
        return Array(shape, code=dtype[0], bits=dtype[1], offset=0)


def refused(call, *words):
    refusal.refused(call, (ValueError, TypeError, fatune.Error), *words)


context, number = ctypes.c_void_p(), ctypes.c_int()
assert cu.cuInit(0) == 0 and cu.cuDeviceGet(ctypes.byref(number), 0) == 0
assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0 and cu.cuCtxSetCurrent(context) == 0
random.seed(2)
n, m, d = 3, 5, 8
drawn = [[random.uniform(-1, 1) for _ in range(rows * d)] for rows in (n, m, m)]
q, k, v = (Array((1, 1, rows, d), values=values) for rows, values in zip((n, m, m), drawn))
lse = Array((1, 1, n))
for kernel in (None, "standard"):  # which has a workspace
    found = dlpack.attention(q, k, v, lse=lse, causal=True, kernel=kernel).numbers()
    for i in range(n):
        seen = range(i + m - n + 1)
        p = [math.exp(sum(drawn[0][i * d + x] * drawn[1][j * d + x] for x in range(d)) / math.sqrt(d)) for j in seen]
        assert abs(lse.numbers()[i] - math.log(sum(p))) < 1e-4
        for x in range(d):
            right = sum(w * drawn[2][j * d + x] for w, j in zip(p, seen)) / sum(p)
            assert abs(found[i * d + x] - right) < 1e-4, (i, x, found[i * d + x], right)
seen, added = [random.random() < 0.6 or j == 0 for _ in range(n) for j in range(m)], [random.uniform(-2, 2) for _ in range(m)]
mask, bias = Array((1, 1, n, m), values=seen, code=6, bits=8), Array((1, 1, 1, m), (9, 9, 9, 1), added)
found = dlpack.attention(q, k, v, mask=mask, bias=bias).numbers()
halves = (Array((1, 1, rows, d), values=values, bits=16) for rows, values in zip((n, m, m), drawn))
rounded = dlpack.attention(*halves, mask=mask, bias=bias).numbers()  # a bias of float32 beside halves
assert max(abs(a - b) for a, b in zip(found, rounded)) < 4e-3
for i in range(n):
    p = [seen[i * m + j] * math.exp(sum(drawn[0][i * d + x] * drawn[1][j * d + x] for x in range(d)) / math.sqrt(d) + added[j])
         for j in range(m)]
    for x in range(d):
        right = sum(w * drawn[2][j * d + x] for j, w in enumerate(p)) / sum(p)
        assert abs(found[i * d + x] - right) < 1e-4, (i, x, found[i * d + x], right)
refused(lambda: dlpack.attention(q, k, v, mask=bias), "mask is (1, 1, 1, 5) f32", "u8")
refused(lambda: dlpack.attention(q, k, v, bias=Array((1, 1, 1, 4))), "bias is", "(1, 1, 1, 5)")
assert q.asked == -1 and Namespace.made[0] == (2, 32) and Namespace.uint8 in Namespace.made
out = Array((1, 1, n, d))
assert dlpack.attention(q, k, v, out=out) is out
refused(lambda: dlpack.attention([1], k, v), "q is a list", "__dlpack__")
refused(lambda: dlpack.attention(q, k, Array((1, 1, 4, d))), "v is (1, 1, 4, 8)", "(1, 1, 5, 8)")
refused(lambda: dlpack.attention(q, k, v, out=Array((1, 1, n, d), device=1)), "out is on a device")
refused(lambda: dlpack.attention(q, k, Array((1, 1, m, d), (40, 40, 1, 5))), "the last must be 1")
refused(lambda: dlpack.attention(q, k, Array((1, 1, m, d), number=1)), "v is on GPU 1", "another GPU")
refused(lambda: dlpack.attention(Array((1, 1, n, d), code=0), k, v), "float16, bfloat16 or float32")
refused(lambda: dlpack.attention(q, k, v, kernel="standard", workspace=Array((1,), code=1, bits=8)), "bytes")
cu.fake_canaries()
assert cu.fake_findings() == 0
print("DLPack: right")
