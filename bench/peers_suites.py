"""peers_suites.py -- the forward test lists of FlashAttention-2 and FlashAttention-3, run through libfatune; and how a list of
tests is run and told, which peers_grads.py uses for those of gradients.

Their head dimensions (multiples of 8), pairs of lengths, masks, head counts and dtypes, their layout (b n h d) and their
rules: with errors taken against fp32 attention rounded to the dtype,
  FlashAttention-2  error <= 2 * plain PyTorch's error in the same dtype (+ 1e-5 in its causal list)
  FlashAttention-3  error <= 2 * plain PyTorch's error + 2 * max |(ref + 0.3 - 0.3) - ref|, in the dtype
Beside that the log-sum-exps are compared. Repeats must be equal bit by bit, O and LSE.
"""

import collections
import json
import os
import sys
import time

import torch

import peers_cells as cells
import peers_gpu as gpu
import peers_judge
import peers_table as table
import peers_who as who  # puts fatune's binding on the path
import fatune

HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}
UNSUPPORTED = 3  # fatune_status
FA2_DIMS = (32, 40, 64, 80, 96, 128, 160, 192, 224, 256)  # its 59 and 111 are no multiples of 8
FA2_EQUAL = (97, 128, 200, 257, 384, 512, 768, 1024, 1025, 2048)
FA2_PAIRS = ((113, 203), (128, 217), (113, 211), (108, 256), (256, 512), (512, 256), (1024, 1024), (1023, 1024),
             (1024, 1023), (2048, 2048))
FA2_CAUSAL = ((1, 239), (3, 799), (127, 512), (127, 513), (113, 203), (128, 217), (113, 211), (108, 256), (256, 512),
              (1023, 1024))
FA3_DIMS = ((64, 64), (96, 96), (128, 128), (192, 192), (256, 256), (192, 128), (64, 256), (64, 512))
FA3_PAIRS = ((1, 1), (64, 128), (128, 192), (256, 256), (239, 1), (799, 3), (113, 203), (113, 128), (128, 217), (113, 211),
             (108, 256), (256, 512), (384, 256), (640, 128), (512, 256), (1024, 1024), (1023, 1024), (1024, 1023),
             (4096, 4096), (4224, 4224))
REPEATED = ((1, 239), (239, 1), (3, 799), (799, 3), (1024, 128), (97, 97), (128, 128), (200, 200), (256, 256), (257, 257),
            (384, 384), (512, 512), (768, 768), (1024, 1024), (2048, 2048))
DEVICE = "cuda"
LSE_BOUND = 5e-3  # of log-sum-exps near 10, from products of halves added in fp32

Case = collections.namedtuple("Case", "suite dtype b h hk nq nk d dv causal floor")


def fa2_cases():
    for dtype in HALVES:
        for d in FA2_DIMS:
            for causal in (False, True):
                for n in FA2_EQUAL:
                    yield Case("fa2 packed", dtype, 4, 9, 9, n, n, d, d, causal, 0.0)
                for hk in (6, 1, 2):
                    for nq, nk in FA2_PAIRS:
                        yield Case("fa2 output", dtype, 4, 6, hk, nq, nk, d, d, causal, 0.0)
            for pair in FA2_CAUSAL:
                for nq, nk in (pair, pair[::-1]):
                    yield Case("fa2 causal", dtype, 8, 9, 9, nq, nk, d, d, True, 1e-5)


def fa3_cases():
    for dtype in HALVES:
        for d, dv in FA3_DIMS:
            for causal in (False, True):
                for hk in (6, 2, 1):
                    for nq, nk in FA3_PAIRS:
                        b = 9 if nk <= 2048 else 2
                        yield Case("fa3 output", dtype, b, 6, hk, nq, nk, d, dv, causal, None)


def text(case):
    return (f"{case.suite}: {case.dtype} b{case.b} h{case.h}k{case.hk} q{case.nq} k{case.nk} d{case.d}v{case.dv} "
            f"{'causal' if case.causal else 'full'}")


def make(case):
    dtype = HALVES[case.dtype]
    shapes = ((case.nq, case.h, case.d), (case.nk, case.hk, case.d), (case.nk, case.hk, case.dv))
    return [torch.randn(case.b, *shape, device=DEVICE, dtype=dtype).transpose(1, 2) for shape in shapes]


def policy_of(args):
    return {"fallback": fatune.FALLBACK, "fail": fatune.FAIL, "compile": fatune.COMPILE}[args.policy]


def options_of(args):
    kernel = args.kernels[0] if args.kernels and args.kernels[0] != "best" else None
    return {"kernel": kernel, "policy": policy_of(args), "aligned": True}


def prepared(case, tensors, options):
    """(call, out, lse): out is NaN and LSE NaN until the call has written them."""
    q, k, v = tensors
    out = torch.full((case.b, case.nq, case.h, case.dv), float("nan"), device=DEVICE, dtype=q.dtype).transpose(1, 2)
    lse = torch.full((case.b, case.h, case.nq), float("nan"), device=DEVICE)
    return fatune.prepare(q, k, v, causal=case.causal, out=out, lse=lse, **options), out, lse


def lse_of(case, q, k):
    """fp32; +inf for rows that see no key, as libfatune has it."""
    k = k.float().repeat_interleave(case.h // case.hk, dim=1)
    scores = (q.float() * case.d ** -0.5) @ k.transpose(-1, -2)
    if case.causal:
        hidden = torch.ones(case.nq, case.nk, dtype=torch.bool, device=DEVICE).triu(case.nk - case.nq + 1)
        scores.masked_fill_(hidden, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1)
    return torch.where(lse == float("-inf"), float("inf"), lse)


def judge(case, options):
    """(error, allowed, error of the LSE, kernel) of one case."""
    q, k, v = make(case)
    call, out, lse = prepared(case, (q, k, v), options)
    call()
    reference = peers_judge.attend(q, k, v, case.causal, torch.float32).to(q.dtype)
    plain = peers_judge.attend(q, k, v, case.causal, q.dtype)
    floor = 2 * (reference + 0.3 - 0.3 - reference).abs().max() if case.floor is None else torch.tensor(case.floor)
    expected = lse_of(case, q, k)
    endless = expected == float("inf")
    lse_error = torch.where(endless, torch.where(lse == expected, 0.0, float("inf")), (lse - expected).abs()).max()
    figures = [(out - reference).abs().max(), (plain - reference).abs().max(), floor, lse_error]
    error, of_plain, floor, lse_error = (x.item() for x in figures)
    return error, 2 * of_plain + floor, lse_error


def share(error, allowed):
    return error / allowed if allowed else float(error > 0)


def verdict(case, options):
    """(what is wrong with a case, {figure: number}, the kernel)."""
    error, allowed, lse_error = judge(case, options)
    why = f"error {error:.3g}, allowed {allowed:.3g}" if not error <= allowed else None
    if not lse_error <= LSE_BOUND:
        why = why or f"LSE off by {lse_error:.3g}"
    kernel = kernel_of(fatune.problem_text(*like(case), case.causal), options)
    return why, {"worst": share(error, allowed), "worst_lse": lse_error}, kernel


def like(case):
    """Q, K and V of a case, without memory."""
    return [torch.empty(1, device="meta", dtype=HALVES[case.dtype]).expand(case.b, h, n, d)
            for h, n, d in ((case.h, case.nq, case.d), (case.hk, case.nk, case.d), (case.hk, case.nk, case.dv))]


def kernel_of(problem, options):
    lines = fatune.describe(problem, 0, **options).splitlines()
    return next((line.split(" ", 1)[1] for line in lines if line.startswith("kernel ")), "none").split(":")[0]


def run_list(name, cases, verdict, text=text):
    """Counts and the failures of a list. `verdict`: case -> (why it is wrong, {figure: number}, kernel); of figures the list
    has the largest."""
    found = {"list": name, "passed": 0, "failed": 0, "unsupported": 0, "failures": [], "worst": 0.0}
    kernels, refused, begun = collections.Counter(), collections.Counter(), time.perf_counter()
    for i, case in enumerate(cases):
        torch.manual_seed(0)
        why = None
        try:
            why, figures, kernel = verdict(case)
            kernels[kernel] += 1
            for figure, value in figures.items():
                found[figure] = table.largest(found.get(figure, 0.0), value)
        except fatune.Error as error:
            if error.status == UNSUPPORTED or case.d % 8:  # such a head dimension is no problem at all
                found["unsupported"] += 1
                refused[who.reason(error)] += 1
                continue
            why = who.reason(error)
        except RuntimeError as error:  # torch's: out of memory, a fault of the kernel
            why = who.reason(error)
            found["dead"] = not gpu.is_alive()
        found["failed" if why else "passed"] += 1
        if why:
            found["failures"].append(f"{text(case)}: {why}")
            if len(found["failures"]) <= 20:
                print(f"FAILED {found['failures'][-1]}", file=sys.stderr, flush=True)
        if found.get("dead"):
            break
        if (i + 1) % 200 == 0:
            print(f"{name}: {i + 1} cases, {found['failed']} failed", file=sys.stderr, flush=True)
    return {**found, "kernels": dict(kernels), "refused": dict(refused), "seconds": round(time.perf_counter() - begun, 1)}


def differing(case, options, repeats):
    """How many of the repeats differ in any bit of O or LSE from the first."""
    call, out, lse = prepared(case, make(case), options)
    call()
    first, first_lse = out.clone().view(torch.int16), lse.clone().view(torch.int32)
    count = torch.zeros((), dtype=torch.int64, device=DEVICE)
    for _ in range(repeats):
        out.fill_(0)  # what is not written again shows
        lse.fill_(0)
        call()
        count += (out.view(torch.int16) != first).any() | (lse.view(torch.int32) != first_lse).any()
    return count.item()


def run_repeats(options, repeats):
    found = {"list": f"{repeats} repeats, bit by bit", "passed": 0, "failed": 0, "unsupported": 0, "failures": []}
    begun = time.perf_counter()
    for d in (64, 128, 256):
        for causal in (False, True):
            for nq, nk in REPEATED:
                case = Case("repeats", "bf16", 60, 4, 4, nq, nk, d, d, causal, 0.0)
                torch.manual_seed(0)
                try:
                    count = differing(case, options, repeats)
                    why = f"{count} of {repeats} differ" if count else None
                except fatune.Error as error:
                    if error.status == UNSUPPORTED:
                        found["unsupported"] += 1
                        continue
                    why = who.reason(error)
                except RuntimeError as error:
                    why = who.reason(error)
                    if not gpu.is_alive():
                        return {**found, "failed": found["failed"] + 1, "failures": [f"{text(case)}: {why}"], "dead": True,
                                "seconds": round(time.perf_counter() - begun, 1)}
                found["failed" if why else "passed"] += 1
                if why:
                    found["failures"].append(f"{text(case)}: {why}")
                    print(f"FAILED {found['failures'][-1]}", file=sys.stderr, flush=True)
    return {**found, "seconds": round(time.perf_counter() - begun, 1)}


def lists_of(args):
    """Those asked for, as functions."""
    options, lists = options_of(args), []
    for name, wanted, cases in (("2", args.fa2_tests, fa2_cases), ("3", args.fa3_tests, fa3_cases)):
        if wanted:
            lists.append(lambda name=name, cases=cases: run_list(
                f"FlashAttention-{name}'s forward list", cells.part(list(cases()), *args.split),
                lambda case: verdict(case, options)))
    return lists + ([lambda: run_repeats(options, args.repeats)] if args.repeats else [])


def run(lists, args, facts):
    """All of them; 0 where nothing failed."""
    results = []
    for each in lists:
        results.append(each())
        if results[-1].get("dead"):
            print("the GPU's context is gone; the rest is left out", file=sys.stderr)
            break
    facts["fatune"] = fatune.version()
    if args.output:
        os.makedirs(args.output, exist_ok=True)
        name = args.name or f"suites-{facts['gpu'].split()[-1].lower()}-{facts['date'][:10]}"
        with open(os.path.join(args.output, f"{name}.json"), "w", encoding="ascii") as file:
            json.dump({"facts": facts, "results": results}, file, indent=1)
            file.write("\n")
    for r in results:
        more = [f"{r['seconds']} s"]
        if "worst" in r:
            more += [f"largest error {r['worst']:.2f} of what is allowed"]
            more += [f"LSE off by at most {r['worst_lse']:.1e}"] if "worst_lse" in r else []
            more += ["kernels " + ", ".join(f"{k} {n}" for k, n in r["kernels"].items())]
            more += [f"refused {n}: {why}" for why, n in r["refused"].items()][:4]
        print(f"{r['list']}: {r['passed']} passed, {r['failed']} failed, {r['unsupported']} unsupported\n  " + "\n  ".join(more))
        for failure in r["failures"][:10]:
            print(f"  FAILED {failure}")
    return 1 if any(r["failed"] for r in results) else 0
