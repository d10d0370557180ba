"""peers_cells.py -- the shapes of the benchmark beside peers: the sets, their operations and bytes, parts of a run.

A cell is {"set", "dtype", "b", "h", "n", "d", "causal"} and, where it has them, "hk" (heads of K and V, if fewer than h),
"q" (rows of Q, if other than the n of K and V), "keys" (a causal window: what a row sees, its own key with them) and "model"
(whose call it is). Its set says what is timed, too: grid the forward, grid-bwd the backward, grid-both one behind the other;
the same of models.
Standard library only; nothing here touches a GPU.
"""

import random

import peers_models

HALVES = ("bf16", "f16")
SINGLES = ("f32", "tf32", "f32x3")  # of f32 tensors
SETS = ("grid", "small", "decode", "window", "models")
WITH_BACKWARD = ("grid", "models")
OPS = ("fwd", "bwd", "both")
PRODUCTS = {"fwd": 2, "bwd": 5, "both": 7}  # of q x n x d for each head
OP_NAMES = {"fwd": "forward", "bwd": "backward", "both": "forward and backward"}
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
WINDOWS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
TOKENS, WIDTH = 16384, 2048  # b * n and h * d of the grid; where d does not divide it, as many heads as fit
SMALL = (  # b h n d causal
    (1, 8, 128, 64, False), (1, 32, 128, 128, True), (1, 32, 512, 128, True), (8, 12, 128, 64, False),
    (32, 12, 512, 64, False), (1, 32, 1024, 128, True), (1, 32, 2048, 128, True), (1, 8, 4096, 40, False),
    (2, 10, 4096, 64, False), (1, 24, 4608, 128, False), (2, 16, 1024, 80, False), (2, 16, 1024, 96, True),
    (2, 16, 4096, 192, True))
DECODE = ((1, 512), (1, 1024), (1, 2048), (1, 4096), (1, 8192), (1, 65536), (8, 8192), (32, 4096), (64, 8192))  # b n
LOT_DIMS = (64, 64, 64, 128, 128, 128, 32, 40, 80, 96, 192, 256)  # the usual ones come oftener
LOT_FLOP, LOT_BYTES = 3e11, 1 << 26  # of a shape by lot at most; about those of the largest of the thirteen


def cell(kind, dtype, b, h, n, d, causal, hk=None, q=None, keys=None):
    c = {"set": kind, "dtype": dtype, "b": b, "h": h, "n": n, "d": d, "causal": bool(causal)}
    extra = {"hk": None if hk == h else hk, "q": None if q == n else q, "keys": keys}
    return {**c, **{name: v for name, v in extra.items() if v is not None}}


def heads_of(c):
    """Heads of K and V."""
    return c.get("hk", c["h"])


def rows_of(c):
    """Rows of Q."""
    return c.get("q", c["n"])


def op_of(c):
    return op_of_set(c["set"])


def op_of_set(kind):
    return kind.partition("-")[2] or "fwd"


def is_decoding(c):
    """Whether few rows read K and V that nothing has brought to L2."""
    return c["set"] == "decode" or c["set"] == "models" and rows_of(c) <= peers_models.FEW


def is_graphed(c):
    return c["set"] in ("small", "decode", "models")


def is_grid(kind):
    return kind.partition("-")[0] == "grid"


def is_models(kind):
    return kind.partition("-")[0] == "models"


def grid(dtypes, dims, masks, lengths, op="fwd"):
    """The protocol of the FlashAttention papers: the same tokens and the same width in every cell."""
    kind = "grid" if op == "fwd" else f"grid-{op}"
    return [cell(kind, t, max(1, TOKENS // n), max(1, WIDTH // d), n, d, c)
            for t in dtypes for d in dims for c in masks for n in lengths]


def small(dtypes, lot=0, seed=1):
    """The thirteen that are always there, and `lot` others that the seed draws, the same of each dtype."""
    drawn = by_lot(lot, seed)
    return [{**shape, "dtype": t} for t in dtypes for shape in [cell("small", t, *s) for s in SMALL] + drawn]


def by_lot(count, seed):
    """Shapes that no list holds: any lengths from 64 to 4608, one in four with other rows of Q (then without a mask, which not
    all peers align alike), one in four with heads that share K and V."""
    draw, shapes = random.Random(seed), []
    while len(shapes) < count:
        d, b, n = draw.choice(LOT_DIMS), draw.choice((1, 1, 1, 2, 3, 4, 8, 16)), round(2 ** draw.uniform(6, 12.17))
        share = draw.choice((1, 1, 1, draw.choice((2, 4, 5, 8))))
        hk = draw.randint(1, 40 // share)
        q = draw.choice((n, n, n, round(2 ** draw.uniform(0, 10))))
        causal = draw.random() < 0.5 and q == n
        c = cell("small", "bf16", b, hk * share, n, d, causal, hk, q)
        if flop(c) <= LOT_FLOP and bytes_of_kv(c) <= LOT_BYTES and c not in shapes:
            shapes.append(c)
    return shapes


def decode(dtypes):
    """One row of Q for each of 32 heads on 8 of K and V."""
    return [cell("decode", t, b, 32, n, 128, False, 8, 1) for t in dtypes for b, n in DECODE]


def models(dtypes, op="fwd"):
    """Calls of known models, of a step of training (op bwd, both) or as they are used."""
    kind, op = ("models", "fwd") if op == "fwd" else (f"models-{op}", "bwd")
    return [{**cell(kind, t, b, h, n, d, causal, hk, q), "model": peers_models.name_of(line)}
            for t in dtypes for line in peers_models.MODELS[op] for b, h, hk, q, n, d, causal in [line[2:]]]


def window(dtypes, dims, n=8192):
    """Causal windows of one length, and the causal mask alone there and at a quarter of it."""
    plain = [cell("window", t, TOKENS // m, WIDTH // d, m, d, True) for t in dtypes for d in dims for m in (n // 4, n)]
    return plain + [cell("window", t, TOKENS // n, WIDTH // d, n, d, True, keys=keys)
                    for t in dtypes for d in dims for keys in WINDOWS]


def part(cells, i, count):
    """Part i of 1 .. count: every count-th cell, so that each part has some of every kind."""
    return cells[i - 1::count]


def flop(c):
    """Operations of a call: two products of q x n x d for each head, the backward's five; a causal mask halves them, of a
    window those pairs count that it leaves."""
    n, keys = c["n"], min(c.get("keys", c["n"]), c["n"])
    each = 2 * PRODUCTS[op_of(c)] * c["b"] * c["h"] * c["d"]
    if keys < n:
        return each * (keys * (keys + 1) // 2 + (n - keys) * keys)
    return each * rows_of(c) * n // (2 if c["causal"] else 1)


def bytes_of_kv(c):
    return 2 * c["b"] * heads_of(c) * c["n"] * c["d"] * (2 if c["dtype"] in HALVES else 4)


def copies(c, cache):
    """Of K and V, so that in turns they total more than two caches: what a call reads the last have driven out."""
    return 2 * cache // bytes_of_kv(c) + 1


def rates(c, ms):
    found = {"tflops": flop(c) / ms * 1e-9}
    return {**found, "gbs": bytes_of_kv(c) / ms * 1e-6} if c["set"] == "decode" else found


def shape_text(c):
    """All but the dtype."""
    heads = f"h{c['h']}" + (f"k{c['hk']}" if "hk" in c else "")
    rows = (f"q{c['q']} " if "q" in c else "") + f"n{c['n']}"
    return f"b{c['b']} {heads} {rows} d{c['d']} {'causal' if c['causal'] else 'full'}" + (
        f" window {c['keys']}" if "keys" in c else "") + ("" if op_of(c) == "fwd" else f" {op_of(c)}") + (
        f" ({c['model']})" if "model" in c else "")


def label(c):
    return f"{c['dtype']} {shape_text(c)}"
