"""features.py -- features of a call together, and their gradients, against attention spelled out in PyTorch in double; dropout's
mask against what a kernel drops. CPU tensors pass for a GPU's (lent.py). Needs PyTorch."""

import math
import os

import torch
import fatune
from fatune import features, tensors

import lent
from refusal import refused

lent.begin()
tensors._check_inputs = lambda *tensors: None
del torch.Tensor.is_cuda
torch.manual_seed(3)
B, H, HK, N, M, D = 2, 4, 2, 5, 9, 8


def drawn(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype).requires_grad_()


def right(q, k, v, causal=False, mask=None, blocks=None, bias=None, slopes=None, softcap=0, sink=None, keeps=None, dropout=0, lengths=None, mod=None,
          keep=None):
    """(out, lse) in double, differentiable."""
    n, m = q.shape[2], k.shape[2]
    q, k, v = (t.double().repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (q, k, v))
    s = q @ k.mT / math.sqrt(q.shape[3])
    s = softcap * torch.tanh(s / softcap) if softcap else s
    at = torch.arange(m)[None, :] - torch.arange(n)[:, None] - (m - n)
    if lengths is not None:  # of each batch, whose diagonal ends there
        at = at[None] + (m - lengths)[:, None, None].to(torch.int64)
        at = at[:, None]
    if slopes is not None:
        s = s - slopes.double().reshape(-1, slopes.shape[-1])[:, :, None, None] * at.abs()
    s = s if bias is None else s + bias.double()
    b, h, i, j = (torch.arange(size).reshape([-1 if x == y else 1 for y in range(4)]) for x, size in enumerate(s.shape))
    s = s if mod is None else mod(s, b, h, i, j)
    seen = torch.ones_like(s, dtype=torch.bool)
    seen = seen & (at <= 0) if causal else seen
    seen = seen if mask is None else seen & (mask != 0)
    seen = seen if keep is None else seen & keep(b, h, i, j)
    if blocks is not None:
        of, (rows, keys) = blocks
        seen = seen & of.repeat_interleave(rows, 2)[:, :, :n].repeat_interleave(keys, 3)[..., :m]
    if lengths is not None:
        seen = seen & (torch.arange(m) < lengths[:, None])[:, None, None]
    s = s.masked_fill(~seen, -math.inf)
    if sink is not None:
        s = torch.cat([s, sink.double()[None, :, None, None].expand(*s.shape[:3], 1)], 3)
    lse = torch.logsumexp(s, 3)
    p = torch.nan_to_num(torch.exp(s - lse[..., None]))[..., :m]
    p = p if keeps is None else p * keeps / (1 - dropout)
    return p @ v, lse


def check(title, leaves=(), lse=False, allowed=2e-4, dtype=torch.float32, keywords=None, **more):
    """A call with keywords against `right` with `more` beside them; gradients of q, k, v and of `leaves`, names of keywords."""
    q, k, v = drawn(B, H, N, D, dtype=dtype), drawn(B, HK, M, D, dtype=dtype), drawn(B, HK, M, D, dtype=dtype)
    given = dict(keywords or {})
    wanted = {**{k: v for k, v in given.items() if k in ("causal", "mask", "bias", "slopes", "softcap", "sink", "dropout")}, **more}
    all_ = (q, k, v, *(given[name] for name in leaves))
    found = fatune.attention(q, k, v, return_lse=lse, **given)
    found = found if lse else (found,)
    of = right(q, k, v, **wanted)[:len(found)]
    weights = [torch.randn_like(t) for t in of]
    gradients = torch.autograd.grad(found, all_, [w.to(t.dtype) for w, t in zip(weights, found)])
    for name, a, b in zip(("O", "LSE") if lse else "O", found, of):
        torch.testing.assert_close(a.double(), b, rtol=allowed, atol=allowed, msg=lambda m: f"{title}: {name}: {m}")
    for name, a, b, leaf in zip(("q", "k", "v", *leaves), gradients, torch.autograd.grad(of, all_, weights), all_):
        assert a.dtype == leaf.dtype and a.shape == leaf.shape
        torch.testing.assert_close(a.double(), b.double(), rtol=4 * allowed, atol=4 * allowed, msg=lambda m: f"{title}: d{name}: {m}")


seen = torch.rand(B, H, N, M) < 0.7
slopes, sink = torch.tensor([0.5, 0.25, 0.1, 0.0]), torch.tensor([0.3, -1.0, 2.0, 0.1]).requires_grad_()
lengths = torch.tensor([6, 9], dtype=torch.int32)
rng = torch.tensor([-77, (1 << 40) + 3], dtype=torch.int64)
keeps = fatune.dropout_mask(rng, 0.3, (B, H, N, M))

check("mask", keywords=dict(mask=seen))
check("mask, expanded", keywords=dict(mask=seen[:1, :, :1].expand(B, H, N, M)))
check("mask of bytes by key", keywords=dict(mask=seen[:1, :1, :1].to(torch.uint8), causal=True, scale=None))
check("mask by row alone", keywords=dict(mask=seen[:, :, :, :1]))
there = torch.rand(1, H, 3, 3) < 0.6
there[..., 0] = there[..., 0, :] = True  # all rows see a key, in PyTorch's sums too
check("blocks of bytes, causal", lse=True, keywords=dict(block_mask=there.mT.to(torch.uint8), block=(2, 4), causal=True),
      blocks=(there.mT, (2, 4)))
check("bias", keywords=dict(bias=torch.randn(B, 1, N, M)))
check("bias with holes, rows contiguous elsewhere", keywords=dict(bias=torch.randn(1, H, M, N).mT.masked_fill(~seen[:1], -math.inf)))
for shape in ((B, H, N, M), (1, H, N, M), (B, 1, N, M), (1, 1, 1, M), (1, 1, N, 1), (1, 1, 1, 1)):
    check(f"bias {shape}", ("bias",), keywords=dict(bias=torch.randn(shape).requires_grad_(), causal=True))
os.environ["FAKE_CUDA_EMULATE"] = "1"  # the kernels' own sums
for shape in ((B, 1, N, M), (1, 1, 1, M)):
    check(f"bias {shape} in the emulator", ("bias",), keywords=dict(bias=torch.randn(shape).requires_grad_()))
os.environ["FAKE_CUDA_EMULATE"] = "reference"
bias = torch.randn(1, H, N, M).requires_grad_()
check("bias of float32 beside halves", ("bias",), allowed=4e-3, dtype=torch.float16, keywords=dict(bias=torch.randn(1, H, 1, M).requires_grad_()))
check("bias, equal bits", ("bias",), lse=True, keywords=dict(bias=bias, mask=seen, deterministic=True))
check("bias, dropout", ("bias", "sink"), keywords=dict(bias=bias, sink=sink, dropout=0.3, rng=rng), keeps=keeps)
check("slopes, cap, sink", ("sink",), keywords=dict(slopes=slopes, softcap=2.0, sink=sink, causal=True))
check("lengths with slopes", lse=True, keywords=dict(used=(None, lengths), slopes=slopes, causal=True), lengths=lengths)
check("mask, bias, dropout", lse=True, keywords=dict(mask=seen, bias=torch.randn(B, H, 1, M), dropout=0.3, rng=rng), keeps=keeps)
check("halves, equal bits", allowed=4e-3, dtype=torch.float16,
      keywords=dict(mask=seen, softcap=1.5, deterministic=True, sink=sink.detach()))
# expressions, with tables of the size that the reference of the fake driver takes them for: of H rows, of the longer of N and M
documents, far = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2], dtype=torch.int32), torch.randn(H, M)
slope = torch.randn(M)
check("expressions that add", lse=True, keywords=dict(mod="s + table0[h] * (j - i)", mask_mod="itable1[i] == itable1[j] or j == 0",
                                                      tables=[slope, documents]),
      mod=lambda s, b, h, i, j: s + slope.double()[h] * (j - i), keep=lambda b, h, i, j: (documents[i] == documents[j]) | (j == 0))
check("expressions with a derivative", keywords=dict(mod="2.0 * tanh(s / 2.0) * table0[h, i]", causal=True, dropout=0.3, rng=rng, tables=[far]),
      mod=lambda s, b, h, i, j: 2 * torch.tanh(s / 2) * far.double()[h, i], keeps=keeps)
with torch.no_grad():
    q, k, v = drawn(B, H, N, D), drawn(B, HK, M, D), drawn(B, HK, M, D)
    out = torch.empty_like(q)
    assert fatune.attention(q, k, v, out=out, mask=seen, causal=True) is out
    torch.testing.assert_close(out.double(), right(q, k, v, True, seen)[0], rtol=2e-4, atol=2e-4)
    # without autograd, as stand-ins call it
    out, lse = fatune.attention(q, k, v, return_lse=True, slopes=slopes, dropout=0.3, rng=rng)
    found = features.backward(torch.ones_like(out), q, k, v, out, lse, slopes=slopes, dropout=0.3, rng=rng)
leaves = [t.detach().requires_grad_() for t in (q, k, v)]
wanted = torch.autograd.grad(right(*leaves, slopes=slopes, keeps=keeps, dropout=0.3)[0].sum(), leaves)
for a, b in zip(found, wanted):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)

# dropout's mask: what a kernel drops, seen through values that are rows of the identity
for dropout, n, m in ((0.17, 37, 70), (0.5, 3, 33), (0.0, 2, 2)):
    kept = fatune.dropout_mask(rng, dropout, (2, 2, n, m))
    zero, eye = torch.zeros(2, 2, n, 128), torch.eye(m, 128).expand(2, 2, m, 128)
    with torch.no_grad():
        dropped = fatune.attention(zero, zero[:, :, :1].expand(2, 2, m, 128).contiguous(), eye.contiguous(), softcap=1.0, dropout=dropout, rng=rng)
    assert torch.equal(dropped[..., :m] > 0, kept), (dropout, n, m)
    assert dropout == 0 or 0 < kept.double().mean() < 1

refused(lambda: fatune.attention(q, k, v, mask=seen[:, :3]), ValueError, "mask is", "[2 or 1, 4 or 1, 5 or 1, 9 or 1]")
refused(lambda: fatune.attention(q, k, v, causl=True), TypeError, "fatune.attention() got an unexpected", "'causl'")
refused(lambda: fatune.attenton, AttributeError, "module 'fatune' has no attribute 'attenton'")
refused(lambda: fatune.attention(q, k, v, block_mask=there), ValueError, "block=(rows, keys)")
refused(lambda: fatune.attention(q, k, v, block_mask=there, block=(2, 2)), ValueError, "block_mask is", "[2 or 1, 4 or 1, 3, 5]")
refused(lambda: fatune.attention(q, k, v, bias=seen), ValueError, "bias is", "float32")
refused(lambda: fatune.attention(q, k, v, sink=sink[:2], mask=seen), ValueError, "sink is", "[4]")
refused(lambda: fatune.attention(q, k, v, bias=bias, softcap=1.0), fatune.Error, "no gradients", "dbias and softcap exclude each other")
refused(lambda: fatune.attention(q, k, v, dropout=0.1, rng=rng, split=64), fatune.Error, "split", "drop")
refused(lambda: fatune.attention(q, k, v, mod="s + tabl"), fatune.Error, "column 5", "'tabl' is no name")
refused(lambda: fatune.attention(q, k, v, mod="s + itable0[i]", tables=[slope]), ValueError, "tables[0] is", "int32")
refused(lambda: fatune.attention(q, k, v, mod="s + table0[i]"), fatune.Error, "table0 is NULL")
refused(lambda: fatune.attention(q, k, v, mod="s", tables=[slope]), fatune.Error, "table0 is none of this operation")
refused(lambda: fatune.attention(q, k, v, mod="s + table0[i]", tables=[slope.clone().requires_grad_()]), fatune.Error, "requires a gradient")

# Numbers that come as tensors are read at each call, whichever tensors these are; none of their gradients is lost.
with torch.no_grad():
    for n in (0.1, 0.9):
        for name in ("scale", "softcap"):
            for more in ({}, {"mask": seen}):
                found, wanted = (fatune.attention(q, k, v, **{name: number}, **more) for number in (torch.tensor(n), torch.tensor(n).item()))
                assert torch.equal(found, wanted), (name, n, more)
    cu, flat = torch.tensor([0, 2, 5], dtype=torch.int32), [torch.randn(5, heads, D) for heads in (H, HK, HK)]
    for ends in ([0, 2, 5], [0, 1, 5]):
        cu.copy_(torch.tensor(ends))
        longest = cu.diff().max()
        found, wanted = (fatune.attention(*flat, cu_seqlens=(cu, cu), max_seqlens=(n, n)) for n in (longest, longest.item()))
        assert torch.equal(found, wanted) and not found.isnan().any(), ends
number = torch.tensor(0.3, requires_grad=True)
for name in ("scale", "softcap"):
    refused(lambda: fatune.attention(q, k, v, **{name: number}), fatune.Error, f"{name} requires a gradient")
refused(lambda: fatune.attention(q, k, v, slopes=slopes.clone().requires_grad_()), fatune.Error, "slopes requires a gradient")
refused(lambda: fatune.attention(q, k, v, mask=seen, chunk=torch.tensor(4)), ValueError, "chunk is a tensor")
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(q.detach(), torch.ones_like(q))
    for more in ({}, {"mask": seen}):
        refused(lambda: fatune.attention(dual, k, v, **more), fatune.Error, "tangent")
    refused(lambda: fatune.sdpa(dual, dual, dual), fatune.Error, "tangent")

# What a checkpoint keeps is asked for once; and the gradients are the same.
for more in ({}, {"softcap": 2.0}, {"bias": bias, "mask": seen}):
    both = [torch.autograd.grad(o.sum(), (q, k, v)) for o in (fatune.attention(q, k, v, **more), torch.utils.checkpoint.checkpoint(
        lambda q, k, v: fatune.attention(q, k, v, **more), q, k, v, use_reentrant=False))]
    assert all(torch.equal(a, b) for a, b in zip(*both)), more

# No batch, no rows: results and gradients of such shapes.
for given in ((q[:0], k[:0], v[:0]), (q[:, :, :0], k, v)):
    for more in ({}, {"softcap": 2.0}):
        leaves = [t.detach().requires_grad_() for t in given]
        o, lse = fatune.attention(*leaves, return_lse=True, **more)
        assert o.shape == given[0].shape and lse.shape == given[0].shape[:3]
        for of in (o.sum(), o.sum() + lse.sum()):
            for leaf, gradient in zip(leaves, torch.autograd.grad(of, leaves, retain_graph=True)):
                assert gradient.shape == leaf.shape and not gradient.any(), more

# Ragged tensors that do not fit together.
check_inputs, tensors._check_inputs = tensors._check_inputs, lambda *tensors: None
ragged = dict(cu_seqlens=(cu, cu), max_seqlens=(5, 5))
with torch.no_grad():
    a, b, c = flat
    for wrong, word in (((a, b.half(), c.half()), "dtypes"), ((a, b, c[:4]), "do not fit"), ((a, b[..., :4], c), "do not fit"),
                        ((a, b, c[:, :1]), "do not fit"), ((a.int(), b, c), "dtypes")):
        refused(lambda: fatune.attention(*wrong, **ragged), ValueError, word)
    for out in (torch.empty(3, H, D), torch.empty(5, H, D, dtype=torch.float16)):
        refused(lambda: fatune.attention(*flat, out=out, **ragged), ValueError, "out is", "does not fit")
tensors._check_inputs = check_inputs
print("features: right")
