"""peers_gpu.py -- the GPU of the benchmark beside peers: its clock and power, the stopwatch, graphs, its own ceilings.

A measurement is some groups of calls between CUDA events, behind as much of the same work as the clock needs to settle to its power;
the SM clock is read while they run.
"""

import ctypes
import time

import torch

import peers_rules as rules
import peers_table as table

GROUPS = 5  # of calls in a measurement


# -- the board

class Board:
    """SM clock and power of the GPU that torch uses, and the driver's version, by the driver's own NVML; what that cannot
    tell is None. Asked in every round that counts: a program started for it would take longer than the round."""

    SM = 1  # nvmlClockType_t
    VERSION = 80  # bytes of a version's text

    def __init__(self, library=None):
        self.nvml, self.handle = library, ctypes.c_void_p()
        uuid = "GPU-" + str(torch.cuda.get_device_properties(0).uuid).removeprefix("GPU-")
        try:
            self.nvml = library or ctypes.CDLL("libnvidia-ml.so.1")
            if self.nvml.nvmlInit_v2() != 0 or self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self.handle)) != 0:
                self.nvml = None
        except (OSError, AttributeError):
            self.nvml = None

    def ask(self, function, *arguments):
        """A number of the GPU's."""
        found = ctypes.c_uint()
        if not self.nvml or getattr(self.nvml, function)(self.handle, *arguments, ctypes.byref(found)) != 0:
            return None
        return found.value

    def sample(self):
        """(MHz, W) now."""
        power = self.ask("nvmlDeviceGetPowerUsage")
        return self.ask("nvmlDeviceGetClockInfo", self.SM), None if power is None else power / 1000

    def driver(self):
        version = ctypes.create_string_buffer(self.VERSION)
        if not self.nvml or self.nvml.nvmlSystemGetDriverVersion(version, self.VERSION) != 0:
            return None
        return version.value.decode()


# -- time

def spend(call, n, groups, before=0, middle_ms=0.0, board=None):
    """Milliseconds of a call in each group of n, behind `before` others, and what the board said so long after the first began."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(groups + 1)]
    begun = time.perf_counter()
    for _ in range(before):
        call()
    events[0].record()
    for event in events[1:]:
        for _ in range(n):
            call()
        event.record()
    sample = None, None
    if board:
        time.sleep(max(0.0, middle_ms / 1000 - (time.perf_counter() - begun)))
        sample = board.sample()
    events[-1].synchronize()
    return [a.elapsed_time(b) / n for a, b in zip(events, events[1:])], sample


class Stopwatch:
    """One call's measurements: how many calls to a group is decided once, then any number of rounds."""

    def __init__(self, call, ms, board, lead=0.0):
        self.call, self.board = call, board
        for _ in range(2):
            call()
        spend(call, 1, 1)
        once = max(1e-4, min(spend(call, 2, 2)[0]))
        self.groups = max(2, min(GROUPS, int(ms / once)))
        self.n = max(1, round(ms / self.groups / once))
        self.before = max(1, self.n * self.groups // 6, round(lead / once))
        self.middle = once * (self.before + self.n * self.groups / 2)
        self.times, self.samples = [], []

    def round(self, kept=True):
        """Milliseconds of a call, the median of the groups. `kept`: whether the round counts."""
        times, sample = spend(self.call, self.n, self.groups, self.before, self.middle, self.board if kept else None)
        if kept:
            self.times += times
            self.samples.append(sample)
        return table.median(times)

    def result(self, calls=1):
        """`calls`: how many attention calls one timed call makes."""
        times = sorted(t / calls for t in self.times)
        out = {"ms": table.median(times), "ms_low": times[0], "ms_high": times[-1], "calls": len(times) * self.n * calls}
        for name, values in zip(("clock", "watts"), zip(*self.samples)):
            values = [v for v in values if v is not None]
            out[name] = round(table.median(values)) if values else None
        return out


def captured(calls, count):
    """A function that replays `count` calls, in turns through `calls`, as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(max(3, len(calls))):
            calls[i % len(calls)]()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            calls[i % len(calls)]()

    def replay(held=calls):  # the graph writes where these calls have their memory
        graph.replay()
    return replay


def ceilings(ms, board):
    """TFLOP/s of cuBLAS on 8192^3 bf16 normal data, GB/s of a device copy (read and written), clock and power."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty_like(a)
    source = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    watches = {"gemm": Stopwatch(lambda: torch.matmul(a, b, out=c), ms, board),
               "copy": Stopwatch(lambda: target.copy_(source), ms, board)}
    rules.warm_up(watches)
    rules.measure(watches, 3)
    gemm, copy = (watches[name].result() for name in watches)
    return {"cublas_tflops": 2 * 8192 ** 3 / gemm["ms"] * 1e-9, "copy_gbs": 2 * source.numel() / copy["ms"] * 1e-6,
            "clock": gemm["clock"], "watts": gemm["watts"]}


class Gpu:
    """What a cell's measurement needs of the GPU that torch uses."""

    device = "cuda"

    def __init__(self, ms, board, lead=0.0):
        self.ms, self.board, self.lead = ms, board, lead
        self.cache = torch.cuda.get_device_properties(0).L2_cache_size

    def stopwatch(self, call):
        return Stopwatch(call, self.ms, self.board, self.lead)

    @staticmethod
    def captured(calls, count):
        return captured(calls, count)

    @staticmethod
    def is_alive():
        return is_alive()


def is_alive():
    """Whether the context still works: after a fault of a kernel every call fails."""
    try:
        torch.cuda.synchronize()
        return True
    except RuntimeError:
        return False
