"""fatune.py -- attention on torch tensors through libfatune, by ctypes.

    import fatune
    o = fatune.attention(q, k, v, causal=True)            # [b, h, n, d], as PyTorch's SDPA takes them
    o, lse = fatune.attention(q, k, v, return_lse=True)
    call = fatune.prepare(q, k, v, causal=True)           # the same in two steps: checks and plan now,
    o = call()                                            # and each call only queues the work

Forward only: no gradient flows through it. Work is queued on torch's current stream; strides are taken as they
are, so views need no copy. The library is libfatune.so.0 where the linker finds it, or the file that
FATUNE_LIBRARY names. What is stored in the tuning database serves; by default a problem that nothing stored
serves has its kernel compiled once, now.
"""

import ctypes
import math
import os

import torch

FALLBACK, FAIL, COMPILE = 0, 1, 2  # fatune_policy
NO_CONTEXT = 8  # fatune_status: this thread has not used the GPU yet


class Error(RuntimeError):
    """A call of libfatune failed; `status` is its fatune_status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class _Request(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("problem", ctypes.c_char_p), ("kernel", ctypes.c_char_p),
                ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("stride", ctypes.c_int64 * 3)]


class _Tensors(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.POINTER(_Tensor)) for name in ("Q", "K", "V", "O", "LSE")] + [
        ("scale", ctypes.c_float), ("reserved", ctypes.c_uint32)]


_lib = ctypes.CDLL(os.environ.get("FATUNE_LIBRARY", "libfatune.so.0"))
for _name in ("fatune_status_text", "fatune_detail", "fatune_version", "fatune_describe"):
    getattr(_lib, _name).restype = ctypes.c_char_p
_lib.fatune_open.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
_lib.fatune_plan_make.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Request), ctypes.POINTER(ctypes.c_void_p)]
_lib.fatune_workspace.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
_lib.fatune_describe.argtypes = [ctypes.c_void_p]
_lib.fatune_why.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Request), ctypes.c_char_p, ctypes.c_size_t]
_lib.fatune_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Tensors), ctypes.c_void_p, ctypes.c_void_p]

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
ALIGNED = 1  # a flag of fatune_request
_handle = None
_plans = {}  # (device, problem, kernel, policy, flags) -> (plan, bytes of workspace); kept until the process ends


def _check(status):
    if status != 0:
        raise Error(status, f"{_lib.fatune_status_text(status).decode()}: {_lib.fatune_detail().decode()}")


def _open():
    global _handle
    if _handle is None:
        handle = ctypes.c_void_p()
        _check(_lib.fatune_open(None, ctypes.byref(handle)))
        _handle = handle
    return _handle


def version():
    return _lib.fatune_version().decode()


def problem_text(q, k, v, causal=False, arithmetic=None):
    """The canonical text of a forward call: `fwd-f32-b2-h16k4-q4096-k4096-d128-causal`. `arithmetic`: how float32
    tensors are multiplied, "f32" (the default), "tf32" or "f32x3" (three products of TF32, nearly as exact as f32)."""
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4:
        raise ValueError(f"q, k, v have {q.dim()}, {k.dim()}, {v.dim()} dimensions: 4 are needed, [b, h, n, d]")
    b, h, n, d = q.shape
    hk, nk, dv = k.shape[1], k.shape[2], v.shape[3]
    if tuple(k.shape) != (b, hk, nk, d) or tuple(v.shape) != (b, hk, nk, dv):
        raise ValueError(f"shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)} do not fit together")
    if q.dtype not in _DTYPES or k.dtype != q.dtype or v.dtype != q.dtype:
        raise ValueError(f"dtypes {q.dtype}, {k.dtype}, {v.dtype}: one of {list(_DTYPES.values())} for all is needed")
    dtype = arithmetic or _DTYPES[q.dtype]
    if dtype != _DTYPES[q.dtype] and (q.dtype != torch.float32 or dtype not in ("tf32", "f32x3")):
        raise ValueError(f"arithmetic {arithmetic} of {q.dtype} tensors: there are tf32 and f32x3, both of float32")
    heads = f"h{h}" if hk == h else f"h{h}k{hk}"
    dims = f"d{d}" if dv == d else f"d{d}v{dv}"
    return f"fwd-{dtype}-b{b}-{heads}-q{n}-k{nk}-{dims}" + ("-causal" if causal else "")


def plan(problem, device=None, kernel=None, policy=COMPILE, aligned=False):
    """The plan of a problem on a device, and the bytes of workspace it needs. `aligned`: no tensor will ever begin
    a row elsewhere than at a multiple of 16 bytes, so no second kernel for such is wanted."""
    device = torch.cuda.current_device() if device is None else torch.device(device).index or 0
    key = (device, problem, kernel, policy, ALIGNED if aligned else 0)
    if key not in _plans:
        request = _Request(ctypes.sizeof(_Request), problem.encode(), kernel and kernel.encode(), policy, key[4])
        made, size = ctypes.c_void_p(), ctypes.c_size_t()
        with torch.cuda.device(device):
            status = _lib.fatune_plan_make(_open(), ctypes.byref(request), ctypes.byref(made))
            if status == NO_CONTEXT:
                torch.cuda.current_stream().synchronize()  # makes the device's context current
                status = _lib.fatune_plan_make(_open(), ctypes.byref(request), ctypes.byref(made))
        _check(status)
        _check(_lib.fatune_workspace(made, ctypes.byref(size)))
        _plans[key] = made, size.value
    return _plans[key]


def describe(problem, device=None, kernel=None, policy=COMPILE, aligned=False):
    """What serves a problem and why, as lines of `name value`."""
    return _lib.fatune_describe(plan(problem, device, kernel, policy, aligned)[0]).decode()


def _rows(tensor):
    """A tensor of rows whose elements are contiguous, as the library takes it."""
    strides = tensor.stride()
    if tensor.dim() == 4 and tensor.shape[3] > 1 and strides[3] != 1:
        raise ValueError(f"strides {strides}: the last must be 1; call .contiguous()")
    return _Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(*strides[:3]))


def prepare(q, k, v, causal=False, scale=None, out=None, lse=None, kernel=None, policy=COMPILE, aligned=False,
            arithmetic=None):
    """A function that queues this very call on torch's current stream, as often as wanted, and returns `out`.
    The log-sum-exps of the rows go to `lse` where one is given. Not to be queued on two streams at once: its calls
    share a workspace."""
    problem = problem_text(q, k, v, causal, arithmetic)
    if not (q.is_cuda and k.device == q.device and v.device == q.device):
        raise ValueError(f"devices {q.device}, {k.device}, {v.device}: one GPU for all is needed")
    if out is None:
        out = torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype, device=q.device)
    elif tuple(out.shape) != (*q.shape[:3], v.shape[3]) or out.dtype != q.dtype or out.device != q.device:
        raise ValueError(f"out is {tuple(out.shape)} {out.dtype} on {out.device}: it does not fit q and v")
    if lse is not None and (tuple(lse.shape) != tuple(q.shape[:3]) or lse.dtype != torch.float32
                            or lse.device != q.device or (lse.shape[2] > 1 and lse.stride(2) != 1)):
        raise ValueError(f"lse is {tuple(lse.shape)} {lse.dtype} on {lse.device}: it does not fit q")
    Q, K, V, O = _rows(q), _rows(k), _rows(v), _rows(out)
    made, size = plan(problem, q.device, kernel, policy, aligned)
    workspace = torch.empty(size, dtype=torch.uint8, device=q.device) if size else None
    tensors = _Tensors(ctypes.sizeof(_Tensors), ctypes.pointer(Q), ctypes.pointer(K), ctypes.pointer(V), ctypes.pointer(O),
                       ctypes.pointer(_rows(lse)) if lse is not None else None,
                       1 / math.sqrt(q.shape[3]) if scale is None else scale, 0)
    held = (q, k, v, out, lse, workspace)  # their memory is in `tensors`

    def call():
        with torch.cuda.device(q.device):
            stream = torch.cuda.current_stream().cuda_stream
            _check(_lib.fatune_run(made, ctypes.byref(tensors), held[5].data_ptr() if size else None, stream))
        return held[3]
    return call


def attention(q, k, v, causal=False, scale=None, out=None, return_lse=False, kernel=None, policy=COMPILE,
              arithmetic=None):
    """softmax(scale q k^T + mask) v for [b, h, n, d] tensors on one GPU; k and v may have fewer heads."""
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) if return_lse else None
    out = prepare(q, k, v, causal, scale, out, lse, kernel, policy, arithmetic=arithmetic)()
    return (out, lse) if return_lse else out
