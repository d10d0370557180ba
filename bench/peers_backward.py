"""peers_backward.py -- how a backward is timed: the gradients of a forward that PyTorch recorded, alone or together with it.

autograd.grad on a graph that is kept runs what a training step runs and queues nothing beside it: the inputs are leaves, so
that no gradient is added to another. The gradient of O has the strides of that peer's O, as a layer behind it would give
it; another layout some libraries copy first.
"""

import contextlib

import torch


def leaves_of(*tensors):
    return [t.detach().requires_grad_() for t in tensors]


def like(tensor, strides_of):
    """Its numbers, laid out as another tensor of that shape is."""
    return torch.empty_strided(strides_of.shape, strides_of.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def recorded(forward, leaves, dO, op):
    """A call that gives (dQ, dK, dV): of `op` bwd from one forward made now, of both with a forward in each call."""
    out = forward()
    if not out.requires_grad:
        raise RuntimeError("it records no gradient")
    dO = like(dO, out.detach())
    if op == "both":
        return lambda: torch.autograd.grad(forward(), leaves, dO)
    return lambda: torch.autograd.grad(out, leaves, dO, retain_graph=True)


@contextlib.contextmanager
def deterministic():
    """PyTorch's own backends take kernels whose results have equal bits. It would fill each new tensor with NaN, too: that
    would be timed."""
    had, filled = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(had)
        torch.utils.deterministic.fill_uninitialized_memory = filled
