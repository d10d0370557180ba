"""features.py [--pairs N] [--only FEATURE] [--seed N] [--seconds N] [--flash] [--plan I/N] -- each feature of a call on a GPU, alone and by twos, forward and
backward, against attention spelled out in PyTorch in double.

Allowed is what flash-attn's own tests allow: twice the error of the same attention by PyTorch in the same type, of gradients
three times. --only: this feature alone and with others. Tensors are aligned, so that no twins for others are compiled. --flash compares dropout with the real flash-attn 2, bit by bit. --plan I/N compiles every Nth family and ends: N
processes at once warm the database. Prints a line for each feature; exit 1 where something is wrong."""

import argparse
import ctypes
import itertools
import math
import random
import sys
import time

ALONE = ("plain", "window", "alibi", "softcap", "sink", "drop", "mask", "bias", "varlen", "used", "iv", "prefix", "chunk", "lpad",
         "causaltl")
SHAPES = ((2, 4, 2, 113, 203), (3, 4, 4, 128, 217), (2, 6, 2, 108, 256), (2, 2, 1, 384, 256), (1, 4, 4, 1023, 1024), (2, 4, 4, 2048, 2048))


def twos():
    return list(itertools.combinations(ALONE[1:], 2))


def words(features, op):
    """The words of a family, in the order of the grammar."""
    order = ("causal", "causaltl", "w", "chunk", "varlen", "used", "prefix", "iv", "lpad", "mask", "bias", "alibi", "softcap", "sink", "drop")
    named = {"window": "w", "plain": "causal"}
    there = {named.get(f, f) for f in features} | ({"causal"} if "prefix" in features and "causaltl" not in features else set())
    if op == "bwd":
        there -= {"sink"}
    return "".join(f"-{word}" for word in order if word in there)


DROPPED = ((("drop",), "f16", 64), (("plain", "drop"), "bf16", 128), (("plain", "drop"), "f16", 128), (("drop",), "bf16", 64))


def families(cases):
    all_ = {}
    for features, dtype, d in (*cases, *DROPPED):
        for op in ("fwd", "bwd"):
            if op == "fwd" or "chunk" not in features:
                all_[f"{op}-{dtype}-d{d}" + words(features, op)] = None
    return list(all_)


def warm(part, cases):
    """Plans of a part of the families, by the library alone, in a context of its own."""
    i, n = map(int, part.split("/"))
    from fatune import abi, library
    cu, context, number = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    assert cu.cuInit(0) == 0 and cu.cuDeviceGet(ctypes.byref(number), 0) == 0
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0 and cu.cuCtxSetCurrent(context) == 0
    for family in families(cases)[i::n]:
        try:
            library.kept((0, family, None, abi.COMPILE, abi.ALIGNED), lambda handle: library.Plan(handle, family, None, abi.COMPILE, abi.ALIGNED))
        except abi.Error as e:
            print(f"{family}: {e}", flush=True)


def case(features, dtype, d, shape, torch, lot):
    """(tensors, keywords, kept, batches): what a call is given, and of each batch its rows, keys and what `spelled` needs."""
    b, h, hk, n, m = shape
    ragged = "varlen" in features
    lens_q = [n - lot.randrange(n // 2) if ragged or "used" in features else n for _ in range(b)]
    lens_k = [m - lot.randrange(m // 2) if ragged or "used" in features else m for _ in range(b)]
    whole = lambda *values: torch.tensor(values, dtype=torch.int32, device="cuda")  # noqa: E731
    words_, pads = {}, [0] * b
    rows = [sum(lens_q), sum(lens_k)] if ragged else [n, m]
    make = lambda heads, count: (torch.randn(count, heads, d, device="cuda") if ragged  # noqa: E731
                                 else torch.randn(b, count, heads, d, device="cuda").transpose(1, 2)).to(dtype).requires_grad_()
    q, k, v = make(h, rows[0]), make(hk, rows[1]), make(hk, rows[1])
    if ragged:
        cu = [whole(*itertools.accumulate(lens, initial=0)) for lens in (lens_q, lens_k)]
        words_.update(cu_seqlens=tuple(cu), max_seqlens=(n, m))
    if "used" in features and not ragged:
        words_["used"] = (whole(*lens_q), whole(*lens_k))
    elif "used" in features:
        lens_q, lens_k = ([max(1, x - lot.randrange(20)) for x in lens] for lens in (lens_q, lens_k))
        words_["used"] = (whole(*lens_q), whole(*lens_k))
    if "lpad" in features:
        pads = [lot.randrange(x) for x in lens_k]
        words_["left_pad"] = whole(*pads)
    if "plain" in features or "prefix" in features or "causaltl" in features:
        words_["causal"] = True
    if "causaltl" in features:
        words_["top_left"] = True
    if "window" in features:
        words_["window"] = (lot.randrange(1, m), lot.randrange(1, m // 2))
    if "chunk" in features:
        words_["chunk"] = lot.randrange(20, m)
    if "prefix" in features:
        words_["prefix"] = whole(*(lot.randrange(m) for _ in range(b)))
    if "iv" in features:
        lo = torch.randint(0, m // 2, (1 if ragged else b, 1, rows[0]), device="cuda", dtype=torch.int32)
        words_["intervals"] = (lo, lo + torch.randint(0, m // 2, lo.shape, device="cuda", dtype=torch.int32))
    pairs = (1 if ragged else lot.choice((1, b)), lot.choice((1, h)), lot.choice((1, rows[0], rows[0])), m)
    if "mask" in features:
        words_["mask"] = torch.rand(pairs, device="cuda") < 0.7
    if "bias" in features:
        words_["bias"] = torch.randn(pairs, device="cuda").to(dtype)
    if "alibi" in features:
        words_["slopes"] = torch.rand((b, h), device="cuda") * 0.3
    if "softcap" in features:
        words_["softcap"] = 1.5
    if "sink" in features:
        words_["sink"] = torch.randn(h, device="cuda")
    if "drop" in features:
        words_.update(dropout=0.17, rng=torch.tensor([lot.randrange(-2**63, 2**63), lot.randrange(2**50)], device="cuda"))
    return (q, k, v), words_, list(zip(lens_q, lens_k, pads))


def seen_of(w, i, n, m, q0, torch):
    """Which of m keys n rows see in the i-th batch, whose first row is q0 of its tensors."""
    at = torch.arange(m, device="cuda")[None, :] - torch.arange(n, device="cuda")[:, None] - (m - n)
    own = at + (m - n) if w.get("top_left") else at
    prefix = w["prefix"][i] if "prefix" in w else 0
    seen = torch.ones(n, m, dtype=torch.bool, device="cuda")
    if w.get("causal"):
        seen &= (own <= 0) | (torch.arange(m, device="cuda") < prefix)
    left, right = w.get("window", (-1, -1))
    if "window" in w:
        seen &= (at >= -left) & ((at <= right) if not w.get("causal") or w.get("top_left") else seen)
    if w.get("chunk"):
        stands = torch.arange(n, device="cuda")[:, None] + m - n
        first = (stands // w["chunk"]) * w["chunk"]
        keys = torch.arange(m, device="cuda")[None]
        seen &= (stands >= 0) & (keys >= first) & (keys < first + w["chunk"])
    if "intervals" in w:
        lo, hi = (x[0 if x.shape[0] == 1 else i, :, q0:q0 + n, None] for x in w["intervals"])
        keys = torch.arange(m, device="cuda")[None, None]
        return seen[None] & (keys >= lo) & (keys < hi), at
    return seen[None], at


def spelled(tensors, w, batches, dtype, kept, torch):
    """O as the call lays it out, in `dtype` all along."""
    q, k, v = (t.to(dtype) for t in tensors)
    ragged, parts = "cu_seqlens" in w, []
    group = q.shape[-2 if ragged else 1] // k.shape[-2 if ragged else 1]
    for i, (n, m, pad) in enumerate(batches):
        q0, k0 = ((int(cu[i]) for cu in w["cu_seqlens"]) if ragged else (0, 0))
        m -= pad
        cut = lambda t, first, count: (t[first:first + count].transpose(0, 1) if ragged else t[i, :, first:first + count])  # noqa: E731
        Q, K, V = cut(q, q0, n), cut(k, k0 + pad, m).repeat_interleave(group, 0), cut(v, k0 + pad, m).repeat_interleave(group, 0)
        s = (Q / math.sqrt(Q.shape[-1])) @ K.mT
        if "softcap" in w:
            s = w["softcap"] * torch.tanh(s / w["softcap"])
        seen, at = seen_of(w, i, n, m, q0, torch)
        if "slopes" in w:
            s = s - (w["slopes"][i].to(dtype)[:, None, None] * at.abs()).to(dtype)
        pair = lambda t: t[0 if t.shape[0] == 1 else i, :, slice(q0, q0 + n) if t.shape[2] > 1 else slice(None), pad:pad + m]  # noqa: E731
        if "bias" in w:
            s = s + pair(w["bias"]).to(dtype)
        if "mask" in w:
            seen = seen & pair(w["mask"])
        s = s.masked_fill(~seen, -math.inf)
        if "sink" in w:
            s = torch.cat([s, w["sink"].to(dtype)[:, None, None].expand(-1, n, 1)], -1)
        p = torch.softmax(s, -1)
        p = torch.where(torch.isnan(p), torch.zeros((), dtype=dtype, device="cuda"), p)[..., :m]
        if kept is not None:
            p = p * kept[i, :, :n, :m] / (1 - w["dropout"])
        o = p @ V
        if ragged:
            parts.append(o.transpose(0, 1))
        else:
            parts.append(torch.nn.functional.pad(o, (0, 0, 0, q.shape[2] - n)))
    if not ragged:
        return torch.stack(parts)
    out, at = torch.zeros_like(q), [int(x) for x in w["cu_seqlens"][0]]
    return out.index_put((torch.cat([torch.arange(a, a + p.shape[0], device="cuda") for a, p in zip(at, parts)]),), torch.cat(parts))


def tried(features, dtype, d, shape, torch, fatune, lot):
    """The worst of error / allowed over O and the gradients."""
    tensors, w, batches = case(features, dtype, d, shape, torch, lot)
    kept = None
    if "drop" in features:
        kept = fatune.dropout_mask(w["rng"], w["dropout"], (len(batches), shape[1], shape[3], shape[4]))
    backward = "chunk" not in features
    if backward:
        out = fatune.attention(*tensors, **w)
    else:
        with torch.no_grad():
            out = fatune.attention(*tensors, **w)
    found, dO = [out], torch.randn_like(out)
    exact = [t.detach().double().requires_grad_() for t in tensors]
    same = [t.detach().requires_grad_() for t in tensors]
    right, near = [spelled(exact, w, batches, torch.float64, kept, torch)], [spelled(same, w, batches, dtype, kept, torch)]
    if backward:
        found += torch.autograd.grad(out, tensors, dO)
        right += torch.autograd.grad(right[0], exact, dO.double())
        near += torch.autograd.grad(near[0], same, dO)
    worst = 0
    for i, (a, b, c) in enumerate(zip(found, right, near)):
        allowed = (3 if i else 2) * (c.double() - b).abs().max().item() + 1e-5
        error = (a.double() - b).abs().max().item()
        worst = max(worst, error / allowed if error == error else math.inf)
    return worst


class Extension:
    """flash-attn 2's compiled half; where that is missing the same kernels in PyTorch."""

    def __init__(self, torch):
        self.aten = torch.ops.aten
        try:
            import flash_attn_2_cuda
            self.real, self.name = flash_attn_2_cuda, "flash-attn 2"
        except ImportError:
            self.real, self.name = None, "PyTorch's flash-attn 2"

    def forward(self, q, k, v, p, scale, causal):
        """(out, lse, signs, rng) of [b, n, h, d]."""
        if self.real:
            return self.real.fwd(q, k, v, None, None, p, scale, causal, -1, -1, 0.0, True, None)[:4]
        out, lse, rng, self.unused, signs = self.aten._flash_attention_forward(q, k, v, None, None, q.shape[1], k.shape[1], p, causal, True,
                                                                              scale=scale)
        return out, lse, signs, rng

    def backward(self, dO, q, k, v, out, lse, p, scale, causal, rng):
        if self.real:
            found = [dO.new_empty(t.shape) for t in (q, k, v)]
            self.real.bwd(dO, q, k, v, out, lse, *found, None, p, scale, causal, -1, -1, 0.0, False, None, rng)
            return found
        return self.aten._flash_attention_backward(dO, q, k, v, out, lse, None, None, q.shape[1], k.shape[1], p, causal, rng, self.unused,
                                                   scale=scale)


def flash(torch, fatune):
    """Dropout beside the real flash-attn 2: which weights, what comes out, gradients."""
    from fatune import features
    bad, real = 0, Extension(torch)
    for dtype, d, n, m, causal, p in ((torch.float16, 64, 113, 203, False, 0.17), (torch.bfloat16, 128, 256, 256, True, 0.17),
                                      (torch.float16, 128, 1024, 1024, True, 0.5), (torch.bfloat16, 64, 384, 1000, False, 0.1)):
        q, k, v = (torch.randn(2, x, 4, d, device="cuda", dtype=dtype) for x in (n, m, m))
        scale = 1 / math.sqrt(d)
        out, lse, s, rng = real.forward(q, k, v, p, scale, causal)
        rng_ = rng.cuda().view(torch.int64)
        kept = fatune.dropout_mask(rng_, p, (2, 4, n, m))
        drawn = ~torch.signbit(s[:, :, :n, :m])
        seen = torch.arange(m, device="cuda")[None] - torch.arange(n, device="cuda")[:, None] <= (m - n if causal else m)
        wrong = int(((drawn != kept) & seen).sum())
        turned = [t.transpose(1, 2) for t in (q, k, v)]
        options = dict(causal=causal, dropout=p, rng=rng_)
        with torch.no_grad():
            own, own_lse = fatune.attention(*turned, return_lse=True, **options)
        dO = torch.randn_like(out)
        theirs = real.backward(dO, q, k, v, out, lse, p, scale, causal, rng)
        ours = features.backward(dO.transpose(1, 2), *turned, own, own_lse, **options)
        apart = [(a.transpose(1, 2) - b).abs().max().item() / b.abs().max().item() for a, b in zip((own, *ours), (out, *theirs))]
        fine = wrong == 0 and max(apart) < (0.01 if dtype == torch.float16 else 0.05)
        bad += not fine
        print(f"{real.name} dropout {p} {dtype} d{d} {n}x{m} causal={causal}: {wrong} of {seen.sum().item() * 8} bits differ; "
              f"O, dQ, dK, dV apart by {' '.join(f'{x:.4f}' for x in apart)} of the largest{'' if fine else '   WRONG'}", flush=True)
    return bad


def main():
    add = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("pairs", 20), ("seed", 1), ("seconds", 600)):
        add.add_argument(f"--{name}", type=int, default=value)
    add.add_argument("--flash", action="store_true")
    add.add_argument("--only", choices=ALONE)
    add.add_argument("--plan", metavar="I/N")
    asked = add.parse_args()
    lot = random.Random(asked.seed)
    pairs = [two for two in twos() if asked.only in (None, *two)]
    cases = [((f,), dtype, d) for f in ALONE for dtype in ("f16", "bf16") for d in (64, 128)]
    cases += [(two, lot.choice(("f16", "bf16")), lot.choice((64, 128))) for two in lot.sample(pairs, min(asked.pairs, len(pairs)))]
    cases = [case for case in cases if asked.only in (None, *case[0])]
    if asked.plan:
        return warm(asked.plan, cases)
    import torch
    import fatune
    from fatune import tensors
    plan = tensors.plan
    tensors.plan = lambda *given, **named: plan(*given, **{**named, "aligned": True})
    torch.manual_seed(asked.seed)
    began, bad, count, left = time.time(), 0, 0, 0
    if asked.flash:
        try:
            bad += flash(torch, fatune)
        except (RuntimeError, TypeError, AttributeError) as e:
            bad += 1
            print(f"flash-attn 2: {type(e).__name__}: {e}", flush=True)
    rows = {}
    for features, name, d in cases:
        dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[name]
        for shape in (lot.choice(SHAPES[:-1]), SHAPES[-1]):
            if time.time() - began > asked.seconds:
                left += 1
                continue
            try:
                worst, said = tried(features, dtype, d, shape, torch, fatune, lot), ""
            except fatune.Error as e:
                worst, said = math.inf, f": {e}"
            except torch.AcceleratorError as e: # the GPU's context is lost, and with it all that follows
                print(f"LOST {'+'.join(features)} {name} d{d} {shape}: {str(e).splitlines()[0]}", flush=True)
                return 1
            count += 1
            bad += worst > 1
            rows.setdefault("+".join(features), []).append(worst)
            if worst > 1:
                print(f"WRONG {'+'.join(features)} {name} d{d} {shape}: {worst:.3g} times what is allowed{said}", flush=True)
    for name, all_ in rows.items():
        print(f"{name:20} {len(all_):3} cases, {sum(x <= 1 for x in all_):3} right, worst {max(all_):.2f} of what is allowed")
    print(f"{count} cases, {count - bad} right; {left} left out for time; {time.time() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
