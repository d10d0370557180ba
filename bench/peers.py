#!/usr/bin/env python3
"""peers.py -- fatune and its peers side by side: one process, the same tensors, turn by turn, two whole runs.

Times libfatune (by its Python binding; FATUNE_LIBRARY names the library, FATUNE_DB the database)
beside PyTorch's cuDNN, FlashAttention-2 and memory-efficient backends, FlexAttention (--flex), and FlashAttention-3,
FlashAttention-4 and FlashInfer where they are installed: who is not there has no figure. CUDA events, medians over
interleaved rounds that begin when two agree within 2 %, SM clocks read under load, errors against double, and the cuBLAS
rate and copy bandwidth of the same run.

  grid   16384 tokens, h*d = 2048 (or as many heads as fit), n 512 to 16384, d 64, 128, 256, both masks; 4*b*h*n*n*d
         operations, half if causal; of the backward (--ops bwd) 10*b*h*n*n*d, of both in one 14
  small  thirteen small and odd shapes and --lot others that the seed draws, inside a CUDA graph
  decode one row of Q, 32 heads on 8, d 128, K and V in turns beyond L2, inside a CUDA graph
  window causal windows of 64 to 8192 keys at n = 8192, and the causal mask alone there and at n = 2048; the operations that
         the mask leaves
  models calls of known models (peers_models.py), inside a CUDA graph, those of few rows of Q with K and V in turns beyond L2;
         with --ops bwd those of a step of training, without a graph

Kinds of data (--data, peers_data.py makes them):
KINDS
A report has for each set and dtype every kind, the worst first, figures of both runs, and what holds in both. A long run
goes in parts (--split I/N, --plan says how long each takes; --after FILE,... leaves out what a call that was cut short
had measured), and --join FILE... makes one report of their .tsv files.

--proxy T4 times beside them the kernels that a T4 would be given, as PTX of its architecture (peers_proxy.py): how they do
on another GPU, labelled as that.

--fa2-tests, --fa3-tests and --repeats run those projects' own tests through libfatune instead of timing: of the forward, with
--ops bwd of the gradients. --memory says what forward and backward need.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import time

import peers_cells as cells
import peers_data as data
import peers_files as files
import peers_table as table
import peers_text as text

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("cudnn", "fa2", "memeff", "fa3", "fa4", "flashinfer")
SAVE_EVERY = 20  # seconds
RATE = {"fwd": 4e14, "bwd": 2.5e14, "both": 2.8e14, "single": 2.5e13}  # FLOP/s of an H200, for --plan
APART = {"cell": 0.06, "peer": 0.03}  # seconds, for --plan: data and reference of a cell; calls made and judged of a peer


# -- options

def names_of(allowed):
    def parse(given):
        names = [name for name in given.split(",") if name]
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(allowed)}")
        return names
    return parse


def kinds(given):
    return list(data.KINDS) if given == "all" else names_of(tuple(data.KINDS))(given)


def numbers(given):
    return [int(n) for n in given.split(",") if n]


def one_of(given):
    found = re.fullmatch(r"(\d+)/(\d+)", given)
    i, count = (int(n) for n in found.groups()) if found else (0, 0)
    if not 1 <= i <= count:
        raise argparse.ArgumentTypeError(f"{given!r} is no I/N with 1 <= I <= N")
    return i, count


def add_what(parser):
    """What is measured."""
    add = parser.add_argument
    add("--sets", type=names_of(cells.SETS), default=["grid", "small"], metavar="SET,...",
        help=f"{', '.join(cells.SETS)} (default: grid,small)")
    add("--ops", type=names_of(cells.OPS), default=["fwd"], metavar="OP,...",
        help="fwd, bwd, both: forward, backward, one behind the other as training does; all but grid and models is fwd alone, "
        "and left out where other ops are asked for and no sets are (default: fwd)")
    add("--data", type=kinds, default=["normal"], metavar="KIND,...", help=f"{', '.join(data.KINDS)}, or all (default: normal)")
    add("--dtypes", type=names_of(cells.HALVES + cells.SINGLES), default=list(cells.HALVES), metavar="T,...",
        help="of bf16, f16, f32, tf32, f32x3 (default: bf16,f16); all but the grid run in bf16 and f16 alone")
    add("--dims", type=numbers, default=[64, 128, 256], metavar="D,...", help="default: 64,128,256")
    add("--masks", type=names_of(("full", "causal")), default=["full", "causal"], metavar="M,...",
        help="full, causal (default: both)")
    add("--lengths", type=numbers, default=list(cells.LENGTHS), metavar="N,...", help="default: 512 to 16384")
    add("--lot", type=int, default=40, metavar="N", help="small shapes that the seed draws beside the thirteen (default: 40)")
    add("--seed", type=int, default=1, help="of the lot and of the tensors (default: 1)")
    add("--split", type=one_of, default=(1, 1), metavar="I/N", help="part I of N: every N-th cell, with all its kinds and runs")
    add("--after", type=lambda given: given.split(","), default=[], metavar="FILE,...",
        help="leave out what these .tsv files have")
    add("--layout", choices=("bhnd", "bnhd"), default="bhnd", help="of the tensors in memory (default: bhnd)")


def add_who(parser):
    """Who is timed."""
    add = parser.add_argument
    add("--kernel", default="best", metavar="K,...",
        help="kernels of fatune: best (what the library picks), or a name such as fwd or fwd_ws, forced; the first is what "
        "ratios are of, others are timed beside it; 'none' leaves fatune out")
    add("--policy", choices=("compile", "fallback", "fail"), default="compile",
        help="of libfatune where nothing stored serves (default: compile)")
    add("--peers", type=names_of(PEERS + ("math",)), default=list(PEERS), metavar="P,...",
        help=f"of {', '.join(PEERS)} and math (default: all but math)")
    add("--before", metavar="FOLDER", help="a checkout of fatune, with what is built in its build/, timed beside this one in the "
        "same turns: what a change did to speed")
    add("--det", action="store_true", help="the deterministic backwards, too, of us and of those who have one")
    add("--proxy", type=lambda given: given.split(","), default=[], metavar="GPU,...",
        help="beside the peers, the kernels of GPUs that are not at hand, such as T4, by their PTX (FATUNE_PROGRAM names the "
        "program that renders them, else build/fatune)")
    add("--proxy-configs", type=lambda given: given.split(","), metavar="FILE,...",
        help="what `fatune verify --as GPU --top N --json` wrote, or without a GPU `fatune show trials --json`: the fastest "
        "configs of each family (default: the kernel's default on that GPU)")
    add("--proxy-top", type=int, default=1, metavar="N", help="how many of those are tried in each cell (default: 1)")
    add("--flex", action="store_true", help="FlexAttention too; it compiles for seconds at each shape")
    add("--flex-lengths", type=numbers, default=[8192], metavar="N,...", help="its lengths (default: 8192)")


def add_how(parser):
    """How it is measured and where it goes."""
    add = parser.add_argument
    add("-o", "--output", metavar="FOLDER", help="write NAME.tsv, .json, .svg and .txt there")
    add("--name", help="of the files (default: GPU and date)")
    add("--runs", type=int, default=2, help="whole runs, one after the other (default: 2)")
    add("--first-run", type=int, default=1, metavar="R", help="the first one's number, where another call made those before")
    add("--ms", type=float, default=20, help="of GPU time for a round of a peer (default: 20)")
    add("--lead", type=float, default=75, metavar="MS", help="of the same work ahead of each round, not timed (default: 75)")
    add("--rounds", type=int, default=4, help="of each peer in a cell that count, after it is warm (default: 4)")
    add("--no-errors", dest="errors", action="store_false", help="leave out the comparison with a reference")
    add("--commit", help="of fatune, for the record (default: asks git)")
    add("--plan", action="store_true", help="say what would be measured and about how long it takes; needs no GPU")
    add("--join", nargs="+", metavar="FILE", help="measure nothing: one report of these .tsv files")
    add("--fa2-tests", action="store_true", help="FlashAttention-2's test list instead")
    add("--fa3-tests", action="store_true", help="FlashAttention-3's test list instead")
    add("--repeats", type=int, default=0, metavar="N", help="bitwise equality of N repeats instead")
    add("--memory", action="store_true", help="peak memory of forward and backward at 16k and 64k rows instead")
    add("--jobs", type=int, default=min(12, os.cpu_count() or 1), metavar="N",
        help="processes that compile what the gradient lists need before they begin (default: %(default)s)")


def arguments():
    about = __doc__.replace("KINDS\n", "".join(f"  {name:8} {what}\n" for name, what in data.KINDS.items()))
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for add in (add_what, add_who, add_how):
        add(parser)
    args = parser.parse_args()
    if args.rounds < 1 or args.ms <= 0 or args.lead < 0 or args.runs < 1 or args.first_run < 1 or args.lot < 0:
        parser.error("--rounds, --ms, --runs and --first-run must be above 0, --lot not below")
    if any(n < 1 for n in args.dims + args.lengths):
        parser.error("--dims and --lengths must be above 0")
    if (args.proxy_configs or args.proxy_top != 1) and not args.proxy or args.proxy_top < 1:
        parser.error("--proxy-configs and --proxy-top go with --proxy, and N is above 0")
    if args.ops != ["fwd"] and args.sets == parser.get_default("sets"):
        args.sets = ["grid"]
    args.kernels = [] if args.kernel == "none" else args.kernel.split(",")
    return args


# -- what is measured

def cells_of(args):
    """Dimensions and masks outside, so that what a run had time for is whole groups."""
    masks = [mask == "causal" for mask in ("full", "causal") if mask in args.masks]
    halves = [t for t in args.dtypes if t in cells.HALVES]
    of = {"grid": lambda op: cells.grid(args.dtypes, args.dims, masks, args.lengths, op),
          "small": lambda _: cells.small(halves, args.lot, args.seed), "decode": lambda _: cells.decode(halves),
          "window": lambda _: cells.window(halves, [d for d in args.dims if d in (64, 128)]),
          "models": lambda op: cells.models(halves, op)}
    return cells.part([c for name in cells.SETS if name in args.sets
                       for op in args.ops if name in cells.WITH_BACKWARD or op == "fwd" for c in of[name](op)], *args.split)


def jobs_of(args):
    """(run, cell, kind) in the order they are measured: a whole run, then the next."""
    had = {files.key_of(r) for r in files.read_all(args.after)[0]} if args.after else set()
    runs = range(args.first_run, args.first_run + args.runs)
    jobs = [(run, c, kind) for run in runs for c in cells_of(args) for kind in args.data]
    return [job for job in jobs if files.key(*job) not in had]


def plan(args):
    """What there is to do and about how long it takes, by the rounds that count and three before them; each is some calls, at
    least three."""
    jobs, ours = jobs_of(args), len(args.kernels) + (1 if args.kernels and args.det else 0)
    peers = len(args.peers) + ours + len(args.proxy) + sum(args.det and name in table.DETERMINISTIC for name in args.peers)
    seconds = 0.0
    for _, c, _ in jobs:
        call = cells.flop(c) / (RATE[cells.op_of(c)] if c["dtype"] in cells.HALVES else RATE["single"])
        rounds = (args.lead / 1e3 + max(args.ms / 1e3, 3 * call)) * (args.rounds + 3)
        seconds += APART["cell"] * (1 if cells.op_of(c) == "fwd" else 2)
        seconds += peers * (APART["peer"] + rounds + 6 * call)  # six: made, judged, counted
    count = len({cells.label(c) + c["set"] for _, c, _ in jobs})
    print(f"{count} cells, {len(args.data)} kinds of data, {args.runs} runs: {len(jobs)} measurements of up to {peers} peers, "
          f"about {seconds:.0f} s, and what the peers take to compile")
    return 0


# -- the run

def leave(reason):
    print(reason, file=sys.stderr)
    return 3


def environment():
    """(torch, gpu half), or the exit code 3 with the reason."""
    try:
        import torch
    except ImportError as error:
        sys.exit(leave(f"peers.py needs PyTorch: {error}"))
    if not torch.cuda.is_available():
        sys.exit(leave("peers.py needs a GPU: PyTorch sees none"))
    import peers_gpu
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("highest")
    return torch, peers_gpu


def commit_of(given):
    if given:
        return given
    try:
        said = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10)
        return said.stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def facts_of(torch, board, args):
    version = torch.backends.cudnn.version() or 0
    return {"gpu": torch.cuda.get_device_name(0), "sms": torch.cuda.get_device_properties(0).multi_processor_count,
            "driver": board.driver(), "cuda": torch.version.cuda, "torch": torch.__version__,
            "cudnn": f"{version // 10000}.{version // 100 % 100}.{version % 100}",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "commit": commit_of(args.commit),
            "layout": args.layout, "ms": args.ms, "lead": args.lead, "rounds": args.rounds, "seed": args.seed, "kernel": args.kernel,
            "policy": args.policy, "command": " ".join(sys.argv[1:])}


def add_ceilings(facts, more):
    """The median of what was measured before and after the cells."""
    facts.setdefault("ceilings", []).append(more)
    for name in ("cublas_tflops", "copy_gbs"):
        facts[name] = table.median([c[name] for c in facts["ceilings"]])


def add_clocks(facts, rows):
    for name in ("clock", "watts"):
        values = [p[name] for r in rows for p in r["peers"].values() if p.get(name)]
        facts[name] = round(table.median(values)) if values else None


def run_jobs(jobs, everyone, args, gpu, save):
    """Measures them into save.rows; what a run had that is cut short lies in its .tsv."""
    import peers_measure
    rows, begun = save.rows, time.monotonic()
    saved = begun
    for i, (run, c, kind) in enumerate(jobs):
        rows.append(peers_measure.run_cell(c, kind, run, everyone, args, gpu))
        now = time.monotonic()
        times = "  ".join(f"{n} {p['ms']:.4f}" for n, p in rows[-1]["peers"].items())
        print(f"{i + 1}/{len(jobs)} {now - begun:.0f} s, {(now - begun) / (i + 1) * (len(jobs) - i - 1):.0f} s left; run {run} "
              f"{cells.label(c)} {kind}: {times}", file=sys.stderr, flush=True)
        if now - saved > SAVE_EVERY:
            saved = now
            save.lines()


class Save:
    """Where the rows go, if anywhere."""

    def __init__(self, args, name, facts, absent):
        self.folder, self.name, self.facts, self.absent, self.rows = args.output, args.name or name, facts, absent, []

    def overwrites(self, paths):
        own = os.path.realpath(os.path.join(self.folder, f"{self.name}.tsv")) if self.folder else None
        return own in map(os.path.realpath, paths)

    def lines(self):
        add_clocks(self.facts, self.rows)
        if self.folder:
            files.save_tsv(self.folder, self.name, self.rows, self.facts)

    def all(self):
        """Files and the report; 1 where a result of ours breaks a limit."""
        if self.folder and self.rows:
            files.save(self.folder, self.name, self.rows, self.facts, self.absent)
        failures = table.failures(self.rows)
        print("\n".join(text.report(self.rows, self.facts, self.absent)))
        for failure in failures:
            print(f"FAILED {failure}")
        return 1 if failures else 0


def compare(args, jobs):
    torch, gpu = environment()
    import peers_who
    board = gpu.Board()
    facts = facts_of(torch, board, args)
    try:
        everyone, absent = peers_who.peers(args.peers + ["flex"] * args.flex, args.kernels, args.policy, args.flex_lengths,
                                           args.proxy, args.proxy_configs, args.before, args.proxy_top, args.det)
    except OSError as error:  # ctypes: the library is not there
        return leave(f"peers.py needs libfatune: {error} (FATUNE_LIBRARY names it; --kernel none goes without)")
    if args.kernels:
        facts["fatune"] = everyone[table.OURS].fatune.version()
    if not args.flex:
        absent["flex"] = "not asked for (--flex)"
    facts["absent"] = absent
    save, code = Save(args, f"peers-{facts['gpu'].split()[-1].lower()}-{facts['date'][:10]}", facts, absent), 0
    if save.overwrites(args.after):
        print(f"peers.py: {save.name}.tsv, whose cells --after leaves out, would be overwritten: give another --name",
              file=sys.stderr)
        return 2
    try:
        add_ceilings(facts, gpu.ceilings(300, board))
        run_jobs(jobs, everyone, args, gpu.Gpu(args.ms, board, args.lead), save)
        add_ceilings(facts, gpu.ceilings(100, board))
    except RuntimeError as error:  # a dead context; what was measured before is still good
        print(f"stopped: {peers_who.reason(error)}", file=sys.stderr)
        code = 4
    except KeyboardInterrupt:
        code = 130
    add_clocks(facts, save.rows)
    failed = save.all()
    return code or failed


def join(args):
    rows, facts = files.read_all(args.join)
    save = Save(args, "peers-joined", facts, facts["absent"])
    save.rows = rows
    return save.all()


def main():
    args = arguments()
    try:
        if args.join:
            return join(args)
        if args.plan:
            return plan(args)
        jobs = jobs_of(args)
    except (files.Refused, OSError) as error:
        print(f"peers.py: {error}", file=sys.stderr)
        return 2
    if not (args.fa2_tests or args.fa3_tests or args.repeats or args.memory):
        return compare(args, jobs)
    torch, gpu = environment()
    try:
        import peers_grads
        import peers_memory
        import peers_suites
    except OSError as error:
        return leave(f"peers.py needs libfatune: {error} (FATUNE_LIBRARY names it)")
    board = gpu.Board()
    facts = facts_of(torch, board, args)
    if args.memory:
        return peers_memory.run(args, facts, gpu.Gpu(args.ms, board, args.lead))
    lists = (peers_grads.lists_of if "bwd" in args.ops else peers_suites.lists_of)(args)
    return peers_suites.run(lists, args, facts)


if __name__ == "__main__":
    sys.exit(main())
