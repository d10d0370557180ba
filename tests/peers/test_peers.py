"""test_peers.py -- bench/peers_table.py on rows written by hand, and bench/peers.py where there is no GPU."""

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)

import peers_table as table  # noqa: E402

RATIOS = table.read_ratios(os.path.join(BENCH, "peers_fa3.tsv"))
FACTS = {"gpu": "NVIDIA H200", "driver": "580.159", "cuda": "13.0", "torch": "2.11.0", "cudnn": "9.19.0", "commit": "abc",
         "date": "2026-11-21T07:00:00Z", "cublas_tflops": 720.0, "copy_gbs": 4265.0, "clock": 1700, "watts": 690}


def row(c, error_pytorch=1e-2, absent=None, **ms):
    """A row with times in milliseconds by peer, and for each an error of half of PyTorch's."""
    peers = {name.replace("__", ":"): {"ms": t, "ms_low": t, "ms_high": t, "tflops": table.tflops(c, t), "error": error_pytorch / 2,
                                       "clock": 1700, "watts": 690} for name, t in ms.items()}
    return {"cell": c, "peers": peers, "absent": dict(absent or {}), "error_pytorch": error_pytorch}


def whole_grid(dtype="bf16", ours=0.9):
    """36 cells in which cuDNN runs at 600 TFLOP/s, FlashAttention-2 at 300, we in `ours` of cuDNN's time."""
    rows = []
    for c in table.grid([dtype], [64, 128, 256], [False, True], table.LENGTHS):
        ms = table.flop(c) / 600e9
        rows.append(row(c, fatune=ours * ms, cudnn=ms, fa2=2 * ms))
    return rows


class Cells(unittest.TestCase):
    def test_grid_keeps_tokens_and_width(self):
        cells = table.grid(table.HALVES, [64, 128, 256], [False, True], table.LENGTHS)
        self.assertEqual(len(cells), 72)
        self.assertEqual({c["b"] * c["n"] for c in cells}, {16384})
        self.assertEqual({c["h"] * c["d"] for c in cells}, {2048})

    def test_grid_has_as_many_heads_as_fit(self):
        cells = table.grid(["f16"], [40, 96, 2056], [False], [512])
        self.assertEqual([c["h"] for c in cells], [51, 21, 1])

    def test_flop(self):
        c = table.cell("grid", "bf16", 4, 16, 4096, 128, False)
        self.assertEqual(table.flop(c), 549755813888)
        self.assertEqual(table.flop({**c, "causal": True}), 274877906944)
        self.assertAlmostEqual(table.tflops(c, 1.0), 549.755813888)

    def test_windows(self):
        cells = table.window(["bf16"], [64, 128])
        self.assertEqual({c.get("keys") for c in cells if c["n"] == 2048}, {None})
        self.assertEqual([c["keys"] for c in cells if c["d"] == 64 and "keys" in c], list(table.WINDOWS))
        c = {**table.cell("window", "bf16", 1, 1, 5, 8, True), "keys": 2}
        self.assertEqual(table.flop(c), 4 * 8 * (1 + 2 + 2 + 2 + 2))
        self.assertEqual(table.label(c), "bf16 b1 h1 n5 d8 causal window 2")
        text = "\n".join(table.report([row(c, fatune=2e-6, fa4=4e-6)], FACTS, {}))
        self.assertIn("5 8 2", text)
        self.assertIn("0.0000", text)

    def test_small_shapes(self):
        cells = table.small(["f16"])
        self.assertEqual(len(cells), 13)
        self.assertEqual({c["d"] for c in cells}, {40, 64, 80, 96, 128, 192})
        self.assertEqual({c["dtype"] for c in cells}, {"f16"})

    def test_geomean(self):
        self.assertAlmostEqual(table.geomean([1, 4]), 2)
        self.assertAlmostEqual(table.geomean(iter([0.5, 0.5, 4])), 1)
        self.assertIsNone(table.geomean([]))


class Derived(unittest.TestCase):
    def test_ratios_are_those_measured(self):
        self.assertEqual(len(RATIOS), 36)
        self.assertEqual(RATIOS[128, True, 8192], 1.150)
        self.assertAlmostEqual(table.geomean(RATIOS.values()), 1.064, places=3)
        self.assertAlmostEqual(table.geomean(max(1, v) for v in RATIOS.values()), 1.081, places=3)

    def test_time_is_that_of_cudnn_over_the_ratio(self):
        r = row(table.cell("grid", "bf16", 4, 16, 4096, 128, False), absent={"fa3": "no module"}, fatune=1.0, cudnn=1.071)
        table.derive(r, RATIOS)
        self.assertAlmostEqual(r["peers"]["fa3"]["ms"], 1.0)
        self.assertAlmostEqual(r["peers"]["fa3"]["tflops"], 549.755813888)
        self.assertIs(r["peers"]["fa3"]["derived"], True)
        self.assertNotIn("fa3", r["absent"])
        self.assertIn("derived", r["peers"]["fa3"]["note"])
        self.assertNotIn("bf16", r["peers"]["fa3"]["note"])

    def test_f16_says_whose_ratio_it_is(self):
        r = row(table.cell("grid", "f16", 4, 16, 4096, 128, False), cudnn=1.071)
        table.derive(r, RATIOS)
        self.assertIn("the ratio of bf16", r["peers"]["fa3"]["note"])

    def test_never_in_place_of_a_measurement_or_without_grounds(self):
        c = table.cell("grid", "bf16", 4, 16, 4096, 128, False)
        measured = row(c, cudnn=1.0, fa3=0.5)
        table.derive(measured, RATIOS)
        self.assertEqual(measured["peers"]["fa3"]["ms"], 0.5)
        self.assertNotIn("derived", measured["peers"]["fa3"])
        for other in (row(c, fatune=1.0), row({**c, "n": 4095}, cudnn=1.0), row({**c, "set": "small"}, cudnn=1.0),
                      row({**c, "dtype": "f32"}, cudnn=1.0)):
            table.derive(other, RATIOS)
            self.assertNotIn("fa3", other["peers"])
        elsewhere = row(c, cudnn=1.0)
        table.derive(elsewhere, {})
        self.assertNotIn("fa3", elsewhere["peers"])


class Comparisons(unittest.TestCase):
    def test_ratio_is_above_one_where_we_are_faster(self):
        r = row(table.cell("grid", "bf16", 4, 16, 4096, 128, False), fatune=1.0, cudnn=1.2)
        self.assertAlmostEqual(table.ratio(r, "cudnn"), 1.2)
        self.assertIsNone(table.ratio(r, "fa2"))
        self.assertIsNone(table.ratio(row(r["cell"], cudnn=1.0), "cudnn"))

    def test_bar_is_the_faster_of_those_a_cell_is_held_against(self):
        c = table.cell("grid", "bf16", 4, 16, 4096, 128, False)
        self.assertEqual(table.bar(row(c, fatune=1.0, cudnn=1.2, fa3=1.1, memeff=0.1)), ("fa3", 1.1))
        self.assertEqual(table.bar(row(c, fatune=1.0, memeff=0.1)), (None, None))
        self.assertEqual(table.bar(row(c, cudnn=1.0)), (None, None))
        self.assertEqual(table.bar(row({**c, "set": "small"}, fatune=1.0, cudnn=1.2, memeff=0.5)), ("memeff", 0.5))
        self.assertEqual(table.bar(row({**c, "dtype": "tf32"}, fatune=1.0, memeff=3.0)), ("memeff", 3.0))

    def test_summary(self):
        rows = whole_grid()
        for r in rows:
            table.derive(r, RATIOS)
        s = table.summary(rows, "bf16", 720.0)
        self.assertEqual((s["cells"], s["bar_cells"], s["without_ours"]), (36, 36, 0))
        self.assertAlmostEqual(s["geomean"]["cudnn"], 1 / 0.9)
        self.assertAlmostEqual(s["geomean"]["fa2"], 2 / 0.9)
        self.assertAlmostEqual(s["geomean_bar"], 1 / 0.9 / table.geomean(max(1, v) for v in RATIOS.values()))
        self.assertEqual(s["below_1"], sum(1 for v in RATIOS.values() if v > 1 / 0.9))
        self.assertEqual(s["below_0.95"], sum(1 for v in RATIOS.values() if v > 1 / 0.9 / 0.95))
        self.assertGreater(s["below_1"], s["below_0.95"])
        self.assertEqual(s["worst"][0]["cell"], "bf16 b4 h8 n4096 d256 causal")
        self.assertAlmostEqual(s["share_of_cublas"]["d128 full"], 600 / 0.9 / 720)
        self.assertAlmostEqual(s["error_of_pytorch"]["fatune"], 0.5)

    def test_summary_names_the_least_cell_of_each_peer(self):
        rows = whole_grid()
        rows[7]["peers"]["fa2"]["ms"] /= 4
        s = table.summary(rows, "bf16", 720.0)
        least, cell = s["least"]["fa2"]
        self.assertAlmostEqual(least, 0.5 / 0.9)
        self.assertEqual(cell, table.label(rows[7]["cell"]))
        self.assertAlmostEqual(s["least"]["cudnn"][0], 1 / 0.9)
        self.assertIn(f"0.56 x FlashAttention-2 ({cell})", "\n".join(table.summary_lines(s)))

    def test_summary_without_us(self):
        rows = [row(table.cell("grid", "bf16", 4, 16, 4096, 128, False), cudnn=1.0)]
        s = table.summary(rows, "bf16", 720.0)
        self.assertEqual((s["without_ours"], s["geomean"], s["geomean_bar"]), (1, {}, None))

    def test_errors_are_held_to_twice_pytorch(self):
        c = table.cell("grid", "bf16", 4, 16, 4096, 128, False)
        r = row(c, fatune=1.0)
        for error, wrong in ((0.02, False), (0.0201, True), (math.nan, True), (math.inf, True)):
            r["peers"]["fatune"]["error"] = error
            self.assertIs(table.is_inaccurate(r), wrong, error)
        self.assertEqual(table.largest(0.1, 0.3, 0.2), 0.3)
        self.assertTrue(math.isnan(table.largest(0.1, math.nan, 0.2)))
        r["cell"] = {**c, "dtype": "tf32"}
        self.assertFalse(table.is_inaccurate(r))

    def test_half_against_half(self):
        rows = whole_grid("bf16", 0.9) + whole_grid("f16", 1.0)[:-1]
        self.assertAlmostEqual(table.half_against_half(rows), 0.9)
        self.assertIsNone(table.half_against_half(whole_grid()))


class Texts(unittest.TestCase):
    def rows(self):
        rows = whole_grid()
        for r in rows:
            table.derive(r, RATIOS)
        rows[3]["absent"]["memeff"] = "out of\tmemory\nhere"
        rows[5]["peers"].pop("fatune")
        return rows + [row(c, fatune=0.01, cudnn=0.011, fa2=0.0099, fatune__fwd=0.02) for c in table.small(["bf16"])]

    def test_grid_table(self):
        lines = table.grid_table(self.rows(), "bf16")
        self.assertEqual(len(lines), 8)
        self.assertEqual(lines[1].split(), ["N", "512", "1024", "2048", "4096", "8192", "16384"])
        self.assertEqual(lines[4].split()[:4], ["d128", "full", "667", "1.10*"])  # 1 / 0.9 / 1.007
        self.assertEqual(lines[2].split()[:4], ["d64", "full", "667", "1.11"])  # cuDNN leads here
        self.assertTrue(lines[2].endswith("-    -"))
        self.assertLess(max(map(len, lines[1:])), 100)

    def test_small_table(self):
        lines = table.small_table(self.rows(), "bf16")
        self.assertEqual(lines[1].split()[5:], ["fatune", "cuDNN", "FA2", "fwd", "ours/best"])
        self.assertEqual(lines[2].split(), ["1", "8", "128", "64", "full", "10.0", "11.0", "9.9", "20.0", "1.01"])
        self.assertEqual(lines[-1], "above 1.02: 0 of 13")

    def test_report_ends_with_the_means(self):
        lines = table.report(self.rows(), FACTS, {"fa4": "No module named 'flash_attn'"})
        text = "\n".join(lines)
        self.assertIn("absent: FlashAttention-4: No module named 'flash_attn'", text)
        self.assertIn("no time: mem-efficient in 1 cells, first bf16 b4 h32 n4096 d64 full", text)
        self.assertIn("* FlashAttention-3 did not run", text)
        self.assertIn("cuBLAS bf16 8192^3 720 TFLOP/s", text)
        self.assertIn("1 cells that fatune has no time for", text)
        last = lines.index(next(line for line in lines if line.startswith("bf16 geometric means over 36 cells")))
        self.assertGreater(last, len(lines) - 7)

    def test_report_says_what_is_wrong(self):
        rows = whole_grid()
        rows[0]["peers"]["fatune"]["error"] = 1.0
        self.assertIn("  WRONG: 1 cells with more than twice PyTorch's error", table.report(rows, FACTS, {}))

    def test_tsv(self):
        rows = self.rows()
        lines = [line.split("\t") for line in table.tsv(rows).splitlines()]
        self.assertEqual({len(line) for line in lines}, {len(table.COLUMNS)})
        self.assertEqual(len(lines), 1 + sum(len(r["peers"]) + len(r["absent"]) for r in rows))
        of = [dict(zip(lines[0], line)) for line in lines[1:]]
        derived = [r for r in of if r["derived"] == "1"]
        self.assertEqual({r["peer"] for r in derived}, {"fa3"})
        self.assertEqual(len(derived), 36)
        missing = next(r for r in of if r["peer"] == "memeff")
        self.assertEqual((missing["ms"], missing["note"]), ("", "out of memory here"))
        first = of[0]
        self.assertEqual((first["set"], first["n"], first["causal"], first["peer"]), ("grid", "512", "0", "fatune"))
        self.assertAlmostEqual(float(first["tflops"]), 600 / 0.9, places=2)

    def test_svg(self):
        root = xml.fromstring(table.svg(self.rows(), FACTS))
        circles = [e for e in root.iter() if e.tag.endswith("circle")]
        series = 3  # the bar, cuDNN and FlashAttention-2
        self.assertEqual(len(circles), 35 * series + series)
        for e in circles:
            self.assertTrue(0 < float(e.get("cx")) < float(root.get("width")))
            self.assertTrue(0 < float(e.get("cy")) < float(root.get("height")))
        xml.fromstring(table.svg([], {}))
        xml.fromstring(table.svg(whole_grid(), {**FACTS, "gpu": "<&>"}))

    def test_save(self):
        with tempfile.TemporaryDirectory() as folder:
            table.save(os.path.join(folder, "new"), "x", self.rows(), FACTS, {})
            names = sorted(os.listdir(os.path.join(folder, "new")))
            self.assertEqual(names, ["x.json", "x.svg", "x.tsv", "x.txt"])
            with open(os.path.join(folder, "new", "x.json"), encoding="utf-8") as file:
                whole = json.load(file)
        self.assertEqual(whole["facts"], FACTS)
        self.assertEqual(len(whole["rows"]), 49)
        self.assertEqual(whole["summaries"][0]["cells"], 36)


def has_gpu():
    if not importlib.util.find_spec("torch"):
        return False
    import torch
    return torch.cuda.is_available()


class Program(unittest.TestCase):
    def run_it(self, *arguments):
        return subprocess.run([sys.executable, "-B", os.path.join(BENCH, "peers.py"), *arguments], capture_output=True, text=True,
                              timeout=120)

    def test_help(self):
        done = self.run_it("--help")
        self.assertEqual(done.returncode, 0)
        for option in ("--kernel", "--fa2-tests", "--output", "--dtypes"):
            self.assertIn(option, done.stdout)

    def test_wrong_use(self):
        for arguments in (["--dtypes", "fp8"], ["--dims", "0"], ["--rounds", "0"], ["--masks", "left"],
                          ["--proxy-configs", "x.json"]):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("peers.py: error:", done.stderr)

    @unittest.skipIf(has_gpu(), "there is a GPU")
    def test_says_that_there_is_no_gpu(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"^peers\.py needs (a GPU|PyTorch)")
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))


if __name__ == "__main__":
    unittest.main()
