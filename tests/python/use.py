"""use.py -- attention through the binding, against loops in Python: layouts, LSE, GQA, a workspace, errors."""

import math
import random
import sys
import threading

import torch
from fatune import tensors as fatune

torch.cuda.current_stream().synchronize()


def expect(q, k, v, causal, scale, sink=None):
    """O and LSE by loops, from lists [b][h][n][d]; a list [h] of sinks."""
    out, lse = [], []
    for qb, kb, vb in zip(q, k, v):
        for head, rows in enumerate(qb):
            keys, values = kb[head * len(kb) // len(qb)], vb[head * len(kb) // len(qb)]
            for i, row in enumerate(rows):
                seen = [j for j in range(len(keys)) if not causal or j <= i + len(keys) - len(rows)]
                p = [math.exp(scale * sum(x * y for x, y in zip(row, keys[j]))) for j in seen]
                total = sum(p) + (math.exp(sink[head]) if sink else 0)
                lse.append(math.log(total) if total else math.inf)
                out.append([sum(w * values[j][x] for w, j in zip(p, seen)) / (total or 1) for x in range(len(values[0]))])
    return out, lse


def numbers(*shape):
    if not shape:
        return random.uniform(-1, 1)
    return [numbers(*shape[1:]) for _ in range(shape[0])]


def flat(x):
    return [x] if isinstance(x, float) else [y for part in x for y in flat(part)]


def check(b, h, hk, n, m, d, causal, kernel=None, transposed=False, sink=None):
    q, k, v = numbers(b, h, n, d), numbers(b, hk, m, d), numbers(b, hk, m, d)
    Q, K, V = torch.tensor(flat(q), (b, h, n, d)), torch.tensor(flat(k), (b, hk, m, d)), torch.tensor(flat(v), (b, hk, m, d))
    out = torch.empty((b, n, h, d)).transpose(1, 2) if transposed else None
    O, LSE = fatune.attention(Q, K, V, causal=causal, out=out, return_lse=True, kernel=kernel,
                              sink=sink and torch.tensor(sink, (h,)))
    right, lse = expect(q, k, v, causal, 1 / math.sqrt(d), sink)
    for row in range(b * h * n):
        index = (row // (h * n), row // n % h, row % n)
        assert abs(LSE.at_index(index) - lse[row]) < 1e-4 or LSE.at_index(index) == lse[row], (index, lse[row])
        for x in range(d):
            assert abs(O.at_index((*index, x)) - right[row][x]) < 1e-4, (index, x)


random.seed(1)
check(1, 4, 2, 5, 7, 64, True)
check(2, 2, 2, 3, 4, 64, True)
check(2, 2, 2, 3, 4, 64, True, transposed=True)
check(1, 2, 1, 4, 4, 64, True, kernel="standard")  # takes a workspace
check(2, 4, 2, 5, 3, 64, True, sink=[0.5, -1.0, 2.0, 0.0])  # some rows see no key
check(2, 4, 2, 5, 3, 64, True)
assert "kernel standard:" in fatune.describe(fatune.problem_text(*[torch.empty((1, 1, 4, 64))] * 3, causal=True), kernel="standard")
small = torch.empty((1, 2, 4, 64))
half = [torch.empty((1, 2, 4, 64), dtype=torch.float16)] * 3
assert fatune.problem_text(*half) == "fwd-f16-b1-h2-q4-k4-d64"
assert fatune.problem_text(small, small, small, arithmetic="f32x3") == "fwd-f32x3-b1-h2-q4-k4-d64"
# A plan serves all lengths, and prepare()'s is of one problem.
known = list(fatune._plans)
for m in range(5, 11):
    check(1, 4, 2, 5, m, 64, True)
assert list(fatune._plans) == known or set(fatune._plans) == set(known), fatune._plans
call = fatune.prepare(small, small, small, causal=True)
assert any(key[:2] == (0, "fwd-f32-b1-h2-q4-k4-d64-causal") for key in fatune._plans)
call()

# Windows: as texts, and as the numbers of a call.
texts = {(False, (-1, -1)): ("", "", 0, 0), (True, (-1, -1)): ("-causal", "-causal", 0, 0),
         (False, (7, 3)): ("-w7.3", "-w", 7, 3), (True, (7, 3)): ("-causal-w7.0", "-causal-w", 7, 0),
         (False, (7, 0)): ("-causal-w7.0", "-causal-w", 7, 0), (False, (-1, 0)): ("-causal", "-causal", 0, 0),
         (False, (-1, 5)): ("-wx.5", "-w", -1, 5), (False, (5, -1)): ("-w5.x", "-w", 5, -1)}
for (causal, window), (problem, family, left, right) in texts.items():
    assert fatune.problem_text(small, small, small, causal, window=window) == "fwd-f32-b1-h2-q4-k4-d64" + problem, window
    assert fatune.family_text(small, small, small, causal, window=window) == "fwd-f32-d64" + family, window
    sizes = fatune._sizes(small, small, small, causal, window)
    assert (sizes.window_left, sizes.window_right) == (left, right), (window, sizes.window_left, sizes.window_right)

# Splits: of the forward's texts, and a number of the call.
assert fatune.problem_text(*half, split=128) == "fwd-f16-b1-h2-q4-k4-d64-split128"
assert fatune.family_text(*half, True, split=128) == "fwd-f16-d64-causal-split"
assert fatune._sizes(*half, True, (-1, -1), 128).split == 128 and fatune._sizes(*half, True, (-1, -1)).split == 0
assert fatune.attention(*half, causal=True, split=64).shape == fatune.attention(*half, causal=True, split=128).shape
assert any(key[:2] == (0, "fwd-f16-d64-causal-split") for key in fatune._plans)
assert {fatune._Sizes.from_address(call.sizes).split for call in fatune._known.calls.values()} >= {0, 64, 128}
for wrong, message in ((100, "multiples of 64"), (-64, "split")):
    try:
        fatune.attention(*half, split=wrong)
        raise AssertionError("a split of %d keys was taken" % wrong)
    except fatune.Error as e:
        assert message in str(e), e

# Many threads ask for one plan and get the same; of very many plans the oldest go, and those in use live on.
made, threads = [], []
for _ in range(8):
    threads.append(threading.Thread(target=lambda: made.append(fatune.plan("fwd-f32-b1-h2-q4-k4-d64-causal"))))
    threads[-1].start()
for thread in threads:
    thread.join()
assert len(set(map(id, made))) == 1
for n in range(fatune.PLANS + 8):
    fatune.plan(f"fwd-f32-b1-h2-q4-k0-d{8 + 8 * (n % 32)}v{8 + 8 * (n // 32)}-causal")
assert len(fatune._plans) == fatune.PLANS
call()

# A call that is known is laid out once, and the next one brings other addresses alone; a thread has calls of its own.
known = len(fatune._known.calls)
for _ in range(3):
    check(1, 4, 2, 5, 7, 64, True)
assert len(fatune._known.calls) == known, fatune._known.calls
errors = []


def elsewhere():
    try:
        torch.cuda.current_stream().synchronize()
        assert not fatune._known.calls
        check(1, 4, 2, 5, 7, 64, True)
    except BaseException as e:
        errors.append(e)


thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
assert not errors, errors
for n in range(1, fatune.CALLS + 2):
    fatune.attention(small, *[torch.empty((1, 2, n, 64))] * 2, causal=True)
assert 0 < len(fatune._known.calls) <= fatune.CALLS
# The output has the strides of a q that is dense, and its own where q is not or v is wider.
view = torch.empty((1, 4, 2, 64)).transpose(1, 2)
assert fatune.attention(view, small, small, causal=True).stride() == view.stride()
assert fatune.attention(torch.empty((1, 1, 1, 64)).expand((1, 2, 4, 64)), small, small).stride() == small.stride()
assert fatune.attention(view, small, torch.empty((1, 2, 4, 32))).stride() == (256, 128, 32, 1)

grad = torch.empty((1, 2, 4, 64))
grad.requires_grad = True
torch.grad_enabled = False
assert fatune.attention(grad, small, small, causal=True).made_by is None
torch.grad_enabled = True

for wrong, word in ((lambda: fatune.prepare(grad, small, small), "requires a gradient"),
                    (lambda: fatune.attention(small, small, small, window=(-2, 0)), "each side is a number of keys"),
                    (lambda: fatune.attention(small, small, small, sink=torch.empty((3,))), "for each head"),
                    (lambda: fatune.attention(small, small, torch.empty((1, 2, 5, 64))), "fit together"),
                    (lambda: fatune.attention(small.transpose(2, 3), small, small), "fit together"),
                    (lambda: fatune.attention(*[small.transpose(2, 3)] * 3), "contiguous"),
                    (lambda: fatune.attention(*[torch.empty((4, 64))] * 3), "4 are needed"),
                    (lambda: fatune.attention(*half, arithmetic="tf32"), "both of float32"),
                    (lambda: fatune.attention(small, small, small, arithmetic="f16"), "both of float32"),
                    (lambda: fatune.attention(small, small, small, out=torch.empty((1, 2, 4, 32))), "does not fit")):
    try:
        wrong()
    except ValueError as e:
        assert word in str(e), e
    else:
        sys.exit(f"no error that says '{word}'")
try:
    fatune.attention(small, small, small, kernel="flash9")
except fatune.Error as e:
    assert e.status == 3 and "flash9" in str(e), (e.status, e)
else:
    sys.exit("an unknown kernel is no error")
print("binding: right,", fatune.version())
