"""flash_tests.py -- flash-attn's own tests, unchanged, through its unchanged Python, on fatune's kernels. Needs a GPU.

    git clone https://github.com/Dao-AILab/flash-attention
    python3 tests/gpu/flash_tests.py flash-attention                  # tests/test_flash_attn.py
    python3 tests/gpu/flash_tests.py flash-attention --fa3            # hopper/test_flash_attn.py

Nothing of theirs is built or installed. Of each test function's cases so many are drawn by lot, by a seed that is printed; a
case passes, fails, is skipped by the test itself, or is not served: fatune's own error that names what it has no kernel for.
Exit 1 where a case failed. --processes run parts of the lot at once.

What the drawn cases need is compiled first, by --jobs processes at once: a family takes one a second or two, and there are some 2,000
in all. Plans are made for aligned tensors alone, as all of theirs are: that halves it. --families bounds them: then a case is drawn only where its families are among the first so many that were drawn."""

import argparse
import collections
import contextlib
import ctypes
import functools
import importlib
import inspect
import json
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
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--part", help=argparse.SUPPRESS)  # I/N, of one of the processes
    return parser.parse_args()


def find_modules(given):
    """Their Python first, our stand-ins behind it; the module of tests."""
    import fatune
    try:
        import einops  # noqa: F401
    except ImportError:
        sys.path.append(os.path.join(HERE, "standin"))
    sys.path.insert(0, given.source)
    folder = os.path.join(given.source, "hopper" if given.fa3 else "tests")
    sys.path.insert(0, folder)
    sys.path.insert(0, os.path.join(os.path.dirname(fatune.__file__), "dropin"))  # before hopper/flash_attn_3, which has no _C
    if given.fa3:
        os.environ.update(FLASH_ATTENTION_DISABLE_FP8="TRUE", FLASH_ATTENTION_DISABLE_PAGEDKV="TRUE",
                          FLASH_ATTENTION_DISABLE_APPENDKV="TRUE")
    os.chdir(folder)
    fatune.tensors.plan = functools.partial(fatune.tensors.plan, aligned=True)
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
    get, cache = case.get, "kvcache" in name
    dtype = {"torch.float16": "f16", "torch.bfloat16": "bf16"}.get(str(get("dtype")))
    left_out = (get("dropout_p") and get("softcap"), get("new_kv"), get("paged_kv_block_size"), get("rotary_fraction"), get("has_qv"))
    if dtype is None or "d" not in case or "combine" in name or any(left_out):
        return set()
    d = -(-case["d"] // 8) * 8
    causal, local = get("causal", name.endswith("_causal")), get("local", False)
    causal = causal and not (cache and case["seqlen_q"] == 1 and not local and not get("alibi"))
    fa3 = "V_colmajor" in case or "add_unused_qkv" in case  # each of whose cases has several widths of v, with and without chunks
    found = set()
    for dv in ([d] if not fa3 else [128, d] if 128 < d <= 192 else [256, 512, d] if d <= 64 else [d]):
        for chunk in (False, True) if fa3 else (False,):
            words = [("causal", causal), ("w", local), ("chunk", chunk), ("varlen", "varlen" in name or get("varlen_q")),
                     ("used", cache or get("add_unused_qkv")), ("lpad", get("has_leftpad")), ("alibi", get("alibi")),
                     ("softcap", get("softcap")), ("drop", get("dropout_p"))]
            text = f"{dtype}-d{d}" + (f"v{dv}" if dv != d else "") + "".join(f"-{word}" for word, there in words if there)
            found.add("fwd-" + text)
            if not cache and not chunk and dv <= 256:
                found.add("bwd-" + text + ("-det" if get("deterministic", "deterministic" in name) else ""))
    return found


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
            fatune.library.kept(text, lambda handle, text=text: fatune.library.Plan(handle, text, None, fatune.COMPILE, fatune.abi.ALIGNED))
        except fatune.Error as e:  # the case that needs it says so again
            print(text, e, file=sys.stderr)


def warm_up(texts, given):
    """Compiles them, the widest first, by so many processes."""
    texts = sorted(texts, key=lambda t: -int(t.split("-d")[1].split("-")[0].split("v")[0]))
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


def run_part(functions, cases, part, seconds, skipped):
    """Runs one part of the lot; a line of JSON for each function: how many ended how, what was not served, failures, seconds."""
    import torch
    began = time.monotonic()
    for place, f in enumerate(functions):
        # Each has its part of the time that is left.
        start = time.monotonic()
        until = start + (seconds - (start - began)) / (len(functions) - place)
        results, why, failures = collections.Counter(), collections.Counter(), []
        for case in cases[f][part[0]::part[1]]:
            if time.monotonic() > until:
                break
            result, text = run(f, case, skipped)
            if "out of memory" in text:  # the others' tensors are there too: once more, with what this process kept given back
                torch.cuda.empty_cache()
                result, text = run(f, case, skipped)
            results[result] += 1
            if result == "not served":
                why[text] += 1
            if result == "failed":
                failures.append(f"{f.__name__} {case}: {text}")
        print(json.dumps([results, why, failures, time.monotonic() - start]), flush=True)


def run_parts(functions, count):
    """The same by so many processes; a line of the table as soon as all have done a function. Returns the failures."""
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    running = [subprocess.Popen([*command, "--part", f"{i}/{count}"], stdout=subprocess.PIPE, text=True) for i in range(count)]
    failures, total = [], collections.Counter()
    print(f"{'function':44}{'cases':>9}{'run':>6}{'passed':>8}{'failed':>8}{'skipped':>9}{'s':>6}  not served")

    def line(name, all_, results, seconds, said):
        print(f"{name:44}{all_:9}{sum(results.values()):6}{results['passed']:8}{results['failed']:8}{results['skipped']:9}"
              f"{seconds:6.0f}  {said or '-'}", flush=True)

    for f in functions:
        results, why, seconds = collections.Counter(), collections.Counter(), 0
        for one in running:
            text = one.stdout.readline()
            if not text:
                failures.append(f"{f.__name__}: a process ended with {one.wait()}")
                continue
            of, not_served, failed, took = json.loads(text)
            results.update(of)
            why.update(not_served)
            failures += failed
            seconds = max(seconds, took)
        total.update(results)
        line(f.__name__, math.prod(len(values) for _, values in parameters(f)), results, seconds,
             ", ".join(f"{text} {n}" for text, n in why.most_common()))
    line("all", sum(math.prod(len(values) for _, values in parameters(f)) for f in functions), total, 0, "")
    return failures


def main():
    if sys.argv[1:2] == ["--these"]:
        return compile_here(sys.argv[2:])
    given = options()
    given.source, here = os.path.abspath(given.source), os.getcwd()
    import pytest
    import torch
    if not torch.cuda.is_available():
        sys.exit("flash_tests.py: there is no GPU")
    tests = find_modules(given)
    functions = [f for name, f in inspect.getmembers(tests, inspect.isfunction) if name.startswith("test_") and given.only in name]
    cases, needed = draw(functions, given, random.Random(given.seed))
    if given.part:
        run_part(functions, cases, tuple(map(int, given.part.split("/"))), given.seconds, pytest.skip.Exception)
        return 0
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, seed {given.seed}, {sum(map(len, cases.values()))} cases drawn",
          flush=True)
    warm_up(needed, given)
    os.chdir(here)
    began = time.monotonic()
    failures = run_parts(functions, given.processes)
    for f in functions:
        for text in [text for text in failures if text.split(" ")[0].rstrip(":") == f.__name__][:6]:
            print("FAILED:", text)
    print(f"{len(failures)} failed, {time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
