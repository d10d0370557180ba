"""sdpa_tests.py -- PyTorch's own cases of scaled_dot_product_attention with fatune's kernels under its operators. Needs a GPU.

    python3 tests/gpu/sdpa_tests.py                                # the samples that every PyTorch carries (its OpInfo), with gradients
    python3 tests/gpu/sdpa_tests.py pytorch/test/test_transformers.py --cases 3000    # of that file's tests too, by lot

A sample runs under the flash and under the memory-efficient backend, f16 and bf16, and is right where output and gradients are no
further from PyTorch's math in double than twice PyTorch's own kernel, and a little. Counted are those that fatune served, those
that went on to PyTorch's kernels (dropout), those that PyTorch refuses itself. Exit 1 where one is wrong."""

import argparse
import collections
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import fatune
from fatune import overrides

def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", nargs="?", help="test/test_transformers.py of PyTorch's source")
    parser.add_argument("names", nargs="*", help="only tests with one of these in their name")
    parser.add_argument("--cases", type=int, default=10**6, help="so many, drawn by lot")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=4, help="that share the lot")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # I/N, of one of the processes
    parser.add_argument("--only", help=argparse.SUPPRESS)  # a file of names: none but these
    parser.add_argument("--into", help=argparse.SUPPRESS)  # its file
    given = parser.parse_args()
    sys.argv[1:] = []  # PyTorch's own files read it
    return given


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


def cases_of(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from cases_of(one)
        else:
            yield one


def said_by(traceback):
    """What an exception says, in one line."""
    lines = traceback.split("To execute this test")[0].strip().splitlines()
    first = next((n for n, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception)\b", line)), -1)
    return " ".join(line.strip() for line in lines[first:] if line.strip())[:400]


def run_cases(cases, ours):
    """{name: ("passed", "skipped" or "failed", what the failure says)}."""
    handle = fatune.register() if ours else None
    became, result = {}, unittest.TestResult()
    result.buffer = True
    try:
        for case in cases:
            failed, errors, skipped = len(result.failures), len(result.errors), len(result.skipped)
            case(result)
            said = "".join(text for _, text in result.failures[failed:] + result.errors[errors:])
            became[case.id()] = ("failed", said_by(said)) if said else ("skipped" if len(result.skipped) > skipped else "passed", "")
    finally:
        if handle:
            handle.remove()
    return became


def drawn_of(given):
    """The cases by lot, and of how many."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.file)))
    spec = importlib.util.spec_from_file_location("theirs", given.file)
    theirs = importlib.util.module_from_spec(spec)
    sys.modules["theirs"] = theirs
    spec.loader.exec_module(theirs)
    cases = [c for c in cases_of(unittest.TestLoader().loadTestsFromModule(theirs))
             if "cpu" not in type(c).__name__.lower() and (not given.names or any(name in c.id() for name in given.names))]
    return random.Random(given.seed).sample(cases, min(given.cases, len(cases))), len(cases)


def run_part(given):
    """A part of the lot, first on PyTorch's kernels, then with ours under its operators, written as JSON."""
    cases, of = drawn_of(given)
    part, parts = map(int, given.part.split("/"))
    cases = cases[part::parts]
    if given.only:
        with open(given.only, encoding="ascii") as f:
            wanted = set(json.load(f))
        cases = [case for case in cases if case.id() in wanted]
    count_served()
    plain = run_cases(cases, False)
    served.clear()
    ours = run_cases(cases, True)
    with open(given.into, "w", encoding="ascii") as f:
        json.dump({"of": of, "plain": plain, "ours": ours, "served": served}, f)


def run_parts(given, folder, parts, *more):
    """What became of the lot, by so many processes at once, part after part."""
    files = [os.path.join(folder, str(part)) for part in range(parts)]
    all_ = [subprocess.Popen([sys.executable, *sys.orig_argv[1:], "--part", f"{part}/{parts}", "--into", file, *more], stdout=2)
            for part, file in enumerate(files)]
    for process, file in zip(all_, files):
        if process.wait():
            raise SystemExit(f"sdpa_tests.py: a part of the lot ended with {process.returncode}")
        with open(file, encoding="ascii") as f:
            yield json.load(f)


def run_file(given):
    """The tests of a file of PyTorch's; those that found no memory beside others, again alone. Wrong is what fails with ours alone."""
    plain, ours, calls, of = {}, {}, collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for part in run_parts(given, folder, given.processes):
            plain.update(part["plain"])
            ours.update(part["ours"])
            calls.update(part["served"])
            of = part["of"]
        crowded = [name for name in plain if "OutOfMemoryError" in plain[name][1] + ours[name][1]]
        if crowded:
            with open(os.path.join(folder, "crowded"), "w", encoding="ascii") as f:
                json.dump(crowded, f)
            for part in run_parts(given, folder, 1, "--only", f.name):
                plain.update(part["plain"])
                ours.update(part["ours"])
    print(f"{of} cases, {len(plain)} drawn, seed {given.seed}; calls: fatune's {calls['ours']}, gone on to PyTorch's {calls['theirs']}")
    print(f"{'class':32}{'with PyTorch':16}{'with fatune':16}cases")
    total = collections.Counter((name.split(".")[-2], plain[name][0], ours[name][0]) for name in plain)
    for (group, before, now), number in sorted(total.items()):
        print(f"{group:32}{before:16}{now:16}{number:5}")
    wrong = [name for name in plain if ours[name][0] == "failed" and plain[name][0] != "failed"]
    for name in wrong:
        print(f"WRONG: {name}: {ours[name][1]}")
    return len(wrong)


def main():
    if not torch.cuda.is_available():
        sys.exit("sdpa_tests.py: there is no GPU")
    given = options()
    if given.part:
        run_part(given)
        return 0
    count_served()
    wrong = run_samples()
    if given.file:
        wrong += run_file(given)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
