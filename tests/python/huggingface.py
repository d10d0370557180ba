"""huggingface.py -- small models of transformers with random weights, eager beside fatune: logits, gradients, generation with either
cache. CPU tensors pass for a GPU's (lent.py). Needs PyTorch and transformers."""

import importlib.util
import os
import sys

import torch

if not importlib.util.find_spec("transformers"):
    print("left out: transformers is missing")
    sys.exit()
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers as hf
from fatune import Error, features, functional, huggingface, tensors

import lent
from refusal import refused

lent.begin()
tensors._check_inputs = lambda *tensors: None
del torch.Tensor.is_cuda
torch.manual_seed(1)
hf.logging.set_verbosity_error()
calls, real = [], tensors.attention


def counted(*given, **options):
    calls.append(options)
    return real(*given, **options)


tensors.attention = functional.tensors.attention = counted
common = dict(vocab_size=40, pad_token_id=0, bos_token_id=1, eos_token_id=2)
decoder = dict(common, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64)
grouped = dict(decoder, num_key_value_heads=2, head_dim=8)
MODELS = (  # and the words of fatune.attention that some of its calls must have had
    (hf.MistralForCausalLM, hf.MistralConfig(**grouped, sliding_window=5), ("intervals", "mask")),
    (hf.Gemma2ForCausalLM, hf.Gemma2Config(**grouped, sliding_window=5), ("causal", "intervals", "softcap")),
    (hf.GptOssForCausalLM, hf.GptOssConfig(**grouped, sliding_window=5, num_local_experts=2, num_experts_per_tok=1), ("sink", "intervals")),
    (hf.PhiForCausalLM, hf.PhiConfig(**dict(decoder, hidden_size=80)), ("causal", "intervals")),  # heads of 20, padded to 24
    (hf.BertForMaskedLM, hf.BertConfig(**decoder, hidden_dropout_prob=0, attention_probs_dropout_prob=0), ("intervals",)),
    (hf.T5ForConditionalGeneration, hf.T5Config(**common, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0,
                                                decoder_start_token_id=0), ("bias", "intervals", "mask")),
)
ids, padding = torch.randint(5, 40, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
padding[1, :3] = 0


def whole(model, implementation, **given):
    """Logits where there is a token, and gradients."""
    model.set_attn_implementation(implementation)
    model.zero_grad()
    out = model(ids, **given).logits
    if out.shape[1] == ids.shape[1] and "attention_mask" in given:
        out = out * given["attention_mask"][..., None]
    out.square().mean().backward()
    return [out.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def near(found, wanted, allowed, title):
    for a, b in zip(found, wanted, strict=True):
        assert (a - b).abs().max() <= allowed * max(b.abs().max(), 1e-3), (title, (a - b).abs().max(), b.abs().max())


for kind, config, words in MODELS:
    title, more = kind.__name__, {"decoder_input_ids": ids[:, 2:7]} if config.is_encoder_decoder else {}
    model = kind(config).eval()
    calls.clear()
    for given in ({}, {"attention_mask": padding}, {"attention_mask": padding.flip(1)}):
        near(whole(model, "fatune", **more, **given), whole(model, "eager", **more, **given), 1e-4, title)
    if model.can_generate():
        asked = dict(attention_mask=padding, max_new_tokens=6, min_new_tokens=6)
        model.set_attn_implementation("eager")
        wanted = model.generate(ids, **asked)
        model.set_attn_implementation("fatune")
        for cache in (None, "static"):
            assert torch.equal(model.generate(ids, **asked, cache_implementation=cache), wanted), (title, cache)
        with torch.inference_mode():
            assert model(ids, **asked, **more).logits.isfinite().all()
    for word in words:
        assert any(isinstance(call.get(word), (tuple, torch.Tensor)) or call.get(word) for call in calls), f"{title}: no call with {word}"
    if kind is hf.MistralForCausalLM:  # documents behind each other, by positions; then in bf16
        near(whole(model, "fatune", position_ids=torch.arange(9)[None] % 4), whole(model, "eager", position_ids=torch.arange(9)[None] % 4), 1e-4, "packed")
        assert calls[-1].get("intervals") is not None and calls[-1].get("mask") is None
        exact = whole(model, "eager")
        model.bfloat16()
        rounded = [(a.float() - b).abs().max() for a, b in zip(whole(model, "eager"), exact)]
        for a, b, error in zip(whole(model, "fatune"), exact, rounded):
            assert (a.float() - b).abs().max() <= 2 * error + 1e-3 * b.abs().max(), (error, (a.float() - b).abs().max())

# What was written into a mask since, and what is no interval, is not lost.
mask = huggingface.mask(batch_size=1, q_length=9, kv_length=9, local_size=4)
q = torch.randn(1, 4, 9, 8)
mask[..., 7, 1] = mask[..., 0, 5] = True
module = torch.nn.Module()
for seen in (mask, mask.clone()):
    wanted = torch.nn.functional.scaled_dot_product_attention(q, q, q, seen).transpose(1, 2)
    torch.testing.assert_close(huggingface.attention(module, q, q, q, seen)[0], wanted, rtol=1e-5, atol=1e-5)
features.drawn_for = lambda *_: torch.tensor([5, 7])
dropped = [huggingface.attention(module, q, q, q, mask, dropout=rate)[0] for rate in (0.5, 0.5, 0.0)]
assert torch.equal(*dropped[:2]) and not torch.equal(*dropped[1:])
refused(lambda: huggingface.attention(module, q, q, q, cache=object()), Error, "paged cache")
lent.check_driver()
print("transformers: right", hf.__version__)
