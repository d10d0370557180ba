"""masks.py -- masks by tensors through the binding, against loops in Python: values, and gradients by those of plain calls."""

import math
import random
import sys

import torch
from fatune import tensors as fatune

torch.cuda.current_stream().synchronize()
random.seed(7)
D = 64


def numbers(*shape):
    values = [random.uniform(-1, 1) for _ in range(math.prod(shape))]
    return values, torch.tensor(values, shape)


def whole(*values):
    return torch.tensor(values, (len(values),), torch.int32)


def row_of(q, keys, values, seen):
    """Of one row of Q, given as lists: its O."""
    p = [math.exp(sum(x * y for x, y in zip(q, keys[j])) / math.sqrt(D)) for j in seen]
    return [sum(w * values[j][x] for w, j in zip(p, seen)) / (sum(p) or 1) for x in range(D)]


def near(found, right, what):
    assert all(abs(a - b) < 1e-4 for a, b in zip(found, right)), (what, found[:4], right[:4])


def rows(values, heads, head):
    """A head of [total, h, d] numbers as a list of rows."""
    return [values[(i * heads + head) * D:][:D] for i in range(len(values) // heads // D)]


def check_padded(title, sees, **masks):
    """[2, 1, 5, d] and [2, 1, 9, d]; `sees(b, i)`: the keys, or None for a row that stays 0."""
    (q, Q), (k, K), (v, V) = numbers(2, 1, 5, D), numbers(2, 1, 9, D), numbers(2, 1, 9, D)
    O = fatune.attention(Q, K, V, **masks)
    for b in range(2):
        keys, values = ([x[(b * 9 + j) * D:][:D] for j in range(9)] for x in (k, v))
        for i in range(5):
            seen = sees(b, i)
            right = [0.0] * D if seen is None else row_of(q[(b * 5 + i) * D:][:D], keys, values, list(seen))
            near([O.at_index((b, 0, i, x)) for x in range(D)], right, (title, b, i))


check_padded("used", lambda b, i: range((4, 9)[b]), used=(None, whole(4, 9)))
check_padded("used rows", lambda b, i: range(9) if i < (3, 5)[b] else None, used=(whole(3, 5), whole(9, 9)))
check_padded("left_pad", lambda b, i: range((2, 0)[b], 9), left_pad=whole(2, 0))
check_padded("prefix", lambda b, i: range(max((6, 1)[b], i + 5)), causal=True, prefix=whole(6, 1))
check_padded("chunk", lambda b, i: range((i + 4) // 3 * 3, min((i + 4) // 3 * 3 + 3, 9)), chunk=3)
check_padded("top_left", lambda b, i: range(i + 1), causal=True, top_left=True)
lo, hi = [0, 1, 2, 7, 4], [3, 9, 2, 8, 6]
check_padded("intervals", lambda b, i: range(lo[i], hi[i]),
             intervals=tuple(torch.tensor(x, (1, 1, 5), torch.int32) for x in (lo, hi)))

# ragged: three batches of 4, 0 and 3 rows, and their gradients by plain calls
cu = whole(0, 4, 4, 7)
(q, Q), (k, K), (v, V), (g, dO) = (numbers(7, 2, D) for _ in range(4))
for t in (Q, K, V):
    t.requires_grad = True
O = fatune.attention(Q, K, V, causal=True, cu_seqlens=(cu, cu), max_seqlens=(4, 4))
found = torch.autograd.grad(O, (Q, K, V), dO)
for begin, end in ((0, 4), (4, 7)):
    def own(values):
        t = torch.tensor([x for h in range(2) for row in rows(values, 2, h)[begin:end] for x in row], (1, 2, end - begin, D))
        t.requires_grad = True
        return t
    parts = [own(x) for x in (q, k, v)]
    plain = fatune.attention(*parts, causal=True)
    wanted = (plain, *torch.autograd.grad(plain, tuple(parts), own(g)))
    for name, a, b in zip(("O", "dQ", "dK", "dV"), (O, *found), wanted):
        for h in range(2):
            for i in range(end - begin):
                near([a.at_index((begin + i, h, x)) for x in range(D)], [b.at_index((0, h, i, x)) for x in range(D)],
                     (name, begin, h, i))

small = torch.empty((1, 2, 4, D))
for wrong, word in ((lambda: fatune.attention(small, small, small, used=(None, whole(1, 2))), "[1] numbers of int32"),
                    (lambda: fatune.attention(small, small, small, cu_seqlens=(cu, cu), max_seqlens=(4, 4)), "[total, h, d]"),
                    (lambda: fatune.attention(small, small, small, prefix=whole(2)), "causal"),
                    (lambda: fatune.attention(small, small, small, top_left=True), "give causal=True")):
    try:
        wrong()
    except (ValueError, fatune.Error) as e:
        assert word in str(e), e
    else:
        sys.exit(f"no error that says '{word}'")
print("masks: right")
