"""test_rules.py -- the rules of a figure beside the other libraries: when a peer is warm, two whole runs, what is below,
and that joined files are refused where one would be chosen over another."""

import collections
import copy
import os
import tempfile
import unittest

from peers_rows import FACTS, row, whole_grid
import peers_cells as cells
import peers_files as files
import peers_rules as rules
import peers_table as table
import peers_text as text


class Watch:
    def __init__(self, times):
        self.times, self.kept = iter(times), []

    def round(self, kept=True):
        self.kept.append(kept)
        return next(self.times)


class Turns(unittest.TestCase):
    def test_nobody_always_follows_the_same(self):
        for count in range(1, 9):
            names = list("abcdefgh"[:count])
            rounds = count * (1 + count % 2)
            follows = collections.Counter()
            for i in range(rounds):
                order = rules.in_turn(names, i)
                self.assertEqual(sorted(order), names)
                follows.update(zip(order, order[1:]))
            self.assertEqual(len(follows), count * (count - 1))
            self.assertLessEqual(len(set(follows.values())), 1)


class Warm(unittest.TestCase):
    def test_two_rounds_that_agree_within_two_percent(self):
        for times, is_settled in (([], False), ([1.0], False), ([1.0, 1.02], True), ([1.02, 1.0], True), ([1.0, 1.021], False),
                                  ([1.0, 1.0, 1.5], False), ([3.0, 1.0, 1.0], True)):
            self.assertIs(rules.settled(times), is_settled, times)

    def test_each_peer_until_it_settles(self):
        watches = {"quick": Watch([1, 1]), "slow": Watch([9, 5, 3, 2, 2]), "never": Watch([1, 2] * 5)}
        self.assertEqual(rules.warm_up(watches), {"quick": (2, True), "slow": (5, True), "never": (10, False)})
        self.assertEqual({kept for w in watches.values() for kept in w.kept}, {False})
        self.assertEqual(rules.warm_up({}), {})

    def test_the_row_says_who_did_not(self):
        r = row(cells.cell("grid", "bf16", 4, 16, 4096, 128, False), fatune=1.0, cudnn=1.2)
        r["peers"]["cudnn"].update(warm=10, settled=False)
        s = table.summary([r])
        self.assertEqual(s["unsettled"], ["cuDNN in bf16 b4 h16 n4096 d128 full, run 1"])
        self.assertIn("did not settle within 10 rounds: cuDNN in", "\n".join(text.kind_lines(s)))
        column = [dict(zip(files.COLUMNS, line.split("\t"))) for line in files.tsv([r], {}).splitlines()[1:]]
        self.assertEqual([(p["peer"], p["warm"], p["settled"]) for p in column], [("fatune", "2", "1"), ("cudnn", "10", "0")])


class Runs(unittest.TestCase):
    C = cells.cell("grid", "bf16", 4, 16, 4096, 128, False)

    def of(self, *ratios, kind="normal"):
        return [row(self.C, run=i + 1, data=kind, fatune=1.0, cudnn=v, fa2=9.0) for i, v in enumerate(ratios)]

    def test_a_statement_holds_in_both_or_not(self):
        self.assertIs(rules.holds({1: 2, 2: 3}, lambda v: v > 1), True)
        self.assertIs(rules.holds({1: 2, 2: 0}, lambda v: v > 1), False)
        self.assertIs(rules.holds({1: 0}, lambda v: v > 1), False)
        self.assertIsNone(rules.holds({1: 2}, lambda v: v > 1))
        self.assertEqual(len({rules.verdict(v) for v in (True, False, None)}), 3)

    def test_no_cell_below(self):
        for ratios, ahead, below in (((1.1, 1.0), True, {}), ((0.995, 1.1), True, {}), ((1.1, 0.994), False, {2: 0.994}),
                                     ((0.9, 0.8), False, {1: 0.9, 2: 0.8}), ((1.1,), None, {})):
            s = table.summary(self.of(*ratios))
            self.assertIs(s["ahead"], ahead, ratios)
            self.assertEqual(s["below"], {"bf16 b4 h16 n4096 d128 full": below} if below else {})
            self.assertEqual(table.in_both(s), min(ratios))

    def test_a_cell_that_one_run_lacks_is_not_ahead(self):
        rows = self.of(1.2, 1.2)
        rows.append(row({**self.C, "n": 2048}, run=1, fatune=1.0, cudnn=1.2))
        self.assertIs(table.summary(rows)["ahead"], False)
        rows.append(row({**self.C, "n": 2048}, run=2, cudnn=1.2))
        s = table.summary(rows)
        self.assertEqual((s["ahead"], s["missing"]), (False, ["bf16 b4 h16 n2048 d128 full"]))
        self.assertIn("1 cells that fatune has no time for", "\n".join(text.kind_lines(s)))

    def test_the_fastest_is_that_of_the_run(self):
        rows = self.of(1.1, 1.2)
        rows[1]["peers"]["fa2"]["ms"] = 1.15
        s = table.summary(rows)
        self.assertEqual(s["fastest"], {"cudnn": 1, "fa2": 1})
        self.assertEqual({run: round(v, 9) for run, v in s["geomean"].items()}, {1: 1.1, 2: 1.15})

    def test_errors_beside_cudnn(self):
        rows = self.of(1.2, 1.2)
        self.assertEqual(table.summary(rows)["errors"]["worst_rms"][0], 1.0)
        self.assertIs(table.summary(rows)["errors"]["holds"], True)
        rows[1]["peers"]["fatune"]["rms"] *= 1.31
        s = table.summary(rows)
        self.assertAlmostEqual(s["errors"]["worst_rms"][0], 1.31)
        self.assertAlmostEqual(s["errors"]["rms"], 1.31 ** 0.5)
        self.assertEqual((s["errors"]["holds"], s["errors"]["above"]), (False, ["bf16 b4 h16 n4096 d128 full"]))
        self.assertEqual(table.failures(rows), ["bf16 normal: RMS error above 1.3 x cuDNN's"])
        rows[1]["peers"]["fatune"]["rms"] = float("nan")
        self.assertEqual(table.summary(rows)["errors"]["worst_rms"][0], float("inf"))
        for r in rows:
            r["peers"].pop("cudnn")
        self.assertIsNone(table.summary(rows)["errors"])

    def test_the_worst_kind_comes_first(self):
        rows = self.of(1.2, 1.1) + self.of(1.3, 0.5, kind="rise4") + self.of(0.9, 0.9, kind="wide")
        self.assertEqual([s["data"] for s in table.summaries(rows)], ["rise4", "wide", "normal"])
        lines = text.report(rows, FACTS, {})
        at = [next(i for i, line in enumerate(lines) if line.startswith(f"{kind} (")) for kind in ("rise4", "wide", "normal")]
        self.assertEqual(at, sorted(at))
        self.assertIn("rise4 as bf16 holds it: d128 +0.24997 a key", lines)
        whole = "\n".join(lines)
        self.assertIn("geometric mean 1.300 and 0.500; least 1.300 (b4 h16 n4096 d128 full), 0.500 (b4 h16 n4096 d128 full)", whole)
        self.assertIn("no cell below 1.0: does not hold: b4 h16 n4096 d128 full 0.500", whole)
        self.assertIn("no cell below 1.0: holds in both runs\n", whole)
        self.assertIn("in every run at least 1.100 x cuDNN, 9.000 x FlashAttention-2", whole)


class Joined(unittest.TestCase):
    def file(self, name, rows, **facts):
        return (name, *files.read(files.tsv(rows, {**FACTS, **facts})))

    def test_what_is_written_is_read(self):
        rows = whole_grid() + [row(c, data="peaks", run=2, fatune=0.1, fa2=0.2, absent={"fa3": "no"}) for c in cells.decode(["f16"])]
        rows += [row(c, run=1, fatune=0.1) for c in cells.small(["bf16"], 20, 3)]
        rows[0]["peers"]["cudnn"]["settled"] = False
        again, facts = files.read(files.tsv(rows, FACTS))
        self.assertEqual([(r["cell"], r["data"], r["run"], r["absent"]) for r in again],
                         [(r["cell"], r["data"], r["run"], r["absent"]) for r in rows])
        for r, s in zip(rows, again):
            self.assertEqual(set(r["peers"]), set(s["peers"]))
            for name, p in r["peers"].items():
                for field, value in p.items():
                    self.assertAlmostEqual(s["peers"][name][field] / value if value else s["peers"][name][field] + 1, 1, places=4)
        self.assertEqual(facts["commit"], "abc")
        self.assertEqual(files.read(files.tsv(again, facts)), (again, facts))

    def test_parts_make_the_whole(self):
        rows = [r for run in (1, 2) for r in whole_grid(run=run)]
        parts = [self.file(str(i), rows[i::3], date=f"day {i}", cublas_tflops=700.0 + i) for i in range(3)]
        joined, facts = files.join(parts)
        self.assertEqual(len(joined), 72)
        self.assertEqual(facts["cublas_tflops"], 701)
        self.assertEqual(facts["joined"], ["joined of 3 files: date day 0, day 1, day 2", "joined of 3 files: cublas_tflops 700, 701, 702"])
        self.assertEqual(facts["absent"], {})
        s, = table.summaries(joined)
        self.assertEqual((s["cells"], s["runs"], s["missing"], s["ahead"]), (36, [1, 2], [], True))

    def test_who_is_absent_in_some_parts(self):
        rows = whole_grid()
        _, facts = files.join([self.file("a", rows[:9], absent={"fa3": "no module", "flex": "not asked"}),
                               self.file("b", rows[9:], absent={"flex": "not asked"})])
        self.assertEqual((facts["absent"], facts["joined"]), ({"flex": "not asked"}, ["absent in a: FlashAttention-3: no module"]))

    def test_nothing_is_measured_twice_in_a_run(self):
        rows = whole_grid()
        with self.assertRaisesRegex(files.Refused, "^b: run 1 of bf16 b32 h32 n512 d64 full, normal, is in a file before it"):
            files.join([self.file("a", rows[:9]), self.file("b", rows[:1])])
        files.join([self.file("a", rows[:9]), self.file("b", [{**r, "run": 2} for r in rows[:9]])])
        with self.assertRaisesRegex(files.Refused, "cudnn comes twice"):
            once = files.tsv(rows[:1], FACTS)
            files.read(once + once.splitlines()[-2] + "\n")

    def test_other_builds_are_refused(self):
        rows = whole_grid()
        for fact, value in (("commit", "def"), ("gpu", "NVIDIA H100"), ("cudnn", "9.20.0"), ("seed", 2)):
            with self.assertRaisesRegex(files.Refused, f"^b: {fact} {value}, but"):
                files.join([self.file("a", rows[:9]), self.file("b", rows[9:], **{fact: value})])

    def test_a_run_that_lacks_cells_says_so(self):
        rows = [r for run in (1, 2) for r in whole_grid(run=run)]
        _, facts = files.join([self.file("a", rows[:-2])])
        self.assertEqual(facts["joined"], ["INCOMPLETE: run 2 lacks 2 of 36, first grid normal bf16 b1 h8 n16384 d256 causal"])
        self.assertIn(facts["joined"][0], text.report(rows[:-2], facts, {}))

    def test_what_is_no_table(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.tsv")
            for content in ("", "a\tb\n1\t2\n", "# {\n", "set\tpeer\tms\ngrid\tcudnn\t1\n"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
                with self.assertRaises(files.Refused, msg=content):
                    files.read_all([path])

    def test_rows_stay_as_they_were(self):
        rows = whole_grid()
        before = copy.deepcopy(rows)
        text.report(rows, FACTS, {})
        files.tsv(rows, FACTS)
        self.assertEqual(rows, before)


if __name__ == "__main__":
    unittest.main()
