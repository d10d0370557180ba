"""peers_text.py -- what the benchmark beside peers prints: tables of cells, the kinds of data, the figures that hold.

Of two runs a table shows the one that is worse for us: our lesser rate, the lesser ratio. A line of a kind names both.
"""

import peers_data as data
import peers_rules as rules
import peers_table as table
from peers_cells import HALVES, OP_NAMES, SINGLES, TOKENS, WIDTH, heads_of, is_grid, is_models, label, op_of_set, rows_of
from peers_table import OURS, PROXY, SHORT, shown

NAMED = 12  # of a list of cells, but for those below 1.0, which are all named
FACTS = ("gpu", "driver", "cuda", "torch", "cudnn", "fatune", "commit", "date", "seed")


def fixed(value, form, width):
    return ("-" if value is None else format(value, form)).rjust(width)


def short(name):
    return SHORT.get(name, name.split(":")[-1])[:10].rjust(11)


def both(by_run, form=".3f"):
    """1.074 and 1.081"""
    return " and ".join(format(v, form) for v in by_run.values())


def some(names):
    names = list(names)
    return "; ".join(names[:NAMED]) + (f"; and {len(names) - NAMED} more" if len(names) > NAMED else "")


def without_dtype(name):
    return name.split(" ", 1)[1]


# -- tables of cells

def of_peer(name, field, times=1.0):
    """A function of a row: the field of a peer."""
    def value(row):
        found = row["peers"].get(name, {}).get(field)
        return None if found is None else found * times
    return value


def of_op(kind):
    """What stands behind a dtype, where it is not the forward."""
    return "" if op_of_set(kind) == "fwd" else ", " + OP_NAMES[op_of_set(kind)]


def grid_table(rows, dtype, kind="grid"):
    """Our TFLOP/s and the ratio to the fastest peer: one line for a head dimension and mask, one column for a length."""
    of = table.by_cell(table.pick(rows, kind, dtype, "normal"))
    cells = {(c["d"], c["causal"], c["n"]): some for c, some in of}
    lengths = sorted({key[2] for key in cells})
    lines = [f"{dtype}{of_op(kind)}, normal data, {TOKENS} tokens, h*d = {WIDTH}: TFLOP/s, and times the speed of the fastest peer "
             "there",
             "N".ljust(12) + "".join(str(n).rjust(12) for n in lengths)]
    for d, causal in sorted({key[:2] for key in cells}):
        line = f"d{d} {'causal' if causal else 'full'}".ljust(12)
        for n in lengths:
            found = cells.get((d, causal, n), [])
            line += fixed(table.least(found, of_peer(OURS, "tflops")), ".0f" if dtype in HALVES else ".1f", 6)
            line += fixed(table.least(found, lambda r: table.bar(r)[1]), ".2f", 6)
        lines.append(line.rstrip())
    return lines


def cell_table(rows, dtype, head, columns, field, times, form, last):
    """One line a cell: what `columns` say of it, a field of each peer, and `last`, a function of our rows."""
    peers, lines = table.names_in(rows), [f"{dtype}, {head}"]
    width = 2 + max(len(" ".join(str(v) for v in columns(r["cell"]))) for r in rows)
    lines.append(" " * width + "".join(short(p) for p in peers) + last[0].rjust(11))
    for c, found in table.by_cell(rows):
        line = " ".join(str(v) for v in columns(c)).ljust(width)
        worse = max if field == "ms" else min
        for p in peers:
            values = [of_peer(p, field, times)(r) for r in found]
            line += fixed(None if None in values else (worse if p == OURS else min if field == "ms" else max)(values), form, 11)
        lines.append(line + last[1](found) + (" WRONG" if any(table.is_inaccurate(r) for r in found) else ""))
    return lines


def over_best(found):
    """Our time / the best peer's, the worse of the runs."""
    value = table.least(found, lambda r: table.bar(r)[1])
    return fixed(1 / value if value else None, ".2f", 11)


def our_ms(found):
    return fixed(max((r["peers"][OURS]["ms"] for r in found if OURS in r["peers"]), default=None), ".4f", 11)


def small_columns(c):
    heads = f"{c['h']}" + (f"/{heads_of(c)}" if "hk" in c else "")
    rows = f"{rows_of(c)}x{c['n']}" if "q" in c else c["n"]
    return c["b"], heads, rows, c["d"], "causal" if c["causal"] else "full"


def tables(rows, kind, dtype):
    """The lines of a set on normal data."""
    found = table.pick(rows, kind, dtype, "normal")
    if not found:
        return []
    if is_grid(kind):
        return grid_table(rows, dtype, kind)
    if is_models(kind):
        return cell_table(found, dtype, f"calls of models{of_op(kind)} (b h n d mask): milliseconds, and our time / the best peer's",
                          lambda c: (*small_columns(c), f"({c['model']})"), "ms", 1, ".4f", ("ours/best", over_best))
    if kind == "small":
        return cell_table(found, dtype, "inside a CUDA graph (b h n d mask): microseconds, and our time / the best peer's",
                          small_columns, "ms", 1e3, ".1f", ("ours/best", over_best))
    if kind == "decode":
        return cell_table(found, dtype, "one row of Q, 32 heads on 8, d 128 (b n): GB/s of K and V, in turns beyond L2, inside a "
                          "CUDA graph, and our time / the best peer's", lambda c: (c["b"], c["n"]), "gbs", 1, ".0f",
                          ("ours/best", over_best))
    return cell_table(found, dtype, "causal windows (n d keys): TFLOP/s by the operations that they leave, and our milliseconds",
                      lambda c: (c["n"], c["d"], c.get("keys", "all")), "tflops", 1, ".0f",
                      ("ms", our_ms))


# -- kinds of data

def kinds_table(of):
    """One line a kind, the worst first; of each run the geometric mean, the least cell and how many are below."""
    lines = ["data".ljust(9) + "geometric mean".rjust(16) + "least cell".rjust(14) + "below 1.0".rjust(12) + "cells".rjust(7)
             + "  RMS / cuDNN's: mean, worst"]
    for s in of:
        counts = [sum(run in values for values in s["below"].values()) for run in s["geomean"]]
        e = s["errors"]
        lines.append(s["data"].ljust(9) + "  ".join(format(v, ".3f") for v in s["geomean"].values()).rjust(16)
                     + "  ".join(format(v, ".2f") for v, _ in s["least"].values()).rjust(14)
                     + "  ".join(map(str, counts)).rjust(12) + str(s["cells"]).rjust(7)
                     + (f"  {e['rms']:.2f}, {e['worst_rms'][0]:.2f}" if e else "  -"))
    return lines


def means(of, cells):
    """Of each peer the geometric mean that every run has at least."""
    return ", ".join(f"{min(b['geomean'].values()):.3f} x {shown(p)}"
                     + (f" ({b['cells']} cells)" if b["cells"] < cells else "") for p, b in of.items()) or "nothing to compare"


def kind_lines(s):
    """A kind of data in full: figures of each run, cells by name, and what holds."""
    lines = [f"{s['data']} ({data.KINDS[s['data']]}), {s['cells']} cells, run {' and '.join(map(str, s['runs']))}"]
    if s["geomean"]:
        lines += [f"  against the fastest peer of each cell: geometric mean {both(s['geomean'])}; least "
                  + ", ".join(f"{v:.3f} ({without_dtype(name)})" for v, name in s["least"].values())
                  + "; the fastest: " + ", ".join(f"{shown(n)} {count}" for n, count in s["fastest"].items())]
        if s["set"] in ("small", "decode") or is_models(s["set"]):
            lines.append("  our time / the fastest peer's: median " + both({r: 1 / v for r, v in s["median"].items()}, ".2f")
                         + "; worst " + ", ".join(f"{1 / v:.2f} ({without_dtype(name)})" for v, name in s["least"].values()))
        lines.append(f"  no cell below 1.0: {rules.verdict(s['ahead'])}" + (": " if s["below"] else "")
                     + "; ".join(f"{without_dtype(name)} " + both(v, ".3f") for name, v in s["below"].items()))
    if s["missing"]:
        lines.append(f"  {len(s['missing'])} cells that fatune has no time for in some run: "
                     + some(map(without_dtype, s["missing"])))
    lines.append(f"  in every run at least {means(s['beside'], s['cells'])}")
    lines += ["  least: " + ", ".join(f"{b['least'][0]:.2f} x {shown(p)} ({without_dtype(b['least'][1])})"
                                      for p, b in s["beside"].items())] if s["beside"] else []
    if s["deterministic"]:
        lines.append(f"  deterministic, in every run at least {means(s['deterministic'], s['cells'])}; least "
                     + ", ".join(f"{b['least'][0]:.2f} x {shown(p)} ({without_dtype(b['least'][1])})"
                                 for p, b in s["deterministic"].items()))
    e = s["errors"]
    if e:
        lines.append(f"  errors against double, ours / cuDNN's: RMS {e['rms']:.2f} in the mean, {e['worst_rms'][0]:.2f} at most "
                     f"({without_dtype(e['worst_rms'][1])}); largest {e['largest']:.2f} in the mean, "
                     f"{e['worst_largest'][0]:.2f} at most ({without_dtype(e['worst_largest'][1])})")
        lines.append(f"  RMS at most {rules.RMS_MOST} x: {rules.verdict(e['holds'])}" + (": " if e["above"] else "")
                     + some(map(without_dtype, e["above"])))
    if s["of_pytorch"] is not None:
        lines.append(f"  largest error at most {s['of_pytorch']:.2f} of plain PyTorch's in the same dtype"
                     + (f", RMS {s['rms_of_pytorch']:.2f}, of the gradient that is worst in it" if s["rms_of_pytorch"] else ""))
    if s["unsettled"]:
        lines.append(f"  did not settle within {rules.WARM_MOST} rounds: " + some(s["unsettled"]))
    if s["wrong"]:
        lines.append(f"  WRONG: {len(s['wrong'])} results with more than twice PyTorch's error: "
                     + some(map(without_dtype, s["wrong"])))
    return lines


def kept(rows, dtype):
    """What each kind really has, of the dimensions of the rows; nothing where data are normal alone."""
    dims, kinds = sorted({r["cell"]["d"] for r in rows}), [k for k in data.KINDS if k in table.distinct(rows, "data")]
    return [f"{kind} as {dtype} holds it: " + ", ".join(f"d{d} {data.really(kind, dtype, d)}" for d in dims)
            for kind in kinds if kind not in ("normal", "wide")]


def proxy_lines(s, gpu):
    """What a proxy is, before what it did."""
    whose = s["proxy"][len(PROXY):]
    return [f"PROXY, {s['dtype']}{of_op(s['set'])}: the {whose}'s kernels as PTX that the driver compiled for the {gpu}; the "
            f"{whose}'s own machine code and speed are not seen",
            f"  geometric means over {s['cells']} cells: {means(s['beside'], s['cells'])}"] + [
            f"  least: {b['least'][0]:.2f} x {shown(p)} ({b['least'][1]})" for p, b in s["beside"].items()
            if p in ("memeff", "fa2")] + (
            [f"  WRONG: {s['wrong']} cells with more than twice PyTorch's error"] if s["wrong"] else [])


# -- the report

def head(rows, facts, absent):
    """Of what machine and build, who is absent, where which peer has no time."""
    lines = [" | ".join(f"{k} {facts[k]}" for k in FACTS if facts.get(k) is not None), ""]
    lines += facts.get("joined", [])
    lines += [f"absent: {shown(name)}: {why}" for name, why in absent.items()]
    failed = {}
    for r in rows:
        for name, why in r["absent"].items():
            if name not in absent:
                failed.setdefault((name, why), []).append(r)
    for (name, why), of in failed.items():
        first = of[0]
        lines.append(f"no time: {shown(name)} in {len(table.by_cell(of))} cells, first {label(first['cell'])}"
                     + ("" if first["data"] == "normal" else f", {first['data']}") + f": {why}")
    return lines


def report(rows, facts, absent):
    """What stdout gets, the most important last."""
    lines, normal = head(rows, facts, absent) + [""], table.pick(rows, of="normal")
    sets = [(kind, dtype) for kind in table.distinct(rows, "set") for dtype in table.distinct(table.pick(rows, kind), "dtype")]
    for kind, dtype in sets:
        of = tables(rows, kind, dtype)
        lines += of + [""] if of else []
    if facts.get("cublas_tflops"):
        lines.append(f"cuBLAS bf16 8192^3 {facts['cublas_tflops']:.0f} TFLOP/s, device copy {facts['copy_gbs']:.0f} GB/s, "
                     f"SM clock {facts.get('clock') or '-'} MHz (median under load), {facts.get('watts') or '-'} W")
        for kind, dtype in sets:
            longest, of = table.shares(table.pick(normal, kind, dtype), facts["cublas_tflops"])
            if of and is_grid(kind) and dtype not in SINGLES:
                lines.append(f"{dtype}{of_op(kind)}, share of cuBLAS at N = {longest}: "
                             + ", ".join(f"{k} {v:.2f}" for k, v in of.items()))
    for kind in table.grids(rows):
        ratio = table.half_against_half(table.pick(rows, kind))
        if ratio:
            lines.append(f"f16 is {ratio:.3f} x as fast as bf16{of_op(kind)} (fatune, geometric mean of the cells with both)")
    for s in table.proxies(rows):
        lines += proxy_lines(s, facts.get("gpu", "GPU at hand"))
    all_of = table.summaries(rows)
    for kind, dtype in sets:
        of = [s for s in all_of if (s["set"], s["dtype"]) == (kind, dtype)]
        runs = " and ".join(map(str, table.by_run(table.pick(rows, kind, dtype))))
        lines += ["", f"== {kind}, {dtype}: every kind of data, the worst first; run {runs}"]
        lines += kept(table.pick(rows, kind, dtype), dtype) + kinds_table(of)
        for s in of:
            lines += kind_lines(s)
    return lines
