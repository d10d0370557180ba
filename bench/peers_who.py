"""peers_who.py -- who is timed: for each library a context to be timed in, and a maker of calls for tensors.

All get the same tensors, [b, h, n, d]. What a peer copies, plans or compiles beforehand, when its call is made or made for
the first time, is not timed. A backward is that of the forward which PyTorch records (peers_backward.py); ours is a prepared
call of its own.
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

import peers_backward as backward
import peers_gpu
import peers_table as table
from peers_cells import HALVES, OPS, SINGLES, heads_of, is_decoding, label, op_of, rows_of

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
    windows = False  # whether it has them
    ops = ("fwd",)  # what it is timed at
    deterministic = False  # in the mode in which gradients have equal bits each time; timed at gradients alone

    def context(self):
        return contextlib.nullcontext()

    def wants(self, c):
        ops = [op for op in self.ops if op != "fwd"] if self.deterministic else self.ops
        return c["dtype"] in self.dtypes and (self.windows or "keys" not in c) and op_of(c) in ops

    def make_backward(self, c, q, k, v, dO):
        """A call that gives (dQ, dK, dV), by the forward that `make` gives."""
        leaves = backward.leaves_of(q, k, v)
        return backward.recorded(self.make(c, *leaves), leaves, dO, op_of(c))

    def about(self, c):
        """Facts for the row."""
        return {}


class Sdpa(Peer):
    ops = OPS

    def __init__(self, backend, dtypes, deterministic=False):
        self.backend, self.dtypes, self.deterministic = backend, dtypes, deterministic

    @contextlib.contextmanager
    def context(self):
        with sdpa_kernel(self.backend), backward.deterministic() if self.deterministic else contextlib.nullcontext():
            yield

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
        return super().wants(c) and c["set"] == "grid" and c["n"] in self.lengths

    def make(self, c, q, k, v):
        n, block_mask = c["n"], None
        if c["causal"]:
            block_mask = self.flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device="cuda")
        return lambda: self.compiled(q, k, v, block_mask=block_mask)


class FlashAttention(Peer):
    """FlashAttention-3 or -4 from its own package: tensors are [b, n, h, d], strided as ours are."""

    windows = True
    ops = OPS

    def __init__(self, module, splits=None, deterministic=False):
        """`splits`: what lets it choose for itself into how many parts few rows' keys are split."""
        self.function = importlib.import_module(module).flash_attn_func
        known = inspect.signature(self.function).parameters
        self.splits = splits if "num_splits" in known else None
        self.deterministic = deterministic
        if deterministic and "deterministic" not in known:
            raise RuntimeError(f"{module} has no deterministic backward")
        if module == "flash_attn_interface" and self.lacks_f16():
            self.dtypes = ("bf16",)

    @staticmethod
    def lacks_f16():
        """What FlashAttention-3's build says of itself: without f16, asked for decoding in it, it ended the process."""
        try:
            return bool(importlib.import_module("flash_attn_config").CONFIG["build_flags"]["FLASHATTENTION_DISABLE_FP16"])
        except (ImportError, AttributeError, KeyError):
            return False

    def make(self, c, q, k, v):
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        options = {"causal": c["causal"], **({"window_size": (c["keys"] - 1, 0)} if "keys" in c else {})}
        if rows_of(c) != c["n"] and self.splits is not None:
            options["num_splits"] = self.splits
        if self.deterministic:
            options["deterministic"] = True

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
        return super().wants(c) and not is_decoding(c)

    def make(self, c, q, k, v):
        b, h, n, d = q.shape
        flat = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]
        ends = [torch.arange(0, (b + 1) * rows, rows, dtype=torch.int32, device="cuda") for rows in (n, c["n"])]
        wrapper = self.module.BatchPrefillWithRaggedKVCacheWrapper(self.workspace, "NHD")
        wrapper.plan(*ends, h, heads_of(c), d, causal=c["causal"], q_data_type=q.dtype)
        return lambda: wrapper.run(*flat).view(b, n, h, d).transpose(1, 2)


def untouched(tensor):
    """Room for a result, laid out as a tensor is; memory used before may hold another peer's right answer."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device).fill_(math.nan)


class Ours(Peer):
    dtypes = HALVES + SINGLES
    windows = True

    def __init__(self, fatune, kernel, policy, deterministic=False):
        self.fatune, self.kernel, self.deterministic = fatune, kernel, deterministic
        self.policy = {"fallback": fatune.FALLBACK, "fail": fatune.FAIL, "compile": fatune.COMPILE}[policy]
        self.plans = {}
        # A named kernel is of one op; a training step takes what the library picks.
        self.ops = OPS if kernel is None else ("bwd",) if "bwd" in kernel else ("fwd",)
        if not hasattr(fatune, "prepare_backward"):  # an earlier one
            self.ops = ("fwd",)

    @staticmethod
    def options(c):
        """What forward and backward of a cell are both asked for."""
        return {"causal": c["causal"], "arithmetic": c["dtype"] if c["dtype"] in ("tf32", "f32x3") else None,
                **({"window": (c["keys"] - 1, 0)} if "keys" in c else {})}

    def make(self, c, q, k, v):
        out = untouched(q)
        begun = time.perf_counter()
        call = self.fatune.prepare(q, k, v, out=out, kernel=self.kernel, policy=self.policy, aligned=True, **self.options(c))
        self.plans[label(c)] = time.perf_counter() - begun
        return call

    def make_backward(self, c, q, k, v, dO):
        if op_of(c) == "both":
            leaves = backward.leaves_of(q, k, v)
            return backward.recorded(lambda: self.fatune.attention(*leaves, policy=self.policy, deterministic=self.deterministic,
                                                                   **self.options(c)), leaves, dO, "both")
        with torch.no_grad():
            out, lse = self.fatune.attention(q, k, v, return_lse=True, policy=self.policy, **self.options(c))
        begun = time.perf_counter()
        call = self.fatune.prepare_backward(q, k, v, out, lse, backward.like(dO, out), gradients=tuple(map(untouched, (q, k, v))),
                                            kernel=self.kernel, policy=self.policy, aligned=True,
                                            deterministic=self.deterministic, **self.options(c))
        self.plans[label(c)] = time.perf_counter() - begun
        return call

    def kernel_of(self, c, op):
        """What serves a cell, as describe says it."""
        q, k = (torch.empty((c["b"], heads, rows, c["d"]), dtype=dtype_of(c["dtype"]), device="meta")
                for heads, rows in ((c["h"], rows_of(c)), (heads_of(c), c["n"])))
        more = {"op": op, "deterministic": self.deterministic} if op == "bwd" else {}
        problem = self.fatune.problem_text(q, k, k, **self.options(c), **more)
        lines = self.fatune.describe(problem, 0, self.kernel, self.policy, True).splitlines()
        return dict(line.split(" ", 1) for line in reversed(lines) if " " in line)

    def about(self, c):
        found = [self.kernel_of(c, op) for op in (("fwd", "bwd") if op_of(c) == "both" else (op_of(c),))]
        return {"kernel": " and ".join(str(known.get("kernel")) for known in found),
                "note": " and ".join(f"pick {known.get('pick')}, {known.get('kernel-from')}" for known in found),
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
            package = os.path.join(folder, "bindings", "python", "fatune")
            path = os.path.join(package, "__init__.py") if os.path.isdir(package) else package + ".py"  # one file, formerly
            spec = importlib.util.spec_from_file_location("fatune_before", path)
            module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
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
    """The kernels of a GPU that is not at hand, as PTX of its architecture. Of several configs a cell gets the one that took
    least when it came first."""

    dtypes = HALVES + SINGLES
    ops = ("fwd", "bwd")

    def __init__(self, gpu, configs, top):
        import peers_proxy
        self.proxy = peers_proxy
        self.maker = peers_proxy.Maker(gpu, peers_proxy.read_configs(configs, gpu, top) if configs else None)
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.chosen = {}

    @staticmethod
    def problem(c):
        heads = f"h{c['h']}" + (f"k{c['hk']}" if "hk" in c else "")
        return (f"{op_of(c)}-{c['dtype']}-b{c['b']}-{heads}-q{rows_of(c)}-k{c['n']}-d{c['d']}" +
                ("-causal" if c["causal"] else ""))

    @staticmethod
    def probe(call):
        call()
        return min(peers_gpu.spend(call, 1, 3)[0])

    def launched(self, c, tensors, result):
        """A call that has the tensors, by name, worked on, and gives `result`."""
        torch.cuda.current_stream().synchronize()  # makes the context current for the driver's calls
        sizes = {"b": c["b"], "h": c["h"], "hk": heads_of(c), "q": rows_of(c), "k": c["n"], "SMs": self.sms}
        given = {name: (t.data_ptr(), t.stride()[:t.dim() - 1]) for name, t in tensors.items()}
        problem, calls, why = self.problem(c), {}, None

        def made(config):
            launch = self.maker.launcher(problem, config, given, sizes, 1 / math.sqrt(c["d"]), room)

            def call(_held=tensors):  # the kernels have their addresses
                launch(torch.cuda.current_stream().cuda_stream)
                return result
            return call
        for config in [self.chosen[problem]] if problem in self.chosen else self.maker.candidates(problem):
            try:
                calls[config] = made(config)
            except self.proxy.Failed as error:
                why = error
        if not calls:
            raise why
        self.chosen[problem] = min(calls, key=lambda config: self.probe(calls[config])) if len(calls) > 1 else next(iter(calls))
        return calls[self.chosen[problem]]

    def make(self, c, q, k, v):
        out = untouched(q)
        return self.launched(c, {"Q": q, "K": k, "V": v, "O": out}, out)

    def make_backward(self, c, q, k, v, dO):
        import fatune  # O and LSE come from its forward on the GPU at hand
        arithmetic = c["dtype"] if c["dtype"] in ("tf32", "f32x3") else None
        with torch.no_grad():
            out, lse = fatune.attention(q, k, v, causal=c["causal"], return_lse=True, arithmetic=arithmetic)
        dQ, dK, dV = map(untouched, (q, k, v))
        return self.launched(c, {"Q": q, "K": k, "V": v, "O": out, "LSE": lse, "dO": backward.like(dO, out), "dQ": dQ, "dK": dK,
                                 "dV": dV}, (dQ, dK, dV))

    def about(self, c):
        return dict(zip(("kernel", "note"), self.maker.used[self.problem(c), self.chosen[self.problem(c)]]))


def room(size):
    """(something that holds device memory, its address)"""
    held = torch.empty(size, dtype=torch.uint8, device="cuda")
    return held, held.data_ptr()


def makers_of(flex_lengths):
    """How each is made; of those that have such a mode, in the deterministic one, too."""
    makers = {"memeff": lambda: Sdpa(SDPBackend.EFFICIENT_ATTENTION, HALVES + SINGLES),
              "math": lambda: Sdpa(SDPBackend.MATH, HALVES + SINGLES), "flex": lambda: Flex(flex_lengths), "flashinfer": FlashInfer}
    for end, more in (("", {}), (table.DET, {"deterministic": True})):
        makers.update({"cudnn" + end: lambda more=more: Sdpa(SDPBackend.CUDNN_ATTENTION, HALVES, **more),
                       "fa2" + end: lambda more=more: Sdpa(SDPBackend.FLASH_ATTENTION, HALVES, **more),
                       "fa3" + end: lambda more=more: FlashAttention("flash_attn_interface", splits=0, **more),
                       "fa4" + end: lambda more=more: FlashAttention("flash_attn.cute", **more)})
    return makers


def peers(wanted, kernels, policy, flex_lengths, proxies=(), configs=None, before=None, top=1, det=False):
    """({name: Peer}, {name: why it is absent}), ours first. `proxies`: GPUs whose kernels run as proxies, `configs` files
    that say which, the `top` first of each family. `before`: a checkout of fatune to be timed beside this one. `det`: the
    deterministic modes, too."""
    makers, found, absent = makers_of(flex_lengths), {}, {}
    first = None if not kernels or kernels[0] == "best" else kernels[0]
    if kernels:
        import fatune
        for i, kernel in enumerate(kernels):
            found[table.OURS if i == 0 else f"{table.OURS}:{kernel}"] = Ours(fatune, None if kernel == "best" else kernel, policy)
        if det:
            found[table.OURS + table.DET] = Ours(fatune, first, policy, deterministic=True)
    if before:
        found[table.BEFORE] = Before(before, first, policy)
    makers.update({table.PROXY + gpu: lambda gpu=gpu: Proxy(gpu, configs, top) for gpu in proxies})
    wanted = list(wanted) + [name + table.DET for name in wanted if det and name in table.DETERMINISTIC]
    wanted += [table.PROXY + gpu for gpu in proxies]
    for name in wanted:
        try:
            found[name] = makers[name]()
        except Exception as error:  # a package may fail to load in any way
            absent[name] = reason(error)
    return found, absent
