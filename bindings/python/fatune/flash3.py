"""flash3.py -- the operators of FlashAttention-3's compiled half, torch.ops.flash_attn_3, on fatune's kernels.

Importing this defines them, with the schemas that flash_attn_interface.py calls, unless the real ones are loaded. Of ragged
batches, caches and options it serves what flash2 serves, and names in an error what it does not."""

import math

import torch
import torch.nn.functional as F

from . import flash2

FWD = """fwd(Tensor q, Tensor k, Tensor v, Tensor(k_new!)? k_new=None, Tensor(v_new!)? v_new=None, Tensor? q_v=None,
Tensor(out!)? out=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? cu_seqlens_k_new=None, Tensor? seqused_q=None,
Tensor? seqused_k=None, int? max_seqlen_q=None, int? max_seqlen_k=None, Tensor? page_table=None, Tensor? kv_batch_idx=None,
Tensor? leftpad_k=None, Tensor? rotary_cos=None, Tensor? rotary_sin=None, Tensor? seqlens_rotary=None, Tensor? q_descale=None,
Tensor? k_descale=None, Tensor? v_descale=None, float? softmax_scale=None, bool is_causal=False, int window_size_left=-1,
int window_size_right=-1, int attention_chunk=0, float softcap=0.0, bool is_rotary_interleaved=False,
Tensor? scheduler_metadata=None, int num_splits=0, bool? pack_gqa=None, int sm_margin=0)
-> (Tensor(out!), Tensor, Tensor, Tensor)"""
BWD = """bwd(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor(dq!)? dq=None, Tensor(dk!)? dk=None,
Tensor(dv!)? dv=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? seqused_q=None, Tensor? seqused_k=None,
int? max_seqlen_q=None, int? max_seqlen_k=None, float? softmax_scale=None, bool is_causal=False, int window_size_left=-1,
int window_size_right=-1, float softcap=0.0, bool deterministic=False, int sm_margin=0)
-> (Tensor, Tensor, Tensor, Tensor, Tensor)"""
COMBINE = """fwd_combine(Tensor out_partial, Tensor lse_partial, Tensor(out!)? out=None, ScalarType? out_dtype=None)
-> (Tensor(out!), Tensor)"""
METADATA = """get_scheduler_metadata(int batch_size, int max_seqlen_q, int max_seqlen_k, int num_heads, int num_heads_k, int headdim,
int headdim_v, ScalarType qkv_dtype, Tensor seqused_k, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None,
Tensor? cu_seqlens_k_new=None, Tensor? seqused_q=None, Tensor? leftpad_k=None, int? page_size=None, int max_seqlen_k_new=0,
bool is_causal=False, int window_size_left=-1, int window_size_right=-1, int attention_chunk=0, bool has_softcap=False,
int num_splits=0, bool? pack_gqa=None, int sm_margin=0) -> Tensor"""
NOT_SERVED = {"k_new": "appending to the cache", "q_v": "qv", "cu_seqlens_k_new": "appending to the cache",
              "v_new": "appending to the cache", "page_table": "paged KV", "rotary_cos": "rotary embedding",
              "seqlens_rotary": "rotary embedding", "q_descale": "fp8", "k_descale": "fp8",
              "v_descale": "fp8"}


def _refuse_others(given):
    for name, what in NOT_SERVED.items():
        if given.get(name) is not None:
            raise RuntimeError(f"fatune stands in for flash_attn_3, and has no {what} yet")
    if given.get("cu_seqlens_k") is not None and given.get("cu_seqlens_q") is None:
        raise RuntimeError("fatune stands in for flash_attn_3, and has no ragged keys beside rows of Q that are not: give cu_seqlens_q, too")


def _scale(q, scale):
    return q.shape[-1] ** -0.5 if scale is None else scale


def _forward(q, k, v, k_new=None, v_new=None, q_v=None, out=None, cu_seqlens_q=None, cu_seqlens_k=None, cu_seqlens_k_new=None,
             seqused_q=None, seqused_k=None, max_seqlen_q=None, max_seqlen_k=None, page_table=None, kv_batch_idx=None, leftpad_k=None,
             rotary_cos=None, rotary_sin=None, seqlens_rotary=None, q_descale=None, k_descale=None, v_descale=None,
             softmax_scale=None, is_causal=False, window_size_left=-1, window_size_right=-1, attention_chunk=0, softcap=0.0, *more):
    _refuse_others(dict(locals()))
    scale, empty = _scale(q, softmax_scale), q.new_empty(0, dtype=torch.float32)
    masks = (is_causal, window_size_left, window_size_right, softcap)
    if cu_seqlens_q is not None:
        if cu_seqlens_k is None:  # a cache: its batches lie behind each other
            if kv_batch_idx is not None:
                k, v = (t.index_select(0, kv_batch_idx) for t in (k, v))
            max_seqlen_k = k.shape[1]
            cu_seqlens_k = torch.arange(k.shape[0] + 1, dtype=torch.int32, device=k.device) * max_seqlen_k
            k, v = (t.flatten(0, 1) for t in (k, v))
        out, lse, *_ = flash2.varlen_fwd(q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, None, None, max_seqlen_q,
                                         max_seqlen_k, 0.0, scale, False, *masks, False, None, 0, seqused_q, attention_chunk)
    else:
        out, lse = flash2.fwd_kvcache(q, k, v, None, None, seqused_k, None, None, kv_batch_idx, leftpad_k, None, None, out, scale,
                                      *masks, False, 0, seqused_q, attention_chunk)
    return out, lse, empty, empty.clone()


def _backward(dout, q, k, v, out, softmax_lse, dq=None, dk=None, dv=None, cu_seqlens_q=None, cu_seqlens_k=None, seqused_q=None,
              seqused_k=None, max_seqlen_q=None, max_seqlen_k=None, softmax_scale=None, is_causal=False, window_size_left=-1,
              window_size_right=-1, softcap=0.0, deterministic=False, sm_margin=0):
    """softmax_d and four more, rooms that nothing is written to; the gradients are in dq, dk, dv."""
    masks, scale = (is_causal, window_size_left, window_size_right, softcap, deterministic, None, None), _scale(q, softmax_scale)
    if cu_seqlens_q is not None:
        found = flash2.varlen_bwd(dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, None, max_seqlen_q,
                                  max_seqlen_k, 0.0, scale, False, *masks, seqused_q, seqused_k)
    else:
        if seqused_q is not None or seqused_k is not None:
            raise RuntimeError("fatune stands in for flash_attn_3, and has no gradients with seqused but of ragged batches yet")
        rooms = (dq, dk, dv)
        if q.shape[-1] % 8:  # padded here, as in the forward
            dout, q, k, v, out = (F.pad(t, (0, -t.shape[-1] % 8)) for t in (dout, q, k, v, out))
            rooms = (None,) * 3
        found = flash2.bwd(dout, q, k, v, out, softmax_lse, *rooms, None, 0.0, scale, *masks)
        for room, made in zip((dq, dk, dv), found):
            if room is not None and room is not made:
                room.copy_(made[..., :room.shape[-1]])
    return (found[3], *(torch.empty_like(softmax_lse) for _ in range(4)))


def _combine(out_partial, lse_partial, out=None, out_dtype=None):
    """Partial results [splits, b, s, h, d] with their LSEs, merged: each weighs exp(its LSE - that of all). A row without a key has -inf,
    and inf as fatune's forward tells it."""
    lse_partial = lse_partial.masked_fill(lse_partial == math.inf, -math.inf)
    lse = torch.logsumexp(lse_partial, 0)
    weight = torch.exp(lse_partial - lse).nan_to_num(0.0)  # -inf - -inf: a row without a key
    merged = (out_partial * weight[..., None]).sum(0).to(out_dtype or out_partial.dtype)
    return (merged if out is None else out.copy_(merged)), lse


def _metadata(batch_size, max_seqlen_q, max_seqlen_k, num_heads, num_heads_k, headdim, headdim_v, qkv_dtype, seqused_k, *more, **rest):
    """Nothing that a kernel of ours reads: what runs where is in the plan."""
    return torch.zeros(1, dtype=torch.int32, device=seqused_k.device)


def define(key="CUDA"):
    """The operators, for a dispatch key; None where the real ones are loaded."""
    if hasattr(torch.ops.flash_attn_3, "fwd"):
        return None
    library = torch.library.Library("flash_attn_3", "DEF")
    for schema, of in ((FWD, _forward), (BWD, _backward), (COMBINE, _combine), (METADATA, _metadata)):
        library.define(" ".join(schema.split()))
        library.impl(schema[:schema.index("(")], of, key)
    return library
