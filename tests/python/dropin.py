"""dropin.py -- the functions that stand in for flash-attn's compiled halves, and transformers' attention, against attention
spelled out in double. CPU tensors pass for a GPU's (lent.py). Needs PyTorch; transformers where it is."""

import importlib.util
import os
import sys
import types

import torch
import fatune
from fatune import flash3, tensors

import lent
import refusal

lent.begin()
tensors._check_inputs = lambda *tensors: None
del torch.Tensor.is_cuda
torch.manual_seed(2)
sys.path.insert(0, os.path.join(os.path.dirname(fatune.__file__), "dropin"))
import flash_attn_2_cuda as flash  # noqa: E402

ALL = (-1, -1)


def drawn(*shape, needed=False):
    return torch.randn(shape).half().requires_grad_(needed)


def expect(q, k, v, causal=False, window=ALL, scale=0.4):
    """(out, lse) of [b, s, h, d] in double; the last row sees the last key."""
    q, k, v = (t.double().transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    n, m = q.shape[2], k.shape[2]
    at = torch.arange(m)[None, :] - torch.arange(n)[:, None] - (m - n)  # keys to the right of the diagonal
    hidden = torch.zeros(n, m, dtype=torch.bool)
    if causal:
        hidden |= at > 0
    if window[0] >= 0:
        hidden |= at < -window[0]
    if window[1] >= 0:
        hidden |= at > window[1]
    scores = (scale * q @ k.mT).masked_fill(hidden, -torch.inf)
    lse = torch.logsumexp(scores, -1) if m else torch.full(q.shape[:3], -torch.inf).double()
    weights = (scores - lse[..., None]).exp().masked_fill(hidden, 0)
    lse = torch.where(lse == -torch.inf, torch.inf, lse)
    return (weights @ v).transpose(1, 2), lse


def close(a, b, allowed=5e-3):
    torch.testing.assert_close(a.double(), b.double(), rtol=allowed, atol=allowed)


def refused(call, *words):
    refusal.refused(call, (RuntimeError, NotImplementedError), *words)


# Dense: all masks, fewer heads, rows without a key; gradients into tensors that are given.
for n, m, causal, window in ((3, 5, False, ALL), (3, 5, True, ALL), (5, 3, True, ALL), (4, 6, False, (2, 1)), (4, 6, True, (2, -1)),
                             (1, 5, True, ALL), (3, 5, False, (9, 9)), (3, 5, False, (1, -1)), (5, 2, False, (-1, 2))):
    given = [drawn(2, rows, heads, 8, needed=True) for rows, heads in ((n, 4), (m, 2), (m, 2))]
    out, lse, p, state = flash.fwd(*(t.detach() for t in given), None, None, 0.0, 0.4, causal, *window, 0.0, False, None)
    wanted, wanted_lse = expect(*given, causal, window)
    close(out, wanted)
    close(lse, wanted_lse)
    assert out.shape == (2, n, 4, 8) and out.is_contiguous() and p.numel() == 0 and state.dtype == torch.int64
    weight = torch.randn_like(wanted)
    gradients = torch.autograd.grad(wanted, given, weight)
    room = [torch.empty_like(t) for t in given]
    found = flash.bwd(weight.half(), *(t.detach() for t in given), out, lse, *room, None, 0.0, 0.4, causal, *window, 0.0, True, None,
                      state)
    for a, b, c in zip(found, gradients, room):
        close(a, b, 1e-2)
        assert a is c
    with torch.no_grad():
        cached, cached_lse = flash.fwd_kvcache(*given, *[None] * 10, 0.4, causal, *window, 0.0, True, 0)
        close(cached, wanted)
        close(cached_lse, wanted_lse)
assert any("-det" in key[1] for key in tensors._plans)

# Ragged: sequences of their own lengths, one of them empty, one without keys; and a cache with lengths.
lengths, keys = [3, 0, 2, 4], [5, 2, 0, 4]
cu_q, cu_k = (torch.tensor([0] + x, dtype=torch.int32).cumsum(0).int() for x in (lengths, keys))
q, k, v = drawn(9, 4, 8), drawn(11, 2, 8), drawn(11, 2, 8)
out, lse, _, state = flash.varlen_fwd(q, k, v, None, cu_q, cu_k, None, None, None, None, 4, 5, 0.0, 0.4, False, True, -1, -1, 0.0,
                                      False, None)
weight = torch.randn(9, 4, 8).half()
dq, dk, dv, _ = flash.varlen_bwd(weight, q, k, v, out, lse, None, None, None, cu_q, cu_k, None, 4, 5, 0.0, 0.4, True, True, -1, -1, 0.0,
                                 False, None, state)
for i in range(4):
    rows, at = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
    piece = [t[None].clone().requires_grad_() for t in (q[rows], k[at], v[at])]
    wanted, wanted_lse = expect(*piece, True)
    close(out[rows], wanted[0])
    close(lse[:, rows], wanted_lse[0])
    for a, b in zip((dq[rows], dk[at], dv[at]), torch.autograd.grad(wanted, piece, weight[None, rows].double())):
        close(a, b[0], 1e-2)
q, k, v = drawn(2, 1, 4, 8), drawn(3, 6, 2, 8), drawn(3, 6, 2, 8)
lens, index, pad = (torch.tensor(x, dtype=torch.int32) for x in ([4, 6], [2, 0], [1, 0]))
out, lse = flash.fwd_kvcache(q, k, v, None, None, lens, None, None, index, pad, None, None, None, 0.4, True, -1, -1, 0.0, True, 0)
for i, (b, first, last) in enumerate(((2, 1, 4), (0, 0, 6))):
    close(out[i:i + 1], expect(q[i:i + 1], k[b:b + 1, first:last], v[b:b + 1, first:last])[0])
odd = [t[..., :5].contiguous() for t in (q, k, v)]  # padded there, and nowhere before
close(flash.fwd_kvcache(*odd, None, None, lens, None, None, index, pad, None, None, None, 0.4, True, -1, -1, 0.0, True, 0)[0][1:],
      expect(odd[0][1:], odd[1][:1], odd[2][:1])[0])

# Cap, ALiBi and dropout, of batches and of ragged ones; the debug tensor tells what was dropped.
torch.cuda.is_current_stream_capturing, torch.cuda.default_generators = lambda: False, {-1: type("", (), {
    "initial_seed": lambda _: 7, "get_offset": lambda _: 4, "set_offset": lambda _, offset: moved.append(offset)})()}
moved = []
slopes, cu = torch.rand(4), torch.tensor([0, 3, 6], dtype=torch.int32)
sys.modules["flash_attn"] = types.ModuleType("flash_attn")
sys.modules["flash_attn.flash_attn_interface"] = types.SimpleNamespace(_get_block_size_n=lambda *_: 2)
for softcap, p in ((2.0, 0.0), (0.0, 0.3)):
    q, k, v = (drawn(2, 3, heads, 8, needed=True) for heads in (4, 2, 2))
    plain = [t.detach() for t in (q, k, v)]
    out, lse, debug, state = flash.fwd(*plain, None, slopes, p, 0.4, True, -1, -1, softcap, True, None)
    assert (state.tolist() == [7, 4] and moved == [4 + 2 * 4 * 32]) == bool(p) and debug.numel() == (2 * 4 * 128 * 128 if p else 0)
    kept = debug[:, :, :3, :3] >= 0 if p else torch.ones(2, 4, 3, 3, dtype=torch.bool)
    assert not p or 0 < (~kept).sum() < kept.numel() / 2
    scores = 0.4 * torch.einsum("bnhd,bmhd->bhnm", q.double(), k.double().repeat_interleave(2, 2))
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores - slopes.double()[:, None, None] * (torch.arange(3)[:, None] - torch.arange(3)[None, :]).abs()
    weights = scores.masked_fill(torch.ones(3, 3).triu(1) > 0, -torch.inf).softmax(-1)
    wanted = torch.einsum("bhnm,bmhd->bnhd", weights * kept / (1 - p), v.double().repeat_interleave(2, 2))
    close(out, wanted)
    weight = torch.randn_like(wanted)
    gradients = torch.autograd.grad(wanted, (q, k, v), weight)
    more = (slopes, p, 0.4, True, -1, -1, softcap, False, None, state)
    for a, b in zip(flash.bwd(weight.half(), *plain, out, lse, None, None, None, *more), gradients):
        close(a, b, 1e-2)
    flat, lengths = [t.flatten(0, 1) for t in (weight.half(), *plain, out)], (cu, cu, slopes, 3, 3, p, 0.4, False, True, -1, -1, softcap)
    moved.clear()
    ragged, lse, debug, state = flash.varlen_fwd(*flat[1:4], None, cu, cu, None, None, None, slopes, 3, 3, p, 0.4, False, True, -1, -1,
                                                 softcap, True, None)
    close(ragged, flat[4])
    assert not p or torch.equal(debug[:, :, :3, :3] >= 0, kept)
    for a, b in zip(flash.varlen_bwd(*flat, lse, None, None, None, *lengths, False, None, state), gradients):
        close(a, b.flatten(0, 1), 1e-2)
del sys.modules["flash_attn"], sys.modules["flash_attn.flash_attn_interface"]

# What is not served says so.
q, k, v = drawn(1, 2, 2, 8), drawn(1, 2, 2, 8), drawn(1, 2, 2, 8)
dense = lambda p=0.0, gen=None, q=q: flash.fwd(q, k, v, None, None, p, 0.4, False, -1, -1, 0.0, False, gen)  # noqa: E731
refused(lambda: dense(gen=1), "generator", "no longer supported")
refused(lambda: dense(q=q.float()), "fp16 and bf16")
cache = lambda *a: flash.fwd_kvcache(q, k, v, *a, 0.4, False, -1, -1, 0.0, True, 0)  # noqa: E731
refused(lambda: cache(k, v, *[None] * 8), "appending")
refused(lambda: cache(None, None, None, q, q, *[None] * 5), "rotary")
refused(lambda: cache(*[None] * 7, torch.zeros(1, 1), None, None), "block_table")

# FlashAttention-3's operators, by the names and defaults of its Python.
library = flash3.define("CPU")
assert flash3.define("CPU") is None
op = torch.ops.flash_attn_3
for d, dv in ((5, 5), (5, 9), (8, 24), (8, 8)):  # 5 and 9: padded there
    given = [drawn(1, n, heads, width, needed=True) for n, heads, width in ((3, 4, d), (5, 2, d), (5, 2, dv))]
    plain = [t.detach() for t in given]
    out, lse, _, _ = op.fwd(*plain, softmax_scale=0.4, is_causal=True)
    wanted, wanted_lse = expect(*given, True)
    close(out, wanted)
    close(lse, wanted_lse)
    weight = torch.randn_like(wanted)
    room = [torch.empty_like(t) for t in plain]
    assert len(op.bwd(weight.half(), *plain, out, lse, *room, softmax_scale=0.4, is_causal=True)) == 5
    for a, b in zip(room, torch.autograd.grad(wanted, given, weight)):
        close(a, b, 1e-2)
ragged = op.fwd(plain[0][0], *plain[1:], cu_seqlens_q=torch.tensor([0, 3], dtype=torch.int32), max_seqlen_q=3, softmax_scale=0.4, is_causal=True,
                seqused_k=torch.tensor([5], dtype=torch.int32))[0]  # of a cache
close(ragged, out[0])
parts = [expect(plain[0], plain[1][:, at], plain[2][:, at]) for at in (slice(0, 2), slice(2, 5))]
merged, all_lse = op.fwd_combine(torch.stack([o for o, _ in parts]).float(), torch.stack([s.mT for _, s in parts]).float())
whole, whole_lse = expect(*plain)
close(merged, whole, 1e-5)
close(all_lse, whole_lse.mT, 1e-5)
chunked = torch.arange(3)[:, None] + 2 - (torch.arange(3)[:, None] + 2) % 2 + torch.arange(2)[None, :]  # keys of each row's chunk
found = op.fwd(*plain, attention_chunk=2, softmax_scale=0.4)[0]
for i in range(3):
    at = chunked[i][chunked[i] < 5]
    close(found[:, i:i + 1], expect(plain[0][:, i:i + 1], plain[1][:, at], plain[2][:, at])[0])
refused(lambda: op.fwd(*plain, page_table=torch.zeros(1, 1, dtype=torch.int32)), "paged")
close(op.fwd(*plain, seqused_k=torch.tensor([4], dtype=torch.int32), softmax_scale=0.4)[0], expect(plain[0], *(t[:, :4] for t in plain[1:]))[0])

# transformers: a small model with random weights, beside its own eager attention.
if importlib.util.find_spec("transformers"):
    import transformers
    import fatune.huggingface  # noqa: F401
    config = transformers.LlamaConfig(vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=64)
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(config)
    tokens = torch.randint(0, 32, (2, 7))
    found = {}
    for name in ("eager", "fatune"):
        model.set_attn_implementation(name)
        model.zero_grad()
        logits = model(tokens, labels=tokens)
        logits.loss.backward()
        said = model.eval().generate(tokens, max_new_tokens=3, do_sample=False, pad_token_id=0)
        found[name] = logits.logits.detach(), model.model.layers[0].self_attn.q_proj.weight.grad.clone(), said
    assert found["fatune"][1].abs().sum() > 0
    close(found["fatune"][0], found["eager"][0], 1e-4)
    close(found["fatune"][1], found["eager"][1], 1e-4)
    assert found["fatune"][2].tolist() == found["eager"][2].tolist()
    padded = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7])
    for name in ("eager", "fatune"):
        model.set_attn_implementation(name)
        found[name] = model(tokens, attention_mask=padded).logits.detach()[padded == 1]
    close(found["fatune"], found["eager"], 1e-4)
    said = ", transformers"
else:
    said = "; left out: transformers is missing"
lent.check_driver()
print("stand-ins for flash-attn: right" + said)
