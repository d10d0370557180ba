"""front.py -- PyTorch's doors to fatune, against PyTorch itself: sdpa, torch.compile, autocast, the operators under
torch.nn.functional.scaled_dot_product_attention. CPU tensors pass for a GPU's (lent.py). Needs PyTorch."""

import os
import sys

import torch
import torch.nn.functional as F
import fatune
from fatune import features, functional, ops, overrides, tensors

import lent
from refusal import refused

assert not {"torch._dynamo", "sympy"} & set(sys.modules), "fatune loads what takes seconds"
lent.begin()
tensors._check_inputs = lambda *tensors: None  # a CPU tensor is none of a GPU, and must not look so to torch.compile
del torch.Tensor.is_cuda
torch.manual_seed(1)


def drawn(*shape, dtype=torch.float16, needed=False):
    return torch.randn(shape).to(dtype).requires_grad_(needed)


def close(a, b, allowed=4e-3):
    torch.testing.assert_close(a.double(), b.double(), rtol=allowed, atol=allowed)


def right(*tensors, **options):
    return F.scaled_dot_product_attention(*(t.double() for t in tensors), **options)


# sdpa: shapes, diagonals at the top left, widths that are no multiple of 8, gradients.
for q, k, v, options in (
        ((2, 2, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8), {}), ((2, 2, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8), {"is_causal": True}),
        ((1, 2, 5, 8), (1, 2, 3, 8), (1, 2, 3, 8), {"is_causal": True}), ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), {"is_causal": True}),
        ((1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 16), {"enable_gqa": True, "scale": 0.5}),
        ((2, 3, 8), (2, 4, 8), (2, 4, 8), {}), ((3, 8), (4, 8), (4, 8), {}), ((2, 1, 2, 3, 8), (2, 1, 2, 4, 8), (2, 1, 2, 4, 8), {}),
        ((1, 1, 3, 5), (1, 1, 4, 5), (1, 1, 4, 12), {})):
    given = [drawn(*shape, needed=True) for shape in (q, k, v)]
    twin = [t.detach().double().requires_grad_() for t in given]
    found, wanted = fatune.sdpa(*given, **options), F.scaled_dot_product_attention(*twin, **options)
    assert found.shape == wanted.shape and found.dtype == torch.float16, found.shape
    close(found, wanted)
    weight = torch.randn_like(wanted)
    for a, b in zip(torch.autograd.grad(found, given, weight.half()), torch.autograd.grad(wanted, twin, weight)):
        close(a, b, 8e-3)
q, k, v = (drawn(1, 2, 4, 8) for _ in range(3))
close(fatune.sdpa(q.mT.contiguous().mT, k, v), right(q, k, v))  # its last stride is not 1
for _ in range(2):  # a known call is no answer to other words
    close(fatune.sdpa(q, k[:, :1], v[:, :1], enable_gqa=True), right(q, k[:, :1], v[:, :1]))
    refused(lambda: fatune.sdpa(q, k[:, :1], v[:, :1]), ValueError, "enable_gqa")
    close(fatune.sdpa(q, k, v, is_causal=True, scale=0.5), F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True, scale=0.5))
    close(fatune.sdpa(q, k, v), right(q, k, v))
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402
close(fatune.sdpa(q[:, :, 1:], k, v, causal_lower_right(3, 4)), right(q, k, v, is_causal=True)[:, :, 1:])
close(fatune.sdpa(q[:, :, :3], k, v, causal_upper_left(3, 4)), right(q, k, v, is_causal=True)[:, :, :3])
refused(lambda: fatune.sdpa(q, k, v, dropout_p=1.5), ValueError, "dropout")
refused(lambda: fatune.sdpa(q, k, v, torch.ones(4, 4, dtype=torch.bool), is_causal=True), ValueError, "only one")

# attn_mask, bool and added, of every broadcast shape; a row that sees no key is 0, as PyTorch's.
for lead, shape in (((2, 2), (3, 5)), ((2, 2), (1, 5)), ((2, 2), (2, 1, 3, 5)), ((2, 2), (2, 3, 5)), ((2, 2), (2, 1, 1, 5)), ((2, 2), (3, 1)),
                    ((2,), (2, 3, 5)), ((), (3, 5)), ((2, 3, 2), (3, 1, 3, 5)), ((2, 3, 2), (3, 5))):
    given = [drawn(*lead, n, 8, needed=True) for n in (3, 5, 5)]
    twin = [t.detach().double().requires_grad_() for t in given]
    seen = torch.rand(shape) > 0.4
    seen[..., 0, :] = False
    added = torch.randn(shape).half().requires_grad_()  # its gradient too
    close(*(torch.autograd.grad(of.sum(), added)[0] for of in (fatune.sdpa(*given, added), F.scaled_dot_product_attention(*twin, added.double()))),
          8e-3)
    for mask, exact in ((seen, seen), *((torch.randn(shape).to(t).masked_fill(~seen, -torch.inf),) * 2 for t in (torch.float16, torch.float32))):
        exact = exact if mask.dtype == torch.bool else exact.half().double()
        found, wanted = fatune.sdpa(*given, mask), F.scaled_dot_product_attention(*twin, exact)
        close(found, wanted)
        weight = torch.randn_like(wanted)
        for a, b in zip(torch.autograd.grad(found, given, weight.half()), torch.autograd.grad(wanted, twin, weight)):
            close(a, b.nan_to_num(0), 8e-3)
refused(lambda: fatune.sdpa(q, k, v, torch.ones(3, 4, dtype=torch.bool)), ValueError, "mask")
for dtype in (torch.uint8, torch.int64):  # PyTorch takes none either
    refused(lambda: fatune.sdpa(q, k, v, torch.ones(4, 4, dtype=dtype)), ValueError, "bool")
none = q[:0].detach().requires_grad_()
assert torch.autograd.grad(fatune.sdpa(none, none, none).sum(), none)[0].shape == none.shape

# Autocast: float32 inputs are cast, and their gradients are float32 again.
wide = [t.float().requires_grad_() for t in (q, k, v)]
real = functional._is_autocast, torch.get_autocast_dtype
functional._is_autocast, torch.get_autocast_dtype = lambda kind: kind == "cuda", lambda _: torch.float16  # without CUDA it cannot be
out = fatune.sdpa(*wide)
assert fatune.sdpa(*(t.detach().bfloat16() for t in wide)).dtype == torch.float16
functional._is_autocast, torch.get_autocast_dtype = real
assert out.dtype == torch.float16
assert all(g.dtype == torch.float32 for g in torch.autograd.grad(out.float().sum(), wide))

# torch.compile: one graph, its gradients, and lengths that compile nothing anew.
graphs = []


def counting(graph, inputs):
    graphs.append(graph)
    return graph.forward


def model(q, k, v):
    return fatune.attention(q * 2, k, v, causal=True, scale=0.3).sin() + fatune.sdpa(q, k, v)


compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
counted = torch.compile(model, backend=counting, fullgraph=True, dynamic=True)
for n in (4, 6, 9):
    given = [drawn(1, 2, n, 8, needed=True) for _ in range(3)]
    out = compiled(*given)
    close(out, model(*given), 1e-6)
    for a, b in zip(torch.autograd.grad(out.sum(), given), torch.autograd.grad(model(*given).sum(), given)):
        close(a, b, 2e-3)
    counted(*(t.detach() for t in given))
assert len(graphs) == 1, f"{len(graphs)} graphs for three lengths"
# q, k and v of one tensor: what a graph takes a result's strides for, they are.
packed = drawn(2, 6, 3, 4, 8)


def unpacked(packed):
    return fatune.attention(*(packed[:, :, i].transpose(1, 2) for i in range(3))).transpose(1, 2).reshape(2, 6, 32)


both = []
for call in (torch.compile(unpacked, backend="aot_eager", fullgraph=True), unpacked):
    leaf = packed.detach().requires_grad_()
    o = call(leaf)
    both.append((o, *torch.autograd.grad(o.double().sin().sum(), leaf)))
for a, b in zip(*both):
    close(a, b, 2e-3)
sink = torch.tensor([0.5, -1.0], requires_grad=True)
sunk = torch.compile(lambda q, k, v, s: fatune.attention(q, k, v, sink=s), backend="aot_eager", fullgraph=True)
both = sunk(q, k, v, sink), fatune.attention(q, k, v, sink=sink)
close(*both, 1e-6)
for a, b in zip(*(torch.autograd.grad(of.sum(), sink) for of in both)):
    close(a, b, 1e-5)
with_lse = torch.compile(lambda q, k, v: fatune.attention(q, k, v, return_lse=True), backend="aot_eager", fullgraph=True)
for a, b in zip(with_lse(q, k, v), fatune.attention(q, k, v, return_lse=True)):
    close(a, b, 1e-6)
of = [t.detach().requires_grad_() for t in (q, k, v)]  # a gradient by lse too
both = [torch.autograd.grad(sum(t.double().sum() for t in call(*of)), of)
        for call in (with_lse, lambda *t: fatune.attention(*t, return_lse=True))]
for a, b in zip(*both):
    close(a, b, 2e-3)

# The same with features: each alone, a bias's and a sink's gradient, LSE's, what dropout draws.
bias, sink = torch.randn(1, 1, 4, 4).half().requires_grad_(), torch.tensor([0.5, -1.0], requires_grad=True)
cu, lens, seen = (torch.tensor(x, dtype=torch.int32) for x in ([0, 1, 4], [3], [1]))
flat = [drawn(4, 2, 8) for _ in range(3)]
for given, options in (((q, k, v), {"softcap": 2.0}), ((q, k, v), {"bias": bias, "causal": True, "sink": sink}),
                       ((q, k, v), {"mask": bias > 0, "slopes": torch.rand(2)}), ((q, k, v), {"used": (None, lens)}),
                       ((q, k, v), {"prefix": seen, "causal": True}), ((q, k, v), {"bias": bias, "deterministic": True}),
                       (flat, {"cu_seqlens": (cu, cu), "max_seqlens": (3, 3), "causal": True}),
                       ((q, k, v), {"intervals": tuple(torch.full((1, 1, 4), n, dtype=torch.int32) for n in (1, 3))}),
                       ((q, k, v), {"dropout": 0.5, "rng": torch.tensor([3, 4])})):
    of, beside = [t.detach().requires_grad_() for t in given], [t for t in (options.get("bias"), options.get("sink")) if t is not None]

    def called(*of):
        return fatune.attention(of[0] * 2, *of[1:], **options, return_lse=True)
    torch._dynamo.reset()  # one function after another from the same lines
    found = []
    for call in (torch.compile(called, backend="aot_eager", fullgraph=True), called):
        o, lse = call(*of)
        found.append((o, lse, *torch.autograd.grad(o.double().sin().sum() + lse.double().sum(), [*of, *beside])))
    for a, b in zip(*found):
        assert a.shape == b.shape and a.stride() == b.stride(), (options, a.stride(), b.stride())
        close(a, b, 2e-3)
every = features.Options(True, 0.5, (3, 0), "tf32", "fwd", 1, 64, sink, 2.0, torch.rand(2), 0.5, torch.tensor([3, 4]), True, 7, (cu, cu), (3, 3),
                         (None, lens), lens, seen, (seen, None), bias > 0, bias, "s + table0[h]", "i >= j", (sink, lens), seen, (64, 32))
names, more = ops._apart(every)
assert ops._together(every.sink, every.bias, more, names, ops._numbers(every, False)) == every, "an option is lost on its way"
torch._dynamo.reset()
graphs.clear()
counted = torch.compile(lambda q, k, v: fatune.attention(q, k, v, softcap=2.0).sin(), backend=counting, fullgraph=True, dynamic=True)
for n in (4, 6, 9):
    counted(*(drawn(1, 2, n, 8) for _ in range(3)))
assert len(graphs) == 1, f"{len(graphs)} graphs for three lengths of a call with features"
moved = []
torch.cuda.is_current_stream_capturing, torch.cuda.default_generators = lambda: False, {-1: type("", (), {
    "initial_seed": lambda _: 7, "get_offset": lambda _: 64 * len(moved), "set_offset": lambda _, offset: moved.append(offset)})()}
dropping = torch.compile(lambda q, k, v: (fatune.attention(q, k, v, dropout=0.5), fatune.attention(q, k, v, dropout=0.5), fatune.sdpa(q, k, v, dropout_p=0.5)),
                         backend="aot_eager", fullgraph=True)
of = [t.detach().requires_grad_() for t in (q, k, v)]
drawings = dropping(*of)
assert moved == [64, 128, 192], "each call of a graph draws"
for n, o in enumerate(drawings):
    twin = fatune.attention(*of, dropout=0.5, rng=torch.tensor([7, 64 * n]))
    close(o, twin, 1e-6)
    for a, b in zip(torch.autograd.grad(o.sum(), of, retain_graph=True), torch.autograd.grad(twin.sum(), of)):
        close(a, b, 2e-3)
into = torch.zeros_like(q)
torch.compile(lambda q, k, v, o: fatune.attention(q, k, v, softcap=2.0, out=o), backend="aot_eager", fullgraph=True)(
    *(t.detach() for t in (q, k, v)), into)
close(into, fatune.attention(q, k, v, softcap=2.0), 1e-6)
torch.library.opcheck(torch.ops.fatune.attention_with.default, (*(t.detach() for t in (q, k, v)), sink.detach(), bias.detach(), [lens], "used.1",
                                                                True, None, -1, -1, None, None, 2, 0, 2.0, 0.0, False, 0, 0, 0, 0, 0, None, None, False))
torch.library.opcheck(torch.ops.fatune.attention.default, (q, k, v, None, True, None, -1, -1, None, False, 0, None, 2))
given = [drawn(1, 2, 4, 8, dtype=torch.float32, needed=True) for _ in range(3)]
torch.library.opcheck(torch.ops.fatune.attention.default, (*given, None, False, 0.5, 2, 1, None, True, 0, None, 2),
                      test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))

# Under PyTorch's own function: the operators of both backends, forward, backward, and what is not served.
handle = fatune.register("CPU")
flash, efficient = torch.ops.aten._scaled_dot_product_flash_attention, torch.ops.aten._scaled_dot_product_efficient_attention
for rows, keys, causal in ((5, 5, True), (3, 5, True), (5, 3, True), (3, 5, False)):
    given = [drawn(1, 2, n, 8, needed=True) for n in (rows, keys, keys)]
    twin = [t.detach().double().requires_grad_() for t in given]
    weight = torch.randn(1, 2, rows, 8).double()
    for operator, more, count in ((flash, (0.0, causal), 9), (efficient, (None, True, 0.0, causal), 4)):
        if operator is flash and causal:  # its diagonal ends at the bottom right; rows without a key are 0
            seen = min(rows, keys)
            wanted = F.scaled_dot_product_attention(twin[0][:, :, rows - seen:], *twin[1:], scale=0.4,
                                                    attn_mask=torch.ones(seen, keys).tril(keys - seen) > 0)
            wanted = torch.cat((torch.zeros(1, 2, rows - seen, 8), wanted), 2)
        else:
            wanted = F.scaled_dot_product_attention(*twin, is_causal=causal, scale=0.4)
        gradients = torch.autograd.grad(wanted, twin, weight)
        found = operator(*given, *more, scale=0.4)
        assert len(found) == count
        close(found[0], wanted)
        for a, b in zip(torch.autograd.grad(found[0], given, weight.half()), gradients):
            close(a, b, 8e-3)
lse = efficient(q, k, v, None, True, 0.0, False)[1]
assert lse.shape == (1, 2, 32) and torch.isinf(lse[:, :, 4:]).all() and not torch.isinf(lse[:, :, :4]).any()
refused(lambda: flash(q, k, v, 0.5), NotImplementedError, "neither fatune nor this PyTorch")
bias = torch.randn(1, 2, 4, 4).half()
for causal in (False, True):
    given = [t.detach().requires_grad_() for t in (q, k, v, bias)]
    twin = [t.detach().double().requires_grad_() for t in given]
    hidden = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).tril() == 0, -torch.inf if causal else 0)
    wanted = F.scaled_dot_product_attention(*twin[:3], twin[3] + hidden)
    found = efficient(*given, True, 0.0, causal)[0]
    close(found, wanted)
    for a, b in zip(torch.autograd.grad(found.sum(), given), torch.autograd.grad(wanted.sum(), twin)):
        close(a, b, 8e-3)
handle.remove()
refused(lambda: flash(q, k, v), NotImplementedError)
if hasattr(torch.nn.attention, "list_flash_attention_impls"):
    assert "fatune" in torch.nn.attention.list_flash_attention_impls()
lent.check_driver()
print("front doors of PyTorch: right")
