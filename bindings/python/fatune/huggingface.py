"""huggingface.py -- fatune as an attention implementation of transformers.

    import fatune.huggingface                      # registers it
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="fatune")

Masks are made by the rule of "sdpa": none where the causal mask alone says it all. One that is left (padding, a sliding window, a
static cache, packed documents) goes to the kernel as an interval of keys for each row where it is that, else as it is. Dropout,
softcap, sinks and position biases are the kernel's too."""

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from . import functional, intervals
from .abi import UNSUPPORTED, Error


def mask(*arguments, **words):
    """sdpa's, which carries its intervals along: a slice or a copy of it has none, and _version tells what was written since."""
    made = sdpa_mask(*arguments, **words)
    if made is not None and made.shape[2] > 1 and not (torch.compiler.is_compiling() or made.is_inference() or _is_captured()):
        made.fatune = intervals.found(made), made._version
    return made


def _is_captured():
    """Whether the host cannot wait for the GPU now."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _seen(attention_mask, rows, keys):
    """What of a mask the kernel takes: (attn_mask, intervals)."""
    pairs, version = getattr(attention_mask, "fatune", (None, 0))
    if pairs and tuple(attention_mask.shape[2:]) == (rows, keys) and attention_mask._version == version:
        return None, pairs
    return attention_mask[..., :keys], None


def attention(module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, is_causal=None, softcap=None, s_aux=None,
              position_bias=None, **others):
    """(out [b, s, h, d], None) of [b, h, s, d]; as transformers.integrations.sdpa_attention, and softcap and sinks (s_aux)."""
    if others.get("cache") is not None:
        raise Error(UNSUPPORTED, "fatune has no kernel for a paged cache yet")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    options = {"scale": scaling, "dropout": dropout, "softcap": softcap or 0.0}
    if s_aux is not None:
        options["sink"] = s_aux.float()
    if attention_mask is not None:
        attention_mask, pairs = _seen(attention_mask, query.shape[2], key.shape[2])
        options.update({"intervals": pairs} if pairs else {})
    if position_bias is not None:
        if attention_mask is not None and attention_mask.dtype != torch.bool:
            position_bias, attention_mask = position_bias + attention_mask, None
        options["bias"] = position_bias
    out = functional.general(query, key, value, attention_mask, is_causal, **options)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("fatune", attention)
AttentionMaskInterface.register("fatune", mask)
