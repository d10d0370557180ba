"""peers_judge.py -- how far a result is from the formula: attention in double, and PyTorch's own in the tensors' dtype.

Runs wherever its tensors are.
"""

import math

import torch

import peers_cells as cells

MOST = 1 << 26  # scores of a reference, or numbers of its K: half a gigabyte of doubles, and a few times that beside them


def attend(q, k, v, causal, dtype, scale=None, keys=None):
    """Attention as its formula says, all of it in `dtype`, masked bottom-right; k and v may have fewer heads. `keys`: how
    many a row sees at most, its own the last."""
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if k.shape[-3] != q.shape[-3]:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], dim=-3) for t in (k, v))
    scores = q @ (k * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)).transpose(-1, -2)
    if causal:
        nq, nk = scores.shape[-2:]
        hidden = torch.ones(nq, nk, dtype=torch.bool, device=q.device).triu(nk - nq + 1)
        if keys:
            hidden |= torch.ones_like(hidden).tril(nk - nq - keys)
        scores.masked_fill_(hidden, -math.inf)
    p = torch.softmax(scores, dim=-1)
    if causal:
        p.masked_fill_(hidden.all(dim=-1, keepdim=True), 0)  # rows without a key: 0, not NaN
    return p @ v


def some_heads(c, tensor):
    """Of Q, K, V or O as many of the last heads as a reference has memory for: whole batches, else heads of the last one,
    with all that share their K and V."""
    count = max(1, MOST // (max(cells.rows_of(c), c["d"]) * c["n"]))
    if count >= c["h"]:
        return tensor[-(count // c["h"]):]
    shared = max(1, count // (c["h"] // cells.heads_of(c)))  # heads of K and V
    return tensor[-1:, -shared * (tensor.shape[1] // cells.heads_of(c)):]


class Judge:
    """Errors of a cell's results: the largest and the root of the mean square, against double; PyTorch's own largest in
    the same dtype for comparison."""

    def __init__(self, c, q, k, v):
        self.c = c
        q, k, v = (some_heads(c, t) for t in (q, k, v))
        self.reference = attend(q, k, v, c["causal"], torch.float64, keys=c.get("keys"))
        self.pytorch = self.of(attend(q, k, v, c["causal"], q.dtype, keys=c.get("keys")))["error"]

    def of(self, heads):
        off = heads.to(torch.float64) - self.reference
        return {"error": off.abs().max().item(), "rms": off.square().mean().sqrt().item()}

    def errors(self, out):
        return self.of(some_heads(self.c, out))
