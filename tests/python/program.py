"""program.py -- which program `python -m fatune` runs."""

import os
import shutil
import subprocess
import sys
import tempfile

import fatune

with tempfile.TemporaryDirectory() as folder:

    def script(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\necho {path} $1\n")
        os.chmod(path, 0o700)
        return path

    def run(program):
        return subprocess.run([sys.executable, "-m", "fatune", "doctor"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": folder, "FATUNE_PROGRAM": program})

    shutil.copytree(os.path.dirname(fatune.__file__), os.path.join(folder, "fatune"))
    beside, named = script(os.path.join(folder, "fatune", "bin", "fatune")), script(os.path.join(folder, "other", "fatune"))
    assert run("").stdout == beside + " doctor\n"
    assert run(named).stdout == named + " doctor\n"
    os.chmod(named, 0o600)
    for wrong in (named, os.path.join(folder, "none")):
        ended = run(wrong)
        assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and wrong in ended.stderr and "FATUNE_PROGRAM" in ended.stderr, ended

print("the program of the package: fine")
