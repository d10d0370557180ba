"""lent.py -- tensors of PyTorch's or of the stand-in's, which the fake driver's kernels read and write.

PyTorch's are the CPU's and pass for a GPU's: each call of the binding gets copies in the fake driver's memory, with the
same strides, and what the kernels made of them is copied back."""

import ctypes
import itertools
import os

import torch
from fatune import tensors as fatune

is_real = hasattr(torch, "__version__")
_cu = ctypes.CDLL(os.environ["FATUNE_LIBCUDA"])


def _memory(size):
    at = ctypes.c_uint64()
    assert _cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(max(1, size))) == 0
    return at.value


def _room(size, _):
    return torch.frombuffer((ctypes.c_char * size).from_address(_memory(size)), dtype=torch.uint8)


class _Lent:
    """A tensor's elements, and what lies between them, in the fake driver's memory."""

    def __init__(self, tensor):
        self.tensor = tensor
        count = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
        self.size = ctypes.c_size_t(count * tensor.element_size())
        self.at = _memory(self.size.value)
        assert _cu.cuMemcpyHtoD_v2(ctypes.c_uint64(self.at), ctypes.c_void_p(tensor.data_ptr()), self.size) == 0

    def data_ptr(self):
        return self.at

    def give_back(self):
        """The elements alone: others' may lie between them, as in a packed tensor."""
        room = torch.empty(self.size.value, dtype=torch.uint8)
        assert _cu.cuMemcpyDtoH_v2(ctypes.c_void_p(room.data_ptr()), ctypes.c_uint64(self.at), self.size) == 0
        with torch.no_grad():
            if self.tensor.numel() and not any(n > 1 and s == 0 for n, s in zip(self.tensor.shape, self.tensor.stride())):
                self.tensor.data.copy_(room.view(self.tensor.dtype).as_strided(self.tensor.shape, self.tensor.stride()))
        assert _cu.cuMemFree_v2(ctypes.c_uint64(self.at)) == 0


def _pass_for_cuda():
    init, run, queue = fatune._Call.__init__, fatune._Call.run, fatune._Call.queue

    def init_lent(call, made, sizes, scale, given, prepared=False, place=None):
        init(call, made, sizes, scale, given, prepared, place)
        call.given = [tensor for tensor in given.values() if tensor is not None] if prepared else None

    def run_lent(call, tensors):
        lent = [_Lent(tensor) for tensor in tensors if tensor is not None]
        run(call, lent)
        for one in lent:
            one.give_back()

    def forward_lent(call, q, k, v, out, sink):
        out = fatune._empty_like(q if call.out is None else call.out) if out is None else out
        lse = None if call.lse is None else fatune._empty_like(call.lse)
        call.run((q, k, v, out, lse, sink))
        return out if lse is None else (out, lse)

    def queue_lent(call):
        given, call.given = call.given, None
        queue(call) if given is None else call.run(given)  # which comes here again
        call.given = given
    fatune._Call.__init__, fatune._Call.queue = init_lent, queue_lent
    torch.Tensor.is_cuda = True
    torch.cuda.device = lambda _: torch.no_grad()
    fatune.again.is_there = False  # it would hand over the CPU's memory
    fatune._Call.run, fatune._Call.forward, fatune._room, fatune._stream = run_lent, forward_lent, _room, lambda _: 0


def begin():
    """The fake driver's context is current, as a GPU's would be."""
    context, number = ctypes.c_void_p(), ctypes.c_int()
    assert _cu.cuInit(0) == 0 and _cu.cuDeviceGet(ctypes.byref(number), 0) == 0
    assert _cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0 and _cu.cuCtxSetCurrent(context) == 0
    if is_real:
        _pass_for_cuda()


def check_driver():
    """The driver saw nothing wrong: canaries, races, memory that nobody wrote."""
    _cu.fake_finding.restype = ctypes.c_char_p
    _cu.fake_canaries()
    assert _cu.fake_findings() == 0, _cu.fake_finding(0)


def make(values, shape, dtype=torch.float32, mixed=False, needed=True):
    """A tensor of numbers that requires a gradient if needed; mixed: its rows lie before its heads."""
    if mixed:
        t = torch.empty((shape[0], shape[2], shape[1], shape[3]), dtype=dtype).transpose(1, 2)
    else:
        t = torch.empty(shape, dtype=dtype)
    for value, index in zip(values, itertools.product(*map(range, shape))):
        put(t, index, value)
    t.requires_grad = needed
    return t


def put(t, index, value):
    if is_real:
        with torch.no_grad():
            t[index] = value
    else:
        t.put(index, value)


def numbers(t):
    """Its elements, the last dimension fastest."""
    if is_real:
        return t.detach().double().reshape(-1).tolist()
    return [t.at_index(index) for index in itertools.product(*map(range, t.shape))]


def row(values, shape=None):
    """Numbers that require no gradient."""
    return make(values, shape or (len(values),), needed=False)


def words(values):
    """64-bit numbers."""
    return torch.tensor(values, dtype=torch.int64) if is_real else torch.tensor(values, (len(values),), torch.int64)
