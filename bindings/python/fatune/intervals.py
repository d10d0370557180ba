"""intervals.py -- which keys [lo, hi) each row sees, as fatune.attention(intervals=...) takes them; kernels skip what lies outside.

    pairs = fatune.intervals.of_mod(lambda b, h, i, j: doc[i] == doc[j], None, None, n, n)    # what FlexAttention's masks are written as
    pairs = fatune.intervals.of_mask(seen)             # bool, [b or 1, h or 1, n, keys]
    pairs = fatune.intervals.of_documents(doc)         # [n] or [b, n]: each run of equal numbers is a document
    o = fatune.attention(q, k, v, causal=True, intervals=pairs)

Make them once for all layers. The first two make the host wait for the GPU: a row whose keys do not lie side by side is an error."""

import torch

ELEMENTS = 1 << 26  # of a mask that is looked at in one piece


def _ends(seen):
    """lo, hi of the last dimension; and of which rows keys are missing in between."""
    if not seen.shape[-1]:
        none = seen.new_zeros(seen.shape[:-1], dtype=torch.int32)
        return none, none, none.bool()
    bytes_, count = seen.to(torch.uint8), seen.sum(-1)
    lo = bytes_.argmax(-1)  # the first of the greatest
    hi = torch.where(count > 0, seen.shape[-1] - bytes_.flip(-1).argmax(-1), 0)
    return lo.int(), hi.int(), hi - lo != count


def found(seen):
    """Those of a mask, or None where a row's keys do not lie side by side."""
    lo, hi, broken = _ends(seen[:1] if seen.stride(0) == 0 else seen)
    return None if broken.any() else (lo, hi)


def _whole(lo, hi, broken, first=0):
    if broken.any():
        b, h, i = broken.nonzero()[0].tolist()
        raise ValueError(f"row {i + first} of batch {b}, head {h} sees keys that do not lie side by side: give mask_mod=, mask= or "
                         "block_mask= to fatune.attention")
    return lo, hi


def of_mask(seen):
    """(lo, hi), [b or 1, h or 1, n] of int32, of a bool or byte for each row and key."""
    return _whole(*_ends(seen != 0))


def of_mod(mask_mod, b, h, n, keys, device="cuda"):
    """The same of a function of FlexAttention's with the arguments of its create_block_mask: which pairs stay, by batch, head, row
    and key. `b`, `h`: None where it does not ask. It is called with whole ranges of rows, so it may index, compare, `&` and `|`."""
    b, h = b or 1, h or 1
    step, made = max(ELEMENTS // max(b * h * keys, 1), 1), []

    def at(count, behind, first=0):
        return torch.arange(first, first + count, device=device).reshape(-1, *(1,) * behind)
    for first in range(0, n, step) or (0,):
        rows = min(step, n - first)
        seen = mask_mod(at(b, 3), at(h, 2), at(rows, 1, first), at(keys, 0))
        made.append(_whole(*_ends(seen.expand(b, h, rows, keys)), first))
    return tuple(torch.cat(parts, 2) for parts in zip(*made))


def of_documents(ids):
    """(lo, hi), [b or 1, 1, n]: a row sees its own document, a run of equal numbers. Nothing waits for the GPU."""
    ids, n = (ids if ids.dim() == 2 else ids[None])[:, None], ids.shape[-1]
    begins, at = torch.ones_like(ids, dtype=torch.bool), torch.arange(n, device=ids.device)
    begins[..., 1:] = ids[..., 1:] != ids[..., :-1]
    lo = torch.where(begins, at, 0).cummax(2)[0]
    ends = torch.where(begins.roll(-1, 2), at + 1, n)  # behind the last of a run; the first row begins one, so the last ends one
    return lo.int(), ends.flip(2).cummin(2)[0].flip(2).int()
