"""again_torch.py -- libfatune-python on PyTorch's own tensors: what it reads, and that nothing but known tensors passes."""

import ctypes

import torch
from fatune import again

seen = []


@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)
def run(*arguments):
    seen.append(arguments)
    return 0


class Call:
    plan, tensors, sizes, out, lse, size, at = 1, 2, 3, None, None, 0, None

    def __init__(self):
        self.written = (ctypes.c_void_p * 5)()

    def place(self, name):
        return ctypes.addressof(self.written) + 8 * ("Q", "K", "V", "O", "LSE").index(name)


assert again.is_there, "libfatune-python did not load"
call, function = Call(), again.function()
q, k, v = (torch.randn(2, 4, n, 64, dtype=torch.bfloat16) for n in (8, 16, 16))
again.learn(function, call, run, torch.empty_like, q, k, v)
o = function(q, k, v)
assert o.shape == q.shape and o.dtype == q.dtype and list(call.written)[:4] == [t.data_ptr() for t in (q, k, v, o)]
part = torch.randn(2, 4, 10, 64, dtype=torch.bfloat16)[:, :, 2:]  # begins within its memory, other strides
assert function(part, k, v) is None
again.learn(function, call, run, torch.empty_like, part, k, v)
assert function(part, k, v) is not None and call.written[0] == part.data_ptr()
with torch.no_grad():
    leaf = q.clone().requires_grad_()
    assert function(leaf, k, v) is not None and call.written[0] == leaf.data_ptr()
    assert function(torch.nn.Parameter(q), k, v) is not None
for other in (None, 5, "q", [1], object(), q.float(), q[0], q.half(), torch.empty(2, 4, 8, 64, dtype=torch.bfloat16, device="meta"),
              q.to_sparse()):
    assert function(other, k, v) is None and function(q, k, other) is None, other  # and no error is left behind
print("calls made again, PyTorch's tensors: right")
