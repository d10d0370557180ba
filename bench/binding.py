"""binding.py -- host time of a call through the Python binding: the binding's own part, PyTorch's, fatune_run's.

    FATUNE_LIBRARY=build/runtime/libfatune.so python3 bench/binding.py                   # on a GPU
    python3 bench/binding.py --fake build                                               # without one

Needs PyTorch. With --fake the driver is the tests' own, and tensors are the CPU's, which pass for a GPU's: a launch
and an allocation then cost what they cost there, the binding's own part is the same. Medians of many rounds of:

    whole        the call
    fatune_run   that, less the same call whose fatune_run does nothing
    PyTorch      allocating the outputs; where gradients are recorded, recording a function that does nothing, too
    binding      what is left: reading tensors, finding the call, handing it over
    Python       the last two together

Exit 1 where a promise is broken: 5 us of Python for fatune.attention, 7 us for fatune.sdpa, 2 us for a prepared call."""

import argparse
import ctypes
import gc
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROMISES = {"attention": 5.0, "sdpa": 7.0, "prepared": 2.0}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fake", metavar="BUILD", help="a build folder, whose tests' driver stands for a GPU")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--calls", type=int, default=250, help="of a round")
    parser.add_argument("--rounds", type=int, default=201)
    return parser.parse_args()


def stand_in(build, folder):
    """The environment of a machine whose GPU is the fake driver's."""
    os.environ.update(FATUNE_LIBCUDA=f"{build}/tests/fake_cuda.so", FATUNE_LIBRARY=f"{build}/runtime/libfatune.so",
                      FATUNE_JIT=f"{build}/runtime/libfatune-jit.so", FATUNE_DB=f"{folder}/fatune.db", FATUNE_SYSTEM_DB="",
                      FAKE_CUDA_DEVICES="H200")


def pass_for_cuda(torch, fatune):
    """The CPU's tensors are a GPU's, and the fake driver's context is current."""
    driver, context, number = ctypes.CDLL(os.environ["FATUNE_LIBCUDA"]), ctypes.c_void_p(), ctypes.c_int()
    assert driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(number), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0 and driver.cuCtxSetCurrent(context) == 0
    torch.Tensor.is_cuda = True
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = lambda _: torch.no_grad()
    fatune._stream = lambda device: 0
    known = {}

    def room(size, _):
        """A workspace in the fake driver's memory, at the price of one of PyTorch's."""
        if size not in known:
            at = ctypes.c_uint64()
            assert driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)) == 0
            known[size] = torch.frombuffer((ctypes.c_char * size).from_address(at.value), dtype=torch.uint8)
        torch.empty(size, dtype=torch.uint8, device="cpu")
        return known[size]
    fatune._room = room


class Bench:
    def __init__(self, torch, fatune, calls, rounds, is_gpu):
        self.torch, self.fatune, self.calls, self.rounds, self.is_gpu = torch, fatune, calls, rounds, is_gpu
        self.run = fatune._run
        self.nothing = fatune._lib["fatune_abi_version"]  # takes nothing, gives 0: a fatune_run that does nothing
        self.nothing.restype, self.nothing.argtypes = self.run.restype, self.run.argtypes

    def time(self, call):
        """Microseconds of one call, the median of all rounds; a GPU's queue is emptied between them."""
        for _ in range(20):
            call()
        rounds = []
        for _ in range(self.rounds):
            if self.is_gpu:
                self.torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(self.calls):
                call()
            rounds.append((time.perf_counter() - start) / self.calls)
        return 1e6 * statistics.median(rounds)

    def parts(self, make):
        """(whole, without fatune_run) of what `make` returns."""
        whole = self.time(make())
        self.replace(self.nothing)
        try:
            return whole, self.time(make())
        finally:
            self.replace(self.run)

    def replace(self, run):
        """Calls that were learned keep the fatune_run of then."""
        self.fatune._run = run
        self.fatune._known.again.clear()


def cases(torch, fatune, q, k, v):
    """(name, a function that makes the call, PyTorch's part in it)."""
    leaf = q.detach().clone().requires_grad_()

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            out, lse = outputs()
            ctx.save_for_backward(q, k, v, out, lse)
            return out, lse

        @staticmethod
        def backward(ctx, *_):
            return None, None, None

    def outputs():
        return torch.empty_like(q), torch.empty_like(rows)
    from fatune.functional import sdpa
    rows = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    return (
        ("attention", lambda: lambda: fatune.attention(q, k, v, causal=True), lambda: torch.empty_like(q)),
        ("sdpa", lambda: lambda: sdpa(q, q, q, is_causal=True), lambda: torch.empty_like(q)),
        ("attention, a window", lambda: lambda: fatune.attention(q, k, v, window=(63, 0)), lambda: torch.empty_like(q)),
        ("attention, LSE", lambda: lambda: fatune.attention(q, k, v, causal=True, return_lse=True), outputs),
        ("attention, recorded", lambda: lambda: fatune.attention(leaf, k, v, causal=True), lambda: Nothing.apply(leaf, k, v)),
        ("prepared", lambda: fatune.prepare(q, k, v, causal=True), None),
    )


def main():
    given, broken = options(), []
    folder = tempfile.TemporaryDirectory()
    if given.fake:
        stand_in(os.path.abspath(given.fake), folder.name)
    sys.path.insert(0, os.path.join(HERE, "..", "bindings", "python"))
    import torch
    from fatune import tensors as fatune
    if given.fake:
        pass_for_cuda(torch, fatune)
    elif not torch.cuda.is_available():
        sys.exit("binding.py: there is no GPU; --fake BUILD takes the tests' driver")
    bench = Bench(torch, fatune, given.calls, given.rounds, not given.fake)
    q, k, v = (torch.empty(1, heads, 64, 64, dtype=getattr(torch, given.dtype), device=None if given.fake else "cuda")
               for heads in (4, 2, 2))
    gc.disable()
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, {'the fake driver' if given.fake else 'a GPU'}")
    print(f"{'us of a call':24}{'whole':>9}{'fatune_run':>12}{'PyTorch':>9}{'binding':>9}{'Python':>9}")
    for name, make, of_torch in cases(torch, fatune, q, k, v):
        whole, python = bench.parts(make)
        torch_part = bench.time(of_torch) if of_torch else 0
        print(f"{name:24}{whole:9.2f}{whole - python:12.2f}{torch_part:9.2f}{python - torch_part:9.2f}{python:9.2f}")
        if python > PROMISES.get(name, python):
            broken.append(f"{name}: {python:.2f} us of Python, {PROMISES[name]} are promised")
    for line in broken:
        print(line)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
