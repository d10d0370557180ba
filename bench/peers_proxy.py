"""peers_proxy.py -- kernels of a GPU that is not at hand, as PTX of its architecture, which the driver of the GPU at
hand compiles for itself: beside the peers, a proxy for how they do on the GPU they are for, and no more than that.

`fatune render --gpu T4` writes the CUDA text; its head says the options, the target and the recipe of the launch.
NVRTC makes PTX of it, the driver takes that, both by ctypes. FATUNE_PROGRAM, FATUNE_NVRTC and FATUNE_LIBCUDA name
other files than those found. Which config is rendered: the kernel's default on that GPU, or of those that
`fatune verify --as T4 --top N --json` found to be right the one that took least here.
"""

import ctypes
import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED_MOST = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SHARED_UNASKED = 48 << 10  # bytes that a launch may have without it


class Failed(RuntimeError):
    """No kernel, with the reason."""


# -- the text

def program():
    built = os.path.join(HERE, "..", "build", "fatune")
    return os.environ.get("FATUNE_PROGRAM") or (built if os.path.exists(built) else shutil.which("fatune") or "fatune")


def render(gpu, problem, config=None):
    command = [program(), "render", "--gpu", gpu, "--lines", "generated", problem] + (["--config", config] if config else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except OSError as error:
        raise Failed(f"{command[0]}: {error} (FATUNE_PROGRAM names it)") from error
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or [f"{command[0]} render failed"])[-1])
    return done.stdout


def head_of(text):
    """The named lines of a rendered text's head; a name may come more than once."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        match = re.match(r"//   (\w+) +(.+)", line)
        if match:
            found.setdefault(match[1], []).append(match[2])
    return found


def number(expression, sizes):
    """What an expression of a recipe comes to; `sizes`: b, h, hk, q, k, SMs."""
    if not re.fullmatch(r"[\w\s+\-*(),]+", expression) or re.search(r"\w\s+\w", expression):
        raise Failed(f"recipe: '{expression}' is no expression")
    names = {**sizes, "ceildiv": lambda x, y: -(-x // y), "min": min, "max": max}
    try:
        return int(eval(expression, {"__builtins__": {}}, names))
    except Exception as error:  # a name or a form that this does not know
        raise Failed(f"recipe: {expression}: {error}") from error


def launch_of(recipe, sizes):
    """(entry, blocks, threads, bytes) of a recipe that is one launch taking the call alone."""
    match = re.fullmatch(r"launch (\S+) grid (.+) block (.+) shared (.+) args call", recipe[0]) if len(recipe) == 1 else None
    if not match:
        raise Failed("its recipe is more than one launch of the call: " + "; ".join(recipe))
    return (match[1], *(number(match[i], sizes) for i in (2, 3, 4)))


def family(problem):
    """What of a problem decides its config: type, head dimension, mask."""
    return re.sub(r"-b\d+-h\d+(k\d+)?-q\d+-k\d+", "", problem)


def configs_of(rows):
    """{family: config} from the rows of `fatune verify --as ... --json`: the fastest of those that are right."""
    best = {}
    for row in rows:
        ms = row.get("proxy_ms")
        if row["right"] and ms is not None and ms < best.get(family(row["problem"]), (float("inf"),))[0]:
            best[family(row["problem"])] = ms, row["config"]
    return {name: config for name, (_, config) in best.items()}


def read_configs(path):
    with open(path, encoding="utf-8") as file:
        return configs_of(json.load(file))


# -- the compiler

def nvrtc_files():
    given = os.environ.get("FATUNE_NVRTC")
    if given:
        return [given]
    places = [os.path.join(p, "nvidia", "*", "lib") for p in sys.path] + ["/usr/local/cuda*/lib64", "/usr/local/cuda*/lib",
                                                                         "/usr/local/cuda*/targets/*/lib"]
    return ["libnvrtc.so.13", "libnvrtc.so.12"] + [f for p in places for f in sorted(glob.glob(os.path.join(p, "libnvrtc.so.1[23]")))]


def nvrtc():
    for file in nvrtc_files():
        try:
            return ctypes.CDLL(file)
        except OSError:
            continue
    raise Failed("no libnvrtc was found (FATUNE_NVRTC names it)")


def ptx_of(library, text, options):
    """The PTX of a CUDA text, zero-terminated."""
    made, size = ctypes.c_void_p(), ctypes.c_size_t()
    if library.nvrtcCreateProgram(ctypes.byref(made), text.encode(), b"kernel.cu", 0, None, None) != 0:
        raise Failed("NVRTC made no program")
    try:
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        if library.nvrtcCompileProgram(made, len(options), given) != 0:
            library.nvrtcGetProgramLogSize(made, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            library.nvrtcGetProgramLog(made, log)
            raise Failed(f"NVRTC: {log.value.decode(errors='replace').strip()}")
        library.nvrtcGetPTXSize(made, ctypes.byref(size))
        ptx = ctypes.create_string_buffer(size.value + 1)
        library.nvrtcGetPTX(made, ptx)
        return ptx.value + b"\0"
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(made))


# -- the driver

class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p)] + [(s, ctypes.c_int64) for s in ("b", "h", "n")]


class _Lse(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p)] + [(s, ctypes.c_int64) for s in ("b", "h")]


class Call(ctypes.Structure):
    """`call` of templates/lib/args.h."""
    _fields_ = [(name, _Tensor) for name in "QKVO"] + [("LSE", _Lse)] + [(n, ctypes.c_int32) for n in ("b", "h", "hk", "q", "k")] + [
        ("scale", ctypes.c_float)]


def call_of(tensors, sizes, scale):
    """`tensors`: (address, strides of batch, head and row in elements) of Q, K, V and O."""
    return Call(*(_Tensor(address, *strides) for address, strides in tensors), _Lse(),
                *(sizes[n] for n in ("b", "h", "hk", "q", "k")), scale)


class Kernel:
    """One kernel in the context that is current."""

    def __init__(self, driver, ptx, entry):
        self.driver, self.module, self.function = driver, ctypes.c_void_p(), ctypes.c_void_p()
        self.check(driver.cuModuleLoadData(ctypes.byref(self.module), ptx), "cuModuleLoadData")
        self.check(driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, entry.encode()), "cuModuleGetFunction")

    @staticmethod
    def check(result, name):
        if result != 0:
            raise Failed(f"{name}: CUDA error {result}")

    def launcher(self, call, blocks, threads, shared):
        """A function that queues the call on a stream."""
        if shared > SHARED_UNASKED:
            self.check(self.driver.cuFuncSetAttribute(self.function, SHARED_MOST, shared), "cuFuncSetAttribute")
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(call))

        def launch(stream):
            held = call  # its address is in `arguments`
            self.check(self.driver.cuLaunchKernel(self.function, blocks, 1, 1, threads, 1, 1, shared, ctypes.c_void_p(stream),
                                                  arguments, None), "cuLaunchKernel")
            return held
        return launch


def driver():
    return ctypes.CDLL(os.environ.get("FATUNE_LIBCUDA") or "libcuda.so.1")


class Maker:
    """Kernels of `gpu`, each config compiled once."""

    def __init__(self, gpu, configs=None):
        self.gpu, self.configs = gpu, configs or {}
        self.driver, self.nvrtc = driver(), nvrtc()
        self.kernels, self.used = {}, {}

    def launcher(self, problem, tensors, sizes, scale):
        text = render(self.gpu, problem, self.configs.get(family(problem)))
        head = head_of(text)
        entry, blocks, threads, shared = launch_of(head["recipe"], sizes)
        if entry not in self.kernels:
            target = head["target"][0].replace("sm_", "compute_")
            ptx = ptx_of(self.nvrtc, text, head["options"][0].split() + [f"--gpu-architecture={target}"])
            self.kernels[entry] = Kernel(self.driver, ptx, entry), target
        kernel, target = self.kernels[entry]
        self.used[problem] = head["config"][0], f"{target} PTX of the {self.gpu}'s kernel, compiled by the driver at hand"
        return kernel.launcher(call_of(tensors, sizes, scale), blocks, threads, shared)
