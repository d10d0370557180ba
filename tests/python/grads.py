"""grads.py -- gradients of fatune.attention, on the fake driver: against differences of its own forward, by layout, type
and wish for equal bits; the kernels themselves in the emulator; and what must be an error.

Runs with PyTorch, or with the stand-in of this folder, which knows less: what it leaves out is said."""

import contextlib
import math
import os
import random
import sys
import warnings

import torch
from fatune import tensors as fatune
import lent
from refusal import refused
from lent import make, numbers

lent.begin()
random.seed(7)
STEP = 2 ** -6


def drawn(count):
    return [random.uniform(-1, 1) for _ in range(count)]


@contextlib.contextmanager
def unrecorded():
    if lent.is_real:
        with torch.no_grad():
            yield
    else:
        torch.grad_enabled = False
        yield
        torch.grad_enabled = True


class Setting:
    """The inputs of a call, the gradient of its output, and options."""

    def __init__(self, b, h, hk, n, m, d, dv=None, **options):
        dv = dv or d
        self.shapes = (b, h, n, d), (b, hk, m, d), (b, hk, m, dv)
        self.values = [drawn(math.prod(s)) for s in self.shapes]
        self.weights, self.shape = drawn(b * h * n * dv), (b, h, n, dv)
        self.options = options

    def tensors(self, dtype=torch.float32, mixed=False):
        return [make(values, shape, dtype, mixed) for values, shape in zip(self.values, self.shapes)]

    def gradients(self, inputs, mixed=False, **options):
        out = fatune.attention(*inputs, **self.options, **options)
        return torch.autograd.grad(out, inputs, make(self.weights, self.shape, inputs[0].dtype, mixed, needed=False))

    def differences(self, input_, rows=None):
        """The gradient of one input, by O or by LSE where it has these weights, by differences of the forward, in fp32: right to
        about STEP^2."""
        inputs, found = self.tensors(), []
        place = inputs[input_]
        for i, value in enumerate(self.values[input_]):
            index = []
            for size in reversed(self.shapes[input_]):
                index.insert(0, i % size)
                i //= size
            sides = []
            for step in (STEP, -STEP):
                lent.put(place, tuple(index), value + step)
                with unrecorded():
                    out = numbers(fatune.attention(*inputs, return_lse=True, **self.options)[0 if rows is None else 1])
                sides.append(sum(w * o for w, o in zip(rows or self.weights, out)))
            lent.put(place, tuple(index), value)
            found.append((sides[0] - sides[1]) / (2 * STEP))
        return found


def close(what, found, right, allowed):
    assert len(found) == len(right), what
    most = max((abs(f - r) for f, r in zip(found, right)), default=0)
    assert most <= allowed * max(1, *map(abs, right)), (what, most)


# Against differences: grouped heads, other lengths, masks, rows that see no key, a scale, a width of V's own; of each
# shape more than one call.
for setting in (Setting(1, 2, 1, 3, 5, 8), Setting(1, 2, 1, 3, 5, 8, causal=True),
                Setting(1, 2, 2, 4, 2, 8, causal=True), Setting(2, 2, 1, 2, 3, 8, scale=-0.7), Setting(2, 2, 1, 2, 3, 8),
                Setting(1, 1, 1, 5, 5, 8, window=(1, 1)), Setting(1, 1, 1, 5, 5, 8, window=(2, 3)),
                Setting(1, 3, 1, 4, 6, 8, window=[2, 0]), Setting(1, 1, 1, 2, 3, 8, 16),
                Setting(1, 2, 1, 3, 5, 8, causal=True, softcap=0.5), Setting(2, 2, 1, 3, 5, 8, slopes=lent.row([0.5, 0.1])),
                Setting(2, 2, 1, 3, 5, 8, slopes=lent.row([0.5, 0.1, 0.3, 0.2], (2, 2)), softcap=2.0),
                Setting(1, 2, 1, 5, 9, 8, dropout=0.25, rng=lent.words([1234, 5])),
                Setting(1, 2, 1, 5, 9, 8, causal=True, dropout=0.5, softcap=1.0, rng=lent.words([-7, 1 << 40]))):
    inputs = setting.tensors()
    for name, input_, gradient in zip("qkv", range(3), setting.gradients(inputs)):
        assert gradient.shape == inputs[input_].shape
        close((name, setting.options), numbers(gradient), setting.differences(input_), 1e-3)
    # Other layouts, each gradient with its input's.
    right = [numbers(g) for g in setting.gradients(inputs)]
    views = setting.tensors(mixed=True)
    for view, gradient, numbers_ in zip(views, setting.gradients(views, True), right):
        close("views", numbers(gradient), numbers_, 1e-6)
        assert gradient.stride() == view.stride()
    # Half precision, of the same numbers rounded.
    for dtype, allowed in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
        if setting.options.get("causal") and setting.shapes[0][2] == 3:
            for gradient, numbers_ in zip(setting.gradients(setting.tensors(dtype)), right):
                assert gradient.dtype == dtype
                close(dtype, numbers(gradient), numbers_, allowed)

# One input alone, and none.
setting = Setting(1, 2, 1, 3, 5, 8, causal=True)
q, k, v = setting.tensors()
right = [numbers(g) for g in setting.gradients((q, k, v))]
k.requires_grad = False
alone, = torch.autograd.grad(fatune.attention(q, k, v, causal=True), (q,), make(setting.weights, setting.shape, needed=False))
close("q alone", numbers(alone), right[0], 1e-6)
q.requires_grad = v.requires_grad = False
assert not fatune.attention(q, k, v, causal=True).requires_grad
q, k, v = setting.tensors()
with unrecorded():
    assert not fatune.attention(q, k, v, causal=True).requires_grad

# A gradient that is one number for all.
weight = make([0.5], (1,), needed=False).expand(setting.shape)
one = torch.autograd.grad(fatune.attention(q, k, v, causal=True), (q, k, v), weight)
setting.weights = [0.5] * len(setting.weights)
for a, b in zip(one, setting.gradients((q, k, v))):
    close("expanded", numbers(a), numbers(b), 1e-6)

# By LSE: alone, where V does not count at all, and O does not where LSE stands beside it; rows without a key have none.
rows = drawn(6)
rows_of = lambda: make(rows, (1, 2, 3), needed=False)
by_lse = lambda **options: torch.autograd.grad(fatune.attention(q, k, v, causal=True, return_lse=True, **options)[1], (q, k, v),
                                               rows_of())
for input_, name, gradient in zip((0, 1), "qk", by_lse()):
    close(("lse", name), numbers(gradient), setting.differences(input_, rows), 1e-3)
for options in ({}, {"deterministic": True}):
    assert not any(numbers(by_lse(**options)[2])), options
out, lse = fatune.attention(q, k, v, causal=True, return_lse=True)
for a, b in zip(torch.autograd.grad(out, (q, k, v), weight), one):
    close("beside lse", numbers(a), numbers(b), 1e-6)
apart = [[x + y for x, y in zip(numbers(a), numbers(b))] for a, b in zip(by_lse(), one)]
with unrecorded():
    call = fatune.prepare_backward(q, k, v, out, lse, weight.contiguous(), causal=True, dlse=rows_of())
    for a, b in zip(call(), apart):
        close("by both", numbers(a), b, 1e-6)

# Equal bits: asked for, or as torch says.
named = lambda: {key[1] for key in fatune._plans}
assert "bwd-f32-d8-causal" in named() and not any(name.endswith("causal-det") for name in named()), named()
fatune.attention(q, k, v, causal=True, deterministic=True)
assert "bwd-f32-d8-causal-det" in named()
if lent.is_real:
    torch.use_deterministic_algorithms(True)
torch.deterministic = True
half = setting.tensors(torch.float16)
for a, b in zip(setting.gradients(half), one):
    close("det", numbers(a), numbers(b), 2e-3)
assert "bwd-f16-d8-causal-det" in named()
fatune.attention(*setting.tensors(), window=(1, 1), deterministic=False)
assert "bwd-f32-d8-w-det" not in named()
torch.deterministic = False
if lent.is_real:
    torch.use_deterministic_algorithms(False)

# In two steps.
with unrecorded():
    out, lse = fatune.attention(q, k, v, causal=True, return_lse=True)
    weights = make(setting.weights, setting.shape, needed=False)
    call = fatune.prepare_backward(q, k, v, out, lse, weights, causal=True, deterministic=True)
    for a, b, c in zip(call(), call(), one):
        close("prepared", numbers(a), numbers(c), 1e-6)
        assert a is b
    room = [make([], t.shape, needed=False) for t in (q, k, v)]
    assert all(a is b for a, b in zip(fatune.prepare_backward(q, k, v, out, lse, weights, gradients=room)(), room))
    refused(lambda: fatune.prepare_backward(q, k, v, out, lse, k), ValueError, "out is", "does not fit")
    refused(lambda: fatune.prepare_backward(q, k, v, out, lse, weights, gradients=(k, k, v)), ValueError, "dq is", "does not fit")
assert {text for text in named() if "q3" in text and text.startswith("bwd")} == {
    "bwd-f32-b1-h2k1-q3-k5-d8-causal-det", "bwd-f32-b1-h2k1-q3-k5-d8-causal-dlse", "bwd-f32-b1-h2k1-q3-k5-d8"}

# What has no backward kernel is told by the forward, and only where gradients are recorded.
wide = Setting(1, 1, 1, 2, 2, 64, 384)
inputs = wide.tensors(torch.float16)
error = refused(lambda: fatune.attention(*inputs), fatune.Error, "no gradients", "torch.no_grad()")
assert error.status == fatune.UNSUPPORTED, error.status
with unrecorded():
    fatune.attention(*inputs)
refused(lambda: fatune.attention(q, k, v, out=q), ValueError, "out cannot be given")
refused(lambda: fatune.prepare(q, k, v), ValueError, "requires a gradient")
refused(lambda: fatune.attention(q, k, make(drawn(8), (1, 1, 1, 8))), ValueError, "fit together")
refused(lambda: fatune.attention(q, k, v, policy=fatune.FAIL, window=(3, 1)), fatune.Error, "no gradients")

# Lengths of zero.
for n, m in ((0, 3), (3, 0)):
    for gradient in Setting(1, 1, 1, n, m, 8, causal=True).gradients(Setting(1, 1, 1, n, m, 8).tensors()):
        assert not any(numbers(gradient))

# The kernels' own numbers.
for dtype, allowed in ((torch.float32, 1e-5), (torch.float16, 4e-3)):
    setting = Setting(1, 2, 1, 3, 5, 8, causal=True)
    right = [numbers(g) for g in setting.gradients(setting.tensors(dtype))]
    os.environ["FAKE_CUDA_EMULATE"] = "1"
    for gradient, numbers_ in zip(setting.gradients(setting.tensors(dtype)), right):
        close("emulated", numbers(gradient), numbers_, allowed)
    os.environ["FAKE_CUDA_EMULATE"] = "reference"
lent.check_driver()

if lent.is_real:
    # Sinks, theirs too; a head without one, rows without a key.
    sink = torch.tensor([0.5, -math.inf, -1.0, 3.0], requires_grad=True)
    inputs = [torch.randn(2, heads, n, 8, requires_grad=True) for heads, n in ((4, 5), (2, 3), (2, 3))]
    given = (*inputs, sink)
    scores = (inputs[0].double() @ inputs[1].double().repeat_interleave(2, 1).mT) / math.sqrt(8)
    scores = scores.masked_fill(torch.ones(5, 3, dtype=torch.bool).triu(-1), -math.inf)  # row i sees the keys up to i - 2
    most = torch.maximum(scores.amax(-1, keepdim=True), sink.double()[None, :, None, None]).detach().clamp(min=-1e30)
    weights = (scores - most).exp()
    total = weights.sum(-1, keepdim=True) + (sink.double()[None, :, None, None] - most).exp()
    right = (weights / total.where(total > 0, 1.0)) @ inputs[2].double().repeat_interleave(2, 1)
    weight = torch.randn(right.shape)
    exact = torch.autograd.grad(right, given, weight.double(), retain_graph=True)
    right_lse = (total.where(total > 0, 1.0).log() + most)[..., 0].where(total[..., 0] > 0, 0.0)
    lse_weight = torch.randn(right_lse.shape)
    exact_both = torch.autograd.grad([right, right_lse], given, [weight.double(), lse_weight.double()])
    for os.environ["FAKE_CUDA_EMULATE"] in ("1", "reference"):
        found = fatune.attention(*inputs, causal=True, sink=sink)
        torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)
        for a, b in zip(torch.autograd.grad(found, given, weight), exact):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        both = fatune.attention(*inputs, causal=True, sink=sink, return_lse=True)
        seen = total[..., 0] > 0  # where a row sees neither key nor sink LSE is inf
        by_both = torch.autograd.grad([both[0], both[1].where(seen, 0.0)], given, [weight, lse_weight])
        for a, b in zip(by_both, exact_both):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    # PyTorch's own check, and its second derivative that is none.
    q, k, v = (torch.randn(1, heads, n, 8, requires_grad=True) for heads, n in ((2, 3), (1, 4), (1, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the inputs are not in double
        assert torch.autograd.gradcheck(lambda *t: fatune.attention(*t, causal=True), (q, k, v), eps=2 ** -5, atol=4e-3, rtol=1e-2)
        assert torch.autograd.gradcheck(lambda *t: fatune.attention(*t, return_lse=True), (q, k, v), eps=2 ** -5, atol=4e-3,
                                        rtol=1e-2)
    first, = torch.autograd.grad(fatune.attention(q, k, v).sum(), q, create_graph=True)
    refused(lambda: (first.sum() + q.sum()).backward(), fatune.Error, "second derivative")
    # A tensor that was written to since is found out, not taken.
    x = q.detach().clone().requires_grad_() * 1
    out = fatune.attention(x, k, v)
    x.add_(1)
    refused(lambda: out.sum().backward(), RuntimeError, "modified by an inplace operation")
else:
    print("left out: sinks, gradcheck, second derivatives: PyTorch is missing")
lent.check_driver()
print("gradients: right")
