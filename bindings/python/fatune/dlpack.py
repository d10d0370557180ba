"""dlpack.py -- attention on arrays of any library that speaks DLPack: CuPy's, Numba's, or PyTorch's.

    o = fatune.dlpack.attention(q, k, v, causal=True, stream=cupy.cuda.get_current_stream().ptr)

q [b, h, n, d], k and v [b, hk, m, d] on one GPU, any strides with contiguous rows. `out` and the workspace are made by the
arrays' own library (`__array_namespace__`) where they are not given. The device's context must be current in this thread,
as it is once the library has used the GPU. `mask` (bool or bytes) and `bias` (of q's type or float32) are [b or 1, h or 1, n or 1, m]. No
gradients."""

import ctypes
import math
import os

from . import abi
from .abi import Sizes
from .library import plan

CUDA, MANAGED = 2, 13  # DLDeviceType
_TYPES = {(2, 16): "f16", (2, 32): "f32", (4, 16): "bf16", (1, 8): "u8", (6, 8): "u8"}  # (DLDataTypeCode, bits)


class _DLTensor(ctypes.Structure):
    """Of a DLManagedTensor its first member, which is the tensor; the versioned form is not asked for."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class View:
    """Where an array lies: address, shape, strides in elements. The capsule is dropped unused, which frees it: the array
    itself keeps its memory."""

    def __init__(self, name, array, stream=-1):
        if not hasattr(array, "__dlpack__"):
            raise TypeError(f"{name} is a {type(array).__name__}: an array with __dlpack__ is needed")
        capsule = array.__dlpack__(stream=stream)  # -1: the order of work is the caller's
        t = _DLTensor.from_address(_pointer(capsule, b"dltensor"))
        self.name, self.array, self.device, self.where = name, array, t.device_type, t.device_id
        self.shape = tuple(t.shape[:t.ndim])
        self.strides = tuple(t.strides[:t.ndim]) if t.strides else _dense(self.shape)
        self.at = (t.data or 0) + t.byte_offset
        self.type = _TYPES.get((t.code, t.bits)) if t.lanes == 1 else None

    def check(self, shape, dtype, shared=False):
        """`shared`: dimensions but the last may be 1, whose stride is then 0."""
        if shared and len(self.shape) == len(shape):
            shape = tuple(1 if own == 1 else n for own, n in zip(self.shape[:-1], shape)) + shape[-1:]
            self.strides = tuple(0 if n == 1 else s for n, s in zip(self.shape, self.strides))
        if self.device not in (CUDA, MANAGED):
            raise ValueError(f"{self.name} is on a device of DLPack's type {self.device}: a CUDA GPU (2) is needed")
        if self.shape != shape or self.type != dtype:
            raise ValueError(f"{self.name} is {self.shape} {self.type}: {shape} {dtype} is needed")
        if self.shape[-1] > 1 and self.strides[-1] != 1:
            raise ValueError(f"{self.name} has strides {self.strides}: the last must be 1")

    def tensor(self):
        return abi.Tensor(self.at, (ctypes.c_int64 * 3)(*self.strides[:3]))


def _dense(shape):
    strides, count = [], 1
    for n in reversed(shape):
        strides.insert(0, count)
        count *= n
    return tuple(strides)


_cuda = None


def _is_current(number):
    """Whether the GPU of that number is that of the context which is current in this thread; where there is none the library will say so."""
    global _cuda
    _cuda = _cuda or ctypes.CDLL(os.environ.get("FATUNE_LIBCUDA") or "libcuda.so.1")
    current, device = ctypes.c_int(), ctypes.c_int()
    return (_cuda.cuCtxGetDevice(ctypes.byref(current)) != 0 or
            _cuda.cuDeviceGet(ctypes.byref(device), number) == 0 and device.value == current.value)


def _made(like, shape, dtype):
    """Room by the library of an array; `dtype`: a name of that library, None: the array's own."""
    if not hasattr(like, "__array_namespace__"):
        raise ValueError(f"{type(like).__name__} has no __array_namespace__ to make an array with: give out=, and workspace=")
    xp = like.__array_namespace__()
    return xp.empty(shape, dtype=like.dtype if dtype is None else getattr(xp, dtype))


def attention(q, k, v, out=None, lse=None, causal=False, scale=None, workspace=None, stream=None, kernel=None,
              policy=abi.COMPILE, mask=None, bias=None):
    """softmax(scale q k^T + mask) v, queued on `stream` (an address, None: the default stream); returns `out`. Log-sum-exps go
    to `lse`, [b, h, n] in float32, where one is given. `workspace`: an array of bytes that no other stream uses meanwhile."""
    views = {"Q": View("q", q), "K": View("k", k), "V": View("v", v)}
    if any(len(view.shape) != 4 for view in views.values()):
        raise ValueError("q, k, v need 4 dimensions: [b, h, n, d]")
    (b, h, n, d), (_, hk, m, _), dv = views["Q"].shape, views["K"].shape, views["V"].shape[3]
    dtype = views["Q"].type
    if dtype in (None, "u8"):
        raise ValueError("q is of a type that fatune has no kernels for: float16, bfloat16 or float32 is needed")
    out = _made(q, (b, h, n, dv), None) if out is None else out
    views["O"] = View("out", out)
    for name, shape in (("Q", (b, h, n, d)), ("K", (b, hk, m, d)), ("V", (b, hk, m, dv)), ("O", (b, h, n, dv))):
        views[name].check(shape, dtype)
    if lse is not None:
        views["LSE"] = View("lse", lse)
        views["LSE"].check((b, h, n), "f32")
    wide = bias is not None and dtype != "f32" and View("bias", bias).type == "f32"
    for name, word, given, type_ in (("attend", "mask", mask, "u8"), ("bias", "bias", bias, "f32" if wide else dtype)):
        if given is not None:
            views[name] = View(word, given)
            views[name].check((b, h, n, m), type_, shared=True)
    for where, name in {view.where: view.name for view in reversed(views.values()) if view.device == CUDA}.items():
        if not _is_current(where):
            raise ValueError(f"{name} is on GPU {where}, and the context that is current in this thread is another GPU's")
    family = f"fwd-{dtype}-d{d}" + ("" if d == dv else f"v{dv}") + "".join(
        f"-{word}" for word, there in (("causal", causal), ("mask", mask is not None), ("bias", bias is not None), ("bias32", wide)) if there)
    sizes = Sizes(ctypes.sizeof(Sizes), b, h, hk, n, m)
    made = plan(family, views["Q"].where, sizes, kernel, policy)
    _, need = made.serving(sizes)
    if need and workspace is None:
        workspace = _made(q, (need,), "uint8")
    room = View("workspace", workspace) if need else None
    if room and math.prod(room.shape) < need:
        raise ValueError(f"workspace has {math.prod(room.shape)} bytes: {need} are needed")
    held = {name: view.tensor() for name, view in views.items()}
    tensors = abi.Tensors(size=ctypes.sizeof(abi.Tensors), scale=1 / math.sqrt(d) if scale is None else scale,
                          **{name: ctypes.pointer(tensor) for name, tensor in held.items()})
    made.run(tensors, sizes, room and room.at, stream)
    return out
