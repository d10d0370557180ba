"""front.py -- what only a GPU can tell of the Python package: streams, CUDA graphs, inductor, autocast, PyTorch's own function
with fatune under it, host time beside PyTorch's. Exit 1 where something is wrong."""

import statistics
import sys
import time

import torch
import torch._dynamo.testing
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import fatune

failures = []


def check(name, right, said=""):
    print(f"{'right ' if right else 'WRONG '} {name} {said}", flush=True)
    if not right:
        failures.append(name)


def drawn(*shape, dtype=torch.bfloat16, needed=False):
    return torch.randn(shape, device="cuda", dtype=dtype).requires_grad_(needed)


def apart(a, b):
    return (a.double() - b.double()).abs().max().item()


def exact(q, k, v, **options):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*(t.double() for t in (q, k, v)), **options)


def beside(name, found, wanted, plain):
    """No further from the exact result than twice PyTorch's own kernel, and a little."""
    error, allowed = apart(found, wanted), 2 * apart(plain, wanted) + 1e-4
    check(name, error <= allowed, f"{error:.2g} of {allowed:.2g}")


def test_sdpa():
    for rows, keys in ((256, 256), (200, 333), (333, 200)):
        q, k, v = drawn(2, 4, rows, 64), drawn(2, 4, keys, 64), drawn(2, 4, keys, 64)
        for causal in (False, True):
            plain = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            beside(f"sdpa {rows}x{keys} causal={causal}", fatune.sdpa(q, k, v, is_causal=causal), exact(q, k, v, is_causal=causal), plain)


def test_autocast():
    q, k, v = (drawn(2, 4, 128, 64, dtype=torch.float32, needed=True) for _ in range(3))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = fatune.sdpa(q, k, v, is_causal=True)
    grads = torch.autograd.grad(out.float().sum(), (q, k, v))
    check("autocast", out.dtype == torch.bfloat16 and all(g.dtype == torch.float32 and g.isfinite().all() for g in grads))


def test_compile():
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")

    def model(q, k, v):
        return fatune.attention(q * 1.5, k, v, causal=True).sin()

    compiled = torch.compile(model, backend=counter, fullgraph=True, dynamic=True)
    for n in (128, 200, 333, 512):
        given = [drawn(2, 4, n, 64, needed=True) for _ in range(3)]
        out = compiled(*given)
        grads = torch.autograd.grad(out.float().sum(), given)
        wanted = model(*given)
        right = torch.autograd.grad(wanted.float().sum(), given)
        check(f"inductor n={n}", apart(out, wanted) < 2e-2 and all(apart(a, b) < 6e-2 for a, b in zip(grads, right)))
    check("no recompilation for lengths", counter.frame_count == 1, f"{counter.frame_count} frames")


def test_compile_features():
    slopes = torch.rand(4, device="cuda")

    def model(q, k, v):
        return fatune.attention(q * 1.5, k, v, causal=True, softcap=20.0, slopes=slopes).sin()

    compiled = torch.compile(model, fullgraph=True)
    given = [drawn(2, 4, 300, 64, needed=True) for _ in range(3)]
    both = [(out, *torch.autograd.grad(out.float().sum(), given)) for out in (compiled(*given), model(*given))]
    check("inductor with softcap and slopes", all(apart(a, b) < 6e-2 for a, b in zip(*both)))
    dropping = torch.compile(lambda q, k, v: fatune.attention(q, k, v, dropout=0.5), fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        drawn_ = [dropping(*given).clone() for _ in range(4)]
    check("dropout of compiled calls differs", all(apart(a, b) > 0 for a, b in zip(drawn_, drawn_[1:])))


def captured(call):
    """(a graph of the call, what it returned), the call having been warmed up on another stream."""
    with torch.cuda.stream(torch.cuda.Stream()):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        return graph, call()


def test_graph_dropout():
    q, k, v = drawn(2, 4, 256, 64), drawn(2, 4, 256, 64), drawn(2, 4, 256, 64)
    (graph, out), found = captured(lambda: fatune.attention(q, k, v, dropout=0.5)), []
    for _ in range(3):
        graph.replay()
        found.append(out.clone())
    mean = torch.stack(found).float().mean()
    check("dropout of replays differs", all(apart(a, b) > 0 for a, b in zip(found, found[1:])), f"mean {mean:.3f}")


def test_graph():
    q, k, v = drawn(2, 4, 256, 64), drawn(2, 4, 256, 64), drawn(2, 4, 256, 64)
    graph, out = captured(lambda: fatune.attention(q, k, v, causal=True))
    for _ in range(3):
        q.copy_(torch.randn_like(q))
        graph.replay()
    torch.cuda.synchronize()
    check("CUDA graph", torch.equal(out, fatune.attention(q, k, v, causal=True)))
    trained = [drawn(2, 4, 256, 64, needed=True) for _ in range(3)]
    step = torch.cuda.make_graphed_callables(lambda q, k, v: fatune.attention(q, k, v, causal=True), tuple(trained))
    grads = torch.autograd.grad(step(*trained).float().sum(), trained)
    right = torch.autograd.grad(fatune.attention(*trained, causal=True).float().sum(), trained)
    check("graphed callables", all(apart(a, b) < 2e-2 for a, b in zip(grads, right)))


def test_override():
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        for rows, keys, causal in ((256, 256, True), (256, 256, False), (200, 333, False)):
            given = [drawn(2, 4, n, 64, needed=True) for n in (rows, keys, keys)]
            twin = [t.detach().double().requires_grad_() for t in given]
            weight = drawn(2, 4, rows, 64)
            with sdpa_kernel(backend):
                plain = F.scaled_dot_product_attention(*given, is_causal=causal)
                plain_grads = torch.autograd.grad(plain, given, weight)
                handle = fatune.register()
                found = F.scaled_dot_product_attention(*given, is_causal=causal)
                grads = torch.autograd.grad(found, given, weight)
                dropped = F.scaled_dot_product_attention(*given, is_causal=causal, dropout_p=0.5)  # PyTorch's own, behind ours
                torch.autograd.grad(dropped, given, weight)
                handle.remove()
            wanted = exact(*twin, is_causal=causal)
            beside(f"{backend.name} {rows}x{keys} causal={causal}", found, wanted, plain)
            for name, a, b, c in zip("qkv", grads, torch.autograd.grad(wanted, twin, weight.double()), plain_grads):
                beside(f"  d{name}", a, b, c)


def host(work, calls=400):
    """Median microseconds of a call's host time, the GPU kept idle."""
    samples = []
    for _ in range(20):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls // 20):
            work()
        samples.append((time.perf_counter() - began) / (calls // 20) * 1e6)
    return statistics.median(samples)


def test_host():
    q, k, v = drawn(1, 4, 64, 64), drawn(1, 4, 64, 64), drawn(1, 4, 64, 64)
    with torch.no_grad():
        ours = host(lambda: fatune.attention(q, k, v, causal=True))
        theirs = host(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        named = host(lambda: fatune.sdpa(q, k, v, is_causal=True))
    check("host time, attention beside SDPA", ours <= theirs, f"{ours:.1f} us, sdpa {named:.1f}, PyTorch's {theirs:.1f}")


def main():
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "fatune", fatune.version())
    torch.manual_seed(1)
    for test in (test_sdpa, test_autocast, test_graph, test_graph_dropout, test_override, test_host, test_compile, test_compile_features):
        try:
            test()
        except Exception as e:  # the others still tell something
            check(f"{test.__name__}: {type(e).__name__}: {str(e)[:300]}", False)
    print(f"{len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
