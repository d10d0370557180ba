#!/usr/bin/env python3
"""peers.py -- fatune and its peers side by side: one process, the same tensors, turn by turn.

Times the forward pass of libfatune (by its Python binding; FATUNE_LIBRARY names the library, FATUNE_DB the database)
beside PyTorch's cuDNN, FlashAttention-2 and memory-efficient backends, FlexAttention (--flex), and FlashAttention-3,
FlashAttention-4 and FlashInfer where they are installed. Normal random data, CUDA events, medians over interleaved
rounds, SM clocks read under load, errors against a reference, and the cuBLAS rate and copy bandwidth of the same run.

  grid   16384 tokens, h*d = 2048 (or as many heads as fit), n 512 to 16384, d 64, 128, 256, both masks; 4*b*h*n*n*d
         operations, half if causal
  small  small and odd shapes inside a CUDA graph
  window causal windows of 64 to 8192 keys at n = 8192, and the causal mask alone there and at n = 2048; the operations that
         the mask leaves

Where FlashAttention-3 is not installed and the GPU is the one its ratios were measured on (peers_fa3.tsv), its time is
cuDNN's of this run divided by the ratio, and marked as derived.

--proxy T4 times beside them the kernels that a T4 would be given, as PTX of its architecture (peers_proxy.py): how they do
on another GPU, labelled as that.

--fa2-tests, --fa3-tests and --repeats run those projects' own forward tests through libfatune instead of timing.
"""

import argparse
import datetime
import os
import subprocess
import sys

import peers_table as table

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ("cudnn", "fa2", "memeff", "fa3", "fa4", "flashinfer")


def names_of(allowed):
    def parse(text):
        given = [name for name in text.split(",") if name]
        for name in given:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(allowed)}")
        return given
    return parse


def numbers(text):
    return [int(n) for n in text.split(",") if n]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write NAME.tsv, .json, .svg and .txt there")
    parser.add_argument("--name", help="of the files (default: GPU and date)")
    parser.add_argument("--sets", type=names_of(("grid", "small", "window")), default=["grid", "small"], metavar="SET,...",
                        help="grid, small, window (default: the first two)")
    parser.add_argument("--dtypes", type=names_of(table.HALVES + table.SINGLES), default=list(table.HALVES), metavar="T,...",
                        help="of bf16, f16, f32, tf32, f32x3 (default: bf16,f16); small shapes run in bf16 and f16 alone")
    parser.add_argument("--dims", type=numbers, default=[64, 128, 256], metavar="D,...", help="default: 64,128,256")
    parser.add_argument("--masks", type=names_of(("full", "causal")), default=["full", "causal"], metavar="M,...",
                        help="full, causal (default: both)")
    parser.add_argument("--lengths", type=numbers, default=list(table.LENGTHS), metavar="N,...", help="default: 512 to 16384")
    parser.add_argument("--kernel", default="best", metavar="K,...",
                        help="kernels of fatune: best (what the library picks), or a name such as fwd or fwd_ws, forced; "
                        "the first is what ratios are of, others are timed beside it; 'none' leaves fatune out")
    parser.add_argument("--policy", choices=("compile", "fallback", "fail"), default="compile",
                        help="of libfatune where nothing stored serves (default: compile)")
    parser.add_argument("--peers", type=names_of(PEERS + ("math",)), default=list(PEERS), metavar="P,...",
                        help=f"of {', '.join(PEERS)} and math (default: all but math)")
    parser.add_argument("--before", metavar="FOLDER", help="a checkout of fatune, with what is built in its build/, timed beside "
                        "this one in the same turns: what a change did to speed")
    parser.add_argument("--proxy", metavar="GPU", help="beside the peers, the kernels of a GPU that is not at hand, such as T4, by "
                        "their PTX (FATUNE_PROGRAM names the program that renders them, else build/fatune)")
    parser.add_argument("--proxy-configs", metavar="FILE", help="what `fatune verify --as GPU --top N --json` wrote: of each family "
                        "the fastest config there, at one length, is taken at all (default: the kernel's default on that GPU)")
    parser.add_argument("--flex", action="store_true", help="FlexAttention too; it compiles for seconds at each shape")
    parser.add_argument("--flex-lengths", type=numbers, default=[8192], metavar="N,...", help="its lengths (default: 8192)")
    parser.add_argument("--layout", choices=("bhnd", "bnhd"), default="bhnd", help="of the tensors in memory (default: bhnd)")
    parser.add_argument("--ms", type=float, default=45, help="of GPU time for a measurement (default: 45)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each peer in a cell (default: 3)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-errors", dest="errors", action="store_false", help="leave out the comparison with a reference")
    parser.add_argument("--commit", help="of fatune, for the record (default: asks git)")
    parser.add_argument("--fa2-tests", action="store_true", help="FlashAttention-2's forward test list instead")
    parser.add_argument("--fa3-tests", action="store_true", help="FlashAttention-3's forward test list instead")
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="bitwise equality of N repeats instead")
    args = parser.parse_args()
    if args.rounds < 1 or args.ms <= 0:
        parser.error("--rounds and --ms must be above 0")
    if any(n < 1 for n in args.dims + args.lengths):
        parser.error("--dims and --lengths must be above 0")
    if args.proxy_configs and not args.proxy:
        parser.error("--proxy-configs goes with --proxy")
    args.kernels = [] if args.kernel == "none" else args.kernel.split(",")
    return args


def commit_of(given):
    if given:
        return given
    try:
        text = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10)
        return text.stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"


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


def leave(text):
    print(text, file=sys.stderr)
    return 3


def facts_of(torch, board, args):
    version = torch.backends.cudnn.version() or 0
    return {"gpu": torch.cuda.get_device_name(0), "sms": torch.cuda.get_device_properties(0).multi_processor_count,
            "driver": board.driver(), "cuda": torch.version.cuda, "torch": torch.__version__,
            "cudnn": f"{version // 10000}.{version // 100 % 100}.{version % 100}",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "commit": commit_of(args.commit),
            "layout": args.layout, "ms": args.ms, "rounds": args.rounds, "seed": args.seed, "kernel": args.kernel,
            "policy": args.policy, "command": " ".join(sys.argv[1:])}


def cells_of(args):
    """Dimensions and masks outside, so that what a run had time for is whole groups."""
    masks = [mask == "causal" for mask in ("full", "causal") if mask in args.masks]
    halves = [t for t in args.dtypes if t in table.HALVES]
    cells = table.grid(args.dtypes, args.dims, masks, args.lengths) if "grid" in args.sets else []
    cells += table.small(halves) if "small" in args.sets else []
    return cells + (table.window(halves, [d for d in args.dims if d in (64, 128)]) if "window" in args.sets else [])


def add_ceilings(facts, more):
    """The median of what was measured before and after the cells."""
    facts.setdefault("ceilings", []).append(more)
    for name in ("cublas_tflops", "copy_gbs"):
        facts[name] = table.median([c[name] for c in facts["ceilings"]])


def add_clocks(facts, rows):
    for name in ("clock", "watts"):
        values = [p[name] for r in rows for p in r["peers"].values() if p.get(name)]
        facts[name] = round(table.median(values)) if values else None


def compare(args):
    torch, gpu = environment()
    board = gpu.Board()
    facts = facts_of(torch, board, args)
    try:
        everyone, absent = gpu.peers(args.peers + (["flex"] if args.flex else []), args.kernels, args.policy, args.flex_lengths,
                                     args.proxy, args.proxy_configs, args.before)
    except OSError as error:  # ctypes: the library is not there
        return leave(f"peers.py needs libfatune: {error} (FATUNE_LIBRARY names it; --kernel none goes without)")
    if args.kernels:
        facts["fatune"] = everyone[table.OURS].fatune.version()
    if not args.flex:
        absent["flex"] = "not asked for (--flex)"
    ratios = table.read_ratios(os.path.join(HERE, "peers_fa3.tsv")) if "H200" in facts["gpu"] else {}
    rows, code = [], 0
    name = args.name or f"peers-{facts['gpu'].split()[-1].lower()}-{facts['date'][:10]}"
    cells = cells_of(args)
    try:
        add_ceilings(facts, gpu.ceilings(300, board))
        for i, c in enumerate(cells):
            row = gpu.run_cell(c, everyone, args, board)
            table.derive(row, ratios)
            rows.append(row)
            times = "  ".join(f"{n} {p['ms']:.4f}" for n, p in row["peers"].items())
            print(f"{i + 1}/{len(cells)} {table.label(c)}: {times}", file=sys.stderr, flush=True)
            if args.output and (i + 1) % 6 == 0:  # a run that is cut short leaves what it had
                add_clocks(facts, rows)
                table.save(args.output, name, rows, facts, absent)
        add_ceilings(facts, gpu.ceilings(100, board))
    except RuntimeError as error:  # a dead context; what was measured before is still good
        print(f"stopped: {gpu.reason(error)}", file=sys.stderr)
        code = 4
    except KeyboardInterrupt:
        code = 130
    add_clocks(facts, rows)
    if args.output and rows:
        table.save(args.output, name, rows, facts, absent)
    print("\n".join(table.report(rows, facts, absent)))
    ours = [table.OURS] + [name for name in everyone if name.startswith(table.PROXY)]
    return code or (1 if any(table.is_inaccurate(r, name) for r in rows for name in ours) else 0)


def main():
    args = arguments()
    if not (args.fa2_tests or args.fa3_tests or args.repeats):
        return compare(args)
    torch, gpu = environment()
    try:
        import peers_suites
    except OSError as error:
        return leave(f"peers.py needs libfatune: {error} (FATUNE_LIBRARY names it)")
    board = gpu.Board()
    return peers_suites.run(args, facts_of(torch, board, args))


if __name__ == "__main__":
    sys.exit(main())
