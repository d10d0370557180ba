"""abi.py -- libfatune by ctypes: its structs, its functions, its errors. Needs no PyTorch.

The library is the one that FATUNE_LIBRARY names, else that of this package, else libfatune.so.0 where the linker finds it."""

import ctypes
import os

FALLBACK, FAIL, COMPILE = 0, 1, 2  # fatune_policy
# fatune_status: nothing can do it; not stored, or not compiled yet; this thread has not used the GPU yet; not so aligned
UNSUPPORTED, MISS, NO_CONTEXT, ALIGNMENT = 3, 4, 8, 15
ALIGNED = 1  # a flag of fatune_request
ALL = -1  # a side of a window without an end
HERE = os.path.dirname(os.path.abspath(__file__))


class Error(RuntimeError):
    """A call of libfatune failed; `status` is its fatune_status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status

    def __reduce__(self):  # so that it passes from one process to another
        return type(self), (self.status, str(self))


class Request(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("problem", ctypes.c_char_p), ("kernel", ctypes.c_char_p),
                ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("mod", ctypes.c_char_p), ("mask_mod", ctypes.c_char_p),
                ("sizes", ctypes.c_void_p)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("stride", ctypes.c_int64 * 3)]


# Members of fatune_tensors and fatune_sizes in their order; what stands between is no tensor.
FORWARD, BACKWARD, FEATURES = ("Q", "K", "V", "O", "LSE"), ("dO", "dQ", "dK", "dV"), (
    "sink", "slopes", "dsink", "used_q", "used_k", "lpad", "dLSE", "prefix", "cu_q", "cu_k", "lo", "hi", "rng", "attend", "bias", "dbias", "table0",
    "table1", "table2", "table3", "blocks")
NAMES = FORWARD + BACKWARD + FEATURES
SIZES = ("b", "h", "hk", "q", "k", "total_q", "total_k", "window_left", "window_right", "chunk", "split", "block_q", "block_k")


def pointers(names):
    return [(name, ctypes.POINTER(Tensor)) for name in names]


class Tensors(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), *pointers(FORWARD), ("scale", ctypes.c_float), ("reserved", ctypes.c_uint32),
                *pointers(BACKWARD + FEATURES[:1]), ("softcap", ctypes.c_float), ("dropout", ctypes.c_float), *pointers(FEATURES[1:])]


class Sizes(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in SIZES]


def packaged(*parts):
    """A file of this package, or None where this is no installed package."""
    path = os.path.join(HERE, *parts)
    return path if os.path.exists(path) else None


def beside(name, variable):
    """The path of another library of ours: what the variable names, else that beside libfatune, else as the linker finds it."""
    folder = os.path.dirname(os.environ.get("FATUNE_LIBRARY", "")) or os.path.join(HERE, "lib")
    path = os.path.join(folder, name)
    return os.environ.get(variable) or (path if os.path.exists(path) else name)


def _load():
    lib = ctypes.CDLL(os.environ.get("FATUNE_LIBRARY") or packaged("lib", "libfatune.so.0") or "libfatune.so.0")
    at, size = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    for name, result, arguments in (
            ("status_text", ctypes.c_char_p, [ctypes.c_int]), ("detail", ctypes.c_char_p, []), ("version", ctypes.c_char_p, []),
            ("describe", ctypes.c_char_p, [at]), ("open", ctypes.c_int, [at, ctypes.POINTER(at)]),
            ("plan_make", ctypes.c_int, [at, ctypes.POINTER(Request), ctypes.POINTER(at)]), ("plan_free", None, [at]),
            ("workspace", ctypes.c_int, [at, ctypes.POINTER(Sizes), size]), ("run", ctypes.c_int, [at] * 5)):
        call = getattr(lib, "fatune_" + name)
        call.restype, call.argtypes = result, arguments
    return lib


lib = _load()


def check(status):
    if status != 0:
        raise Error(status, f"{lib.fatune_status_text(status).decode()}: {lib.fatune_detail().decode(errors='replace')}")


def version():
    return lib.fatune_version().decode()
