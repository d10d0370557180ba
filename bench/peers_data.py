"""peers_data.py -- the kinds of data: what is added to the scores of normal tensors, and how a pair of columns carries it.

Q and K are normal; of `wide` Q is six times larger. The other kinds add the same e_j nats to every row's score of key j: the
last one or two columns of Q become constants, those of K numbers of the key's, whose product over sqrt(d) is e_j, so that
all peers get plain tensors. A line over 16384 keys does not fit the 8 bits of a bf16, but two columns hold it exactly: key
j = 256 hi + lo, both of which any dtype represents, and the two constants differ by 256 times, a change of exponent. What
rounding is left is that of one constant: the slope is off by up to 0.2 %, and the same from the first key to the last.

Of d columns d - 1 or d - 2 stay normal: their scores' standard deviation is sqrt((d - 2) / d), at d 64 0.984.
`tensors` alone needs PyTorch.
"""

import math
import struct

STEP = 256  # keys that `lo` counts; hi and lo stay below it, up to 65536 keys
WIDE = 6
SINK, SINK_KEYS = 10, 4
PEAK, PEAK_EVERY = 12, 64
SLOPES = {"rise100": 1 / 100, "rise16": 1 / 16, "rise4": 1 / 4, "fall100": -1 / 100, "fall16": -1 / 16, "fall4": -1 / 4}
KINDS = {"normal": "random normal tensors", "wide": f"Q {WIDE} times larger",
         **{name: f"scores {'rise' if s > 0 else 'fall'} by 1/{round(1 / abs(s))} nat a key" for name, s in SLOPES.items()},
         "sink": f"+{SINK} on the first {SINK_KEYS} keys", "peaks": f"+{PEAK} on one key of {PEAK_EVERY}"}


def rounded(x, dtype):
    """x as a tensor of the dtype holds it, by way of float32 as PyTorch goes; to the nearest, ties to even."""
    single = struct.unpack("<f", struct.pack("<f", x))[0]
    if dtype == "f16":
        return struct.unpack("<e", struct.pack("<e", single))[0]
    if dtype != "bf16":
        return single
    bits = struct.unpack("<I", struct.pack("<f", single))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def is_peak(j):
    """One key of each 64, at another place in each: no tile has it always in the same column."""
    return j % PEAK_EVERY == (29 * (j // PEAK_EVERY) + 17) % PEAK_EVERY


def wanted(kind, j):
    """Nats added to the score of key j."""
    if kind in SLOPES:
        return SLOPES[kind] * j
    if kind == "sink":
        return SINK if j < SINK_KEYS else 0
    return PEAK if kind == "peaks" and is_peak(j) else 0


def columns(kind, dtype, d, n):
    """[(the constant of Q's column, the column of K)], for the last columns; none for the kinds that add nothing."""
    if kind in SLOPES:
        if n > STEP * STEP:
            raise ValueError(f"{kind}: more than {STEP * STEP} keys")
        constant = rounded(SLOPES[kind] * math.sqrt(d), dtype)
        return [(STEP * constant, [j // STEP for j in range(n)]), (constant, [j % STEP for j in range(n)])]
    if kind in ("sink", "peaks"):
        return [(rounded(math.sqrt(d), dtype), [wanted(kind, j) for j in range(n)])]
    return []


def added(kind, dtype, d, n):
    """Nats that the columns really add to the score of each key, at the scale 1 / sqrt(d)."""
    of = columns(kind, dtype, d, n)
    return [sum(rounded(q, dtype) * rounded(k[j], dtype) for q, k in of) / math.sqrt(d) for j in range(n)]


def really(kind, dtype, d):
    """What a kind has in that dtype and dimension, in words."""
    if kind in SLOPES:
        return f"{added(kind, dtype, d, 2)[1]:+.5f} a key"
    if kind in ("sink", "peaks"):
        return f"{max(added(kind, dtype, d, PEAK_EVERY)):+.3f}"
    return f"standard deviation {WIDE if kind == 'wide' else 1}"


def gradient(c, layout, seed, dtype, device):
    """That of O, normal; everyone who is timed gets its numbers in the strides of his own O."""
    return tensors({**c, "hk": 1, "n": 1, "q": c.get("q", c["n"])}, "normal", layout, seed + 1000, dtype, device)[0]


def tensors(c, kind, layout, seed, dtype, device):
    """Q, K and V of a cell as [b, heads, rows, d]; `dtype`: torch's. The same for everyone who is timed."""
    import torch
    generator = torch.Generator(device).manual_seed(seed)
    b, h, n, d = c["b"], c["h"], c["n"], c["d"]

    def normal(heads, rows, times=1.0):
        shape = (b, heads, rows, d) if layout == "bhnd" else (b, rows, heads, d)
        made = (torch.randn(shape, generator=generator, dtype=torch.float32, device=device) * times).to(dtype)
        return made if layout == "bhnd" else made.transpose(1, 2)
    q = normal(h, c.get("q", n), WIDE if kind == "wide" else 1.0)
    k, v = (normal(c.get("hk", h), n) for _ in range(2))
    of = columns(kind, c["dtype"], d, n)
    for at, (constant, column) in enumerate(of, d - len(of)):
        q[..., at] = constant
        k[..., at] = torch.tensor(column, dtype=torch.float32, device=device).to(dtype)
    return q, k, v
