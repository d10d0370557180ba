"""again.py -- calls that were made before, queued again by libfatune-python: found by all that decides them, in new memory, with
nothing leaked; what it does not know or cannot queue goes the long way."""

import ctypes
import gc
import os
import sys

import torch
from fatune import again, tensors as fatune

import lent
from lent import numbers

STATUS = {"now": 0}
seen = []


@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)
def run(*arguments):
    seen.append(arguments)
    return STATUS["now"]


class Call:
    """What learn() reads of a call of tensors.py; addresses are written into an array."""

    def __init__(self, out=None, lse=None, size=0, at=None):
        self.plan, self.tensors, self.sizes, self.out, self.lse, self.size, self.at = 1, 2, 3, out, lse, size, at
        self.written = (ctypes.c_void_p * 5)()

    def place(self, name):
        return ctypes.addressof(self.written) + 8 * ("Q", "K", "V", "O", "LSE").index(name)

    def room(self):
        return torch.empty(self.size, dtype=torch.uint8)


def known(call, q, k, v):
    function = again.function()
    again.learn(function, call, run, torch.empty_like, q, k, v)
    return function


def counted(*objects):
    gc.collect()
    return [sys.getrefcount(one) for one in objects]


def holders(call):
    """How many hold it: a table, the variable that it is in, this function's own."""
    return counted(call)[0]


lent.begin()
assert again.is_there, "libfatune-python did not load: " + os.environ.get("FATUNE_PYTHON", "")
torch._dl_functions.major = 2  # another interface: nothing is learned
assert again._load() is None
torch._dl_functions.major = 1
q, k, v = torch.zeros((2, 4, 8, 64), torch.float16), torch.zeros((2, 2, 16, 64), torch.float16), torch.zeros((2, 2, 16, 64), torch.float16)

# What is handed over; o is new each time, and nobody holds on to anything.
call = Call()
alone = holders(call)
function = known(call, q, k, v)
before = counted(q, k, v, call)
o = function(q, k, v)
assert o.shape == q.shape and o.at not in (q.at, k.at, v.at) and sys.getrefcount(o) == 2, sys.getrefcount(o)
assert seen.pop() == (1, 2, 3, None, None) and list(call.written) == [q.at, k.at, v.at, o.at, None], list(call.written)
for _ in range(50):
    function(q, k, v)
assert counted(q, k, v, call) == before
seen.clear()

# All that decides a call: shapes, strides, type. And what is no call at all.
wide = torch.zeros((2, 4, 8, 128), torch.float16)
others = (torch.zeros((2, 4, 9, 64), torch.float16), torch.zeros((2, 4, 8, 64), torch.bfloat16), torch.zeros((2, 8, 4, 64), torch.float16).transpose(1, 2),
          torch.Tensor(wide.at, q.shape, (4096, 1024, 128, 1), q.dtype), torch.zeros((8, 64), torch.float16), None, 5, "q")
for other in others:
    assert function(other, k, v) is None and function(q, other, v) is None and function(q, k, other) is None
assert function(q, k) is None and function() is None and function(q, k, v, v) is None and not seen
assert function(torch.zeros(q.shape, q.dtype), k, v) is not None  # other memory is the same call

# A pattern for o, LSE beside it.
call = Call(out=wide, lse=torch.zeros((2, 4, 8)))
o, lse = known(call, q, k, v)(q, k, v)
assert o.shape == wide.shape and lse.shape == (2, 4, 8) and list(call.written)[3:] == [o.at, lse.at]
assert sys.getrefcount(o) == 2 and sys.getrefcount(lse) == 2

# A workspace: the one that is kept for the default stream, a new one for others or where none is kept.
for at, stream in ((None, None), (64, None), (64, 7), (None, 7)):
    torch.stream_now, made = stream, []
    call = Call(size=32, at=at)
    call.room = lambda made=made: made.append(torch.empty(32, dtype=torch.uint8)) or made[0]
    assert known(call, q, k, v)(q, k, v) is not None
    *_, workspace, on = seen.pop()
    assert on == stream and len(made) == (at is None or stream is not None) and workspace == (made[0].at if made else at)
    assert not made or sys.getrefcount(made[0]) == 2
torch.stream_now = None

# A call that fails is forgotten, and one that comes back is learned anew.
call = Call()
function = known(call, q, k, v)
STATUS["now"] = 15
assert function(q, k, v) is None and holders(call) == alone
STATUS["now"] = 0
assert function(q, k, v) is None
again.learn(function, call, run, torch.empty_like, q, k, v)
again.learn(function, call, run, torch.empty_like, q, k, v)
assert function(q, k, v) is not None and holders(call) == alone + 1
for like, room in ((torch.empty_like, lambda: 1 / 0), (lambda _: 1 / 0, lambda: torch.empty(32, dtype=torch.uint8))):
    call, function = Call(size=32), again.function()
    call.room = room
    again.learn(function, call, run, like, q, k, v)
    for _ in range(2):  # what is raised reaches who called, and the call stays known
        try:
            raise AssertionError(function(q, k, v))
        except ZeroDivisionError:
            pass
function, text = again.function(), lambda _: "no tensor"
again.learn(function, Call(), run, text, q, k, v)
assert function(q, k, v) is None

# Beyond its limit a table begins anew, and with its function all goes.
call, function = Call(), again.function()
rows = [torch.Tensor(q.at, (1, 1, n, 64), (64 * n, 64 * n, 64, 1), q.dtype) for n in range(1, 600)]
for one in rows:
    again.learn(function, call, run, torch.empty_like, one, one, one)
found = [function(one, one, one) is not None for one in rows]
assert found == [False] * 512 + [True] * 87 and holders(call) == alone + 87, (sum(found), holders(call))
del function
assert holders(call) == alone

# By fatune.attention: the second call of a kind does not go the long way, and its numbers are right.
long_ways, forward = [], fatune._Call.forward
fatune._Call.forward = lambda self, *tensors: long_ways.append(self) or forward(self, *tensors)
values = [(i % 37) / 37 - 0.5 for i in range(2 * 4 * 16 * 64)]
q, k, v = (torch.tensor(values[i:i + 4 * 8 * 64], (1, 4, 8, 64)) for i in (0, 64, 128))
first = numbers(fatune.attention(q, k, v, causal=True))
assert len(long_ways) == 1
for _ in range(3):
    assert numbers(fatune.attention(q, k, v, causal=True)) == first
assert len(long_ways) == 1
whole = numbers(fatune.attention(q, k, v))  # other options, another call
assert whole != first and len(long_ways) == 2 and numbers(fatune.attention(q, k, v)) == whole and len(long_ways) == 2
moved = torch.tensor(values[:4 * 8 * 64][::-1], (1, 4, 8, 64))
assert numbers(fatune.attention(moved, k, v)) != whole and len(long_ways) == 2
o, lse = fatune.attention(q, k, v, return_lse=True)
assert len(long_ways) == 3 and numbers(fatune.attention(q, k, v, return_lse=True)[1]) == numbers(lse) and len(long_ways) == 3
given = torch.empty_like(q)
assert fatune.attention(q, k, v, out=given) is given and numbers(given) == whole and len(long_ways) == 4
off = torch.Tensor(torch.tensor([0.0, *values[:4 * 8 * 64]], (1 + 4 * 8 * 64,)).at + 4, q.shape, q.stride(), q.dtype)  # not aligned
for _ in range(3):
    assert max(abs(a - b) for a, b in zip(numbers(fatune.attention(off, k, v)), whole)) < 1e-5
assert len(long_ways) == 5, len(long_ways)
lent.check_driver()
print("calls made again: right")
