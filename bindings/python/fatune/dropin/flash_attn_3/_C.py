"""flash_attn_3._C -- defines torch.ops.flash_attn_3 on fatune's kernels."""

from fatune import flash3

library = flash3.define()
