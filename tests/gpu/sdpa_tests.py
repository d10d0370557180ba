"""sdpa_tests.py -- PyTorch's own cases of scaled_dot_product_attention with fatune's kernels under its operators. Needs a GPU.

    python3 tests/gpu/sdpa_tests.py                                # the samples that every PyTorch carries (its OpInfo), with gradients
    python3 tests/gpu/sdpa_tests.py pytorch/test/test_transformers.py [NAME...]      # that file's tests too, or those with NAME

A sample runs under the flash and under the memory-efficient backend, f16 and bf16, and is right where output and gradients are no
further from PyTorch's math in double than twice PyTorch's own kernel, and a little. Counted are those that fatune served, those
that went on to PyTorch's kernels (dropout), those that PyTorch refuses itself. Exit 1 where one is wrong."""

import collections
import importlib.util
import os
import sys
import unittest

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import fatune
from fatune import overrides

BACKENDS = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)
served = collections.Counter()  # calls that our kernels took, and those that went on


def count_served():
    """Each call of an operator is counted on its way."""
    ours, other = overrides._forward, overrides.Override._else

    def forward(*arguments):
        served["ours"] += 1
        return ours(*arguments)

    def on(self, name, *arguments, **options):
        served["theirs"] += not name.endswith("backward")
        return other(self, name, *arguments, **options)
    overrides._forward, overrides.Override._else = forward, on


def samples(dtype, device):
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        if op.name == "nn.functional.scaled_dot_product_attention":
            for sample in op.sample_inputs(device, dtype, requires_grad=True):
                yield [sample.input, *sample.args], sample.kwargs


def attend(given, options, backend, weight=None):
    """[out, gradients of what requires them], of a generator's first draw."""
    with sdpa_kernel(backend):
        torch.manual_seed(3)
        out = F.scaled_dot_product_attention(*given, **options)
        weight = torch.ones_like(out) if weight is None else weight
        return [out, *torch.autograd.grad(out, [t for t in given if t.requires_grad], weight.to(out.dtype))]


def judge(given, options, backend):
    """What became of a sample."""
    exact = [t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in given]
    mask = options.get("attn_mask")
    wide = {**options, "attn_mask": mask.double()} if mask is not None and mask.is_floating_point() else options
    try:
        plain = attend(given, options, backend)
    except RuntimeError:
        return "refused by PyTorch"
    served.clear()
    handle = fatune.register()
    try:
        found = attend(given, options, backend)
    finally:
        handle.remove()
    if not served["ours"]:
        return "not fatune's"
    if options.get("dropout_p"):
        return "WRONG: dropout was dropped"
    for a, b, c in zip(found, plain, attend(exact, wide, SDPBackend.MATH)):
        if not (a - c).abs().max() <= 2 * (b - c).abs().max() + 1e-3:  # a NaN is wrong too
            return f"WRONG: {(a - c).abs().max():.3g} where PyTorch's is {(b - c).abs().max():.3g}"
    return "right"


def run_samples(device="cuda"):
    total, wrong = collections.Counter(), 0
    for dtype in (torch.float16, torch.bfloat16):
        for given, options in samples(dtype, device):
            for backend in BACKENDS:
                result = judge(given, options, backend)
                total[backend.name, result.split(":")[0]] += 1
                if result.startswith("WRONG"):
                    wrong += 1
                    print([tuple(t.shape) for t in given], dtype, options, backend.name, result)
    for (backend, result), count in sorted(total.items()):
        print(f"{backend:24}{result:24}{count:6}")
    return wrong


def run_file(path, names):
    """The tests of a file of PyTorch's, our kernels under its operators."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("theirs", path)
    theirs = importlib.util.module_from_spec(spec)
    sys.modules["theirs"] = theirs
    handle = fatune.register()
    served.clear()
    try:
        spec.loader.exec_module(theirs)
        loader = unittest.TestLoader()
        loader.testNamePatterns = [f"*{name}*" for name in names] or None
        result = unittest.TextTestRunner(verbosity=0, buffer=True).run(loader.loadTestsFromModule(theirs))
    finally:
        handle.remove()
    print(f"{path}: {result.testsRun} run, {len(result.failures)} failed, {len(result.errors)} errors, {len(result.skipped)} skipped; "
          f"calls: fatune's {served['ours']}, gone on to PyTorch's {served['theirs']}")
    return len(result.failures) + len(result.errors)


def main():
    if not torch.cuda.is_available():
        sys.exit("sdpa_tests.py: there is no GPU")
    count_served()
    wrong = run_samples()
    if len(sys.argv) > 1:
        wrong += run_file(sys.argv[1], sys.argv[2:])
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
