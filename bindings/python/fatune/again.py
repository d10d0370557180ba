"""again.py -- calls of torch tensors that a thread has made before, found and queued by libfatune-python in one step.

Reading three tensors, finding their call and writing its addresses takes longer in Python than all else of a call together.
PyTorch from 2.10 on shows C functions that read a tensor (DLPack's __dlpack_c_exchange_api__); where those or the library are
missing, `is_there` is False and tensors.py does it all."""

import ctypes

import torch

from . import abi


class _Learned(ctypes.Structure):  # fatune_again_call. ORDER AGAIN
    _fields_ = [(name, ctypes.c_void_p) for name in ("run", "plan", "tensors", "sizes", "q", "k", "v", "o", "lse", "workspace")] + [
        (name, ctypes.py_object) for name in ("owner", "empty_like", "like_o", "like_lse", "room")]


def _load():
    """The library and the address of PyTorch's functions; None where one of them is missing, or not as the library knows it."""
    capsule, py = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None), ctypes.py_object
    if capsule is None:
        return None
    try:
        library = ctypes.PyDLL(abi.beside("libfatune-python.so.0", "FATUNE_PYTHON"))
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [py, ctypes.c_char_p]
        library.fatune_again_make.restype, library.fatune_again_make.argtypes = py, [ctypes.c_void_p]
        library.fatune_again_learn.argtypes = [py, ctypes.POINTER(_Learned), py, py, py]
        functions = pointer(capsule, b"dlpack_exchange_api")
    except OSError:
        return None
    return (library, functions) if library.fatune_again_make(functions) else None


_library, _functions = _load() or (None, None)
is_there = _library is not None


def function():
    """again(q, k, v) -> what their known call gives, queued; None where none is known. For one thread. Knows no call yet."""
    made = _library.fatune_again_make(_functions)
    if made is None:
        raise MemoryError
    return made


def learn(again, call, run, empty_like, q, k, v):
    """Makes a call of tensors.py known to `again`, for tensors such as q, k, v."""
    place = call.place
    learned = _Learned(ctypes.cast(run, ctypes.c_void_p), call.plan, call.tensors, call.sizes, place("Q"), place("K"), place("V"),
                       place("O"), None if call.lse is None else place("LSE"), call.at, call, empty_like)
    for name, value in (("like_o", call.out), ("like_lse", call.lse), ("room", call.room if call.size else None)):
        if value is not None:
            setattr(learned, name, value)
    _library.fatune_again_learn(again.__self__, ctypes.byref(learned), q, k, v)
