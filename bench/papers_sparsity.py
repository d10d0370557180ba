"""papers_sparsity.py -- runtime by density of a block mask, as the first paper draws it: block-sparse attention beside our own dense
calls and PyTorch's FlexAttention with the same blocks. Blocks, 128 by 128 unless asked otherwise, are there by chance, other ones for each
head. Calls take turns, each behind 75 ms of itself, for under load power sets the clock (docs/measured.md)."""

import gc
import time

import fatune
import torch
from fatune import features

DENSITIES, TOKENS, WIDTH = (1.0, 0.5, 0.2, 0.1, 0.05), 16384, 2048


def replayed(call):
    """The call as a CUDA graph, so that nobody's host time counts: below 0.1 ms that is what is seen else. Needs a stream of its own."""
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        call()
    return graph.replay


def in_turns(calls, rounds=3):
    """Milliseconds of each call, medians of rounds."""
    graphs = [replayed(call) for call in calls]

    def run(call, ms):
        n = max(1, round(ms / size[call]))
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
        begin.record()
        for _ in range(n):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / n
    size = dict.fromkeys(graphs, 1.0)
    for _ in range(2):
        size = {call: max(run(call, 3), 1e-3) for call in graphs}
    found = [[] for _ in graphs]
    for _ in range(rounds):
        for call, own in zip(graphs, found):
            run(call, 75)
            own.append(run(call, 20))
    return [sorted(own)[rounds // 2] for own in found]


class Shape:
    """One shape: its tensors, and a call of each kind."""

    def __init__(self, n, d, block=128, dtype=torch.bfloat16):
        torch.manual_seed(n + d)
        self.n, self.d, self.block, b, h = n, d, block, TOKENS // n, WIDTH // d
        self.q, self.k, self.v, self.dO = (torch.randn(b, h, n, d, device="cuda", dtype=dtype) for _ in range(4))
        self.heads, self.flex = h, None

    def there(self, density):
        return torch.rand(1, self.heads, self.n // self.block, self.n // self.block, device="cuda") < density

    def ours(self, op, there=None):
        q, k, v = self.q, self.k, self.v
        given = {} if there is None else {"block_mask": there, "block": (self.block, self.block)}
        with torch.no_grad():
            out, lse = fatune.attention(q, k, v, return_lse=True, **given)
            if op == "fwd":
                return lambda: fatune.attention(q, k, v, out=out, **given)
            if there is None:
                return fatune.prepare_backward(q, k, v, out, lse, self.dO)
            return lambda: features.backward(self.dO, q, k, v, out, lse, **given)

    def flexible(self, op, there):
        from torch.nn.attention.flex_attention import BlockMask, flex_attention
        count = there.sum(-1, dtype=torch.int32)
        order = torch.sort(there.to(torch.int8), dim=-1, descending=True, stable=True).indices.to(torch.int32)
        blocks = BlockMask.from_kv_blocks(torch.zeros_like(count), order, count, order, BLOCK_SIZE=self.block,
                                          seq_lengths=(self.n, self.n))
        self.flex = self.flex or torch.compile(flex_attention, dynamic=False)
        leaves = [t.detach().requires_grad_(op == "bwd") for t in (self.q, self.k, self.v)]
        if op == "fwd":
            return lambda: self.flex(*leaves, block_mask=blocks)
        out = self.flex(*leaves, block_mask=blocks)
        return lambda: torch.autograd.grad(out, leaves, self.dO, retain_graph=True)

    def off(self, there):
        """The largest difference of O and its gradients from PyTorch's in double, over the largest number, of one head."""
        q, k, v, dO = (t[:1, :1].double().requires_grad_() for t in (self.q, self.k, self.v, self.dO))
        seen = there[:, :1].repeat_interleave(self.block, 2).repeat_interleave(self.block, 3)
        s = (q @ k.mT / self.d ** 0.5).masked_fill(~seen, -float("inf"))
        right = torch.nan_to_num(torch.softmax(s, -1)) @ v
        wanted = (right, *torch.autograd.grad(right, (q, k, v), dO))
        with torch.no_grad():
            given = {"block_mask": there, "block": (self.block, self.block)}
            out, lse = fatune.attention(self.q, self.k, self.v, return_lse=True, **given)
            found = (out, *features.backward(self.dO, self.q, self.k, self.v, out, lse, **given))
        return max(float((a[:1, :1] - b.detach()).abs().max() / b.detach().abs().max()) for a, b in zip(found, wanted))


def measured(lengths, dims, ops=("fwd", "bwd"), alone=False, block=128, say=print):
    """Rows: op, n, d, density, the part of blocks that is there, ms dense, ms, that over dense, FlexAttention's ms."""
    rows = []
    torch.cuda.set_stream(torch.cuda.Stream())
    for n in lengths:
        for d in dims:
            shape = Shape(n, d, block)
            if n <= 4096:
                say(f"n {n} d {d}: off by {shape.off(shape.there(0.2)):.2g} of the largest")
            masks = [shape.there(density) for density in DENSITIES]
            for op in ops:
                began = time.monotonic()
                calls = [shape.ours(op), *(shape.ours(op, there) for there in masks)]
                calls += [] if alone else [shape.flexible(op, there) for there in masks]
                dense, *found = in_turns(calls)
                for x, (density, there) in enumerate(zip(DENSITIES, masks)):
                    part, ours = float(there.double().mean()), found[x]
                    flex = "" if alone else found[len(masks) + x]
                    rows.append((op, n, d, density, part, dense, ours, ours / dense, flex))
                    say(f"{op} n {n} d {d} density {density:g} ({part:.3f}): {ours:.3f} ms, {ours / dense:.3f} of dense "
                        f"{dense:.3f}; flex {flex if alone else round(flex, 3)}")
                say(f"  {time.monotonic() - began:.1f} s")
                del calls
            del shape, masks
            gc.collect()
            torch.cuda.empty_cache()
    return rows


def picture(rows):
    """An SVG: a panel for each op, length and dimension; milliseconds over the density, dense as a line across."""
    panels = sorted({row[:3] for row in rows}, key=lambda p: (p[0] != "fwd", p[1], p[2]))
    wide, high, across = 300, 220, 4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide * across}" height="{high * -(-len(panels) // across) + 30}" '
             'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
             '<text x="10" y="16">ms by density of blocks: <tspan fill="#4c6ef5">fatune</tspan>, '
             '<tspan fill="#e8590c">FlexAttention</tspan>, <tspan fill="#495057">fatune, dense</tspan></text>']
    for place, panel in enumerate(panels):
        own = [row for row in rows if row[:3] == panel]
        x0, y0 = wide * (place % across) + 40, high * (place // across) + 210
        most = max(x for row in own for x in (row[5], row[6], row[8]) if x != "")

        def at(density, ms):
            return f"{x0 + density * (wide - 60):.1f},{y0 - ms / most * 150:.1f}"
        parts.append(f'<text x="{x0}" y="{y0 - 160}">{panel[0]}, n {panel[1]}, d {panel[2]}</text>'
                     f'<path d="M{x0},{y0 - 150} V{y0} H{x0 + wide - 60}" fill="none" stroke="#adb5bd"/>'
                     f'<text x="{x0 - 36}" y="{y0 - 145}">{most:.3g}</text><text x="{x0 - 12}" y="{y0}">0</text>'
                     f'<polyline points="{at(0, own[0][5])} {at(1, own[0][5])}" fill="none" stroke="#495057" stroke-dasharray="4"/>')
        for column, colour in ((6, "#4c6ef5"), (8, "#e8590c")):
            points = " ".join(at(row[4], row[column]) for row in own if row[column] != "")
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>' if points else "")
    return "\n".join([*parts, "</svg>", ""])
