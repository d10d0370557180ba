"""functional.py -- sdpa: attention by the signature of torch.nn.functional.scaled_dot_product_attention.

is_causal begins at the top left, as there; leading dimensions may be missing or many; under autocast inputs are cast, as there;
head dimensions that are no multiple of 8 are padded; a mask that is added is rounded to the type of q. What no kernel serves is an
Error that says so, never another result."""

import math

import torch
import torch.nn.functional as F

from . import tensors
from .abi import ALL

HALVES = (torch.float16, torch.bfloat16)
_known, _forward_call = tensors._known, tensors._forward_call
_is_autocast, _is_recording, _is_compiling = torch.is_autocast_enabled, tensors._is_recording, tensors._is_compiling


def topleft(q, k, v):
    """(k, v, causal, window) by which fatune's diagonal, which ends at the bottom right, is that which begins at the top left.
    Keys that no row sees are cut off; with fewer keys than rows the diagonal moves to the right by a window's side."""
    rows, keys = q.shape[2], k.shape[2]
    if rows < keys:
        return k[:, :, :rows], v[:, :, :rows], True, (ALL, ALL)
    return k, v, rows == keys, (ALL, ALL) if rows == keys else (ALL, rows - keys)


def masked(attn_mask, q):
    """The keyword of fatune.attention that takes a mask of PyTorch's, of [b, h, n, keys] or 1 of each; a bias has q's type, or float32."""
    if attn_mask.dtype == torch.bool:
        return {"mask": attn_mask}
    if not attn_mask.is_floating_point():
        raise ValueError(f"a mask is {attn_mask.dtype}: bool, which says who is seen, or a floating type, which is added, is needed")
    return {"bias": attn_mask if attn_mask.dtype == torch.float32 else attn_mask.to(q.dtype)}


def _four(t):
    """A tensor as [b, h, n, d]."""
    if t.dim() > 4:
        return t.flatten(0, -4)
    return t if t.dim() == 4 else t.reshape((1,) * (4 - t.dim()) + tuple(t.shape))


def _ready(t, dtype, d):
    """Of the type wanted, its rows contiguous and a multiple of 8 wide."""
    t = _four(t if dtype is None or not t.is_floating_point() else t.to(dtype))
    if d % 8:
        return F.pad(t, (0, -d % 8))
    return t if t.stride(3) == 1 or d == 1 else t.contiguous()


def _is_plain(query, key, value, is_causal, enable_gqa):
    """Whether fatune.attention takes these as they are."""
    shape, keys = query.shape, key.shape
    return (query.dtype in HALVES and len(shape) == 4 and keys == value.shape and
            (shape == keys or not is_causal and (enable_gqa or len(keys) == 4 and shape[1] == keys[1])) and shape[3] % 8 == 0 and
            query.stride(3) == key.stride(3) == value.stride(3) == 1)


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(scale query key^T + mask) value; see torch.nn.functional.scaled_dot_product_attention."""
    if scale is not None and scale.__class__ is not float:
        scale = tensors._number("scale", scale)
    if attn_mask is None and not dropout_p and not _is_autocast("cuda") and tensors._forward_ad._current_level < 0:
        if not (_is_compiling() or _is_recording() and (query.requires_grad or key.requires_grad or value.requires_grad)):
            options = (is_causal, scale, enable_gqa)
            if (known := _known.again.get(options)) and (o := known(query, key, value)) is not None:
                return o
            form = (query.shape, key.shape, value.shape, query.stride(), key.stride(), value.stride(), query.dtype, key.dtype, value.dtype,
                    query.device, key.device, value.device, *options)
            call = _known.calls.get(form) or _is_plain(query, key, value, is_causal, enable_gqa) and _known.learn(
                form, _forward_call(query, key, value, is_causal, scale))
            if call:
                o = call.forward(query, key, value, None, None)
                _known.learn_again(options, call, query, key, value)
                return o
        elif _is_plain(query, key, value, is_causal, enable_gqa):
            return tensors.attention(query, key, value, is_causal, scale)
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask and is_causal: only one of them can be given")
    to_bottom = False  # whether the diagonal is fatune's own, which ends at the bottom right
    if type(attn_mask).__name__ == "CausalBias":  # torch.nn.attention.bias: no numbers, but a diagonal
        is_causal, to_bottom, attn_mask = attn_mask.variant.name == "UPPER_LEFT", attn_mask.variant.name == "LOWER_RIGHT", None
    if key.dim() != query.dim() or value.dim() != query.dim() or query.dim() < 2:
        raise ValueError(f"query, key, value have {query.dim()}, {key.dim()}, {value.dim()} dimensions: equal numbers from 2 on are "
                         "needed")
    if query.shape[-3:-2] != key.shape[-3:-2] and not enable_gqa:
        raise ValueError(f"query has {_four(query).shape[1]} heads, key {_four(key).shape[1]}: enable_gqa=True is needed")
    if attn_mask is not None:
        if query.dim() > 4:  # its leading dimensions become one, as q's
            attn_mask = attn_mask[None] if attn_mask.dim() < 3 else attn_mask
            attn_mask = attn_mask.expand(*query.shape[:-3], *attn_mask.shape[-3:])
        attn_mask = _four(attn_mask)
    o = general(query, key, value, attn_mask, is_causal, scale=scale, dropout=dropout_p, causal=to_bottom)
    return o if query.dim() == 4 else o.reshape(*query.shape[:-1], value.shape[-1])


def general(query, key, value, attn_mask=None, is_causal=False, scale=None, bias=None, **options):
    """The same in four dimensions, with heads as they come, and with options of fatune.attention."""
    d, dv = query.shape[-1], value.shape[-1]
    dtype = torch.get_autocast_dtype("cuda") if _is_autocast("cuda") else None
    q, k, v = _ready(query, dtype, d), _ready(key, dtype, d), _ready(value, dtype, dv)
    if is_causal:
        k, v, options["causal"], options["window"] = topleft(q, k, v)
    elif attn_mask is not None:
        options.update(masked(attn_mask, q))
    if bias is not None:
        options.update(masked(bias[..., :k.shape[2]] if bias.shape[3] > 1 else bias, q))
    if q.dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest":
        options["arithmetic"] = "tf32"
    o = tensors.attention(q, k, v, scale=1 / math.sqrt(d) if scale is None else scale, **options)
    return o[..., :dv] if dv % 8 else o
