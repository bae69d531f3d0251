"""Labs: one source with solutions, from which the student's notebook is generated.

    python tools/labs.py            write notebooks/labs/student/, solutions to _build/labs/
    python tools/labs.py --check    only say which student's notebooks are out of date

The source is a MyST text in otter-grader's format: raw cells mark questions, solutions and tests.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import chapters

LABS = chapters.NOTEBOOKS / "labs"
STUDENT = LABS / "student"


def sources() -> list[Path]:
    """Lab texts in order."""
    return sorted(LABS.glob("[0-9][0-9]_*.md"))


def assign(source: Path) -> tuple[NotebookNode, NotebookNode]:
    """The student's notebook and the one with solutions, both without outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a library that otter loads
        from otter.assign import main as otter_assign
    with tempfile.TemporaryDirectory() as folder:
        master, made = Path(folder, f"{source.stem}.ipynb"), Path(folder, "made")
        nbformat.write(chapters.read_text(source), master)
        otter_assign(str(master), str(made), no_run_tests=True)
        views = [made / view / master.name for view in ("student", "autograder")]
        student, solution = (nbformat.read(view, as_version=4) for view in views)
    return tidy(student, source.stem), tidy(solution, source.stem)


def tidy(notebook: NotebookNode, stem: str) -> NotebookNode:
    """The same notebook with ids and metadata that do not change from run to run."""
    clean = chapters.stable(notebook, f"lab-{stem}")
    clean.metadata["otter"] = notebook.metadata.get("otter", {})
    for cell in clean.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    return clean


def main(only_check: bool) -> None:
    stale = [
        f"{path.relative_to(chapters.ROOT)}: has no source"
        for path in STUDENT.glob("*.ipynb")
        if not (LABS / f"{path.stem}.md").exists()
    ]
    for source in sources():
        student, solution = map(chapters.serialise, assign(source))
        copy = STUDENT / f"{source.stem}.ipynb"
        if not only_check:
            chapters.write_atomic(copy, student)
            chapters.write_atomic(chapters.BUILD / "labs" / copy.name, solution)
            print(f"{source.stem}  student's copy and solution written", flush=True)
        elif not copy.exists() or copy.read_text(encoding="utf-8") != student:
            stale.append(f"{copy.relative_to(chapters.ROOT)}: not generated from its source")
    if stale:
        sys.exit("\n".join([*stale, "run: make labs"]))


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
