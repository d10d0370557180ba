"""names.py -- what the package offers where PyTorch and JAX are not installed."""

import sys

sys.modules["torch"] = sys.modules["jax"] = None  # importing either fails, as where it is not installed

import fatune  # noqa: E402


def said(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


for name in ("attention", "sdpa", "register", "functional", "xla", "no_such_name", "__no_such_name__"):
    assert not hasattr(fatune, name), name
    assert getattr(fatune, name, 7) == 7
assert "while PyTorch is not installed" in said(lambda: fatune.attention, AttributeError)
assert "while PyTorch is not installed" in said(lambda: fatune.functional, AttributeError)
assert "while JAX is not installed" in said(lambda: fatune.xla, AttributeError)
assert hasattr(fatune, "dlpack") and fatune.version() and issubclass(fatune.Error, RuntimeError)


def import_it():
    import fatune.functional  # noqa: F401


assert "torch" in said(import_it, ModuleNotFoundError)

print("names without PyTorch and JAX: fine")
