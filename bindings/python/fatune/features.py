"""features.py -- calls with more than a causal mask, a window or a sink. fatune.attention comes here where one of these is given,
and takes any of them together; calls without them stay as short as they were.

    o = fatune.attention(q, k, v, causal=True, cu_seqlens=(cu, cu), max_seqlens=(n, n))   # q, k, v: [total, h, d]
    o = fatune.attention(q, k, v, used=(None, lengths))           # of [b, hk, n, d] the first so many keys
    o = fatune.attention(q, k, v, left_pad=counts)                # [b]: so many rows of k and v ahead of the first key
    o = fatune.attention(q, k, v, causal=True, prefix=prefix)     # [b]: keys that all rows see
    o = fatune.attention(q, k, v, intervals=(lo, hi))             # [b or 1, h or 1, n]: row i sees [lo, hi)
    o = fatune.attention(q, k, v, chunk=8192)                     # a row sees the keys of its chunk; forward alone
    o = fatune.attention(q, k, v, causal=True, top_left=True)     # row i sees the keys up to i
    o = fatune.attention(q, k, v, mask=seen)                      # bool or uint8, [b or 1, h or 1, n or 1, keys or 1]
    o = fatune.attention(q, k, v, block_mask=there, block=(128, 128))  # bool or uint8, [b or 1, h or 1, n / 128, keys / 128]
    o = fatune.attention(q, k, v, bias=bias)                      # of q's type or float32, the same shapes; it has a gradient
    o = fatune.attention(q, k, v, softcap=50.0, slopes=slopes)    # slopes: [h] or [b, h], float32
    o = fatune.attention(q, k, v, dropout=0.1, rng=rng)           # rng: two int64, seed and offset
    o = fatune.attention(q, k, v, mod="s + table0[h] * (j - i)", tables=[slopes])      # what a score becomes: docs/mods.md
    o = fatune.attention(q, k, v, mask_mod="itable0[i] == itable0[j]", tables=[of])    # which pairs stay

Lengths are tensors of int32 on the GPU, read when the kernel runs; masks that are given together all hold. Rows and keys that no
batch has are neither read nor written: results hold 0 there, but behind the last batch of ragged tensors anything (flash-attn's zero_tensors
clears that). The diagonal of a window ends at the bottom right, with top_left, too. What no kernel serves together is an error of the call."""

import ctypes
import re
import typing

import torch

from . import tensors
from .abi import ALL, BACKWARD, COMPILE, FORWARD, UNSUPPORTED, Error, Sizes, Tensor

_BACKWARD = FORWARD + BACKWARD + ("dLSE", "dbias")
_PAIRS = {"cu_seqlens": "(of q, of k)", "used": "(of q, of k), None for one that has none", "intervals": "(lo, hi)"}
_PLAIN = frozenset((type(None), bool, int, float, str))  # numbers and words
_INT32, _INT64, _BYTES = torch.int32, torch.int64, tuple(t for t in (getattr(torch, "bool", None), torch.uint8) if t)


class Options(typing.NamedTuple):
    """What attention takes beside q, k and v."""
    causal: bool = False
    scale: typing.Optional[float] = None
    window: tuple = (ALL, ALL)
    arithmetic: typing.Optional[str] = None
    kernel: typing.Optional[str] = None
    policy: int = COMPILE
    split: int = 0
    sink: typing.Any = None
    softcap: float = 0.0
    slopes: typing.Any = None
    dropout: float = 0.0
    rng: typing.Any = None
    top_left: bool = False
    chunk: int = 0
    cu_seqlens: typing.Any = None
    max_seqlens: typing.Any = None
    used: typing.Any = None
    left_pad: typing.Any = None
    prefix: typing.Any = None
    intervals: typing.Any = None
    mask: typing.Any = None
    bias: typing.Any = None
    mod: typing.Optional[str] = None
    mask_mod: typing.Optional[str] = None
    tables: typing.Sequence = ()
    block_mask: typing.Any = None
    block: typing.Any = None


# Arguments that are tensors: the library's names of them, their dimensions, their types (None: q's own, or float32). Dimensions: b batches,
# e one more, h heads, n rows and k keys, I and J blocks of them (and B batches, 1 of ragged ones); a letter behind `|` may be 1 instead, one in
# brackets be missing; `2` numbers of a call.
_TENSORS = {
    "sink": (("sink",), "h", (torch.float32,)),
    "slopes": (("slopes",), "(b)h", (torch.float32,)),
    "rng": (("rng",), "2", (_INT64,)),
    "used": (("used_q", "used_k"), "b", (_INT32,)),
    "left_pad": (("lpad",), "b", (_INT32,)),
    "prefix": (("prefix",), "b", (_INT32,)),
    "cu_seqlens": (("cu_q", "cu_k"), "e", (_INT32,)),
    "intervals": (("lo", "hi"), "|B|hn", (_INT32,)),
    "mask": (("attend",), "|B|h|n|k", _BYTES),
    "bias": (("bias",), "|B|h|n|k", None),
    "block_mask": (("blocks",), "|b|hIJ", _BYTES),
}


# The same by the library's names, and what errors call them.
_FORM_OF = {name: (word if len(names) == 1 else name, form, types) for word, (names, form, types) in _TENSORS.items() for name in names}
_FORMS = {name: "".join(c for c in form if c not in "|()") for names, form, _ in _TENSORS.values() for name in names}
_FORMS["dbias"] = _FORMS["bias"]
_STRIDES = {"b": 0, "e": 0, "B": 0, "h": 1, "n": 2, "I": 2}


def _form(form, sizes):
    """[(letter, size, whether it may be 1)] of a tensor's dimensions."""
    return [(c, sizes.get(c, 2), form[i - 1:i] == "|") for i, c in enumerate(form) if c not in "|()"]


def _given(o):
    """The tensors among options, by the library's names."""
    of = {f"table{n}": table for n, table in enumerate(o.tables)}
    for word, (names, _, _) in _TENSORS.items():
        given = getattr(o, word)
        if given is not None:
            of.update((name, one) for name, one in zip(names, given if len(names) > 1 else (given,)) if one is not None)
    return of


def _kind(name, x):
    """What of an option decides a call: of a tensor all but its address and its numbers."""
    if isinstance(x, torch.Tensor):
        if name not in _TENSORS and name != "tables":
            raise ValueError(f"{name} is a tensor: a number is needed")
        return x.shape, x.stride(), x.dtype, x.device, x.requires_grad
    return tuple(_kind(name, one) for one in x) if isinstance(x, (tuple, list)) else x


def _with_numbers(o):
    """Numbers that came as tensors are read: what a thread knows of a call has no tensor's numbers."""
    if o.scale.__class__ not in _PLAIN or o.softcap.__class__ not in _PLAIN or o.dropout.__class__ not in _PLAIN:
        o = o._replace(**{name: tensors._number(name, getattr(o, name)) for name in ("scale", "softcap", "dropout")})
    if o.max_seqlens is None:
        return o
    if not hasattr(o.max_seqlens, "__len__") or getattr(o.max_seqlens, "shape", (2,)) != (2,) or len(o.max_seqlens) != 2:
        raise ValueError("max_seqlens is a pair of numbers: the longest batch of q, that of k")
    if all(n.__class__ is int for n in o.max_seqlens):
        return o
    return o._replace(max_seqlens=tuple(tensors._number("max_seqlens", n) for n in o.max_seqlens))


def _refuse_gradients(o):
    """No gradient is lost in silence: of options a sink and a bias have one."""
    for name, t in _given(o).items():
        if t.requires_grad and name not in ("sink", "bias"):
            shown = f"tables[{name[len('table'):]}]" if name.startswith("table") else _FORM_OF[name][0]
            raise Error(UNSUPPORTED, f"{shown} requires a gradient, and fatune gives none to it: detach it, or add a bias")


class _Asked:
    """What a call's options are to the library: words, sizes, the names of tensors. It depends on numbers and on the forms of tensors
    alone, and holds none: a thread makes it once (_asked)."""

    def __init__(self, q, k, v, options):
        o = options
        for name in ("cu_seqlens", "used", "intervals"):
            pair = getattr(o, name)
            if pair is not None and (isinstance(pair, torch.Tensor) or len(pair) != 2):
                raise ValueError(f"{name} is a pair of tensors, {_PAIRS[name]}")
        ragged = self.ragged = o.cu_seqlens is not None
        if q.dim() != (3 if ragged else 4) or k.dim() != q.dim() or v.dim() != q.dim():
            raise ValueError("q, k, v are [b, h, n, d], or with cu_seqlens [total, h, d]")
        if ragged and o.max_seqlens is None:
            raise ValueError("cu_seqlens needs max_seqlens: the longest batch of q, that of k")
        if o.max_seqlens is not None and not ragged:
            raise ValueError("max_seqlens goes with cu_seqlens, which is not given")
        if o.top_left and not o.causal:
            raise ValueError("top_left says where the diagonal of a causal mask begins: give causal=True")
        if not 0 <= o.dropout < 1:
            raise ValueError(f"dropout is {o.dropout}: a part of weights from 0 to below 1 is needed")
        if o.softcap < 0:
            raise ValueError(f"softcap is {o.softcap}: a number above 0 is needed, or 0 for none")
        if ragged and (k.shape[:2] != v.shape[:2] or k.shape[2] != q.shape[2] or q.shape[1] > 0 and k.shape[1] == 0):
            raise ValueError(f"shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)} do not fit together")
        (tensors._checked_types if ragged else tensors._checked)(q, k, v, o.arithmetic)
        b = o.cu_seqlens[0].shape[0] - 1 if ragged else q.shape[0]
        rows, keys = o.max_seqlens if ragged else (q.shape[2], k.shape[2])
        block = tuple(o.block or (0, 0))
        if (o.block_mask is None) != (o.block is None) or o.block and (len(block) != 2 or min(block) < 1):
            raise ValueError("block_mask and block go together: block=(rows, keys) of a block, both above 0")
        self.draws = (b, q.shape[1]) if o.dropout and o.rng is None else None  # whose numbers PyTorch's generator gives
        self.kernel, self.policy, self.split, self.scale = o.kernel, o.policy, o.split, o.scale
        self.softcap, self.dropout, self.mod, self.mask_mod = o.softcap, o.dropout, o.mod, o.mask_mod
        is_used = o.used is not None and any(one is not None for one in o.used)
        self.partly = is_used or o.left_pad is not None  # whether tensors have rows that no batch has
        causal, left, right = (True, *o.window) if o.top_left else tensors._mask(o.causal, o.window)
        windowed = left != ALL or (right != ALL and (o.top_left or right > 0))
        d, dv = q.shape[-1], v.shape[-1]
        self.types = f"{o.arithmetic or tensors._DTYPES[q.dtype]}-d{d}" + ("" if d == dv else f"v{dv}")
        words = (("causaltl" if o.top_left else "causal", causal), ("w", windowed), ("chunk", o.chunk), ("varlen", ragged),
                 ("used", is_used), ("prefix", o.prefix is not None), ("iv", o.intervals), ("lpad", o.left_pad is not None),
                 ("bs", o.block_mask is not None), ("mask", o.mask is not None), ("bias", o.bias is not None), ("bias32", o.bias is not None and o.bias.dtype != q.dtype),
                 ("alibi", o.slopes is not None), ("softcap", o.softcap))
        self.words = tuple((word, bool(there)) for word, there in words)
        self.has_sink = o.sink is not None
        total = (q.shape[0], k.shape[0]) if ragged else (0, 0)
        self.sizes = Sizes(ctypes.sizeof(Sizes), b, q.shape[1], k.shape[1], rows, keys, *total, left if windowed else 0,
                           right if windowed else 0, o.chunk, 0, *block)
        self.shape = {"b": b, "e": b + 1, "B": 1 if ragged else b, "h": q.shape[1], "n": q.shape[0] if ragged else rows, "k": keys,
                      "I": -(-rows // max(block[0], 1)), "J": -(-keys // max(block[1], 1))}
        self.plans = {}
        given, found = _given(o), self.checked_tensors(o, q)
        self.is_direct = all(found[name] is one for name, one in given.items())  # none has to be copied
        tensors._check_inputs(q, k, v, None)

    def tensors(self, o, q):
        """The tensors among a call's options, by name, as kernels take them."""
        of = _given(o) if self.is_direct else self.checked_tensors(o, q)
        if self.draws:
            of["rng"] = drawn_for(q.device, q.get_device(), *self.draws)
        return of

    def checked_tensors(self, o, q):
        of = {}
        for name, one in _given(o).items():
            if name.startswith("table"):
                of[name] = self.table(int(name[len("table"):]), one, q)
            else:
                shown, form, types = _FORM_OF[name]
                of[name] = self.checked(shown, one, _form(form, self.shape), types or dict.fromkeys((q.dtype, torch.float32)), q)
        return of

    def table(self, n, table, q):
        """A table that expressions read, of the type that they read it as."""
        wanted = _INT32 if re.search(rf"\bitable{n}\b", f"{self.mod or ''} {self.mask_mod or ''}") else torch.float32
        if table.dtype != wanted or table.dim() not in (1, 2) or not table.numel() or table.device != q.device:
            raise ValueError(f"tables[{n}] is {tuple(table.shape)} {table.dtype} on {table.device}: one or two dimensions of "
                             f"{wanted} on q's device are needed (table{n} is of float32, itable{n} of int32)")
        return table.detach().contiguous() if table.requires_grad else table.contiguous()

    @staticmethod
    def checked(name, one, form, types, q):
        shape = tuple(one.shape)
        fits = len(shape) == len(form) or len(shape) == len(form) - 1 and form[0][0] == "b" and len(form) > 1
        fits = fits and all(n == size or loose and n == 1 for n, (_, size, loose) in zip(shape, form[-len(shape):]))
        if not fits or one.dtype not in types or one.device != q.device:
            wanted = ", ".join(f"{size} or 1" if loose else str(size) for _, size, loose in form)
            if form[0][0] == "b" and len(form) > 1:  # which may be missing
                wanted += f"] or [{form[1][1]}"
            raise ValueError(f"{name} is {shape} {one.dtype} on {one.device}: [{wanted}] numbers of "
                             f"{' or '.join(str(t).replace('torch.', '') for t in types)} on q's device are needed")
        if form[-1][0] == "2":
            return one.contiguous()
        if form[-1][0] == "J" and one.stride(len(shape) - 1) != 1:
            return one.contiguous()
        if form[-1][0] == "k" and (shape[3] != form[3][1] or shape[3] > 1 and one.stride(3) != 1):
            return one.expand((*shape[:3], form[3][1])).contiguous()  # keys lie side by side
        return one

    def family(self, op, dlse=False, deterministic=False, dbias=False):
        more = (("sink", self.has_sink and op == "fwd"), ("drop", self.dropout), ("dbias", dbias), ("dlse", dlse),
                ("det", deterministic), ("split", self.split and op == "fwd"))
        return f"{op}-{self.types}" + "".join(f"-{word}" for word, there in self.words + more if there)

    def place(self, name, tensor):
        """A tensor as the library takes it. Strides of dimensions of one element are 0: all share it."""
        if name.startswith("table"):  # packed; its strides are its size
            return Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(tensor.numel(), 0, tensor.shape[-1]))
        whole = ("nhd", "hn") if self.ragged else ("bhnd", "bhn")
        form = _FORMS.get(name) or whole[name in ("LSE", "dLSE")]
        strides = [0, 0, 0]
        for letter, size, stride in zip(form[-tensor.dim():], tensor.shape, tensor.stride()):
            if letter in _STRIDES and size > 1:
                strides[_STRIDES[letter]] = stride
        if form[-1] in "ndkJ" and tensor.shape[-1] > 1 and tensor.stride(tensor.dim() - 1) != 1 and 0 not in tensor.shape:
            raise ValueError(f"the last stride of {name} must be 1; call .contiguous()")
        return Tensor(tensor.data_ptr(), (ctypes.c_int64 * 3)(*strides))

    def plan(self, op, q, *words):
        """That of one of its families; `words`: whether dlse, det, dbias are among its words."""
        made = self.plans.get((op, *words))
        if made is None:
            made = self.plans[(op, *words)] = tensors.plan(
                self.family(op, *words), q.device, self.kernel if op == "fwd" else None, self.policy, mod=self.mod,
                mask_mod=self.mask_mod, aligned=tensors._is_aligned(q), sizes=self.sizes_of(op))
        return made

    def sizes_of(self, op):
        sizes = Sizes.from_buffer_copy(self.sizes)
        sizes.split = self.split if op == "fwd" else 0
        return sizes

    def queue(self, made, names, given, of, form):
        """Queues a call of a plan with the tensors `given`, whose `names` are these, and `of`, the options'. `form`: what neither these nor
        the inputs decide of them."""
        there = [t for t in (*given, *of.values()) if t is not None]
        key = (self, made, form)
        call = tensors._known.calls.get(key)
        if call is None:
            sizes = self.sizes_of("fwd" if names is FORWARD else "bwd")
            named = dict(zip((n for n, t in zip((*names, *of), (*given, *of.values())) if t is not None), there))
            call = tensors._Call(made, sizes, self.scale, named, place=self.place)
            call.image.tensors.softcap, call.image.tensors.dropout = self.softcap, self.dropout
            tensors._known.learn(key, call)
        call.run(there)

    def room(self, like, shape=None, dtype=None):
        return room(like, shape, dtype, self.partly)

    def forward(self, q, k, v, out, return_lse, of):
        is_given = out is not None
        if not is_given:
            out = self.room(q, None if v.shape[-1] == q.shape[-1] else (*q.shape[:-1], v.shape[-1]))
        lse = self.room(q, (q.shape[1], q.shape[0]) if self.ragged else tuple(q.shape[:3]), torch.float32) if return_lse else None
        if is_given and self.ragged:
            if tuple(out.shape) != (*q.shape[:2], v.shape[2]) or out.dtype != q.dtype or out.device != q.device:
                raise ValueError(f"out is {tuple(out.shape)} {out.dtype} on {out.device}: it does not fit q and v")
        elif is_given:
            tensors._check_outputs(q, v, out, lse)
        self.queue(self.plan("fwd", q), FORWARD, (q, k, v, out, lse), of, (out.stride(), return_lse))
        return out, lse

    def backward(self, made, q, k, v, out, lse, dO, of, dLSE=None, gradients=None, dbias=None):
        dO = dO if dO.stride(dO.dim() - 1) == 1 else dO.contiguous()
        gradients = gradients or tuple(self.room(t) for t in (q, k, v))
        of = {name: tensor for name, tensor in of.items() if name != "sink"}  # LSE has it
        given = (q, k, v, out, lse, dO, *gradients, dLSE, dbias)
        # Of what was saved, too: a hook may bring it back laid out otherwise.
        self.queue(made, _BACKWARD, given, of, tuple(t if t is None else t.stride() for t in (*given, *of.values())))
        return gradients


def room(like, shape=None, dtype=None, partly=False):
    """Room for a result: with the strides of `like` where it has its shape; of which rows that no batch has are `partly` left: zeros."""
    if shape is not None or partly:
        make = torch.zeros if partly else torch.empty
        return make(tuple(like.shape) if shape is None else shape, dtype=dtype or like.dtype, device=like.device)
    made = torch.empty_like(like)
    return made if made.stride(made.dim() - 1) == 1 else like.new_empty(like.shape)


def _asked(q, k, v, o):
    """(what this thread knows of such a call, the tensors among its options)."""
    if o.rng is not None and not o.dropout:
        o = o._replace(rng=None)
    key = (q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), q.dtype, k.dtype, v.dtype, q.device, k.device, v.device,
           *[x if x.__class__ in _PLAIN else _kind(name, x) for name, x in zip(Options._fields, o)])
    asked = tensors._known.calls.get(key) or tensors._known.learn(key, _Asked(q, k, v, o))
    return asked, asked.tensors(o, q)


def drawn_for(device, number, b, h):
    """Seed and offset of PyTorch's generator of a device, which goes on as flash-attn lets it. While a graph is captured the generator's
    state is not to be read: the graph has a kernel that draws two numbers from it, other ones in each replay."""
    if torch.cuda.is_current_stream_capturing():
        return torch.empty(2, dtype=_INT64, device=device).random_()
    generator = torch.cuda.default_generators[number]
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + b * h * 32)
    base, step = _seeds.get((device, seed)) or _seeded(device, seed)
    return torch.add(base, step, alpha=offset)  # a launch: a copy from the host would wait for the GPU


_seeds = {}  # a device's [seed, 0] and [0, 1]: those of its generator's last seed


def _seeded(device, seed):
    for other in [key for key in _seeds if key[0] == device]:
        del _seeds[other]
    _seeds[device, seed] = tuple(torch.tensor(pair, dtype=_INT64, device=device) for pair in ((seed - (seed >> 63 << 64), 0), (0, 1)))
    return _seeds[device, seed]


def attention(q, k, v, out, return_lse, deterministic, o):
    o = _with_numbers(o)
    if tensors._is_recording():
        _refuse_gradients(o)
    if tensors._is_compiling():
        return tensors.ops.traced_with(q, k, v, out, return_lse, deterministic, o)
    asked, of = _asked(q, k, v, o)
    if not (tensors._is_recording() and any(t is not None and t.requires_grad for t in (q, k, v, o.sink, o.bias))):
        both = asked.forward(q, k, v, out, return_lse, of)
        if out is not None:
            tensors._written(out)
        return both if return_lse else both[0]
    if out is not None:
        raise ValueError("out cannot be given where gradients are recorded: leave it out, or call under torch.no_grad()")
    if deterministic is None:
        deterministic = tensors._is_deterministic()
    try:
        made = asked.plan("bwd", q, return_lse, deterministic, o.bias is not None and o.bias.requires_grad)
    except Error as e:
        raise Error(e.status, f"this call has no gradients (call under torch.no_grad() if none are wanted): {e}") from e
    both = _Attention.apply(q, k, v, o.sink, o.bias, asked, of, made, return_lse, deterministic)
    return both if return_lse else both[0]


def backward(dO, q, k, v, out, lse, gradients=None, deterministic=False, dLSE=None, dbias=None, **options):
    """dq, dk, dv of a call of attention with these options, from what it returned; into `gradients` where three tensors are
    given, and the bias's into `dbias`, float32 of its shape, where that is. Nothing is recorded."""
    asked, of = _asked(q, k, v, _with_numbers(Options(**options)))
    made = asked.plan("bwd", q, dLSE is not None, deterministic, dbias is not None)
    found = asked.backward(made, q, k, v, out, lse, dO, of, dLSE, gradients, dbias)
    tensors._written(*(gradients or ()), *(() if dbias is None else (dbias,)))
    return found


class _Attention(torch.autograd.Function):
    """attention, and its gradients by the plan `made`, which takes one of lse where `has_lse`: dropout draws the same bits again."""

    @staticmethod
    def forward(ctx, q, k, v, sink, bias, asked, of, made, has_lse, deterministic):
        out, lse = asked.forward(q, k, v, None, True, of)
        ctx.save_for_backward(q, k, v, sink, bias, out, lse, *of.values())
        ctx.set_materialize_grads(False)
        ctx.asked, ctx.names, ctx.made, ctx.has_lse, ctx.deterministic = asked, tuple(of), made, has_lse, deterministic
        return out, lse

    @staticmethod
    def backward(ctx, dO, dLSE):
        if dO is None and dLSE is None:
            return (None,) * 10
        saved = ctx.saved_tensors  # once: a checkpoint makes them anew for the first who asks
        *given, out, lse = saved[:7]
        if ctx.has_lse and dLSE is None:
            dLSE = torch.zeros_like(lse)
        asked = (ctx.asked, ctx.made, dict(zip(ctx.names, saved[7:])), given, out, lse, dO, dLSE if ctx.has_lse else None,
                 ctx.deterministic, ctx.needs_input_grad[:5])
        if not tensors._is_recording():
            return (*gradients(*asked), *(None,) * 5)
        with torch.no_grad():
            found = gradients(*asked)
        return (*tensors._Last.apply(len(found), dO, dLSE, *saved, *found), *(None,) * 5)


def gradients(asked, made, of, given, out, lse, dO, dLSE, deterministic, wanted):
    """Those of `given`, q, k, v, a sink and a bias, by the plan `made`; None for which is not `wanted`."""
    q, k, v, sink, bias = given
    found, dbias = [None] * 5, None
    dO = torch.zeros_like(out) if dO is None else dO
    dLSE = None if dLSE is None else dLSE.contiguous()
    if wanted[3]:
        found[3] = _sink_gradient(asked, out, lse, dO, sink, dLSE)
    if any(wanted[:3]) or wanted[4]:
        if wanted[4]:  # sums in any order of what is shared, but where bits are to be equal
            shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2]) if deterministic else of["bias"].shape
            dbias = torch.zeros(tuple(shape), dtype=torch.float32, device=q.device)
        found[:3] = asked.backward(made, q, k, v, out, lse, dO, of, dLSE, None, dbias)
        if wanted[4]:
            shared = [i for i, (n, all_) in enumerate(zip(bias.shape, dbias.shape)) if n != all_]
            found[4] = (dbias.sum(shared, keepdim=True) if shared else dbias).to(bias.dtype)
    return tuple(gradient if is_wanted else None for gradient, is_wanted in zip(found, wanted))


def _sink_gradient(asked, out, lse, dO, sink, dLSE):
    if not asked.ragged:
        return tensors._sink_gradient(out, lse, dO, sink, dLSE)
    one = [t.transpose(0, 1)[None] for t in (out, dO)]  # one batch, heads before rows
    return tensors._sink_gradient(one[0], lse[None], one[1], sink, None if dLSE is None else dLSE[None])


def dropout_mask(rng, dropout, shape):
    """Which weights of [b, h, n, nk] dropout keeps, for a tensor `rng` of seed and offset: the bits of flash-attn, as the kernels draw
    them. Philox4x32 of seven rounds gives 16 bytes for each lane of a tile of 16 rows and 32 keys (generator/drop.h). In plain
    PyTorch, for tests and for looking at them: 3 bytes of memory for each weight."""
    b, h, n, nk = shape
    low = 0xFFFFFFFF

    def at(count, behind):  # 0, 1, ... along a dimension with so many behind it
        return torch.arange(count, device=rng.device).reshape(count, *(1,) * behind)
    rows, keys = -(-n // 16), -(-nk // 32)
    seed, offset = rng[0], rng[1]
    counter = offset + at(b * h, 3) * 32 + at(32, 0)
    x = [t.expand(b * h, rows, keys, 32) for t in (counter & low, counter >> 32 & low, at(rows, 2), at(keys, 1))]
    k0, k1 = seed & low, seed >> 32 & low
    for _ in range(7):
        p, q = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57  # 64 bits, whatever their sign
        x = [(q >> 32 & low) ^ x[1] ^ k0, q & low, (p >> 32 & low) ^ x[3] ^ k1, p & low]
        k0, k1 = k0 + 0x9E3779B9 & low, k1 + 0xBB67AE85 & low
    # byte of a word: row / 8 % 2, key % 2; lane: row % 8, key / 2 % 4; word: key / 8 % 4
    all_ = torch.stack([torch.stack([word >> 8 * byte & 255 for byte in range(4)], -1) for word in x], -2)
    all_ = all_.reshape(b * h, rows, keys, 8, 4, 4, 2, 2).permute(0, 1, 6, 3, 2, 5, 4, 7).reshape(b, h, rows * 16, keys * 32)
    return all_[:, :, :n, :nk] <= int(255.0 * ctypes.c_float(1 - ctypes.c_float(dropout).value).value)  # as in float32
