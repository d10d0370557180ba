"""peers_who.py -- who is timed: for each library a context to be timed in, and a maker of calls for tensors.

All get the same tensors, [b, h, n, d]. What a peer copies, plans or compiles beforehand, when its call is made or made for
the first time, is not timed.
"""

import contextlib
import importlib
import importlib.util
import inspect
import math
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import peers_table as table
from peers_cells import HALVES, SINGLES, heads_of, label, rows_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bindings", "python"))

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}  # all others: float32


def dtype_of(name):
    return DTYPES.get(name, torch.float32)


def reason(error):
    """The first line of an error, short enough for a table."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160]


class Peer:
    dtypes = HALVES

    def context(self):
        return contextlib.nullcontext()

    windows = False  # whether it has them

    def wants(self, c):
        return c["dtype"] in self.dtypes and (self.windows or "keys" not in c)

    def about(self, c):
        """Facts for the row."""
        return {}


class Sdpa(Peer):
    def __init__(self, backend, dtypes):
        self.backend, self.dtypes = backend, dtypes

    def context(self):
        return sdpa_kernel(self.backend)

    def wants(self, c):  # its causal mask is aligned top left
        return super().wants(c) and not (c["causal"] and rows_of(c) != c["n"])

    def make(self, c, q, k, v):
        options = {"is_causal": c["causal"], **({"enable_gqa": True} if heads_of(c) != c["h"] else {})}
        return lambda: F.scaled_dot_product_attention(q, k, v, **options)


class Flex(Peer):
    """FlexAttention by torch.compile; each shape costs seconds, so only some lengths are asked for."""

    def __init__(self, lengths):
        from torch.nn.attention import flex_attention as flex
        import torch._dynamo
        torch._dynamo.config.recompile_limit = 1000
        self.flex, self.lengths = flex, lengths
        self.compiled = torch.compile(flex.flex_attention, dynamic=False)

    def wants(self, c):
        return c["dtype"] in self.dtypes and c["set"] == "grid" and c["n"] in self.lengths

    def make(self, c, q, k, v):
        n, block_mask = c["n"], None
        if c["causal"]:
            block_mask = self.flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cuda")
        return lambda: self.compiled(q, k, v, block_mask=block_mask)


class FlashAttention(Peer):
    """FlashAttention-3 or -4 from its own package: tensors are [b, n, h, d], strided as ours are."""

    windows = True

    def __init__(self, module, splits=None):
        """`splits`: what lets it choose for itself into how many parts few rows' keys are split."""
        self.function = importlib.import_module(module).flash_attn_func
        self.splits = splits if "num_splits" in inspect.signature(self.function).parameters else None

    def make(self, c, q, k, v):
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        options = {"causal": c["causal"], **({"window_size": (c["keys"] - 1, 0)} if "keys" in c else {})}
        if rows_of(c) != c["n"] and self.splits is not None:
            options["num_splits"] = self.splits

        def call():
            out = self.function(q, k, v, **options)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
        return call


class FlashInfer(Peer):
    """Its batched prefill over ragged tensors; the plan is made beforehand."""

    def __init__(self):
        self.module = importlib.import_module("flashinfer")
        self.workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")

    def wants(self, c):  # a prefill is not what it decodes with
        return super().wants(c) and c["set"] != "decode"

    def make(self, c, q, k, v):
        b, h, n, d = q.shape
        flat = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
        ends = [torch.arange(0, (b + 1) * rows, rows, dtype=torch.int32, device="cuda") for rows in (n, c["n"])]
        wrapper = self.module.BatchPrefillWithRaggedKVCacheWrapper(self.workspace, "NHD")
        wrapper.plan(*ends, h, heads_of(c), d, causal=c["causal"], q_data_type=q.dtype)
        return lambda: wrapper.run(*flat).view(b, n, h, d).transpose(1, 2)


class Ours(Peer):
    dtypes = HALVES + SINGLES
    windows = True

    def __init__(self, fatune, kernel, policy):
        self.fatune, self.kernel = fatune, kernel
        self.policy = {"fallback": fatune.FALLBACK, "fail": fatune.FAIL, "compile": fatune.COMPILE}[policy]
        self.plans = {}

    def make(self, c, q, k, v):
        arithmetic = c["dtype"] if c["dtype"] in ("tf32", "f32x3") else None
        out = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype, device=q.device)  # laid out as q is
        out.fill_(math.nan)  # memory used before may hold another peer's right answer
        begun = time.perf_counter()
        window = {"window": (c["keys"] - 1, 0)} if "keys" in c else {}
        call = self.fatune.prepare(q, k, v, causal=c["causal"], out=out, kernel=self.kernel, policy=self.policy,
                                   aligned=True, arithmetic=arithmetic, **window)
        self.plans[label(c)] = time.perf_counter() - begun
        return call

    def about(self, c):
        arithmetic = c["dtype"] if c["dtype"] in ("tf32", "f32x3") else None
        q, k = (torch.empty((c["b"], heads, rows, c["d"]), dtype=dtype_of(c["dtype"]), device="meta")
                for heads, rows in ((c["h"], rows_of(c)), (heads_of(c), c["n"])))
        window = {"window": (c["keys"] - 1, 0)} if "keys" in c else {}
        problem = self.fatune.problem_text(q, k, k, c["causal"], arithmetic, **window)
        lines = self.fatune.describe(problem, 0, self.kernel, self.policy, True).splitlines()
        known = dict(line.split(" ", 1) for line in reversed(lines) if " " in line)
        return {"kernel": known.get("kernel"), "note": f"pick {known.get('pick')}, {known.get('kernel-from')}",
                "plan_seconds": round(self.plans.get(label(c), 0.0), 4)}


class Before(Ours):
    """fatune as another checkout has it, with a build of its own and its own package database."""

    windows = False

    def __init__(self, folder, kernel, policy):
        package = os.path.join(folder, "build", "share", "fatune", "fatune.db")
        own = {"FATUNE_LIBRARY": os.path.join(folder, "build", "runtime", "libfatune.so.0"), "FATUNE_SYSTEM_DB": package,
               "FATUNE_DB": ""}
        kept = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            path = os.path.join(folder, "bindings", "python", "fatune.py")
            spec = importlib.util.spec_from_file_location("fatune_before", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            like = torch.zeros(1, 1, 1, 64, dtype=torch.float16, device="cuda")
            with contextlib.suppress(module.Error):
                module.attention(like, like, like)  # opens the library while the environment names it
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name)
                else:
                    os.environ[name] = value
        super().__init__(module, kernel, policy)


class Proxy(Peer):
    """The kernels of a GPU that is not at hand, as PTX of its architecture."""

    dtypes = HALVES + SINGLES

    def __init__(self, gpu, configs):
        import peers_proxy
        self.maker = peers_proxy.Maker(gpu, peers_proxy.read_configs(configs) if configs else None)
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    @staticmethod
    def problem(c):
        heads = f"h{c['h']}" + (f"k{c['hk']}" if "hk" in c else "")
        return f"fwd-{c['dtype']}-b{c['b']}-{heads}-q{rows_of(c)}-k{c['n']}-d{c['d']}" + ("-causal" if c["causal"] else "")

    def make(self, c, q, k, v):
        out = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype, device=q.device)
        out.fill_(math.nan)
        torch.cuda.current_stream().synchronize()  # makes the context current for the driver's calls
        sizes = {"b": c["b"], "h": c["h"], "hk": heads_of(c), "q": rows_of(c), "k": c["n"], "SMs": self.sms}
        launch = self.maker.launcher(self.problem(c), [(t.data_ptr(), t.stride()[:3]) for t in (q, k, v, out)], sizes,
                                     1 / math.sqrt(c["d"]))

        def call():
            launch(torch.cuda.current_stream().cuda_stream)
            return out
        return call

    def about(self, c):
        return dict(zip(("kernel", "note"), self.maker.used[self.problem(c)]))


def peers(wanted, kernels, policy, flex_lengths, proxy=None, configs=None, before=None):
    """({name: Peer}, {name: why it is absent}), ours first. `proxy`: a GPU whose kernels run as a proxy, `configs` a file
    that says which. `before`: a checkout of fatune to be timed beside this one."""
    makers = {"cudnn": lambda: Sdpa(SDPBackend.CUDNN_ATTENTION, HALVES),
              "fa2": lambda: Sdpa(SDPBackend.FLASH_ATTENTION, HALVES),
              "memeff": lambda: Sdpa(SDPBackend.EFFICIENT_ATTENTION, HALVES + SINGLES),
              "math": lambda: Sdpa(SDPBackend.MATH, HALVES + SINGLES),
              "flex": lambda: Flex(flex_lengths),
              "fa3": lambda: FlashAttention("flash_attn_interface", splits=0),
              "fa4": lambda: FlashAttention("flash_attn.cute"),
              "flashinfer": FlashInfer}
    found, absent = {}, {}
    if kernels:
        import fatune
        for i, kernel in enumerate(kernels):
            found[table.OURS if i == 0 else f"{table.OURS}:{kernel}"] = Ours(fatune, None if kernel == "best" else kernel, policy)
    if before:
        found[table.BEFORE] = Before(before, None if kernels[0] == "best" else kernels[0], policy)
    if proxy:
        makers[table.PROXY + proxy] = lambda: Proxy(proxy, configs)
        wanted = wanted + [table.PROXY + proxy]
    for name in wanted:
        try:
            found[name] = makers[name]()
        except Exception as error:  # a package may fail to load in any way
            absent[name] = reason(error)
    return found, absent
