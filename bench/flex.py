"""flex.py [--case NAME,...] [--dims 64,128] [--n 8192] [--only PEER,...] [--compile] [--out FILE] -- features beside PyTorch's FlexAttention with the same
function: milliseconds forward and backward, and how far O and its gradients are from the peer's, over the largest number.

bf16, 2 x 8192 tokens, heads x d = 2048, causal but where the case says otherwise. FlexAttention gets its mask as mask_mod with the
BlockMask that PyTorch makes of it; dropout is timed beside PyTorch's own attention by FlashAttention-2 and by cuDNN; windows, softcap,
ragged batches and sinks beside FlashAttention-4 too, where it is installed.
Calls are timed as CUDA graphs that take turns, our plain causal one among them, each behind 75 ms of itself: under load power sets the clock.
--only names the peers that are wanted. --compile has all compile and ends: processes for one case each warm fatune's database and the peers' caches."""

import argparse
import functools
import math
import statistics
import sys

import fatune
import torch
import torch.nn.functional as F
from papers_sparsity import in_turns
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

BATCH, WIDTH, DOCUMENT, WINDOW, CAP, PREFIX, DROPPED = 2, 2048, 1024, 1024, 30.0, 1000, 0.1


class Shape:
    """What the functions of all cases read; ends of documents lie where they would by chance, the same in each run."""

    def __init__(self, n, d):
        torch.manual_seed(n + d)
        self.n, self.d, self.h = n, d, WIDTH // d
        make = lambda: torch.randn(BATCH, self.h, n, d, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.q, self.k, self.v = (make().requires_grad_() for _ in range(3))
        self.dO = make()
        self.slopes = torch.exp2(-8.0 * torch.arange(1, self.h + 1, device="cuda") / self.h).float()
        cuts = torch.randperm(n - 1)[:n // DOCUMENT - 1].sort().values + 1
        self.cuts = torch.cat([torch.zeros(1, dtype=torch.long), cuts, torch.tensor([n])]).int().cuda()
        self.document = (torch.arange(n, device="cuda")[:, None] >= self.cuts[None, 1:-1]).sum(-1).int()
        self.whole = torch.tensor([0, n], dtype=torch.int32, device="cuda")
        self.lo, self.hi = (self.cuts[self.document + end][None, None].contiguous() for end in (0, 1))

    @functools.cached_property
    def bias(self):
        """A number for each pair of each head and batch."""
        return torch.randn(BATCH, self.h, self.n, self.n, device="cuda", dtype=torch.bfloat16)

    def ragged(self, cuts):
        """The documents of both batches one behind the other: [tokens, heads, d], as varlen takes them."""
        flat = [t.detach().transpose(1, 2).reshape(BATCH * self.n, self.h, self.d).contiguous() for t in (self.q, self.k, self.v, self.dO)]
        ends = torch.cat([cuts[:-1], cuts + self.n]).int()
        longest = int((cuts[1:] - cuts[:-1]).max())
        return [t.requires_grad_() for t in flat[:3]], flat[3], {"cu_seqlens": (ends, ends), "max_seqlens": (longest, longest)}


def causal(b, h, i, j):
    return i >= j


def by_sdpa(backend):
    def peer(s):
        def forward():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(s.q, s.k, s.v, is_causal=True, dropout_p=DROPPED)
        return both(forward, (s.q, s.k, s.v), s.dO)
    return peer


# What FlashAttention-4 takes for the function of a case.
FLASH4 = {"causal": lambda s: {}, "softcap": lambda s: {"softcap": CAP}, "window": lambda s: {"window_size": (WINDOW - 1, 0)},
          "sink": lambda s: {"learnable_sink": torch.zeros(s.h, device="cuda", dtype=torch.bfloat16)},
          "documents-varlen": lambda s: {"ragged": s.cuts}, "equal-varlen": lambda s: {"ragged": s.whole}}


def by_flash4(s, words):
    """Tensors as it wants them: heads between tokens and columns."""
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    words = words(s)
    if "ragged" not in words:
        tensors = [t.detach().transpose(1, 2).contiguous().requires_grad_() for t in (s.q, s.k, s.v)]
        dO = s.dO.transpose(1, 2).contiguous()
    else:
        tensors, dO, of = s.ragged(words["ragged"])
        words = dict(zip(("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"), (*of["cu_seqlens"], *of["max_seqlens"])))

    def forward():
        out = (flash_attn_func if tensors[0].dim() == 4 else flash_attn_varlen_func)(*tensors, causal=True, **words)
        return out[0] if isinstance(out, tuple) else out

    found, *calls = both(forward, tensors, dO)
    return tuple(t.transpose(1, 2) if t.dim() == 4 else t for t in found), *calls


# Peers other than FlexAttention, whose results are others: weights are dropped by chance.
PEERS = {"drop": {"FlashAttention-2": by_sdpa(SDPBackend.FLASH_ATTENTION), "cuDNN": by_sdpa(SDPBackend.CUDNN_ATTENTION)}}

NAMES = ("FlexAttention", "FlashAttention-2", "FlashAttention-4", "cuDNN")

# name: what fatune.attention is given, FlexAttention's score_mod, its mask_mod (None: it has no such case); each of a Shape.
CASES = {
    "causal": (lambda s: {}, None, lambda s: causal),
    "alibi": (lambda s: {"slopes": s.slopes}, lambda s: lambda x, b, h, i, j: x + s.slopes[h] * (j - i), lambda s: causal),
    "alibi-mod": (lambda s: {"mod": "s + table0[h] * (j - i)", "tables": [s.slopes]},
                     lambda s: lambda x, b, h, i, j: x + s.slopes[h] * (j - i), lambda s: causal),
    "softcap": (lambda s: {"softcap": CAP}, lambda s: lambda x, b, h, i, j: CAP * torch.tanh(x / CAP), lambda s: causal),
    "softcap-mod": (lambda s: {"mod": f"{CAP} * tanh(s / {CAP})"}, lambda s: lambda x, b, h, i, j: CAP * torch.tanh(x / CAP),
                       lambda s: causal),
    "window": (lambda s: {"window": (WINDOW - 1, 0)}, None, lambda s: lambda b, h, i, j: (i >= j) & (i - j < WINDOW)),
    "documents-iv": (lambda s: {"intervals": (s.lo, s.hi)}, None,
                      lambda s: lambda b, h, i, j: (i >= j) & (s.document[i] == s.document[j])),
    "documents-varlen": (lambda s: {"ragged": s.cuts}, None, lambda s: lambda b, h, i, j: (i >= j) & (s.document[i] == s.document[j])),
    "documents-mask": (lambda s: {"mask_mod": "itable0[i] == itable0[j]", "tables": [s.document]}, None,
                          lambda s: lambda b, h, i, j: (i >= j) & (s.document[i] == s.document[j])),
    "prefix": (lambda s: {"prefix": torch.full((BATCH,), PREFIX, dtype=torch.int32, device="cuda")}, None,
               lambda s: lambda b, h, i, j: (i >= j) | (j < PREFIX)),
    "bias": (lambda s: {"bias": s.bias}, lambda s: lambda x, b, h, i, j: x + s.bias[b, h, i, j], lambda s: causal),
    "equal-varlen": (lambda s: {"ragged": s.whole}, None, None),
    "sink": (lambda s: {"sink": torch.zeros(s.h, device="cuda")}, None, None),
    "drop": (lambda s: {"dropout": DROPPED}, None, None),
}


def ours(s, words):
    """(O, its gradients, a forward call, a backward call)."""
    tensors, dO = (s.q, s.k, s.v), s.dO
    if "ragged" in words:
        tensors, dO, words = s.ragged(words["ragged"])

    def forward():
        return fatune.attention(*tensors, causal=True, **words)

    return both(forward, tensors, dO)


def both(forward, tensors, dO):
    out = forward()

    def backward():
        return torch.autograd.grad(out, tensors, dO, retain_graph=True)

    def alone():
        with torch.no_grad():
            forward()

    return (out, *backward()), alone, backward


def theirs(s, score, mask):
    blocks = create_block_mask(mask, None, None, s.n, s.n, device="cuda")
    flex = torch.compile(flex_attention, dynamic=False)
    return both(lambda: flex(s.q, s.k, s.v, score_mod=score, block_mask=blocks), (s.q, s.k, s.v), s.dO)


def apart(found, right, s):
    """The largest difference of O, dQ, dK, dV, each over the largest number there."""
    worst, whole = 0.0, lambda t: t if t.dim() == 4 else t.reshape(BATCH, s.n, s.h, s.d).transpose(1, 2)  # noqa: E731
    for a, b in zip(map(whole, found), map(whole, right)):
        worst = max(worst, float((a.detach().float() - b.detach().float()).abs().max() / b.detach().float().abs().max()))
    return worst


def tried(name, s, given):
    words, score, mask = CASES[name]
    found, *calls = ours(s, words(s))
    wanted = given.only.split(",")
    peers = {peer: make(s) for peer, make in PEERS.get(name, {}).items() if peer in wanted}
    if mask and "FlexAttention" in wanted:
        try:
            peers["FlexAttention"] = theirs(s, score and score(s), mask(s))
        except RuntimeError as e:
            print(f"{name} d{s.d}: FlexAttention fails: {type(e).__name__}: {str(e)[:200]}", flush=True)
    if name in FLASH4 and "FlashAttention-4" in wanted:
        try:
            peers["FlashAttention-4"] = by_flash4(s, FLASH4[name])
        except ImportError:
            pass
        except Exception as e:  # it raises what its compiler does
            print(f"{name} d{s.d}: FlashAttention-4 fails: {type(e).__name__}: {str(e)[:200]}", flush=True)
    if given.compile:
        return []
    off = {peer: math.nan if name == "drop" else apart(found, made[0], s) for peer, made in peers.items()}
    rows = []
    plain = ours(s, {})[1:]
    for n, op in ((0, "fwd"), (1, "bwd")):
        ms_plain, ms, *others = in_turns([plain[n], calls[n], *(made[1 + n] for made in peers.values())])
        beside = dict(zip(peers, others))
        for peer, other in beside.items() or [("-", math.nan)]:
            rows.append((name, op, s.d, ms, ms_plain, peer, other, other / ms, off.get(peer, math.nan)))
            print(f"{name:18} {op} d{s.d}: {ms:.3f} ms, plain {ms_plain:.3f}, {peer} {other:.3f}, {other / ms:.2f} times ours; apart by {off.get(peer, math.nan):.2g}", flush=True)
    return rows


def main():
    add = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add.add_argument("--case", default=",".join(CASES))
    add.add_argument("--dims", default="64,128")
    add.add_argument("--n", type=int, default=8192)
    add.add_argument("--only", default=",".join(NAMES))
    add.add_argument("--compile", action="store_true")
    add.add_argument("--out")
    given = add.parse_args()
    rows, bad = [], 0
    torch.cuda.set_stream(torch.cuda.Stream())
    for d in map(int, given.dims.split(",")):
        s = Shape(given.n, d)
        for name in given.case.split(","):
            torch.compiler.reset()  # one function less to recompile for
            try:
                rows += tried(name, s, given)
            except (fatune.Error, RuntimeError) as e:
                bad += 1
                print(f"{name} d{d}: {type(e).__name__}: {str(e)[:300]}", flush=True)
    rows.sort(key=lambda row: (math.isnan(row[7]), row[7]))
    lines = [("case", "op", "d", "ms", "ms_plain", "peer", "ms_peer", "peer_over_ours", "apart")]
    lines += [(*row[:3], *(f"{x:.4g}" for x in row[3:5]), row[5], *(f"{x:.4g}" for x in row[6:])) for row in rows]
    table = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as f:
            f.write(f"# {torch.cuda.get_device_name()}, bf16, n {given.n}; PyTorch {torch.__version__}; worst first\n" + table)
    beside = [row[7] for row in rows if row[7] > 0]  # not where nobody is beside us
    print(table + (f"geometric mean {statistics.geometric_mean(beside):.3f}, least {beside[0]:.3f}" if beside else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
