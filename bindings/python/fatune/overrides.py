"""overrides.py -- fatune's kernels under PyTorch's own scaled_dot_product_attention: models need no change.

    fatune.register()                # now, for this process; returns a handle whose remove() undoes it
    torch.nn.attention.activate_flash_attention_impl("fatune")       # the same, from PyTorch 2.11 on, after `import fatune.overrides`

The four operators of the flash and of the memory-efficient backend are ours then; the second is what a T4 gets from PyTorch.
Calls that fatune does not serve (dropout, other types) go to PyTorch's own kernels, as before. On Hopper PyTorch
prefers cuDNN: `with torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)` takes these."""

import torch

from . import tensors
from .functional import topleft

HALVES = (torch.float16, torch.bfloat16)
_aten = torch.ops.aten


def _serves(q, k, v, dropout_p):
    return (dropout_p == 0.0 and q.dtype in HALVES and q.dim() == 4 and q.shape[3] % 8 == 0 and
            v.shape[3] % 8 == 0 and max(q.shape[3], v.shape[3]) <= 256 and
            all(t.stride(3) == 1 for t in (q, k, v)) and 0 not in q.shape and 0 not in k.shape)


def _masked(q, k, v, is_causal, from_top):
    """k, v, causal, window. The diagonal of the memory-efficient operators begins at the top left, that of the flash operators ends at the
    bottom right: PyTorch calls those with unlike lengths for causal_lower_right alone."""
    return topleft(q, k, v) if is_causal and from_top else (k, v, is_causal, (tensors.ALL, tensors.ALL))


def _forward(q, k, v, is_causal, from_top, scale, out, lse, bias=None):
    """Into `out`, and `lse` where one is wanted."""
    k, v, causal, window = _masked(q, k, v, is_causal, from_top)
    with torch.no_grad():
        if bias is not None:
            found = tensors.attention(q, k, v, causal, scale, out, lse is not None, window=window, bias=bias[..., :k.shape[2]])
            if lse is not None:
                lse.copy_(found[1])
            return out
        if lse is None:
            return tensors.attention(q, k, v, causal, scale, out, window=window)
        call = tensors.family_call(q, k, v, out, lse, causal, scale, window)
        call.run((q, k, v, out, lse))


def _backward(dO, q, k, v, out, lse, is_causal, from_top, scale, bias=None, dbias=None):
    """dq, dk, dv; the bias's into `dbias`. Keys that were cut off have gradients of 0."""
    seen_k, seen_v, causal, window = _masked(q, k, v, is_causal, from_top)
    gradients = [torch.empty_like(t.transpose(1, 2)).transpose(1, 2) for t in (q, k, v)]
    keys = seen_k.shape[2]
    if keys < k.shape[2]:
        gradients[1][:, :, keys:] = 0
        gradients[2][:, :, keys:] = 0
    room = gradients[0], gradients[1][:, :, :keys], gradients[2][:, :, :keys]
    deterministic = torch.are_deterministic_algorithms_enabled()
    with torch.no_grad():
        if bias is not None:
            tensors.features.backward(dO, q, seen_k, seen_v, out, lse.contiguous(), room, deterministic, causal=causal, scale=scale,
                                      window=window, bias=bias[..., :keys], dbias=None if dbias is None else dbias[..., :keys])
        else:
            text = tensors.family_text(q, seen_k, seen_v, causal, None, window, None, "bwd", deterministic)
            made = tensors.plan(text, q.device, None, tensors.COMPILE, sizes=tensors._sizes(q, seen_k, seen_v, causal, window))
            tensors.backward(made, q, seen_k, seen_v, out, lse, dO, causal, scale, window, room)
    return tuple(gradients)


def _like(q, v):
    """Room for O in the layout that PyTorch's kernels give it, which compiled graphs count on."""
    if v.shape[3] == q.shape[3]:
        return torch.empty_like(q.transpose(1, 2)).transpose(1, 2)
    return q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3])).transpose(1, 2)


class Override:
    """The operators, each with PyTorch's own kernel behind it, for a dispatch key; alive until removed."""

    def __init__(self, key="CUDA"):
        self.key, self.own = key, {}
        self.library = torch.library.Library("aten", "IMPL")
        for name in ("flash_attention", "flash_attention_backward", "efficient_attention", "efficient_attention_backward"):
            operator = getattr(_aten, "_scaled_dot_product_" + name).default
            self.own[name] = self._kernel(operator)
            self.library.impl(operator.name(), getattr(self, name), key, allow_override=True, with_keyset=True)

    def _kernel(self, operator):
        """PyTorch's own kernel, None where it has none for this key."""
        if not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), self.key):
            return None
        return torch.library.get_kernel(operator, self.key)

    def _else(self, name, keys, *arguments, **options):
        if self.own[name] is None:
            raise NotImplementedError(f"aten::_scaled_dot_product_{name}: neither fatune nor this PyTorch serves this call")
        return self.own[name].call_boxed(keys, *arguments, **options)

    def remove(self):
        if self.library is not None:
            self.library._destroy()
        self.library = None

    def flash_attention(self, keys, q, k, v, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
        if return_debug_mask or not _serves(q, k, v, dropout_p):
            return self._else("flash_attention", keys, q, k, v, dropout_p, is_causal, return_debug_mask, scale=scale)
        out, lse = _like(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)
        _forward(q, k, v, is_causal, False, scale, out, lse)
        state = torch.zeros(2, dtype=torch.uint64, device=q.device)
        nothing = torch.zeros((), dtype=torch.uint64, device=q.device)
        return out, lse, None, None, q.shape[2], k.shape[2], state, nothing, q.new_empty(0)

    def flash_attention_backward(self, keys, dO, q, k, v, out, lse, cu_q, cu_k, max_q, max_k, dropout_p, is_causal, *more,
                                 scale=None):
        if not _serves(q, k, v, dropout_p):
            return self._else("flash_attention_backward", keys, dO, q, k, v, out, lse, cu_q, cu_k, max_q, max_k, dropout_p, is_causal,
                              *more, scale=scale)
        return _backward(dO, q, k, v, out, lse, is_causal, False, scale)

    def efficient_attention(self, keys, q, k, v, bias, compute_lse, dropout_p=0.0, is_causal=False, *, scale=None):
        if not _serves(q, k, v, dropout_p):
            return self._else("efficient_attention", keys, q, k, v, bias, compute_lse, dropout_p, is_causal, scale=scale)
        b, h, n, _ = q.shape
        out = q.new_empty((b, n, h, v.shape[3])).transpose(1, 2)
        # Its rows are padded to 32, as PyTorch's own kernels have them.
        lse = q.new_full((b, h, -(-n // 32) * 32 if compute_lse else 0), float("inf"), dtype=torch.float32)
        _forward(q, k, v, is_causal, True, scale, out, lse[:, :, :n] if compute_lse else None, bias)
        seed = torch.zeros((), dtype=torch.int64, device=q.device)
        return out, lse, seed, seed.clone()

    def efficient_attention_backward(self, keys, dO, q, k, v, bias, out, lse, seed, offset, dropout_p, needed, is_causal=False, *,
                                     scale=None):
        if not _serves(q, k, v, dropout_p):
            return self._else("efficient_attention_backward", keys, dO, q, k, v, bias, out, lse, seed, offset, dropout_p, needed,
                              is_causal, scale=scale)
        wanted = bias is not None and needed[3]
        dbias = torch.zeros((*q.shape[:3], k.shape[2]), dtype=torch.float32, device=q.device) if wanted else None
        found = _backward(dO, q, k, v, out, lse[:, :, :q.shape[2]], is_causal, True, scale, bias, dbias)
        return (*found, dbias.to(bias.dtype) if wanted else None)


def register(key="CUDA"):
    """PyTorch's scaled_dot_product_attention takes fatune's kernels from now on; `remove()` of what this returns undoes it."""
    return Override(key)


if hasattr(torch.nn.attention, "register_flash_attention_impl"):
    torch.nn.attention.register_flash_attention_impl("fatune", register_fn=register)
