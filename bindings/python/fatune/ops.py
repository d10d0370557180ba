"""ops.py -- attention as operators of PyTorch, which torch.compile puts into a graph: fatune::attention and
fatune::attention_backward, with what they return as fake tensors. fatune.attention calls them where it is compiled, and goes
its shorter way where it is not. The plans are those of families, so a new length compiles nothing anew. Calls with features are
fatune::attention_with and its backward; what dropout draws is an operator of its own, which no graph makes once for two."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import features, tensors

@torch.library.custom_op("fatune::attention", mutates_args=())
def forward(q: Tensor, k: Tensor, v: Tensor, sink: Optional[Tensor], causal: bool, scale: Optional[float], left: int, right: int,
            arithmetic: Optional[str], deterministic: bool, split: int, kernel: Optional[str],
            policy: int) -> Tuple[Tensor, Tensor]:
    with torch.no_grad():
        return tensors.attention(q, k, v, causal, scale, None, True, kernel, policy, arithmetic, (left, right), sink, None, split)


@forward.register_fake
def _(q, k, v, sink, *options):
    return (torch.empty_like(q) if tensors._is_like_q(q, v) else q.new_empty((*q.shape[:3], v.shape[3])),
            q.new_empty(q.shape[:3], dtype=torch.float32))


@torch.library.custom_op("fatune::attention_backward", mutates_args=())
def backward(dO: Tensor, dLSE: Optional[Tensor], q: Tensor, k: Tensor, v: Tensor, sink: Optional[Tensor], out: Tensor, lse: Tensor, causal: bool,
             scale: Optional[float], left: int, right: int, arithmetic: Optional[str], deterministic: bool,
             policy: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last is the sink's, empty where there is none."""
    with torch.no_grad():
        window = (left, right)
        text = tensors.family_text(q, k, v, causal, arithmetic, window, sink, "bwd", deterministic, dlse=dLSE is not None)
        made = tensors.plan(text, q.device, None, policy, sizes=tensors._sizes(q, k, v, causal, window))
        dsink = q.new_empty(0, dtype=torch.float32) if sink is None else tensors._sink_gradient(out, lse, dO, sink, dLSE)
        return (*tensors.backward(made, q, k, v, out, lse, dO, causal, scale, window, dLSE=dLSE), dsink)


@backward.register_fake
def _(dO, dLSE, q, k, v, sink, *options):
    return (*(tensors._gradient_of(t) for t in (q, k, v)), q.new_empty(0 if sink is None else sink.shape, dtype=torch.float32))


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
    deterministic = _or_torchs(deterministic)
    return _returned(forward(q, k, v, sink, causal, scale, *window, arithmetic, deterministic, split, kernel, policy), out, return_lse)


def _or_torchs(deterministic):
    return torch.are_deterministic_algorithms_enabled() if deterministic is None else deterministic


def _returned(both, out, return_lse):
    """Of an operator's (o, lse) what a call of fatune.attention returns."""
    o, lse = both
    if out is not None:
        o = out.copy_(o)
    return (o, lse) if return_lse else o


# ---- calls with features ----

# Options that are tensors, one or several of them; and those that are numbers and words, as operators take them.
_ONE, _SEVERAL = ("slopes", "rng", "left_pad", "prefix", "mask", "block_mask"), ("cu_seqlens", "used", "intervals", "tables")
_NUMBERS = ("bool causal, float? scale, SymInt left, SymInt right, str? arithmetic, str? kernel, int policy, SymInt split, float softcap, "
            "float dropout, bool top_left, SymInt chunk, SymInt max_q, SymInt max_k, SymInt rows, SymInt keys, str? mod, str? mask_mod, "
            "bool deterministic")
_GIVEN = "Tensor q, Tensor k, Tensor v, Tensor? sink, Tensor? bias"


def _apart(o):
    """(names, tensors) of the options that are tensors, but for a sink and a bias."""
    found = [(name, getattr(o, name)) for name in _ONE] + [(f"{name}.{n}", t) for name in _SEVERAL for n, t in enumerate(getattr(o, name) or ())]
    found = [(name, t) for name, t in found if t is not None]
    return " ".join(name for name, _ in found), [t for _, t in found]


def _numbers(o, deterministic):
    return (o.causal, o.scale, *o.window, o.arithmetic, o.kernel, o.policy, o.split, o.softcap, o.dropout, o.top_left, o.chunk,
            *(o.max_seqlens or (0, 0)), *(o.block or (0, 0)), o.mod, o.mask_mod, deterministic)


def _together(sink, bias, more, names, numbers):
    """The options again."""
    causal, scale, left, right, arithmetic, kernel, policy, split, softcap, dropout, top_left, chunk, max_q, max_k, rows, keys, *mods, _ = numbers
    of, several = {}, {}
    for name, t in zip(names.split(), more):
        name, _, n = name.partition(".")
        if n:
            several.setdefault(name, {})[int(n)] = t
        else:
            of[name] = t
    for name, some in several.items():
        of[name] = tuple(some.get(n) for n in range(max(some) + 1 if name == "tables" else 2))
    return features.Options(causal, scale, (left, right), arithmetic, kernel, policy, split, sink, softcap, dropout=dropout, top_left=top_left,
                            chunk=chunk, max_seqlens=(max_q, max_k) if max_q else None, bias=bias, mod=mods[0], mask_mod=mods[1],
                            block=(rows, keys) if rows else None, **of)


def _is_partly(names):
    return "used" in names or "left_pad" in names


@torch.library.custom_op("fatune::attention_with", mutates_args=(), schema=f"({_GIVEN}, Tensor[] more, str names, {_NUMBERS}) -> (Tensor, Tensor)")
def forward_with(q, k, v, sink, bias, more, names, *numbers):
    with torch.no_grad():
        asked, of = features._asked(q, k, v, _together(sink, bias, more, names, numbers))
        return asked.forward(q, k, v, None, True, of)


@forward_with.register_fake
def _(q, k, v, sink, bias, more, names, *numbers):
    out = features.room(q, None if v.shape[-1] == q.shape[-1] else (*q.shape[:-1], v.shape[-1]), partly=_is_partly(names))
    return out, q.new_empty((q.shape[1], q.shape[0]) if q.dim() == 3 else q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("fatune::attention_with_backward", mutates_args=(), schema=f"(Tensor dO, Tensor? dLSE, {_GIVEN}, Tensor out, Tensor lse, "
                         f"Tensor[] more, str names, bool dbias, {_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
def backward_with(dO, dLSE, q, k, v, sink, bias, out, lse, more, names, dbias, *numbers):
    """The last two are the sink's and the bias's, empty where none is wanted."""
    with torch.no_grad():
        asked, of = features._asked(q, k, v, _together(sink, bias, more, names, numbers))
        made = asked.plan("bwd", q, dLSE is not None, numbers[-1], dbias)
        found = features.gradients(asked, made, of, (q, k, v, sink, bias), out, lse, dO, dLSE, numbers[-1],
                                   (True, True, True, sink is not None, dbias))
        return tuple(q.new_empty(0) if t is None else t for t in found)


@backward_with.register_fake
def _(dO, dLSE, q, k, v, sink, bias, out, lse, more, names, dbias, *numbers):
    nothing = q.new_empty(0)
    return (*(features.room(t, partly=_is_partly(names)) for t in (q, k, v)), nothing if sink is None else torch.empty_like(sink),
            bias.new_empty(bias.shape) if dbias else nothing)


def _save_with(ctx, inputs, output):
    q, k, v, sink, bias, more, ctx.names, *ctx.numbers = inputs
    ctx.save_for_backward(q, k, v, sink, bias, *output, *more)
    ctx.set_materialize_grads(False)


def _gradients_with(ctx, dO, dLSE):
    q, k, v, sink, bias, out, lse, *more = ctx.saved_tensors
    found = (None,) * 5
    if dO is not None or dLSE is not None:
        dbias = ctx.needs_input_grad[4]
        found = backward_with(torch.zeros_like(out) if dO is None else dO, dLSE, q, k, v, sink, bias, out, lse, more, ctx.names, dbias, *ctx.numbers)
        found = (*found[:3], None if sink is None else found[3], found[4] if dbias else None)
    return (*found, [None] * len(more), None, *(None,) * len(ctx.numbers))


forward_with.register_autograd(_gradients_with, setup_context=_save_with)

# `own`: an empty tensor, which the compiler takes for no other: calls whose q is the same would share one draw, since it merges all operators
# of equal arguments but PyTorch's own random ones.
torch.library.define("fatune::drawn", "(Tensor q, SymInt b, Tensor own) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


@torch.library.impl("fatune::drawn", "CompositeExplicitAutograd")
def _drawn(q, b, own):
    """What dropout draws for a call of b batches."""
    return features.drawn_for(q.device, q.get_device(), b, q.shape[1])


@torch.library.register_fake("fatune::drawn")
def _(q, b, own):
    return q.new_empty(2, dtype=torch.int64)


def traced_with(q, k, v, out, return_lse, deterministic, o):
    """The same of a call with features."""
    if o.dropout and o.rng is None:
        b = q.shape[0] if o.cu_seqlens is None else o.cu_seqlens[0].shape[0] - 1
        o = o._replace(rng=torch.ops.fatune.drawn(q, b, torch.empty(0, device=q.device)))
    names, more = _apart(o)
    return _returned(forward_with(q, k, v, o.sink, o.bias, more, names, *_numbers(o, _or_torchs(deterministic))), out, return_lse)
