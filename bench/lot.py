"""lot.py -- shapes that nobody tuned: what is picked for them, in turns beside a quick tune of each.

    FATUNE_LIBRARY=build/runtime/libfatune.so FATUNE_SYSTEM_DB=build/share/fatune/fatune.db python3 bench/lot.py --seed 7 -o lot.tsv

Needs a GPU, PyTorch and the program (FATUNE_PROGRAM, else build/fatune). Shapes are drawn by the seed: 1 to 16 sequences, 1 to 40
heads, 1 to 20,000 rows and as many keys or others, both masks; what takes more than --tflop operations is drawn again. One side
knows the package's rows alone, the other what the tune of this very shape found, from a database of its own (--tunes keeps it). Medians
of nine turns inside CUDA graphs; a line of the table is written when its shape is done. --op bwd: gradients. --models: the calls of known
models (peers_models.py) in place of shapes by lot. Exit 1 where the median or the worst is above --limits."""

import argparse
import ctypes
import os
import random
import statistics
import subprocess
import sys
import tempfile

import peers_models

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bindings", "python"))
TURNS, CALLS_MS = 9, 2.0  # of a turn
KERNELS = {"fwd": "fwd_ws,fwd", "bwd": "bwd_ws,bwd_pair,bwd_wide,bwd"}  # that a tune tries
FLOPS = {"fwd": 4, "bwd": 10}  # of a pair and a column


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--models", action="store_true", help="the calls of known models; seed, count and bounds say nothing")
    parser.add_argument("--split", default="1/1", metavar="I/N", help="every N-th of them, from the I-th on")
    parser.add_argument("--database", default="", metavar="FILE", help="rows that are known beside the package's; kernels are kept in it")
    parser.add_argument("--tunes", default="", metavar="FILE", help="the database of the tunes, which is else thrown away")
    parser.add_argument("--op", default="fwd", choices=("fwd", "bwd"))
    parser.add_argument("--dims", default="64,96,128,256")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "f16"))
    parser.add_argument("--least", type=int, default=1, help="rows and keys, as few as")
    parser.add_argument("--tflop", type=float, default=4.0, help="the most of a shape")
    parser.add_argument("--budget", default="7s", help="of a shape's tune")
    parser.add_argument("--limits", default="1.01,1.05", help="median and worst that are fine")
    parser.add_argument("-o", "--out", required=True)
    return parser.parse_args()


def drawn(given):
    """(b, h, hk, q, k, d, causal) of each shape."""
    part, parts = map(int, given.split.split("/"))
    if given.models:
        return peers_models.shapes(given.op)[part - 1::parts]
    lot, shapes = random.Random(given.seed), []
    while len(shapes) < given.count:
        rows, keys = (round(given.least * (20000 / given.least) ** lot.random()) for _ in range(2))
        b, h = lot.randint(1, 16), lot.randint(1, 40)
        hk = lot.choice([n for n in range(1, h + 1) if h % n == 0 and h // n <= 8])
        d, causal = int(lot.choice(given.dims.split(","))), lot.random() < 0.5
        keys = rows if lot.random() < 0.5 else max(keys, rows if causal else 1)
        if 1e-12 * FLOPS[given.op] * b * h * rows * keys * d <= given.tflop:
            shapes.append((b, h, hk, rows, keys, d, causal))
    return shapes[part - 1::parts]


class Options(ctypes.Structure):  # fatune_options
    _fields_ = [("size", ctypes.c_size_t), ("database", ctypes.c_char_p), ("system_database", ctypes.c_char_p)]


def opened(abi, database, system):
    handle, given = ctypes.c_void_p(), Options(ctypes.sizeof(Options), database.encode(), system.encode())
    abi.lib.fatune_open.argtypes = [ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p)]
    abi.check(abi.lib.fatune_open(ctypes.byref(given), ctypes.byref(handle)))
    return handle


class Sides:
    """The two calls of a shape, on the same tensors."""

    def __init__(self, torch, attention, tensors, library, abi, given, folder, shape):
        b, h, hk, q, k, d, causal = shape
        self.describe = abi.lib.fatune_describe
        own, system = given.tunes or os.path.join(folder, "own.db"), os.environ["FATUNE_SYSTEM_DB"]
        torch.manual_seed(given.seed)
        dtype = torch.bfloat16 if given.dtype == "bf16" else torch.float16
        Q, K, V = (torch.randn(b, heads, n, d, dtype=dtype, device="cuda") for heads, n in ((h, q), (hk, k), (hk, k)))
        self.torch, self.problem = torch, tensors.problem_text(Q, K, V, causal, op=given.op)
        program = os.environ.get("FATUNE_PROGRAM") or os.path.join(HERE, "..", "build", "fatune")
        tune = subprocess.Popen([program, "tune", self.problem, "--kernel", KERNELS[given.op], "--effort", "quick", "--budget", given.budget,
                                 "--quiet", "--db", own], env={**os.environ, "FATUNE_SYSTEM_DB": ""}, stdout=subprocess.DEVNULL)
        self.inputs = dict(Q=Q, K=K, V=V)  # the calls know their addresses alone
        if given.op == "bwd":
            self.inputs["O"], self.inputs["LSE"] = attention(Q, K, V, causal=causal, return_lse=True)
            self.inputs["dO"] = torch.randn_like(Q)
        results = dict(O=Q) if given.op == "fwd" else dict(dQ=Q, dK=K, dV=V)
        sizes = tensors._sizes(Q, K, V, causal, (abi.ALL, abi.ALL))

        def call(database, system):
            made = library.Plan(opened(abi, database, system), self.problem, None, abi.COMPILE, abi.ALIGNED)
            found = {name: torch.full_like(like, float("nan")) for name, like in results.items()}
            return self.tried(torch, tensors._Call(made, sizes, None, {**self.inputs, **found}, prepared=True)), found
        self.picked, self.by_picked = call(given.database or os.path.join(folder, "kept.db"), system)  # compiles while the other side is tuned
        if tune.wait() > 1:
            sys.exit(f"lot.py: the tune of {self.problem} ended with {tune.returncode}")
        self.tuned, self.by_tuned = call(own, "")

    def tried(self, torch, call):
        try:
            call.queue()
            torch.cuda.synchronize()
        except RuntimeError as why:
            sys.exit(f"lot.py: {self.problem} by {self.config(call)}: {why}")
        return call

    def config(self, call):
        lines = self.describe(call.made.at).decode().splitlines()
        return next(line.split()[1] for line in lines if line.startswith("kernel "))

    def graph(self, call):
        """(a function that replays a graph of some calls, their number)."""
        from peers_gpu import captured
        torch = self.torch
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(3):
            begin.record(), call.queue(), end.record()
        torch.cuda.synchronize()
        count = max(1, min(400, int(CALLS_MS / max(begin.elapsed_time(end), 1e-3))))
        return captured([call.queue], count), count

    def times(self):
        """Medians of both, microseconds."""
        torch, found = self.torch, ([], [])
        graphs = [self.graph(call) for call in (self.picked, self.tuned)]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for turn in range(TURNS + 2):  # two to warm up
            for (replay, count), of in zip(graphs, found):
                begin.record(), replay(), end.record()
                end.synchronize()
                of.append(1e3 * begin.elapsed_time(end) / count)
        for name, a in self.by_picked.items():
            b = self.by_tuned[name].float()
            apart = ((a.float() - b).abs().max() / b.abs().max().clamp(min=1)).item()
            if not apart < 0.1:  # both were verified; NaN where one wrote nothing
                sys.exit(f"lot.py: {self.problem}: the two results differ by {apart} in {name}")
        return [statistics.median(of[2:]) for of in found]


def main():
    given = options()
    import torch
    from fatune import abi, attention, library, tensors
    torch.zeros(1, device="cuda")  # its context is current from here on
    name, ratios = torch.cuda.get_device_name(), []
    with open(given.out, "w", encoding="ascii") as out, tempfile.TemporaryDirectory() as folder:
        shapes = drawn(given)
        what = f"{len(shapes)} calls of known models" if given.models else f"{given.count} shapes by lot (seed {given.seed})"
        print(f"# {name}, fatune {tensors.version()}, {given.dtype}, {given.op}: {what}, what is picked beside the winner "
              f"of a quick tune of {given.budget} each; medians of {TURNS} turns inside CUDA graphs, us", file=out)
        print("over_tuned\tpicked_us\ttuned_us\tproblem\tpicked\ttuned", file=out, flush=True)
        for number, shape in enumerate(shapes, 1):
            sides = Sides(torch, attention, tensors, library, abi, given, folder, shape)
            picked, tuned = sides.times()
            ratios.append(picked / tuned)
            print(f"{ratios[-1]:.3f}\t{picked:.1f}\t{tuned:.1f}\t{sides.problem}\t{sides.config(sides.picked)}\t{sides.config(sides.tuned)}", file=out, flush=True)
            print(f"{number} of {len(shapes)}: {ratios[-1]:.3f} {sides.problem}", file=sys.stderr, flush=True)
    median, worst = (float(n) for n in given.limits.split(","))
    print(f"{len(ratios)} shapes: median {statistics.median(ratios):.3f}, worst {max(ratios):.3f}")
    return statistics.median(ratios) > median or max(ratios) > worst


if __name__ == "__main__":
    sys.exit(main())
