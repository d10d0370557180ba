"""lot.py BUILD MINUTES [SEED] -- turns single operators round, drawn by lot, and asks the tests whether they notice.

A copy of the tree is built once in BUILD/lot; then, until the time, which begins then, is up, one operator of one line of generator, db, runtime or
tuner is changed, what depends on it is built, and the tests run until one fails. Prints each change that no test noticed, as a
diff: it either says nothing that can be seen, or a test is missing. Exit code 1 where fewer than half are noticed."""
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time

TURNS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" && ", " || "), (" || ", " && "), (" + ", " - "), (" - ", " + "), (" * ", " + ")]
SLOW = "^(test_(templates|kernels.*|bites.*|emu.*|db_oom|generator_oom|runtime_oom|tuner_oom|verify|sees)|cli.*|docs|install|package|python|peers.*)$"
root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
folder = os.path.join(os.path.abspath(sys.argv[1]), "lot")
minutes = float(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 30)
lot = random.Random(seed)
tree, build = os.path.join(folder, "tree"), os.path.join(folder, "build")


def run(*command, seconds=1800, cpu=resource.RLIM_INFINITY):
    """`cpu`: seconds of each process among those that it starts, after which it is killed: an endless loop is noticed, too."""
    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds, preexec_fn=limit).returncode
    except subprocess.TimeoutExpired:
        return 124


def places():
    """Every operator between blanks of a line of code, as (file, line, column, turn)."""
    found = []
    for room in ("generator", "db", "runtime", "tuner"):
        for path, _, names in os.walk(os.path.join(tree, room)):
            for name in (n for n in names if n.endswith(".c")):
                file = os.path.join(path, name)
                comment = False
                for number, line in enumerate(open(file)):
                    comment = comment or "/*" in line
                    code = "" if comment else re.sub(r'"(\\.|[^"\\])*"', lambda m: "_" * len(m.group()), line)
                    comment = comment and "*/" not in line
                    for turn in TURNS:
                        found += [(file, number, m.start(), turn) for m in re.finditer(re.escape(turn[0]), code)]
    return found


def main():
    print(f"seed {seed}", flush=True)
    if not os.path.isdir(tree):
        for name in subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n"):
            if name and os.path.isfile(os.path.join(root, name)):
                os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
                shutil.copy2(os.path.join(root, name), os.path.join(tree, name))
    if run("cmake", "-G", "Ninja", "-S", tree, "-B", build) or run("cmake", "--build", build, seconds=7200):
        sys.exit("the copy does not build")
    drawn, noticed, tried = places(), 0, 0
    ends = time.time() + 60 * minutes
    while time.time() < ends:
        file, number, column, (old, new) = lot.choice(drawn)
        before = open(file).read()
        lines = before.split("\n")
        line = lines[number]
        lines[number] = line[:column] + new + line[column + len(old):]
        open(file, "w").write("\n".join(lines))
        tried += 1
        if run("cmake", "--build", build) or run("ctest", "--test-dir", build, "-E", SLOW, "-j2", "--stop-on-failure", cpu=300):
            noticed += 1
        else:
            print(f"{os.path.relpath(file, tree)}:{number + 1}\n-{line}\n+{lines[number]}", flush=True)
        open(file, "w").write(before)
    print(f"{noticed} of {tried} changes were noticed (seed {seed})")
    sys.exit(2 * noticed < tried)


main()
