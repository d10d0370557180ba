"""einops.py -- rearrange and repeat, as far as flash-attn's tests use them; for machines without einops."""

import math


BARE = ["...", "bare"]  # a group, where in parentheses it is ["..."]


def _side(text):
    """A pattern's half as groups of names: "b (s h) 1" -> [["b"], ["s", "h"], []]."""
    groups, inside = [], None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            inside = []
        elif word == ")":
            groups, inside = [*groups, inside], None
        elif inside is not None:
            inside.append(word)
        else:
            groups.append([] if word == "1" else BARE if word == "..." else [word])
    return groups


def _spread(groups, names):
    """ "..." as so many names. """
    return [part for group in groups
            for part in ([[n] for n in names] if group == BARE else [[m for n in group for m in (names if n == "..." else [n])]])]


def _apply(tensor, pattern, sizes):
    left, right = map(_side, pattern.split("->"))
    extra = [f"_{i}" for i in range(tensor.dim() - sum(group != BARE for group in left))]
    left, right = _spread(left, extra), _spread(right, extra)
    assert len(left) == tensor.dim(), (pattern, tensor.shape)
    sizes = {**sizes, **{n: int(n) for group in left + right for n in group if n.isdigit()}}
    for group, size in zip(left, tensor.shape):
        unknown = [n for n in group if n not in sizes]
        assert len(unknown) <= 1, (pattern, unknown)
        if unknown:
            sizes[unknown[0]] = size // math.prod(sizes[n] for n in group if n in sizes)
        assert math.prod(sizes[n] for n in group) == size, (pattern, tuple(tensor.shape))
    names = [n for group in left for n in group]
    tensor = tensor.reshape([sizes[n] for n in names])
    wanted = [n for group in right for n in group]
    new = [n for n in wanted if n not in names]
    tensor = tensor.permute([names.index(n) for n in wanted if n in names])
    for place, n in enumerate(wanted):
        if n in new:
            tensor = tensor.unsqueeze(place)
    tensor = tensor.expand([sizes[n] for n in wanted])
    return tensor.reshape([math.prod(sizes[n] for n in group) for group in right])


def rearrange(tensor, pattern, **sizes):
    if isinstance(tensor, (list, tuple)):
        import torch
        tensor = torch.stack(tuple(tensor))
    return _apply(tensor, pattern, sizes)


def repeat(tensor, pattern, **sizes):
    return _apply(tensor, pattern, sizes)
