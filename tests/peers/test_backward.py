"""test_backward.py -- the backward in the benchmark beside peers: its cells, rows, tables and files; with PyTorch on the CPU
also how it is called and judged, what a proxy chooses, and what --memory says."""

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

from peers_rows import BENCH, FACTS, row
import peers
import peers_cells as cells
import peers_files as files
import peers_plot as plot
import peers_table as table
import peers_text as text

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch
    from torch.nn.attention import SDPBackend
    import peers_backward as backward
    import peers_judge
    import peers_measure as measure
    import peers_who as who
    import test_measure
    sys.path.insert(0, os.path.join(BENCH, "..", "bindings", "python"))

RMS = {"rms_dq": 2.0, "rms_dk": 1.0, "rms_dv": 1.0}


def rows(op="bwd", run=1, **more):
    """Four cells: us in 1 ms, cuDNN in 1.25, FlashAttention-2 in 2; deterministic 1.25 and 4."""
    found = []
    for c in cells.grid(["bf16"], [64, 128], [False, True], [1024], op):
        r = row(c, 1.0, run=run, fatune=1.0, cudnn=1.25, fa2=2.0, **{"fatune:det": 1.25, "fa2:det": 4.0}, **more)
        r.update(pytorch_dq=1.5, pytorch_dk=1.0, pytorch_dv=1.0)
        for p in r["peers"].values():
            p.update(RMS, rms=1.4)
        found.append(r)
    return found


class Cells(unittest.TestCase):
    def test_operations(self):
        of = {op: cells.grid(["bf16"], [128], [False, True], [4096], op) for op in cells.OPS}
        self.assertEqual([c["set"] for cs in of.values() for c in cs], ["grid"] * 2 + ["grid-bwd"] * 2 + ["grid-both"] * 2)
        self.assertEqual(cells.flop(of["fwd"][0]), 549755813888)
        for op, factor in (("bwd", 2.5), ("both", 3.5)):
            self.assertEqual([cells.flop(c) for c in of[op]], [factor * cells.flop(c) for c in of["fwd"]])
            self.assertEqual({cells.op_of(c) for c in of[op]}, {op})
            self.assertTrue(all(cells.is_grid(c["set"]) for c in of[op]))
        self.assertEqual([cells.label(cs[1]) for cs in of.values()], [
            "bf16 b4 h16 n4096 d128 causal" + end for end in ("", " bwd", " both")])
        self.assertEqual(cells.op_of(cells.small(["bf16"])[0]), "fwd")

    def run_it(self, *options):
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["peers.py", "--plan", "--dtypes", "bf16", *options]), contextlib.redirect_stdout(out):
            self.assertEqual(peers.main(), 0)
        return out.getvalue()

    def test_plan(self):
        self.assertRegex(self.run_it("--ops", "bwd"), r"^36 cells, 1 kinds of data, 2 runs: 72 measurements of up to 7 peers")
        self.assertRegex(self.run_it("--ops", "bwd,both", "--data", "normal,wide", "--split", "1/2", "--peers", "cudnn,fa2,memeff", "--det",
                                     "--proxy", "A100,T4"), r"^36 cells, 2 kinds of data, 2 runs: 144 measurements of up to 9 peers")
        self.assertRegex(self.run_it("--ops", "fwd,bwd", "--sets", "grid,decode"), "^81 cells")
        self.assertRegex(self.run_it("--kernel", "none", "--det", "--peers", "memeff"), "up to 1 peers")
        said = [self.run_it("--sets", "grid", "--ops", op, "--lengths", "16384") for op in ("fwd", "bwd", "both")]
        seconds = [int(line.rsplit("about ")[1].split()[0]) for line in said]
        self.assertTrue(seconds[0] < seconds[1] < seconds[2], seconds)

    def test_wrong_use(self):
        for options in (["--ops", "dq"], ["--proxy-top", "2"], ["--proxy", "T4", "--proxy-top", "0"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                self.run_it(*options)


class Tables(unittest.TestCase):
    def test_deterministic_modes_stand_apart(self):
        self.assertEqual(table.bar(rows()[0]), ("cudnn", 1.25))
        s = table.summary(rows() + rows(run=2))
        self.assertEqual(list(s["beside"]), ["cudnn", "fa2"])
        self.assertEqual({name: round(of["geomean"][1], 6) for name, of in s["deterministic"].items()}, {"fatune": 0.8, "fa2:det": 3.2})
        self.assertIn("  deterministic, in every run at least 0.800 x fatune, 3.200 x FlashAttention-2 (deterministic); least 0.80 x "
                      "fatune (b16 h16 n1024 d128 causal bwd), 3.20 x FlashAttention-2 (deterministic) (b16 h16 n1024 d128 causal bwd)",
                      text.kind_lines(s))
        self.assertEqual(table.summary([row(rows()[0]["cell"], fatune=1.0)])["deterministic"], {})

    def test_errors_of_each_gradient(self):
        some = rows()
        self.assertEqual(table.errors(some)["worst_rms"][0], 1.0)
        some[1]["peers"]["fatune"]["rms_dv"] = 1.5  # of the three the worst beside cuDNN's, not in itself
        e = table.errors(some)
        self.assertEqual((e["worst_rms"], e["holds"]), ((1.5, cells.label(some[1]["cell"])), False))
        some[2]["peers"]["fatune"]["rms_dk"] = math.nan
        self.assertEqual(table.errors(some)["worst_rms"][0], math.inf)
        s = table.summary(rows())
        self.assertIn("largest error at most 0.50 of plain PyTorch's in the same dtype, RMS 1.40, of the gradient that is worst in it",
                      "\n".join(text.kind_lines(s)))

    def test_a_wrong_deterministic_mode_fails(self):
        some = rows()
        some[0]["peers"]["fatune:det"]["error"] = 2.1
        self.assertEqual(table.failures(some), ["fatune (deterministic), bf16 b16 h32 n1024 d64 full bwd, normal: more than twice "
                                                "PyTorch's error"])

    def test_ops_are_told_apart(self):
        forward = [row(c, fatune=1.0, cudnn=1.1) for c in cells.grid(["bf16"], [64], [False], [1024])]
        report = text.report(forward + rows() + rows("both"), FACTS, {})
        for line in ("bf16, normal data, 16384 tokens, h*d = 2048: TFLOP/s, and times the speed of the fastest peer there",
                     "bf16, backward, normal data, 16384 tokens, h*d = 2048: TFLOP/s, and times the speed of the fastest peer there",
                     "== grid-bwd, bf16: every kind of data, the worst first; run 1",
                     "== grid-both, bf16: every kind of data, the worst first; run 1"):
            self.assertIn(line, report)
        self.assertTrue(any(line.startswith("bf16, forward and backward, share of cuBLAS at N = 1024: d64 full") for line in report))
        picture = plot.svg(forward + rows() + rows("both"), FACTS)
        for title in ("forward, bf16", "backward, bf16", "forward and backward, bf16"):
            self.assertIn(f">{title}: times the speed of", picture)

    def test_files_keep_every_gradient(self):
        some = rows() + rows("both")
        found, facts = files.read(files.tsv(some, FACTS))
        self.assertEqual([r["cell"] for r in found], [r["cell"] for r in some])
        for r in found:
            self.assertEqual((r["pytorch_dq"], r["pytorch_dv"], r["error_pytorch"]), (1.5, 1.0, 1.0))
            self.assertEqual({name: r["peers"]["fa2:det"][name] for name in RMS}, RMS)
        joined, _ = files.join([("a", found[:4], facts), ("b", found[4:], facts)])
        self.assertEqual(len(joined), 8)

    def test_a_proxy_of_each_op(self):
        some = [{**r, "peers": {**r["peers"], "proxy:A100": {"ms": 1.6, "error": 0.5}}} for r in rows()]
        (s,) = table.proxies(some)
        self.assertEqual((s["set"], s["cells"], round(s["beside"]["fa2"]["geomean"][1], 6)), ("grid-bwd", 4, 1.25))
        self.assertIn("PROXY, bf16, backward: the A100's kernels", text.proxy_lines(s, "H200")[0])


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Judged(unittest.TestCase):
    C = {**cells.cell("grid-bwd", "bf16", 2, 4, 40, 16, True, hk=2)}

    def drawn(self, c):
        import peers_data
        given = "bhnd", 1, who.dtype_of(c["dtype"]), "cpu"
        return *peers_data.tensors(c, "normal", *given), peers_data.gradient(c, *given)

    def by_formula(self, q, k, v, dO, causal):
        """dQ, dK, dV without autograd, in double."""
        q, k, v, dO = (t.double() for t in (q, k, v, dO))
        group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
        wide = [t.repeat_interleave(group, 1) for t in (k, v)]
        s = q @ wide[0].mT * scale
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(s.shape[-1] - s.shape[-2] + 1)
        p = torch.nan_to_num(torch.softmax(s.masked_fill(hidden, -math.inf) if causal else s, -1))
        dp = dO @ wide[1].mT
        ds = p * (dp - (dO * (p @ wide[1])).sum(-1, keepdim=True)) * scale
        shared = [t.unflatten(1, (-1, group)).sum(2) for t in (ds.mT @ q, p.mT @ dO)]
        return ds @ wide[0], *shared

    def test_reference(self):
        for c in (self.C, {**self.C, "causal": False}, {**self.C, "q": 55}):  # of 55 rows the first 15 see no key
            tensors = self.drawn(c)
            for found, right in zip(peers_judge.gradients(*tensors, c["causal"], torch.float64), self.by_formula(*tensors, c["causal"])):
                self.assertLess((found - right).abs().max().item(), 1e-12)

    def test_errors_are_multiples_of_pytorch_s(self):
        tensors = self.drawn(self.C)
        judge = peers_judge.Judge(self.C, *tensors)
        plain = peers_judge.gradients(*tensors, True, torch.bfloat16)
        found = judge.errors(plain)
        self.assertEqual((found["error"], found["rms"]), (1.0, 1.0))
        self.assertEqual({name: found[f"rms_{name}"] for name in table.GRADIENTS},
                         {name: judge.facts[f"pytorch_{name}"] for name in table.GRADIENTS})
        exact = [g.clone() for g in judge.reference]
        self.assertEqual(judge.errors(exact)["error"], 0.0)
        exact[1][0, 0, 0, 0] += 1  # one number of dK
        self.assertAlmostEqual(judge.errors(exact)["error"], 1 / judge.plain[1]["error"])
        exact[2][1, 1, 39, 15] = math.nan
        self.assertTrue(math.isnan(judge.errors(exact)["error"]))

    def test_where_pytorch_is_exact(self):
        self.assertEqual([peers_judge.times(*of) for of in ((0.0, 0.0), (1.0, 0.0), (3.0, 2.0))], [0.0, math.inf, 1.5])

    def test_heads_that_a_large_cell_is_judged_by(self):
        tensors = self.drawn(self.C)
        with mock.patch.object(peers_judge, "MOST", 40 * 40 * 2):  # one head of K and V, with its two of Q
            judge = peers_judge.Judge(self.C, *tensors)
        self.assertEqual([tuple(g.shape) for g in judge.reference], [(1, 2, 40, 16), (1, 1, 40, 16), (1, 1, 40, 16)])
        whole = self.by_formula(*tensors, True)
        for some, all_ in zip(judge.reference, whole):
            self.assertLess((some - all_[-1:, -some.shape[1]:]).abs().max().item(), 1e-12)


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Called(unittest.TestCase):
    C = Judged.C
    OPTIONS = types.SimpleNamespace(layout="bhnd", seed=1, errors=True, rounds=3)

    def test_a_backward_alone_has_one_forward(self):
        for op, forwards in (("bwd", 1), ("both", 4)):
            tensors, count = Judged().drawn(self.C), []
            leaves = backward.leaves_of(*tensors[:3])

            def forward():
                count.append(1)
                return peers_judge.attend(*leaves, True, torch.float64).transpose(1, 2).contiguous().transpose(1, 2)
            with torch.enable_grad():
                call = backward.recorded(forward, leaves, tensors[3].double(), op)
                found = [call() for _ in range(3)]
            self.assertEqual(len(count), forwards)
            self.assertTrue(all(leaf.grad is None for leaf in leaves))
            for one in found:
                for a, b in zip(one, peers_judge.gradients(*tensors, True, torch.float64)):
                    self.assertTrue(torch.allclose(a.double(), b, rtol=2 ** -7, atol=1e-5))  # rounded to the leaves' dtype

    def test_the_gradient_of_o_has_its_strides(self):
        seen = []

        class Noted(torch.autograd.Function):
            @staticmethod
            def forward(_, q):
                return q.transpose(1, 2).contiguous().transpose(1, 2)

            @staticmethod
            def backward(_, dO):
                seen.append(dO.stride())
                return dO
        (leaf,) = backward.leaves_of(torch.randn(2, 3, 5, 8))
        with torch.enable_grad():
            backward.recorded(lambda: Noted.apply(leaf), [leaf], torch.randn(2, 3, 5, 8), "bwd")()
        self.assertEqual(seen, [(120, 8, 24, 1)])

    def test_a_forward_that_records_nothing_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "no gradient"), torch.no_grad():
            backward.recorded(lambda: torch.zeros(1), [], torch.zeros(1), "bwd")

    def test_the_deterministic_mode_fills_nothing(self):
        settings = torch.utils.deterministic
        with self.assertRaises(KeyError), backward.deterministic():
            self.assertTrue(torch.are_deterministic_algorithms_enabled() and not settings.fill_uninitialized_memory)
            raise KeyError
        self.assertTrue(not torch.are_deterministic_algorithms_enabled() and settings.fill_uninitialized_memory)

    def everyone(self):
        math_of = {"backend": SDPBackend.MATH, "dtypes": cells.HALVES}
        return {"fatune": who.Sdpa(**math_of), "cudnn": who.Sdpa(**math_of), "fatune:det": who.Sdpa(**math_of, deterministic=True),
                "flashinfer": who.Peer()}

    def test_rows(self):
        for op in ("bwd", "both"):
            with torch.no_grad():
                r = measure.run_cell({**self.C, "set": f"grid-{op}", "hk": 4}, "wide", 1, self.everyone(), self.OPTIONS, test_measure.Gpu())
                self.assertFalse(torch.is_grad_enabled())
            self.assertEqual((list(r["peers"]), r["absent"]), (["fatune", "cudnn", "fatune:det"], {}))
            p = r["peers"]["fatune"]
            self.assertAlmostEqual(p["tflops"], {"bwd": 10, "both": 14}[op] * 2 * 4 * 40 * 40 * 16 / 2 / 3 * 1e-9)
            self.assertTrue(0 < p["error"] < 2 and 0 < p["rms_dq"] and r["error_pytorch"] == 1.0 and r["pytorch_dk"] > 0)

    def test_who_is_asked_what(self):
        forward, both = {**self.C, "set": "grid"}, {**self.C, "set": "grid-both"}
        peer = who.Sdpa(SDPBackend.MATH, cells.HALVES)
        det = who.Sdpa(SDPBackend.MATH, cells.HALVES, deterministic=True)
        self.assertEqual([(peer.wants(c), det.wants(c), who.Peer().wants(c)) for c in (forward, self.C, both)],
                         [(True, False, True), (True, True, False), (True, True, False)])
        module = types.SimpleNamespace(FALLBACK=0, FAIL=1, COMPILE=2, prepare_backward=None)
        for kernel, wanted in ((None, [True, True, True]), ("fwd_ws", [True, False, False]), ("bwd_two", [False, True, False])):
            self.assertEqual([who.Ours(module, kernel, "compile").wants(c) for c in (forward, self.C, both)], wanted, kernel)
        self.assertFalse(who.Ours(types.SimpleNamespace(FALLBACK=0, FAIL=1, COMPILE=2), None, "fail").wants(self.C))

    def test_from_options_to_files(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(
                cells, "grid", lambda dtypes, dims, masks, lengths, op: [{**self.C, "set": f"grid-{op}", "causal": False}]):
            code, said = test_measure.Program().run_it(folder, "--ops", "bwd,both", "--dtypes", "bf16", "--data", "normal,wide", "--det", "--name", "x")
            self.assertEqual(code, 0, said)
            found, _ = files.read_all([os.path.join(folder, "x.tsv")])
        self.assertEqual([(r["run"], r["data"], r["cell"]["set"]) for r in found], [
            (run, kind, f"grid-{op}") for run in (1, 2) for kind in ("normal", "wide") for op in ("bwd", "both")])
        self.assertIn("== grid-both, bf16: every kind of data, the worst first; run 1 and 2", said)
        self.assertIn("RMS at most 1.3 x: holds in both runs", said)

    def test_deterministic_modes_of_packages(self):
        found, absent = who.peers(["fa2", "memeff", "fa3"], [], "compile", [], det=True)
        self.assertEqual(list(found), ["fa2", "memeff", "fa2:det"])
        self.assertEqual(list(absent), ["fa3", "fa3:det"])
        self.assertTrue(found["fa2:det"].deterministic and not found["fa2"].deterministic)
        given, module = [], types.ModuleType("five_here")

        def attention(q, k, v, causal=False, deterministic=False):
            given.append(deterministic)
            return peers_judge.attend(*(t.transpose(1, 2) for t in (q, k, v)), causal, torch.float32).transpose(1, 2)
        module.flash_attn_func = attention
        with mock.patch.dict(sys.modules, five_here=module), torch.enable_grad():
            for det in (False, True):
                peer = who.FlashAttention("five_here", deterministic=det)
                peer.make_backward(self.C, *Judged().drawn(self.C))()
            module.flash_attn_func = lambda q, k, v, causal=False: None
            with self.assertRaisesRegex(RuntimeError, "no deterministic backward"):
                who.FlashAttention("five_here", deterministic=True)
        self.assertEqual(given, [False, True])


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Proxies(unittest.TestCase):
    TOOK = {"slow": 3.0, "quick": 1.0, "unfit": None}  # milliseconds of a config

    def peer(self, log):
        """A proxy whose kernels note their config when they are made and when they run."""
        import peers_proxy

        def launcher(_, problem, config, given, sizes, scale, room):
            log.append(f"make {config}")
            self.assertEqual({name: strides for name, (_, strides) in given.items()}, {"Q": (2560, 640, 16), "LSE": (160, 40)})
            if self.TOOK[config] is None:
                raise peers_proxy.Failed("the config is none for these sizes")
            maker.used[problem, config] = config, "a proxy"
            return lambda stream: log.append(config)

        def probe(call):
            self.assertEqual(call(), "result")
            return self.TOOK[log[-1]]
        maker = type("Maker", (), {"used": {}, "candidates": lambda _, problem: list(self.TOOK), "launcher": launcher})()
        peer = who.Proxy.__new__(who.Proxy)
        peer.maker, peer.proxy, peer.sms, peer.chosen, peer.probe = maker, peers_proxy, 1, {}, probe
        return peer

    def test_a_cell_gets_the_config_that_took_least_when_it_came_first(self):
        log, tensors = [], {"Q": torch.zeros(2, 4, 40, 16), "LSE": torch.zeros(2, 4, 40)}
        peer = self.peer(log)
        stream = types.SimpleNamespace(synchronize=lambda: None, cuda_stream=0)
        with mock.patch.object(torch.cuda, "current_stream", lambda: stream):
            peer.launched(Judged.C, tensors, "result")()
            self.assertEqual(log, ["make slow", "make quick", "make unfit", "slow", "quick", "quick"])
            self.assertEqual(peer.about(Judged.C), {"kernel": "quick", "note": "a proxy"})
            del log[:]
            peer.launched(Judged.C, tensors, "result")
            self.assertEqual(log, ["make quick"])
            with mock.patch.dict(self.TOOK, slow=None, quick=None), self.assertRaisesRegex(Exception, "none for these sizes"):
                peer.launched({**Judged.C, "n": 80}, tensors, "result")

    def test_problems(self):
        self.assertEqual(who.Proxy.problem(Judged.C), "bwd-bf16-b2-h4k2-q40-k40-d16-causal")
        self.assertEqual(who.Proxy.problem(cells.cell("grid", "f16", 1, 4, 40, 16, False)), "fwd-f16-b1-h4-q40-k40-d16")


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Memory(unittest.TestCase):
    def rows(self, **bytes_of):
        return [{"peer": name, "dtype": "bf16", "causal": False, "bytes": dict(zip((16384, 65536), of))}
                for name, of in bytes_of.items()]

    def test_what_is_linear(self):
        import peers_memory as memory
        for of, code, word in (((100 << 20, 400 << 20), 0, "linear in N: bytes per row grow by 1.000"),
                               ((100 << 20, 412 << 20), 1, "grow by 1.030"), ((100 << 20, "out of memory"), 1, "no figure")):
            found, line = memory.verdict(self.rows(fatune=of, fa2=(1 << 20, 16 << 20)))
            self.assertEqual(found, code)
            self.assertIn(word, line)
        lines = memory.lines_of(self.rows(fatune=(100 << 20, 400 << 20), cudnn=(1 << 20, "out of memory")))
        self.assertEqual(lines[2].split(), ["bf16", "full", "fatune", "100.0", "400.0", "6400", "1.000"])
        self.assertEqual(lines[3].split(), ["bf16", "full", "cuDNN", "1.0", "-", "out", "of", "memory"])

    def test_a_step_is_counted_after_one_that_is_not(self):
        import peers_memory as memory
        log, c = [], cells.cell("grid-both", "bf16", 1, 2, 8, 16, True)

        class Noted(who.Sdpa):
            def make_backward(self, *given):
                call = super().make_backward(*given)
                return lambda: (log.append("step"), call())[1]
        stand_in = {"synchronize": lambda: None, "empty_cache": lambda: None, "memory_allocated": lambda: log.append("held") or 7,
                    "reset_peak_memory_stats": lambda: log.append("reset"), "max_memory_allocated": lambda: log.append("peak") or 50}
        with contextlib.ExitStack() as stack:
            for name, function in stand_in.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, function))
            stack.enter_context(mock.patch.object(memory, "LENGTHS", (8, 16)))
            options = types.SimpleNamespace(layout="bhnd", seed=1)
            self.assertEqual(memory.peak(Noted(SDPBackend.MATH, cells.HALVES), c, options, test_measure.Gpu()), 43)
            self.assertEqual(log, ["step", "held", "reset", "step", "peak"])
            found = memory.measured({"fa2": who.Sdpa(SDPBackend.MATH, cells.HALVES), "flashinfer": who.Peer()}, ["bf16"], options, test_measure.Gpu())
        self.assertEqual([(row["peer"], row["causal"], row["bytes"]) for row in found],
                         [("fa2", causal, {8: 43, 16: 43}) for causal in (False, True)])
        self.assertEqual({c["set"] for c in memory.cells_of(["bf16"])}, {"grid-both"})


if __name__ == "__main__":
    unittest.main()
