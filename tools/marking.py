"""Mark the submitted sheets of a class; whatever one sheet does, the others get their marks.

    python tools/marking.py SUBMISSIONS [--again]

`otter run` runs every sheet from its first cell, in its own kernel, with the checks of this
book and not with those in the file. All sheets are read before one runs; each runs in an empty
folder, without the caller's environment, with limits on time, memory and written bytes. A
line of ``grades.csv`` is written when its sheet ends, so a second call continues; the pages
of lines that somebody has changed are then written again. A sheet is a program with the
rights of the marker; limits only protect against accidents.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

import autograder
import chapters
import grades
import handed_in as files
import labs
from handed_in import LARGEST, Content, Refused, mark_of, named, shown

LONGEST = 900  # seconds for one sheet
NO_SHEET = "no lab sheet of this book"
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "PYTHONPATH", "LD_LIBRARY_PATH")
KEPT += ("IPYTHON", "JUPYTER", "MPL", "PYDEVD", "TQDM", "OMP", "ATEN")  # and what begins so
RAISED = re.compile(r"^ *((?:the cell that sets \w+|its cell) raised .*)$", re.M)  # quiet.py
NAMED = re.compile(r"""\bchecks\(["'](\w+)["']\)""")  # in a sheet's first cell
TOLD = re.compile(r"<tr><td>(q\d+)<td>(.*?) of .*?<td><pre>(.*?)</pre>", re.S)  # on a page
LAUNCH = """
import runpy
try:  # each process of a sheet: 1 GiB of data, files of 64 MiB
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**26, 2**26))
except (ImportError, ValueError):
    pass  # a system without such bounds
runpy.run_module("otter", run_name="__main__")
"""
PAGE = """<title>{title}</title>
<style>body{{max-width:50rem;margin:2rem auto;font:1rem/1.5 sans-serif}}pre{{white-space:pre-wrap}}
td{{border-top:1px solid #888;padding:.4rem;vertical-align:top}}</style>
<h1>{title}</h1><p>{said}</p><table>{rows}</table></html>"""


@dataclass
class Marks:
    """The marks of a sheet: its lab, a status, points by question, and each check's message."""

    lab: str = ""
    status: str = "graded"
    points: dict[str, float] = field(default_factory=dict)
    possible: dict[str, float] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The row of grades.csv."""
        total, possible = sum(self.points.values()), sum(self.possible.values())
        return {"lab": self.lab, "status": self.status, "points": total, "possible": possible,
                "raised": self.raised(), **self.points}  # fmt: skip

    def raised(self) -> str:
        """The questions whose own cells ended in an error, with the error."""
        found = {question: RAISED.search(said) for question, said in self.said.items()}
        return "; ".join(f"{question}: {error[1]}" for question, error in found.items() if error)


def page(name: str, row: dict[str, Any], said: dict[str, str]) -> str:
    """The page for the student: the line of the table, and what the checks said; all escaped."""
    lines = []
    for question, worth in questions(row["lab"]).items() if row["lab"] else ():
        if not (given := grades.written(row.get(question, ""))):
            continue
        given = f"{given} of {worth:g}"
        cells = (question, html.escape(given), f"<pre>{html.escape(said.get(question, ''))}</pre>")
        lines.append("<tr>" + "".join(f"<td>{cell}" for cell in cells))
    points, possible = grades.written(row["points"]), grades.written(row["possible"])
    told = f"{row['status']}: {points} of {possible} points"
    told += f" ({row['raised']})" if row["raised"] else ""
    title = html.escape(f"{row['lab']}: {name}" if row["lab"] else name)
    return PAGE.format(title=title, said=html.escape(told), rows="\n".join(lines))


def questions(lab: str) -> dict[str, float]:
    """The points of each question of a lab, in order, from the book's own copy."""
    tests = nbformat.read(labs.STUDENT / f"{lab}.ipynb", as_version=4).metadata["otter"]["tests"]
    worth = {name: re.search(r"^points = (\d+)$", tests[name], re.MULTILINE) for name in tests}
    return {q: float(p[1]) if (p := worth[q]) else 1.0 for q in sorted(tests, key=grades.counted)}


def opened(content: bytes) -> nbformat.NotebookNode:
    """A sheet in UTF-8 or UTF-16, also if its cells lack what an editor or a filter leaves out."""
    if not content.strip():
        raise Refused(f"{NO_SHEET}: the file is empty")
    try:
        text = content.decode(json.detect_encoding(content))
    except UnicodeDecodeError as error:
        cut = error.reason in ("truncated data", "unexpected end of data")
        why = "it is cut off" if cut else "its text is neither UTF-8 nor UTF-16"
        raise Refused(f"{NO_SHEET}: {why}") from None
    try:
        held = json.loads(text.removeprefix(grades.MARK))
    except (ValueError, RecursionError):
        cut = text.lstrip(f"{grades.MARK} \r\n\t").startswith("{")
        raise Refused(f"{NO_SHEET}: it is {'cut off' if cut else 'no notebook'}") from None
    try:
        for cell in held["cells"]:
            cell.setdefault("metadata", {})
            if cell["cell_type"] == "code":
                cell.setdefault("outputs", [])
                cell.setdefault("execution_count", None)
        return nbformat.reads(json.dumps(held), as_version=4)
    except Exception:
        raise Refused(f"{NO_SHEET}: its cells are not those of a notebook") from None


def lab_of(notebook: nbformat.NotebookNode, known: Iterable[str]) -> str:
    """The lab of a sheet, by its metadata, or by its first cell where these were lost."""
    try:
        lab = str(notebook.metadata["otter"]["assignment_name"])
    except Exception:
        code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
        lab = found[1] if (found := NAMED.search(code)) else ""
        if lab in known:  # its first cell looks for its checks there
            own = nbformat.read(labs.STUDENT / f"{lab}.ipynb", as_version=4)
            notebook.metadata["otter"] = own.metadata["otter"]
    if not lab:
        raise Refused(f"{NO_SHEET}: a notebook that names no lab")
    if lab not in known:
        raise Refused(f"{NO_SHEET}: a notebook that names another lab, {lab[:40]!r}")
    return lab


def marked(content: bytes, archives: dict[str, Path], env: dict[str, str]) -> Marks:
    """The marks of a sheet; any failure becomes a status."""
    marks = Marks()
    try:
        notebook = opened(content)
        marks.lab = lab_of(notebook, archives)
    except Refused as refused:
        marks.status = str(refused)
        return marks
    notebook.metadata["kernelspec"] = chapters.KERNELSPEC  # another editor may have named its own
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            fill(marks, run(notebook, archives[marks.lab], Path(folder), env))
    except Refused as refused:
        marks.status = str(refused)
    except Exception as error:  # an error in one sheet must not stop the others
        marks.status = f"not marked: {type(error).__name__}"
    return marks


def run(
    notebook: nbformat.NotebookNode, archive: Path, folder: Path, env: dict[str, str]
) -> dict[str, Any]:
    """The results of otter-grader, in an empty folder and within limits."""
    work, out = folder / "work", folder / "out"
    for place in (work, out):
        place.mkdir()
    nbformat.write(notebook, work / "sheet.ipynb")
    own = env | dict.fromkeys(("HOME", "TMPDIR", "TMP"), str(work))
    otter = ["run", "-a", str(archive), "-o", str(out), "--no-logo", "sheet.ipynb"]
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *otter], cwd=work, env=own, stdin=subprocess.DEVNULL,
            stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
                process.send_signal(signal.SIGINT)  # it then ends its kernel, too
                process.wait(10)
            raise Refused(f"stopped after {LONGEST} seconds") from None
        finally:
            with contextlib.suppress(OSError, AttributeError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
    if code:
        last = (folder / "said").read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise Refused(": ".join([f"otter-grader ended with {code}", *last])[:250])
    return results_of(out / "results.json")


def results_of(path: Path) -> dict[str, Any]:
    """The results in the grader's file, if it is valid."""
    if not path.is_file() or path.is_symlink():
        raise Refused("otter-grader left no results")
    if path.stat().st_size > LARGEST:
        raise Refused("results too large to be the grader's")
    try:
        return {"tests": [*json.loads(path.read_bytes())["tests"]]}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused("results that are not the grader's") from error


def fill(marks: Marks, results: dict[str, Any]) -> None:
    """Points of the questions that the lab has, at most what each is worth."""
    found = {test.get("name"): test for test in results["tests"] if isinstance(test, dict)}
    asked = questions(marks.lab)
    if strange := {str(n) for n, test in found.items() if "max_score" in test} - set(asked):
        raise Refused(f"results with questions that the lab lacks: {sorted(strange)[0][:40]}")
    for question, worth in asked.items():
        test = found.get(question, {})
        score, most = float(test.get("score", 0)), float(test.get("max_score", worth))
        if most != worth or not 0 <= score <= worth:
            raise Refused(f"results that the archive does not offer: {question} {score:g}/{most:g}")
        marks.points[question], marks.possible[question] = score, worth
        marks.said[question] = str(test.get("output", ""))[:20_000]


def grade(folder: Path, again: bool = False) -> list[dict[str, Any]]:
    """Mark every notebook below a folder: grades.csv, and a page beside each sheet.

    again  also sheets that grades.csv already has
    raises  ValueError if grades.csv cannot be read; then nothing is run or written
    """
    given = files.contents(folder)  # all are read before the first one runs
    if not given:
        sys.exit(f"{folder}: no file in it")
    table = grades.Table(folder, again, {w: mark_of(content) for w, (_, content) in given.items()})
    new = {w: file for w, file in given.items() if not table.knows(w, mark_of(file[1]))}
    sheets = {where: content for where, (_, content) in new.items() if isinstance(content, bytes)}
    for where in [where for where in new if where not in sheets]:
        said(table, where, new[where], Marks(status=str(new[where][1])))
    env = {n: value for n, value in chapters.own_settings().items() if n.startswith(KEPT)}
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(2) as pool:
        archives = {
            s.stem: autograder.archive(s.stem, Path(made, f"{s.stem}.zip")) for s in labs.sources()
        }
        jobs = {pool.submit(marked, sheets[where], archives, env): where for where in sheets}
        for job in as_completed(jobs):
            said(table, jobs[job], new[jobs[job]], job.result())
    for where in given.keys() - new.keys():
        follow(table.rows[where], given[where][0])
    table.write()  # also if nothing is new: names that have suffered are right again
    before = len(given) - len(new)
    print(f"{table.path}: {len(given)} files, {before} marked before; a page beside each sheet")
    return [table.rows[where] for where in given]


def said(table: grades.Table, where: str, given: Content, marks: Marks) -> None:
    """The page for the student, and the row of the table."""
    sheet, content = given
    if marks.lab or named(sheet):
        marks.status += files.leave_page(sheet, page(shown(sheet.name), marks.row(), marks.said))
    row = marks.row() | {"student": grades.student(where), "file": where}
    table.add({**row, "sha256": mark_of(content)})
    print(f"{where}  {marks.status}, {row['points']:g} of {row['possible']:g}", flush=True)


def follow(row: dict[str, Any], sheet: Path) -> None:
    """Write the page again if somebody has changed the line: a mark of a question, or the points.

    Points that stand as before follow the marks of the questions.
    """
    if not (row["lab"] or named(sheet)) or "(no page: " in row["status"]:
        return
    before = files.page_of(sheet)
    held = {q: (points, html.unescape(said)) for q, points, said in TOLD.findall(before)}
    total = re.search(r": (\S+) of \S+ points", before)
    if total and row["lab"] and html.unescape(total[1]) == grades.written(row["points"]):
        now = {q: grades.amount(row.get(q)) or 0 for q in questions(row["lab"])}
        old = {q: grades.amount(held[q][0]) or 0 if q in held else 0 for q in now}
        if now != old:
            points = (grades.amount(row["points"]) or 0) + sum(now.values()) - sum(old.values())
            row["points"] = grades.written(points)
    text = page(shown(sheet.name), row, {q: said for q, (_, said) in held.items()})
    if text.partition("\n")[2] != before:
        files.leave_page(sheet, text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Mark the sheets of a class.")
    parser.add_argument("folder", type=Path, help="of what was handed in, in any depth")
    parser.add_argument("--again", action="store_true", help="also sheets that have marks")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # any name
    try:
        grade(args.folder.expanduser(), args.again)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
