"""ops.py -- attention as operators of PyTorch, which torch.compile puts into a graph: fatune::attention and
fatune::attention_backward, with what they return as fake tensors. fatune.attention calls them where it is compiled, and goes
its shorter way where it is not. The plans are those of families, so a new length compiles nothing anew."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import tensors

@torch.library.custom_op("fatune::attention", mutates_args=())
def forward(q: Tensor, k: Tensor, v: Tensor, sink: Optional[Tensor], causal: bool, scale: Optional[float], left: int, right: int,
            arithmetic: Optional[str], deterministic: bool, split: int, kernel: Optional[str],
            policy: int) -> Tuple[Tensor, Tensor]:
    with torch.no_grad():
        return tensors.attention(q, k, v, causal, scale, None, True, kernel, policy, arithmetic, (left, right), sink, None, split)


@forward.register_fake
def _(q, k, v, sink, *options):
    return (torch.empty_like(q) if v.shape[3] == q.shape[3] else q.new_empty((*q.shape[:3], v.shape[3])),
            q.new_empty(q.shape[:3], dtype=torch.float32))


@torch.library.custom_op("fatune::attention_backward", mutates_args=())
def backward(dO: Tensor, dLSE: Optional[Tensor], q: Tensor, k: Tensor, v: Tensor, sink: Optional[Tensor], out: Tensor, lse: Tensor, causal: bool,
             scale: Optional[float], left: int, right: int, arithmetic: Optional[str], deterministic: bool,
             policy: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last is the sink's, empty where there is none."""
    with torch.no_grad():
        window = (left, right)
        text = tensors.family_text(q, k, v, causal, arithmetic, window, sink, "bwd", deterministic, dlse=dLSE is not None)
        made = tensors.plan(text, q.device, None, policy)
        dsink = q.new_empty(0, dtype=torch.float32) if sink is None else tensors._sink_gradient(out, lse, dO, sink, dLSE)
        return (*tensors.backward(made, q, k, v, out, lse, dO, causal, scale, window, dLSE=dLSE), dsink)


@backward.register_fake
def _(dO, dLSE, q, k, v, sink, *options):
    return (*(torch.empty_like(t) for t in (q, k, v)), q.new_empty(0 if sink is None else sink.shape, dtype=torch.float32))


def _save(ctx, inputs, output):
    q, k, v, sink, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, sink, *output)
    ctx.set_materialize_grads(False)


def _gradients(ctx, dO, dLSE):
    q, k, v, sink, out, lse = ctx.saved_tensors
    causal, scale, left, right, arithmetic, deterministic, _, _, policy = ctx.options
    if dO is None and dLSE is None:
        return (None,) * (4 + len(ctx.options))
    *found, dsink = backward(torch.zeros_like(out) if dO is None else dO, dLSE, q, k, v, sink, out, lse, causal, scale, left, right, arithmetic, deterministic, policy)
    return (*found, None if sink is None else dsink, *(None,) * len(ctx.options))


forward.register_autograd(_gradients, setup_context=_save)


def traced(q, k, v, sink, causal, scale, out, return_lse, kernel, policy, arithmetic, window, deterministic, split):
    """fatune.attention where torch.compile traces it."""
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    o, lse = forward(q, k, v, sink, causal, scale, *window, arithmetic, deterministic, split, kernel, policy)
    if out is not None:
        o = out.copy_(o)
    return (o, lse) if return_lse else o
