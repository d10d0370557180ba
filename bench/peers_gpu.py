"""peers_gpu.py -- the GPU half of the benchmark beside peers: who is timed, by what clock, against what reference.

All peers get the same tensors, [b, h, n, d]. What a peer copies or compiles beforehand is not timed. A measurement
is some groups of calls between CUDA events; the SM clock is read while they run.
"""

import contextlib
import importlib
import importlib.util
import math
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import peers_table as table

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bindings", "python"))

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}  # all others: float32
GROUPS = 5  # of calls in a measurement


class Dead(RuntimeError):
    """The CUDA context is gone: nothing can be measured any more."""


def dtype_of(name):
    return DTYPES.get(name, torch.float32)


def reason(error):
    """The first line of an error, short enough for a table."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160]


# -- the board

class Board:
    """SM clock and power of the GPU that torch uses, by NVML's Python module or nvidia-smi; by neither: None."""

    def __init__(self):
        self.nvml = self.handle = None
        self.uuid = "GPU-" + str(torch.cuda.get_device_properties(0).uuid).removeprefix("GPU-")
        with contextlib.suppress(Exception):
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self.handle = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            self.nvml = nvml

    def smi(self, what):
        try:
            text = subprocess.run(["nvidia-smi", "-i", self.uuid, f"--query-gpu={what}", "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True, timeout=10, check=True).stdout
            return [field.strip() for field in text.strip().split(",")]
        except (OSError, subprocess.SubprocessError):
            return [None] * len(what.split(","))

    def sample(self):
        """(MHz, W) now."""
        try:
            if self.nvml:
                return (self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
                        self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000)
            clock, watts = self.smi("clocks.sm,power.draw")
            return (int(clock) if clock else None, float(watts) if watts else None)
        except Exception:  # whatever NVML cannot tell is left out
            return None, None

    def driver(self):
        return self.smi("driver_version")[0]


# -- time

def spend(call, n, groups, expected_ms=0.0, board=None):
    """Milliseconds of a call in each group of n, and what the board said in the middle of them."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(groups + 1)]
    begun = time.perf_counter()
    events[0].record()
    for event in events[1:]:
        for _ in range(n):
            call()
        event.record()
    sample = None, None
    if board:
        time.sleep(max(0.0, expected_ms / 2000 - (time.perf_counter() - begun)))
        sample = board.sample()
    events[-1].synchronize()
    return [a.elapsed_time(b) / n for a, b in zip(events, events[1:])], sample


class Stopwatch:
    """One call's measurements: how many calls to a group is settled once, then any number of rounds."""

    def __init__(self, call, ms, board):
        self.call, self.board = call, board
        for _ in range(2):
            call()
        spend(call, 1, 1)
        once = max(1e-4, min(spend(call, 2, 2)[0]))
        self.groups = max(2, min(GROUPS, int(ms / once)))
        self.n = max(1, round(ms / self.groups / once))
        self.expected = once * self.n * self.groups
        self.times, self.samples = [], []

    def round(self):
        for _ in range(max(1, self.n * self.groups // 6)):  # warm: the clock settles to this kernel's power
            self.call()
        times, sample = spend(self.call, self.n, self.groups, self.expected * 7 / 6, self.board)
        self.times += times
        self.samples.append(sample)

    def result(self, calls=1):
        """`calls`: how many attention calls one timed call makes."""
        times = sorted(t / calls for t in self.times)
        out = {"ms": table.median(times), "ms_low": times[0], "ms_high": times[-1], "calls": len(times) * self.n * calls}
        for name, values in zip(("clock", "watts"), zip(*self.samples)):
            values = [v for v in values if v is not None]
            out[name] = round(table.median(values)) if values else None
        return out


def in_turn(watches, rounds):
    """Rounds over all; each begins with another, so that none always runs after the same."""
    names = list(watches)
    for i in range(rounds):
        for j in range(len(names)):
            watches[names[(i + j) % len(names)]].round()


def captured(call, count):
    """A function that replays `count` calls as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph.replay


def ceilings(ms, board):
    """TFLOP/s of cuBLAS on 8192^3 bf16 normal data, GB/s of a device copy (read and written), clock and power."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    source = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    watches = {"gemm": Stopwatch(lambda: torch.matmul(a, b, out=c), ms, board),
               "copy": Stopwatch(lambda: target.copy_(source), ms, board)}
    in_turn(watches, 3)
    gemm, copy = (watches[name].result() for name in watches)
    return {"cublas_tflops": 2 * 8192 ** 3 / gemm["ms"] * 1e-9, "copy_gbs": 2 * source.numel() / copy["ms"] * 1e-6,
            "clock": gemm["clock"], "watts": gemm["watts"]}


# -- peers: for each a context to be timed in, and a maker of calls for tensors

class Peer:
    dtypes = table.HALVES

    def context(self):
        return contextlib.nullcontext()

    windows = False  # whether it has them

    def wants(self, c):
        return c["dtype"] in self.dtypes and (self.windows or "keys" not in c)

    def about(self, c):
        """Facts for the row."""
        return {}


class Sdpa(Peer):
    def __init__(self, backend, dtypes):
        self.backend, self.dtypes = backend, dtypes

    def context(self):
        return sdpa_kernel(self.backend)

    def make(self, c, q, k, v):
        causal = c["causal"]
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


class Flex(Peer):
    """FlexAttention by torch.compile; each shape costs seconds, so only some lengths are asked for."""

    def __init__(self, lengths):
        from torch.nn.attention import flex_attention as flex
        import torch._dynamo
        torch._dynamo.config.recompile_limit = 1000
        self.flex, self.lengths = flex, lengths
        self.compiled = torch.compile(flex.flex_attention, dynamic=False)

    def wants(self, c):
        return c["dtype"] in self.dtypes and c["set"] == "grid" and c["n"] in self.lengths

    def make(self, c, q, k, v):
        n, block_mask = c["n"], None
        if c["causal"]:
            block_mask = self.flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cuda")
        return lambda: self.compiled(q, k, v, block_mask=block_mask)


class FlashAttention(Peer):
    """FlashAttention-3 or -4 from its own package: tensors are [b, n, h, d], strided as ours are."""

    windows = True

    def __init__(self, module):
        self.function = importlib.import_module(module).flash_attn_func

    def make(self, c, q, k, v):
        q, k, v, causal = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), c["causal"]
        window = {"window_size": (c["keys"] - 1, 0)} if "keys" in c else {}

        def call():
            out = self.function(q, k, v, causal=causal, **window)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
        return call


class FlashInfer(Peer):
    """Its batched prefill over ragged tensors; the plan is made beforehand."""

    def __init__(self):
        self.module = importlib.import_module("flashinfer")
        self.workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def make(self, c, q, k, v):
        b, h, n, d = q.shape
        flat = [t.transpose(1, 2).reshape(b * n, h, d) for t in (q, k, v)]
        ends = torch.arange(0, (b + 1) * n, n, dtype=torch.int32, device="cuda")
        wrapper = self.module.BatchPrefillWithRaggedKVCacheWrapper(self.workspace, "NHD")
        wrapper.plan(ends, ends, h, h, d, causal=c["causal"], q_data_type=q.dtype)
        return lambda: wrapper.run(*flat).view(b, n, h, d).transpose(1, 2)


class Ours(Peer):
    dtypes = table.HALVES + table.SINGLES
    windows = True

    def __init__(self, fatune, kernel, policy):
        self.fatune, self.kernel = fatune, kernel
        self.policy = {"fallback": fatune.FALLBACK, "fail": fatune.FAIL, "compile": fatune.COMPILE}[policy]
        self.plans = {}

    def make(self, c, q, k, v):
        arithmetic = c["dtype"] if c["dtype"] in ("tf32", "f32x3") else None
        out = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype, device=q.device)  # laid out as q is
        out.fill_(math.nan)  # memory used before may hold another peer's right answer
        begun = time.perf_counter()
        window = {"window": (c["keys"] - 1, 0)} if "keys" in c else {}
        call = self.fatune.prepare(q, k, v, causal=c["causal"], out=out, kernel=self.kernel, policy=self.policy,
                                   aligned=True, arithmetic=arithmetic, **window)
        self.plans[table.label(c)] = time.perf_counter() - begun
        return call

    def about(self, c):
        arithmetic = c["dtype"] if c["dtype"] in ("tf32", "f32x3") else None
        like = torch.empty((c["b"], c["h"], c["n"], c["d"]), dtype=dtype_of(c["dtype"]), device="meta")
        window = {"window": (c["keys"] - 1, 0)} if "keys" in c else {}
        problem = self.fatune.problem_text(like, like, like, c["causal"], arithmetic, **window)
        lines = self.fatune.describe(problem, 0, self.kernel, self.policy, True).splitlines()
        known = dict(line.split(" ", 1) for line in reversed(lines) if " " in line)
        return {"kernel": known.get("kernel"), "note": f"pick {known.get('pick')}, {known.get('kernel-from')}",
                "plan_seconds": round(self.plans.get(table.label(c), 0.0), 4)}


class Before(Ours):
    """fatune as another checkout has it, with a build of its own and its own package database."""

    windows = False

    def __init__(self, folder, kernel, policy):
        package = os.path.join(folder, "build", "share", "fatune", "fatune.db")
        own = {"FATUNE_LIBRARY": os.path.join(folder, "build", "runtime", "libfatune.so.0"), "FATUNE_SYSTEM_DB": package,
               "FATUNE_DB": ""}
        kept = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            path = os.path.join(folder, "bindings", "python", "fatune.py")
            spec = importlib.util.spec_from_file_location("fatune_before", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            like = torch.zeros(1, 1, 1, 64, dtype=torch.float16, device="cuda")
            with contextlib.suppress(module.Error):
                module.attention(like, like, like)  # opens the library while the environment names it
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value
        super().__init__(module, kernel, policy)


class Proxy(Peer):
    """The kernels of a GPU that is not at hand, as PTX of its architecture."""

    dtypes = table.HALVES + table.SINGLES

    def __init__(self, gpu, configs):
        import peers_proxy
        self.maker = peers_proxy.Maker(gpu, peers_proxy.read_configs(configs) if configs else None)
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    @staticmethod
    def problem(c):
        return (f"fwd-{c['dtype']}-b{c['b']}-h{c['h']}-q{c['n']}-k{c['n']}-d{c['d']}" + ("-causal" if c["causal"] else ""))

    def make(self, c, q, k, v):
        out = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype, device=q.device)
        out.fill_(math.nan)
        torch.cuda.current_stream().synchronize()  # makes the context current for the driver's calls
        sizes = {"b": c["b"], "h": c["h"], "hk": c["h"], "q": c["n"], "k": c["n"], "SMs": self.sms}
        launch = self.maker.launcher(self.problem(c), [(t.data_ptr(), t.stride()[:3]) for t in (q, k, v, out)], sizes,
                                     1 / math.sqrt(c["d"]))

        def call():
            launch(torch.cuda.current_stream().cuda_stream)
            return out
        return call

    def about(self, c):
        return dict(zip(("kernel", "note"), self.maker.used[self.problem(c)]))


def peers(wanted, kernels, policy, flex_lengths, proxy=None, configs=None, before=None):
    """({name: Peer}, {name: why it is absent}), ours first. `proxy`: a GPU whose kernels run as a proxy, `configs` a file
    that says which. `before`: a checkout of fatune to be timed beside this one."""
    makers = {"cudnn": lambda: Sdpa(SDPBackend.CUDNN_ATTENTION, table.HALVES),
              "fa2": lambda: Sdpa(SDPBackend.FLASH_ATTENTION, table.HALVES),
              "memeff": lambda: Sdpa(SDPBackend.EFFICIENT_ATTENTION, table.HALVES + table.SINGLES),
              "math": lambda: Sdpa(SDPBackend.MATH, table.HALVES + table.SINGLES),
              "flex": lambda: Flex(flex_lengths),
              "fa3": lambda: FlashAttention("flash_attn_interface"),
              "fa4": lambda: FlashAttention("flash_attn.cute"),
              "flashinfer": FlashInfer}
    found, absent = {}, {}
    if kernels:
        import fatune
        for i, kernel in enumerate(kernels):
            found[table.OURS if i == 0 else f"{table.OURS}:{kernel}"] = Ours(fatune, None if kernel == "best" else kernel, policy)
    if before:
        found[table.BEFORE] = Before(before, None if kernels[0] == "best" else kernels[0], policy)
    if proxy:
        makers[table.PROXY + proxy] = lambda: Proxy(proxy, configs)
        wanted = wanted + [table.PROXY + proxy]
    for name in wanted:
        try:
            found[name] = makers[name]()
        except Exception as error:  # a package may fail to load in any way
            absent[name] = reason(error)
    return found, absent


# -- correctness

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
    """As many of the last heads as a reference has memory for: all where n is small, one where it is 16k."""
    count = max(1, (1 << 27) // c["n"] ** 2)
    b, h = tensor.shape[:2]
    if count >= b * h:
        return tensor.flatten(0, 1)
    whole = math.ceil(count / h)
    return tensor[-whole:].flatten(0, 1)[-count:]


class Judge:
    """Largest absolute errors against the formula in fp32 (in fp64 for fp32 kinds), and PyTorch's own in the same
    dtype for comparison."""

    def __init__(self, c, q, k, v):
        self.c = c
        q, k, v = (some_heads(c, t) for t in (q, k, v))
        exact = torch.float32 if c["dtype"] in table.HALVES else torch.float64
        self.reference = attend(q, k, v, c["causal"], exact, keys=c.get("keys"))
        self.pytorch = self.of(attend(q, k, v, c["causal"], q.dtype, keys=c.get("keys")))

    def of(self, heads):
        return (heads.to(self.reference.dtype) - self.reference).abs().max().item()

    def error(self, out):
        return self.of(some_heads(self.c, out))


# -- one cell

def is_alive():
    """Whether the context still works: after a fault of a kernel every call fails."""
    try:
        torch.cuda.synchronize()
        return True
    except RuntimeError:
        return False


def tensors(c, layout, seed):
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (c["b"], c["h"], c["n"], c["d"]) if layout == "bhnd" else (c["b"], c["n"], c["h"], c["d"])
    of = [torch.randn(shape, generator=generator, dtype=torch.float32, device="cuda").to(dtype_of(c["dtype"])) for _ in range(3)]
    return of if layout == "bhnd" else [t.transpose(1, 2) for t in of]


def run_cell(c, everyone, options, board):
    """The row of a cell: every peer's time, error and clock."""
    row = {"cell": c, "peers": {}, "absent": {}}
    q, k, v = tensors(c, options.layout, options.seed)
    judge = Judge(c, q, k, v) if options.errors else None
    if judge:
        row["error_pytorch"] = judge.pytorch
    watches, calls, errors, count = {}, {}, {}, 1
    if c["set"] == "small":
        count = max(4, min(50, round(2e9 / table.flop(c) * 100)))  # about 2 ms of replay at 100 TFLOP/s
    for name, peer in everyone.items():
        if not peer.wants(c):
            continue
        try:
            with peer.context():
                call = calls[name] = peer.make(c, q, k, v)
                errors[name] = judge.error(call()) if judge else None
                if c["set"] == "small":
                    call = captured(call, count)
                watches[name] = InContext(peer, Stopwatch(call, options.ms, board))
        except Exception as error:  # each library has its own
            row["absent"][name] = reason(error)
            if not is_alive():
                raise Dead(f"{table.label(c)}: {name}: {reason(error)}") from error
    in_turn(watches, options.rounds)
    for name, watch in watches.items():
        found = watch.watch.result(count)
        row["peers"][name] = {**found, "tflops": table.tflops(c, found["ms"]), **everyone[name].about(c)}
        if judge:  # once more after the load
            with everyone[name].context():
                row["peers"][name]["error"] = table.largest(errors[name], judge.error(calls[name]()))
    return row


class InContext:
    """A stopwatch whose rounds run in the peer's context, entered once a round and not once a call."""

    def __init__(self, peer, watch):
        self.peer, self.watch = peer, watch

    def round(self):
        with self.peer.context():
            self.watch.round()
