"""peers_table.py -- the pure half of the benchmark beside peers: shapes, counts, ratios, tables, files, plot.

A row is {"cell": {...}, "peers": {name: {"ms": ..., ...}}, "absent": {name: reason}}; times are milliseconds of one
call. A ratio is peer's time / our time: above 1 we are faster. Standard library only; nothing here touches a GPU.
"""

import json
import math
import os
import statistics

OURS = "fatune"
BEFORE = "before"  # fatune as an earlier build has it
PROXY = "proxy:"  # before the name of the GPU whose kernels run as a proxy
NAMES = {OURS: "fatune", BEFORE: "fatune before", "cudnn": "cuDNN", "fa2": "FlashAttention-2", "memeff": "mem-efficient", "flex": "FlexAttention",
         "math": "plain PyTorch", "fa3": "FlashAttention-3", "fa4": "FlashAttention-4", "flashinfer": "FlashInfer"}
SHORT = {"cudnn": "cuDNN", "fa2": "FA2", "memeff": "mem-eff", "flex": "Flex", "math": "PyTorch", "fa3": "FA3", "fa4": "FA4"}
HALVES = ("bf16", "f16")
SINGLES = ("f32", "tf32", "f32x3")  # of f32 tensors
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
WINDOWS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)  # keys that a row sees, its own with them
TOKENS, WIDTH = 16384, 2048  # b * n and h * d of the grid; where d does not divide it, as many heads as fit
SMALL = (  # b h n d causal
    (1, 8, 128, 64, False), (1, 32, 128, 128, True), (1, 32, 512, 128, True), (8, 12, 128, 64, False),
    (32, 12, 512, 64, False), (1, 32, 1024, 128, True), (1, 32, 2048, 128, True), (1, 8, 4096, 40, False),
    (2, 10, 4096, 64, False), (1, 24, 4608, 128, False), (2, 16, 1024, 80, False), (2, 16, 1024, 96, True),
    (2, 16, 4096, 192, True))


# -- cells

def cell(kind, dtype, b, h, n, d, causal):
    return {"set": kind, "dtype": dtype, "b": b, "h": h, "n": n, "d": d, "causal": bool(causal)}


def grid(dtypes, dims, masks, lengths):
    """The protocol of the FlashAttention papers: the same tokens and the same width in every cell."""
    return [cell("grid", t, max(1, TOKENS // n), max(1, WIDTH // d), n, d, c)
            for t in dtypes for d in dims for c in masks for n in lengths]


def small(dtypes):
    return [cell("small", t, *shape) for t in dtypes for shape in SMALL]


def window(dtypes, dims, n=8192):
    """Causal windows of one length, and the causal mask alone there and at a quarter of it."""
    plain = [cell("window", t, TOKENS // m, WIDTH // d, m, d, True) for t in dtypes for d in dims for m in (n // 4, n)]
    return plain + [{**cell("window", t, TOKENS // n, WIDTH // d, n, d, True), "keys": keys}
                    for t in dtypes for d in dims for keys in WINDOWS]


def flop(c):
    """Operations of a forward call: two products of n x n x d for each head; a causal mask halves them, of a window those
    pairs count that it leaves."""
    n, keys = c["n"], min(c.get("keys", c["n"]), c["n"])
    if keys < n:
        return 4 * c["b"] * c["h"] * (keys * (keys + 1) // 2 + (n - keys) * keys) * c["d"]
    return 4 * c["b"] * c["h"] * n ** 2 * c["d"] // (2 if c["causal"] else 1)


def tflops(c, ms):
    return flop(c) / ms * 1e-9


def label(c):
    return f"{c['dtype']} b{c['b']} h{c['h']} n{c['n']} d{c['d']} {'causal' if c['causal'] else 'full'}" + (
        f" window {c['keys']}" if "keys" in c else "")


def geomean(values):
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


# -- FlashAttention-3 where it does not run

def read_ratios(path):
    """{(d, causal, n): time of cuDNN / time of FlashAttention-3}, as measured side by side once."""
    with open(path, encoding="ascii") as file:
        lines = [line.split("\t") for line in file.read().splitlines() if line and not line.startswith("#")]
    column = {name: i for i, name in enumerate(lines[0])}
    return {(int(f[column["d"]]), f[column["causal"]] == "1", int(f[column["n"]])): float(f[column["ratio"]])
            for f in lines[1:]}


def derive(row, ratios):
    """Adds FlashAttention-3's time where only cuDNN's is known; marked, so that no table passes it for a measurement."""
    c, peers = row["cell"], row["peers"]
    ratio = ratios.get((c["d"], c["causal"], c["n"]))
    if c["set"] != "grid" or c["dtype"] not in HALVES or "fa3" in peers or "cudnn" not in peers or not ratio:
        return
    note = f"derived: cuDNN / {ratio:.3f}" + ("" if c["dtype"] == "bf16" else ", the ratio of bf16")
    ms = peers["cudnn"]["ms"] / ratio
    peers["fa3"] = {"ms": ms, "tflops": tflops(c, ms), "derived": True, "note": note}
    row["absent"].pop("fa3", None)


# -- comparisons

def names_in(rows):
    """Everyone with a time, in the order of NAMES, then other kernels of ours."""
    found = dict.fromkeys(name for r in rows for name in r["peers"])
    return [n for n in NAMES if n in found] + [n for n in found if n not in NAMES]


def shown(name):
    return NAMES.get(name, name[len(PROXY):] + "'s kernels (proxy)" if name.startswith(PROXY) else name)


def ratio(row, peer):
    """How many times faster than a peer; None where one of the two has no time."""
    peers = row["peers"]
    return peers[peer]["ms"] / peers[OURS]["ms"] if peer in peers and OURS in peers else None


def bar_names(c):
    """Whom a cell is held against."""
    if c["set"] in ("small", "window"):
        return [name for name in NAMES if name not in (OURS, BEFORE)]
    return ["cudnn", "fa3"] if c["dtype"] in HALVES else ["memeff", "math"]


def bar(row):
    """(name, ratio) of the fastest of the peers that a cell is held against."""
    found = [(row["peers"][name]["ms"], name) for name in bar_names(row["cell"]) if name in row["peers"]]
    if not found or OURS not in row["peers"]:
        return None, None
    return min(found)[1], min(found)[0] / row["peers"][OURS]["ms"]


def beside(rows, mine):
    """How many times as fast `mine` is as each other: the mean, over how many cells, and the least with its cell."""
    ratios = {peer: [(r["peers"][peer]["ms"] / r["peers"][mine]["ms"], label(r["cell"])) for r in rows
                     if peer in r["peers"] and mine in r["peers"]] for peer in names_in(rows) if peer != mine}
    ratios = {peer: of for peer, of in ratios.items() if of}
    return {"geomean": {peer: geomean(v for v, _ in of) for peer, of in ratios.items()},
            "geomean_cells": {peer: len(of) for peer, of in ratios.items()},
            "least": {peer: min(of) for peer, of in ratios.items()}}


def summary(rows, dtype, cublas=None):
    """Figures of one dtype's grid."""
    rows = [r for r in rows if r["cell"]["set"] == "grid" and r["cell"]["dtype"] == dtype]
    bars = [(bar(r)[1], r) for r in rows if bar(r)[1]]
    longest = max((r["cell"]["n"] for r in rows), default=0)
    shares = {f"d{r['cell']['d']} {'causal' if r['cell']['causal'] else 'full'}": r["peers"][OURS]["tflops"] / cublas
              for r in rows if r["cell"]["n"] == longest and OURS in r["peers"]} if cublas else {}
    return {"dtype": dtype, "cells": len(rows), "without_ours": sum(1 for r in rows if OURS not in r["peers"]),
            "held_against": bar_names({"set": "grid", "dtype": dtype}), **beside(rows, OURS),
            "geomean_bar": geomean(v for v, _ in bars), "bar_cells": len(bars),
            "below_1": sum(1 for v, _ in bars if v < 1), "below_0.95": sum(1 for v, _ in bars if v < 0.95),
            "worst": [{"cell": label(r["cell"]), "ratio": v} for v, r in sorted(bars, key=lambda p: p[0])[:3]],
            "length_of_shares": longest, "share_of_cublas": shares,
            "error_of_pytorch": {name: largest(*[r["peers"][name]["error"] / r["error_pytorch"] for r in rows
                                            if "error" in r["peers"].get(name, {}) and r["error_pytorch"] > 0] or [0.0])
                                 for name in names_in(rows)},
            "errors_above_twice_pytorch": sum(1 for r in rows if is_inaccurate(r))}


def is_inaccurate(row, name=OURS):
    """FlashAttention's rule: at most twice the error of PyTorch in the same dtype. For halves only: tf32 is another
    arithmetic, and single precision has no dtype to be compared in."""
    ours = row["peers"].get(name, {})
    if row["cell"]["dtype"] not in HALVES or "error" not in ours or "error_pytorch" not in row:
        return False
    return not ours["error"] <= 2 * row["error_pytorch"] + 1e-5  # NaN is an error too


def summaries(rows, cublas=None):
    dtypes = []
    for r in rows:
        if r["cell"]["set"] == "grid" and r["cell"]["dtype"] not in dtypes:
            dtypes.append(r["cell"]["dtype"])
    return [summary(rows, t, cublas if t in HALVES else None) for t in dtypes]


def proxies(rows):
    """For each proxy and dtype of the grid: its speed beside all others, their time / its time."""
    found = []
    for name in (n for n in names_in(rows) if n.startswith(PROXY)):
        for dtype in dict.fromkeys(r["cell"]["dtype"] for r in rows if r["cell"]["set"] == "grid"):
            mine = [r for r in rows if r["cell"]["set"] == "grid" and r["cell"]["dtype"] == dtype and name in r["peers"]]
            if mine:
                found.append({"proxy": name, "dtype": dtype, "cells": len(mine), "wrong": sum(is_inaccurate(r, name) for r in mine),
                              **beside(mine, name)})
    return found


def half_against_half(rows):
    """Geometric mean of our time in bf16 / our time in f16 over the cells that have both."""
    times = {}
    for r in rows:
        if OURS in r["peers"]:
            c = dict(r["cell"])
            times.setdefault(c.pop("dtype"), {})[tuple(c.values())] = r["peers"][OURS]["ms"]
    both = [(ms, times["f16"][key]) for key, ms in times.get("bf16", {}).items() if key in times.get("f16", {})]
    return geomean(b / f for b, f in both)


# -- text

def _fixed(value, form, width):
    return ("-" if value is None else format(value, form)).rjust(width)


def grid_table(rows, dtype):
    """Our TFLOP/s and the ratio to the bar: one line for a head dimension and mask, one column for a length."""
    cells = {(r["cell"]["d"], r["cell"]["causal"], r["cell"]["n"]): r for r in rows
             if r["cell"]["set"] == "grid" and r["cell"]["dtype"] == dtype}
    lengths = sorted({key[2] for key in cells})
    who = " and ".join(NAMES[n] for n in bar_names({"set": "grid", "dtype": dtype}))
    lines = [f"{dtype}, {TOKENS} tokens, h*d = {WIDTH}: TFLOP/s, and times the speed of the faster of {who}",
             "N".ljust(12) + "".join(str(n).rjust(12) for n in lengths)]
    for d, causal in sorted({key[:2] for key in cells}):
        line = f"d{d} {'causal' if causal else 'full'}".ljust(12)
        for n in lengths:
            r = cells.get((d, causal, n))
            name, value = bar(r) if r else (None, None)
            mark = "*" if name and r["peers"][name].get("derived") else " "
            line += _fixed(r and r["peers"].get(OURS, {}).get("tflops"), ".0f" if dtype in HALVES else ".1f", 6)
            line += _fixed(value, ".2f", 5) + mark
        lines.append(line.rstrip())
    return lines


def small_table(rows, dtype):
    """Microseconds of the shapes inside a CUDA graph."""
    rows = [r for r in rows if r["cell"]["set"] == "small" and r["cell"]["dtype"] == dtype]
    peers = names_in(rows)
    lines = [f"{dtype}, inside a CUDA graph: microseconds, and our time / the best peer's",
             "b h n d mask".ljust(22) + "".join(SHORT.get(p, p.split(":")[-1])[:10].rjust(11) for p in peers) + "ours/best".rjust(11)]
    over = counted = 0
    for r in rows:
        c = r["cell"]
        value = bar(r)[1]
        counted += value is not None
        over += value is not None and 1 / value > 1.02
        line = f"{c['b']} {c['h']} {c['n']} {c['d']} {'causal' if c['causal'] else 'full'}".ljust(22)
        line += "".join(_fixed(r["peers"][p]["ms"] * 1e3 if p in r["peers"] else None, ".1f", 11) for p in peers)
        lines.append(line + _fixed(1 / value if value else None, ".2f", 11) + (" WRONG" if is_inaccurate(r) else ""))
    lines.append(f"above 1.02: {over} of {counted}")
    return lines


def window_table(rows, dtype):
    """TFLOP/s and milliseconds of causal windows, by the operations that they leave."""
    rows = [r for r in rows if r["cell"]["set"] == "window" and r["cell"]["dtype"] == dtype]
    peers = names_in(rows)
    lines = [f"{dtype}, causal windows: TFLOP/s by the operations that they leave, and our milliseconds",
             "n d keys".ljust(22) + "".join(SHORT.get(p, p.split(":")[-1])[:10].rjust(11) for p in peers) + "ms".rjust(11)]
    for r in rows:
        c = r["cell"]
        line = f"{c['n']} {c['d']} {c.get('keys', 'all')}".ljust(22)
        line += "".join(_fixed(r["peers"][p]["tflops"] if p in r["peers"] else None, ".0f", 11) for p in peers)
        ours = r["peers"].get(OURS, {}).get("ms")
        lines.append(line + _fixed(ours, ".4f", 11) + (" WRONG" if is_inaccurate(r) else ""))
    return lines


def means_text(s, names):
    return ", ".join(f"{v:.3f} x {names[p]}" + (f" ({s['geomean_cells'][p]} cells)" if s["geomean_cells"][p] < s["cells"] else "")
                     for p, v in s["geomean"].items()) or "nothing to compare"


def summary_lines(s):
    names = {p: shown(p) + ("*" if p == "fa3" and s.get("fa3_derived") else "") for p in s["geomean"]}
    lines = [f"{s['dtype']} geometric means over {s['cells']} cells: {means_text(s, names)}"]
    if s["least"]:
        lines.append("  least: " + ", ".join(f"{v:.2f} x {names[p]} ({cell})" for p, (v, cell) in s["least"].items()))
    if s["without_ours"]:
        lines.append(f"  {s['without_ours']} cells that fatune has no time for")
    if s["geomean_bar"]:
        lines.append(f"  {s['geomean_bar']:.3f} x the faster of {' and '.join(NAMES[n] for n in s['held_against'])}; "
                     f"{s['below_1']} of {s['bar_cells']} cells below 1, {s['below_0.95']} below 0.95; least: "
                     + ", ".join(f"{w['ratio']:.2f} ({w['cell']})" for w in s["worst"]))
    if s["share_of_cublas"]:
        lines.append(f"  share of cuBLAS at N = {s['length_of_shares']}: "
                     + ", ".join(f"{k} {v:.2f}" for k, v in s["share_of_cublas"].items()))
    errors = ", ".join(f"{shown(n)} {v:.2f}" for n, v in s["error_of_pytorch"].items() if v)
    if errors:
        lines.append(f"  largest error as a multiple of plain PyTorch's in the same dtype: {errors}")
    if s["errors_above_twice_pytorch"]:
        lines.append(f"  WRONG: {s['errors_above_twice_pytorch']} cells with more than twice PyTorch's error")
    return lines


def proxy_lines(s, gpu):
    """What a proxy is, before what it did."""
    return [f"PROXY, {s['dtype']}: the {s['proxy'][len(PROXY):]}'s kernels as PTX that the driver compiled for the {gpu}; the "
            f"{s['proxy'][len(PROXY):]}'s own machine code and speed are not seen",
            f"  geometric means over {s['cells']} cells: {means_text(s, {p: shown(p) for p in s['geomean']})}"] + [
            f"  least: {v:.2f} x {shown(p)} ({cell})" for p, (v, cell) in s["least"].items() if p in ("memeff", "fa2")] + (
            [f"  WRONG: {s['wrong']} cells with more than twice PyTorch's error"] if s["wrong"] else [])


def report(rows, facts, absent):
    """What stdout gets, the most important last."""
    lines = [" | ".join(f"{k} {facts[k]}" for k in ("gpu", "driver", "cuda", "torch", "cudnn", "fatune", "commit", "date")
                        if facts.get(k)), ""]
    lines += [f"absent: {shown(name)}: {why}" for name, why in absent.items()]
    failed = {}
    for r in rows:
        for name, why in r["absent"].items():
            if name not in absent:
                failed.setdefault((name, why), []).append(label(r["cell"]))
    lines += [f"no time: {shown(n)} in {len(c)} cells, first {c[0]}: {why}" for (n, why), c in failed.items()]
    all_of = summaries(rows, facts.get("cublas_tflops"))
    for s in all_of:
        lines += [""] + grid_table(rows, s["dtype"])
    for dtype in dict.fromkeys(r["cell"]["dtype"] for r in rows if r["cell"]["set"] == "small"):
        lines += [""] + small_table(rows, dtype)
    for dtype in dict.fromkeys(r["cell"]["dtype"] for r in rows if r["cell"]["set"] == "window"):
        lines += [""] + window_table(rows, dtype)
    lines.append("")
    if facts.get("cublas_tflops"):
        lines.append(f"cuBLAS bf16 8192^3 {facts['cublas_tflops']:.0f} TFLOP/s, device copy {facts['copy_gbs']:.0f} GB/s, "
                     f"SM clock {facts.get('clock') or '-'} MHz (median under load), {facts.get('watts') or '-'} W")
    derived = any(r["peers"].get("fa3", {}).get("derived") for r in rows)
    if derived:
        lines.append("* FlashAttention-3 did not run: its time is cuDNN's of this run over a ratio measured before (bf16)")
    for s in all_of:
        lines += summary_lines({**s, "fa3_derived": derived})
    for s in proxies(rows):
        lines += proxy_lines(s, facts.get("gpu", "GPU at hand"))
    both = half_against_half(rows)
    if both:
        lines.append(f"f16 is {both:.3f} x as fast as bf16 (fatune, geometric mean of the cells with both)")
    return lines


# -- files

COLUMNS = ("set", "dtype", "b", "h", "n", "d", "causal", "keys", "peer", "ms", "ms_low", "ms_high", "tflops", "fatune_ratio", "error",
           "error_pytorch", "clock", "watts", "derived", "kernel", "note")


def tsv(rows):
    """One line for each cell and peer; a peer without a time has the reason in its note."""
    def text(v):
        if isinstance(v, bool):
            return str(int(v))
        return f"{v:.6g}" if isinstance(v, float) else "" if v is None else str(v).replace("\t", " ").replace("\n", " ")
    lines = ["\t".join(COLUMNS)]
    for r in rows:
        for name, p in list(r["peers"].items()) + [(n, {"note": why}) for n, why in r["absent"].items()]:
            of = {**r["cell"], **p, "peer": name, "fatune_ratio": ratio(r, name),
                  "error_pytorch": r.get("error_pytorch") if "error" in p else None}
            lines.append("\t".join(text(of.get(column)) for column in COLUMNS))
    return "\n".join(lines) + "\n"


def save(folder, name, rows, facts, absent):
    """Writes NAME.tsv, NAME.json, NAME.svg and NAME.txt."""
    os.makedirs(folder, exist_ok=True)
    whole = {"facts": facts, "absent": absent, "summaries": summaries(rows, facts.get("cublas_tflops")),
             "proxies": proxies(rows), "rows": rows}
    for end, content in (("tsv", tsv(rows)), ("json", json.dumps(whole, indent=1) + "\n"), ("svg", svg(rows, facts)),
                         ("txt", "\n".join(report(rows, facts, absent)) + "\n")):
        with open(os.path.join(folder, f"{name}.{end}"), "w", encoding="utf-8") as file:
            file.write(content)


# -- plot

COLOURS = {"bar": "#c0392b", "cudnn": "#1f77b4", "fa2": "#2ca02c", "memeff": "#8c8c8c", "flex": "#9467bd"}
LEFT, RIGHT, PANEL, GAP, TOP, BOTTOM = 56, 16, 230, 18, 64, 40
STEP = 15  # pixels from cell to cell
TICKS = (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2, 3, 4, 6)


def escape(text):
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _panel(rows, dtype, top):
    """One dtype: a mark for each cell and peer over a logarithmic axis of ratios."""
    series = {"bar": [bar(r)[1] for r in rows]}
    series.update({p: [ratio(r, p) for r in rows] for p in COLOURS if p != "bar" and any(ratio(r, p) for r in rows)})
    values = [v for vs in series.values() for v in vs if v]
    low, high = min([0.8] + values) * 0.95, max([1.3] + values) * 1.05

    def y(v):
        return top + PANEL * (1 - math.log(v / low) / math.log(high / low))
    def x(i):
        return LEFT + STEP * (i + rows[i]["group"] + 0.5)
    out, right = [], LEFT + STEP * (len(rows) + rows[-1]["group"])
    for tick in TICKS:
        if low <= tick <= high:
            out.append(f'<line x1="{LEFT}" y1="{y(tick):.1f}" x2="{right}" y2="{y(tick):.1f}" '
                       f'stroke="{"#333" if tick == 1 else "#ddd"}"/>'
                       f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for group in dict.fromkeys(r["group"] for r in rows):
        of = [i for i, r in enumerate(rows) if r["group"] == group]
        c = rows[of[0]]["cell"]
        out.append(f'<text x="{(x(of[0]) + x(of[-1])) / 2:.1f}" y="{top + PANEL + 30}" text-anchor="middle">'
                   f'd{c["d"]} {"causal" if c["causal"] else "full"}</text>')
        for i in of:
            n = rows[i]["cell"]["n"]
            out.append(f'<text x="{x(i):.1f}" y="{top + PANEL + 14}" text-anchor="middle" font-size="8">'
                       f'{f"{n // 1024}k" if n >= 1024 else n}</text>')
    for name, of in reversed(series.items()):
        for i, v in enumerate(of):
            if v:
                out.append(f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="{4 if name == "bar" else 3}" fill="{COLOURS[name]}">'
                           f"<title>{escape(label(rows[i]['cell']))}: {v:.3f}</title></circle>")
    legend, at = "", LEFT
    for name, of in series.items():
        what = "faster of " + ", ".join(NAMES[n] for n in bar_names(rows[0]["cell"])) if name == "bar" else NAMES[name]
        mean = geomean(v for v in of if v)
        if mean:
            text = f"{what}: {mean:.2f}"
            legend += (f'<circle cx="{at + 4}" cy="{top - 12}" r="4" fill="{COLOURS[name]}"/>'
                       f'<text x="{at + 12}" y="{top - 8}">{escape(text)}</text>')
            at += 26 + 6.2 * len(text)
    return out + [f'<text x="{LEFT}" y="{top - 26}" font-weight="bold">{dtype}: times the speed of (geometric mean)</text>',
                  legend], max(right, at)


def svg(rows, facts):
    """The grid's ratios, one panel a dtype. Red: the faster of the peers that the cell is held against."""
    out, top, width = [], TOP + 24, 640
    for dtype in dict.fromkeys(r["cell"]["dtype"] for r in rows if r["cell"]["set"] == "grid"):
        mine = sorted((r for r in rows if r["cell"]["set"] == "grid" and r["cell"]["dtype"] == dtype and bar(r)[1]),
                      key=lambda r: (r["cell"]["d"], r["cell"]["causal"], r["cell"]["n"]))
        groups = list(dict.fromkeys((r["cell"]["d"], r["cell"]["causal"]) for r in mine))
        mine = [{**r, "group": groups.index((r["cell"]["d"], r["cell"]["causal"]))} for r in mine]
        if mine:
            panel, right = _panel(mine, dtype, top)
            out += panel
            width = max(width, right + RIGHT)
            top += PANEL + GAP + BOTTOM + 44
    derived = any(r["peers"].get("fa3", {}).get("derived") for r in rows)
    title = f"Attention forward, fatune beside its peers: {facts.get('gpu', '?')}, {facts.get('date', '?')}"
    under = "FlashAttention-3 derived from cuDNN of the same run" if derived else ""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}" font-family="sans-serif" '
            f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
            f'<text x="{LEFT}" y="22" font-size="14">{escape(title)}</text>\n'
            f'<text x="{LEFT}" y="40">{escape(under)}</text>\n' + "\n".join(out) + "\n</svg>\n")


def largest(*errors):
    """The maximum; NaN, the worst of errors, where there is one."""
    return math.nan if any(math.isnan(e) for e in errors) else max(errors)


def median(values):
    return statistics.median(values)
