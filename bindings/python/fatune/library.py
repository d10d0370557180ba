"""library.py -- plans of libfatune without PyTorch: the handle, and plans that are kept and freed with their last holder."""

import collections
import ctypes
import threading

from .abi import COMPILE, Request, check, lib

PLANS = 64  # kept; beyond that the one that was not used for longest goes
_lock = threading.Lock()  # of what follows
_handle = None
_plans = collections.OrderedDict()


class Plan:
    """A plan of the library, freed with the last who holds it."""

    def __init__(self, handle, problem, kernel, policy, flags=0, mod=None, mask_mod=None):
        self.at = ctypes.c_void_p()
        request = Request(ctypes.sizeof(Request), problem.encode(), kernel and kernel.encode(), policy, flags,
                          mod and mod.encode(), mask_mod and mask_mod.encode())
        check(self.make(handle, ctypes.byref(request)))

    def make(self, handle, request):
        return lib.fatune_plan_make(handle, request, ctypes.byref(self.at))

    def __del__(self):
        if self.at and lib:
            lib.fatune_plan_free(self.at)

    def workspace(self, sizes):
        size = ctypes.c_size_t()
        check(lib.fatune_workspace(self.at, ctypes.byref(sizes), ctypes.byref(size)))
        return size.value

    def run(self, tensors, sizes, workspace, stream):
        check(lib.fatune_run(self.at, ctypes.byref(tensors), ctypes.byref(sizes), workspace, stream))


def kept(key, make):
    """The plan of that key, made by make(handle) where it is not kept."""
    global _handle
    with _lock:
        if _handle is None:
            handle = ctypes.c_void_p()
            check(lib.fatune_open(None, ctypes.byref(handle)))
            _handle = handle
        if key not in _plans:
            _plans[key] = make(_handle)
        _plans.move_to_end(key)
        if len(_plans) > PLANS:
            _plans.popitem(last=False)
        return _plans[key]


def plan(problem, context, kernel=None, policy=COMPILE):
    """The plan of a problem or a family in the CUDA context that is current. `context`: what tells it from others, a
    device's number where contexts are the primary ones."""
    return kept((context, problem, kernel, policy), lambda handle: Plan(handle, problem, kernel, policy))
