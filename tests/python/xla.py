"""xla.py -- the handlers of libfatune-xla, called as XLA calls them, with arrays in the fake driver's memory; and, where JAX is,
JAX's own side: registration, lowering for CUDA, shapes of gradients. XLA is a stand-in: this file's functions."""

import ctypes
import importlib.util
import math
import os
import random
import struct


from ctypes import CFUNCTYPE, POINTER, Structure, addressof, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p

cu = ctypes.CDLL(os.environ["FATUNE_LIBCUDA"])
ctypes.CDLL(os.environ["FATUNE_LIBRARY"], ctypes.RTLD_GLOBAL)
xla = ctypes.CDLL(os.environ["FATUNE_XLA"])
F32, S64 = 11, 5


def struct_of(name, *fields):
    return type(name, (Structure,), {"_fields_": [("size", c_size_t), ("extension", c_void_p), *fields]})


Buffer = struct_of("Buffer", ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64)))
Values = struct_of("Values", ("count", c_int64), ("types", POINTER(c_int)), ("at", POINTER(c_void_p)))
Attributes = struct_of("Attributes", ("count", c_int64), ("types", POINTER(c_int)), ("names", POINTER(c_void_p)), ("at", POINTER(c_void_p)))
ErrorCreate = struct_of("ErrorCreate", ("message", c_char_p), ("code", c_int))
StreamGet = struct_of("StreamGet", ("context", c_void_p), ("stream", c_void_p))
Allocate = struct_of("Allocate", ("context", c_void_p), ("bytes", c_size_t), ("alignment", c_size_t), ("data", c_void_p))
Free = struct_of("Free", ("context", c_void_p), ("bytes", c_size_t), ("data", c_void_p))
Version = struct_of("Version", ("major", c_int), ("minor", c_int))
Api = struct_of("Api", ("version", Version), ("internal", c_void_p), ("error_create", c_void_p), ("none1", c_void_p * 3),
                ("stream_get", c_void_p), ("none2", c_void_p * 4), ("allocate", c_void_p), ("free", c_void_p))
Frame = struct_of("Frame", ("api", c_void_p), ("context", c_void_p), ("stage", c_int), ("arguments", Values), ("results", Values),
                  ("attributes", Attributes))


class Text(Structure):
    _fields_ = [("at", c_char_p), ("length", c_size_t)]


class Scalar(Structure):
    _fields_ = [("dtype", c_int), ("value", c_void_p)]


class Metadata(Structure):
    _fields_ = [("size", c_size_t), ("version", Version), ("traits", c_uint32)]


class MetadataExtension(Structure):
    _fields_ = [("size", c_size_t), ("type", c_int), ("next", c_void_p), ("metadata", POINTER(Metadata))]


errors, held, rooms = [], [], []


@CFUNCTYPE(c_void_p, POINTER(ErrorCreate))
def error_create(args):
    errors.append((args[0].code, args[0].message.decode()))
    return len(errors)


@CFUNCTYPE(c_void_p, POINTER(StreamGet))
def stream_get(args):
    args[0].stream = None
    return None


@CFUNCTYPE(c_void_p, POINTER(Allocate))
def allocate(args):
    args[0].data = memory(args[0].bytes)
    rooms.append(args[0].data)
    return None


@CFUNCTYPE(c_void_p, POINTER(Free))
def free(args):
    rooms.remove(args[0].data)
    return None


def memory(size):
    at = ctypes.c_uint64()
    assert cu.cuMemAlloc_v2(byref(at), c_size_t(max(size, 1))) == 0
    return at.value


api = Api(size=ctypes.sizeof(Api), error_create=ctypes.cast(error_create, c_void_p), stream_get=ctypes.cast(stream_get, c_void_p),
          allocate=ctypes.cast(allocate, c_void_p), free=ctypes.cast(free, c_void_p))


class Array:
    def __init__(self, shape, values=None):
        self.shape, self.count = shape, math.prod(shape)
        self.at = memory(4 * self.count)
        self.buffer = Buffer(ctypes.sizeof(Buffer), None, F32, self.at, len(shape), (c_int64 * len(shape))(*shape))
        if values is not None:
            raw = struct.pack(f"{self.count}f", *values)
            assert cu.cuMemcpyHtoD_v2(ctypes.c_uint64(self.at), raw, c_size_t(len(raw))) == 0

    def numbers(self):
        raw = ctypes.create_string_buffer(4 * self.count)
        assert cu.cuMemcpyDtoH_v2(raw, ctypes.c_uint64(self.at), c_size_t(len(raw))) == 0
        return struct.unpack(f"{self.count}f", raw.raw)


def values(arrays):
    n = len(arrays)
    return Values(ctypes.sizeof(Values), None, n, (c_int * n)(*[1] * n), (c_void_p * n)(*(addressof(a.buffer) for a in arrays)))


def call(handler, arguments, results, stage=3, **attributes):
    """The handler's error, or None."""
    names, types, at = [], [], []
    for name, value in attributes.items():
        names.append(Text(name.encode(), len(name)))
        if isinstance(value, str):
            types.append(4)
            at.append(Text(value.encode(), len(value)))
        else:
            cell = ctypes.c_float(value) if isinstance(value, float) else c_int64(value)
            held.append(cell)
            types.append(3)
            at.append(Scalar(F32 if isinstance(value, float) else S64, addressof(cell)))
    n = len(names)
    listed = Attributes(ctypes.sizeof(Attributes), None, n, (c_int * n)(*types), (c_void_p * n)(*map(addressof, names)),
                        (c_void_p * n)(*map(addressof, at)))
    frame = Frame(ctypes.sizeof(Frame), None, addressof(api), None, stage, values(arguments), values(results), listed)
    handler.restype = c_void_p
    before = len(errors)
    result = handler(byref(frame))
    assert (result is None) == (len(errors) == before) and not rooms, (result, errors, rooms)
    return errors[-1] if result else None


context, number = c_void_p(), c_int32()
assert cu.cuInit(0) == 0 and cu.cuDeviceGet(byref(number), 0) == 0
assert cu.cuDevicePrimaryCtxRetain(byref(context), number) == 0 and cu.cuCtxSetCurrent(context) == 0

# The question at registration is answered, and does nothing else.
metadata = Metadata(size=ctypes.sizeof(Metadata))
extension = MetadataExtension(ctypes.sizeof(MetadataExtension), 1, None, ctypes.pointer(metadata))
frame = Frame(size=ctypes.sizeof(Frame), extension=addressof(extension), api=addressof(api), stage=3)
assert xla.fatune_xla_forward(byref(frame)) == 0 and not errors
assert (metadata.version.major, metadata.version.minor, metadata.traits) == (0, 1, 0)

# Forward and backward, against loops and differences; of both masks.
random.seed(4)
n, m, d = 3, 4, 8
drawn = [[random.uniform(-1, 1) for _ in range(rows * d)] for rows in (n, m, m, n)]


def expect(q, k, v, causal):
    out, lse = [], []
    for i in range(n):
        seen = [j for j in range(m) if not causal or j <= i + m - n]
        p = [math.exp(0.4 * sum(q[i * d + x] * k[j * d + x] for x in range(d))) for j in seen]
        lse.append(math.log(sum(p)))
        out += [sum(w * v[j * d + x] for w, j in zip(p, seen)) / sum(p) for x in range(d)]
    return out, lse


for causal in (False, True):
    words = {"family": "fwd-f32-d8" + "-causal" * causal, "scale": 0.4, "window_left": 0, "window_right": 0}
    Q, K, V, dO = (Array((1, 1, rows, d), given) for rows, given in zip((n, m, m, n), drawn))
    O, LSE = Array((1, 1, n, d)), Array((1, 1, n))
    assert call(xla.fatune_xla_forward, (Q, K, V), (O, LSE), **words) is None, errors
    out, lse = expect(*drawn[:3], causal)
    assert all(abs(a - b) < 1e-5 for a, b in zip(O.numbers() + LSE.numbers(), out + lse))
    assert call(xla.fatune_xla_forward, (Q, K, V), (O, LSE), stage=1, **words) is None
    gradients = [Array((1, 1, rows, d)) for rows in (n, m, m)]
    words["family"] = words["family"].replace("fwd", "bwd")
    assert call(xla.fatune_xla_backward, (Q, K, V, O, LSE, dO), gradients, **words) is None, errors
    for of, found in enumerate(gradients):
        for e, number_ in enumerate(found.numbers()):
            moved = [[x + step * (i == e and t == of) for i, x in enumerate(drawn[t])] for step in (1e-4, -1e-4) for t in range(3)]
            ends = [sum(a * b for a, b in zip(expect(*moved[at:at + 3], causal)[0], drawn[3])) for at in (0, 3)]
            assert abs((ends[0] - ends[1]) / 2e-4 - number_) < 1e-3, (of, e)

# Errors are XLA's, with fatune's sentence.
words = {"family": "fwd-f32-d8", "scale": 0.4, "window_left": 0, "window_right": 0}
code, text = call(xla.fatune_xla_forward, (Q, K, V), (O, LSE), **{**words, "family": "fwd-f9-d8"})
assert code == 3 and "f9" in text, text
code, text = call(xla.fatune_xla_forward, (Q, K), (O, LSE), **words)
assert code == 3 and "one release" in text, text
code, text = call(xla.fatune_xla_forward, (Q, K, V), (O, LSE), **{**words, "scale": 1})
assert code == 3 and "one release" in text, text
code, text = call(xla.fatune_xla_forward, (Q, K, V), (Array((3, 8)), LSE), **words)
assert code == 3 and "4 dimensions" in text, text
code, text = call(xla.fatune_xla_forward, (Q, K, V), (O, LSE), **{**words, "family": "fwd-f32-d8-partial"})
assert code == 12 and "fatune: " in text, (code, text)
assert call(xla.fatune_xla_forward, (Q, K, V), (O, LSE), **words) is None
cu.fake_canaries()
assert cu.fake_findings() == 0

if importlib.util.find_spec("jax"):
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import fatune.xla as bound
    from refusal import refused

    def loss(q, k, v):
        return bound.attention(q, k, v, causal=True, window=(7, 0)).astype(jnp.float32).sum()

    shapes = [jax.ShapeDtypeStruct((2, heads, rows, 64), jnp.bfloat16) for heads, rows in ((4, 8), (2, 16), (2, 16))]
    exported = jax.export.export(jax.jit(jax.grad(loss, (0, 1, 2))), platforms=["cuda"],
                                 disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("fatune_forward"),
                                                  jax.export.DisabledSafetyCheck.custom_call("fatune_backward")])(*shapes)
    text = exported.mlir_module()
    for word in ('@fatune_forward', '@fatune_backward', '"fwd-bf16-d64-causal-w"', '"bwd-bf16-d64-causal-w"', "window_left = 7 : i64"):
        assert word in text, word
    assert [a.shape for a in exported.out_avals] == [s.shape for s in shapes]
    # XLA itself reads the handler's answer at registration, and calls it: on a CPU there is no stream, which is an error.
    bound.register("cpu")
    arrays = [jnp.zeros(s.shape, s.dtype) for s in shapes]
    refused(lambda: bound.attention(*arrays, causal=True).block_until_ready(), jax.errors.JaxRuntimeError)

    # With what the fake driver has in its place: XLA's own frames, arrays copied to and fro.
    SIZES = {10: 2, 16: 2, F32: 4}  # F16, BF16

    def through(handler):
        def run(frame):
            if frame[0].extension:
                return handler(frame)
            assert cu.cuCtxSetCurrent(context) == 0
            there = Frame.from_buffer_copy(frame[0])
            mine = Api.from_buffer_copy(Api.from_address(there.api))
            mine.stream_get, mine.allocate, mine.free = api.stream_get, api.allocate, api.free
            there.api = addressof(mine)
            moved = []
            for name in ("arguments", "results"):
                of = getattr(there, name)
                buffers = [Buffer.from_buffer_copy(Buffer.from_address(of.at[i])) for i in range(of.count)]
                for b in buffers:
                    bytes_, home = math.prod(b.dims[:b.rank]) * SIZES[b.dtype], b.data
                    b.data = memory(bytes_)
                    assert cu.cuMemcpyHtoD_v2(ctypes.c_uint64(b.data), c_void_p(home), c_size_t(bytes_)) == 0
                    moved.append((b, home, bytes_))
                setattr(there, name, Values(of.size, None, of.count, of.types, (c_void_p * of.count)(*map(addressof, buffers))))
            error = handler(byref(there))
            for b, home, bytes_ in moved:
                assert cu.cuMemcpyDtoH_v2(c_void_p(home), ctypes.c_uint64(b.data), c_size_t(bytes_)) == 0
                assert cu.cuMemFree_v2(ctypes.c_uint64(b.data)) == 0
            return error
        kept = CFUNCTYPE(c_void_p, POINTER(Frame))(run)
        held.append(kept)
        return kept
    for name, symbol in bound._NAMES.items():
        jax.ffi.register_ffi_target(name + "_lent", jax.ffi.pycapsule(through(getattr(xla, symbol))), platform="cpu")
    real_call = jax.ffi.ffi_call
    jax.ffi.ffi_call = lambda name, *given, **words: real_call(name + "_lent", *given, **words)

    def plain(q, k, v, causal=False, window=(-1, -1)):
        k, v = (jnp.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
        at = jnp.arange(k.shape[-2]) - jnp.arange(q.shape[-2])[:, None] - (k.shape[-2] - q.shape[-2])
        seen = (at <= 0 if causal else at == at) & (at >= -window[0] if window[0] >= 0 else at == at)
        s = jnp.where(seen, q @ jnp.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]), -jnp.inf)
        return jax.nn.softmax(s, -1) @ v

    keys = jax.random.split(jax.random.key(3), 4)
    drawn = [jax.random.normal(key, (3, 2, heads, rows, 8)) for key, heads, rows in zip(keys, (4, 2, 2, 4), (5, 7, 7, 5))]

    def near(found, wanted, allowed):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            assert a.shape == b.shape and jnp.abs(a.astype(jnp.float32) - b).max() <= allowed * jnp.abs(b).max(), (a, b)

    for dtype, allowed, words in ((jnp.float32, 1e-5, {}), (jnp.float32, 1e-5, {"causal": True}), (jnp.bfloat16, 2e-2, {"causal": True, "window": (2, 0)})):
        def both(call):
            def weighed(*given):
                return (call(*given[:3], **words).astype(jnp.float32) * given[3]).sum()
            return jax.jit(jax.value_and_grad(weighed, (0, 1, 2)))
        given = [t[0].astype(dtype) for t in drawn]
        near(both(bound.attention)(*given), both(plain)(*(t.astype(jnp.float32) for t in given)), allowed)
    near(jax.vmap(bound.attention)(*drawn[:3]), plain(*drawn[:3]), 1e-5)
    near(jax.jit(jax.vmap(bound.attention, (0, None, None)))(drawn[0], drawn[1][0], drawn[2][0]), plain(drawn[0], drawn[1][:1], drawn[2][:1]), 1e-5)
    near(jax.grad(lambda *t: jax.checkpoint(bound.attention)(*t).sum())(*(t[0] for t in drawn[:3])), jax.grad(lambda *t: plain(*t).sum())(*(t[0] for t in drawn[:3])), 1e-5)
    one = [t[0] for t in drawn[:3]]
    refused(lambda: jax.jvp(bound.attention, one, one), TypeError, "custom_vjp")
    refused(lambda: jax.grad(lambda q: jax.grad(lambda q: bound.attention(q, *one[1:]).sum())(q).sum())(one[0]), ValueError, "cannot be differentiated")
    refused(lambda: bound.attention(*(t.astype(jnp.float16)[..., :7] for t in one)), jax.errors.JaxRuntimeError, "fatune: ", "multiples of 8")
    cu.fake_canaries()
    assert cu.fake_findings() == 0
    for wrong in (lambda: bound.attention(*(jnp.zeros((2, 8, 64)),) * 3), lambda: bound.attention(*(jnp.zeros((1, 1, 8, 64), jnp.int32),) * 3),
                  lambda: bound.attention(*(jnp.zeros((1, 1, 8, 64)),) * 3, window=(-2, 0))):
        refused(wrong, ValueError)
    print("XLA's handlers: right, with JAX", jax.__version__)
else:
    print("XLA's handlers: right; left out: JAX is missing")
