"""flash2.py -- the five functions of flash_attn_2_cuda, flash-attn 2's compiled half, on fatune's kernels.

flash-attn's Python runs unchanged on top of it, on a T4 too: install it with FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE and put
the folder `python -m fatune.dropin` prints on PYTHONPATH. Arguments come by position, as there. What fatune has no kernel for
is an error that names it; nothing is computed otherwise."""

import math

import torch

from . import features, tensors
from .abi import ALL

HALVES = (torch.float16, torch.bfloat16)


def _refuse(what):
    raise RuntimeError(f"fatune stands in for flash_attn_2_cuda, and has no {what} yet")


def _expect(condition, text):
    if not condition:
        raise RuntimeError(text)


def _check(q, k, v, gen, paged=None):
    if gen is not None:
        raise RuntimeError("flash-attn: the RNG `generator` argument is no longer supported and must be None")
    _expect(q.dtype in HALVES, "FlashAttention only support fp16 and bf16 data type")
    _expect(k.dtype == q.dtype and v.dtype == q.dtype, "query, key and value must have the same dtype")
    _expect(all(t.stride(-1) == 1 for t in (q, k, v)), "Input tensor must have contiguous last dimension")
    _expect(q.shape[-1] % 8 == 0 and q.shape[-1] <= 256, "head_size must be a multiple of 8 and at most 256")
    if paged is not None:
        _refuse("paged KV (block_table)")


def _options(causal, left, right, softcap, alibi, scale, rows, keys, p=0.0, rng=None, chunk=0):
    """Keywords of fatune.attention. A side that reaches over all keys is none: to the left of the last row lie keys - 1, to the right
    of the first one rows - 1, however few keys there are. One row sees what it would see without the causal mask, except under
    ALiBi, whose distances count from the diagonal."""
    left, right = (ALL if side < 0 or side >= most - 1 else side for side, most in ((left, keys), (right, rows)))
    if causal:
        right = 0
    if causal and rows == 1 and alibi is None and left == ALL:
        causal, right = False, ALL
    options = {"causal": causal and left == ALL, "scale": scale, "window": (ALL, ALL) if causal and left == ALL else (left, right)}
    if softcap > 0:
        options["softcap"] = softcap
    if alibi is not None:
        options["slopes"] = alibi
    if p > 0:
        options.update(dropout=p, rng=rng)
    if chunk:
        options["chunk"] = chunk
    return options


def _into(out, like):
    return torch.empty_like(like) if out is None else out


def _out_of(out, q, v):
    """Where the output goes: rows of Q, columns of V."""
    if out is None and q.shape[-1] != v.shape[-1]:
        return q.new_empty((*q.shape[:-1], v.shape[-1]))
    return _into(out, q)


def _state(q, p, batches, heads):
    """Seed and offset of this call's dropout: the generator goes on as flash-attn lets it."""
    if p > 0:
        return features.drawn_for(q.device, q.get_device(), batches, heads)
    return torch.zeros(2, dtype=torch.int64, device=q.device)


def _weights(q, k, options, kept):
    """What flash-attn's tests read of dropout, S_dmask, of [b, s, h, d] tensors: exp(score - the largest of its row so far), where
    blocks of keys are met from the right, negative where it was dropped. For tests alone, as there: computed by PyTorch, but
    for `kept`, which are the kernels' bits."""
    from flash_attn.flash_attn_interface import _get_block_size_n
    (b, n, h, d), m = q.shape, k.shape[1]
    scores = options["scale"] * torch.einsum("bnhd,bmhd->bhnm", q.float(), k.float().repeat_interleave(h // k.shape[2], 2))
    at = torch.arange(m, device=q.device) - torch.arange(n, device=q.device)[:, None] - (m - n)  # keys to the right of the diagonal
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    if "slopes" in options:
        scores -= options["slopes"].reshape(-1, h, 1, 1) * at.abs()
    left, right = options["window"]
    right = 0 if options["causal"] else right
    hidden = (at < -left if left != ALL else False) | (at > right if right != ALL else torch.zeros_like(at, dtype=torch.bool))
    scores = scores.masked_fill(hidden, -torch.inf)
    block = _get_block_size_n(q.device, d, True, options["causal"] or right == 0)
    most = torch.stack([part.amax(-1) for part in scores.split(block, -1)], -1).flip(-1).cummax(-1).values.flip(-1)
    weights = torch.exp(scores - most.repeat_interleave(block, -1)[..., :m]).nan_to_num(0.0)
    rounded = q.new_zeros((b, h, -(-n // 128) * 128, -(-m // 128) * 128))
    rounded[:, :, :n, :m] = torch.where(kept, weights, -weights).to(q.dtype)
    return rounded


def _heads_first(*all_):
    """Of batches, [b, s, h, d] as [b, h, s, d]; of ragged ones, [total, h, d] as they are."""
    return [t.transpose(1, 2) if t.dim() == 4 else t for t in all_]


def _forward(q, k, v, out, options):
    """Into out; LSE, [b, h, s] or [h, total]."""
    q, k, v, out = _heads_first(q, k, v, out)
    with torch.no_grad():
        if 0 in k.shape or 0 in q.shape:
            out.zero_()
            return q.new_full(q.shape[:3] if q.dim() == 4 else (q.shape[1], q.shape[0]), float("inf"), dtype=torch.float32)
        return tensors.attention(q, k, v, out=out, return_lse=True, **options)[1]


def _backward(dout, q, k, v, out, lse, dq, dk, dv, options, deterministic):
    """[dq, dk, dv, softmax_d]; the last is room that nothing is written to: our kernels keep it to themselves."""
    results = [_into(dq, q), _into(dk, k), _into(dv, v)]
    dout, q, k, v, out, *gradients = _heads_first(dout, q, k, v, out, *results)
    if 0 in q.shape or 0 in k.shape:
        for t in results:
            t.zero_()
    else:
        with torch.no_grad():
            features.backward(dout, q, k, v, out, lse, tuple(gradients), deterministic, **options)
    return [*results, torch.empty_like(lse)]


# ---- the five


def fwd(q, k, v, out, alibi, p, scale, causal, left, right, softcap, return_softmax, gen):
    """[out, lse, p, rng_state]"""
    _check(q, k, v, gen)
    _expect(q.shape[0] > 0, "batch size must be positive")
    out, rng = _out_of(out, q, v), _state(q, p, q.shape[0], q.shape[2])
    options = _options(causal, left, right, softcap, alibi, scale, q.shape[1], k.shape[1], p, rng)
    lse, debug = _forward(q, k, v, out, options), q.new_empty(0)
    if return_softmax and p > 0:
        debug = _weights(q, k, options, features.dropout_mask(rng, p, (*lse.shape, k.shape[1])))
    return [out, lse, debug, rng]


def bwd(dout, q, k, v, out, lse, dq, dk, dv, alibi, p, scale, causal, left, right, softcap, deterministic, gen, state):
    """[dq, dk, dv, softmax_d]"""
    _check(q, k, v, gen)
    options = _options(causal, left, right, softcap, alibi, scale, q.shape[1], k.shape[1], p, state)
    return _backward(dout, q, k, v, out, lse, dq, dk, dv, options, deterministic)


def _ragged(options, cu_q, cu_k, max_q, max_k, used_q=None, used_k=None, leftpad=None):
    more = {} if used_q is None and used_k is None else {"used": (used_q, used_k)}
    return {**options, **more, "left_pad": leftpad, "cu_seqlens": (cu_q, cu_k), "max_seqlens": (max_q, max_k)}


def _ragged_weights(q, k, options, rng, p, cu_q, cu_k, max_q, max_k):
    """_weights of each batch, in rooms for the longest."""
    b, h = cu_q.shape[0] - 1, q.shape[1]
    kept = features.dropout_mask(rng, p, (b, h, max_q, max_k))
    rounded = q.new_zeros((b, h, -(-max_q // 128) * 128, -(-max_k // 128) * 128))
    at_q, at_k = cu_q.tolist(), cu_k.tolist()
    for i in range(b):
        rows, keys = at_q[i + 1] - at_q[i], at_k[i + 1] - at_k[i]
        if rows and keys:
            one = dict(options)
            if "slopes" in options and options["slopes"].dim() == 2:
                one["slopes"] = options["slopes"][i]
            found = _weights(q[None, at_q[i]:at_q[i + 1]], k[None, at_k[i]:at_k[i + 1]], one, kept[i:i + 1, :, :rows, :keys])
            rounded[i, :, :found.shape[2], :found.shape[3]] = found[0]
    return rounded


def varlen_fwd(q, k, v, out, cu_q, cu_k, used_k, leftpad, block_table, alibi, max_q, max_k, p, scale, zero_tensors, causal, left,
               right, softcap, return_softmax, gen, num_splits=0, used_q=None, chunk=0):
    """[out, lse, p, rng_state] of q [total, h, d]; lse is [h, total]."""
    _check(q, k, v, gen, block_table)
    out, rng = _out_of(out, q, v), _state(q, p, cu_q.shape[0] - 1, q.shape[1])
    if zero_tensors:
        out.zero_()
    options = _options(causal, left, right, softcap, alibi, scale, max_q, max_k, p, rng, chunk)
    ragged = _ragged(options, cu_q, cu_k, max_q, max_k, used_q, used_k, leftpad)
    lse, debug = _forward(q, k, v, out, ragged), q.new_empty(0)
    if zero_tensors:  # of rows behind the last batch
        lse.masked_fill_(torch.arange(lse.shape[1], device=lse.device) >= cu_q[-1], -math.inf)
    if return_softmax and p > 0:
        debug = _ragged_weights(q, k, options, rng, p, cu_q, cu_k, max_q, max_k)
    return [out, lse, debug, rng]


def varlen_bwd(dout, q, k, v, out, lse, dq, dk, dv, cu_q, cu_k, alibi, max_q, max_k, p, scale, zero_tensors, causal, left, right,
               softcap, deterministic, gen, state, used_q=None, used_k=None):
    """[dq, dk, dv, softmax_d]"""
    _check(q, k, v, gen)
    dq, dk, dv = _into(dq, q), _into(dk, k), _into(dv, v)
    if zero_tensors:
        for t in (dq, dk, dv):
            t.zero_()
    options = _options(causal, left, right, softcap, alibi, scale, max_q, max_k, p, state)
    ragged = _ragged(options, cu_q, cu_k, max_q, max_k, used_q, used_k)
    return _backward(dout, q, k, v, out, lse, dq, dk, dv, ragged, deterministic)


def fwd_kvcache(q, k_cache, v_cache, k, v, seqlens_k, cos, sin, batch_index, leftpad, block_table, alibi, out, scale, causal, left,
                right, softcap, interleaved, num_splits, used_q=None, chunk=0):
    """[out, lse]; the cache is read alone: nothing is appended to it. Head dimensions that are no multiple of 8 are padded here, which
    its Python leaves to this function alone."""
    width, whole, padded = v_cache.shape[-1], out, q.shape[-1] % 8 != 0
    if padded:
        q, k_cache, v_cache = (torch.nn.functional.pad(t, (0, -t.shape[-1] % 8)) for t in (q, k_cache, v_cache))
        out = None
    _check(q, k_cache, v_cache, None, block_table)
    if k is not None or v is not None:
        _refuse("appending to the cache (k, v)")
    if cos is not None or sin is not None:
        _refuse("rotary embedding")
    if batch_index is not None:  # a copy: no kernel of ours reads batches in another order
        k_cache, v_cache = (t.index_select(0, batch_index) for t in (k_cache, v_cache))
    options = _options(causal, left, right, softcap, alibi, scale, q.shape[1], k_cache.shape[1], chunk=chunk)
    if seqlens_k is not None or used_q is not None:
        options["used"] = (used_q, seqlens_k)
    if leftpad is not None:
        options["left_pad"] = leftpad
    out = _out_of(out, q, v_cache)
    lse = _forward(q, k_cache, v_cache, out, options)
    out = out[..., :width]
    return [whole.copy_(out) if padded and whole is not None else out, lse]
