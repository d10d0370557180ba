"""aligned.py -- tensors that lie at multiples of 16 bytes have a plan without the kernel for others, which is made when one comes, and not
before. On the fake driver, with the stand-in for PyTorch."""

import random

import torch
from fatune import tensors as fatune

import lent
from lent import numbers

lent.begin()
random.seed(3)
values = [random.uniform(-1, 1) for _ in range(2 * 4 * 64)]
room = torch.tensor([0.0, *values], (1 + len(values),))
q, k, v = (torch.tensor(values[::-1] if i else values, (1, 2, 4, 64)) for i in range(3))
off = torch.Tensor(room.at + 4, q.shape, q.stride(), q.dtype)  # the same numbers, 4 bytes further on


def flags():
    return {key[4] for key in fatune._plans}


right = numbers(fatune.attention(q, k, v, causal=True))
assert flags() == {fatune.ALIGNED}, flags()
for _ in range(2):  # by the call that was known, made anew; and by what it is then
    assert max(abs(a - b) for a, b in zip(numbers(fatune.attention(off, k, v, causal=True)), right)) < 1e-5
    assert flags() == {fatune.ALIGNED, 0}, flags()
assert max(abs(a - b) for a, b in zip(numbers(fatune.attention(q, k, v, causal=True)), right)) < 1e-5
off.requires_grad = True  # recorded: its plans are made for what comes
assert max(abs(a - b) for a, b in zip(numbers(fatune.attention(off, k, v)), numbers(fatune.attention(q, k, v)))) < 1e-5
lent.check_driver()
print("tensors that are not aligned: right")
