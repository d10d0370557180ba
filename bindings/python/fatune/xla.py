"""xla.py -- attention in JAX: fatune's kernels as foreign functions of XLA, with gradients, under jit, vmap and shard_map.

    from fatune.xla import attention
    o = attention(q, k, v, causal=True)          # [b, h, n, d] in float16, bfloat16 or float32; k and v may have fewer heads

Needs JAX 0.5 or later on a CUDA GPU. Arrays are dense there, so nothing is said of strides. A family that nothing stored
serves has its kernel compiled at the first call. There are first derivatives alone."""

import ctypes
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from . import abi
from .abi import ALL

_DTYPES = {jnp.dtype(jnp.float16): "f16", jnp.dtype(jnp.bfloat16): "bf16", jnp.dtype(jnp.float32): "f32"}
_NAMES = {"fatune_forward": "fatune_xla_forward", "fatune_backward": "fatune_xla_backward"}


def register(platform="CUDA"):
    """Makes the handlers known to JAX for a platform."""
    library = ctypes.CDLL(abi.beside("libfatune-xla.so.0", "FATUNE_XLA"))  # which finds libfatune in the process
    for name, symbol in _NAMES.items():
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, symbol)), platform=platform)


def _family(op, q, v, causal, window):
    left, right = window
    d, dv = q.shape[3], v.shape[3]
    causal, windowed = causal or right == 0, left != ALL or right > 0
    return (f"{op}-{_DTYPES[jnp.dtype(q.dtype)]}-d{d}" + ("" if d == dv else f"v{dv}") + ("-causal" if causal else "") +
            ("-w" if windowed else ""))


def _attributes(op, q, v, causal, scale, window):
    left, right = window
    windowed = left != ALL or right > 0
    return {"family": _family(op, q, v, causal, window), "scale": np.float32(scale),
            "window_left": np.int64(left if windowed else 0),
            "window_right": np.int64((0 if causal else right) if windowed else 0)}


def _forward(q, k, v, causal, scale, window):
    shapes = (jax.ShapeDtypeStruct((*q.shape[:3], v.shape[3]), q.dtype), jax.ShapeDtypeStruct(q.shape[:3], jnp.float32))
    call = jax.ffi.ffi_call("fatune_forward", shapes, vmap_method="sequential")
    return call(q, k, v, **_attributes("fwd", q, v, causal, scale, window))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def _attention(q, k, v, causal, scale, window):
    return _forward(q, k, v, causal, scale, window)[0]


def _kept(q, k, v, causal, scale, window):
    out, lse = _forward(q, k, v, causal, scale, window)
    return out, (q, k, v, out, lse)


def _backward(causal, scale, window, kept, dout):
    q, k, v, out, lse = kept
    shapes = tuple(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in (q, k, v))
    call = jax.ffi.ffi_call("fatune_backward", shapes, vmap_method="sequential")
    return call(q, k, v, out, lse, dout, **_attributes("bwd", q, v, causal, scale, window))


_attention.defvjp(_kept, _backward)


def attention(q, k, v, causal=False, scale=None, window=(ALL, ALL)):
    """softmax(scale q k^T + mask) v; the last row sees the last key under `causal` and under a window (left, right)."""
    if q.ndim != 4 or k.ndim != 4 or v.ndim != 4:
        raise ValueError(f"q, k, v have {q.ndim}, {k.ndim}, {v.ndim} dimensions: 4 are needed, [b, h, n, d]")
    if k.shape[:3] != v.shape[:3] or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3] or q.shape[1] % k.shape[1]:
        raise ValueError(f"shapes {q.shape}, {k.shape}, {v.shape} do not fit together")
    if jnp.dtype(q.dtype) not in _DTYPES or not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"dtypes {q.dtype}, {k.dtype}, {v.dtype}: one of {list(_DTYPES.values())} for all is needed")
    left, right = window
    if left < ALL or right < ALL:
        raise ValueError(f"window {tuple(window)}: each side is a number of keys, or -1 for all")
    return _attention(q, k, v, bool(causal), 1 / math.sqrt(q.shape[3]) if scale is None else float(scale), (left, right))


register()
