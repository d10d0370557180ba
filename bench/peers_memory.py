"""peers_memory.py -- what a forward and its backward need of device memory at their peak, beyond Q, K, V and the gradient of
O: so O, LSE, the gradients, and all that lies between. Ours and the others', at two lengths.

PyTorch's allocator counts: all that are timed here take their memory by it. Four times the rows should need four times the
bytes; the last column is bytes per row at the longer length over those at the shorter, and where ours grow the run fails.
"""

import json
import os
import types

import torch

import peers_cells as cells
import peers_measure as measure
import peers_table as table
import peers_who as who

LENGTHS = (16384, 65536)
HEADS, DIM = 16, 128
GROWTH = 1.02  # of bytes per row, at most


def cells_of(dtypes):
    return [cells.cell("grid-both", t, 1, HEADS, n, DIM, causal) for t in dtypes for causal in (False, True) for n in LENGTHS]


def peak(peer, c, options, gpu):
    """Bytes at the peak of a second step; what a first one compiles or keeps is not counted."""
    tensors = measure.tensors_of(c, "normal", options, gpu)[0]
    with measure.entered(peer, c):
        call = peer.make_backward(c, *tensors)
        call()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = call()
        torch.cuda.synchronize()
        del result
        return torch.cuda.max_memory_allocated() - held


def measured(everyone, dtypes, options, gpu):
    """[{"peer", "dtype", "causal", "bytes": {length: bytes or why there are none}}]"""
    rows = {}
    for c in cells_of(dtypes):
        for name, peer in everyone.items():
            if not peer.wants(c):
                continue
            of = {"peer": name, "dtype": c["dtype"], "causal": c["causal"], "bytes": {}}
            row = rows.setdefault((name, c["dtype"], c["causal"]), of)
            try:
                row["bytes"][c["n"]] = peak(peer, c, options, gpu)
            except Exception as error:  # each library has its own
                row["bytes"][c["n"]] = who.reason(error)
                if not gpu.is_alive():
                    raise measure.Dead(f"{cells.label(c)}: {name}: {who.reason(error)}") from error
    return list(rows.values())


def growth(row):
    """Bytes per row at the longest length over those at the shortest."""
    at = row["bytes"]
    if not all(isinstance(at.get(n), int) and at[n] > 0 for n in LENGTHS):
        return None
    return at[LENGTHS[-1]] / LENGTHS[-1] / (at[LENGTHS[0]] / LENGTHS[0])


def lines_of(rows):
    inputs = ", ".join(f"{4 * 2 * HEADS * DIM * n >> 20} MiB at N = {n}" for n in LENGTHS)
    lines = [f"peak memory of forward and backward beyond Q, K, V and dO ({inputs}), b1 h{HEADS} d{DIM}, MiB",
             " " * 42 + "".join(f"N = {n}".rjust(12) for n in LENGTHS) + "   bytes per row, growth"]
    for row in rows:
        at = row["bytes"]
        line = f"{row['dtype']} {'causal' if row['causal'] else 'full':7}{table.shown(row['peer'])}".ljust(42)
        line += "".join((f"{at[n] / 2 ** 20:.1f}" if isinstance(at.get(n), int) else "-").rjust(12) for n in LENGTHS)
        per_row = growth(row)
        lines.append(line + (f"{at[LENGTHS[-1]] / LENGTHS[-1]:12.0f}  {per_row:.3f}" if per_row else
                             "  " + next(str(v) for v in [*at.values(), "not measured"] if not isinstance(v, int))))
    return lines


def verdict(rows):
    """(exit code, line): whether ours is linear."""
    ours = [growth(row) for row in rows if row["peer"] in (table.OURS, table.OURS + table.DET)]
    if not ours or None in ours:
        return 1, "FAILED: fatune has no figure at some length"
    if max(ours) > GROWTH:
        return 1, f"FAILED: fatune's bytes per row grow by {max(ours):.3f}"
    return 0, f"fatune's memory is linear in N: bytes per row grow by {max(ours):.3f} at most"


def run(args, facts, gpu):
    options = types.SimpleNamespace(layout=args.layout, seed=args.seed)
    everyone, absent = who.peers(args.peers, args.kernels, args.policy, [], det=args.det)
    rows = measured(everyone, [t for t in args.dtypes if t in cells.HALVES], options, gpu)
    code, said = verdict(rows)
    print("\n".join([f"absent: {table.shown(name)}: {why}" for name, why in absent.items()] + lines_of(rows) + [said]))
    if args.output:
        os.makedirs(args.output, exist_ok=True)
        name = args.name or f"memory-{facts['gpu'].split()[-1].lower()}-{facts['date'][:10]}"
        with open(os.path.join(args.output, f"{name}.json"), "w", encoding="ascii") as file:
            json.dump({"facts": facts, "absent": absent, "rows": rows}, file, indent=1)
            file.write("\n")
    return code
