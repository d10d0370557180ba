"""peers_proxy.py -- kernels of a GPU that is not at hand, as PTX of its architecture, which the driver of the GPU at
hand compiles for itself: beside the peers, a proxy for how they do on the GPU they are for, and no more than that.

`fatune render --gpu T4` writes the CUDA text; its head says the options, the target and the recipe of the launch.
NVRTC makes PTX of it, the driver takes that, both by ctypes. FATUNE_PROGRAM, FATUNE_NVRTC and FATUNE_LIBCUDA name
other files than those found. Which config is rendered: the kernel's default on that GPU, or the fastest of those that
`fatune verify --as T4 --top N --json` found to be right, or `fatune tune --gpu T4` forecast without that GPU.
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


def steps_of(recipe, sizes):
    """(bytes of the workspace, [step]) of a recipe's lines. A step is ("clear", offset, bytes) or ("launch", entry, blocks,
    threads, bytes, [argument]), an argument ("call", 0), ("ws", offset) or ("int", number)."""
    workspace, steps = 0, []
    for line in recipe:
        word, _, rest = line.partition(" ")
        launch = re.fullmatch(r"(\S+) grid (\S+) block (\S+) shared (\S+) args (.+)", rest)
        if word == "workspace":
            workspace = number(rest, sizes)
        elif word == "valid":
            if number(rest, sizes) <= 0:
                raise Failed("the config is none for these sizes")
        elif word == "reduces":  # in which order sums are taken is no matter of time
            continue
        elif word == "clear":
            steps.append(("clear", *(number(e, sizes) for e in rest.split())))
        elif word == "launch" and launch:
            arguments = [argument_of(a, sizes) for a in launch[5].split()]
            steps.append(("launch", launch[1], *(number(launch[i], sizes) for i in (2, 3, 4)), arguments))
        else:  # clusters, overlap and tensor maps are for one architecture alone, which needs no proxy
            raise Failed(f"recipe: '{line}' is no step that this knows")
    return workspace, steps


def argument_of(text, sizes):
    match = re.fullmatch(r"call|(ws|int)\((.+)\)", text)
    if not match:
        raise Failed(f"recipe: '{text}' is no argument that this knows")
    return (match[1], number(match[2], sizes)) if match[1] else ("call", 0)


def family(problem):
    """What of a problem decides its config: type, head dimension, mask."""
    return re.sub(r"-b\d+-h\d+(k\d+)?-q\d+-k\d+", "", problem)


def is_candidate(row):
    """A kernel that is right, of `verify --as`; or one that a call may be given, of `show trials`."""
    if "right" in row:
        return row["right"] and row.get("proxy_ms") is not None
    return row.get("outcome") == "ok" and row.get("eligible") == 1 and not row.get("twin_of") and row.get("ms") is not None


def configs_of(rows, top=1):
    """{family: the `top` fastest configs}; of several lengths each one's first, then each one's second, ..."""
    by_problem, ranked = {}, {}
    for row in filter(is_candidate, rows):
        by_problem.setdefault(row["problem"], []).append((row["proxy_ms"] if "right" in row else row["ms"], row["config"]))
    for problem, of in by_problem.items():
        for rank, (_, config) in enumerate(sorted(of)):
            ranked.setdefault(family(problem), []).append((rank, config))
    return {name: list(dict.fromkeys(config for _, config in sorted(of, key=lambda r: r[0])))[:top] for name, of in ranked.items()}


def is_of(row, gpu):
    """Whether a row is of that GPU: `A100` names an `A100 80GB SXM`, too."""
    words = (row.get("as") or row.get("gpu") or gpu).lower().split()
    return gpu.lower().replace(" ", "") in ("".join(words[:i]) for i in range(1, len(words) + 1))


def read_configs(paths, gpu, top):
    """Of the rows that `fatune verify --as GPU --json` or `fatune show trials --json` wrote."""
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += [row for row in json.load(file) if is_of(row, gpu)]
    found = configs_of(rows, top)
    if not found:
        raise Failed(f"{', '.join(paths)}: no config of a {gpu}")
    return found


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


TENSORS = {"fwd": ("Q", "K", "V", "O", "LSE"), "bwd": ("Q", "K", "V", "O", "LSE", "dO", "dQ", "dK", "dV")}


def call_of(op, tensors, sizes, scale):
    """`call` of templates/lib/args.h. `tensors`: by name the address and the strides, in elements, of batch, head and, but for
    LSE, row; one that is not there is null."""
    kinds = [(name, _Lse if name == "LSE" else _Tensor) for name in TENSORS[op]]
    fields = kinds + [(n, ctypes.c_int32) for n in ("b", "h", "hk", "q", "k")] + [("scale", ctypes.c_float)]
    values = [kind(tensors[name][0], *tensors[name][1]) if name in tensors else kind() for name, kind in kinds]
    made = type("Call", (ctypes.Structure,), {"_fields_": fields})
    return made(*values, *(sizes[n] for n in ("b", "h", "hk", "q", "k")), scale)


class Module:
    """Kernels of one text in the context that is current."""

    def __init__(self, driver, ptx):
        self.driver, self.module, self.functions = driver, ctypes.c_void_p(), {}
        self.check(driver.cuModuleLoadData(ctypes.byref(self.module), ptx), "cuModuleLoadData")

    @staticmethod
    def check(result, name):
        if result != 0:
            raise Failed(f"{name}: CUDA error {result}")

    def function(self, entry, shared):
        """Of that name, with leave for so much shared memory."""
        if entry not in self.functions:
            found = ctypes.c_void_p()
            self.check(self.driver.cuModuleGetFunction(ctypes.byref(found), self.module, entry.encode()), "cuModuleGetFunction")
            self.functions[entry] = found
        if shared > SHARED_UNASKED:
            self.check(self.driver.cuFuncSetAttribute(self.functions[entry], SHARED_MOST, shared), "cuFuncSetAttribute")
        return self.functions[entry]

    def queued(self, step, call, workspace):
        """A function that queues one step on a stream."""
        if step[0] == "clear":
            _, offset, size = step
            return lambda stream: self.check(self.driver.cuMemsetD8Async(
                ctypes.c_uint64(workspace + offset), ctypes.c_ubyte(0), ctypes.c_size_t(size), stream), "cuMemsetD8Async")
        _, entry, blocks, threads, shared, given = step
        function = self.function(entry, shared)
        values = [call if kind == "call" else ctypes.c_uint64(workspace + n) if kind == "ws" else ctypes.c_int32(n)
                  for kind, n in given]
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))

        def launch(stream, held=values):  # their addresses are in `arguments`
            self.check(self.driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, arguments, None),
                       "cuLaunchKernel")
            return held
        return launch


def driver():
    return ctypes.CDLL(os.environ.get("FATUNE_LIBCUDA") or "libcuda.so.1")


class Maker:
    """Kernels of `gpu`, each text compiled once. `configs`: of each family those to be tried; without, the default."""

    def __init__(self, gpu, configs=None):
        self.gpu, self.configs = gpu, configs or {}
        self.driver, self.nvrtc = driver(), nvrtc()
        self.modules, self.used = {}, {}

    def candidates(self, problem):
        return self.configs.get(family(problem)) or [None]

    def launcher(self, problem, config, tensors, sizes, scale, room):
        """A function that queues the call on a stream. `room`: bytes -> (what holds such memory of the device, its address)."""
        text = render(self.gpu, problem, config)
        head = head_of(text)
        size, steps = steps_of(head["recipe"], sizes)
        target, source = head["target"][0].replace("sm_", "compute_"), head["source"][0]
        if source not in self.modules:
            ptx = ptx_of(self.nvrtc, text, head["options"][0].split() + [f"--gpu-architecture={target}"])
            self.modules[source] = Module(self.driver, ptx)
        self.used[problem, config] = head["config"][0], f"{target} PTX of the {self.gpu}'s kernel, compiled by the driver at hand"
        held, workspace = room(size) if size else (None, 0)
        call = call_of(problem.partition("-")[0], tensors, sizes, scale)
        queue = [self.modules[source].queued(step, call, workspace) for step in steps if step[0] == "clear" or step[2] > 0]

        def launch(stream):
            for one in queue:
                one(ctypes.c_void_p(stream))
            return held
        return launch
