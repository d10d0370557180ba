"""tensors.py -- attention on torch tensors through libfatune, by ctypes.

    import fatune
    o = fatune.attention(q, k, v, causal=True)               # [b, h, n, d]: heads before rows
    o = fatune.attention(q, k, v, window=(1023, 0))          # each row sees 1023 keys to its left and its own
    o = fatune.attention(q, k, v, sink=logits)               # [h]: one more score in every row of a head, without a v
    o = fatune.attention(q, k, v, softcap=50.0, slopes=slopes, dropout=0.1)
    o, lse = fatune.attention(q, k, v, return_lse=True)
    o.sum().backward()                                       # where an input requires a gradient
    call = fatune.prepare(q, k, v, causal=True)              # this very call in two steps: checks and plan now,
    o = call()                                               # and each call only queues the work
    call = fatune.prepare_backward(q, k, v, o, lse, do)      # the same for gradients: dq, dk, dv = call()

The last row sees the last key under `causal` and under a window (the diagonal ends at the bottom right; PyTorch's
is_causal begins at the top left, which differs where q and k have other lengths). Work is queued on torch's current
stream; strides are taken as they are, so views need no copy, and `o` has those of q where q is dense. What is stored in
the tuning database serves; by default a family that nothing stored serves has its kernel compiled once, now. One plan
serves all lengths of a type, head dimensions and mask; threads may call.

Gradients of q, k, v and sink, by `o` and by `lse`, are recorded where PyTorch records; one that fatune cannot give is an
error of the call itself, never lost: where no backward kernel serves (a head dimension of v above 256), it is Error; second
derivatives are an error of the backward. `deterministic=True`, or torch.use_deterministic_algorithms(True), takes kernels
whose gradients have equal bits every time.
"""

import ctypes
import functools
import math
import threading

import torch

from . import again, library
from .abi import (ALIGNED, ALIGNMENT, ALL, COMPILE, FAIL, FALLBACK, NO_CONTEXT, UNSUPPORTED, BACKWARD as _BACKWARD, FEATURES as _FEATURES,
                  FORWARD as _FORWARD, NAMES as _NAMES, Error, Sizes as _Sizes, Tensor as _Tensor,
                  Tensors as _Tensors, check as _check, lib as _lib, version)
from .library import PLANS, _plans  # one table for all doors

_run = _lib.fatune_run
_empty_like, _is_recording = torch.empty_like, torch.is_grad_enabled
# The stream that torch queues on: a device's number -> an address. The public way makes an object of it first.
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda device: torch.cuda.current_stream(device).cuda_stream)

_forward_ad = getattr(torch.autograd, "forward_ad", None)  # its `_current_level` is below 0 where nobody differentiates so
if not hasattr(_forward_ad, "_current_level"):
    _forward_ad = type("NoForwardMode", (), {"_current_level": -1})
_increment_version = getattr(getattr(torch.autograd, "graph", None), "increment_version", None)  # an older PyTorch has none
_is_deterministic = torch.are_deterministic_algorithms_enabled
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_FLOAT = torch.float32
CALLS = 512  # known to a thread; beyond that it begins anew
SMALL = 1 << 16  # bytes of a workspace that a known call keeps


class _Known(threading.local):
    """What a thread has learned: calls by all that decides them but addresses. Each thread has its own, because a call's
    addresses are written into it."""

    def __init__(self):
        self.calls = {}
        self.again = {}  # the same by what is not read from tensors: functions of again.py

    def learn(self, key, what):
        if len(self.calls) >= CALLS:
            self.calls.clear()
        self.calls[key] = what
        return what

    def learn_again(self, options, call, q, k, v):
        """After a call of new outputs: the next of such tensors will be found in self.again[options], where again.py can."""
        if not again.is_there:
            return
        if options not in self.again:
            if len(self.again) >= CALLS:
                self.again.clear()
            self.again[options] = again.function()
        again.learn(self.again[options], call, _run, _empty_like, q, k, v)


_known = _Known()


class _Plan(library.Plan):
    """A plan on a device of torch's."""

    def __init__(self, handle, device, problem, kernel, policy, flags, mod=None, mask_mod=None, sizes=None):
        self.device, self.flags, self.asked = device, flags, (problem, device, kernel, policy)
        self.expressions = {"mod": mod, "mask_mod": mask_mod}
        super().__init__(handle, problem, kernel, policy, flags, mod, mask_mod, sizes)

    def make(self, request, at):
        with torch.cuda.device(self.device):
            status = super().make(request, at)
            if status == NO_CONTEXT:
                torch.cuda.current_stream().synchronize()  # makes the device's context current
                status = super().make(request, at)
        return status


def _number(name, x):
    """A number that may have come as a tensor: it is read now, for calls are known by their numbers."""
    if not isinstance(x, torch.Tensor):
        return x
    if _is_recording() and x.requires_grad:
        raise Error(UNSUPPORTED, f"{name} requires a gradient, and fatune gives none to it: detach it, or multiply q by it")
    return x.item()


def _pair_of(window):
    try:
        left, right = window
    except (TypeError, ValueError):
        raise ValueError(f"window is {window!r}: a pair is needed, (left, right), -1 for all keys of a side") from None
    return left, right


def _written(*tensors):
    """Tells autograd that tensors which a caller gave have other contents now."""
    for t in tensors if _increment_version else ():
        if not t.is_inference():
            _increment_version(t)


def _refuse_tangents(*inputs):
    """Within a level of forward-mode differentiation: no tangent is lost in silence."""
    for t in inputs:
        if isinstance(t, torch.Tensor) and _forward_ad.unpack_dual(t).tangent is not None:
            raise Error(UNSUPPORTED, "an input has a tangent, and fatune has no derivatives in forward mode: take gradients (backward)")


def _mask(causal, window):
    """(causal, left, right) of a call; sides of a window that is none are ALL."""
    left, right = window
    if left < ALL or right < ALL:
        raise ValueError(f"window {tuple(window)}: each side is a number of keys, or -1 for all")
    causal = causal or right == 0
    return causal, left, 0 if causal else right


def _checked(q, k, v, arithmetic):
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ValueError(f"q, k, v have {q.dim()}, {k.dim()}, {v.dim()} dimensions: 4 are needed, [b, h, n, d]")
    b, h, n, d = q.shape
    hk, nk, dv = k.shape[1], k.shape[2], v.shape[3]
    if tuple(k.shape) != (b, hk, nk, d) or tuple(v.shape) != (b, hk, nk, dv) or h > 0 and hk == 0:
        raise ValueError(f"shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)} do not fit together")
    return _checked_types(q, k, v, arithmetic), (b, h, hk, n, nk), f"d{d}" if dv == d else f"d{d}v{dv}"


def _checked_types(q, k, v, arithmetic):
    if q.dtype not in _DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"dtypes {q.dtype}, {k.dtype}, {v.dtype}: one of {list(_DTYPES.values())} for all is needed")
    dtype = arithmetic or _DTYPES[q.dtype]
    if dtype != _DTYPES[q.dtype] and (q.dtype != torch.float32 or dtype not in ("tf32", "f32x3")):
        raise ValueError(f"arithmetic {arithmetic} of {q.dtype} tensors: there are tf32 and f32x3, both of float32")
    return dtype


def problem_text(q, k, v, causal=False, arithmetic=None, window=(ALL, ALL), sink=None, op="fwd", deterministic=False, split=0,
                 dlse=False):
    """The canonical text of a forward call: `fwd-f32-b2-h16k4-q4096-k4096-d128-causal`; with op="bwd", of that of its
    gradients, which know of a sink by LSE, and with `dlse` take one of LSE. `arithmetic`: how float32 tensors are multiplied, "f32" (the default), "tf32" or
    "f32x3" (three products of TF32, nearly as exact as f32)."""
    dtype, (b, h, hk, n, nk), dims = _checked(q, k, v, arithmetic)
    causal, *sides = _mask(causal, window)
    left, right = ("x" if side == ALL else str(side) for side in sides)
    windowed = left != "x" or right not in ("x", "0")
    heads = f"h{h}" if hk == h else f"h{h}k{hk}"
    return (f"{op}-{dtype}-b{b}-{heads}-q{n}-k{nk}-{dims}" + ("-causal" if causal else "") +
            (f"-w{left}.{right}" if windowed else "") + ("" if sink is None or op == "bwd" else "-sink") +
            ("-dlse" if dlse else "") + ("-det" if deterministic else "") + (f"-split{split}" if split else ""))


def family_text(q, k, v, causal=False, arithmetic=None, window=(ALL, ALL), sink=None, op="fwd", deterministic=False, split=0,
                dlse=False):
    """The same without sizes, which one plan serves all of: `fwd-f32-d128-causal-w`. And, with op="bwd", that of its
    gradients, which know of a sink by LSE."""
    dtype, _, dims = _checked(q, k, v, arithmetic)
    causal, left, right = _mask(causal, window)
    return (f"{op}-{dtype}-{dims}" + ("-causal" if causal else "") + ("-w" if left != ALL or right > 0 else "") +
            ("" if sink is None or op == "bwd" else "-sink") + ("-dlse" if dlse else "") + ("-det" if deterministic else "") +
            ("-split" if split else ""))


def _sizes(q, k, v, causal, window, split=0):
    causal, left, right = _mask(causal, window)
    windowed = left != ALL or right > 0
    return _Sizes(ctypes.sizeof(_Sizes), q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], 0, 0,
                  left if windowed else 0, right if windowed else 0, 0, split)


def plan(problem, device=None, kernel=None, policy=COMPILE, aligned=False, mod=None, mask_mod=None, sizes=None):
    """The plan of a problem or a family on a device. `aligned`: no tensor will ever begin a row elsewhere than at a
    multiple of 16 bytes, so no second kernel for such is wanted. `mod`, `mask_mod`: expressions that the problem has too. `sizes`: of the
    call at hand, for which the plan has a kernel then; that of a family compiles no other, and without sizes none."""
    device = None if device is None else torch.device(device)
    if device is None or device.index is None and device.type == "cuda":
        device = torch.cuda.current_device()
    else:
        device = device.index or 0
    key = (device, problem, kernel, policy, ALIGNED if aligned else 0, mod, mask_mod)
    made = library.kept(key, lambda handle: _Plan(handle, *key, sizes=sizes))
    if sizes is not None:
        made.serving(sizes)  # it may have been made for another call
    return made


def _is_aligned(*tensors):
    """Whether each row of them begins at a multiple of 16 bytes. Then a plan has no second kernel for others at first: to compile it
    takes as long again. A call that is known and comes with others has it made then (_Call.whole)."""
    return not any((tensor.data_ptr() | n * tensor.element_size()) & 15 for tensor in tensors for n in tensor.stride()[:-1])


def build(family, device=None, kernel=None, policy=COMPILE):
    """Compiles all kernels of a family now, up to eight side by side, which calls else do one by one as they need them: before a server
    takes requests, say. `build("fwd-bf16-d128-causal")`."""
    plan(family, device, kernel, policy, aligned=True).build()


def describe(problem, device=None, kernel=None, policy=COMPILE, aligned=False):
    """What serves a problem or a family and why, as lines of `name value`."""
    return _lib.fatune_describe(plan(problem, device, kernel, policy, aligned).at).decode(errors="replace")


def _rows(tensor):
    """A tensor of rows whose elements are contiguous, as the library takes it."""
    strides = tensor.stride()
    if tensor.dim() == 1:  # one number a head
        strides = (0, *strides, 0)
    if tensor.dim() == 4 and tensor.shape[3] > 1 and strides[3] != 1 and 0 not in tensor.shape:
        raise ValueError(f"strides {strides}: the last must be 1; call .contiguous()")
    return _Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(*strides[:3]))


def _check_inputs(q, k, v, sink):
    if not (q.is_cuda and k.device == q.device and v.device == q.device):
        raise ValueError(f"devices {q.device}, {k.device}, {v.device}: one GPU for all is needed")
    for tensor in (q, k, v):
        _rows(tensor)
    if sink is not None and (tuple(sink.shape) != (q.shape[1],) or sink.dtype != _FLOAT or sink.device != q.device):
        raise ValueError(f"sink is {tuple(sink.shape)} {sink.dtype} on {sink.device}: one float32 for each head of q "
                         "is needed")


def _check_outputs(q, v, out, lse):
    if tuple(out.shape) != (*q.shape[:3], v.shape[3]) or out.dtype != q.dtype or out.device != q.device:
        raise ValueError(f"out is {tuple(out.shape)} {out.dtype} on {out.device}: it does not fit q and v")
    if lse is not None and (tuple(lse.shape) != tuple(q.shape[:3]) or lse.dtype != _FLOAT
                            or lse.device != q.device or (lse.shape[2] > 1 and lse.stride(2) != 1 and 0 not in lse.shape)):
        raise ValueError(f"lse is {tuple(lse.shape)} {lse.dtype} on {lse.device}: it does not fit q")


def _room(size, device):
    return torch.empty(size, dtype=torch.uint8, device=device)


def _pattern(q, shape, dtype):
    """Something of which _empty_like makes a dense tensor of that shape: faster than new_empty, which reads arguments."""
    return q.new_empty(1, dtype=dtype).expand(shape)


def _is_like_q(q, v):
    """Whether a result has the strides of q; else it is dense, row by row."""
    return v.shape[3] == q.shape[3] and _empty_like(q).stride() == q.stride()


_Q, _K, _V, _O, _LSE, _SINK = (_NAMES.index(name) * ctypes.sizeof(_Tensor) // 8 for name in (*_FORWARD, "sink"))  # their addresses


class _Image(ctypes.Structure):
    """All that fatune_run reads of one call."""
    _fields_ = [("tensors", _Tensors), ("sizes", _Sizes), ("of", _Tensor * len(_NAMES))]


class _Call:
    """A call of a plan, laid out for tensors of these shapes and strides: all but their addresses is known. To be used
    by one thread at a time, but for `queue` where `addresses` are not changed."""

    def __init__(self, made, sizes, scale, given, prepared=False, place=None):
        q = given["Q"]
        self.image, self.device, self.number = _Image(), q.device, q.get_device()
        self.image.tensors.size, self.image.sizes = ctypes.sizeof(_Tensors), sizes
        self.image.tensors.scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        self.places = []  # among `addresses`, in the order of `given`
        for name, tensor in given.items():
            if tensor is not None:
                at = _NAMES.index(name)
                self.image.of[at] = place(name, tensor) if place else _rows(tensor)
                setattr(self.image.tensors, name, ctypes.pointer(self.image.of[at]))
                self.places.append(at * ctypes.sizeof(_Tensor) // 8)
        self.addresses = (ctypes.c_uint64 * (ctypes.sizeof(_Tensor) // 8 * len(_NAMES))).from_buffer(self.image, _Image.of.offset)
        self.tensors = ctypes.addressof(self.image)
        self.sizes = self.tensors + _Image.sizes.offset
        self.prepared = prepared
        self.take(made)
        if prepared and self.size:
            self.kept = self.room()
            self.at = self.kept.data_ptr()

    def take(self, made):
        """The plan whose call this is."""
        self.made = made
        self.plan, self.size = made.serving(self.image.sizes)
        self.room = functools.partial(_room, self.size, self.device)
        self.kept = self.at = None

    def place(self, name):
        """Where the address of a tensor is written."""
        return ctypes.addressof(self.image.of[_NAMES.index(name)])

    def run(self, tensors):
        """Queues it for tensors that come in the order of `given`."""
        addresses = self.addresses
        for place, tensor in zip(self.places, tensors):
            addresses[place] = tensor.data_ptr()
        self.queue()

    def forward(self, q, k, v, out, sink):
        """Queues a forward call with new room for what it gives: out, or (out, lse)."""
        if out is None:
            out = _empty_like(q if self.out is None else self.out)
        addresses = self.addresses  # one by one: a loop costs as much again
        addresses[_Q], addresses[_K], addresses[_V], addresses[_O] = q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr()
        if sink is not None:
            addresses[_SINK] = sink.data_ptr()
        if self.lse is None:
            self.queue()
            return out
        lse = _empty_like(self.lse)
        addresses[_LSE] = lse.data_ptr()
        self.queue()
        return out, lse

    def queue(self):
        stream, at = _stream(self.number), self.at
        if self.size and (stream or at is None) and not self.prepared:
            fresh = self.room()
            at = fresh.data_ptr()
            if not stream and self.size <= SMALL:  # for the default stream alone: others may be captured, and a graph keeps
                self.kept, self.at = fresh, at  # addresses
        status = _run(self.plan, self.tensors, self.sizes, at, stream)
        if status:
            self.whole(status)

    def whole(self, status):
        """After a run that failed: once more, with a plan for tensors that lie elsewhere than those that came before."""
        if self.prepared or status not in (ALIGNMENT, UNSUPPORTED) or not self.made.flags & ALIGNED:
            _check(status)
        self.take(plan(*self.made.asked, aligned=False, sizes=self.image.sizes, **self.made.expressions))
        self.queue()


def prepare(q, k, v, causal=False, scale=None, out=None, lse=None, kernel=None, policy=COMPILE, aligned=False,
            arithmetic=None, window=(ALL, ALL), sink=None, split=0):
    """A function that queues this very call on torch's current stream, as often as wanted, and returns `out`.
    The log-sum-exps of the rows go to `lse` where one is given. Not to be queued on two streams at once: its calls
    share a workspace. The plan is that of this problem, not of its family. No gradients are recorded."""
    text = problem_text(q, k, v, causal, arithmetic, window, sink, split=split)
    _check_inputs(q, k, v, sink)
    if _is_recording() and any(t is not None and t.requires_grad for t in (q, k, v, sink)):
        raise ValueError("q, k, v or sink requires a gradient, and a prepared call records none: call fatune.attention, or "
                         "prepare under torch.no_grad()")
    if out is None:
        out = q.new_empty((*q.shape[:3], v.shape[3]))
    _check_outputs(q, v, out, lse)
    given = dict(zip(_FORWARD + _FEATURES, (q, k, v, out, lse, sink)))
    call = _Call(plan(text, q.device, kernel, policy, aligned), _sizes(q, k, v, causal, window, split), scale, given,
                 prepared=True)
    queue, held = call.queue, given

    def again():
        queue()
        return held["O"]
    return again


def prepare_backward(q, k, v, out, lse, dout, causal=False, scale=None, gradients=None, kernel=None, policy=COMPILE,
                     aligned=False, arithmetic=None, window=(ALL, ALL), deterministic=False, dlse=None):
    """The same for the gradients: a function that returns (dq, dk, dv) of a forward call's inputs, its `out`, its `lse`, the
    gradient of `out` and, where one is given, that of `lse`. They go to `gradients` where three tensors are given. Its
    workspace is held as long as it is."""
    text = problem_text(q, k, v, causal, arithmetic, window, op="bwd", deterministic=deterministic, dlse=dlse is not None)
    _check_inputs(q, k, v, None)
    _check_outputs(q, v, out, lse)
    _check_outputs(q, v, dout, dlse)
    if gradients is None:
        gradients = tuple(_gradient_of(t) for t in (q, k, v))
    for name, of, found in zip(("dq", "dk", "dv"), (q, k, v), gradients):
        if found.shape != of.shape or found.dtype != of.dtype or found.device != of.device:
            raise ValueError(f"{name} is {tuple(found.shape)} {found.dtype} on {found.device}: it does not fit its input")
    given = dict(zip(_FORWARD + _BACKWARD + ("dLSE",), (q, k, v, out, lse, dout, *gradients, dlse)))
    call = _Call(plan(text, q.device, kernel, policy, aligned), _sizes(q, k, v, causal, window), scale, given, prepared=True)
    queue, held = call.queue, given

    def again():
        queue()
        return held["dQ"], held["dK"], held["dV"]
    return again


def _form(tensor):
    return tensor is not None and (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def _forward_call(q, k, v, causal, scale, out=None, return_lse=False, kernel=None, policy=COMPILE, arithmetic=None, window=(ALL, ALL),
                  sink=None, split=0):
    """A call that this thread has not met."""
    text = family_text(q, k, v, causal, arithmetic, window, sink, split=split)
    _check_inputs(q, k, v, sink)
    pattern = None if _is_like_q(q, v) else _pattern(q, (*q.shape[:3], v.shape[3]), q.dtype)
    rows = _pattern(q, q.shape[:3], _FLOAT) if return_lse else None
    if out is None:
        out = _empty_like(q if pattern is None else pattern)
    lse = None if rows is None else _empty_like(rows)
    _check_outputs(q, v, out, lse)
    given = dict(zip(_FORWARD + _FEATURES, (q, k, v, out, lse, sink)))
    sizes = _sizes(q, k, v, causal, window, split)
    call = _Call(plan(text, q.device, kernel, policy, aligned=_is_aligned(q, k, v), sizes=sizes), sizes, scale, given)
    call.out, call.lse = pattern, rows
    return call


def family_call(q, k, v, out, lse, causal=False, scale=None, window=(ALL, ALL), policy=COMPILE):
    """The known call of these shapes and strides whose out and lse are given: run((q, k, v, out, lse)) queues it."""
    key = ("given", *((t.shape, t.stride()) for t in (q, k, v, out, lse)), q.dtype, q.device, causal, scale, window, policy)
    call = _known.calls.get(key)
    if call is None:
        text = family_text(q, k, v, causal, None, window)
        _check_inputs(q, k, v, None)
        _check_outputs(q, v, out, lse)
        sizes = _sizes(q, k, v, causal, window)
        call = _known.learn(key, _Call(plan(text, q.device, None, policy, sizes=sizes), sizes, scale,
                                       dict(zip(_FORWARD, (q, k, v, out, lse)))))
    return call


def attention(q, k, v, causal=False, scale=None, out=None, return_lse=False, kernel=None, policy=COMPILE,
              arithmetic=None, window=(ALL, ALL), sink=None, deterministic=None, split=0, softcap=0.0, slopes=None, dropout=0.0,
              rng=None, mask=None, bias=None, **more):
    """softmax(scale q k^T + mask) v for [b, h, n, d] tensors on one GPU; k and v may have fewer heads. `window`:
    (left, right), the keys that a row sees to each side of its own, -1 for all; `causal` is a right side of 0.
    `sink`: [h], a score of each head that its rows have beside those of their keys, not scaled and without a v.
    `split`: the keys of a row in splits of so many, a multiple of 64; the bits of a row's output then depend on nothing but its
    own q, k and v (not in f32). `deterministic`: whether gradients have equal bits every time; None asks torch. `kernel` and
    `split` are the forward's. `softcap`: scores are softcap tanh(scale q k^T / softcap). `slopes`: [h] or [b, h], ALiBi: scores
    lose slope times the distance from the diagonal. `dropout`: the part of weights that is dropped, by the bits of flash-attn for
    the same `rng`, a tensor of seed and offset on the GPU; None takes them from PyTorch's generator. `mask`: a bool or a byte,
    `bias`: a number that is added to the score, for each row and key, [b or 1, h or 1, n or 1, keys or 1]. `more`: ragged batches,
    lengths by batch, expressions (`mod="s + table0[h] * (j - i)"`, `mask_mod`, `tables`) and others, see features.py."""
    if scale is not None and scale.__class__ is not float:
        scale = _number("scale", scale)
    if _forward_ad._current_level >= 0:
        _refuse_tangents(q, k, v, sink, bias, slopes)
    if more or softcap or dropout or slopes is not None or mask is not None or bias is not None:
        try:
            options = features.Options(causal, scale, _pair_of(window), arithmetic, kernel, policy, split, sink,
                                       0.0 if softcap is None else softcap, slopes, 0.0 if dropout is None else dropout, rng, mask=mask, bias=bias, **more)
        except TypeError as why:  # of a word that is none
            raise TypeError(str(why).replace("Options.", "").replace("__new__", "fatune.attention")) from None
        return features.attention(q, k, v, out, return_lse, deterministic, options)
    if type(window) is not tuple:
        window = _pair_of(window)
    if _is_compiling():
        return ops.traced(q, k, v, sink, causal, scale, out, return_lse, kernel, policy, arithmetic, window, deterministic, split)
    is_recorded = _is_recording() and (q.requires_grad or k.requires_grad or v.requires_grad or
                                       sink is not None and sink.requires_grad)
    options = (causal, scale, return_lse, kernel, policy, arithmetic, window, split)
    is_new = not is_recorded and out is None and sink is None
    if is_new and (known := _known.again.get(options)) and (o := known(q, k, v)) is not None:
        return o
    key = (q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype, q.device, k.device,
           v.device, *options)
    if out is not None or sink is not None:
        key += _form(out), _form(sink)
    if is_recorded:
        return _recorded(key, q, k, v, sink, causal, scale, out, return_lse, kernel, policy, arithmetic, window, deterministic, split)
    call = _known.calls.get(key) or _known.learn(
        key, _forward_call(q, k, v, causal, scale, out, return_lse, kernel, policy, arithmetic, window, sink, split))
    o = call.forward(q, k, v, out, sink)
    if out is not None:
        _written(out)
    if is_new:
        _known.learn_again(options, call, q, k, v)
    return o


# ---- gradients


class _Recorded:
    """What a thread knows of a call that is recorded: its forward call, and what its backward takes."""
    __slots__ = ("call", "made", "causal", "scale", "window", "has_lse")


def _recorded(key, q, k, v, sink, causal, scale, out, return_lse, kernel, policy, arithmetic, window, deterministic, split):
    if out is not None:
        raise ValueError("out cannot be given where gradients are recorded: leave it out, or call under torch.no_grad()")
    key = key, _is_deterministic() if deterministic is None else deterministic
    known = _known.calls.get(key)
    if known is None:  # whose lse is returned may have a gradient for it
        text = family_text(q, k, v, causal, arithmetic, window, sink, "bwd", key[1], dlse=return_lse)
        _check_inputs(q, k, v, sink)
        known = _Recorded()
        known.causal, known.scale, known.window, known.has_lse = causal, scale, window, return_lse
        try:
            sizes = _sizes(q, k, v, causal, window)  # now, so that what cannot be had is an error of this call
            known.made = plan(text, q.device, None, policy, aligned=_is_aligned(q, k, v), sizes=sizes)
        except Error as e:
            raise Error(e.status, f"this call has no gradients (call under torch.no_grad() if none are wanted): {e}") from e
        known.call = _forward_call(q, k, v, causal, scale, None, True, kernel, policy, arithmetic, window, sink, split)
        _known.learn(key, known)
    return _Attention.apply(q, k, v, sink, known)


class _Attention(torch.autograd.Function):
    """attention, and its gradients by a plan, which takes one of lse where that is returned."""

    @staticmethod
    def forward(ctx, q, k, v, sink, known):
        out, lse = known.call.forward(q, k, v, None, sink)
        ctx.save_for_backward(q, k, v, out, lse, sink)
        ctx.set_materialize_grads(False)
        ctx.known = known
        return (out, lse) if known.has_lse else out

    @staticmethod
    def backward(ctx, dO, dLSE=None):
        if dO is None and dLSE is None:
            return (None,) * 5
        saved = ctx.saved_tensors  # once: a checkpoint makes them anew for the first who asks
        if not _is_recording():
            return _gradients(ctx, saved, dO, dLSE)
        with torch.no_grad():
            gradients = _gradients(ctx, saved, dO, dLSE)
        return _Last.apply(len(gradients), dO, dLSE, *saved, *gradients)


class _Last(torch.autograd.Function):
    """Gradients that are the last: an error where the next are asked for. PyTorch's own once_differentiable would give
    them as constants where the output's gradient is one."""

    @staticmethod
    def forward(ctx, count, *given):
        return given[-count:]

    @staticmethod
    def backward(ctx, *_):
        raise Error(UNSUPPORTED, "a second derivative of attention is asked for, and fatune has none to give")


def _gradient_of(tensor):
    """Room for it, with the strides of the tensor where it is dense."""
    like = _empty_like(tensor)
    return like if like.stride(3) == 1 or like.shape[3] == 1 else tensor.new_empty(tensor.shape)


def _learn_backward(key, made, given, causal, scale, window, gradients):
    q, k, v = given[:3]
    rooms = gradients or tuple(_gradient_of(t) for t in (q, k, v))
    call = _known.learn(key, _Call(made, _sizes(q, k, v, causal, window), scale,
                                   dict(zip(_FORWARD + _BACKWARD + ("dLSE",), (*given[:6], *rooms, *given[6:])))))
    # Where _empty_like makes other room than that, something of which it makes the same.
    call.out = tuple(None if _empty_like(t).stride() == room.stride() else _pattern(t, t.shape, t.dtype)
                     for t, room in zip((q, k, v), rooms))
    return call


def backward(made, q, k, v, out, lse, dO, causal=False, scale=None, window=(ALL, ALL), gradients=None, dLSE=None):
    """dq, dk, dv of a forward call by the plan `made` of its family's backward, which takes `dLSE` where it has `dlse`; into
    `gradients` where three tensors are given."""
    if dO.stride(3) != 1 and dO.shape[3] > 1:  # of a sum, say: one number for all
        dO = dO.contiguous()
    given = (q, k, v, out, lse, dO) if dLSE is None else (q, k, v, out, lse, dO, dLSE.contiguous())
    key = (made, causal, scale, window, q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), out.stride(), lse.stride(),
           dO.stride(), gradients and tuple(t.stride() for t in gradients))
    call = _known.calls.get(key) or _learn_backward(key, made, given, causal, scale, window, gradients)
    if gradients is None:
        like_q, like_k, like_v = call.out
        gradients = (_empty_like(q if like_q is None else like_q), _empty_like(k if like_k is None else like_k),
                     _empty_like(v if like_v is None else like_v))
    call.run((*given[:6], *gradients, *given[6:]))
    return gradients


def _gradients(ctx, saved, dO, dLSE):
    """Those of all that _Attention takes; None where none is needed. What did not count has a gradient of zeros."""
    q, k, v, out, lse, sink = saved
    known = ctx.known
    of_q, of_k, of_v, of_sink, _ = ctx.needs_input_grad
    dq = dk = dv = dsink = None
    if dO is None:
        dO = torch.zeros_like(out)
    if known.has_lse and dLSE is None:
        dLSE = torch.zeros_like(lse)
    if of_sink:
        dsink = _sink_gradient(out, lse, dO, sink, dLSE)
    if of_q or of_k or of_v:
        dq, dk, dv = backward(known.made, q, k, v, out, lse, dO, known.causal, known.scale, known.window, dLSE=dLSE)
    return dq if of_q else None, dk if of_k else None, dv if of_v else None, dsink, None


def _sink_gradient(out, lse, dO, sink, dLSE=None):
    """A sink has the weight exp(sink - LSE) in each row of its head, and the value 0: dS = weight (0 - D), where
    D = rowsum(dO O) - dLSE."""
    weight = torch.exp(sink[None, :, None] - lse)  # 0 where there is no sink, and no key either: -inf - inf
    D = (dO.float() * out.float()).sum(3)
    return -(weight * (D if dLSE is None else D - dLSE)).sum((0, 2))


from . import features  # noqa: E402 -- it uses what stands above, as does ops

if hasattr(torch, "library"):
    from . import ops  # noqa: E402
