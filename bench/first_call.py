"""first_call.py -- how long a process waits for its first calls where no kernel of the package is compiled yet, as after a build from source.

    FATUNE_LIBRARY=build/runtime/libfatune.so FATUNE_SYSTEM_DB=build/share/fatune/fatune.db python3 bench/first_call.py

Each line is a new process with an empty database of its own: what its user does, then the seconds of each step, to the end of its work on
the GPU. `again` is a second process that finds what the first one compiled. PyTorch's own start is not counted. --cores N leaves all of
them N cores, as a small cloud machine has. NVRTC keeps what it compiled in the driver's cache, too: that is empty at first as well."""

import argparse
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What a user does: rows of Q, keys, whether gradients are taken, d, whether causal.
STEPS = {
    "train d64": [(2048, 2048, True, 64, True)],
    "train d128": [(2048, 2048, True, 128, True)],
    "encode d64": [(512, 512, False, 64, False)],
    "prompt, then words d128": [(1000, 1000, False, 128, True), *((1, 1000 + n, False, 128, True) for n in (1, 2, 500, 4000, 15000))],
}


def steps_of(name):
    """Seconds of each step; in the child."""
    import torch
    import fatune
    torch.zeros(1, device="cuda").sum().item()
    found = []
    for q, k, graded, d, causal in STEPS[name]:
        b, h, hk = (4, 16, 16) if q == k else (1, 32, 8)
        make = lambda heads, rows: torch.randn(b, heads, rows, d, device="cuda", dtype=torch.bfloat16, requires_grad=graded)
        given = make(h, q), make(hk, k), make(hk, k)
        torch.cuda.synchronize()
        began = time.monotonic()
        out = fatune.attention(*given, causal=causal)
        torch.cuda.synchronize()
        found.append(time.monotonic() - began)
        if graded:
            began = time.monotonic()
            out.sum().backward()
            torch.cuda.synchronize()
            found.append(time.monotonic() - began)
    print(" ".join(f"{s:.3f}" for s in found))


def child(name, database, cores):
    path = os.environ.get("PYTHONPATH", "") + os.pathsep + os.path.join(HERE, "..", "bindings", "python")
    done = subprocess.run([sys.executable, __file__, "--child", name, "--cores", str(cores)], env=dict(os.environ, FATUNE_DB=database, CUDA_CACHE_PATH=os.path.dirname(database), PYTHONPATH=path),
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"first_call.py: '{name}' ended with {done.returncode}")
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=0, help="leave each process so many cores (0: all)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:given.cores])
    if given.child:
        return steps_of(given.child)
    for name in STEPS:
        with tempfile.TemporaryDirectory() as folder:
            database = os.path.join(folder, "fatune.db")
            print(f"{name}: {child(name, database, given.cores)}", flush=True)
            print(f"  again: {child(name, database, given.cores)}", flush=True)


if __name__ == "__main__":
    main()
