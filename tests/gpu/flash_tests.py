"""flash_tests.py -- flash-attn's own tests, unchanged, through its unchanged Python, on fatune's kernels. Needs a GPU.

    git clone https://github.com/Dao-AILab/flash-attention
    python3 tests/gpu/flash_tests.py flash-attention                  # tests/test_flash_attn.py
    python3 tests/gpu/flash_tests.py flash-attention --fa3            # hopper/test_flash_attn.py

Nothing of theirs is built or installed. Of each test function's cases so many are drawn by lot, by a seed that is printed; a
case passes, fails, is skipped by the test itself, or is not served: fatune's own error that names what it has no kernel for.
Exit 1 where a case failed.

What the drawn cases need is compiled first, by --jobs processes at once: a family takes one 2 to 3 s, and there are some 2,000
in all. --families bounds them: then a case is drawn only where its families are among the first so many that were drawn. With
--part I/N one of N processes, each with its I, runs its part of the same lot."""

import argparse
import collections
import contextlib
import ctypes
import importlib
import inspect
import math
import os
import random
import subprocess
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
    parser.add_argument("--seconds", type=float, default=math.inf, help="of the cases: stop after so many")
    parser.add_argument("--families", type=int, default=10000, help="compile no more than so many")
    parser.add_argument("--compile", type=float, default=math.inf, metavar="SECONDS", help="the cases begin after so many at latest")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--part", default="0/1", metavar="I/N")
    parser.add_argument("--only-compile", action="store_true")
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


def case_of(axes, number):
    """The case of that number, as keywords."""
    case = {}
    for names, values in axes:
        number, place = divmod(number, len(values))
        case.update(zip(names, values[place]))
    return case


def families(name, case):
    """Those that the case needs, as far as its keywords tell."""
    if "d" not in case or "dtype" not in case or case.get("dropout_p") and case.get("softcap"):
        return set()
    d, get = -(-case["d"] // 8) * 8, case.get
    causal, local = get("causal", name.endswith("_causal")), get("local", False)
    bare = {"torch.float16": "f16", "torch.bfloat16": "bf16"}.get(str(case["dtype"]), "") + f"-d{d}"
    cache = "kvcache" in name
    if bare[0] == "-" or "combine" in name or get("new_kv") or get("paged_kv_block_size") or get("has_qv"):
        return set()
    causal = causal and not (cache and case["seqlen_q"] == 1 and not local and not get("alibi"))
    words = [("causal", causal), ("w", local), ("varlen", "varlen" in name), ("used", cache), ("lpad", get("has_leftpad")),
             ("alibi", get("alibi")), ("softcap", get("softcap")), ("drop", get("dropout_p"))]
    text = bare + "".join(f"-{word}" for word, there in words if there)
    backward = "bwd-" + text + ("-det" if get("deterministic", "deterministic" in name) else "")
    return {"fwd-" + text} if cache else {"fwd-" + text, backward}


def draw(functions, given, lot):
    """({function: cases}, the families that they need): a case a function in turn."""
    fixed = dict(text.split("=", 1) for text in given.fix)
    axes, numbers, drawn, needed = {}, {}, {f: [] for f in functions}, {}
    for f in functions:
        axes[f] = [(names, [v for v in values if all(str(x) == fixed.get(n, str(x)) for n, x in zip(names, v))])
                   for names, values in parameters(f)]
        count = math.prod(len(values) for _, values in axes[f])
        numbers[f] = iter(lot.sample(range(count), min(count, 50 * given.cases)))
    while numbers and sum(map(len, drawn.values())) < given.cases:
        for f in list(numbers):
            for number in numbers[f]:
                case = case_of(axes[f], number)
                wanted = families(f.__name__, case)
                if len({*needed, *wanted}) <= given.families:
                    needed.update(dict.fromkeys(sorted(wanted)))
                    drawn[f].append(case)
                    break
            else:
                del numbers[f]
    return drawn, list(needed)


def compile_here(texts):
    """A process of warm_up: makes a plan of each, which compiles what is not stored."""
    import fatune
    cuda, context, device = ctypes.CDLL(os.environ.get("FATUNE_LIBCUDA", "libcuda.so.1")), ctypes.c_void_p(), ctypes.c_int()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
    for text in texts:
        try:
            fatune.library.plan(text, 0)
        except fatune.Error as e:  # the case that needs it says so again
            print(text, e, file=sys.stderr)


def warm_up(texts, given):
    """Compiles them, the widest first, by so many processes."""
    texts = sorted(texts, key=lambda t: -int(t.split("-d")[1].split("-")[0]))
    began, running = time.monotonic(), []
    for i in range(min(given.jobs, len(texts))):
        running.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), "--these", *texts[i::given.jobs]]))
    for one in running:
        try:
            one.wait(max(0, began + given.compile - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    print(f"{len(texts)} families asked for, {given.jobs} jobs, {time.monotonic() - began:.0f} s", flush=True)


def run(function, case, skipped):
    """("passed" | "failed" | "skipped" | "not served", why)"""
    try:
        with open(os.devnull, "w", encoding="ascii") as nowhere, contextlib.redirect_stdout(nowhere):  # they say much
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
    if sys.argv[1:2] == ["--these"]:
        return compile_here(sys.argv[2:])
    given = options()
    given.source = os.path.abspath(given.source)
    import pytest
    import torch
    if not torch.cuda.is_available():
        sys.exit("flash_tests.py: there is no GPU")
    tests = find_modules(given)
    functions = [f for name, f in inspect.getmembers(tests, inspect.isfunction) if name.startswith("test_") and given.only in name]
    part, parts = map(int, given.part.split("/"))
    cases, needed = draw(functions, given, random.Random(given.seed))
    began, failures = time.monotonic(), []
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, seed {given.seed}, {sum(map(len, cases.values()))} cases drawn, "
          f"part {given.part}")
    if part == 0:
        warm_up(needed, given)
    if given.only_compile:
        return 0
    began = time.monotonic()
    print(f"{'function':44}{'cases':>9}{'run':>6}{'passed':>8}{'failed':>8}{'skipped':>9}{'s':>6}  not served")
    for place, f in enumerate(functions):
        # Each has its part of the time that is left.
        start = time.monotonic()
        until = start + (given.seconds - (start - began)) / (len(functions) - place)
        results, why = collections.Counter(), collections.Counter()
        for case in cases[f][part::parts]:
            if time.monotonic() > until:
                break
            result, text = run(f, case, pytest.skip.Exception)
            results[result] += 1
            if result == "not served":
                why[text] += 1
            if result == "failed":
                failures.append(f"{f.__name__} {case}: {text}")
        said = ", ".join(f"{text} {n}" for text, n in why.most_common())
        total = math.prod(len(values) for _, values in parameters(f))
        print(f"{f.__name__:44}{total:9}{sum(results.values()):6}{results['passed']:8}{results['failed']:8}{results['skipped']:9}"
              f"{time.monotonic() - start:6.0f}  {said or '-'}", flush=True)
    for line in failures[:40]:
        print("FAILED:", line)
    print(f"{len(failures)} failed, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
