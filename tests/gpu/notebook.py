"""notebook.py -- runs a notebook as Jupyter would (nbclient) and shows what its cells printed. Needs a GPU where the notebook does.

    python3 tests/gpu/notebook.py examples/t4.ipynb --into ran.ipynb
    python3 tests/gpu/notebook.py examples/t4.ipynb --skip 'git clone' --put 'budget 8m' 'budget 60s' --put 'gpu T4' 'gpu H200'

--skip leaves out lines that have a text, where fatune is installed already; --put replaces a text. Both must be found. A
shell line that fails, which Jupyter lets pass, fails here too. Exit 1 where a cell failed or a picture is not there."""

import argparse
import sys
import time

import nbclient
import nbformat

STATUS = "\nif globals().get('_exit_code'): raise SystemExit(f'a shell line ended with {_exit_code}')"


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("notebook")
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT")
    parser.add_argument("--put", action="append", nargs=2, default=[], metavar=("OLD", "NEW"))
    parser.add_argument("--folder", default=".", help="where it runs")
    parser.add_argument("--seconds", type=int, default=900, help="of a cell, at most")
    parser.add_argument("--into", metavar="FILE", help="the notebook with what its cells printed")
    return parser.parse_args()


def changed(source, given, found):
    """A cell's text after --skip and --put; a line that starts a program is followed by a look at how it ended."""
    lines = []
    for line in source.splitlines():
        skipped = [text for text in given.skip if text in line]
        found.update(skipped)
        for old, new in given.put:
            if old in line:
                found.add(old)
                line = line.replace(old, new)
        if not skipped:
            lines.append(line + STATUS if line.startswith("!") else line)
    return "\n".join(lines)


def shown(cell):
    """What a cell printed, and the number of its pictures."""
    pictures = 0
    for output in cell.outputs:
        print(output.get("text", "").rstrip() or "\n".join(output.get("traceback", [])), flush=True)
        pictures += any(kind.startswith("image/") for kind in output.get("data", {}))
    return pictures


def main():
    given = options()
    book, found, failed = nbformat.read(given.notebook, as_version=4), set(), None
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    wanted = sum("SVG(" in cell.source for cell in cells)
    for cell in cells:
        cell.source = changed(cell.source, given, found)
    missing = {*given.skip, *(old for old, _ in given.put)} - found
    if missing:
        sys.exit(f"notebook.py: nowhere in {given.notebook}: {', '.join(sorted(missing))}")
    began = time.monotonic()

    def tell(cell, cell_index, execute_reply):
        print(f"# cell {cell_index}, at {time.monotonic() - began:.0f} s", flush=True)
        pictures.append(shown(cell))
    pictures = []
    client = nbclient.NotebookClient(book, timeout=given.seconds, resources={"metadata": {"path": given.folder}}, on_cell_executed=tell)
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        failed = str(error).strip().splitlines()[-1]
    if given.into:
        nbformat.write(book, given.into)
    print(f"{len(cells)} cells, {sum(pictures)} pictures of {wanted}" + (f"; failed: {failed}" if failed else ", none failed"))
    return 1 if failed or sum(pictures) != wanted else 0


if __name__ == "__main__":
    sys.exit(main())
