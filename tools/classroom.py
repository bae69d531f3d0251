"""A class: sheets for everybody, what they handed in marked, a machine that is ready.

    python tools/classroom.py sheets DIR [NAME ...]    a sheet of every lab, in a folder each
    python tools/classroom.py grade SUBMISSIONS        grades.csv, and a page a sheet, beside them
    python tools/classroom.py gradescope               an autograder a lab, _build/labs/gradescope
    python tools/classroom.py ready                    whether a lab can be done on this machine

otter-grader runs every sheet again from its first cell, in a kernel of its own, with the checks of
this book and not those that the file carries. Nothing needs a network.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat

import chapters
import labs

LONGEST = 900  # seconds for one sheet
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{max-width:50rem;margin:2rem auto;font:1rem/1.5 sans-serif}}pre{{white-space:pre-wrap}}
td{{border-top:1px solid #888;padding:.4rem;vertical-align:top}}</style>
<h1>{title}</h1><p>{said}</p><table>{rows}</table></html>"""


def sheets(folder: Path, names: list[str]) -> None:
    """Put a sheet of every lab into the folder, or into one folder a name; keep written ones."""
    if folder.resolve().is_relative_to(chapters.ROOT):
        sys.exit(f"{folder} lies in the book's folder; name one outside, such as ~/labs")
    for name in names or ["."]:
        for stored in sorted(labs.STUDENT.glob("*.ipynb")):
            notebook = nbformat.read(stored, as_version=4)
            print(labs.place(notebook, folder / name / stored.name))


def archive(lab: str, target: Path, *, alone: bool = False) -> Path:
    """The autograder for one lab; `alone` also holds the package, as Gradescope needs it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that otter loads
        from otter.generate import main as generate

    stored = nbformat.read(labs.STUDENT / f"{lab}.ipynb", as_version=4)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in stored.metadata["otter"]["tests"].items():
            chapters.write_atomic(Path("tests", f"{name}.py"), text)
        config = {"assignment_name": lab, "show_all_public": True}
        Path("otter_config.json").write_text(json.dumps(config), encoding="utf-8")
        if alone:
            project = tomllib.loads((chapters.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            needs = "\n".join(project["project"]["dependencies"])
            Path("requirements.txt").write_text(needs, encoding="utf-8")
            no_cache = shutil.ignore_patterns("__pycache__")
            shutil.copytree(chapters.ROOT / "fedlab_mini", "fedlab_mini", ignore=no_cache)
        files = ["fedlab_mini"] if alone else []
        generate(output_path=str(target), files=files, python_version="3.12", no_environment=True)
    return target


def graded(sheet: Path, archives: dict[str, Path], env: dict[str, str]) -> tuple[dict, str]:
    """One sheet, run and checked: lab, status, points by question; and a page for its student."""
    row: dict = {"lab": "", "status": "", "points": 0, "possible": 0}
    results: dict = {"tests": []}  # stays so if the sheet is stopped
    try:
        notebook = nbformat.read(sheet, as_version=4)
        row["lab"] = notebook.metadata["otter"]["assignment_name"]
        grader = archives[row["lab"]]
    except Exception:
        row["status"] = "no lab sheet of this book"
        return row, PAGE.format(title=html.escape(sheet.name), said=row["status"], rows="")
    notebook.metadata["kernelspec"] = chapters.KERNELSPEC  # another editor may have named its own
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(notebook, Path(folder, "sheet.ipynb"))
        run = ["run", "-a", str(grader), "-o", folder, "--no-logo", "sheet.ipynb"]
        command = [sys.executable, "-m", "otter", *run]
        try:
            ended = subprocess.run(
                command, cwd=folder, env=env, capture_output=True, text=True, timeout=LONGEST
            )
            results = json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))
            row["status"] = "graded"
        except subprocess.TimeoutExpired:
            row["status"] = f"stopped after {LONGEST} seconds"
        except FileNotFoundError:
            row["status"] = (ended.stderr.strip().splitlines() or ["otter-grader stopped"])[-1]
    lines = []
    for test in (test for test in results["tests"] if "max_score" in test):
        row[test["name"]] = test["score"]
        row["points"] += test["score"]
        row["possible"] += test["max_score"]
        cells = (test["name"], f"{test['score']:g} of {test['max_score']:g}")
        lines.append(
            f"<tr><td>{cells[0]}<td>{cells[1]}<td><pre>{html.escape(test['output'])}</pre>"
        )
    said = f"{row['status']}: {row['points']:g} of {row['possible']:g} points"
    title = html.escape(f"{row['lab']}: {sheet.name}")
    return row, PAGE.format(title=title, said=html.escape(said), rows="\n".join(lines))


def grade(folder: Path) -> list[dict]:
    """Grade every notebook below a folder; grades.csv and a page beside each sheet."""
    found = sorted(folder.rglob("*.ipynb"))
    found = [p for p in found if not any(q[0] == "." for q in p.relative_to(folder).parts)]
    if not found:
        sys.exit(f"{folder}: no notebook (.ipynb) in it")
    env, rows = chapters.own_settings() | {"MPLBACKEND": "agg"}, []
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(2) as pool:
        archives = {s.stem: archive(s.stem, Path(made, f"{s.stem}.zip")) for s in labs.sources()}
        jobs = pool.map(lambda sheet: graded(sheet, archives, env), found)
        for sheet, (row, page) in zip(found, jobs, strict=True):
            where = sheet.relative_to(folder)
            named = {"student": where.parts[0].removesuffix(".ipynb"), "file": where.as_posix()}
            rows.append(named | row)
            chapters.write_atomic(sheet.with_suffix(".html"), page)
            print(f"{where}  {row['status']}, {row['points']:g} of {row['possible']:g}", flush=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with open(folder / "grades.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    print(f"{folder / 'grades.csv'}: {len(rows)} sheets; a page beside each")
    return rows


def ready() -> None:
    """Grade an untouched sheet from beginning to end; a sentence and exit 1 if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        name = labs.sources()[0].stem
        shutil.copy(labs.STUDENT / f"{name}.ipynb", folder)
        (row,) = grade(Path(folder))
    asked = len(nbformat.read(labs.STUDENT / f"{name}.ipynb", 4).metadata["otter"]["tests"])
    if (row["status"], row["points"], row["possible"]) != ("graded", 0, asked):
        sys.exit(f"This machine is not ready: {row}")
    print(f"This machine is ready: {os.uname().nodename if hasattr(os, 'uname') else ''}".strip())


def main() -> None:
    parser = argparse.ArgumentParser(description="Sheets for a class, and their marks.")
    parser.add_argument("what", choices=["sheets", "grade", "gradescope", "ready"])
    parser.add_argument("folder", nargs="?", type=Path, help="of the class, or of submissions")
    parser.add_argument("names", nargs="*", help="one folder a name, for instance a machine")
    args = parser.parse_args()
    if args.what in ("sheets", "grade") and not args.folder:
        parser.error(f"{args.what}: say which folder")
    if args.what == "sheets":
        sheets(args.folder.expanduser(), args.names)
    elif args.what == "grade":
        grade(args.folder.expanduser())
    elif args.what == "ready":
        ready()
    else:
        for source in labs.sources():
            target = labs.SOLUTIONS / "gradescope" / f"{source.stem}.zip"
            print(archive(source.stem, target, alone=True))


if __name__ == "__main__":
    main()
