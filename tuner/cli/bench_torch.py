# One setting of `fatune bench` by PyTorch's scaled_dot_product_attention, whichever kernel it takes. Prints seconds of a
# forward, seconds of a backward, MiB at their peak. Arguments: batch, heads, rows, head dimension, type, causal.
import statistics
import sys
import torch

b, h, n, d = map(int, sys.argv[1:5])
dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32}[sys.argv[5]]
torch.backends.cuda.matmul.allow_tf32 = sys.argv[5] == "tf32"
causal = sys.argv[6] == "1"
q, k, v = (torch.randn(b, h, n, d, dtype=dtype, device="cuda", requires_grad=True) for _ in range(3))
weight = torch.randn_like(q)


def forward():
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def backward(out):
    q.grad = k.grad = v.grad = None
    out.backward(weight, retain_graph=True)


def seconds(work):
    for _ in range(3):
        work()
    samples = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(samples)


out = forward()
torch.cuda.reset_peak_memory_stats()
backward(out)
peak = torch.cuda.max_memory_allocated() / 2**20
print(seconds(forward), seconds(lambda: backward(out)), peak)
