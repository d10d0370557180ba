"""library.py -- plans of libfatune without PyTorch: the handle, and plans that are kept and freed with their last holder."""

import collections
import ctypes
import threading

from .abi import COMPILE, MISS, Request, Sizes, check, lib

PLANS = 64  # kept; beyond that the one that was not used for longest goes
_lock = threading.Lock()  # of what follows
_handle = None
_plans = collections.OrderedDict()


class Plan:
    """A plan of the library, freed with the last who holds it. That of a family compiles a kernel when a call needs it: then the library
    has another plan for it, and calls that know the one before keep that."""

    def __init__(self, handle, problem, kernel, policy, flags=0, mod=None, mask_mod=None, sizes=None):
        self.handle, self.held = handle, []
        self.request = (problem.encode(), kernel and kernel.encode(), policy, flags, mod and mod.encode(), mask_mod and mask_mod.encode())
        self.build(sizes or Sizes(ctypes.sizeof(Sizes)))

    def build(self, sizes=None):
        """Compiles the kernel that a call of these sizes needs; without sizes all of them."""
        at, size = ctypes.c_void_p(), ctypes.sizeof(Request)
        check(self.make(ctypes.byref(Request(size, *self.request, sizes and ctypes.addressof(sizes))), ctypes.byref(at)))
        self.held.append(at)
        self.at = at

    def make(self, request, at):
        return lib.fatune_plan_make(self.handle, request, at)

    def __del__(self):
        for at in self.held if lib else ():
            lib.fatune_plan_free(at)

    def serving(self, sizes):
        """(address of a plan that has the kernel for a call of these sizes, bytes of its workspace)."""
        size = ctypes.c_size_t()
        status = lib.fatune_workspace(self.at, ctypes.byref(sizes), ctypes.byref(size))
        if status == MISS:
            self.build(sizes)
            status = lib.fatune_workspace(self.at, ctypes.byref(sizes), ctypes.byref(size))
        check(status)
        return self.at.value, size.value

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


def plan(problem, context, sizes, kernel=None, policy=COMPILE):
    """The plan of a problem or a family in the CUDA context that is current, and `sizes` of a call. `context`: what tells it from others,
    a device's number where contexts are the primary ones."""
    return kept((context, problem, kernel, policy), lambda handle: Plan(handle, problem, kernel, policy, sizes=sizes))
