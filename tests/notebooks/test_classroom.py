"""A class: sheets are handed out, written into, renamed, run, handed in and marked, offline."""

import csv
import json
import os
import re
import zipfile

import nbformat
import pytest

import chapters
import classroom
import labs

pytestmark = pytest.mark.usefixtures("own_settings")
LAB = "04_cgsv"
NAMES = [source.stem for source in labs.sources()]
RIGHT = {"mean_cosine = ...": "mean_cosine = 0.4", "wrong = ...": 'wrong = {"a", "c"}'}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Whatever asks for another machine is sent to a port where nobody listens."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(chapters.ROOT)]))


def answered(notebook, answers):
    """The sheet with some lines written over."""
    text = nbformat.writes(notebook)
    for dots, answer in answers.items():
        assert dots in text
        text = text.replace(dots, answer.replace('"', '\\"'))
    return nbformat.reads(text, as_version=4)


def sheet_of(name):
    return nbformat.read(labs.STUDENT / f"{name}.ipynb", as_version=4)


def test_nothing_overwrites_what_a_student_wrote(tmp_path, capsys, monkeypatch):
    classroom.sheets(tmp_path, ["ann", "ben"])
    mine, untouched = tmp_path / "ann" / f"{LAB}.ipynb", tmp_path / "ben" / f"{LAB}.ipynb"
    written = nbformat.writes(answered(sheet_of(LAB), RIGHT))
    mine.write_text(written, encoding="utf-8")
    run = nbformat.read(untouched, as_version=4)
    run.cells[2].execution_count = 7  # run, not written into
    nbformat.write(run, untouched)
    capsys.readouterr()
    classroom.sheets(tmp_path, ["ann", "ben"])
    assert mine.read_text(encoding="utf-8") == written
    assert untouched.read_text(encoding="utf-8") == chapters.serialise(sheet_of(LAB))
    assert re.findall("(.*): kept", capsys.readouterr().out) == [str(mine)]

    monkeypatch.setattr(labs, "STUDENT", tmp_path / "ann")  # as if the book's own copy was used
    monkeypatch.setattr(labs, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(labs, "sources", lambda: [labs.LABS / f"{LAB}.md"])
    monkeypatch.setattr("sys.argv", ["labs.py"])
    labs.main()
    assert mine.read_text(encoding="utf-8") == written
    mine.write_text("half a file", encoding="utf-8")
    labs.main()
    assert mine.read_text(encoding="utf-8") == "half a file"


def test_a_work_folder_lies_outside_the_book():
    with pytest.raises(SystemExit, match="outside"):
        classroom.sheets(chapters.BUILD / "class", [])


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """Four files that a class hands in, and how they were graded: (folder, rows by student)."""
    folder = tmp_path_factory.mktemp("class") / ".hidden above" / "handed in"
    student, solution = labs.assign(labs.LABS / f"{LAB}.md")
    half = answered(student, RIGHT)
    half.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    half.metadata["kernelspec"] = {"name": "an-editor-s-own", "display_name": "Other"}
    half.metadata["otter"]["tests"] = dict.fromkeys(student.metadata["otter"]["tests"], "")
    for where, notebook in {
        "ann/my lab (final).ipynb": solution,
        "ben/deep/er/cgsv.ipynb": half,
        "dee/.ipynb_checkpoints/old.ipynb": student,
    }.items():
        (folder / where).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / where)
    (folder / "eve.ipynb").write_text("no notebook", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(chapters.ROOT))
        rows = classroom.grade(folder)
    return folder, {row["student"]: row for row in rows}


def test_one_table_and_a_page_each(handed_in):
    folder, rows = handed_in
    with open(folder / "grades.csv", encoding="utf-8", newline="") as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    assert set(table) == set(rows) == {"ann", "ben", "eve"}
    assert (rows["ann"]["points"], rows["ann"]["possible"]) == (8, 8)  # no figure was moved here
    assert (rows["ben"]["points"], rows["ben"]["q4"], rows["ben"]["q8"]) == (2, 1, 1)
    assert rows["ben"]["possible"] == 8  # the book's own checks count, not what is left in a file
    assert table["eve"]["status"] == "no lab sheet of this book"
    page = (folder / "ben" / "deep" / "er" / "cgsv.html").read_text(encoding="utf-8")
    assert "2 of 8 points" in page
    assert "not answered yet" in page
    assert "Look at" in page


def test_autograder_for_gradescope(tmp_path):
    made = classroom.archive(LAB, tmp_path / "grader.zip", alone=True)
    with zipfile.ZipFile(made) as held:
        names = set(held.namelist())
        assert {"run_autograder", "setup.sh", "files/fedlab_mini/__init__.py"} <= names
        assert "torch" in held.read("environment.yml").decode()
        assert json.loads(held.read("otter_config.json"))["assignment_name"] == LAB
        tests = {f"tests/{name}.py" for name in sheet_of(LAB).metadata["otter"]["tests"]}
        assert tests == {name for name in names if name.startswith("tests/")}
    nbformat.write(answered(sheet_of(LAB), RIGHT), tmp_path / "mine.ipynb")
    row, _ = classroom.graded(tmp_path / "mine.ipynb", {LAB: made}, chapters.own_settings())
    assert (row["status"], row["points"]) == ("graded", 2)


def test_a_machine_is_ready_or_says_what_is_wrong(monkeypatch, capsys):
    row = {"lab": LAB, "status": "otter-grader stopped", "points": 0, "possible": 0, "student": ""}
    monkeypatch.setattr(classroom, "grade", lambda folder: [row])
    with pytest.raises(SystemExit, match=r"not ready.*stopped"):
        classroom.ready()
    row |= {"status": "graded", "possible": len(sheet_of(NAMES[0]).metadata["otter"]["tests"])}
    classroom.ready()
    assert "is ready" in capsys.readouterr().out


def minutes(text):
    """How long a first reading takes by the rule in book/teaching.md, in minutes."""
    notebook = chapters.jupytext.reads(text.partition("\n## Exercises")[0], fmt="md:myst")
    total = 0.0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            equations = re.findall(r"\$\$.*?\$\$|```\{math\}.*?```", cell.source, re.DOTALL)
            prose = re.sub(r"\$\$.*?\$\$|```\{math\}.*?```|\$[^$]*\$", " ", cell.source, flags=re.S)
            total += len(equations) + len(re.findall(r"[A-Za-z']{2,}", prose)) / 130
        elif not {"remove-input", "remove-cell", "hide-input"} & set(cell.metadata.get("tags", [])):
            total += sum(map(bool, map(str.strip, cell.source.splitlines()))) / 12
    return total


def test_said_minutes_follow_the_rule():
    teaching = (chapters.ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    table = teaching.split("## How long a chapter takes")[1].split("\n## ")[0]
    said = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    assert [int(number) for number, *_ in said] == list(range(1, len(chapters.numbered()) + 1))
    for source, (_, reading, whole) in zip(chapters.numbered(), said, strict=True):
        text = source.read_text(encoding="utf-8")
        assert abs(int(reading) - minutes(text)) <= 5, f"{source.stem}: {minutes(text):.0f}"
        assert int(whole) == int(reading) + 10 * text.count("{exercise}"), source.stem


def test_notes_for_the_board_name_sections_of_their_chapters():
    board = (chapters.ROOT / "book" / "board.md").read_text(encoding="utf-8")
    for source, notes in zip(chapters.numbered(), board.split("\n## Chapter ")[1:], strict=True):
        titles = re.findall(r"^#{2,3} (.*)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        named = re.findall(r"^\| ([^|]+) \|", notes, re.MULTILINE)[1:]
        assert len(named) >= 5
        assert set(named) <= set(titles), set(named) - set(titles)
