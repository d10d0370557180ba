"""test_data.py -- bench/peers_data.py: what each kind of data adds to the scores, in numbers as a dtype holds them; with
PyTorch also the tensors themselves and the errors that bench/peers_judge.py finds."""

import importlib.util
import math
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import peers_cells as cells  # noqa: E402
import peers_data as data  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch
    import peers_judge
    import peers_who

DIMS = (40, 64, 80, 96, 128, 192, 256)


class Rounding(unittest.TestCase):
    def test_bf16_has_eight_bits(self):
        for x, held in ((1.0, 1.0), (255.0, 255.0), (257.0, 256.0), (259.0, 260.0), (1 + 1 / 256, 1.0), (1 + 3 / 256, 1 + 4 / 256),
                        (-257.0, -256.0), (0.0, 0.0)):
            self.assertEqual(data.rounded(x, "bf16"), held, x)

    def test_f16_has_eleven(self):
        self.assertEqual(data.rounded(2047.0, "f16"), 2047.0)
        self.assertEqual(data.rounded(2049.0, "f16"), 2048.0)
        self.assertEqual(data.rounded(math.pi, "f32"), 3.1415927410125732)

    @unittest.skipUnless(HAS_TORCH, "no PyTorch")
    def test_as_pytorch_rounds(self):
        values = [math.ldexp(math.sin(i), i % 20 - 10) for i in range(500)]
        for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("f32", torch.float32)):
            held = torch.tensor(values, dtype=torch.float64).to(torch.float32).to(dtype).tolist()
            self.assertEqual([data.rounded(x, name) for x in values], held)


class Kinds(unittest.TestCase):
    def test_all_that_are_promised(self):
        self.assertEqual(list(data.KINDS), ["normal", "wide", "rise100", "rise16", "rise4", "fall100", "fall16", "fall4", "sink", "peaks"])
        self.assertEqual(data.KINDS["fall16"], "scores fall by 1/16 nat a key")

    def test_wanted(self):
        self.assertEqual([data.wanted("sink", j) for j in (0, 3, 4, 100)], [10, 10, 0, 0])
        self.assertEqual([data.wanted("rise4", j) for j in (0, 1, 4)], [0, 0.25, 1])
        self.assertEqual([data.wanted("fall16", j) for j in (0, 32)], [0, -2])
        self.assertEqual({data.wanted(kind, j) for kind in ("normal", "wide") for j in range(9)}, {0})

    def test_one_peak_of_each_64_keys_and_not_always_in_one_place(self):
        peaks = [j for j in range(16384) if data.wanted("peaks", j) == 12]
        self.assertEqual([j // 64 for j in peaks], list(range(256)))
        self.assertEqual(len({j % 64 for j in peaks}), 64)

    def test_slopes_are_lines_over_16k_keys_in_any_dtype(self):
        for dtype in cells.HALVES + cells.SINGLES:
            for d in (40, 128, 256):
                for kind, slope in data.SLOPES.items():
                    of = data.added(kind, dtype, d, 16384)
                    step = of[1]
                    self.assertLess(abs(step / slope - 1), 2 ** -8, (kind, dtype, d))
                    self.assertLess(max(abs(e - step * j) for j, e in enumerate(of)), 1e-9, (kind, dtype, d))

    def test_two_columns_are_held_exactly(self):
        for dtype in cells.HALVES:
            for q, k in data.columns("rise100", dtype, 128, 65536):
                self.assertEqual(data.rounded(q, dtype), q)
                self.assertEqual([data.rounded(x, dtype) for x in sorted(set(k))], sorted(set(k)))
        with self.assertRaises(ValueError):
            data.columns("rise4", "bf16", 64, 65537)

    def test_sink_and_peaks_are_within_four_thousandths(self):
        for kind, most in (("sink", 10), ("peaks", 12)):
            for dtype in cells.HALVES:
                for d in DIMS:
                    of = data.added(kind, dtype, d, 256)
                    self.assertEqual(min(of), 0)
                    self.assertLess(abs(max(of) / most - 1), 4e-3, (kind, dtype, d))
                    self.assertEqual([j for j, e in enumerate(of) if e], [j for j in range(256) if data.wanted(kind, j)])

    def test_the_tuner_has_the_same_kinds(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tuner", "oracle", "kinds.c")) as f:
            self.assertEqual(re.findall(r'\.name = "(\w+)"', f.read()), list(data.KINDS))

    def test_says_what_they_really_have(self):
        self.assertEqual(data.really("rise100", "bf16", 64), "+0.01001 a key")
        self.assertEqual(data.really("fall4", "f16", 256), "-0.25000 a key")
        self.assertEqual(data.really("sink", "bf16", 128), "+9.999")
        self.assertEqual(data.really("wide", "bf16", 128), "standard deviation 6")


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Tensors(unittest.TestCase):
    C = cells.cell("small", "bf16", 2, 6, 300, 64, True, hk=3)

    def made(self, kind, c=C, layout="bhnd"):
        return data.tensors(c, kind, layout, 1, peers_who.dtype_of(c["dtype"]), "cpu")

    def scores(self, q, k):
        k = k.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        return q.double() @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])

    def test_scores_have_what_is_added(self):
        for dtype in cells.HALVES:
            c = {**self.C, "dtype": dtype}
            for kind in data.KINDS:
                q, k, _ = self.made(kind, c)
                count = len(data.columns(kind, dtype, 64, 300))
                without = self.scores(q[..., :64 - count], k[..., :64 - count]) * math.sqrt((64 - count) / 64)
                extra = torch.tensor(data.added(kind, dtype, 64, 300), dtype=torch.float64)
                self.assertLess((self.scores(q, k) - without - extra).abs().max().item(), 1e-9, (kind, dtype))

    def test_spread(self):
        for kind, spread in (("normal", 1), ("wide", 6)):
            q, k, _ = self.made(kind)
            self.assertAlmostEqual(self.scores(q, k).std().item() / spread, 1, delta=0.03)

    def test_shapes_and_layouts(self):
        c = {**self.C, "q": 7, "causal": False}
        for layout in ("bhnd", "bnhd"):
            q, k, v = self.made("rise4", c, layout)
            self.assertEqual((tuple(q.shape), tuple(k.shape), tuple(v.shape)), ((2, 6, 7, 64), (2, 3, 300, 64), (2, 3, 300, 64)))
            self.assertEqual(q.is_contiguous(), layout == "bhnd")
            self.assertEqual(q.transpose(1, 2).is_contiguous(), layout == "bnhd")

    def test_the_seed_decides(self):
        for a, b in zip(self.made("peaks"), self.made("peaks")):
            self.assertTrue(torch.equal(a, b))


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class Errors(unittest.TestCase):
    def test_of_a_result_that_is_off(self):
        c = cells.cell("grid", "f16", 1, 2, 64, 32, True)
        q, k, v = data.tensors(c, "normal", "bhnd", 1, torch.float16, "cpu")
        judge = peers_judge.Judge(c, q, k, v)
        off = judge.reference.clone()
        off[0, 1, 5, 3] += 0.5
        found = judge.errors(off)
        self.assertAlmostEqual(found["error"], 0.5)
        self.assertAlmostEqual(found["rms"], math.sqrt(0.25 / off.numel()))
        self.assertTrue(0 < judge.facts["error_pytorch"] < 0.01)
        self.assertTrue(math.isnan(judge.errors(torch.full_like(off, math.nan))["rms"]))

    def test_reference_is_attention(self):
        c = cells.cell("small", "bf16", 2, 4, 33, 16, False, hk=2, q=5)
        for kind in data.KINDS:
            q, k, v = data.tensors(c, kind, "bhnd", 3, torch.bfloat16, "cpu")
            theirs = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True)
            self.assertLess(peers_judge.Judge(c, q, k, v).errors(theirs)["error"], 1e-12, kind)

    def test_of_many_heads_some_are_judged_with_all_that_share(self):
        c = cells.cell("decode", "bf16", 5, 32, 4096, 128, False, 8, 1)
        o, k = torch.empty(5, 32, 1, 128, device="meta"), torch.empty(5, 8, 4096, 128, device="meta")
        self.assertEqual((peers_judge.some_heads(c, o).shape[:2], peers_judge.some_heads(c, k).shape[:2]), ((4, 32), (4, 8)))
        c = {**c, "n": 16384, "q": 16384}
        o, k = torch.empty(5, 32, 16384, 128, device="meta"), torch.empty(5, 8, 16384, 128, device="meta")
        self.assertEqual((peers_judge.some_heads(c, o).shape[:2], peers_judge.some_heads(c, k).shape[:2]), ((1, 4), (1, 1)))


if __name__ == "__main__":
    unittest.main()
