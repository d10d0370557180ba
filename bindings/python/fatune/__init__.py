"""fatune -- attention at the speed of the GPU at hand, by kernels that were tuned or are compiled for it.

    import fatune
    o = fatune.attention(q, k, v, causal=True)       # torch tensors [b, h, n, d], with gradients: tensors.py
    o = fatune.sdpa(q, k, v, is_causal=True)         # as torch.nn.functional.scaled_dot_product_attention: functional.py
    fatune.register()                                # PyTorch's own calls of it take these kernels: overrides.py
    fatune.dlpack.attention(q, k, v, out)            # arrays of CuPy and others, without PyTorch
    python -m fatune doctor                          # the program: tune, show, why, bench, ...

Nothing but Python's own modules is loaded by this import; what a name needs is loaded when it is first used."""

import importlib

_HOMES = {"sdpa": "functional", "register": "overrides", "Error": "abi", "version": "abi", "dropout_mask": "features", "FALLBACK": "abi", "FAIL": "abi", "COMPILE": "abi"}
_MODULES = ("abi", "dlpack", "features", "flash2", "flash3", "functional", "huggingface", "intervals", "library", "ops", "overrides", "tensors", "xla")

_PACKAGES = {"torch": "PyTorch", "jax": "JAX"}


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in _MODULES:
            return importlib.import_module("." + name, __name__)
        found = getattr(importlib.import_module("." + _HOMES.get(name, "tensors"), __name__), name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    except ModuleNotFoundError as error:  # hasattr() answers False; whether a name would be there cannot be known
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r} while {_PACKAGES.get(error.name, error.name)} is not installed "
            "(fatune.dlpack needs neither PyTorch nor JAX, fatune.xla needs JAX alone)"
        ) from error
    if not name.startswith("_"):
        globals()[name] = found  # looked up once: a call costs no more than one of a module's own function
    return found


def __dir__():
    return sorted({*globals(), *_HOMES, *_MODULES, "attention", "build", "dropout_mask", "prepare", "prepare_backward"})
