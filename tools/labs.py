"""Labs: generate the student's sheet from one source with solutions.

    python tools/labs.py            write notebooks/labs/student/, solutions to _build/labs/
    python tools/labs.py --check    only say which student's sheets are out of date

The source is a MyST text in otter-grader's format; raw cells mark questions, solutions and tests.
What follows the raw cell "# FOR THE TEACHER" stands in the solution only: what goes wrong in class,
and answers with their reasons, which explain questions of choice.
A test's failure message contains its hints, one for each wrong try, separated by //.
A sheet contains its checks, its name and a digest of its cells, so that it works under any file
name, and is not overwritten once somebody has edited it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sys
import tempfile
import warnings
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import chapters

LABS = chapters.NOTEBOOKS / "labs"
STUDENT = LABS / "student"
SOLUTIONS = chapters.BUILD / "labs"
QUIET = Path(__file__).with_name("quiet.py").read_text(encoding="utf-8")
NOTES = "# FOR THE TEACHER"
LINES = re.MULTILINE | re.DOTALL
CHOICE = re.compile(r"(chosen\(\w+, ['\"])([a-z]+)(['\"]\))")
TOLD = re.compile(r',\s*failure_message="(.*)"\)\ndef (test_\w+)')
CHECK = re.compile(r"^def test_", re.MULTILINE)
ITEM = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |\n\n)", LINES)
HEAD = '''# Run this cell first. It finds the checks of this sheet, whatever you call the file.
import json
import tempfile
from pathlib import Path

import otter


def checks(sheet):
    """The folder into which the checks of a sheet in this folder were copied."""
    folder = Path(tempfile.mkdtemp())
    for file in Path().glob("*.ipynb"):
        try:
            held = json.loads(file.read_text(encoding="utf-8"))["metadata"]["otter"]
            tests = held["tests"].items() if held["assignment_name"] == sheet else ()
        except Exception:
            continue  # no sheet: an empty file, or what a Mac leaves on a stick
        for name, text in tests:
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
    if not any(folder.iterdir()):
        raise FileNotFoundError(f"no sheet of {sheet} in {Path.cwd()}: open it where it lies")
    return str(folder)


grader = otter.Notebook(tests_dir=checks("NAME"))'''


def sources() -> list[Path]:
    """Lab texts in order."""
    return sorted(LABS.glob("[0-9][0-9]_*.md"))


def assign(source: Path) -> tuple[NotebookNode, NotebookNode]:
    """The student's sheet and the sheet with solutions, both without outputs."""
    whole, notes = parted(source)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of libraries that otter loads
        from otter.assign import main as otter_assign

        master, made = Path(folder, f"{source.stem}.ipynb"), Path(folder, "made")
        nbformat.write(whole, master)
        otter_assign(str(master), str(made), no_run_tests=True)
        views = [made / view / master.name for view in ("student", "autograder")]
        student, solution = (nbformat.read(view, as_version=4) for view in views)
    solution.cells += notes
    given, told = definitions(student), reasons(notes)
    return tidy(student, source.stem, given, told), tidy(solution, source.stem, given, told)


def parted(source: Path) -> tuple[NotebookNode, list[NotebookNode]]:
    """A lab without its notes for the teacher, and these notes."""
    whole = chapters.read_text(source)
    marks = [k for k, c in enumerate(whole.cells) if (c.cell_type, c.source) == ("raw", NOTES)]
    if len(marks) != 1:
        raise ValueError(f"{source.name}: expected one raw cell {NOTES!r}, got {len(marks)}")
    notes = whole.cells[marks[0] + 1 :]
    del whole.cells[marks[0] :]
    return whole, notes


def definitions(student: NotebookNode) -> dict[str, str]:
    """The answer cell of each question whose sheet has a definition there, perhaps with a bug."""
    found, cell = {}, ""
    for block in student.cells:
        if "otter_answer_cell" in block.metadata.get("tags", []):
            cell = block.source
        elif asked := re.match(r'grader\.check\("(\w+)"\)', block.source):
            found[asked[1]] = cell if re.search("^def ", cell, re.MULTILINE) else ""
    return found


def tidy(
    notebook: NotebookNode, stem: str, given: dict[str, str], told: dict[str, str]
) -> NotebookNode:
    """The same sheet with quiet checks, and with ids and metadata that do not change."""
    held = notebook.metadata["otter"]["tests"]
    tests = {name: hushed(text, told.get(name, ""), given[name]) for name, text in held.items()}
    head = nbformat.v4.new_code_cell(HEAD.replace("NAME", stem))
    head.metadata["jupyter"] = {"source_hidden": True}
    notebook.cells.insert(0, head)
    clean = chapters.stable(notebook, f"lab-{stem}")
    clean.metadata["otter"] = {"OK_FORMAT": False, "assignment_name": stem, "tests": tests}
    for cell in clean.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    clean.metadata["sheet"] = chapters.digest(clean)
    return clean


def hushed(test: str, reason: str = "", given: str = "") -> str:
    """A test file of otter-grader with `quiet` checks, which show a hint after each wrong try.

    The key of a choice question, and its explanation, are encoded.
    """
    head = QUIET.replace('given = ""', f"given = {given!r}")
    hints = 2 if CHOICE.search(test) else 3  # there the answer is explained after the third try
    if CHOICE.search(test):
        if not reason:
            raise ValueError(f"a question of choice without its answer in the notes:\n{test}")
        coded = base64.b64encode(reason.encode()).decode()
        head = head.replace('why = ""', f'why = "{coded}"')
    test = CHOICE.sub(lambda found: f"{found[1]}{mark(found[2])}{found[3]}", test)
    told = TOLD.findall(test)
    if len(told) != len(CHECK.findall(test)) or {len(h.split(" // ")) for h, _ in told} != {hints}:
        raise ValueError(f"{hints} hints, with // between them, are wanted for each check:\n{test}")
    listed = {hints: ", ".join(f'"{hint}"' for hint in hints.split(" // ")) for hints, _ in told}
    test = TOLD.sub(lambda found: f")\n@quiet({listed[found[1]]})\ndef {found[2]}", test)
    return f"{head}\n\n{test}"


def mark(letters: str) -> str:
    """The value that a check compares with the letters of an answer."""
    return hashlib.sha256(f"lab {letters}".encode()).hexdigest()[:16]


def reasons(notes: list[NotebookNode]) -> dict[str, str]:
    """The answers in the notes for the teacher, by question."""
    text = "\n\n".join(cell.source for cell in notes).partition("### Answers\n")[2]
    if not text:
        raise ValueError('the notes for the teacher have no "### Answers"')
    return {f"q{k}": " ".join(answer.split()) for k, answer in ITEM.findall(text + "\n\n")}


def place(notebook: NotebookNode, sheet: Path) -> str:
    """Write a new sheet, or replace an unedited one; return what was done."""
    try:
        there = nbformat.read(sheet, as_version=4) if sheet.exists() else notebook
        untouched = there.metadata.get("sheet") == chapters.digest(there)
    except Exception:  # not a sheet
        untouched = False
    if not untouched:
        return f"{sheet}: kept, because somebody has written into it"
    chapters.write_atomic(sheet, chapters.serialise(notebook))
    return f"{sheet}: written"


def stale() -> list[str]:
    """Student's sheets that differ from their sources, or have no source."""
    right = {STUDENT / f"{s.stem}.ipynb": chapters.serialise(assign(s)[0]) for s in sources()}
    there = {path: path.read_text(encoding="utf-8") for path in STUDENT.glob("*.ipynb")}
    wrong = sorted(path for path in {**right, **there} if right.get(path) != there.get(path))
    return [f"{path.name}: not generated from a source; run: make labs" for path in wrong]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the students' sheets of the labs.")
    parser.add_argument("--check", action="store_true", help="write nothing, name stale sheets")
    if parser.parse_args().check:
        sys.exit("\n".join(stale()) or 0)
    for source in sources():
        student, solution = assign(source)
        print(place(student, STUDENT / f"{source.stem}.ipynb"), flush=True)
        target = SOLUTIONS / f"{source.stem}.ipynb"
        chapters.write_atomic(target, chapters.serialise(solution))


if __name__ == "__main__":
    main()
