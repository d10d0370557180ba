"""masks.py -- attention over ragged batches, lengths by batch, paddings, prefixes, intervals of rows and chunks.

    o = fatune.attention(q, k, v, causal=True, cu_seqlens=(cu, cu), max_seqlens=(n, n))   # q, k, v: [total, h, d]
    o = fatune.attention(q, k, v, used=(None, lengths))                                   # of [b, hk, n, d] the first so many keys
    o = fatune.attention(q, k, v, causal=True, prefix=prefix)                             # [b]: keys that all rows see
    o = fatune.attention(q, k, v, intervals=(lo, hi))                                     # [b or 1, h or 1, n]: row i sees [lo, hi)

All of them are tensors of int32 on the GPU, read when the kernel runs; masks that are given together all hold. Rows and keys
that no batch has are neither read nor written: results hold 0 there."""

import ctypes
import math

import torch

from . import tensors
from .abi import ALL, COMPILE, Sizes, Tensor, Tensors

WORDS = ("top_left", "chunk", "cu_seqlens", "max_seqlens", "used", "left_pad", "prefix", "intervals")


def _at(tensor, *strides):
    return Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(*strides, *(0,) * (3 - len(strides))))


class _Masks:
    """What is asked beside q, k and v, as the library takes it."""

    def __init__(self, q, k, v, causal=False, window=(ALL, ALL), top_left=False, chunk=0, cu_seqlens=None, max_seqlens=None,
                 used=None, left_pad=None, prefix=None, intervals=None, arithmetic=None):
        self.ragged = cu_seqlens is not None
        if q.dim() != (3 if self.ragged else 4) or k.dim() != q.dim() or v.dim() != q.dim():
            raise ValueError("q, k, v are [b, h, n, d], or with cu_seqlens [total, h, d]")
        if self.ragged and max_seqlens is None:
            raise ValueError("cu_seqlens needs max_seqlens: the longest batch of q, that of k")
        if top_left and not causal:
            raise ValueError("top_left says where the diagonal of a causal mask begins: give causal=True")
        dtype = arithmetic or tensors._DTYPES[q.dtype]
        self.b = cu_seqlens[0].shape[0] - 1 if self.ragged else q.shape[0]
        d, dv = q.shape[-1], v.shape[-1]
        causal, left, right = (True, *window) if top_left else tensors._mask(causal, window)
        windowed = left != ALL or (right != ALL and (top_left or right > 0))
        words = [("causaltl" if top_left else "causal", causal), ("w", windowed), ("chunk", chunk), ("varlen", self.ragged),
                 ("used", used), ("prefix", prefix is not None), ("iv", intervals), ("lpad", left_pad is not None)]
        self.family = "-".join([dtype, f"d{d}" if d == dv else f"d{d}v{dv}"] + [word for word, there in words if there])
        total = (q.shape[0], k.shape[0]) if self.ragged else (0, 0)
        heads = (q.shape[1], k.shape[1])
        rows = max_seqlens if self.ragged else (q.shape[2], k.shape[2])
        self.sizes = Sizes(ctypes.sizeof(Sizes), self.b, *heads, *rows, *total, left if windowed else 0,
                           right if windowed else 0, chunk, 0)
        self.partly = bool(used) or left_pad is not None  # whether tensors have rows that no batch has
        self.of = {}
        for names, given in ((("cu_q", "cu_k"), cu_seqlens), (("used_q", "used_k"), used), (("lpad",), left_pad),
                             (("prefix",), prefix)):
            for name, one in zip(names, given if len(names) > 1 and given is not None else (given,)):
                if one is not None:
                    self.of[name] = self.whole(name, one, self.b + (names[0] == "cu_q"))
        for name, one in zip(("lo", "hi"), intervals or ()):
            if one.dim() != 3 or (one.shape[2] > 1 and one.stride(2) != 1):
                raise ValueError(f"intervals are [b or 1, h or 1, rows] each, rows contiguous: {name} is {tuple(one.shape)}")
            self.of[name] = _at(one, *(0 if one.shape[i] == 1 else one.stride(i) for i in (0, 1)))

    @staticmethod
    def whole(name, tensor, count):
        if tensor.dim() != 1 or tensor.shape[0] != count or tensor.dtype != torch.int32:
            raise ValueError(f"{name} is {tuple(tensor.shape)} {tensor.dtype}: {count} numbers of int32 are needed")
        return _at(tensor, tensor.stride(0))

    def place(self, tensor):
        """A tensor of rows: by its batch, head and row."""
        if tensor.dim() == (2 if self.ragged else 3):  # one number a row: [h, total], [b, h, n]
            return _at(tensor, 0, tensor.stride(0)) if self.ragged else _at(tensor, tensor.stride(0), tensor.stride(1))
        if tensor.shape[-1] > 1 and tensor.stride(tensor.dim() - 1) != 1:
            raise ValueError("the last stride of a tensor must be 1; call .contiguous()")
        if self.ragged:
            return _at(tensor, 0, tensor.stride(1), tensor.stride(0))
        return _at(tensor, *(tensor.stride(i) for i in range(3)))

    def empty(self, like, shape, dtype):
        room = torch.zeros if self.partly else torch.empty
        return room(shape, dtype=dtype, device=like.device)

    def run(self, op, device, scale, kernel, policy, given):
        made = tensors.plan(f"{op}-{self.family}", device, kernel, policy)
        call = Tensors(ctypes.sizeof(Tensors))
        held = {**self.of, **{name: self.place(tensor) for name, tensor in given.items()}}
        for name, tensor in held.items():
            setattr(call, name, ctypes.pointer(tensor))
        call.scale = scale
        size = made.workspace(self.sizes)
        room = tensors._room(size, device) if size else None
        tensors._check(tensors._run(made.at, ctypes.addressof(call), ctypes.addressof(self.sizes),
                                    room.data_ptr() if size else None, tensors._stream(given["Q"].get_device())))


def attention(q, k, v, causal=False, scale=None, return_lse=False, kernel=None, policy=COMPILE, arithmetic=None,
              window=(ALL, ALL), **masks):
    """As tensors.attention; `masks` are those of WORDS. With cu_seqlens lse is [h, total]."""
    asked = _Masks(q, k, v, causal, window, arithmetic=arithmetic, **masks)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        both = _Masked.apply(q, k, v, asked, scale, kernel, policy)
    else:
        both = _forward(q, k, v, asked, scale, kernel, policy)
    return both if return_lse else both[0]


def _forward(q, k, v, asked, scale, kernel, policy):
    out = asked.empty(q, (*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = asked.empty(q, (q.shape[1], q.shape[0]) if asked.ragged else tuple(q.shape[:3]), torch.float32)
    asked.run("fwd", q.device, scale, kernel, policy, {"Q": q, "K": k, "V": v, "O": out, "LSE": lse})
    return out, lse


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, asked, scale, kernel, policy):
        out, lse = _forward(q, k, v, asked, scale, kernel, policy)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.set_materialize_grads(False)
        ctx.asked, ctx.scale, ctx.policy = asked, scale, policy
        return out, lse

    @staticmethod
    def backward(ctx, dO, dLSE):
        if dLSE is not None:
            raise ValueError("the gradient of lse is asked for, and there is none under these masks: take lse.detach()")
        if dO is None:
            return (None,) * 7
        q, k, v, out, lse = ctx.saved_tensors
        dO = dO if dO.stride(dO.dim() - 1) == 1 else dO.contiguous()
        found = [ctx.asked.empty(t, tuple(t.shape), t.dtype) for t in (q, k, v)]
        ctx.asked.run("bwd", q.device, ctx.scale, None, ctx.policy,
                      dict(zip(("Q", "K", "V", "O", "LSE", "dO", "dQ", "dK", "dV"), (q, k, v, out, lse, dO, *found))))
        return (*found, None, None, None, None)
