"""dropin -- a folder for PYTHONPATH: modules of the names that flash-attn's Python imports its compiled halves by."""
