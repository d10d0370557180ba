"""built.py -- of a package's rows without binaries a call compiles the kernel that it needs, and no other. On the fake driver, with the
stand-in for PyTorch and the results of an H200."""

import random
import re

import torch
from fatune import tensors as fatune

import lent
from lent import numbers

lent.begin()
random.seed(5)


def made(rows, keys, needed=False):
    drawn = [[random.uniform(-1, 1) for _ in range(2 * n * 64)] for n in (rows, keys, keys)]
    tensors = [torch.tensor(x, (1, 2, n, 64), torch.float16) for x, n in zip(drawn, (rows, keys, keys))]
    for t in tensors:
        t.requires_grad = needed
    return tensors


def built(family):
    """(kernels that are compiled, whether others are not)"""
    text = fatune.describe(family, aligned=True)
    return int(re.search(r"^cubins (\d+)$", text, re.M)[1]), " unbuilt\n" in text


assert built("fwd-f16-d64-causal") == (0, True)  # to describe a family compiles nothing
prompt = made(130, 130)
o = numbers(fatune.attention(*prompt, causal=True))
assert built("fwd-f16-d64-causal") == (1, True), built("fwd-f16-d64-causal")
word = made(1, 3000)
first = numbers(fatune.attention(*word, causal=True))
assert built("fwd-f16-d64-causal") == (2, True), built("fwd-f16-d64-causal")
for _ in range(2):  # by calls that are known, the first of which was made with an earlier plan
    assert numbers(fatune.attention(*prompt, causal=True)) == o and numbers(fatune.attention(*word, causal=True)) == first
assert built("fwd-f16-d64-causal")[0] == 2
recorded = made(130, 130, needed=True)
fatune.attention(*recorded, causal=True)
assert built("bwd-f16-d64-causal") == (1, True), built("bwd-f16-d64-causal")  # the backward's, before it is called
assert built("fwd-bf16-d64-causal-w") == (0, True)
fatune.build("fwd-bf16-d64-causal-w")
kernels, others = built("fwd-bf16-d64-causal-w")
assert kernels > 1 and not others, (kernels, others)
lent.check_driver()
print("kernels are compiled when calls need them")
