"""test_proxy.py FATUNE FAKE_CUDA -- bench/peers_proxy.py: recipes, choice of configs, and a kernel from its text to its
result, by the real NVRTC and the fake driver of tests/fake."""

import ctypes
import math
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import peers_cells as cells  # noqa: E402
import peers_proxy as proxy  # noqa: E402
import peers_table as table  # noqa: E402
import peers_text as text  # noqa: E402

SIZES = {"b": 2, "h": 8, "hk": 4, "q": 100, "k": 300, "SMs": 40}
PROBLEM = "fwd-f32-b1-h2-q50-k50-d16-causal"
B, H, N, D = 1, 2, 50, 16


class Recipes(unittest.TestCase):
    def test_expressions(self):
        for expression, value in (("128", 128), ("ceildiv(q,64)*b*h", 32), ("min(q,k)-1", 99), ("max(b, SMs) + hk*(q - 1)", 436)):
            self.assertEqual(proxy.number(expression, SIZES), value, expression)
        for wrong in ("x", "q/2", "().__class__", "q if b else k", "ceildiv(q)", "'a'", "q+"):
            with self.assertRaises(proxy.Failed, msg=wrong):
                proxy.number(wrong, SIZES)

    def test_a_launch_of_the_call(self):
        recipe = ["launch fwd_0123456789abcdef grid ceildiv(q,64)*b*h block 128 shared 32768 args call"]
        self.assertEqual(proxy.launch_of(recipe, SIZES), ("fwd_0123456789abcdef", 32, 128, 32768))
        for other in (["workspace 8*b*h*q"] + recipe, [recipe[0] + " ws(0)"], []):
            with self.assertRaises(proxy.Failed):
                proxy.launch_of(other, SIZES)

    def test_head(self):
        text = "// Attention\n//   target     sm_75\n//   options    --std=c++17 -x\n//   recipe     a\n//   recipe     b\n\n//   target     c\n"
        self.assertEqual(proxy.head_of(text), {"target": ["sm_75"], "options": ["--std=c++17 -x"], "recipe": ["a", "b"]})


class Configs(unittest.TestCase):
    def test_family(self):
        self.assertEqual(proxy.family("fwd-f16-b4-h32-q4096-k4096-d64-causal"), "fwd-f16-d64-causal")
        self.assertEqual(proxy.family("fwd-f16-b4-h32k8-q1-k4096-d64v128"), "fwd-f16-d64v128")

    def test_the_fastest_right_one_of_a_family(self):
        rows = [{"problem": f"fwd-f16-b1-h1-q64-k64-d{d}", "config": config, "right": right, "proxy_ms": ms}
                for d, config, right, ms in ((64, "a", True, 2.0), (64, "b", True, 1.0), (64, "c", False, 0.5), (128, "d", True, None),
                                             (256, "e", True, 3.0))]
        self.assertEqual(proxy.configs_of(rows), {"fwd-f16-d64": "b", "fwd-f16-d256": "e"})


class Tables(unittest.TestCase):
    def rows(self, error=0.004):
        found = []
        for n in (512, 1024):
            c = cells.cell("grid", "f16", 16384 // n, 32, n, 64, False)
            times = {"fatune": 1.0, "memeff": 4.0 * n / 512, "fa2": 1.5, table.PROXY + "T4": 2.0}
            found.append({"cell": c, "data": "normal", "run": 1, "absent": {}, "error_pytorch": 0.002,
                          "peers": {name: {"ms": ms, **cells.rates(c, ms), "error": error} for name, ms in times.items()}})
        return found

    def test_a_proxy_says_what_it_is(self):
        (s,) = table.proxies(self.rows())
        self.assertEqual((s["proxy"], s["dtype"], s["cells"], s["wrong"]), ("proxy:T4", "f16", 2, 0))
        self.assertAlmostEqual(s["beside"]["memeff"]["geomean"][1], math.sqrt(8))
        self.assertAlmostEqual(s["beside"]["fatune"]["geomean"][1], 0.5)
        self.assertEqual(s["beside"]["memeff"]["least"], (2.0, "f16 b32 h32 n512 d64 full"))
        lines = "\n".join(text.report(self.rows(), {"gpu": "NVIDIA H200"}, {}))
        self.assertIn("PROXY, f16: the T4's kernels as PTX that the driver compiled for the NVIDIA H200; the T4's own machine code "
                      "and speed are not seen", lines)
        self.assertIn("  geometric means over 2 cells: 0.500 x fatune, 0.750 x FlashAttention-2, 2.828 x mem-efficient", lines)
        rows = [{**r, "peers": {"fatune": r["peers"]["fatune"]}} for r in self.rows()]
        self.assertNotIn("PROXY", "\n".join(text.report(rows, {}, {})))

    def test_a_wrong_one(self):
        rows = self.rows(error=0.005)
        self.assertTrue(table.is_inaccurate(rows[0], table.PROXY + "T4"))
        self.assertIn("  WRONG: 2 cells with more than twice PyTorch's error", text.proxy_lines(table.proxies(rows)[0], "H200"))


def attention(q, k, v):
    """Rows of one head under a causal mask, in double."""
    out = []
    for i in range(N):
        s = [sum(a * b for a, b in zip(q[i], k[j])) / math.sqrt(D) for j in range(i + 1)]
        p = [math.exp(x - max(s)) for x in s]
        out.append([sum(w * v[j][x] for j, w in enumerate(p)) / sum(p) for x in range(D)])
    return out


class Kernels(unittest.TestCase):
    """From the text to the result."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        os.environ.update(FAKE_CUDA_DEVICES="A100", FAKE_CUDA_EMULATE="reference", FAKE_CUDA_SOURCES=self.folder.name,
                          FATUNE_SYSTEM_DB="", FATUNE_DB=os.path.join(self.folder.name, "none.db"))
        try:
            proxy.nvrtc()
        except proxy.Failed as error:
            self.skipTest(str(error))
        self.driver = proxy.driver()
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.assertEqual(self.driver.cuInit(0), 0)
        self.assertEqual(self.driver.cuDeviceGet(ctypes.byref(device), 0), 0)
        self.assertEqual(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), 0)
        self.assertEqual(self.driver.cuCtxSetCurrent(context), 0)
        self.addCleanup(self.driver.cuDevicePrimaryCtxRelease_v2, device)

    def put(self, values):
        """Device memory with these floats; its address."""
        at, data = ctypes.c_uint64(), (ctypes.c_float * len(values))(*values)
        self.assertEqual(self.driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(ctypes.sizeof(data))), 0)
        self.assertEqual(self.driver.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(ctypes.sizeof(data))), 0)
        return at

    def test_a_t4_kernel_on_an_a100(self):
        with open(os.path.join(self.folder.name, "kernel.cu"), "w", encoding="utf-8") as file:
            file.write(proxy.render("T4", PROBLEM))
        chance = random.Random(1)
        heads = [[[[chance.gauss(0, 1) for _ in range(D)] for _ in range(N)] for _ in range(H)] for _ in range(3)]
        tensors = [self.put([x for head in t for row in head for x in row]) for t in heads] + [self.put([math.nan] * (H * N * D))]
        maker = proxy.Maker("T4")
        sizes = {"b": B, "h": H, "hk": H, "q": N, "k": N, "SMs": 108}
        launch = maker.launcher(PROBLEM, [(t.value, (H * N * D, N * D, D)) for t in tensors], sizes, 1 / math.sqrt(D))
        launch(0)
        got = (ctypes.c_float * (H * N * D))()
        self.assertEqual(self.driver.cuCtxSynchronize(), 0)
        self.assertEqual(self.driver.cuMemcpyDtoH_v2(got, tensors[3], ctypes.c_size_t(ctypes.sizeof(got))), 0)
        right = [x for h in range(H) for row in attention(*(t[h] for t in heads)) for x in row]
        self.assertLess(max(abs(a - b) for a, b in zip(got, right)), 1e-5)
        config, note = maker.used[PROBLEM]
        self.assertTrue(config.startswith("fwd:"))
        self.assertIn("compute_75 PTX of the T4's kernel", note)
        maker.launcher(PROBLEM, [(t.value, (H * N * D, N * D, D)) for t in tensors], sizes, 1.0)
        self.assertEqual(len(maker.kernels), 1)  # compiled once
        for t in tensors:
            self.driver.cuMemFree_v2(t)

    def test_a_config_that_was_chosen(self):
        config = "fwd:Br64-Bc32-w4-s1-Q1-b1-Z1-W16"
        text = proxy.render("T4", "fwd-f16-b1-h1-q64-k64-d64", config)
        self.assertEqual(proxy.head_of(text)["config"], [config])

    def test_what_cannot_be(self):
        for gpu, problem in (("T5", PROBLEM), ("T4", "fwd-bf16-b1-h1-q64-k64-d64")):
            with self.assertRaises(proxy.Failed):
                proxy.render(gpu, problem)
        with self.assertRaisesRegex(proxy.Failed, "NVRTC: kernel.cu"):
            proxy.ptx_of(proxy.nvrtc(), "this is no CUDA", ["--gpu-architecture=compute_75"])
        with self.assertRaisesRegex(proxy.Failed, "cuModuleLoadData: CUDA error"):
            proxy.Kernel(self.driver, proxy.ptx_of(proxy.nvrtc(), "extern \"C\" __global__ void f() {}",
                                                   ["--gpu-architecture=compute_90"]), "f")


if __name__ == "__main__":
    os.environ["FATUNE_PROGRAM"], os.environ["FATUNE_LIBCUDA"] = (os.path.abspath(a) for a in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
