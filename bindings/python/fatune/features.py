"""features.py -- calls whose scores or weights are changed: by a cap, by ALiBi's slopes, by dropout. fatune.attention comes here
where one of these is given; calls without them stay as short as they were."""

import typing

import torch

from . import tensors
from .abi import BACKWARD, FORWARD, UNSUPPORTED, Error

_INT64 = getattr(torch, "int64", None)


class Features(typing.NamedTuple):
    softcap: float = 0.0
    slopes: typing.Optional[torch.Tensor] = None
    dropout: float = 0.0
    rng: typing.Optional[torch.Tensor] = None


def _checked(f, q, sink):
    if not 0 <= f.dropout < 1:
        raise ValueError(f"dropout is {f.dropout}: a part of weights from 0 to below 1 is needed")
    if f.softcap < 0:
        raise ValueError(f"softcap is {f.softcap}: a number above 0 is needed, or 0 for none")
    if f.slopes is not None and (tuple(f.slopes.shape) not in ((q.shape[1],), tuple(q.shape[:2])) or f.slopes.dtype != torch.float32
                                 or f.slopes.device != q.device):
        raise ValueError(f"slopes is {tuple(f.slopes.shape)} {f.slopes.dtype} on {f.slopes.device}: a float32 for each head of q, or "
                         "for each batch and head, is needed")
    if f.rng is not None and (tuple(f.rng.shape) != (2,) or f.rng.dtype != _INT64 or f.rng.device != q.device):
        raise ValueError(f"rng is {tuple(f.rng.shape)} {f.rng.dtype} on {f.rng.device}: two int64, seed and offset, are needed")
    if f.dropout and f.rng is None:
        return f._replace(rng=_drawn(q))
    return f


def _drawn(q):
    """Seed and offset of PyTorch's generator, which goes on as flash-attn lets it."""
    if torch.cuda.is_current_stream_capturing():
        raise Error(UNSUPPORTED, "a graph that is captured would have the same dropout at each replay: give rng, a tensor of seed and "
                    "offset, and change it between replays")
    generator = torch.cuda.default_generators[q.get_device()]
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + q.shape[0] * q.shape[1] * 32)
    return torch.tensor([seed - (seed >> 63 << 64), offset], dtype=_INT64, device=q.device)


def _text(family, f, sink, op, deterministic):
    return (family + ("" if f.slopes is None else "-alibi") + ("-softcap" if f.softcap else "") +
            ("" if sink is None or op == "bwd" else "-sink") + ("-drop" if f.dropout else "") + ("-det" if deterministic else ""))


def _queue(made, sizes, scale, f, given):
    """Queues a call of a plan; known by all that decides it but addresses."""
    there = {name: tensor for name, tensor in given.items() if tensor is not None}
    key = (made, bytes(sizes), scale, f.softcap, f.dropout, tuple((n, t.shape, t.stride()) for n, t in there.items()))
    call = tensors._known.calls.get(key)
    if call is None:
        call = tensors._Call(made, sizes, scale, there)
        call.image.tensors.softcap, call.image.tensors.dropout = f.softcap, f.dropout
        tensors._known.learn(key, call)
    call.run(there.values())


class _Options(typing.NamedTuple):
    causal: bool
    scale: typing.Optional[float]
    kernel: typing.Optional[str]
    policy: int
    arithmetic: typing.Optional[str]
    window: tuple
    softcap: float
    dropout: float


def _plan(q, k, v, sink, f, o, op, deterministic=False):
    family = tensors.family_text(q, k, v, o.causal, o.arithmetic, o.window, None, op)
    return tensors.plan(_text(family, f, sink, op, deterministic), q.device, o.kernel if op == "fwd" else None, o.policy)


def _forward(q, k, v, sink, f, o, out, return_lse):
    tensors._check_inputs(q, k, v, sink)
    if out is None:
        out = torch.empty_like(q) if v.shape[3] == q.shape[3] else q.new_empty((*q.shape[:3], v.shape[3]))
    lse = q.new_empty(q.shape[:3], dtype=torch.float32) if return_lse else None
    tensors._check_outputs(q, v, out, lse)
    given = dict(zip(FORWARD, (q, k, v, out, lse)), sink=sink, slopes=f.slopes, rng=f.rng)
    _queue(_plan(q, k, v, sink, f, o, "fwd"), tensors._sizes(q, k, v, o.causal, o.window), o.scale, f, given)
    return out, lse


# ctypes is nothing that torch.compile can trace: the graph breaks here.
_untraced = getattr(getattr(torch, "compiler", None), "disable", lambda f: f)


@_untraced
def attention(q, k, v, causal, scale, out, return_lse, kernel, policy, arithmetic, window, sink, deterministic, split, f):
    if split:
        raise Error(UNSUPPORTED, "split is asked for together with softcap, slopes or dropout: give one of them")
    f = _checked(f, q, sink)
    o = _Options(causal, scale, kernel, policy, arithmetic, tuple(window), f.softcap, f.dropout)
    if not (tensors._is_recording() and any(t is not None and t.requires_grad for t in (q, k, v, sink))):
        both = _forward(q, k, v, sink, f, o, out, return_lse)
        return both if return_lse else both[0]
    if out is not None:
        raise ValueError("out cannot be given where gradients are recorded: leave it out, or call under torch.no_grad()")
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        made = _plan(q, k, v, sink, f, o, "bwd", deterministic)
    except Error as e:
        raise Error(e.status, f"this call has no gradients (call under torch.no_grad() if none are wanted): {e}") from e
    both = _Attention.apply(q, k, v, sink, f.slopes, f.rng, o, made)
    return both if return_lse else both[0]


class _Attention(torch.autograd.Function):
    """attention, and its gradients by the plan `made`: dropout draws the same bits again."""

    @staticmethod
    def forward(ctx, q, k, v, sink, slopes, rng, o, made):
        out, lse = _forward(q, k, v, sink, Features(o.softcap, slopes, o.dropout, rng), o, None, True)
        ctx.save_for_backward(q, k, v, sink, slopes, rng, out, lse)
        ctx.set_materialize_grads(False)
        ctx.options, ctx.made = o, made
        return out, lse

    @staticmethod
    def backward(ctx, dO, dLSE):
        if dLSE is not None:
            raise Error(UNSUPPORTED, "the gradient of lse is asked for, and fatune has none to give: take lse.detach(), or do "
                        "not let the loss depend on lse")
        found, wanted = [None] * 8, ctx.needs_input_grad
        if dO is None:
            return tuple(found)
        if tensors._is_recording():
            raise Error(UNSUPPORTED, "a second derivative of attention is asked for, and fatune has none to give")
        q, k, v, sink, slopes, rng, out, lse = ctx.saved_tensors
        o = ctx.options
        if wanted[3]:
            found[3] = tensors._sink_gradient(out, lse, dO, sink)
        if wanted[0] or wanted[1] or wanted[2]:
            dO = dO.contiguous() if dO.stride(3) != 1 and dO.shape[3] > 1 else dO
            found[:3] = (tensors._gradient_of(t) for t in (q, k, v))
            f = Features(o.softcap, slopes, o.dropout, rng)
            given = dict(zip(FORWARD + BACKWARD, (q, k, v, out, lse, dO, *found[:3])), slopes=f.slopes, rng=f.rng)
            _queue(ctx.made, tensors._sizes(q, k, v, o.causal, o.window), o.scale, f, given)
        return tuple(gradient if is_wanted else None for gradient, is_wanted in zip(found, wanted))
