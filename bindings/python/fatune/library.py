"""library.py -- plans of libfatune without PyTorch: the handle, and plans that are kept and freed with their last holder."""

import collections
import ctypes
import threading

from .abi import COMPILE, Error, Request, check, lib

PLANS = 64  # kept; beyond that the one that was not used for longest goes
_lock = threading.Lock()  # of what follows
_handle = None
_plans = collections.OrderedDict()


class Plan:
    def __init__(self, handle, problem, kernel, policy):
        self.at = ctypes.c_void_p()
        request = Request(ctypes.sizeof(Request), problem.encode(), kernel and kernel.encode(), policy, 0)
        check(lib.fatune_plan_make(handle, ctypes.byref(request), ctypes.byref(self.at)))

    def __del__(self):
        if self.at and lib:
            lib.fatune_plan_free(self.at)

    def workspace(self, sizes):
        size = ctypes.c_size_t()
        check(lib.fatune_workspace(self.at, ctypes.byref(sizes), ctypes.byref(size)))
        return size.value

    def run(self, tensors, sizes, workspace, stream):
        check(lib.fatune_run(self.at, ctypes.byref(tensors), ctypes.byref(sizes), workspace, stream))


def plan(problem, context, kernel=None, policy=COMPILE):
    """The plan of a problem or a family in the CUDA context that is current. `context`: what tells it from others, a
    device's number where contexts are the primary ones."""
    global _handle
    key = (context, problem, kernel, policy)
    with _lock:
        if _handle is None:
            _handle = ctypes.c_void_p()
            try:
                check(lib.fatune_open(None, ctypes.byref(_handle)))
            except Error:
                _handle = None
                raise
        if key not in _plans:
            _plans[key] = Plan(_handle, problem, kernel, policy)
        _plans.move_to_end(key)
        if len(_plans) > PLANS:
            _plans.popitem(last=False)
        return _plans[key]
