"""flex.py -- masks and scores that FlexAttention's users write, as docs/mods.md has them here: its own Python functions make the right
result, densely and in double, and gradients too. CPU tensors pass for a GPU's (lent.py). Needs PyTorch."""

import math

import torch
import fatune
from fatune import tensors

import lent
from refusal import refused

lent.begin()
tensors._check_inputs = lambda *tensors: None
del torch.Tensor.is_cuda
torch.manual_seed(4)
B, H, N, D = 2, 2, 12, 8
doc = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2], dtype=torch.int32)
docs = torch.stack([doc, doc.flip(0)])
prefix, slopes = torch.tensor([5, 1], dtype=torch.int32), torch.tensor([0.5, 0.125])
many, near = torch.randn(N), torch.randn(H, N)  # tables of the sizes that the fake driver's reference takes them for


def any_score(s, b, h, i, j):
    return s


def any_pair(b, h, i, j):
    return j == j


def causal(b, h, i, j):
    return j <= i


def check(title, keywords, score_mod=any_score, mask_mod=any_pair):
    q, k, v = (torch.randn(B, H, N, D).requires_grad_() for _ in range(3))
    b, h, i, j = (torch.arange(n).reshape([-1 if at == of else 1 for at in range(4)]) for of, n in enumerate((B, H, N, N)))
    s = score_mod(q.double() @ k.double().mT / math.sqrt(D), b, h, i, j)
    wanted = s.masked_fill(~mask_mod(b, h, i, j), -math.inf).softmax(-1).nan_to_num() @ v.double()
    found = fatune.attention(q, k, v, **keywords)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4, msg=lambda m: f"{title}: {m}")
    weight = torch.randn_like(found)
    for a, b in zip(torch.autograd.grad(found, (q, k, v), weight), torch.autograd.grad(wanted, (q, k, v), weight.double())):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3, msg=lambda m: f"{title}: {m}")


def of(mask_mod, b=None, h=None):
    return {"intervals": fatune.intervals.of_mod(mask_mod, b, h, N, N, "cpu")}


check("causal", dict(causal=True), mask_mod=causal)
check("window", dict(window=(3, 0)), mask_mod=lambda b, h, i, j: (j <= i) & (i - j <= 3))
check("prefix", dict(causal=True, prefix=prefix), mask_mod=lambda b, h, i, j: (j < prefix[b]) | (j <= i))
one, own = (lambda b, h, i, j: doc[i] == doc[j]), (lambda b, h, i, j: docs[b, i] == docs[b, j])
check("documents by their function", of(one), mask_mod=one)
check("documents by their numbers", dict(intervals=fatune.intervals.of_documents(doc)), mask_mod=one)
check("documents of each batch, causal", dict(intervals=fatune.intervals.of_documents(docs), causal=True),
      mask_mod=lambda b, h, i, j: own(b, h, i, j) & (j <= i))
both = lambda b, h, i, j: own(b, h, i, j) & ((j <= i) | (j < prefix[b]))  # noqa: E731
fatune.intervals.ELEMENTS = 5 * B * N  # in three pieces
check("documents with a prefix of the batch", of(both, B), mask_mod=both)
check("documents as an expression", dict(mask_mod="itable0[b, i] == itable0[b, j]", tables=[docs]), mask_mod=own)
check("documents as a mask", dict(intervals=fatune.intervals.of_mask((docs[:, :, None] == docs[:, None])[:, None])), mask_mod=own)
check("dilated", dict(mask_mod="(i - j) % 3 == 0", causal=True), mask_mod=lambda b, h, i, j: ((i - j) % 3 == 0) & (j <= i))
check("neighbours in images of 4 columns", dict(mask_mod="abs(i // 4 - j // 4) <= 1 and abs(i % 4 - j % 4) <= 1"),
      mask_mod=lambda b, h, i, j: ((i // 4 - j // 4).abs() <= 1) & ((i % 4 - j % 4).abs() <= 1))
check("ALiBi", dict(slopes=slopes, causal=True), lambda s, b, h, i, j: s + slopes[h] * (j - i), causal)
check("ALiBi as an expression", dict(mod="s + table0[h] * (j - i)", tables=[many], causal=True), lambda s, b, h, i, j: s + many[h] * (j - i), causal)
check("softcap", dict(softcap=2.0), lambda s, b, h, i, j: 2 * torch.tanh(s / 2))
check("tanh as an expression", dict(mod="2.0 * tanh(s / 2.0)", causal=True), lambda s, b, h, i, j: 2 * torch.tanh(s / 2), causal)
check("relative bias", dict(mod="s + table0[h, j - i + 5]", tables=[near]), lambda s, b, h, i, j: s + near[h, (j - i + 5).clamp(0, N - 1)])

refused(lambda: of(lambda b, h, i, j: (i < 7) | (j % 2 == 0)), ValueError, "row 7 of batch 0, head 0", "mask_mod=")
refused(lambda: fatune.intervals.of_mask(torch.tensor([[[[1, 0, 1]]]])), ValueError, "row 0")
for pair in (*(fatune.intervals.of_mask(torch.zeros(1, 1, 2, keys)) for keys in (3, 0)), fatune.intervals.of_documents(doc[:0])):
    assert not any(t.any() for t in pair) and pair[0].dtype == torch.int32
assert fatune.intervals.of_mod(causal, 1, 1, 0, 4, "cpu")[0].shape == (1, 1, 0)
lent.check_driver()
print("masks and scores of FlexAttention's users: right")
