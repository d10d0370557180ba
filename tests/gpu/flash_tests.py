"""flash_tests.py -- flash-attn's own tests, unchanged, through its unchanged Python, on fatune's kernels. Needs a GPU.

    git clone https://github.com/Dao-AILab/flash-attention
    python3 tests/gpu/flash_tests.py flash-attention                  # tests/test_flash_attn.py
    python3 tests/gpu/flash_tests.py flash-attention --fa3            # hopper/test_flash_attn.py

Nothing of theirs is built or installed. Of each test function's cases so many are drawn by lot, by a seed that is printed; a
case passes, fails, is skipped by the test itself, or is not served: fatune's own error that names what it has no kernel for.
Exit 1 where a case failed. What only compiles (a new family) is counted by time, apart."""

import argparse
import collections
import importlib
import inspect
import math
import os
import random
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", help="a checkout of flash-attention")
    parser.add_argument("--fa3", action="store_true", help="FlashAttention-3's tests")
    parser.add_argument("--cases", type=int, default=3000, help="in all, spread over the functions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="functions whose name has this")
    parser.add_argument("--fix", action="append", default=[], metavar="NAME=VALUE", help="only cases with this value, as d=128")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so many")
    return parser.parse_args()


def find_modules(given):
    """Their Python first, our stand-ins behind it; the module of tests."""
    import fatune
    try:
        import einops  # noqa: F401
    except ImportError:
        sys.path.append(os.path.join(HERE, "standin"))
    sys.path.insert(0, os.path.join(os.path.dirname(fatune.__file__), "dropin"))
    sys.path.insert(0, given.source)
    folder = os.path.join(given.source, "hopper" if given.fa3 else "tests")
    sys.path.insert(0, folder)
    if given.fa3:
        os.environ.update(FLASH_ATTENTION_DISABLE_FP8="TRUE", FLASH_ATTENTION_DISABLE_PAGEDKV="TRUE",
                          FLASH_ATTENTION_DISABLE_APPENDKV="TRUE")
    os.chdir(folder)
    return importlib.import_module("test_flash_attn")


def parameters(function):
    """(names, values) of each of its marks."""
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
            yield names, [value if len(names) > 1 else (value,) for value in mark.args[1]]


def draw(function, count, lot, fixed):
    """So many different cases, as keywords, and how many there are."""
    axes = list(parameters(function))
    axes = [(names, [v for v in values if all(str(x) == fixed.get(n, str(x)) for n, x in zip(names, v))]) for names, values in axes]
    all_ = math.prod(len(values) for _, values in axes)
    for number in lot.sample(range(all_), min(count, all_)):
        case = {}
        for names, values in axes:
            number, place = divmod(number, len(values))
            case.update(zip(names, values[place]))
        yield case


def run(function, case, skipped):
    """("passed" | "failed" | "skipped" | "not served", why)"""
    try:
        function(**case)
        return "passed", ""
    except skipped as e:
        return "skipped", str(e)
    except AssertionError as e:
        return "failed", "assertion: " + (str(e).splitlines() or [traceback.extract_tb(e.__traceback__)[-1].line])[0][:120]
    except Exception as e:  # theirs, ours, CUDA's: all are results here
        text = str(e).splitlines()[0] if str(e) else type(e).__name__
        if "fatune" in text and " yet" in text:
            return "not served", text.split("has no ", 1)[-1].removesuffix(" yet")
        return "failed", f"{type(e).__name__}: {text[:120]}"


def main():
    given = options()
    given.source = os.path.abspath(given.source)
    import pytest
    import torch
    if not torch.cuda.is_available():
        sys.exit("flash_tests.py: there is no GPU")
    tests = find_modules(given)
    fixed = dict(text.split("=", 1) for text in given.fix)
    functions = [f for name, f in inspect.getmembers(tests, inspect.isfunction) if name.startswith("test_") and given.only in name]
    totals = {f: math.prod(len(values) for _, values in parameters(f)) for f in functions}
    lot, began, failures = random.Random(given.seed), time.monotonic(), []
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, seed {given.seed}")
    print(f"{'function':44}{'cases':>9}{'run':>6}{'passed':>8}{'failed':>8}{'skipped':>9}  not served")
    for place, f in enumerate(functions):
        # Each has its part of the time that is left: a first case may compile for seconds.
        until = time.monotonic() + (given.seconds - (time.monotonic() - began)) / (len(functions) - place)
        share = max(1, given.cases // len(functions))
        results, why = collections.Counter(), collections.Counter()
        for case in draw(f, share, lot, fixed):
            if time.monotonic() > until:
                break
            result, text = run(f, case, pytest.skip.Exception)
            results[result] += 1
            if result == "not served":
                why[text] += 1
            if result == "failed":
                failures.append(f"{f.__name__} {case}: {text}")
        said = ", ".join(f"{text} {n}" for text, n in why.most_common())
        print(f"{f.__name__:44}{totals[f]:9}{sum(results.values()):6}{results['passed']:8}{results['failed']:8}{results['skipped']:9}  "
              f"{said or '-'}", flush=True)
    for line in failures[:40]:
        print("FAILED:", line)
    print(f"{len(failures)} failed, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
