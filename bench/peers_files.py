"""peers_files.py -- files of the benchmark beside peers: written, read back, and joined to one report.

A .tsv has a line for each cell, kind of data, run and peer; its first line, behind a #, says of what machine and build. A
run that took several calls is their files joined. What was measured twice under one run's number is refused, and so are
files of other GPUs, builds or settings: none is chosen over another.
"""

import json
import os

import peers_plot
import peers_table as table
import peers_text
from peers_cells import label
from peers_data import KINDS

CELL = ("set", "dtype", "b", "h", "hk", "q", "n", "d", "causal", "keys", "model")
WORDS = ("set", "dtype", "model")  # of a cell, beside its numbers
RMS, PLAIN = (tuple(f"{whose}_{name}" for name in table.GRADIENTS) for whose in ("rms", "pytorch"))  # of a backward
COLUMNS = ("set", "data", "run", "dtype", "b", "h", "hk", "q", "n", "d", "causal", "keys", "peer", "ms", "ms_low", "ms_high",
           "warm", "settled", "tflops", "gbs", "fatune_ratio", "error", "rms", "error_pytorch", "clock", "watts", "kernel",
           "note") + RMS + PLAIN + ("model",)
WHOLE = ("warm", "clock", "watts")
REALS = ("ms", "ms_low", "ms_high", "tflops", "gbs", "error", "rms") + RMS
SAME = ("gpu", "cuda", "torch", "cudnn", "fatune", "commit", "layout", "ms", "lead", "rounds", "seed", "kernel", "policy")
FEW = ("driver", "date", "cublas_tflops", "copy_gbs", "clock", "watts", "command", "absent")  # that a .tsv has beside those


class Refused(RuntimeError):
    """Files that make no report together, with the reason."""


def key(run, c, kind):
    """Under what a measurement comes once."""
    return run, c["set"], kind, label(c)


def key_of(row):
    return key(row["run"], row["cell"], row["data"])


# -- one file

def tsv(rows, facts):
    """One line for each cell and peer; a peer without a time has the reason in its note."""
    def text(v):
        if isinstance(v, bool):
            return str(int(v))
        return f"{v:.6g}" if isinstance(v, float) else "" if v is None else str(v).replace("\t", " ").replace("\n", " ")
    said = {name: facts[name] for name in SAME + FEW if facts.get(name) is not None}
    lines = ["# " + json.dumps(said)] if said else []
    lines.append("\t".join(COLUMNS))
    for r in rows:
        for name, p in list(r["peers"].items()) + [(n, {"note": why}) for n, why in r["absent"].items()]:
            own = {field: r.get(field) for field in ("error_pytorch",) + PLAIN} if "error" in p else {}
            of = {**r["cell"], **p, **own, "data": r["data"], "run": r["run"], "peer": name, "fatune_ratio": table.ratio(r, name)}
            lines.append("\t".join(text(of.get(column)) for column in COLUMNS))
    return "\n".join(lines) + "\n"


def peer_of(field):
    """What a line says of its peer."""
    p = {name: float(field[name]) for name in REALS if field.get(name)}
    p.update((name, int(field[name])) for name in WHOLE if field.get(name))
    p.update((name, field[name]) for name in ("kernel", "note") if field.get(name))
    return {**p, "settled": field["settled"] == "1"} if field.get("settled") else p


def read(text):
    """(rows, facts) of a .tsv. Files of before the kinds of data are normal data, run 1."""
    lines = text.splitlines()
    facts = json.loads(lines[0][1:]) if lines and lines[0].startswith("# {") else {}
    lines = [line for line in lines if line and not line.startswith("#")]
    names, rows = lines[0].split("\t") if lines else [], {}
    if not {"set", "peer", "ms"} <= set(names):
        raise Refused("no table of this benchmark")
    for line in lines[1:]:
        field = dict(zip(names, line.split("\t")))
        c = {name: field[name] if name in WORDS else int(field[name]) for name in CELL if field.get(name)}
        c["causal"] = bool(c["causal"])
        kind, run = field.get("data") or "normal", int(field.get("run") or 1)
        row = rows.setdefault(key(run, c, kind), {"cell": c, "data": kind, "run": run, "peers": {}, "absent": {}})
        if field["peer"] in row["peers"] or field["peer"] in row["absent"]:
            raise Refused(f"{field['peer']} comes twice in {label(c)}, {kind}, run {run}")
        if field["ms"]:
            row["peers"][field["peer"]] = peer_of(field)
        else:
            row["absent"][field["peer"]] = field.get("note", "")
        row.update((name, float(field[name])) for name in ("error_pytorch",) + PLAIN if field.get(name))
    return list(rows.values()), facts


# -- several

def same_facts(files):
    """The facts of all; what may differ (when, at what clock, on which of the machines) is the first file's, but said."""
    all_facts = [(name, facts) for name, _, facts in files]
    first, joined = dict(all_facts[0][1]), []
    for name, facts in all_facts[1:]:
        for fact in SAME:
            if facts.get(fact) != first.get(fact):
                raise Refused(f"{name}: {fact} {facts.get(fact)}, but {first.get(fact)} in {all_facts[0][0]}")
    for fact in ("driver", "date", "cublas_tflops"):
        values = list(dict.fromkeys(f"{v:.0f}" if isinstance(v, float) else str(v) for _, f in all_facts if (v := f.get(fact))))
        if len(values) > 1:
            joined.append(f"joined of {len(files)} files: {fact} {', '.join(values)}")
    for fact in ("cublas_tflops", "copy_gbs", "clock", "watts"):
        values = [f[fact] for _, f in all_facts if f.get(fact)]
        if values:
            first[fact] = table.median(values)
    everywhere = {peer: why for peer, why in first.get("absent", {}).items()
                  if all(peer in facts.get("absent", {}) for _, facts in all_facts)}
    joined += [f"absent in {name}: {table.shown(peer)}: {why}" for name, facts in all_facts
               for peer, why in facts.get("absent", {}).items() if peer not in everywhere]
    return {**first, "absent": everywhere, "joined": joined}


def incomplete(rows):
    """Lines on what one run has and another lacks."""
    runs = {run: {key_of(r)[1:] for r in of} for run, of in table.by_run(rows).items()}
    everything = set().union(*runs.values())
    return [f"INCOMPLETE: run {run} lacks {len(everything - of)} of {len(everything)}, first {' '.join(min(everything - of))}"
            for run, of in runs.items() if everything - of]


def join(files):
    """(rows, facts) of [(name, rows, facts)]: cells in the order of the first run that has them."""
    facts, rows = same_facts(files), {}
    for name, some, _ in files:
        for r in some:
            if key_of(r) in rows:
                raise Refused(f"{name}: run {r['run']} of {label(r['cell'])}, {r['data']}, is in a file before it; nothing is "
                              "measured twice in a run")
            rows[key_of(r)] = r
    order = sorted(rows.values(), key=lambda r: (r["run"], list(KINDS).index(r["data"])))
    facts["joined"] = facts["joined"] + incomplete(order)
    return order, facts


def read_all(paths):
    files = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            try:
                files.append((path, *read(file.read())))
            except (ValueError, KeyError) as error:
                raise Refused(f"{path}: {error}") from error
    return join(files)


def write(folder, name, content):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(content)


def save_tsv(folder, name, rows, facts):
    write(folder, f"{name}.tsv", tsv(rows, facts))


def save(folder, name, rows, facts, absent):
    """Writes NAME.tsv, NAME.json, NAME.svg and NAME.txt."""
    save_tsv(folder, name, rows, facts)
    whole = {"facts": facts, "absent": absent, "summaries": table.summaries(rows), "proxies": table.proxies(rows), "rows": rows}
    write(folder, f"{name}.json", json.dumps(whole, indent=1) + "\n")
    write(folder, f"{name}.svg", peers_plot.svg(rows, facts))
    write(folder, f"{name}.txt", "\n".join(peers_text.report(rows, facts, absent)) + "\n")
