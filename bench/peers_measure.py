"""peers_measure.py -- one cell measured: everyone's call made, judged, warmed up and timed in turns.

`gpu` is peers_gpu.Gpu, or what stands in for it: a device, the bytes of its cache, stopwatches, graphs, whether it lives.
"""

import contextlib

import torch

import peers_cells as cells
import peers_data as data
import peers_judge
import peers_rules as rules
import peers_table as table
import peers_who as who


class Dead(RuntimeError):
    """The CUDA context is gone: nothing can be measured any more."""


@contextlib.contextmanager
def entered(peer, c):
    """What a peer's calls run in; a forward that a backward follows is recorded."""
    with peer.context(), torch.set_grad_enabled(cells.op_of(c) != "fwd"):
        yield


class InContext:
    """A stopwatch whose rounds run in the peer's context, entered once a round and not once a call."""

    def __init__(self, peer, c, watch):
        self.peer, self.c, self.watch = peer, c, watch

    def round(self, kept=True):
        with entered(self.peer, self.c):
            return self.watch.round(kept)


def graphed(c, turns):
    """How many calls a graph holds: of a small shape about 2 ms at 100 TFLOP/s, of decoding all turns of K and V."""
    if cells.is_decoding(c):
        return turns * max(1, round(8 / turns))
    return max(4, min(50, round(2e11 / cells.flop(c))))


def made(peer, c, turns, gpu):
    """(a peer's calls, one for each turn of K and V; the stopwatch; how many attention calls it times as one)."""
    make = peer.make if cells.op_of(c) == "fwd" else peer.make_backward
    calls = [make(c, *tensors) for tensors in turns]
    if not cells.is_graphed(c):
        return calls, gpu.stopwatch(calls[0]), 1
    for call in calls:
        call()
    count = graphed(c, len(calls))
    return calls, gpu.stopwatch(gpu.captured(calls, count)), count


def tensors_of(c, kind, options, gpu):
    """Those of each turn: Q, K, V, and for a backward the gradient of O."""
    given = options.layout, options.seed, who.dtype_of(c["dtype"]), gpu.device
    q, k, v = data.tensors(c, kind, *given)
    if cells.op_of(c) != "fwd":
        return [(q, k, v, data.gradient(c, *given))]
    return [(q, k, v)] + [(q, k.clone(), v.clone())
                          for _ in range((cells.copies(c, gpu.cache) if cells.is_decoding(c) else 1) - 1)]


def run_cell(c, kind, run, everyone, options, gpu):
    """The row of a cell and kind of data: every peer's time, error and clock."""
    row = {"cell": c, "data": kind, "run": run, "peers": {}, "absent": {}}
    turns = tensors_of(c, kind, options, gpu)
    judge = peers_judge.Judge(c, *turns[0]) if options.errors else None
    if judge:
        row.update(judge.facts)
    watches, first, errors, counts = {}, {}, {}, {}
    for name, peer in everyone.items():
        if not peer.wants(c):
            continue
        try:
            with entered(peer, c):
                calls, watch, counts[name] = made(peer, c, turns, gpu)
                first[name] = calls[0]
                result = calls[0]()
            errors[name] = judge.errors(result) if judge else {}
            watches[name] = InContext(peer, c, watch)
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
            with entered(everyone[name], c):
                again = first[name]()
            again = judge.errors(again)
            row["peers"][name].update({field: table.largest(value, again[field]) for field, value in errors[name].items()})
    return row
