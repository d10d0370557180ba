"""refusal.py -- a call that is to fail, with an error that says why."""


def refused(call, kind, *words):
    """The error of `kind`, one or a tuple of them, which has all these words."""
    try:
        call()
    except kind as e:
        assert all(word in str(e) for word in words), e
        return e
    raise AssertionError(f"taken, where {words} was to be refused")
