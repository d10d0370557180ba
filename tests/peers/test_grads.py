"""test_grads.py BUILD -- bench/peers_grads.py, and fatune's own backward in the benchmark, on the fake driver with PyTorch's
CPU tensors: small cases of each list, and what must fail. Skipped where PyTorch is not installed."""

import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    BUILD, FOLDER = os.path.abspath(sys.argv[1]), tempfile.TemporaryDirectory()
    for name in ("FAKE_CUDA_FAULT", "FAKE_CUDA_SOURCES", "FAKE_CUDA_DB", "CUDA_VISIBLE_DEVICES"):
        os.environ.pop(name, None)
    os.environ.update(FATUNE_DB=os.path.join(FOLDER.name, "fatune.db"), FATUNE_SYSTEM_DB="", FAKE_CUDA_DEVICES="H200",
                      FAKE_CUDA_EMULATE="reference", FATUNE_LIBCUDA=os.path.join(BUILD, "tests", "fake_cuda.so"),
                      FATUNE_LIBRARY=os.path.join(BUILD, "runtime", "libfatune.so"),
                      FATUNE_JIT=os.path.join(BUILD, "runtime", "libfatune-jit.so"))
    if not importlib.util.find_spec("torch"):
        print("skipped: there is no PyTorch")
        sys.exit(77)
sys.path[:0] = [os.path.join(HERE, "..", "..", folder) for folder in ("bench", "bindings/python", "tests/python")]

import torch  # noqa: E402
import fatune  # noqa: E402
import lent  # noqa: E402
import peers_cells as cells  # noqa: E402
import peers_grads as grads  # noqa: E402
import peers_measure as measure  # noqa: E402
import peers_suites as suites  # noqa: E402
import peers_who as who  # noqa: E402
from test_measure import Gpu  # noqa: E402

PACKED = grads.Case("fa2 packed", "f16", 1, 2, 2, 24, 24, 32, 32, True, False, False, 2, 0.0)
OUTPUT = grads.Case("fa2 output", "f16", 1, 4, 2, 20, 37, 32, 32, False, True, True, 3, 0.0)
CAUSAL = grads.Case("fa2 causal", "f16", 1, 2, 2, 30, 13, 32, 32, True, False, False, 2, 1e-5)
ALONE = grads.Case("fa3 output", "f16", 1, 2, 1, 23, 1, 32, 32, True, False, False, 2, None)  # one key: PyTorch makes no error
REPEATS = grads.Case("repeats", "f16", 1, 4, 2, 20, 37, 32, 32, True, False, True, 3, None)


def run_list(cases, verdict=grads.verdict):
    with contextlib.redirect_stderr(io.StringIO()):
        return suites.run_list("a list", cases, lambda case: verdict(case, fatune.COMPILE), grads.text)


def scaled(by, which):
    """fatune's own gradients with one of the three, or dQ's first number, off."""
    right = fatune._gradients

    def wrong(ctx, dO):
        found = right(ctx, dO)
        found[which].mul_(by)
        return found
    return mock.patch.object(fatune, "_gradients", wrong)


class Lists(unittest.TestCase):
    def test_counts(self):
        packed, causal = (sum(case.suite == "fa2 " + name for case in grads.fa2_cases()) for name in ("packed", "causal"))
        cases = list(grads.fa2_cases())
        self.assertEqual((packed, causal, len(cases)), (1536, 960, 1536 + 5280 + 960))
        self.assertEqual({case.d for case in cases if case.suite == "fa2 output"}, set(grads.DIMS) - {80})
        found = list(grads.fa3_cases())
        self.assertEqual((len(found), {case.factor for case in found}, {case.floor for case in found}), (3360, {2}, {None}))
        self.assertTrue(all(case.dv <= 256 for case in found))
        self.assertEqual({case.b for case in found if case.nk > 2048}, {2})

    def test_windows_come_after_the_seed(self):
        found = []
        for _ in range(2):
            torch.manual_seed(0)
            found.append(grads.window_of(OUTPUT))
        self.assertTrue(found[0] == found[1] and all(0 <= side < 37 for side in found[0]))
        self.assertEqual(grads.window_of(PACKED), (-1, -1))

    def test_small_ones_pass(self):
        r = run_list([PACKED, OUTPUT, CAUSAL, ALONE, PACKED._replace(d=59, dv=59), ALONE._replace(dv=64)])
        self.assertEqual((r["passed"], r["failed"], r["unsupported"]), (5, 0, 1), r["failures"])
        self.assertTrue(0 < r["worst"] <= 1)
        self.assertIn("multiples of 8", " ".join(r["refused"]))
        self.assertEqual(r["kernels"], {"bwd": 4, "bwd_two": 1})

    def test_wrong_gradients_do_not(self):
        for which, name in enumerate(("dQ", "dK", "dV")):
            with scaled(1.02, which):
                r = run_list([OUTPUT])
            self.assertEqual((r["passed"], r["failed"]), (0, 1))
            self.assertRegex(r["failures"][0], r"^fa2 output: f16 b1 h4k2 q20 k37 d32v32 full window deterministic: "
                             rf"{name} \S+, allowed \S+$")
        with scaled(float("nan"), 0):
            r = run_list([PACKED, ALONE])
        self.assertEqual((r["passed"], r["failed"]), (0, 2))

    def test_rules(self):
        r, far = [torch.full((4,), 2.0) for _ in range(3)], [torch.full((4,), 2.25)] * 3
        plain = [torch.full((4,), 2.0 + e) for e in (0.25, 0.5, 0.0)]
        self.assertEqual(grads.figures(OUTPUT, far, r, plain), [(0.25, 0.75), (0.25, 1.5), (0.25, 0.0)])
        self.assertEqual(grads.figures(PACKED, far, r, plain), [(0.25, 1.0)])
        self.assertEqual([allowed for _, allowed in grads.figures(CAUSAL, far, r, plain)], [0.5 + 1e-5, 1.0 + 1e-5, 1e-5])
        half = [torch.linspace(0.1, 2, 50).half()] * 3
        floor = 2 * (half[0] + 0.3 - 0.3 - half[0]).abs().max().item()
        self.assertTrue(floor > 0)
        self.assertEqual([allowed for _, allowed in grads.figures(ALONE, half, half, half)], [floor] * 3)

    def test_families_are_those_that_are_called(self):
        for case in (PACKED, OUTPUT, CAUSAL, ALONE):
            fatune._plans.clear()
            fatune._known.calls.clear()
            torch.manual_seed(0)
            grads.verdict(case, fatune.COMPILE)
            self.assertEqual({key[1] for key in fatune._plans}, {grads.family_of(case, op) for op in ("fwd", "bwd")})
        self.assertTrue(grads.compile_family("bwd-f16-d32-causal", fatune.COMPILE))
        self.assertFalse(grads.compile_family("bwd-f16-d59-causal", fatune.COMPILE))


class Repeats(unittest.TestCase):
    def test_equal_bits(self):
        r = run_list([REPEATS, REPEATS._replace(det=False)], grads.repeat_verdict)
        self.assertEqual((r["passed"], r["failed"], r["kernels"]), (2, 0, {"bwd": 1, "bwd_two": 1}))

    def test_other_bits(self):
        """A gradient that changes a little after the first time: dQ may where equal bits are not asked for, dK may not."""
        def next_bits(t):
            t.view(torch.int16)[0, 0, 0, 0] += 1
        right = fatune.prepare_backward
        for place, change, wrong in ((0, next_bits, (3, 0)), (1, next_bits, (3, 3)), (0, lambda t: t.mul_(2), (3, 3))):
            def changing(*given, **options):
                call, count = right(*given, **options), []

                def again():
                    call()
                    count.append(1)
                    if len(count) > 1:
                        change(options["gradients"][place])
                return again
            with mock.patch.object(fatune, "prepare_backward", changing):
                self.assertEqual(tuple(grads.differing(REPEATS._replace(det=det), fatune.COMPILE, 3) for det in (True, False)), wrong)

    def test_a_run(self):
        """All that is printed and written; the processes that compile have no GPU here, and say so by what they could not."""
        args = types.SimpleNamespace(policy="compile", dtypes=["f16"], split=(1, 1), fa2_tests=True, fa3_tests=True, repeats=2, jobs=2,
                                     output=FOLDER.name, name="suites")
        said, errors = io.StringIO(), io.StringIO()
        with mock.patch.object(grads, "fa2_cases", lambda: [PACKED, CAUSAL]), mock.patch.object(grads, "fa3_cases", lambda: [ALONE]), \
                mock.patch.object(grads, "repeated_cases", lambda _: [REPEATS, REPEATS._replace(det=False)]), \
                contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            self.assertEqual(suites.run(grads.lists_of(args), args, {"gpu": "X", "date": "2026-11-22"}), 0)
        self.assertRegex(errors.getvalue(), "^0 of 3 families have a kernel")
        for line in ("FlashAttention-2's gradient list: 2 passed, 0 failed, 0 unsupported", "  kernels bwd 2",
                     "2 repeats, bit by bit: 1 passed, 0 failed, 0 unsupported", "  kernels bwd_two 1"):
            self.assertIn(line + "\n", said.getvalue())
        with open(os.path.join(FOLDER.name, "suites.json"), encoding="ascii") as file:
            self.assertEqual([r["passed"] for r in json.load(file)["results"]], [2, 1, 1, 1])

    def test_what_is_repeated(self):
        found = list(grads.repeated_cases(1000))
        self.assertEqual({case.d for case in found if case.det}, {d for d in grads.DIMS if d not in (59, 111)})
        self.assertEqual({(case.det, case.factor) for case in found}, {(True, 1000), (False, 250)})
        args = types.SimpleNamespace(policy="fail", dtypes=["bf16"], split=(1, 4), fa2_tests=True, fa3_tests=False, repeats=5, jobs=1)
        with mock.patch.object(suites, "run_list", lambda name, some, *_: (name, len(some))):
            self.assertEqual([each() for each in grads.lists_of(args)], [
                ("FlashAttention-2's gradient list", 972), ("5 repeats, bit by bit", 15), ("5 repeats of the free choice", 15)])


class Ours(unittest.TestCase):
    def test_rows(self):
        everyone = {"fatune": who.Ours(fatune, None, "compile"), "fatune:det": who.Ours(fatune, None, "compile", deterministic=True),
                    "fatune:bwd_two": who.Ours(fatune, "bwd_two", "compile")}
        options = types.SimpleNamespace(layout="bnhd", seed=1, errors=True, rounds=1)
        for op, kernels in (("bwd", ["bwd", "bwd_two", "bwd_two"]), ("both", ["bwd", "bwd_two"])):
            c = cells.cell(f"grid-{op}", "f16", 1, 4, 40, 32, True, hk=2)
            with torch.no_grad():
                row = measure.run_cell(c, "normal", 1, everyone, options, Gpu())
            self.assertEqual(row["absent"], {})
            found = [p["kernel"].split(" and ")[-1].split(":")[0] for p in row["peers"].values()]
            self.assertEqual(found, kernels)
            self.assertTrue(all(p["error"] <= 2 and 0 < p["rms"] < 2 for p in row["peers"].values()), row["peers"])


if __name__ == "__main__":
    lent.begin()
    suites.DEVICE = "cpu"
    unittest.main(argv=sys.argv[:1])
