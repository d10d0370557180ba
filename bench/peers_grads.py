"""peers_grads.py -- the gradient tests of FlashAttention-2 and FlashAttention-3, run through fatune.attention and PyTorch's
autograd; dropout, ALiBi, softcap and packed lengths left aside.

Their head dimensions, pairs of lengths, masks, windows, head counts, dtypes and layouts, and their rules. Errors are the
largest against fp32 attention whose gradients are rounded to the dtype, and of each gradient allowed are
  FlashAttention-2  packed: 2 x plain PyTorch's error in the same dtype, the three together; output: 3 x; causal: 2 x + 1e-5
  FlashAttention-3  2 x plain PyTorch's + 2 * max |(ref + 0.3 - 0.3) - ref|, in the dtype
Repeats: with equal bits asked for, gradients are equal bit by bit at every head dimension; without, dK and dV are, and dQ,
which is summed by reductions, within 2 * max |(dq + 0.3 - 0.3) - dq|, as FlashAttention-2's own test has it.
"""

import collections
import concurrent.futures
import multiprocessing
import random
import sys
import time

import torch

import peers_cells as cells
import peers_judge
import peers_suites as suites  # puts fatune's binding on the path
import peers_table as table
import fatune

DIMS = (32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256)
OUTPUT_DIMS = tuple(d for d in DIMS if d != 80)
PACKED = (97, 128, 200, 384, 768, 1024, 1025, 2048)
REPEATED_DIMS = tuple(d for d in DIMS if d % 8 == 0)
REPEATED = ((512, 512), (1023, 1024), (113, 203))
RACES = 250  # repeats of the free choice at most
SEED = 1  # of the order

Case = collections.namedtuple("Case", "suite dtype b h hk nq nk d dv causal local det factor floor")


def fa2_cases():
    masks = [(causal, local) for local in (False, True) for causal in (False, True)]
    for dtype in suites.HALVES:
        for causal, local in masks:
            for det in (False, True):
                for d in DIMS:
                    for n in PACKED:
                        yield Case("fa2 packed", dtype, 4, 9, 9, n, n, d, d, causal, local, det, 2, 0.0)
                for d in OUTPUT_DIMS:
                    for hk in (6, 1, 2):
                        for nq, nk in suites.FA2_PAIRS:
                            yield Case("fa2 output", dtype, 4, 6, hk, nq, nk, d, d, causal, local, det, 3, 0.0)
        for local in (False, True):
            for d in DIMS:
                for pair in suites.FA2_CAUSAL:
                    for nq, nk in (pair, pair[::-1]):
                        yield Case("fa2 causal", dtype, 8, 9, 9, nq, nk, d, d, True, local, False, 2, 1e-5)


def fa3_cases():
    for dtype in suites.HALVES:
        for d, dv in suites.FA3_DIMS:
            if dv > 256:  # no backward in its list either
                continue
            for causal, local in ((c, l) for l in (False, True) for c in (False, True)):
                for hk in (6, 2, 1):
                    for nq, nk in suites.FA3_PAIRS:
                        yield Case("fa3 output", dtype, 9 if nk <= 2048 else 2, 6, hk, nq, nk, d, dv, causal, local, False, 2, None)


def text(case):
    return suites.text(case) + (" window" if case.local else "") + (" deterministic" if case.det else "")


def window_of(case):
    """As the lists draw it, after the seed."""
    return tuple(torch.randint(0, case.nk, (2,)).tolist()) if case.local else peers_judge.ALL


def make(case):
    """Q, K and V that require gradients; in the packed list views of one tensor."""
    dtype = suites.HALVES[case.dtype]
    if case.suite == "fa2 packed":
        packed = torch.randn(case.b, case.nq, 3, case.h, case.d, device=suites.DEVICE, dtype=dtype)
        views = [packed[:, :, i].transpose(1, 2) for i in range(3)]
    else:
        views = suites.make(case)
    return [t.detach().requires_grad_() for t in views]


def options_of(case, policy):
    return {"causal": case.causal, "policy": policy, "deterministic": case.det}


def floor_of(case, reference):
    if case.floor is None:
        return 2 * (reference + 0.3 - 0.3 - reference).abs().max().double()
    return torch.full((), case.floor, dtype=torch.float64, device=reference.device)


def figures(case, found, reference, plain):
    """[(error, allowed)] of the three gradients; of the packed list of all together."""
    def largest(a, b):
        return torch.stack([(x - y).abs().max().double() for x, y in zip(a, b)])
    floors = torch.stack([floor_of(case, r) for r in reference])
    errors, of_plain, floors = torch.stack([largest(found, reference), largest(plain, reference), floors]).tolist()
    if case.suite == "fa2 packed":
        errors, of_plain, floors = [table.largest(*errors)], [max(of_plain)], floors[:1]
    return [(e, case.factor * p + floor) for e, p, floor in zip(errors, of_plain, floors)]


def verdict(case, policy):
    window = window_of(case)
    inputs = make(case)
    with torch.enable_grad():
        out = fatune.attention(*inputs, window=window, **options_of(case, policy))
        dO = torch.randn(case.b, case.nq, case.h, case.dv, device=suites.DEVICE, dtype=out.dtype).transpose(1, 2)
        found = torch.autograd.grad(out, inputs, dO)
    reference = [g.to(out.dtype) for g in peers_judge.gradients(*inputs, dO, case.causal, torch.float32, window)]
    plain = peers_judge.gradients(*inputs, dO, case.causal, out.dtype, window)
    of = figures(case, found, reference, plain)
    names = ("dQ", "dK", "dV") if len(of) > 1 else ("all",)
    wrong = [f"{name} {e:.3g}, allowed {allowed:.3g}" for name, (e, allowed) in zip(names, of) if not e <= allowed]
    return "; ".join(wrong) or None, {"worst": table.largest(*(suites.share(e, a) for e, a in of))}, kernel_of(case, policy)


def family_of(case, op):
    window = (1, 1) if case.local and not case.causal else (1, 0) if case.local else peers_judge.ALL
    det = {"op": "bwd", "deterministic": case.det} if op == "bwd" else {}
    return fatune.family_text(*suites.like(case), case.causal, window=window, **det)


_kernels = {}


def kernel_of(case, policy):
    family = family_of(case, "bwd")
    if family not in _kernels:
        _kernels[family] = suites.kernel_of(family, {"policy": policy})
    return _kernels[family]


# -- what they need, compiled before

def compile_family(family, policy):
    """In a process of its own, which may fail in any way: why a kernel cannot be had is told by the cases."""
    try:
        fatune.plan(family, 0, None, policy)
        return True
    except Exception:
        return False


def prepare(cases, policy, jobs):
    """Has the database hold the kernels of all cases; they are compiled one by one where this is left out."""
    families = sorted({family_of(case, op) for case in cases for op in ("fwd", "bwd")})
    if jobs < 2 or not families:
        return
    begun = time.perf_counter()
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        had = sum(pool.map(compile_family, families, [policy] * len(families)))
    print(f"{had} of {len(families)} families have a kernel, {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)


# -- repeats

def bits(t):
    return t.view(torch.int16)


def differing(case, policy, repeats):
    """How many of the repeats differ from the first: in any bit; of the free choice dQ by more than the rule allows."""
    q, k, v = (t.detach() for t in make(case))
    out, lse = fatune.attention(q, k, v, causal=case.causal, return_lse=True, policy=policy)
    room = [torch.zeros_like(t) for t in (q, k, v)]
    call = fatune.prepare_backward(q, k, v, out, lse, torch.randn_like(out), gradients=room, **options_of(case, policy))
    call()
    first = [t.clone() for t in room]
    allowed = floor_of(case, first[0])
    count = torch.zeros((), dtype=torch.int64, device=q.device)
    for _ in range(repeats):
        for t in room:
            t.fill_(float("nan"))  # what is not written again shows
        call()
        of_dQ, of_dK, of_dV = ((bits(a) == bits(b)).all() for a, b in zip(room, first))
        if not case.det:
            of_dQ = (room[0] - first[0]).abs().max() <= allowed
        count += ~(of_dQ & of_dK & of_dV)
    return count.item()


def repeated_cases(repeats):
    for det in (True, False):
        for d in REPEATED_DIMS:
            for causal in (False, True):
                for nq, nk in REPEATED:
                    count = repeats if det else min(repeats, RACES)
                    yield Case("repeats", "bf16", 4, 6, 2, nq, nk, d, d, causal, False, det, count, None)


def repeat_verdict(case, policy):
    count = differing(case, policy, case.factor)
    return f"{count} of {case.factor} differ" if count else None, {}, kernel_of(case, policy)


# -- all

def lists_of(args):
    """Those asked for, as functions, with what they need compiled first. A part of a list is drawn, not cut off."""
    policy, lists, everything = suites.policy_of(args), [], []

    def add(name, cases, verdict):
        some = [case for case in cases if case.dtype in args.dtypes]
        random.Random(SEED).shuffle(some)
        some = cells.part(some, *args.split)
        everything.extend(some)
        lists.append(lambda: suites.run_list(name, some, lambda case: verdict(case, policy), text))
    for name, wanted, cases in (("2", args.fa2_tests, fa2_cases), ("3", args.fa3_tests, fa3_cases)):
        if wanted:
            add(f"FlashAttention-{name}'s gradient list", cases(), verdict)
    if args.repeats:
        for det, name in ((True, f"{args.repeats} repeats, bit by bit"),
                          (False, f"{min(args.repeats, RACES)} repeats of the free choice")):
            add(name, [case for case in repeated_cases(args.repeats) if case.det == det], repeat_verdict)
    if args.policy == "compile":
        prepare(everything, policy, args.jobs)
    return lists
