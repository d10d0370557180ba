"""peers_table.py -- comparisons of the benchmark beside peers: ratios, and what a set says of each kind of data.

A row is {"cell": {...}, "data": kind, "run": number, "peers": {name: {"ms": ..., ...}}, "absent": {name: reason}}; times
are milliseconds of one call. A ratio is peer's time / our time: above 1 we are faster. All of it was measured in the run
that the row is of. Standard library only; nothing here touches a GPU.
"""

import collections
import math
import statistics

import peers_data as data
import peers_rules as rules
from peers_cells import HALVES, is_grid, label, op_of

OURS = "fatune"
BEFORE = "before"  # fatune as an earlier build has it
PROXY = "proxy:"  # before the name of the GPU whose kernels run as a proxy
DET = ":det"  # behind a name: in the mode in which gradients have equal bits each time
DETERMINISTIC = ("cudnn", "fa2", "fa3", "fa4")  # that may have such a mode
GRADIENTS = ("dq", "dk", "dv")
NAMES = {OURS: "fatune", BEFORE: "fatune before", "cudnn": "cuDNN", "fa2": "FlashAttention-2", "memeff": "mem-efficient",
         "flex": "FlexAttention", "math": "plain PyTorch", "fa3": "FlashAttention-3", "fa4": "FlashAttention-4",
         "flashinfer": "FlashInfer"}
SHORT = {"cudnn": "cuDNN", "fa2": "FA2", "memeff": "mem-eff", "flex": "Flex", "math": "PyTorch", "fa3": "FA3", "fa4": "FA4"}


def geomean(values):
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def largest(*errors):
    """The maximum; NaN, the worst of errors, where there is one."""
    return math.nan if any(math.isnan(e) for e in errors) else max(errors)


def median(values):
    return statistics.median(values)


# -- rows

def pick(rows, kind=None, dtype=None, of=None):
    """The rows of a set, dtype and kind of data."""
    return [r for r in rows if kind in (None, r["cell"]["set"]) and dtype in (None, r["cell"]["dtype"])
            and of in (None, r["data"])]


def distinct(rows, name):
    """Values of a cell's field (or of `data`, `run`) in the order they come in."""
    return list(dict.fromkeys(r[name] if name in r else r["cell"][name] for r in rows))


def by_run(rows):
    return {run: [r for r in rows if r["run"] == run] for run in sorted(distinct(rows, "run"))}


def by_cell(rows):
    """[(cell, its rows, one of each run)]."""
    found = {}
    for r in rows:
        found.setdefault(label(r["cell"]), []).append(r)
    return [(of[0]["cell"], of) for of in found.values()]


def names_in(rows):
    """Everyone with a time, in the order of NAMES, then other kernels of ours."""
    found = dict.fromkeys(name for r in rows for name in r["peers"])
    return [n for n in NAMES if n in found] + [n for n in found if n not in NAMES]


def grids(rows):
    """The sets among them that are the grid, of whatever op."""
    return [kind for kind in distinct(rows, "set") if is_grid(kind)]


def shown(name):
    if name.endswith(DET):
        return shown(name.removesuffix(DET)) + " (deterministic)"
    return NAMES.get(name, name[len(PROXY):] + "'s kernels (proxy)" if name.startswith(PROXY) else name)


# -- ratios

def ratio(row, peer):
    """How many times faster than a peer; None where one of the two has no time."""
    peers = row["peers"]
    return peers[peer]["ms"] / peers[OURS]["ms"] if peer in peers and OURS in peers else None


def bar(row):
    """(name, ratio) of the fastest of all peers that have a time in the cell."""
    found = [(p["ms"], name) for name, p in row["peers"].items() if name in NAMES and name not in (OURS, BEFORE)]
    if not found or OURS not in row["peers"]:
        return None, None
    return min(found)[1], min(found)[0] / row["peers"][OURS]["ms"]


def least(rows, of):
    """The least of the runs; None where a run lacks it."""
    values = [of(r) for r in rows]
    return None if None in values or not values else min(values)


def beside(rows, mine=OURS):
    """{peer: how many times as fast `mine` is: the geometric mean of each run, over how many cells, the least cell}."""
    found = {}
    for peer in names_in(rows):
        of = {run: [(r["peers"][peer]["ms"] / r["peers"][mine]["ms"], label(r["cell"])) for r in some
                    if peer in r["peers"] and mine in r["peers"]] for run, some in by_run(rows).items()}
        of = {run: some for run, some in of.items() if some}
        if peer != mine and of and (not peer.endswith(DET) or mine.endswith(DET)):
            found[peer] = {"geomean": {run: geomean(v for v, _ in some) for run, some in of.items()},
                           "cells": min(map(len, of.values())), "least": min(min(some) for some in of.values())}
    return found


# -- errors

def is_inaccurate(row, name=OURS):
    """FlashAttention's rule: at most twice the error of PyTorch in the same dtype. For halves only: tf32 is another
    arithmetic, and single precision has no dtype to be compared in."""
    ours = row["peers"].get(name, {})
    if row["cell"]["dtype"] not in HALVES or ours.get("error") is None or row.get("error_pytorch") is None:
        return False
    return not ours["error"] <= 2 * row["error_pytorch"] + 1e-5  # NaN is an error too


def error_ratios(rows, field):
    """[(our error / cuDNN's on the same data, cell, run)], `field`: "rms" or "error"; infinite where ours is NaN. Of
    gradients the one that is worst beside cuDNN's."""
    found = []
    for r in rows:
        of = [name for name in (f"{field}_{g}" for g in GRADIENTS) if name in r["peers"].get(OURS, {})] or [field]
        values = []
        for name in of:
            ours, theirs = (r["peers"].get(who, {}).get(name) for who in (OURS, "cudnn"))
            if ours is not None and theirs is not None and not math.isnan(theirs) and (theirs > 0 or ours != 0):
                values.append(ours / theirs if theirs > 0 and not math.isnan(ours) else math.inf)
        if values:
            found.append((max(values), label(r["cell"]), r["run"]))
    return found


def errors(rows):
    """Beside cuDNN's: RMS and largest error, their geometric means and worst cells, and whether the limit holds."""
    rms, most = error_ratios(rows, "rms"), error_ratios(rows, "error")
    if not rms:
        return None
    worst = {run: max(v for v, _, at in rms if at == run) for run in sorted({at for _, _, at in rms})}
    above = dict.fromkeys(cell for v, cell, _ in sorted(rms, reverse=True) if v > rules.RMS_MOST)
    return {"rms": geomean(max(v, 1e-9) for v, _, _ in rms), "worst_rms": max(rms)[:2], "above": list(above),
            "largest": geomean(max(v, 1e-9) for v, _, _ in most), "worst_largest": max(most)[:2],
            "holds": rules.holds(worst, lambda v: v <= rules.RMS_MOST)}


# -- what a set says

def summary(rows):
    """Of the rows of one set, dtype and kind of data."""
    cells, runs = by_cell(rows), by_run(rows)
    bars = {run: [(bar(r)[1], label(r["cell"])) for r in of if bar(r)[1]] for run, of in runs.items()}
    bars = {run: of for run, of in bars.items() if of}
    below = {}
    for run, of in bars.items():
        for value, name in of:
            if value < rules.BELOW:
                below.setdefault(name, {})[run] = value
    missing = [label(c) for c, of in cells if len(of) < len(runs) or any(OURS not in r["peers"] for r in of)]
    c = rows[0]["cell"]
    return {"set": c["set"], "dtype": c["dtype"], "data": rows[0]["data"], "cells": len(cells), "runs": list(runs),
            "geomean": {run: geomean(v for v, _ in of) for run, of in bars.items()},
            "least": {run: min(of) for run, of in bars.items()},
            "median": {run: median([v for v, _ in of]) for run, of in bars.items()},
            "below": dict(sorted(below.items(), key=lambda item: min(item[1].values()))), "missing": missing,
            "fastest": dict(collections.Counter(bar(r)[0] for r in rows if bar(r)[0]).most_common()),
            "beside": beside(rows), "errors": errors(rows),
            "deterministic": {name: of for name, of in beside(rows, OURS + DET).items() if name == OURS or name.endswith(DET)},
            "ahead": False if missing else rules.holds(bars, lambda of: all(v >= rules.BELOW for v, _ in of)) if bars else None,
            "of_pytorch": max((r["peers"][OURS]["error"] / r["error_pytorch"] for r in rows
                               if r["peers"].get(OURS, {}).get("error") is not None and r.get("error_pytorch")), default=None),
            "rms_of_pytorch": max((r["peers"][OURS]["rms"] for r in rows if op_of(r["cell"]) != "fwd"
                                   and r["peers"].get(OURS, {}).get("rms") is not None), default=None),
            "unsettled": [f"{shown(name)} in {label(r['cell'])}, run {r['run']}" for r in rows for name, p in r["peers"].items()
                          if p.get("settled") is False],
            "wrong": [label(r["cell"]) for r in rows if is_inaccurate(r)]}


def in_both(s):
    """The geometric mean that every run has at least."""
    return min(s["geomean"].values(), default=None)


def summaries(rows):
    """Of all sets and dtypes in their order, in each the worst kind of data first."""
    found = []
    for kind in distinct(rows, "set"):
        for dtype in distinct(pick(rows, kind), "dtype"):
            of = [summary(pick(rows, kind, dtype, name)) for name in data.KINDS if pick(rows, kind, dtype, name)]
            found += sorted(of, key=lambda s: in_both(s) or math.inf)
    return found


def proxies(rows):
    """For each proxy, op and dtype of the grid: its speed beside all others, their time / its time."""
    found = []
    for name, kind in ((n, kind) for n in names_in(rows) if n.startswith(PROXY) for kind in grids(rows)):
        for dtype in distinct(pick(rows, kind), "dtype"):
            mine = [r for r in pick(rows, kind, dtype) if name in r["peers"]]
            if mine:
                found.append({"proxy": name, "set": kind, "dtype": dtype, "cells": len(by_cell(mine)), "beside": beside(mine, name),
                              "wrong": sum(is_inaccurate(r, name) for r in mine)})
    return found


def shares(rows, cublas):
    """Our part of cuBLAS's rate in the longest cells of a grid on normal data, the lesser of the runs."""
    longest = max((r["cell"]["n"] for r in rows), default=0)
    of = {f"d{c['d']} {'causal' if c['causal'] else 'full'}": least(some, lambda r: r["peers"].get(OURS, {}).get("tflops"))
          for c, some in by_cell(rows) if c["n"] == longest}
    return longest, {name: v / cublas for name, v in of.items() if v}


def half_against_half(rows):
    """Geometric mean of our time in bf16 / our time in f16 over the cells that have both."""
    times = {}
    for r in rows:
        if OURS in r["peers"]:
            c = dict(r["cell"])
            times.setdefault(c.pop("dtype"), {})[r["run"], r["data"], tuple(c.items())] = r["peers"][OURS]["ms"]
    both = [(ms, times["f16"][key]) for key, ms in times.get("bf16", {}).items() if key in times.get("f16", {})]
    return geomean(b / f for b, f in both)


def failures(rows):
    """What makes a run fail, as lines: our wrong results, and RMS errors above the limit."""
    mine = [OURS, OURS + DET] + [name for name in names_in(rows) if name.startswith(PROXY)]
    found = [f"{shown(name)}, {label(r['cell'])}, {r['data']}: more than twice PyTorch's error"
             for r in rows for name in mine if is_inaccurate(r, name)]
    return found + [f"{s['dtype']} {s['data']}: RMS error above {rules.RMS_MOST} x cuDNN's" for s in summaries(rows)
                    if s["errors"] and s["errors"]["above"]]
