"""grads.py [CASES] -- gradients of fatune.attention on a GPU: against PyTorch's own in double, in random cases; by PyTorch's
gradcheck; bit by bit where equal bits are asked for; on a side stream and in a CUDA graph.

Needs PyTorch and the library. Allowed is twice the error of the same attention by PyTorch in the same type, and a little:
the bound that the tuner verifies kernels by. Prints a line for each case; exit 1 where one is wrong."""

import math
import random
import sys
import warnings

import torch
import torch.nn.functional as F
import fatune

DEVICE, LONGEST, CASES = "cuda", 300, 40
LITTLE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-5}  # of the largest value
ARITHMETIC = {"f16": (torch.float16, None), "bf16": (torch.bfloat16, None), "f32": (torch.float32, None),
              "f32x3": (torch.float32, "f32x3")}


def drawn(shape, dtype, mixed=False, width=1.0):
    """Mixed: rows lie before heads, as a projection leaves them."""
    b, h, n, d = shape
    t = torch.randn((b, n, h, d) if mixed else shape, device=DEVICE) * width
    t = (t.transpose(1, 2) if mixed else t).to(dtype)
    return t.requires_grad_()


def plain(q, k, v, sink, causal, window, scale):
    """By PyTorch in the type that it is given; a sink is one key more, of zeros, whose score a mask brings."""
    b, h, n, _ = q.shape
    hk, m = k.shape[1:3]
    left, right = window
    row, key = torch.arange(n, device=DEVICE)[:, None] + m - n, torch.arange(m, device=DEVICE)[None]
    seen = torch.ones(n, m, dtype=torch.bool, device=DEVICE)
    if left >= 0:
        seen &= key >= row - left
    if causal or right >= 0:
        seen &= key <= row + (0 if causal else right)
    blind = ~seen.any(-1)
    k, v = k.repeat_interleave(h // hk, 1), v.repeat_interleave(h // hk, 1)
    if sink is None:  # a row that sees nothing sees all, and counts for nothing
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen | blind[:, None], scale=scale)
        return out.masked_fill(blind[:, None], 0)
    bias = torch.zeros(1, h, n, m, dtype=q.dtype, device=DEVICE).masked_fill(~seen, -math.inf)
    bias = torch.cat((bias, sink.to(q.dtype)[None, :, None, None].expand(1, h, n, 1)), -1).expand(b, h, n, m + 1)
    return F.scaled_dot_product_attention(q, F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)), attn_mask=bias, scale=scale)


class Case:
    def __init__(self, lot):
        self.name = lot.choice(list(ARITHMETIC))
        self.dtype, arithmetic = ARITHMETIC[self.name]
        hk, group = lot.choice((1, 2, 3)), lot.choice((1, 1, 2, 4))
        b, n, m, d = lot.choice((1, 2, 3)), lot.randint(1, LONGEST), lot.randint(1, LONGEST), lot.choice((64, 128))
        window = lot.choice(((-1, -1), (-1, -1), (lot.randint(0, m), lot.randint(1, m))))
        mixed = [lot.random() < 0.5 for _ in range(4)]
        self.mask = dict(causal=window == (-1, -1) and lot.random() < 0.6, window=window, scale=lot.choice((None, 0.3 / math.sqrt(d))))
        self.options = dict(arithmetic=arithmetic, deterministic=lot.random() < 0.3)
        wide = lot.choice((1.0, 1.0, 4.0))
        shapes = (b, hk * group, n, d), (b, hk, m, d), (b, hk, m, d)
        self.inputs = [drawn(s, self.dtype, x, w) for s, x, w in zip(shapes, mixed, (wide, 1.0, 1.0))]
        self.sink = torch.randn(hk * group, device=DEVICE, requires_grad=True) if lot.random() < 0.25 else None
        self.weight = drawn((b, hk * group, n, d), self.dtype, mixed[3]).detach()
        if lot.random() < 0.2:
            self.weight = self.weight[..., :1].expand(self.weight.shape)

    def text(self):
        return (fatune.problem_text(*self.inputs, causal=self.mask["causal"], window=self.mask["window"], sink=self.sink,
                                    arithmetic=self.options["arithmetic"]).replace("fwd", "bwd") +
                ("-det" if self.options["deterministic"] else ""))

    def given(self, dtype):
        return [t if t is None else t.detach().to(dtype).requires_grad_() for t in (*self.inputs, self.sink)]

    def ours(self):
        out = fatune.attention(*self.inputs, sink=self.sink, **self.mask, **self.options)
        return torch.autograd.grad(out, [t for t in (*self.inputs, self.sink) if t is not None], self.weight)

    def by_torch(self, dtype):
        given = self.given(dtype)
        out = plain(*given, **self.mask)
        return [g.double() for g in torch.autograd.grad(out, [t for t in given if t is not None], self.weight.to(dtype))]

    def check(self):
        """What is wrong, and the worst share of what is allowed."""
        found, right, same, worst = self.ours(), self.by_torch(torch.float64), self.by_torch(self.dtype), 0.0
        for name, ours, exact, theirs in zip(("dQ", "dK", "dV", "dsink"), found, right, same):
            if ours.dtype != (torch.float32 if name == "dsink" else self.dtype) or ours.shape != exact.shape:
                return f"{name} is {tuple(ours.shape)} {ours.dtype}", worst
            allowed = 2 * (theirs - exact).abs().max().item() + LITTLE[self.dtype] * max(1.0, exact.abs().max().item())
            error = (ours.double() - exact).abs().max().item()
            if not error <= allowed:  # a NaN too
                return f"{name} is off by {error:.3g}, allowed are {allowed:.3g}", worst
            worst = max(worst, error / allowed)
        if self.options["deterministic"] and any(not torch.equal(a, b) for _ in range(3) for a, b in zip(found, self.ours())):
            return "repeats differ", worst
        return None, worst


def check_gradcheck():
    q, k, v = (drawn((1, heads, n, 8), torch.float32) for heads, n in ((4, 5), (2, 7), (2, 7)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the inputs are not in double
        for arithmetic in (None, "f32x3"):
            for mask in (dict(), dict(causal=True), dict(window=(2, 1))):
                torch.autograd.gradcheck(lambda *t: fatune.attention(*t, arithmetic=arithmetic, **mask), (q, k, v), eps=2 ** -5,
                                         atol=1e-2, rtol=1e-2, nondet_tol=1e-5)
                print(f"gradcheck of {arithmetic or 'f32'}, 4 heads on 2, 5 rows, 7 keys, d 8, {mask or 'full'}: right", flush=True)


def check_stream_and_graph():
    """A step recorded on a side stream, and the same in a graph, whose inputs then change. No step is kept behind its results:
    what autograd keeps of one on the default stream, the next would wait for, which a capture forbids."""
    def step():
        out = fatune.attention(*inputs, causal=True, deterministic=True)
        return out.detach(), *torch.autograd.grad(out, inputs, weight)
    inputs = [drawn((2, heads, 200, 64), torch.bfloat16) for heads in (4, 2, 2)]
    weight = drawn((2, 4, 200, 64), torch.bfloat16).detach()
    right = step()
    torch.cuda.synchronize()
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(3):
            beside = step()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(right, beside)), "a side stream gives other bits"
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        inputs[0].mul_(0.5)
    right = step()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(right, captured)), "a graph gives other bits"


def main():
    torch.manual_seed(11)
    torch.backends.cuda.matmul.allow_tf32 = False
    lot, wrong = random.Random(11), 0
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CASES
    for _ in range(count):
        case = Case(lot)
        why, worst = case.check()
        wrong += why is not None
        print(f"{case.text():60} {why or f'{worst:.2f} of what is allowed'}", flush=True)
    checks = [check_gradcheck] + [check_stream_and_graph] * (DEVICE == "cuda")
    for check in checks:
        try:
            check()
        except (AssertionError, RuntimeError) as e:
            wrong += 1
            print(f"{check.__name__}: {e}")
    print(f"{count + len(checks) - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
