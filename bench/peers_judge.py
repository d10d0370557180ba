"""peers_judge.py -- how far a result is from the formula: attention and its gradients in double, and PyTorch's own in the
tensors' dtype.

Of O, errors are absolute numbers. Of gradients the root of the mean square is, of each; their largest error, and the worst
of the three, are said as multiples of plain PyTorch's, because dQ, dK and dV have different sizes. Runs wherever its
tensors are.
"""

import math

import torch

import peers_cells as cells
import peers_table as table

MOST = 1 << 26  # scores of a reference, or numbers of its K: half a gigabyte of doubles, and a few times that beside them
ROWS = 1 << 28  # scores of a forward's reference, whose rows of Q may be the last ones alone
ALL = (-1, -1)  # a window of all keys


def hidden_from(nq, nk, causal, window, device):
    """Which keys a row does not see, None for none: the last row's diagonal ends at the last key."""
    left, right = window[0], 0 if causal else window[1]
    if left < 0 and right < 0:
        return None
    hidden = torch.zeros(nq, nk, dtype=torch.bool, device=device)
    if right >= 0:
        hidden |= torch.ones_like(hidden).triu(nk - nq + right + 1)
    if left >= 0:
        hidden |= torch.ones_like(hidden).tril(nk - nq - left - 1)
    return hidden


def attend(q, k, v, causal, dtype, scale=None, window=ALL):
    """Attention as its formula says, all of it in `dtype`, masked bottom-right; k and v may have fewer heads. PyTorch can
    differentiate it; rows without a key are 0, and give nothing."""
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if k.shape[-3] != q.shape[-3]:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], dim=-3) for t in (k, v))
    scores = q @ (k * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)).transpose(-1, -2)
    hidden = hidden_from(*scores.shape[-2:], causal, window, q.device)
    if hidden is None:
        return torch.softmax(scores, dim=-1) @ v
    scores = scores.masked_fill_(hidden, -math.inf)  # whose derivative is 0 there, whatever a softmax of nothing gives
    return torch.softmax(scores, dim=-1).masked_fill(hidden.all(dim=-1, keepdim=True), 0) @ v


def gradients(q, k, v, dO, causal, dtype, window=ALL):
    """dQ, dK and dV by PyTorch's autograd of the formula, all of it in `dtype`."""
    leaves = [t.detach().to(dtype).requires_grad_() for t in (q, k, v)]
    with torch.enable_grad():
        return torch.autograd.grad(attend(*leaves, causal, dtype, window=window), leaves, dO.to(dtype))


def some_heads(c, tensor):
    """Of Q, K, V or O as many of the last heads as a reference has memory for: whole batches, else heads of the last one,
    with all that share their K and V."""
    count = max(1, MOST // (max(cells.rows_of(c), c["d"]) * c["n"]))
    if count >= c["h"]:
        return tensor[-(count // c["h"]):]
    shared = max(1, count // (c["h"] // cells.heads_of(c)))  # heads of K and V
    return tensor[-1:, -shared * (tensor.shape[1] // cells.heads_of(c)):]


def some_rows(c, tensor):
    """Of a forward's Q or O, with some heads, as many of the last rows as a reference has memory for: masks end at the last row's key,
    whatever rows are there."""
    return tensor[:, :, -max(1, ROWS // (tensor.shape[0] * tensor.shape[1] * c["n"])):]


def off(found, reference):
    by = found.to(torch.float64) - reference
    return {"error": by.abs().max().item(), "rms": by.square().mean().sqrt().item()}


def times(ours, theirs):
    """How many times theirs; where theirs is 0, so must ours be."""
    return ours / theirs if theirs > 0 else math.inf if ours != 0 else 0.0


class Judge:
    """Errors of a cell's results: the largest and the root of the mean square, against double; `facts`: PyTorch's own in
    the same dtype."""

    def __init__(self, c, q, k, v, dO=None):
        self.c, self.is_backward = c, cells.op_of(c) != "fwd"
        given = [some_heads(c, t) for t in (q, k, v)]
        window = (c["keys"] - 1, -1) if "keys" in c else ALL
        if not self.is_backward:
            given[0] = some_rows(c, given[0])
            self.reference = attend(*given, c["causal"], torch.float64, window=window)
            self.facts = {"error_pytorch": off(attend(*given, c["causal"], q.dtype, window=window), self.reference)["error"]}
            return
        given.append(some_heads(c, dO))
        self.reference = gradients(*given, c["causal"], torch.float64, window)
        own = gradients(*given, c["causal"], q.dtype, window)
        self.plain = [off(ours, right) for ours, right in zip(own, self.reference)]
        self.facts = {"error_pytorch": 1.0, **{f"pytorch_{name}": of["rms"] for name, of in zip(table.GRADIENTS, self.plain)}}

    def errors(self, result):
        """Of O, or of (dQ, dK, dV)."""
        if not self.is_backward:
            return off(some_rows(self.c, some_heads(self.c, result)), self.reference)
        found = [off(some_heads(self.c, of), right) for of, right in zip(result, self.reference)]
        worst = {field: table.largest(*(times(a[field], b[field]) for a, b in zip(found, self.plain))) for field in ("error", "rms")}
        return {**worst, **{f"rms_{name}": of["rms"] for name, of in zip(table.GRADIENTS, found)}}
