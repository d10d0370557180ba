"""test_bytes.py -- bench/bytes.py: ncu's CSV written by hand, and a program called ncu that stands in for NVIDIA's."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
PROGRAM = os.path.join(BENCH, "bytes.py")
spec = importlib.util.spec_from_file_location("count_bytes", PROGRAM)
count = importlib.util.module_from_spec(spec)
spec.loader.exec_module(count)

HEADER = ('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
          '"Section Name","Metric Name","Metric Unit","Metric Value"')


def launch(number, name, read, written, ns, unit="byte"):
    front = (f'"{number}","42","python3","127.0.0.1","{name}_0123456789abcdef(call, float *)","1","7","(128, 1, 1)","(8, 1, 1)","0",'
             '"9.0","Command line profiler metrics"')
    return [f'{front},"{count.READ}","{unit}","{read}"', f'{front},"{count.WRITTEN}","{unit}","{written}"',
            f'{front},"{count.TIME}","ns","{ns}"']


CALLS = ["call\tstandard\t512\tstandard:Br64", "call\tfa1\t512\tfa1:Br32", "left out standard at N = 16384: out of memory",
         "call\tfwd\t16384\tfwd:Br128"]
COUNTED = ["==PROF== Connected to process 42", "", HEADER, *launch(0, "standard_scores", "1,000,000", "2,000,000", "1,000"),
           *launch(1, "standard_softmax", "30", "40", "2,000"), *launch(2, "standard_output", "500", "600", "3,000"),
           *launch(3, "fa1", "1.5", "2.25", "10", "Gbyte"), *launch(4, "fwd", "403,000,000", "134,000,000", "5,000,000")]


class Reading(unittest.TestCase):
    def test_launches_of_a_call_are_added_up(self):
        rows, absent = count.rows_of("\n".join(CALLS + COUNTED))
        self.assertEqual([(r["algorithm"], r["n"], r["launches"]) for r in rows],
                         [("standard", 512, 3), ("fa1", 512, 1), ("fwd", 16384, 1)])
        self.assertEqual((rows[0][count.READ], rows[0][count.WRITTEN]), (1000530, 2000640))
        self.assertAlmostEqual(rows[0][count.TIME], 6e-6)
        self.assertEqual((rows[1][count.READ], rows[1][count.WRITTEN]), (1.5e9, 2.25e9))
        self.assertEqual(absent, [CALLS[2]])

    def test_calls_may_stand_between_the_counts(self):
        mixed = CALLS[:2] + COUNTED[:1] + CALLS[2:3] + COUNTED[1:] + CALLS[3:]
        self.assertEqual(count.rows_of("\n".join(mixed)), count.rows_of("\n".join(CALLS + COUNTED)))

    def test_what_does_not_fit_is_refused(self):
        for lines, why in ((CALLS + COUNTED[:-3], "should be fwd_..., and is none"), (CALLS + COUNTED[:-1], "there is no gpu__time"),
                           (CALLS[:2] + COUNTED, "5 launches were counted, 4 belong to a call"),
                           (CALLS[1:] + COUNTED, "should be fa1_..., and is standard_scores_0123456789abcdef"),
                           (CALLS + COUNTED[:-1] + [COUNTED[-1].replace("5,000,000", "n/a")], "is 'n/a'")):
            with self.assertRaisesRegex(count.Unreadable, why.replace("(", r"\(")):
                count.rows_of("\n".join(lines))

    def test_least(self):
        tensor = 16384 * 32 * 64 * 4
        self.assertEqual(count.least("fwd", 512), (3 * tensor, tensor))
        self.assertEqual(count.least("fa1", 16384), (3 * tensor, tensor))
        scores = 32 * 16384 * 16384 * 4
        self.assertEqual(count.least("standard", 16384), (3 * tensor + 2 * scores, tensor + 2 * scores))

    def test_table_and_tsv(self):
        rows, _ = count.rows_of("\n".join(CALLS + COUNTED))
        self.assertEqual(count.table(rows).splitlines()[-1].split(),
                         ["16384", "fwd", "0.403", "0.403", "0.134", "0.134", "1.00", "5.000"])
        lines = [line.split("\t") for line in count.tsv(rows).splitlines()]
        self.assertEqual({len(line) for line in lines}, {len(count.COLUMNS)})
        self.assertEqual(lines[3], ["16384", "fwd", "0.403000", "0.134000", "0.402653", "0.134218", "1", "5.000000", "fwd:Br128"])


class Program(unittest.TestCase):
    def run_it(self, *arguments, path=None):
        return subprocess.run([sys.executable, "-B", PROGRAM, *arguments], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PATH": path or os.environ["PATH"]})

    @staticmethod
    def text_of(path):
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def with_ncu(self, body, *arguments):
        """With a program called ncu; what it was called with is in $folder/asked, $log is where it is to write."""
        with tempfile.TemporaryDirectory() as folder:
            ncu = os.path.join(folder, "ncu")
            with open(ncu, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nfolder={folder}\nprintf '%s\\n' \"$@\" >$folder/asked\n"
                           f"[ \"$1\" = --log-file ] || exit 9\nlog=$2\n{body}\n")
            os.chmod(ncu, 0o755)
            for name, lines in (("calls", CALLS), ("counted", COUNTED)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write("\n".join(lines) + "\n")
            done = self.run_it("-o", os.path.join(folder, "out.tsv"), *arguments, path=folder + os.pathsep + os.environ["PATH"])
            return done, self.text_of(os.path.join(folder, "asked")), self.text_of(os.path.join(folder, "out.tsv"))

    def test_counts_under_ncu(self):
        done, asked, tsv = self.with_ncu('cat "$folder/counted" >"$log"; cat "$folder/calls"', "--lengths", "512,16384")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("left out standard at N = 16384", done.stdout)
        self.assertEqual(len(tsv.splitlines()), 4)
        asked = asked.splitlines()
        self.assertIn("regex:^(standard|fa1|fwd)_", asked)
        self.assertEqual(asked[asked.index("--run"):], ["--run", "--lengths", "512,16384", "--algorithms", "standard,fa1,fwd"])

    def test_counters_that_may_not_be_read(self):
        done, _, tsv = self.with_ncu('echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission" >"$log"; exit 1')
        self.assertEqual((done.returncode, tsv), (3, ""))
        self.assertIn("NVreg_RestrictProfilingToAdminUsers", done.stderr)

    def test_ncu_that_fails(self):
        done, _, _ = self.with_ncu('echo "==ERROR== no such metric" >"$log"; exit 255')
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such metric", done.stderr)

    def test_no_kernel_was_seen(self):
        done, _, _ = self.with_ncu('echo "==WARNING== No kernels were profiled." >"$log"')
        self.assertEqual(done.returncode, 1)
        self.assertIn("No kernels were profiled", done.stderr)

    @unittest.skipIf(os.path.exists("/usr/local/cuda/bin/ncu"), "there is an ncu")
    def test_no_ncu(self):
        done = self.run_it(path="/nowhere")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("there is no ncu", done.stderr)

    def test_what_was_counted_elsewhere(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(CALLS + COUNTED))
            file.flush()
            self.assertEqual(self.run_it("--read", file.name).returncode, 0)
        self.assertEqual(self.run_it("--read", "/nowhere/x").returncode, 1)
        self.assertIn("ncu --csv", self.run_it("--command").stdout)

    def test_wrong_use(self):
        for arguments in (["--lengths", "1000"], ["--lengths", "x"], ["--algorithms", "fa9"], ["--run", "--command"]):
            self.assertEqual(self.run_it(*arguments).returncode, 2, arguments)

    @unittest.skipIf(importlib.util.find_spec("torch"), "there is PyTorch")
    def test_says_what_is_missing(self):
        done = self.run_it("--run")
        self.assertEqual(done.returncode, 3)
        self.assertIn("needs PyTorch", done.stderr)


if __name__ == "__main__":
    unittest.main()
