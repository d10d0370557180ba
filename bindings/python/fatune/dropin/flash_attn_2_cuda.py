"""flash_attn_2_cuda -- fatune's kernels under flash-attn 2's unchanged Python."""

from fatune.flash2 import bwd, fwd, fwd_kvcache, varlen_bwd, varlen_fwd  # noqa: F401
