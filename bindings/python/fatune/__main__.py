"""__main__.py -- `python -m fatune ARGS`, and the script `fatune`: the program that FATUNE_PROGRAM names, else that of this package, else
the one on PATH."""

import os
import shutil
import sys


def program():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "fatune")
    return os.environ.get("FATUNE_PROGRAM") or (beside if os.path.exists(beside) else shutil.which("fatune"))


def main():
    path = program()
    if path is None:
        sys.exit("fatune: the program is not beside this package and not on PATH: install the package (pip install .), or name "
                 "it with FATUNE_PROGRAM")
    try:
        os.execv(path, ["fatune", *sys.argv[1:]])
    except OSError as error:
        named = ", which FATUNE_PROGRAM names," if os.environ.get("FATUNE_PROGRAM") else ""
        sys.exit(f"fatune: the program {path}{named} cannot be run: {error.strerror}")


if __name__ == "__main__":
    main()
