"""Labs: one source with solutions, from which the student's notebook is generated.

    python tools/labs.py            write notebooks/labs/student/, solutions to _build/labs/
    python tools/labs.py --check    only say which student's notebooks are out of date

The source is a MyST text in otter-grader's format: raw cells mark questions, solutions and tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

import chapters

LABS = chapters.NOTEBOOKS / "labs"
STUDENT = LABS / "student"
SOLUTIONS = chapters.BUILD / "labs"


def sources() -> list[Path]:
    """Lab texts in order."""
    return sorted(LABS.glob("[0-9][0-9]_*.md"))


def read(source: Path) -> NotebookNode:
    """The lab with its solutions and marks, as otter-grader wants it."""
    notebook = jupytext.reads(source.read_text(encoding="utf-8"), fmt="md:myst")
    made = nbformat.v4.new_notebook(cells=notebook.cells, metadata=chapters.METADATA)
    return chapters.with_ids(made)


def assign(source: Path) -> tuple[NotebookNode, NotebookNode]:
    """The student's notebook and the one with solutions, both without outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a library that otter loads
        from otter.assign import main as otter_assign
    with tempfile.TemporaryDirectory() as folder:
        master, made = Path(folder, f"{source.stem}.ipynb"), Path(folder, "made")
        nbformat.write(read(source), master)
        otter_assign(str(master), str(made), no_run_tests=True)
        views = [made / view / master.name for view in ("student", "autograder")]
        student, solution = (nbformat.read(view, as_version=4) for view in views)
    return tidy(student, source.stem), tidy(solution, source.stem)


def tidy(notebook: NotebookNode, stem: str) -> NotebookNode:
    """The same notebook with ids and metadata that do not change from run to run."""
    grader = notebook.metadata.get("otter", {})
    clean = chapters.stable(notebook, f"lab-{stem}")
    clean.metadata["otter"] = grader
    for cell in clean.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    return clean


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the students' copies of the labs.")
    parser.add_argument("--check", action="store_true", help="write nothing, name stale copies")
    only_check = parser.parse_args().check
    stale = []
    for source in sources():
        student, solution = assign(source)
        copy, text = STUDENT / f"{source.stem}.ipynb", chapters.serialise(student)
        if not only_check:
            chapters.write_atomic(copy, text)
            chapters.write_atomic(SOLUTIONS / copy.name, chapters.serialise(solution))
            print(f"{source.stem}  student's copy and solution written", flush=True)
        elif not copy.exists() or copy.read_text(encoding="utf-8") != text:
            stale.append(f"{copy.relative_to(chapters.ROOT)}: not generated from its source")
    for source in STUDENT.glob("*.ipynb"):
        if not (LABS / f"{source.stem}.md").exists():
            stale.append(f"{source.relative_to(chapters.ROOT)}: has no source")
    if stale:
        sys.exit("\n".join([*stale, "run: make labs"]))


if __name__ == "__main__":
    main()
