"""flash2.py -- the five functions of flash_attn_2_cuda, flash-attn 2's compiled half, on fatune's kernels.

flash-attn's Python runs unchanged on top of it, on a T4 too: install it with FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE and put
the folder `python -m fatune.dropin` prints on PYTHONPATH. Arguments come by position, as there. What fatune has no kernel for
is an error that names it; nothing is computed otherwise. Ragged batches go one sequence at a time, which reads their lengths
on the host."""

import torch

from . import tensors
from .abi import ALL
from .functional import _SERVED

HALVES = (torch.float16, torch.bfloat16)


def _refuse(what):
    raise RuntimeError(f"fatune stands in for flash_attn_2_cuda, and has no {what} yet")


def _expect(condition, text):
    if not condition:
        raise RuntimeError(text)


def _check(q, k, v, p, gen, paged=None):
    if gen is not None:
        raise RuntimeError("flash-attn: the RNG `generator` argument is no longer supported and must be None")
    _expect(q.dtype in HALVES, "FlashAttention only support fp16 and bf16 data type")
    _expect(k.dtype == q.dtype and v.dtype == q.dtype, "query, key and value must have the same dtype")
    _expect(all(t.stride(-1) == 1 for t in (q, k, v)), "Input tensor must have contiguous last dimension")
    _expect(q.shape[-1] % 8 == 0 and q.shape[-1] <= 256, "head_size must be a multiple of 8 and at most 256")
    if paged is not None:
        _refuse("paged KV (block_table)")
    if p:
        _refuse("dropout")


def _options(causal, left, right, softcap, alibi, scale, rows, keys):
    """Keywords of fatune.attention. A side that reaches over all keys is none; one row sees what it would see without the
    causal mask, except under ALiBi, whose distances count from the diagonal."""
    left, right = (ALL if side < 0 or side >= keys else side for side in (left, right))
    if causal:
        right = 0
    if causal and rows == 1 and alibi is None and left == ALL:
        causal, right = False, ALL
    options = {"causal": causal and left == ALL, "scale": scale, "window": (ALL, ALL) if causal and left == ALL else (left, right)}
    if softcap > 0:
        _named("softcap", softcap, "softcap", options)
    if alibi is not None:
        _named("slopes", alibi, "ALiBi", options)
    return options


def _named(name, value, what, options):
    if name not in _SERVED:
        _refuse(what + " in Python")
    options[name] = value


def _heads_first(*all_):
    return [t.transpose(-3, -2) for t in all_]


def _into(out, like):
    return torch.empty_like(like) if out is None else out


def _state(q):
    return q.new_empty(0), torch.zeros(2, dtype=torch.int64, device=q.device)


def _forward(q, k, v, out, lse, options):
    """Of [b, s, h, d] tensors into out [b, s, h, d] and lse [b, h, s]."""
    q, k, v, out = _heads_first(q, k, v, out)
    with torch.no_grad():
        if k.shape[2] == 0:
            out.zero_()
            lse.fill_(float("inf"))
            return
        if q.shape[2]:
            _, found = tensors.attention(q, k, v, out=out, return_lse=True, **options)
            lse.copy_(found)


def _backward(dout, q, k, v, out, lse, dq, dk, dv, options, deterministic):
    all_ = _heads_first(dout, q, k, v, out, dq, dk, dv)
    dout, q, k, v, out, dq, dk, dv = all_
    if q.shape[2] == 0 or k.shape[2] == 0:
        for t in (dq, dk, dv):
            t.zero_()
        return
    more = {name: value for name, value in options.items() if name not in ("causal", "scale", "window")}
    if more:
        _refuse(f"gradients with {', '.join(more)} in Python")
    text = tensors.family_text(q, k, v, options["causal"], None, options["window"], None, "bwd", deterministic)
    with torch.no_grad():
        made = tensors.plan(text, q.device, None, tensors.COMPILE)
        tensors.backward(made, q, k, v, out, lse, dout, options["causal"], options["scale"], options["window"], (dq, dk, dv))


# ---- the five


def fwd(q, k, v, out, alibi, p, scale, causal, left, right, softcap, return_softmax, gen):
    """[out, lse, p, rng_state]"""
    _check(q, k, v, p, gen)
    _expect(q.shape[0] > 0, "batch size must be positive")
    out = _into(out, q)
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    _forward(q, k, v, out, lse, _options(causal, left, right, softcap, alibi, scale, q.shape[1], k.shape[1]))
    return [out, lse, *_state(q)]


def bwd(dout, q, k, v, out, lse, dq, dk, dv, alibi, p, scale, causal, left, right, softcap, deterministic, gen, state):
    """[dq, dk, dv, softmax_d]; the last is room that nothing is written to: our kernels keep it to themselves."""
    _check(q, k, v, p, gen)
    dq, dk, dv = _into(dq, q), _into(dk, k), _into(dv, v)
    options = _options(causal, left, right, softcap, alibi, scale, q.shape[1], k.shape[1])
    _backward(dout, q, k, v, out, lse, dq, dk, dv, options, deterministic)
    return [dq, dk, dv, torch.empty_like(lse)]


def _pieces(cu_q, cu_k, used=None, leftpad=None):
    """(rows of Q, keys) of each sequence of a ragged batch."""
    q, k = cu_q.tolist(), cu_k.tolist()
    used = used.tolist() if used is not None else [b - a for a, b in zip(k, k[1:])]
    left = leftpad.tolist() if leftpad is not None else [0] * len(used)
    for i, (n, pad) in enumerate(zip(used, left)):
        yield i, slice(q[i], q[i + 1]), slice(k[i] + pad, k[i] + n)


def _slopes_of(alibi, i):
    """The slopes of one sequence."""
    return alibi if alibi is None or alibi.dim() == 1 else alibi[i:i + 1]


def varlen_fwd(q, k, v, out, cu_q, cu_k, used_k, leftpad, block_table, alibi, max_q, max_k, p, scale, zero_tensors, causal, left,
               right, softcap, return_softmax, gen, num_splits=0):
    """[out, lse, p, rng_state] of q [total, h, d]; lse is [h, total]."""
    _check(q, k, v, p, gen, block_table)
    out = _into(out, q)
    lse = q.new_full((q.shape[1], q.shape[0]), float("inf"), dtype=torch.float32)
    if zero_tensors:
        out.zero_()
    for i, rows, keys in _pieces(cu_q, cu_k, used_k, leftpad):
        options = _options(causal, left, right, softcap, _slopes_of(alibi, i), scale, rows.stop - rows.start, keys.stop - keys.start)
        _forward(q[None, rows], k[None, keys], v[None, keys], out[None, rows], lse[None, :, rows], options)
    return [out, lse, *_state(q)]


def varlen_bwd(dout, q, k, v, out, lse, dq, dk, dv, cu_q, cu_k, alibi, max_q, max_k, p, scale, zero_tensors, causal, left, right,
               softcap, deterministic, gen, state):
    """[dq, dk, dv, softmax_d]"""
    _check(q, k, v, p, gen)
    dq, dk, dv = _into(dq, q), _into(dk, k), _into(dv, v)
    if zero_tensors:
        for t in (dq, dk, dv):
            t.zero_()
    for i, rows, keys in _pieces(cu_q, cu_k):
        options = _options(causal, left, right, softcap, _slopes_of(alibi, i), scale, rows.stop - rows.start, keys.stop - keys.start)
        part = lse[None, :, rows].contiguous()
        _backward(dout[None, rows], q[None, rows], k[None, keys], v[None, keys], out[None, rows], part, dq[None, rows],
                  dk[None, keys], dv[None, keys], options, deterministic)
    return [dq, dk, dv, torch.empty_like(lse)]


def fwd_kvcache(q, k_cache, v_cache, k, v, seqlens_k, cos, sin, batch_index, leftpad, block_table, alibi, out, scale, causal, left,
                right, softcap, interleaved, num_splits):
    """[out, lse]; the cache is read alone: nothing is appended to it."""
    _check(q, k_cache, v_cache, 0, None, block_table)
    if k is not None or v is not None:
        _refuse("appending to the cache (k, v)")
    if cos is not None or sin is not None:
        _refuse("rotary embedding")
    out = _into(out, q)
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    if seqlens_k is None and batch_index is None and leftpad is None:
        _forward(q, k_cache, v_cache, out, lse, _options(causal, left, right, softcap, alibi, scale, q.shape[1], k_cache.shape[1]))
        return [out, lse]
    counts = [k_cache.shape[1]] * q.shape[0] if seqlens_k is None else seqlens_k.tolist()
    at = range(q.shape[0]) if batch_index is None else batch_index.tolist()
    pads = [0] * q.shape[0] if leftpad is None else leftpad.tolist()
    for i, (n, b, pad) in enumerate(zip(counts, at, pads)):
        options = _options(causal, left, right, softcap, _slopes_of(alibi, i), scale, q.shape[1], n - pad)
        _forward(q[i:i + 1], k_cache[b:b + 1, pad:n], v_cache[b:b + 1, pad:n], out[i:i + 1], lse[i:i + 1], options)
    return [out, lse]
