"""For teachers: write sheets for a class, graders for a server, and check a machine.

    python tools/classroom.py sheets DIR [NAMES [LAB]]   a sheet of every lab, or of one
    python tools/classroom.py gradescope                 autograders, to _build/labs/gradescope
    python tools/classroom.py ready                      whether a lab can be done on this machine

NAMES makes a folder per name: "ann, ben meyer", or a file with one name per line. LAB is
the number of a lab, such as 4.

marking.py marks the submissions. Nothing needs a network.
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


def people(names: str) -> list[str]:
    """The names of a file, one per line, or of a text, separated by commas.

    Each becomes a folder, so the program ends at one that would lie elsewhere
    """
    listed = Path(names).is_file()
    parts = Path(names).read_text("utf-8-sig").splitlines() if listed else names.split(",")
    found = [name for part in parts if (name := part.strip())]
    for name in found:
        if set(name) & {"/", "\\", ":"} or not name.strip("."):
            sys.exit(f"NAMES: {name!r} is no name of a folder; nothing was written")
    return found


def sheets(folder: Path, names: list[str], lab: str = "") -> None:
    """Put a sheet of every lab into the folder, or into a folder per name; keep edited ones."""
    numbers = sorted(path.name.split("_")[0].lstrip("0") for path in labs.STUDENT.glob("*.ipynb"))
    if lab and lab.lstrip("0") not in numbers:
        sys.exit(f"LAB is one of {', '.join(sorted(numbers, key=int))}, not {lab!r}")
    if folder.resolve().is_relative_to(chapters.ROOT):
        sys.exit(f"{folder} lies in the book's folder; name one outside, such as ~/labs")
    for name in names or ["."]:
        for stored in sorted(labs.STUDENT.glob(f"{lab.zfill(2) if lab else ''}*.ipynb")):
            notebook = nbformat.read(stored, as_version=4)
            print(labs.place(notebook, folder / name / stored.name))


def ready() -> None:
    """Grade an unedited sheet completely; print a sentence and exit 1 if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        name = labs.sources()[0].stem
        shutil.copy(labs.STUDENT / f"{name}.ipynb", folder)
        (row,) = marking.grade(Path(folder))
    asked = len(nbformat.read(labs.STUDENT / f"{name}.ipynb", 4).metadata["otter"]["tests"])
    if (row["status"], row["points"], row["possible"]) != ("graded", 0, asked):
        sys.exit(f"This machine is not ready: {row}")
    print(f"This machine is ready: {platform.node()}")


def gradescope() -> None:
    """Write one autograder per lab."""
    for source in labs.sources():
        target = labs.SOLUTIONS / "gradescope" / f"{source.stem}.zip"
        print(autograder.archive(source.stem, target, alone=True))


def main() -> None:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # any name
    match sys.argv[1:]:
        case ["sheets", folder]:
            sheets(Path(folder).expanduser(), [])
        case ["sheets", folder, names]:
            sheets(Path(folder).expanduser(), people(names))
        case ["sheets", folder, names, lab]:
            sheets(Path(folder).expanduser(), people(names), lab)
        case ["gradescope"]:
            gradescope()
        case ["ready"]:
            ready()
        case _:
            sys.exit(f"{__doc__}\n`make class` asks for DIR=FOLDER.")


if __name__ == "__main__":
    main()
