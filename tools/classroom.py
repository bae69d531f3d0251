"""A class: sheets for everybody, graders for a server, a machine that is ready.

    python tools/classroom.py sheets DIR [NAME ...]    a sheet of every lab, in a folder each
    python tools/classroom.py gradescope               an autograder a lab, _build/labs/gradescope
    python tools/classroom.py ready                    whether a lab can be done on this machine

What was handed in is marked by marking.py. Nothing needs a network.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat

import autograder
import chapters
import labs
import marking


def sheets(folder: Path, names: list[str]) -> None:
    """Put a sheet of every lab into the folder, or into one folder a name; keep written ones."""
    if folder.resolve().is_relative_to(chapters.ROOT):
        sys.exit(f"{folder} lies in the book's folder; name one outside, such as ~/labs")
    for name in names or ["."]:
        for stored in sorted(labs.STUDENT.glob("*.ipynb")):
            notebook = nbformat.read(stored, as_version=4)
            print(labs.place(notebook, folder / name / stored.name))


def ready() -> None:
    """Grade an untouched sheet from beginning to end; a sentence and exit 1 if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        name = labs.sources()[0].stem
        shutil.copy(labs.STUDENT / f"{name}.ipynb", folder)
        (row,) = marking.grade(Path(folder))
    asked = len(nbformat.read(labs.STUDENT / f"{name}.ipynb", 4).metadata["otter"]["tests"])
    if (row["status"], row["points"], row["possible"]) != ("graded", 0, asked):
        sys.exit(f"This machine is not ready: {row}")
    print(f"This machine is ready: {platform.node()}")


def gradescope() -> None:
    """An autograder a lab."""
    for source in labs.sources():
        target = labs.SOLUTIONS / "gradescope" / f"{source.stem}.zip"
        print(autograder.archive(source.stem, target, alone=True))


def main() -> None:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # any name
    match sys.argv[1:]:
        case ["sheets", folder, *names]:
            sheets(Path(folder).expanduser(), names)
        case ["gradescope"]:
            gradescope()
        case ["ready"]:
            ready()
        case _:
            sys.exit(f"{__doc__}\n`make class` asks for DIR=FOLDER.")


if __name__ == "__main__":
    main()
