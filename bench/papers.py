"""papers.py -- the tables and figures of the FlashAttention papers, from runs of one's own. Each is a command:

    python3 bench/papers.py io        # GFLOP, device memory moved, ms: standard against flash, forward and backward (needs ncu)
    python3 bench/papers.py blocks    # runtime by block size: every config of fa1's that a tune measured
    python3 bench/papers.py length    # runtime and memory by length, to 64k, beside PyTorch
    python3 bench/papers.py sparsity  # runtime by density of a block mask, beside dense calls and FlexAttention (needs PyTorch)
    python3 bench/papers.py all       # tunes the blocks, then all of them

Data (.json, .tsv) and pictures (.svg) go to bench/results, or to --out; every number is measured, memory too. FATUNE_PROGRAM
names the program (else build/fatune). IO is of GPT-2 medium's shape: N 1024, d 64, 16 heads, batch 64. Tune before. Bytes are counted by ncu where there is one."""

import argparse
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GPT2 = {"batch_size": 64, "seq_len": 1024, "num_heads": 16, "emb_dim": 1024}
METRICS = {"dram__bytes.sum": "bytes", "gpu__time_duration.sum": "ns"}
# Of ncu's units, in bytes, and in nanoseconds.
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "nsecond": 1, "usecond": 1e3,
         "msecond": 1e6, "second": 1e9}


def program():
    return os.environ.get("FATUNE_PROGRAM") or os.path.join(HERE, "..", "build", "fatune")


def run(*command):
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            said = child.communicate()[0]
        except KeyboardInterrupt:  # the child's too: what it measured by then it writes
            child.wait()
            sys.exit("papers.py: stopped")
    if child.returncode > 1:  # 1: some row has no kernel, and says so
        sys.exit(f"papers.py: {' '.join(command)} ended with {child.returncode}")
    return said


def bench(out, given, **setting):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in setting.items()]
    run(program(), "bench", *options, *(["--quiet"] if given.quiet else []), "-o", out)
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def launches(text):
    """[(kernel, {"bytes": ..., "ns": ...})] of ncu's CSV, launch by launch."""
    rows = text[text.index('"ID"'):]
    found = {}
    for row in csv.DictReader(io.StringIO(rows)):
        if row["Metric Name"] in METRICS:
            value = float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]]
            found.setdefault((int(row["ID"]), row["Kernel Name"]), {})[METRICS[row["Metric Name"]]] = value
    return [(name, values) for (_, name), values in sorted(found.items())]


def profile(*command):
    """launches() of what the command runs, of the first three of each kernel where ncu can tell; none without an ncu that may count."""
    ncu = ["ncu", "--csv", "--target-processes", "all", "--metrics", ",".join(METRICS), "--cache-control", "none"]
    if not shutil.which("ncu"):
        return []
    for only in (["--kernel-id", ":::1|2|3"], []):
        done = subprocess.run([*ncu, *only, *command], stdout=subprocess.PIPE, text=True, check=False)
        if '"ID"' in done.stdout:
            return launches(done.stdout)
    return []


def one_call(all_):
    """The launches of one forward and one backward: of each kernel the second time it ran, the caches warm, or the only one."""
    by_name = {}
    for name, values in all_:
        if not re.search("stamp|memset", name):
            by_name.setdefault(name, []).append(values)
    return [values[min(1, len(values) - 1)] for values in by_name.values()]


def io_table(given):
    """As in the first paper: standard attention moves far more memory, though flash computes more."""
    lines = [("impl", "ms_forward", "ms_backward", "GFLOP", "GB_moved", "MiB_peak")]
    for impl in ("standard", "flash1", "flash2", "best"):
        row = bench(os.path.join(given.out, f"papers-io-{impl}.json"), given, impl=impl, **GPT2)
        calls = one_call(profile(program(), "bench", "--quiet", f"--impl={impl}", *(f"--{n.replace('_', '-')}={v}" for n, v in GPT2.items())))
        moved = sum(values["bytes"] for values in calls)
        both = row["forward_backward"]
        lines.append((impl, f"{row['forward']['time(s)'] * 1e3:.3f}", f"{row['backward']['time(s)'] * 1e3:.3f}",
                      f"{both['time(s)'] * both['FLOPS(TFLOPs/s)'] * 1e3:.1f}", f"{moved / 1e9:.2f}" if calls else "-",
                      f"{row['peak_memory_usage(MB)']:.0f}"))
    write(given, "papers-io.tsv", lines)
    if all(line[4] != "-" for line in lines[1:]):
        write(given, "papers-io.svg", bars([(line[0], float(line[4])) for line in lines[1:]], "device memory moved, forward and backward", "GB"))


def bars(lines, title, unit="ms"):
    """An SVG of labelled bars: (label, value), the fastest first."""
    most, high = max(value for _, value in lines) or 1, 18
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{40 + high * len(lines)}" font-family="sans-serif" '
             f'font-size="12"><rect width="100%" height="100%" fill="white"/><text x="10" y="20">{title}</text>']
    for place, (label, value) in enumerate(lines):
        y = 34 + high * place
        parts.append(f'<text x="10" y="{y + 12}">{label}</text><rect x="200" y="{y + 2}" width="{460 * value / most:.1f}" height="12" '
                     f'fill="#4c6ef5"/><text x="{206 + 460 * value / most:.1f}" y="{y + 12}">{value:.3g} {unit}</text>')
    return "\n".join([*parts, "</svg>", ""])


def blocks(given):
    """Of each pair of block sizes the best time that a tune measured."""
    best = {}
    trials = json.loads(run(program(), "show", "trials", "--json", "--kernel", given.kernel))
    for t in trials:
        sizes = re.match(r"\w+:Br(\d+)-Bc(\d+)", t["config"])
        if t["outcome"] == "ok" and t["origin"] == "measured" and t["ms"] and sizes and (given.problem or t["problem"]) == t["problem"]:
            key = (t["problem"], int(sizes[1]), int(sizes[2]))
            best[key] = min(best.get(key, t["ms"]), t["ms"])
    if not best:
        sys.exit(f"papers.py: no measured trial of {given.kernel} is stored: tune it first (fatune PROBLEM --kernel {given.kernel})")
    problem = given.problem or max({p for p, _, _ in best}, key=lambda p: sum(q == p for q, _, _ in best))
    found = sorted((br, bc, ms) for (p, br, bc), ms in best.items() if p == problem)
    write(given, "papers-blocks.tsv", [("problem", "Br", "Bc", "ms"), *((problem, *row) for row in found)])
    write(given, "papers-blocks.svg", bars([(f"Br {br}, Bc {bc}", ms) for br, bc, ms in sorted(found, key=lambda f: f[2])], problem))


def length(given):
    """Sixteen heads of 64 as in the paper; the batch is 1, so that standard attention's matrices fit for longest."""
    bench(os.path.join(given.out, "papers-length.json"), given, batch_size=1, num_heads=16, emb_dim=1024, causal="no,yes",
          seq_len=given.lengths, impl="standard,flash1,flash2,best" + ("" if given.alone else ",pytorch"))


def every(given):
    given.problem = given.problem or "fwd-f16-b64-h16-q1024-k1024-d64"
    run(program(), "tune", given.problem, "--kernel", given.kernel, "--budget", given.budget, *(["--quiet"] if given.quiet else []))
    for figure in (io_table, blocks, length):
        figure(given)
    try:
        import torch
        sees = torch.cuda.is_available()
    except ImportError:
        sees = False
    if sees:
        sparsity(given)
    else:
        print("sparsity is left out: it needs a PyTorch that sees the GPU", file=sys.stderr)


def sparsity(given):
    import papers_sparsity
    rows = papers_sparsity.measured([int(n) for n in given.sparse.split(",")], (64, 128), alone=given.alone, block=given.block)
    names = ("op", "n", "d", "density", "there", "ms_dense", "ms", "over_dense", "ms_flex")
    write(given, "papers-sparsity.tsv", [names, *((*row[:4], *(x if x == "" else f"{x:.4f}" for x in row[4:])) for row in rows)])
    write(given, "papers-sparsity.svg", papers_sparsity.picture(rows))


def write(given, name, what):
    path = os.path.join(given.out, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(what if isinstance(what, str) else "".join("\t".join(map(str, line)) + "\n" for line in what))
    print(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("io", "blocks", "length", "sparsity", "all"))
    parser.add_argument("--out", default=os.path.join(HERE, "results"), help="the folder for tables and charts (bench/results)")
    parser.add_argument("--kernel", default="fa1", help="blocks: whose block sizes")
    parser.add_argument("--problem", help="blocks: of this one; else that with the most")
    parser.add_argument("--budget", default="20s", help="all: of the tune")
    parser.add_argument("--lengths", default="512:65536", help="length: as --seq-len takes them")
    parser.add_argument("--alone", action="store_true", help="length, sparsity: without others")
    parser.add_argument("--sparse", default="4096,16384", help="sparsity: lengths")
    parser.add_argument("--block", type=int, default=128, help="sparsity: rows and keys of a block (128)")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    {"io": io_table, "blocks": blocks, "length": length, "sparsity": sparsity, "all": every}[given.what](given)


if __name__ == "__main__":
    main()
