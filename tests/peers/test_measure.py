"""test_measure.py -- bench/peers_measure.py with PyTorch on the CPU, stand-ins for the GPU's stopwatch and graphs; and how
the peers of bench/peers_who.py call FlashAttention's packages. Skipped where PyTorch is not installed."""

import contextlib
import importlib.util
import io
import math
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import peers  # noqa: E402
import peers_cells as cells  # noqa: E402
import peers_files as files  # noqa: E402
import peers_rules as rules  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch
    from torch.nn.attention import SDPBackend
    import peers_gpu
    import peers_judge
    import peers_measure as measure
    import peers_who as who

OPTIONS = types.SimpleNamespace(layout="bhnd", seed=1, errors=True, rounds=3)


class Watch:
    """Rounds of 8, 4, 2, 1, 1, ... ms."""

    def __init__(self, call):
        self.call, self.rounds, self.kept = call, 0, 0

    def round(self, kept=True):
        self.call()
        self.rounds += 1
        self.kept += kept
        return max(8 / 2 ** (self.rounds - 1), 1.0)

    def result(self, calls):
        return {"ms": self.kept / calls, "ms_low": 1.0, "ms_high": 1.0, "calls": calls, "clock": None, "watts": None}


class Gpu:
    device = "cpu"

    def __init__(self, cache=1 << 20):
        self.cache, self.graphs = cache, []

    stopwatch = staticmethod(Watch)

    def captured(self, calls, count):
        self.graphs.append((len(calls), count))
        return lambda: [calls[i % len(calls)]() for i in range(min(count, 2 * len(calls)))]

    @staticmethod
    def is_alive():
        return True


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Cell(unittest.TestCase):
    def everyone(self):
        class Off(who.Sdpa):
            def make(self, c, q, k, v):
                call = super().make(c, q, k, v)
                return lambda: call() + 0.25

        class Failing(who.Peer):
            def make(self, c, q, k, v):
                raise RuntimeError("not here\nand more")
        math_of = {"backend": SDPBackend.MATH, "dtypes": cells.HALVES}
        return {"fatune": who.Sdpa(**math_of), "cudnn": who.Sdpa(**math_of), "fa2": Off(**math_of), "fa3": Failing()}

    def run_cell(self, c, kind="normal", gpu=None):
        with torch.no_grad():
            return measure.run_cell(c, kind, 2, self.everyone(), OPTIONS, gpu or Gpu())

    def test_row(self):
        row = self.run_cell(cells.cell("grid", "bf16", 1, 2, 64, 32, True), "rise16")
        self.assertEqual((row["data"], row["run"], row["absent"]), ("rise16", 2, {"fa3": "not here"}))
        self.assertEqual(set(row["peers"]), {"fatune", "cudnn", "fa2"})
        p = row["peers"]["fatune"]
        self.assertEqual((p["ms"], p["warm"], p["settled"]), (3, 5, True))
        self.assertAlmostEqual(p["tflops"], 4 * 2 * 64 * 64 * 32 / 2 / 3 * 1e-9)
        self.assertNotIn("gbs", p)
        self.assertTrue(0 < p["rms"] < p["error"] < 0.05)
        self.assertAlmostEqual(row["peers"]["fa2"]["rms"], 0.25, delta=0.01)

    def test_who_does_not_settle_is_timed_and_says_so(self):
        class Restless(Watch):
            def round(self, kept=True):
                super().round(kept)
                return float(self.rounds)
        gpu = Gpu()
        gpu.stopwatch = Restless
        row = self.run_cell(cells.cell("grid", "bf16", 1, 1, 16, 16, False), gpu=gpu)
        self.assertEqual({(p["ms"], p["warm"], p["settled"]) for p in row["peers"].values()}, {(3, rules.WARM_MOST, False)})

    def test_every_kind(self):
        import peers_data
        for kind in peers_data.KINDS:
            row = self.run_cell(cells.cell("grid", "f16", 1, 1, 128, 64, False), kind)
            self.assertLess(row["peers"]["fatune"]["error"], 0.02, kind)
            self.assertLess(abs(row["peers"]["fa2"]["error"] - 0.25), 0.03, kind)

    def test_decoding_takes_turns_beyond_the_cache(self):
        c, gpu = cells.cell("decode", "bf16", 1, 8, 256, 64, False, 2, 1), Gpu(cache=1 << 20)
        turns = cells.copies(c, gpu.cache)
        self.assertGreater(turns * cells.bytes_of_kv(c), 2 << 20)
        self.assertLessEqual((turns - 1) * cells.bytes_of_kv(c), 2 << 20)
        row = self.run_cell(c, gpu=gpu)
        self.assertEqual(gpu.graphs, [(turns, turns)] * 3)
        self.assertAlmostEqual(row["peers"]["fatune"]["ms"], 3 / turns)
        self.assertAlmostEqual(row["peers"]["fatune"]["gbs"], cells.bytes_of_kv(c) / (3 / turns) * 1e-6)
        large = {**c, "b": 64, "n": 8192}
        self.assertEqual((cells.copies(large, 50 << 20), measure.graphed(large, 1)), (1, 8))

    def test_long_rows_are_judged_by_the_last_ones(self):
        for causal in (False, True):
            c = cells.cell("models", "bf16", 1, 4, 64, 32, causal, 1)
            with mock.patch.object(peers_judge, "MOST", 1), mock.patch.object(peers_judge, "ROWS", 4 * 64 * 8):
                row = self.run_cell(c)
                q = torch.randn(1, 4, 64, 32)
                self.assertEqual(peers_judge.some_rows(c, q).shape[2], 8)
                self.assertTrue(torch.equal(peers_judge.some_rows(c, q), q[:, :, -8:]))
            self.assertTrue(0 < row["peers"]["fatune"]["error"] < 0.05)
            self.assertAlmostEqual(row["peers"]["fa2"]["rms"], 0.25, delta=0.01)

    def test_small_shapes_run_in_graphs(self):
        gpu = Gpu()
        self.run_cell(cells.cell("small", "bf16", 1, 2, 33, 32, False, q=7), gpu=gpu)
        self.assertEqual(gpu.graphs, [(1, 50)] * 3)

    def test_a_dead_context_ends_the_run(self):
        gpu = Gpu()
        gpu.is_alive = lambda: False
        with self.assertRaises(measure.Dead):
            self.run_cell(cells.cell("grid", "bf16", 1, 1, 16, 16, False), gpu=gpu)

    def test_nan_after_the_load_is_seen(self):
        class Breaks(who.Sdpa):
            def make(self, c, q, k, v):
                call, count = super().make(c, q, k, v), [0]

                def broken():
                    count[0] += 1
                    return call() * (1 if count[0] < 3 else math.nan)
                return broken
        with torch.no_grad():
            row = measure.run_cell(cells.cell("grid", "bf16", 1, 1, 16, 16, False), "normal", 1,
                                   {"fatune": Breaks(SDPBackend.MATH, cells.HALVES)}, OPTIONS, Gpu())
        self.assertTrue(math.isnan(row["peers"]["fatune"]["error"]) and math.isnan(row["peers"]["fatune"]["rms"]))


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Packages(unittest.TestCase):
    def setUp(self):
        self.given = []

        def attention(q, k, v, causal, options):
            self.given.append(options)
            return peers_judge.attend(*(t.transpose(1, 2) for t in (q, k, v)), causal, torch.float32,
                                      window=(options.get("window_size", (-1,))[0], -1)).transpose(1, 2)
        three, four = types.ModuleType("three_here"), types.ModuleType("four_here")
        three.flash_attn_func = lambda q, k, v, causal=False, window_size=(-1, -1), num_splits=1: attention(
            q, k, v, causal, {"num_splits": num_splits, "window_size": window_size})
        four.flash_attn_func = lambda q, k, v, **options: (attention(q, k, v, options["causal"], options), None)
        sys.modules.update(three_here=three, four_here=four)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in ("three_here", "four_here")])

    def check(self, peer, c):
        import peers_data
        q, k, v = peers_data.tensors(c, "normal", "bhnd", 1, torch.bfloat16, "cpu")
        out = peer.make(c, q, k, v)()
        self.assertEqual(out.shape, q.shape)
        self.assertLess(peers_judge.Judge(c, q, k, v).errors(out)["error"], 1e-4)
        return self.given[-1]

    def test_calls(self):
        square = cells.cell("window", "bf16", 2, 4, 40, 32, True, hk=2, keys=8)
        few = cells.cell("decode", "bf16", 2, 4, 40, 32, False, 2, 1)
        three, four = who.FlashAttention("three_here", splits=0), who.FlashAttention("four_here")
        self.assertEqual(self.check(three, square), {"num_splits": 1, "window_size": (7, 0)})
        self.assertEqual(self.check(three, few), {"num_splits": 0, "window_size": (-1, -1)})
        self.assertEqual(self.check(four, square), {"causal": True, "window_size": (7, 0)})
        self.assertEqual(self.check(four, few), {"causal": False})

    def test_a_build_without_f16_is_not_asked_for_it(self):
        built = types.ModuleType("flash_attn_config")
        sys.modules.update(flash_attn_interface=sys.modules["three_here"], flash_attn_config=built)
        self.addCleanup(lambda: [sys.modules.pop(name) for name in ("flash_attn_interface", "flash_attn_config")])
        half, other = (cells.cell("small", dtype, 1, 2, 40, 32, True) for dtype in ("f16", "bf16"))
        for without in (False, True):
            built.CONFIG = {"build_flags": {"FLASHATTENTION_DISABLE_FP16": without}}
            peer = who.FlashAttention("flash_attn_interface")
            self.assertEqual([peer.wants(half), peer.wants(other)], [not without, True])
        del built.CONFIG
        self.assertTrue(who.FlashAttention("flash_attn_interface").wants(half))

    def test_a_mask_that_pytorch_aligns_otherwise_is_left_out(self):
        peer = who.Sdpa(SDPBackend.MATH, cells.HALVES)
        c = cells.cell("small", "bf16", 1, 2, 40, 32, True, q=7)
        self.assertFalse(peer.wants(c))
        self.assertTrue(peer.wants({**c, "causal": False}))

    def test_who_is_not_there_says_why(self):
        found, absent = who.peers(["cudnn", "fa3"], [], "compile", [])
        self.assertEqual(list(found), ["cudnn"])
        self.assertIn("flash_attn_interface", absent["fa3"])


class Event:
    """A CUDA event by a clock that only calls move."""

    clock = 0.0

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = Event.clock

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return other.at - self.at


class Nvml:
    """The driver's library as ctypes has it, with one GPU; `failing`: a function that answers with an error."""

    def __init__(self, failing=None):
        self.failing = failing

    def answer(self, name, give, *arguments):
        if name != self.failing:
            give(*arguments)
        return 3 if name == self.failing else 0

    def __getattr__(self, name):
        def handle(uuid, to):
            to._obj.value = {b"GPU-1234": 77}[uuid]

        def clock(of, kind, to):
            to._obj.value = {(77, 1): 1755}[of.value, kind]

        def power(of, to):
            to._obj.value = {77: 690500}[of.value]

        def version(to, size):
            to.value = b"580.1"[:size]
        give = {"nvmlInit_v2": lambda: None, "nvmlDeviceGetHandleByUUID": handle, "nvmlDeviceGetClockInfo": clock,
                "nvmlDeviceGetPowerUsage": power, "nvmlSystemGetDriverVersion": version}[name]
        return lambda *arguments: self.answer(name, give, *arguments)


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Boards(unittest.TestCase):
    def asked(self, failing=None):
        with mock.patch.object(torch.cuda, "get_device_properties", lambda _: types.SimpleNamespace(uuid="1234")):
            board = peers_gpu.Board(Nvml(failing))
        return *board.sample(), board.driver()

    def test_what_it_says(self):
        self.assertEqual(self.asked(), (1755, 690.5, "580.1"))

    def test_what_it_cannot_say_is_left_out(self):
        self.assertEqual(self.asked("nvmlInit_v2"), (None, None, None))
        self.assertEqual(self.asked("nvmlDeviceGetHandleByUUID"), (None, None, None))
        self.assertEqual(self.asked("nvmlDeviceGetClockInfo"), (None, 690.5, "580.1"))
        self.assertEqual(self.asked("nvmlDeviceGetPowerUsage"), (1755, None, "580.1"))
        self.assertEqual(self.asked("nvmlSystemGetDriverVersion"), (1755, 690.5, None))


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Clock(unittest.TestCase):
    def watch(self, ms, budget):
        def call():
            Event.clock += ms
        with mock.patch.object(torch.cuda, "Event", Event):
            watch = peers_gpu.Stopwatch(call, budget, None)
            self.assertAlmostEqual(watch.round(kept=False), ms)
            self.assertAlmostEqual(watch.round(), ms)
            self.assertAlmostEqual(watch.round(), ms)
        return watch

    def test_groups_fill_the_time(self):
        for ms, budget, groups, n in ((0.5, 10, 5, 4), (4.0, 10, 2, 1), (30.0, 10, 2, 1), (0.001, 10, 5, 2000)):
            watch = self.watch(ms, budget)
            self.assertEqual((watch.groups, watch.n), (groups, n), ms)

    def test_as_much_of_the_same_comes_first(self):
        for ms, lead, before in ((0.5, 75, 150), (30.0, 75, 2), (200.0, 75, 1), (0.5, 0, 3)):
            calls = []
            with mock.patch.object(torch.cuda, "Event", Event):
                watch = peers_gpu.Stopwatch(lambda: calls.append(setattr(Event, "clock", Event.clock + ms)), 10, None, lead)
                made = len(calls)
                self.assertAlmostEqual(watch.round(), ms)
            self.assertEqual(len(calls) - made, before + watch.groups * watch.n)
            self.assertEqual(watch.result()["calls"], watch.groups * watch.n)

    def test_only_what_is_kept_counts(self):
        found = self.watch(0.5, 10).result(calls=10)
        self.assertAlmostEqual(found["ms"], 0.05)
        self.assertEqual((found["calls"], found["clock"]), (2 * 5 * 4 * 10, None))


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Program(unittest.TestCase):
    """bench/peers.py from its options to its files, all but the GPU."""

    def run_it(self, folder, *options):
        stand_in = types.SimpleNamespace(Board=lambda: None, ceilings=lambda ms, board: {"cublas_tflops": 1.0, "copy_gbs": 2.0},
                                         Gpu=lambda ms, board, lead: Gpu())
        ours = who.Sdpa(SDPBackend.MATH, cells.HALVES)
        ours.fatune = types.SimpleNamespace(version=lambda: "0")
        everyone = {"fatune": ours, "cudnn": who.Sdpa(SDPBackend.MATH, cells.HALVES)}
        facts = {"gpu": "NVIDIA X1", "date": "2026-11-22T00:00:00Z", "seed": 1}
        out = io.StringIO()
        with mock.patch.object(peers, "environment", lambda: (torch, stand_in)), \
                mock.patch.object(peers, "facts_of", lambda *_: dict(facts)), \
                mock.patch.object(who, "peers", lambda *_: (everyone, {"fa3": "no module"})), \
                mock.patch.object(sys, "argv", ["peers.py", *options, "-o", folder]), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
            return peers.main(), out.getvalue()

    def test_two_runs_of_two_kinds(self):
        shapes = [cells.cell("grid", t, 1, 2, n, 32, n > 40) for t in cells.HALVES for n in (32, 64)]
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(cells, "grid", lambda *_: shapes):
            parts = [self.run_it(folder, "--sets", "grid", "--data", "normal,rise4", "--split", f"{i}/2", "--name", f"part{i}")
                     for i in (1, 2)]
            self.assertEqual([code for code, _ in parts], [0, 0], parts)
            self.assertIn("absent: FlashAttention-3: no module", parts[0][1])
            self.assertEqual(self.run_it(folder, "--sets", "grid", "--name", "part1", "--after", os.path.join(folder, "part1.tsv")),
                             (2, ""))
            rows, facts = files.read_all([os.path.join(folder, f"part{i}.tsv") for i in (1, 2)])
        self.assertEqual([(r["run"], r["data"]) for r in rows],
                         [(run, kind) for run in (1, 2) for kind in ("normal", "rise4") for _ in range(4)])
        self.assertEqual((facts["cublas_tflops"], facts["joined"]), (1.0, []))
        self.assertEqual(facts["absent"]["fa3"], "no module")
        self.assertEqual({p["ms"] for r in rows for p in r["peers"].values()}, {4.0})
        self.assertIn("no cell below 1.0: holds in both runs", parts[1][1])
        self.assertIn("RMS at most 1.3 x: holds in both runs", parts[1][1])


class Order(unittest.TestCase):
    def test_rounds_that_count_come_after_all_are_warm(self):
        seen = []

        class Noted:
            def __init__(self, name):
                self.name = name

            def round(self, kept=True):
                seen.append((self.name, kept))
                return 1.0
        watches = {name: Noted(name) for name in "abc"}
        rules.warm_up(watches)
        rules.measure(watches, 3)
        self.assertEqual([kept for _, kept in seen], [False] * 6 + [True] * 9)
        self.assertEqual("".join(name for name, _ in seen), "abcbca" + "abcbcacab")


if __name__ == "__main__":
    unittest.main()
