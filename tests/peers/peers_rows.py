"""peers_rows.py -- rows of the benchmark beside peers, written by hand for its tests."""

import os
import sys

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)

import peers_cells as cells  # noqa: E402

FACTS = {"gpu": "NVIDIA H200", "driver": "580.159", "cuda": "13.0", "torch": "2.11.0", "cudnn": "9.19.0", "commit": "abc",
         "date": "2026-11-21T07:00:00Z", "cublas_tflops": 720.0, "copy_gbs": 4265.0, "clock": 1700, "watts": 690, "seed": 1}


def row(c, error_pytorch=1e-2, absent=None, data="normal", run=1, **ms):
    """A row with times in milliseconds by peer, and for each an error of half of PyTorch's."""
    peers = {name.replace("__", ":"): {"ms": t, "ms_low": t, "ms_high": t, "warm": 2, "settled": True, **cells.rates(c, t),
                                       "error": error_pytorch / 2, "rms": error_pytorch / 20, "clock": 1700, "watts": 690}
             for name, t in ms.items()}
    return {"cell": c, "data": data, "run": run, "peers": peers, "absent": dict(absent or {}), "error_pytorch": error_pytorch}


def whole_grid(dtype="bf16", ours=0.9, **which):
    """36 cells in which cuDNN runs at 600 TFLOP/s, FlashAttention-2 at 300, we in `ours` of cuDNN's time."""
    return [row(c, fatune=ours * ms, cudnn=ms, fa2=2 * ms, **which)
            for c in cells.grid([dtype], [64, 128, 256], [False, True], cells.LENGTHS) for ms in [cells.flop(c) / 600e9]]
