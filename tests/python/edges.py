"""edges.py -- calls at the edge of what fatune.attention promises: gradients of saved tensors that come back laid out otherwise, results
that autograd must know of, first derivatives that are recorded, empty tensors, arguments that are no pairs. CPU tensors pass for a
GPU's (lent.py). Needs PyTorch."""

import math
import pickle

import torch
import fatune
from fatune import flash3, tensors

import lent
from refusal import refused

lent.begin()
tensors._check_inputs = lambda *tensors: None
del torch.Tensor.is_cuda
torch.manual_seed(5)


def packed():
    """q, k and v as one tensor holds them."""
    leaf = torch.randn(1, 2, 3, 6, 8).requires_grad_()
    return leaf, [leaf[:, :, i] for i in range(3)]


def gradient(leaf, qkv, copies, **options):
    """That of a packed tensor; `copies`: saved tensors come back dense."""
    if not copies:
        return torch.autograd.grad(fatune.attention(*qkv, **options).square().sum(), leaf)[0]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        out = fatune.attention(*qkv, **options)
    return torch.autograd.grad(out.square().sum(), leaf)[0]


for options in ({}, {"softcap": 2.0}, {"slopes": torch.rand(4)[::2]}, {"bias": torch.randn(1, 2, 6, 9)[..., :6]}):
    leaf, qkv = packed()
    found = [gradient(leaf, qkv, copies, **options) for copies in (False, True, False)]
    assert found[0].abs().max() > 0.1 and all((one - found[0]).abs().max() < 1e-4 for one in found), options

# What is overwritten under no_grad is no longer what a graph has saved.
for options in ({}, {"softcap": 2.0}):
    q, k, v = (torch.randn(1, 2, 6, 8) for _ in range(3))
    weight, out = torch.randn(1, 2, 6, 8).requires_grad_(), torch.zeros(1, 2, 6, 8)
    product = weight * out
    with torch.no_grad():
        fatune.attention(q, k, v, out=out, **options)
    refused(lambda: torch.autograd.grad(product.sum(), weight), RuntimeError, "inplace")
    with torch.inference_mode():
        fatune.attention(q, k, v, out=torch.empty_like(q), **options)

# Gradients may be recorded; it is their derivative that there is none of.
for options in ({}, {"softcap": 2.0}):
    qkv = [torch.randn(1, 2, 6, 8).requires_grad_() for _ in range(3)]
    once = torch.autograd.grad(fatune.attention(*qkv, **options).square().sum(), qkv)
    found = torch.autograd.grad(fatune.attention(*qkv, **options).square().sum(), qkv, create_graph=True)
    assert all((a - b).abs().max() < 1e-5 for a, b in zip(once, found))
    refused(lambda found=found, qkv=qkv: torch.autograd.grad(found[0].sum(), qkv), fatune.Error, "second derivative")

# Seed and offset as a column of a table; no heads of keys; no rows and no keys by the slower way of sdpa.
q, k, v = (torch.randn(1, 2, 6, 8) for _ in range(3))
states = torch.tensor([[3, 9], [5, 11]])
assert torch.equal(fatune.attention(q, k, v, dropout=0.5, rng=states[:, 0]), fatune.attention(q, k, v, dropout=0.5, rng=torch.tensor([3, 5])))
refused(lambda: fatune.attention(q, k[:, :0], v[:, :0]), ValueError, "do not fit together")
assert fatune.sdpa(q[:, :, :0], k, v).shape == (1, 2, 0, 8)
assert fatune.sdpa(q.half(), k[:, :, :0].half(), v[:, :, :0].half(), is_causal=True).abs().max() == 0
assert fatune.sdpa(q[None, None], k[None, None], v[None, None]).shape == (1, 1, 1, 2, 6, 8)

# A part without a key weighs nothing.
parts, lse = torch.randn(2, 1, 3, 2, 8), torch.randn(2, 1, 3, 2)
lse[1, :, 1] = math.inf
merged, whole = flash3._combine(parts, lse)
assert torch.equal(merged[:, 1], parts[0, :, 1]) and torch.equal(whole[:, 1], lse[0, :, 1])

# Errors say which argument, and pass between processes.
cu = torch.tensor([0, 2, 6], dtype=torch.int32)
flat = [torch.randn(6, 2, 8) for _ in range(3)]
refused(lambda: fatune.attention(q, k, v, used=torch.tensor([3], dtype=torch.int32)), ValueError, "used is a pair")
refused(lambda: fatune.attention(*flat, cu_seqlens=cu, max_seqlens=(4, 4)), ValueError, "cu_seqlens is a pair")
refused(lambda: fatune.attention(*flat, cu_seqlens=(cu, cu), max_seqlens=4), ValueError, "max_seqlens is a pair")
refused(lambda: fatune.attention(q, k, v, max_seqlens=(6, 6)), ValueError, "max_seqlens goes with cu_seqlens")
refused(lambda: fatune.attention(q, k, v, window=5), ValueError, "window is 5: a pair")
refused(lambda: fatune.attention(q, k, v, window=5, softcap=2.0), ValueError, "window is 5: a pair")
refused(lambda: fatune.attention(q, k, v, slopes=torch.rand(2).half()), ValueError, "[1, 2] or [2]", "float32")
error = refused(lambda: fatune.attention(q, k, v, mod="s × 2"), fatune.Error, "column 3", "×")
again = pickle.loads(pickle.dumps(error))
assert (again.status, str(again)) == (error.status, str(error))
assert torch.equal(fatune.attention(q, k, v, softcap=2.0, dropout=None, used=(None, None)), fatune.attention(q, k, v, softcap=2.0))
lent.check_driver()
print("edges: saved tensors laid out otherwise, overwritten results, recorded gradients, empty tensors, errors")
