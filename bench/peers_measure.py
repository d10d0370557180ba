"""peers_measure.py -- one cell measured: everyone's call made, judged, warmed up and timed in turns.

`gpu` is peers_gpu.Gpu, or what stands in for it: a device, the bytes of its cache, stopwatches, graphs, whether it lives.
"""

import peers_cells as cells
import peers_data as data
import peers_judge
import peers_rules as rules
import peers_table as table
import peers_who as who

GRAPHED = ("small", "decode")


class Dead(RuntimeError):
    """The CUDA context is gone: nothing can be measured any more."""


class InContext:
    """A stopwatch whose rounds run in the peer's context, entered once a round and not once a call."""

    def __init__(self, peer, watch):
        self.peer, self.watch = peer, watch

    def round(self, kept=True):
        with self.peer.context():
            return self.watch.round(kept)


def graphed(c, turns):
    """How many calls a graph holds: of a small shape about 2 ms at 100 TFLOP/s, of decoding all turns of K and V."""
    if c["set"] == "decode":
        return turns * max(1, round(8 / turns))
    return max(4, min(50, round(2e11 / cells.flop(c))))


def made(peer, c, q, turns, gpu):
    """(a peer's calls, one for each turn of K and V; the stopwatch; how many attention calls it times as one)."""
    calls = [peer.make(c, q, k, v) for k, v in turns]
    if c["set"] not in GRAPHED:
        return calls, gpu.stopwatch(calls[0]), 1
    for call in calls:
        call()
    count = graphed(c, len(calls))
    return calls, gpu.stopwatch(gpu.captured(calls, count)), count


def run_cell(c, kind, run, everyone, options, gpu):
    """The row of a cell and kind of data: every peer's time, error and clock."""
    row = {"cell": c, "data": kind, "run": run, "peers": {}, "absent": {}}
    q, k, v = data.tensors(c, kind, options.layout, options.seed, who.dtype_of(c["dtype"]), gpu.device)
    turns = [(k, v)] + [(k.clone(), v.clone()) for _ in range((cells.copies(c, gpu.cache) if c["set"] == "decode" else 1) - 1)]
    judge = peers_judge.Judge(c, q, k, v) if options.errors else None
    if judge:
        row["error_pytorch"] = judge.pytorch
    watches, first, errors, counts = {}, {}, {}, {}
    for name, peer in everyone.items():
        if not peer.wants(c):
            continue
        try:
            with peer.context():
                calls, watch, counts[name] = made(peer, c, q, turns, gpu)
                first[name] = calls[0]
                errors[name] = judge.errors(calls[0]()) if judge else {}
                watches[name] = InContext(peer, watch)
        except Exception as error:  # each library has its own
            row["absent"][name] = who.reason(error)
            if not gpu.is_alive():
                raise Dead(f"{cells.label(c)}, {kind}: {name}: {who.reason(error)}") from error
    warm = rules.warm_up(watches)
    rules.measure(watches, options.rounds)
    for name, watch in watches.items():
        found = watch.watch.result(counts[name])
        row["peers"][name] = {**found, **cells.rates(c, found["ms"]), "warm": warm[name][0], "settled": warm[name][1],
                              **everyone[name].about(c)}
        if judge:  # once more after the load
            with everyone[name].context():
                again = judge.errors(first[name]())
            row["peers"][name].update({field: table.largest(value, again[field]) for field, value in errors[name].items()})
    return row
