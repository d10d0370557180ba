"""flash_attn_3 -- the package in which FlashAttention-3's Python looks for its operators."""
