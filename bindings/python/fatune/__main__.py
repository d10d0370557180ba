"""__main__.py -- `python -m fatune ARGS`, and the script `fatune`: the program of this package, else the one on PATH."""

import os
import shutil
import sys


def program():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "fatune")
    return beside if os.path.exists(beside) else os.environ.get("FATUNE_PROGRAM") or shutil.which("fatune")


def main():
    path = program()
    if path is None:
        sys.exit("fatune: the program is not beside this package and not on PATH: install the package (pip install .), or name "
                 "it with FATUNE_PROGRAM")
    os.execv(path, ["fatune", *sys.argv[1:]])


if __name__ == "__main__":
    main()
