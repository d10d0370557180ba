"""problems_lot.py BUILD MINUTES [SEED] [--gpu] -- problems and configs drawn by lot, in the emulator: masks, batches, blocks, scores, gradients, expressions and widths of K and V
together, as tests/problems.txt has a few; configs of the kernels for warpgroups, defaults of all kernels, and what a call of large sizes is given that nobody tuned. Prints
the seed, each ten that were solved, and the first that was not; exit code 1 where one was not. With --gpu sizes are those of calls, and kernels run on the GPU at hand,
verified as `fatune verify --as` does it, sixteen at once; all that are wrong are printed. None of the defects that it was made for, or found, stood in a line of
problems.txt: a single place for K, the last tile of a batch, K of three boxes of 64 columns beside V of one or two, keys behind the last row, a ragged batch of no
rows."""
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

silicon, given_words = "--gpu" in sys.argv, [word for word in sys.argv[1:] if word != "--gpu"]
build, minutes = os.path.abspath(given_words[0]), float(given_words[1])
seed = int(given_words[2]) if len(given_words) > 2 else random.SystemRandom().randrange(1 << 30)
lot = random.Random(seed)
MODS = ("s+table0[h]*(j-i)/9", "s-(j/16-table0[h,b])+0.1*i", "s*table1[h]-abs(i-j)/50", "min(s,3)+table0[j]") # the first two grow evenly along rows
BLOCKS = ((64, 64), (128, 128), (48, 80), (16, 32), (100, 60), (192, 128), (64, 128), (64, 32))
FWD = {"Br": (64, 128, 192), "Bc": (32, 64, 80, 96, 128), "s": (1, 2, 3, 4), "q": (1, 2), "Q": (0, 0, 1), "I": (0, 1, 2), "P": (0, 1), "L": (0, 1, 2, 2),
       "Z": (1,), "M": (0, 0, 0, 1), "b": (0, 0, 2, 2, 3, 4), "N": (0, 0, 0, 1, 2),
       "D": (0, 1, 1), "G": (0, 0, 1)}
BWD = {"Br": (64, 80, 96, 128), "Bc": (128,), "s": (2,), "t": (2,), "S": (0, 1), "R": (0, 1), "Z": (1, 2, 8), "O": (0, 1, 1), "K": (0, 1), "E": (0, 1, 2, 2), "H": (0, 0, 1, 2, 2),
       "T": (0, 0, 0, 1, 2, 3), "C": (0, 0, 1), "G": (0, 0, 0, 2, 4)}
WIDE = {"Br": (64,), "s": (2, 3), "t": (1, 2), "Z": (1, 4, 8)}
PAIR = {"Br": (64,), "s": (2, 3), "o": (1, 2), "t": (2, 3), "Z": (1, 4, 8, 64), "M": (0, 1), "T": (0, 2, 3), "G": (0, 0, 2, 4)}
SPACES = {"fwd_ws": FWD, "bwd_ws": BWD, "bwd_wide": WIDE, "bwd_pair": PAIR}
UNSAID = {"fwd_ws": ("M", "b", "N", "D", "G"), "bwd_ws": ("O", "K", "E", "H", "T", "C", "G"), "bwd_wide": (), "bwd_pair": ("M", "T", "G")} # where they are 0
KERNELS = {"fwd": ("fwd_ws",) * 4 + ("fwd", "fwd", "fa1", "standard"),
           "bwd": ("bwd_ws",) * 4 + ("bwd_pair", "bwd_pair", "bwd_wide", "bwd", "bwd", "bwd_two", "fa1_bwd", "standard_bwd")}
MASKS = ("", "", "-causal", "-causal", "-w90.20", "-causal-w60.0", "-causaltl", "-causaltl-w80.5", "-w70.x", "-causal-prefix")
SCORES = ("", "", "-mask", "-bias", "-alibi", "-softcap", "-sink", "-drop", "-mask-bias", "-alibi-softcap-sink")
GRADIENTS = (("bias", "dbias"), ("sink", "dsink"), ("", "dlse"), ("", "det")) # of what, and that they are wanted
LARGE = ("b4-h16-q4096-k4096", "b32-h32-q512-k512", "b1-h16-q16384-k16384", "b2-h8-q300-k5000", "b8-h32k4-q1-k8192", "b1-h4-q64-k64", "b16-h40k8-q1024-k1024")
GPUS = ("T4", "A100", "RTX 4090", "H200", "H200", "H100")
WIDTHS = ("40", "64", "72", "96", "128", "104", "136", "160", "192", "256", "192v128", "64v128", "72v40", "160v64", "128v64", "136v104", "96v192", "256v96")
WIDE_WIDTHS = ("192", "192", "256", "256", "192v128", "256v96")
NARROW_WIDTHS = ("40", "64", "72", "96", "104", "128", "64v128", "72v40", "128v64")


def drawn():
    """A line of problems.txt, which may be of no kernel's space."""
    fwd = lot.random() < 0.6
    op = "fwd" if fwd else "bwd"
    kernel = lot.choice(KERNELS[op])
    values = {name: lot.choice(some) for name, some in SPACES.get(kernel, {}).items()}
    settles = values.get("T", 0) >= 2
    if settles: # each other draw must allow it, or hardly one in a hundred would be valid
        values.update({"Br": lot.choice((64, 128)), "S": 0, "R": 1, "O": 1, "K": 0, "H": lot.choice((0, 0, 2)), "G": 0} if kernel == "bwd_ws" else {"G": 0})
    ragged = "" if settles else lot.choice(("", "", "-varlen", "-used", "-lpad"))
    q, k = (200, 300) if ragged else lot.choice(((200, 300), (330, 520), (129, 700), (390, 170)))
    masks = lot.choice(("-causal", "-causaltl", "" if values["T"] == 2 else "-causal") if settles else MASKS)
    masks = (masks[:-7] + ragged + "-prefix" if masks.endswith("-prefix") else masks + ragged) + ("" if settles else lot.choice(("", "", "-iv")))
    blocks = "-bs%dx%d" % lot.choice(BLOCKS) if not settles and lot.random() < 0.5 else ""
    scores = lot.choice(SCORES)
    sizes = f"b{lot.choice((1, 2, 5) if ragged else (1, 2))}-{lot.choice(('h2', 'h4k2', 'h2k1'))}-q{q}-k{k}-d{lot.choice(WIDE_WIDTHS if kernel == 'bwd_pair' else NARROW_WIDTHS if settles else WIDTHS)}"
    wanted = "".join("-" + grad for of, grad in GRADIENTS if not fwd and of in scores and lot.random() < 0.3)
    gpu = "H200" if kernel in SPACES else lot.choice(("T4", "A100", "H200"))
    dtype = lot.choice(("f16", "bf16") if kernel in SPACES else ("f16", "bf16", "f32", "tf32", "f32x3"))
    problem = f"{op}-{dtype}-{sizes}{masks}{blocks}{scores}{wanted}"
    if lot.random() < 0.3:
        gpu = lot.choice(GPUS)
        return problem, given(problem.replace(sizes[:sizes.index("-d")], lot.choice(LARGE)), gpu), "", gpu
    if kernel not in SPACES or not settles and lot.random() < 0.3:
        return problem, kernel, lot.choice(("", "", *MODS)), gpu
    config = "-".join(f"{name}{value}" for name, value in values.items() if value or name not in UNSAID[kernel])
    return problem, f"{kernel}:{config}", lot.choice(("", "", *MODS)), gpu


def given(problem, gpu):
    """The config of a call that nobody tuned; none is of no kernel's space."""
    told = subprocess.run((os.path.join(build, "fatune"), "why", problem, "--gpu", gpu, "--json"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "FATUNE_DB": "", "FATUNE_SYSTEM_DB": "", "XDG_DATA_HOME": os.path.join(build, "nothing")})
    return json.loads(told.stdout)["config"] if told.returncode == 0 else "none"


def is_valid(problem, config, mod, gpu):
    named = ("--config", config) if ":" in config else ("--kernel", config)
    return subprocess.run((os.path.join(build, "fatune"), "render", problem, "--gpu", gpu, *named, *(("--mod", mod) if mod else ())),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def lines(count):
    found = []
    while len(found) < count:
        problem, config, mod, gpu = drawn()
        if is_valid(problem, config, mod, gpu):
            found.append(f"{problem} {config} gpu={gpu.replace(' ', '')} sms={lot.choice((1, 2, 3))} lay={lot.choice(('padded', 'bshd', 'mixed'))}{' mod=' + mod if mod else ''}")
    return found


def called(problem):
    """The same problem with sizes of a call."""
    q, k = lot.choice(((777, 777), (1500, 1500), (1024, 1024), (640, 1900), (130, 2500), (2048, 2048), (33, 900), (1, 1300), (1800, 500)))
    if any(word in problem for word in ("varlen", "used", "lpad")):
        q = k = max(q, k) // 2
    heads = lot.choice(("h3", "h8k2", "h12", "h16k8", "h5k1"))
    return re.sub(r"-b\d+-h\d+(k\d+)?-q\d+-k\d+-", f"-b{lot.choice((1, 2, 3, 7))}-{heads}-q{q}-k{k}-", problem)


def verified(line):
    """What was said of a wrong one; "" of a right one, None where there is none."""
    problem, config, mod, gpu = line
    if not is_valid(*line):
        return None
    with tempfile.TemporaryDirectory() as home:
        named = ("--config", config) if ":" in config else ("--kernel", config)
        run = subprocess.run((os.path.join(build, "fatune"), "verify", "--as", gpu, problem, *named, *(("--mod", mod) if mod else ()), "--quiet", "--json"),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "FATUNE_SYSTEM_DB": "", "XDG_DATA_HOME": home})
    return f"{problem} {config} {mod}: {run.stdout}" if run.returncode else ""


def on_gpu():
    """Exit code."""
    said = subprocess.run((os.path.join(build, "fatune"), "doctor"), stdout=subprocess.PIPE, text=True).stdout
    gpu = re.search(r"^ok +device .* known as (.+)$", said, re.M)
    if not gpu:
        print("no GPU that fatune knows is at hand")
        return 3
    right, wrong = 0, 0
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        while time.monotonic() < until:
            some = [(called(problem), config, mod, gpu[1]) for problem, config, mod, _ in (drawn() for _ in range(64))
                    if gpu[1] in ("H100", "H200") or config.split(":")[0] not in SPACES]
            for told in pool.map(verified, some):
                right, wrong = right + (told == ""), wrong + bool(told)
                if told:
                    print(told, flush=True)
    print(f"{right} right, {wrong} wrong")
    return 1 if wrong or not right else 0


print(f"seed {seed}", flush=True)
until, solved = time.monotonic() + 60 * minutes, 0
if silicon:
    sys.exit(on_gpu())
with tempfile.TemporaryDirectory() as folder:
    os.makedirs(os.path.join(folder, "tests"))
    while time.monotonic() < until:
        with open(os.path.join(folder, "tests", "problems.txt"), "w", encoding="utf-8") as f:
            f.write("\n".join(lines(10)) + "\n")
        run = subprocess.run((os.path.join(build, "tests", "test_kernels"), "gpu="), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            sys.exit(run.stdout)
        solved += 10
        print(f"{solved} solved", flush=True)
