#!/usr/bin/env python3
"""bytes.py -- device-memory bytes of the three algorithms, as Nsight Compute counts them.

    python3 bench/bytes.py -o bytes.tsv           starts itself under ncu; prints a table
    python3 bench/bytes.py --read FILE            the same table from what ncu printed elsewhere

fp32, d 64, no mask, 16384 tokens, 32 heads: standard attention, FlashAttention (fa1), the fused kernel of today (fwd),
one call each with new normal random inputs, through the Python binding (FATUNE_LIBRARY names the library, FATUNE_DB the
database; what is not stored is compiled). ncu empties the caches before each launch; what is still in the L2 cache when a
launch ends is not counted as written. Its times are at the base clock, and only told.

Beside the counts the least that an algorithm could move: inputs and outputs once, and for standard attention S written and
read, P written and read.

Elsewhere, such as where ncu may run for root alone: run what --command prints, keep all it prints in FILE, and --read that.
"""

import argparse
import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS, HEADS, DIM = 16384, 32, 64
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
# The launches of one call in their order; a hash follows the names.
LAUNCHES = {"standard": ("standard_scores", "standard_softmax", "standard_output"), "fa1": ("fa1",), "fwd": ("fwd",)}
READ, WRITTEN, TIME = "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"
UNITS = {"byte": 1, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
         "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1}
COLUMNS = ("n", "algorithm", "read_gb", "written_gb", "least_read_gb", "least_written_gb", "launches", "ms", "config")
MARK = "call"  # begins the line that --run prints for each call

NO_NCU = """bytes.py needs Nsight Compute: there is no ncu on the PATH or in /usr/local/cuda/bin.
It comes with the CUDA toolkit, or alone (NVIDIA's package nsight-compute); put its folder on the PATH."""
NOT_PERMITTED = """bytes.py: the driver lets ncu read no counters here (ERR_NVGPUCTRPERM). Any of these helps:
  run it as root (in a container: with --cap-add SYS_ADMIN);
  let everyone read them: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, then load the driver again;
  run what `bytes.py --command` prints where it is allowed, and give what it printed to `bytes.py --read`."""


class Unreadable(Exception):
    """What ncu printed is not what was asked for; the text says how."""


# -- what should be moved

def least(algorithm, n):
    """(bytes read, bytes written) at the least."""
    tensor = 4 * TOKENS * HEADS * DIM
    scores = 4 * TOKENS * HEADS * n if algorithm == "standard" else 0
    return 3 * tensor + 2 * scores, tensor + 2 * scores


# -- what ncu says

def number(value, unit):
    """In bytes or seconds; None where it is none."""
    try:
        return float(value.replace(",", "")) * UNITS[unit.lower()]
    except (KeyError, ValueError):
        return None


def launches_of(lines):
    """[(name, {metric: value})] in the order of launches, from ncu's CSV: a row for each launch and metric."""
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    found = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        launch = found.setdefault(int(row["ID"]), (row["Kernel Name"].split("(")[0], {}))
        value = number(row["Metric Value"], row["Metric Unit"])
        if value is None:
            raise Unreadable(f"{row['Kernel Name']}: {row['Metric Name']} is '{row['Metric Value']}' {row['Metric Unit']}")
        launch[1][row["Metric Name"]] = value
    return [found[i] for i in sorted(found)]


def rows_of(text):
    """A row for each call that --run told of, its launches added up; what --run left out, as lines."""
    lines = text.splitlines()
    launches = launches_of(lines)
    rows, at = [], 0
    for line in lines:
        if not line.startswith(MARK + "\t"):
            continue
        _, algorithm, n, config = line.split("\t")
        row = {"n": int(n), "algorithm": algorithm, "config": config, "launches": len(LAUNCHES[algorithm]), READ: 0, WRITTEN: 0,
               TIME: 0}
        for i, name in enumerate(LAUNCHES[algorithm]):
            kernel, metrics = launches[at + i] if at + i < len(launches) else ("none", {})
            if not re.fullmatch(name + "_[0-9a-f]{16}", kernel):
                raise Unreadable(f"{algorithm} at N = {n}: launch {at + i + 1} should be {name}_..., and is {kernel}")
            for metric in (READ, WRITTEN, TIME):
                if metric not in metrics:
                    raise Unreadable(f"{kernel}: there is no {metric}")
                row[metric] += metrics[metric]
        at += row["launches"]
        rows.append(row)
    if at < len(launches):
        raise Unreadable(f"{len(launches)} launches were counted, {at} belong to a call: the first that does not is "
                         f"{launches[at][0]}")
    return rows, [line for line in lines if line.startswith("left out ")]


# -- what is printed

def table(rows):
    lines = [f"fp32 d{DIM} full, {TOKENS} tokens, {HEADS} heads; GB = 10^9 bytes",
             f"{'N':>6}  {'':9}{'read':>9}{'least':>9}{'written':>9}{'least':>9}{'all/least':>11}{'ms':>10}"]
    for r in rows:
        read, written = least(r["algorithm"], r["n"])
        figures = "".join(f"{b / 1e9:9.3f}" for b in (r[READ], read, r[WRITTEN], written))
        lines.append(f"{r['n']:>6}  {r['algorithm']:9}{figures}{(r[READ] + r[WRITTEN]) / (read + written):11.2f}"
                     f"{r[TIME] * 1e3:10.3f}")
    return "\n".join(lines)


def tsv(rows):
    lines = ["\t".join(COLUMNS)]
    for r in rows:
        figures = [f"{b / 1e9:.6f}" for b in (r[READ], r[WRITTEN], *least(r["algorithm"], r["n"]))]
        lines.append("\t".join([str(r["n"]), r["algorithm"], *figures, str(r["launches"]), f"{r[TIME] * 1e3:.6f}", r["config"]]))
    return "\n".join(lines) + "\n"


def report(text, output):
    try:
        rows, absent = rows_of(text)
    except Unreadable as error:
        return leave(f"bytes.py: {error}", 1)
    if not rows:
        return leave("bytes.py: there is no call in what ncu printed:\n" + "\n".join(text.splitlines()[-10:]), 1)
    print("\n".join([table(rows)] + absent))
    if output:
        with open(output, "w", encoding="utf-8") as file:
            file.write(tsv(rows))
    return 0


def leave(text, code=3):
    print(text, file=sys.stderr)
    return code


# -- what is counted

def run(lengths, algorithms):
    """The calls alone, once each, with a line for each."""
    try:
        import torch
    except ImportError as error:
        return leave(f"bytes.py needs PyTorch: {error}")
    if not torch.cuda.is_available():
        return leave("bytes.py needs a GPU: PyTorch sees none")
    sys.path.insert(0, os.path.join(HERE, "..", "bindings", "python"))
    try:
        import fatune
    except OSError as error:
        return leave(f"bytes.py needs libfatune: {error} (FATUNE_LIBRARY names it)")
    for n in lengths:
        for algorithm in algorithms:
            torch.cuda.empty_cache()  # S of the call before
            try:
                q, k, v = (torch.randn(TOKENS // n, HEADS, n, DIM, device="cuda") for _ in range(3))
                call = fatune.prepare(q, k, v, kernel=algorithm, policy=fatune.COMPILE, aligned=True)
                about = fatune.describe(fatune.problem_text(q, k, v), kernel=algorithm, aligned=True).splitlines()
                config = next((line.split(" ", 1)[1] for line in about if line.startswith("kernel ")), "")
            except (fatune.Error, torch.cuda.OutOfMemoryError) as error:
                print(f"left out {algorithm} at N = {n}: {str(error).splitlines()[0]}", flush=True)
                continue
            call()
            torch.cuda.synchronize()
            print(MARK, algorithm, n, config, sep="\t", flush=True)
            del call
    return 0


def command(ncu, args):
    names = "|".join(args.algorithms)
    return [ncu, "--csv", "--print-units", "base", "--metrics", ",".join((READ, WRITTEN, TIME)), "--target-processes", "all",
            "-k", f"regex:^({names})_", sys.executable, "-B", os.path.join(HERE, "bytes.py"), "--run",
            "--lengths", ",".join(map(str, args.lengths)), "--algorithms", ",".join(args.algorithms)]


def count(args):
    """Starts ncu, and reads what it says."""
    ncu = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if not ncu:
        return leave(NO_NCU)
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "ncu.csv")  # apart from what --run prints
        line = command(ncu, args)
        done = subprocess.run([line[0], "--log-file", log, *line[1:]], stdout=subprocess.PIPE, text=True, check=False)
        said = ""
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                said = file.read()
    text = done.stdout + "\n" + said
    if "ERR_NVGPUCTRPERM" in text:
        return leave(NOT_PERMITTED)
    if done.returncode != 0:
        last = "\n".join(text.strip().splitlines()[-10:])
        return leave(f"bytes.py: ncu ended with {done.returncode}:\n{last}", 3 if done.returncode == 3 else 1)
    return report(text, args.output)


def arguments():
    def lengths(text):
        given = [int(n) for n in text.split(",")]
        if any(n < 1 or TOKENS % n for n in given):
            raise argparse.ArgumentTypeError(f"lengths must divide {TOKENS}")
        return given

    def algorithms(text):
        given = text.split(",")
        if any(name not in LAUNCHES for name in given):
            raise argparse.ArgumentTypeError(f"algorithms are {', '.join(LAUNCHES)}")
        return given

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the table there too, as TSV")
    parser.add_argument("--lengths", type=lengths, default=list(LENGTHS), metavar="N,...", help="default: 512 to 16384")
    parser.add_argument("--algorithms", type=algorithms, default=list(LAUNCHES), metavar="A,...", help="default: standard,fa1,fwd")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--run", action="store_true", help="the calls alone, to be run under ncu")
    way.add_argument("--command", action="store_true", help="print how to run it under ncu, and do nothing")
    way.add_argument("--read", metavar="FILE", help="what that printed, all of it")
    return parser.parse_args()


def main():
    args = arguments()
    if args.run:
        return run(args.lengths, args.algorithms)
    if args.command:
        print(shlex.join(command("ncu", args)))
        return 0
    if args.read:
        try:
            with open(args.read, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError as error:
            return leave(f"bytes.py: {error}", 1)
        return leave(NOT_PERMITTED) if "ERR_NVGPUCTRPERM" in text else report(text, args.output)
    return count(args)


if __name__ == "__main__":
    sys.exit(main())
