"""test_proxy.py FATUNE FAKE_CUDA -- bench/peers_proxy.py: recipes, choice of configs, and a kernel from its text to its
result, by the real NVRTC and the fake driver of tests/fake."""

import ctypes
import json
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

    def test_steps(self):
        one = "launch fwd_0123456789abcdef grid ceildiv(q,64)*b*h block 128 shared 32768 args call"
        step = ("launch", "fwd_0123456789abcdef", 32, 128, 32768, [("call", 0)])
        self.assertEqual(proxy.steps_of([one], SIZES), (0, [step]))
        more = ["workspace 8*b*h*q+16", "valid 500-q", "clear 16 4*q", one,
                "launch f grid b block 64 shared 0 args call ws(8*q) int(k-1)"]
        self.assertEqual(proxy.steps_of(more, SIZES), (12816, [("clear", 16, 400), step, (
            "launch", "f", 2, 64, 0, [("call", 0), ("ws", 800), ("int", 299)])]))
        for wrong in ("valid q-100", one.replace(" args", " overlap args"), one.replace(" args", " cluster 2 args"), one + " mapQ(64)",
                      "jump 3", one + " ws"):
            with self.assertRaises(proxy.Failed, msg=wrong):
                proxy.steps_of([wrong], SIZES)

    def test_every_step_of_every_kernel_is_known(self):
        for gpu in ("T4", "A100", "RTX4090"):
            for problem in ("bwd-f16-b2-h8k4-q100-k300-d64-causal", "bwd-f16-b2-h8k4-q100-k300-d256",
                            "bwd-f16-b2-h8k4-q100-k300-d40-det", "bwd-f32-b2-h8k4-q100-k300-d64", "fwd-f16-b1-h32k8-q1-k65536-d128"):
                size, steps = proxy.steps_of(proxy.head_of(proxy.render(gpu, problem))["recipe"], SIZES)
                self.assertTrue(steps and (size > 0 or "fwd" in problem), (gpu, problem))

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
        self.assertEqual(proxy.configs_of(rows), {"fwd-f16-d64": ["b"], "fwd-f16-d256": ["e"]})
        self.assertEqual(proxy.configs_of(rows, 9)["fwd-f16-d64"], ["b", "a"])

    def test_of_each_length_its_first_then_its_second(self):
        rows = [{"problem": f"bwd-f16-b1-h1-q{n}-k{n}-d64", "config": config, "outcome": "ok", "eligible": 1, "twin_of": "", "ms": ms}
                for n, config, ms in ((512, "a", 1.0), (512, "b", 2.0), (512, "c", 3.0), (4096, "b", 8.0), (4096, "d", 9.0))]
        rows += [{**rows[0], "config": "spilled", "outcome": "spills", "ms": 0.1}, {**rows[0], "config": "twin", "twin_of": "a", "ms": 0.1},
                 {**rows[0], "config": "standard", "eligible": 0, "ms": 0.1}]
        self.assertEqual(proxy.configs_of(rows, 3), {"bwd-f16-d64": ["a", "b", "d"]})

    def test_files_hold_several_gpus(self):
        row = {"problem": "bwd-f16-b1-h1-q64-k64-d64", "right": True, "proxy_ms": 1.0}
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in "ab"]
            for path, rows in zip(paths, ([{**row, "as": "A100 80GB SXM", "config": "a"}, {**row, "as": "RTX 4090", "config": "b"}],
                                          [{**row, "as": "T4G", "config": "d", "proxy_ms": 0.5},
                                           {**row, "as": "T4", "config": "c"}])):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(rows, file)
            for gpu, config in (("A100", "a"), ("RTX4090", "b"), ("T4", "c")):
                self.assertEqual(proxy.read_configs(paths, gpu, 1), {"bwd-f16-d64": [config]})
            with self.assertRaisesRegex(proxy.Failed, "no config of a L4"):
                proxy.read_configs(paths, "L4", 1)


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


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def weights(q, k, i):
    """Of row i of one head under a causal mask, in double; and its log-sum-exp."""
    s = [dot(q[i], k[j]) / math.sqrt(D) for j in range(i + 1)]
    lse = max(s) + math.log(sum(math.exp(x - max(s)) for x in s))
    return [math.exp(x - lse) for x in s], lse


def attention(q, k, v):
    return [[sum(w * v[j][x] for j, w in enumerate(weights(q, k, i)[0])) for x in range(D)] for i in range(N)]


def gradients(q, k, v, o, do):
    dq, dk, dv = ([[0.0] * D for _ in range(N)] for _ in range(3))
    for i in range(N):
        delta = dot(do[i], o[i])
        for j, p in enumerate(weights(q, k, i)[0]):
            ds = p * (dot(do[i], v[j]) - delta) / math.sqrt(D)
            for x in range(D):
                dq[i][x] += ds * k[j][x]
                dk[j][x] += ds * q[i][x]
                dv[j][x] += p * do[i][x]
    return dq, dk, dv


def flat(heads):
    return [x for head in heads for row in head for x in row]


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

    def launched(self, gpu, problem, tensors):
        """What a GPU's kernel does with tensors, by name; (maker, {name: numbers})."""
        with open(os.path.join(self.folder.name, "kernel.cu"), "w", encoding="utf-8") as file:
            file.write(proxy.render(gpu, problem))
        given = {name: (t.value, (H * N, N) if name == "LSE" else (H * N * D, N * D, D)) for name, t in tensors.items()}
        sizes = {"b": B, "h": H, "hk": H, "q": N, "k": N, "SMs": 108}
        maker, rooms = proxy.Maker(gpu), []

        def room(size):
            rooms.append(self.put([math.nan] * (size // 4)))
            return rooms[-1], rooms[-1].value
        (config,) = maker.candidates(problem)
        maker.launcher(problem, config, given, sizes, 1 / math.sqrt(D), room)(0)
        self.assertEqual(self.driver.cuCtxSynchronize(), 0)
        found = {}
        for name, t in tensors.items():
            got = found[name] = (ctypes.c_float * (H * N * (1 if name == "LSE" else D)))()
            self.assertEqual(self.driver.cuMemcpyDtoH_v2(got, t, ctypes.c_size_t(ctypes.sizeof(got))), 0)
        maker.launcher(problem, config, given, sizes, 1.0, room)
        self.assertEqual(len(maker.modules), 1)  # compiled once
        for t in list(tensors.values()) + rooms:
            self.driver.cuMemFree_v2(t)
        return maker, found

    def drawn(self, count):
        chance = random.Random(1)
        return [[[[chance.gauss(0, 1) for _ in range(D)] for _ in range(N)] for _ in range(H)] for _ in range(count)]

    def close(self, found, right):
        self.assertLess(max(abs(a - b) for a, b in zip(found, right)), 1e-5)

    def test_a_t4_kernel_on_an_a100(self):
        heads = self.drawn(3)
        tensors = {name: self.put(flat(t)) for name, t in zip("QKV", heads)}
        maker, found = self.launched("T4", PROBLEM, {**tensors, "O": self.put([math.nan] * (H * N * D))})
        self.close(found["O"], flat(attention(*(t[h] for t in heads)) for h in range(H)))
        config, note = maker.used[PROBLEM, None]
        self.assertTrue(config.startswith("fwd:"))
        self.assertIn("compute_75 PTX of the T4's kernel", note)

    def test_a_backward_in_several_launches(self):
        heads = self.drawn(4)
        q, k, v, do = heads
        o = [attention(q[h], k[h], v[h]) for h in range(H)]
        lse = [weights(q[h], k[h], i)[1] for h in range(H) for i in range(N)]
        right = [gradients(q[h], k[h], v[h], o[h], do[h]) for h in range(H)]
        for dtype, kernel in (("f32", "bwd"), ("f32x3", "bwd")):
            tensors = {name: self.put(flat(t)) for name, t in zip(("Q", "K", "V", "O", "dO"), (q, k, v, o, do))}
            tensors.update({name: self.put([math.nan] * (H * N * D)) for name in ("dQ", "dK", "dV")}, LSE=self.put(lse))
            problem = PROBLEM.replace("fwd-f32", f"bwd-{dtype}")
            maker, found = self.launched("A100", problem, tensors)
            for i, name in enumerate(("dQ", "dK", "dV")):
                self.close(found[name], flat(of[i] for of in right))
            self.assertEqual(maker.used[problem, None][0].split(":")[0], kernel)

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
            proxy.Module(self.driver, proxy.ptx_of(proxy.nvrtc(), "extern \"C\" __global__ void f() {}",
                                                   ["--gpu-architecture=compute_90"]))


if __name__ == "__main__":
    os.environ["FATUNE_PROGRAM"], os.environ["FATUNE_LIBCUDA"] = (os.path.abspath(a) for a in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
