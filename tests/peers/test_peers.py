"""test_peers.py -- cells, comparisons, tables and files of the benchmark beside peers on rows written by hand, and
bench/peers.py where there is no GPU."""

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from peers_rows import BENCH, FACTS, row, whole_grid
import peers_cells as cells
import peers_files as files
import peers_plot as plot
import peers_table as table
import peers_text as text


class Cells(unittest.TestCase):
    def test_grid_keeps_tokens_and_width(self):
        found = cells.grid(cells.HALVES, [64, 128, 256], [False, True], cells.LENGTHS)
        self.assertEqual(len(found), 72)
        self.assertEqual({c["b"] * c["n"] for c in found}, {16384})
        self.assertEqual({c["h"] * c["d"] for c in found}, {2048})

    def test_grid_has_as_many_heads_as_fit(self):
        found = cells.grid(["f16"], [40, 96, 2056], [False], [512])
        self.assertEqual([c["h"] for c in found], [51, 21, 1])

    def test_flop(self):
        c = cells.cell("grid", "bf16", 4, 16, 4096, 128, False)
        self.assertEqual(cells.flop(c), 549755813888)
        self.assertEqual(cells.flop({**c, "causal": True}), 274877906944)
        self.assertEqual(cells.flop({**c, "q": 1}), 549755813888 // 4096)
        self.assertAlmostEqual(cells.rates(c, 1.0)["tflops"], 549.755813888)

    def test_windows(self):
        found = cells.window(["bf16"], [64, 128])
        self.assertEqual({c.get("keys") for c in found if c["n"] == 2048}, {None})
        self.assertEqual([c["keys"] for c in found if c["d"] == 64 and "keys" in c], list(cells.WINDOWS))
        c = cells.cell("window", "bf16", 1, 1, 5, 8, True, keys=2)
        self.assertEqual(cells.flop(c), 4 * 8 * (1 + 2 + 2 + 2 + 2))
        self.assertEqual(cells.label(c), "bf16 b1 h1 n5 d8 causal window 2")
        lines = text.report([row(c, fatune=2e-6, fa4=4e-6)], FACTS, {})
        self.assertIn("5 8 2", "\n".join(lines))
        self.assertTrue(any(line.split()[-1:] == ["0.0000"] for line in lines))

    def test_small_shapes(self):
        found = cells.small(["f16"])
        self.assertEqual(len(found), 13)
        self.assertEqual({c["d"] for c in found}, {40, 64, 80, 96, 128, 192})
        self.assertEqual({c["dtype"] for c in found}, {"f16"})

    def test_the_seed_draws_the_lot(self):
        found = cells.small(cells.HALVES, 40, 7)
        self.assertEqual(len(found), 2 * 53)
        self.assertEqual([{**c, "dtype": ""} for c in found[:53]], [{**c, "dtype": ""} for c in found[53:]])
        self.assertEqual(found, cells.small(cells.HALVES, 40, 7))
        self.assertNotEqual(found, cells.small(cells.HALVES, 40, 8))
        self.assertEqual(cells.by_lot(10, 7), cells.by_lot(40, 7)[:10])
        lot = cells.by_lot(400, 7)
        self.assertEqual(len({cells.label(c) for c in lot}), 400)
        for c in lot:
            self.assertEqual(c["h"] % cells.heads_of(c), 0)
            self.assertFalse(c["causal"] and "q" in c)
            self.assertTrue(cells.flop(c) <= 3e11 and 64 <= c["n"] <= 4608 and c["d"] % 8 == 0)
        for name in ("hk", "q"):
            self.assertTrue(40 < sum(name in c for c in lot) < 160, name)
        self.assertTrue(any(c["n"] % 64 for c in lot) and any(c["causal"] for c in lot))

    def test_decoding(self):
        found = cells.decode(["bf16"])
        self.assertEqual([(c["b"], c["n"]) for c in found], list(cells.DECODE))
        self.assertEqual({(cells.rows_of(c), c["h"], cells.heads_of(c), c["d"], c["causal"]) for c in found}, {(1, 32, 8, 128, False)})
        self.assertEqual(cells.bytes_of_kv(found[0]), 2 * 512 * 8 * 128 * 2)
        self.assertAlmostEqual(cells.rates(found[-1], 0.47)["gbs"], 64 * 8192 * 8 * 128 * 4 / 0.47e6)
        for c in found:
            self.assertGreater(cells.copies(c, 60 << 20) * cells.bytes_of_kv(c), 120 << 20)
        self.assertEqual([cells.copies(c, 60 << 20) for c in found[::8]], [61, 1])
        self.assertEqual(cells.label(found[0]), "bf16 b1 h32k8 q1 n512 d128 full")

    def test_parts_are_the_whole(self):
        found = cells.grid(cells.HALVES, [64, 128, 256], [False, True], cells.LENGTHS)
        parts = [cells.part(found, i, 5) for i in range(1, 6)]
        self.assertEqual(sorted(map(cells.label, sum(parts, []))), sorted(map(cells.label, found)))
        self.assertEqual(cells.part(found, 1, 1), found)

    def test_geomean(self):
        self.assertAlmostEqual(table.geomean([1, 4]), 2)
        self.assertAlmostEqual(table.geomean(iter([0.5, 0.5, 4])), 1)
        self.assertIsNone(table.geomean([]))


class Comparisons(unittest.TestCase):
    C = cells.cell("grid", "bf16", 4, 16, 4096, 128, False)

    def test_ratio_is_above_one_where_we_are_faster(self):
        r = row(self.C, fatune=1.0, cudnn=1.2)
        self.assertAlmostEqual(table.ratio(r, "cudnn"), 1.2)
        self.assertIsNone(table.ratio(r, "fa2"))
        self.assertIsNone(table.ratio(row(r["cell"], cudnn=1.0), "cudnn"))

    def test_bar_is_the_fastest_of_the_others(self):
        self.assertEqual(table.bar(row(self.C, fatune=1.0, cudnn=1.2, fa3=1.1, memeff=1.3)), ("fa3", 1.1))
        self.assertEqual(table.bar(row(self.C, fatune=1.0, memeff=0.5)), ("memeff", 0.5))
        self.assertEqual(table.bar(row(self.C, fatune=1.0, before=0.5, fatune__fwd=0.5, proxy__T4=0.5, fa4=2.0)), ("fa4", 2.0))
        self.assertEqual(table.bar(row(self.C, cudnn=1.0)), (None, None))
        self.assertEqual(table.bar(row(self.C, fatune=1.0)), (None, None))

    def test_summary(self):
        rows = whole_grid()
        rows[9]["peers"]["fa3"] = {"ms": rows[9]["peers"]["fatune"]["ms"] * 0.8}
        s = table.summary(rows)
        self.assertEqual((s["set"], s["dtype"], s["data"], s["cells"], s["runs"], s["missing"]), ("grid", "bf16", "normal", 36, [1], []))
        name = table.label(rows[9]["cell"])
        self.assertEqual((s["least"], s["below"]), ({1: (0.8, name)}, {name: {1: 0.8}}))
        self.assertAlmostEqual(s["geomean"][1], ((1 / 0.9) ** 35 * 0.8) ** (1 / 36))
        self.assertAlmostEqual(s["beside"]["cudnn"]["geomean"][1], 1 / 0.9)
        self.assertAlmostEqual(s["of_pytorch"], 0.5)
        self.assertIn("  largest error at most 0.50 of plain PyTorch's in the same dtype", text.kind_lines(s))
        self.assertEqual((s["beside"]["fa3"]["cells"], s["fastest"]), (1, {"cudnn": 35, "fa3": 1}))
        self.assertAlmostEqual(table.shares(rows, 720.0)[1]["d128 full"], 600 / 0.9 / 720)

    def test_summary_names_the_least_cell_of_each_peer(self):
        rows = whole_grid()
        rows[7]["peers"]["fa2"]["ms"] /= 4
        s = table.summary(rows)
        least, name = s["beside"]["fa2"]["least"]
        self.assertAlmostEqual(least, 0.5 / 0.9)
        self.assertEqual(name, table.label(rows[7]["cell"]))
        self.assertAlmostEqual(s["beside"]["cudnn"]["least"][0], 1 / 0.9)
        self.assertIn("0.56 x FlashAttention-2 (b16 h32 n1024 d64 causal)", "\n".join(text.kind_lines(s)))

    def test_summary_without_us(self):
        s = table.summary([row(self.C, cudnn=1.0)])
        self.assertEqual((s["missing"], s["geomean"], s["beside"], s["ahead"]), ([table.label(self.C)], {}, {}, False))
        self.assertIn("nothing to compare", "\n".join(text.kind_lines(s)))
        text.report([row(self.C, cudnn=1.0)], FACTS, {})

    def test_errors_are_held_to_twice_pytorch(self):
        r = row(self.C, fatune=1.0)
        for error, wrong in ((0.02, False), (0.0201, True), (math.nan, True), (math.inf, True)):
            r["peers"]["fatune"]["error"] = error
            self.assertIs(table.is_inaccurate(r), wrong, error)
        self.assertEqual(table.failures([r]), ["fatune, bf16 b4 h16 n4096 d128 full, normal: more than twice PyTorch's error"])
        self.assertEqual(table.largest(0.1, 0.3, 0.2), 0.3)
        self.assertTrue(math.isnan(table.largest(0.1, math.nan, 0.2)))
        r["cell"] = {**self.C, "dtype": "tf32"}
        self.assertFalse(table.is_inaccurate(r))

    def test_half_against_half(self):
        rows = whole_grid("bf16", 0.9) + whole_grid("f16", 1.0)[:-1]
        self.assertAlmostEqual(table.half_against_half(rows), 0.9)
        self.assertIsNone(table.half_against_half(whole_grid()))


class Texts(unittest.TestCase):
    def rows(self):
        rows = whole_grid()
        rows[3]["absent"]["memeff"] = "out of\tmemory\nhere"
        rows[5]["peers"].pop("fatune")
        return rows + [row(c, fatune=0.01, cudnn=0.011, fa2=0.0099, fatune__fwd=0.02) for c in cells.small(["bf16"])]

    def test_grid_table(self):
        rows = whole_grid() + whole_grid(ours=0.8, run=2) + whole_grid(ours=0.1, data="wide")
        rows[5]["peers"].pop("fatune")
        lines = text.grid_table(rows, "bf16")
        self.assertEqual(len(lines), 8)
        self.assertEqual(lines[1].split(), ["N", "512", "1024", "2048", "4096", "8192", "16384"])
        self.assertEqual(lines[4].split()[:4], ["d128", "full", "667", "1.11"])  # the lesser of both runs
        self.assertTrue(lines[2].endswith("-     -"))
        self.assertLess(max(map(len, lines[1:])), 100)

    def test_small_table(self):
        rows = self.rows() + [row(c, run=2, fatune=0.012, cudnn=0.013, fa2=0.0099, fatune__fwd=0.02) for c in cells.small(["bf16"])[:1]]
        lines = text.tables(rows, "small", "bf16")
        self.assertEqual(lines[1].split(), ["fatune", "cuDNN", "FA2", "fwd", "ours/best"])
        self.assertEqual(lines[2].split(), ["1", "8", "128", "64", "full", "12.0", "11.0", "9.9", "20.0", "1.21"])
        self.assertEqual(lines[3].split(), ["1", "32", "128", "128", "causal", "10.0", "11.0", "9.9", "20.0", "1.01"])
        rows[36 + 4]["peers"]["fatune"]["ms"] = 0.02
        self.assertIn("  our time / the fastest peer's: median 1.01; worst 2.02 (b32 h12 n512 d64 full)",
                      text.kind_lines(table.summary(table.pick(rows[:49], "small"))))

    def test_decode_table(self):
        rows = [row(c, run=run, fatune=0.01 * run, cudnn=0.02) for c in cells.decode(["bf16"]) for run in (1, 2)]
        lines = text.tables(rows, "decode", "bf16")
        self.assertEqual(lines[-1].split(), ["64", "8192", "107374", "107374", "1.00"])
        self.assertEqual(len(lines), 2 + 9)

    def test_models_are_told_by_name(self):
        of = {op: cells.models(["bf16"], op) for op in cells.OPS}
        self.assertEqual({op: {c["set"] for c in some} for op, some in of.items()},
                         {"fwd": {"models"}, "bwd": {"models-bwd"}, "both": {"models-both"}})
        self.assertEqual(len({cells.label(c) for some in of.values() for c in some}), sum(map(len, of.values())))
        few = [c for c in of["fwd"] if cells.is_decoding(c)]
        self.assertTrue(few and all(cells.rows_of(c) < 32 and c["n"] > 32 for c in few))
        self.assertTrue(cells.is_graphed(of["fwd"][0]) and not cells.is_graphed(of["bwd"][0]))
        rows = [row(c, fatune=0.01, cudnn=0.02) for some in of.values() for c in some]
        lines = text.tables(rows, "models", "bf16")
        self.assertEqual(lines[2].split(), "1 32/8 512 128 causal (Llama 3 8B, Mistral 7B: prompt) 0.0100 0.0200 0.50".split())
        self.assertTrue(text.tables(rows, "models-bwd", "bf16")[0].startswith("bf16, calls of models, backward"))
        again, _ = files.read(files.tsv(rows, FACTS))
        self.assertEqual([r["cell"] for r in again], [r["cell"] for r in rows])

    def test_report_ends_with_the_kinds(self):
        lines = text.report(self.rows(), FACTS, {"fa4": "No module named 'flash_attn'"})
        whole = "\n".join(lines)
        self.assertIn("seed 1", lines[0])
        self.assertIn("absent: FlashAttention-4: No module named 'flash_attn'", whole)
        self.assertIn("no time: mem-efficient in 1 cells, first bf16 b4 h32 n4096 d64 full", whole)
        self.assertNotIn("derived", whole)
        self.assertIn("cuBLAS bf16 8192^3 720 TFLOP/s", whole)
        self.assertIn("1 cells that fatune has no time for", whole)
        self.assertIn("not shown yet: fewer than two runs", whole)
        last = lines.index("== small, bf16: every kind of data, the worst first; run 1")
        self.assertGreater(last, len(lines) - 13)

    def test_report_says_what_is_wrong(self):
        rows = whole_grid()
        rows[0]["peers"]["fatune"]["error"] = 1.0
        self.assertIn("  WRONG: 1 results with more than twice PyTorch's error: b32 h32 n512 d64 full", text.report(rows, FACTS, {}))

    def test_proxies_are_labelled(self):
        rows = [row(c, proxy__T4=1.0, memeff=2.0) for c in cells.grid(["f16"], [64], [False], [512, 1024])]
        whole = "\n".join(text.report(rows, FACTS, {}))
        self.assertIn("PROXY, f16: the T4's kernels as PTX that the driver compiled for the NVIDIA H200", whole)
        self.assertIn("geometric means over 2 cells: 2.000 x mem-efficient", whole)

    def test_tsv(self):
        rows = self.rows()
        lines = [line.split("\t") for line in files.tsv(rows, FACTS).splitlines()]
        self.assertTrue(lines[0][0].startswith('# {"gpu": "NVIDIA H200"'))
        lines = lines[1:]
        self.assertEqual({len(line) for line in lines}, {len(files.COLUMNS)})
        self.assertEqual(len(lines), 1 + sum(len(r["peers"]) + len(r["absent"]) for r in rows))
        of = [dict(zip(lines[0], line)) for line in lines[1:]]
        missing = next(r for r in of if r["peer"] == "memeff")
        self.assertEqual((missing["ms"], missing["note"]), ("", "out of memory here"))
        first = of[0]
        self.assertEqual([first[name] for name in ("set", "data", "run", "n", "causal", "peer", "rms")],
                         ["grid", "normal", "1", "512", "0", "fatune", "0.0005"])
        self.assertAlmostEqual(float(first["tflops"]), 600 / 0.9, places=2)

    def test_svg(self):
        root = xml.fromstring(plot.svg(self.rows() + whole_grid(data="wide"), FACTS))
        circles = [e for e in root.iter() if e.tag.endswith("circle")]
        series = 3  # the fastest, cuDNN and FlashAttention-2
        self.assertEqual(len(circles), 35 * series + series)
        for e in circles:
            self.assertTrue(0 < float(e.get("cx")) < float(root.get("width")))
            self.assertTrue(0 < float(e.get("cy")) < float(root.get("height")))
        xml.fromstring(plot.svg([], {}))
        xml.fromstring(plot.svg(whole_grid(), {**FACTS, "gpu": "<&>"}))

    def test_save(self):
        with tempfile.TemporaryDirectory() as folder:
            files.save(os.path.join(folder, "new"), "x", self.rows(), FACTS, {})
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
        for option in ("--kernel", "--fa2-tests", "--output", "--dtypes", "rise100"):
            self.assertIn(option, done.stdout)

    def test_wrong_use(self):
        for arguments in (["--dtypes", "fp8"], ["--dims", "0"], ["--rounds", "0"], ["--masks", "left"],
                          ["--proxy-configs", "x.json"], ["--data", "odd"], ["--split", "3/2"], ["--split", "2"], ["--runs", "0"]):
            done = self.run_it(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("peers.py: error:", done.stderr)

    def test_plan(self):
        done = self.run_it("--plan", "--sets", "grid", "--dtypes", "bf16", "--data", "all", "--split", "2/3", "--peers", "cudnn,fa3,fa4")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^12 cells, 10 kinds of data, 2 runs: 240 measurements of up to 4 peers, about \d+ s")

    def test_what_a_call_had_is_left_out_and_files_are_joined(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = [r for run in (1, 2) for r in whole_grid(run=run, ours=0.9 + 0.05 * run)]
            a, b = (os.path.join(folder, name + ".tsv") for name in "ab")
            files.save_tsv(folder, "a", rows[:40], FACTS)
            files.save_tsv(folder, "b", rows[40:], FACTS)
            done = self.run_it("--plan", "--sets", "grid", "--dtypes", "bf16", "--after", a)
            self.assertRegex(done.stdout, r"2 runs: 32 measurements")
            done = self.run_it("--join", a, b, "-o", folder, "--name", "whole")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("geometric mean 1.053 and 1.000", done.stdout)
            self.assertIn("no cell below 1.0: holds in both runs", done.stdout)
            with open(os.path.join(folder, "whole.txt"), encoding="utf-8") as file:
                self.assertEqual(file.read(), done.stdout)
            done = self.run_it("--join", a, a)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"^peers\.py: .*nothing is measured twice in a run\n$")
            self.assertEqual(self.run_it("--join", os.path.join(folder, "none.tsv")).returncode, 2)

    def test_a_broken_limit_fails_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = whole_grid()
            rows[3]["peers"]["fatune"]["rms"] *= 2
            files.save_tsv(folder, "a", rows, FACTS)
            done = self.run_it("--join", os.path.join(folder, "a.tsv"))
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stdout.endswith("FAILED bf16 normal: RMS error above 1.3 x cuDNN's\n"))

    @unittest.skipIf(has_gpu(), "there is a GPU")
    def test_says_that_there_is_no_gpu(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr.splitlines()[-1], r"^peers\.py needs (a GPU|PyTorch)")  # PyTorch may warn before
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
