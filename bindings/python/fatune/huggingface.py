"""huggingface.py -- fatune as an attention implementation of transformers.

    import fatune.huggingface                      # registers it
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="fatune")

Masks are made by the rule of "sdpa": none where the causal mask alone says it all. One that is left (padding, a static cache) is
read by the kernel, as are dropout, softcap and sinks."""

from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from . import functional, tensors
from .abi import UNSUPPORTED, Error


def attention(module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, is_causal=None, softcap=None, s_aux=None,
              **others):
    """(out [b, s, h, d], None) of [b, h, s, d]; as transformers.integrations.sdpa_attention, and sinks (s_aux)."""
    if others.get("position_bias") is not None or others.get("cache") is not None:
        raise Error(UNSUPPORTED, "fatune has no kernel for position_bias or for a paged cache yet")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    options = {"scale": scaling, "dropout": dropout, "softcap": softcap or 0.0}
    if s_aux is not None:
        options["sink"] = s_aux.float()
    query, key, value = (t if t.stride(3) == 1 else t.contiguous() for t in (query, key, value))
    if is_causal:
        key, value, options["causal"], options["window"] = functional.topleft(query, key, value)
    elif attention_mask is not None:
        options.update(functional.masked(attention_mask[..., :key.shape[2]], query))
    out = tensors.attention(query, key, value, **options)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("fatune", attention)
AttentionMaskInterface.register("fatune", sdpa_mask)
