"""A class: sheets are handed out, written into, renamed, run, handed in and marked, offline."""

import csv
import html
import io
import json
import re
import zipfile

import nbformat
import pytest
import yaml
from hostile_sheets import ENDLESS, FILES, HOSTILE, SPY, WRONG_RESULTS

import autograder
import chapters
import classroom
import grades
import labs
import marking

pytestmark = pytest.mark.usefixtures("own_settings")
LAB = "04_cgsv"
HALF_WAY = {"first = ...": "first = rows // 5", "opponent = ...": "opponent = [[1.0, 0.0]] * 3"}
HALF_WAY["apart = ..."] = "print(angle)"  # and stopped there: nothing is set
RIGHT = {"mean_cosine = ...": "mean_cosine = 0.4", "wrong = ...": 'wrong = {"a", "c"}'}


@pytest.fixture(scope="module", autouse=True)
def alone():
    """Whatever asks for another machine is sent to a port where nobody listens."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")
        patch.setenv("PYTHONPATH", str(chapters.ROOT))
        patch.setenv("SECRET", "of the teacher")
        yield patch


def answered(notebook, answers, last=""):
    """The sheet with some lines written over, and one more cell."""
    text = nbformat.writes(notebook)
    for dots, answer in answers.items():
        assert dots in text
        text = text.replace(dots, answer.replace('"', '\\"'))
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(last))
    return notebook


def sheet_of(name):
    return nbformat.read(labs.STUDENT / f"{name}.ipynb", as_version=4)


def test_nothing_overwrites_what_a_student_wrote(tmp_path, capsys, monkeypatch):
    classroom.sheets(tmp_path, ["ann", "ben"])
    mine, untouched = (tmp_path / name / f"{LAB}.ipynb" for name in ("ann", "ben"))
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
    monkeypatch.setattr(labs, "STUDENT", mine.parent)  # as if the book's own copy was used
    monkeypatch.setattr(labs, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(labs, "sources", lambda: [labs.LABS / f"{LAB}.md"])
    monkeypatch.setattr("sys.argv", ["labs.py"])
    labs.main()
    assert mine.read_text(encoding="utf-8") == written
    with pytest.raises(SystemExit, match="outside"):
        classroom.sheets(chapters.BUILD / "class", [])


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """What a class hands in, honest and not, and how it was marked: (folder, rows by student)."""
    folder = tmp_path_factory.mktemp("class") / ".hidden above" / "handed in"
    student, solution = labs.assign(labs.LABS / f"{LAB}.md")
    half = answered(student, RIGHT | HALF_WAY, "1 / 0")
    half.metadata["kernelspec"] = {"name": "an-editor-s-own", "display_name": "Other"}
    half.metadata["otter"]["tests"] = dict.fromkeys(student.metadata["otter"]["tests"], "")
    strange = answered(student, RIGHT)
    strange.metadata["otter"]["assignment_name"] = "../../04_cgsv"
    sheets = {name: answered(student, RIGHT, last) for name, (last, _) in HOSTILE.items()}
    sheets |= {"dee/.ipynb_checkpoints/old": student, "ann/my lab (final)": solution}
    sheets |= {"ben/deep/er/cgsv": half, "strange": strange, 240 * "x": student}
    bare = answered(student, RIGHT)
    bare.metadata = {}  # an editor or a filter has thrown them away
    sheets["bare"] = bare
    sheets["spy"] = answered(student, RIGHT | {"mean_cosine = ...": SPY})
    for where, notebook in sheets.items():
        path = folder / f"{where}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
    for name, (content, _) in FILES.items():
        (folder / f"{name}.ipynb").write_bytes(content)
    wide = nbformat.writes(answered(student, RIGHT)).encode("utf-16")
    (folder / "wide.ipynb").write_bytes(wide)
    (folder / "folder.ipynb").mkdir()
    (folder / "link.ipynb").symlink_to("/etc/passwd")
    (folder / "spy.ipynb.marks.html").mkdir()  # where its page should lie
    return folder, {row["student"]: row for row in marking.grade(folder)}


def test_a_name_that_the_console_cannot_write(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["classroom.py", "sheets", str(tmp_path), "Łódź O'Neil"])
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    classroom.main()
    assert len([*(tmp_path / "Łódź O'Neil").glob("*.ipynb")]) == len(labs.sources())


def test_one_lab_is_handed_out_to_names_with_spaces(tmp_path, monkeypatch):
    names = tmp_path / "names.txt"
    names.write_text("ann\nben meyer\n", encoding="utf-8")
    for given in ("ann, ben meyer", str(names)):
        room = tmp_path / f"room of {len(given)}"
        monkeypatch.setattr("sys.argv", ["classroom.py", "sheets", str(room), given, "4"])
        classroom.main()
        found = sorted(path.relative_to(room).as_posix() for path in room.rglob("*.ipynb"))
        assert found == [f"ann/{LAB}.ipynb", f"ben meyer/{LAB}.ipynb"]
    names.write_text("\ufeffMeyer, Ben\r\n\r\nann\r\n", encoding="utf-8")
    assert classroom.people(str(names)) == ["Meyer, Ben", "ann"]  # a line is a name
    for outside in ("../x", "ann, ..", "a\\b"):
        with pytest.raises(SystemExit, match="nothing was written"):
            classroom.people(outside)
    with pytest.raises(SystemExit, match=r"LAB is one of 1, .*, 12, 13, 14, not '11'"):
        classroom.sheets(room, [], "11")


def test_one_table_and_a_page_each(handed_in):
    folder, rows = handed_in
    with open(folder / "grades.csv", encoding="utf-8-sig", newline="") as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    assert len(table) == len(rows)
    assert {"ann", "ben"} < {*rows}
    assert "dee" not in rows
    assert (rows["ann"]["points"], rows["ann"]["possible"]) == (8, 8)  # no figure was moved here
    assert (rows["ben"]["points"], rows["ben"]["q4"], rows["ben"]["q8"]) == (2, 1, 1)
    assert rows["ben"]["possible"] == 8  # the book's own checks count, not what is left in a file
    page = (folder / "ben" / "deep" / "er" / "cgsv.ipynb.marks.html").read_text(encoding="utf-8")
    assert "2 of 8 points" in page
    assert "not answered yet" in page
    assert page.count("Hint 1 of 3: Look at the column of cosines") == page.count("Hint ") == 1
    raised = {
        "q3": "its cell raised NameError: name 'angle' is not defined",
        "q6": "the cell that sets first raised NameError: name 'rows' is not defined",
    }
    told = "; ".join(f"{question}: {error}" for question, error in raised.items())
    assert rows["ben"]["raised"] == table["ben"]["raised"] == told
    for question, error in raised.items():
        assert html.escape(error) in page.partition(f"<td>{question}")[2].partition("<tr>")[0]


def test_a_hostile_sheet_costs_nobody_else_their_marks(handed_in):
    folder, rows = handed_in
    for name, (_, status) in (HOSTILE | FILES).items():
        assert re.search(status, rows[name]["status"]), rows[name]
        assert float(rows[name]["points"]) <= 2, rows[name]
    assert (rows["spy"]["points"], rows["raises"]["points"]) == (1, 2)
    assert (folder / "spy.ipynb.marks2.html").is_file()
    assert rows[240 * "x"]["status"].startswith("graded (no page: ")
    assert rows["strange"]["status"].endswith("that names another lab, '../../04_cgsv'")
    for name in ("bare", "wide"):
        assert (rows[name]["status"], rows[name]["points"]) == ("graded", 2), rows[name]
    assert rows["folder"]["status"] == rows["link"]["status"] == "no file: a link or a folder"
    assert "\n,'=1+1" in (folder / "grades.csv").read_text(encoding="utf-8").replace("\r", "")
    for page in folder.rglob("*.html"):
        assert page.is_dir() or "<script" not in page.read_text(encoding="utf-8")


BROKEN = {  # ten ways: what becomes of a sheet, and its status
    "metadata": (lambda text: changed(text, lambda held: held.update(metadata={})), "^graded$"),
    "utf16": (lambda text: text.encode("utf-16"), "^graded$"),
    "utf16 cut": (lambda text: text.encode("utf-16")[:-999], "it is cut off$"),
    "latin": (lambda text: b"\xe4" + text.encode("latin-1", "replace"), "UTF-8 nor UTF-16$"),
    "cut": (lambda text: text[: len(text) // 2].encode(), "it is cut off$"),
    "empty": (lambda text: b"\n", "the file is empty$"),
    "page": (lambda text: b"<html><body>Log in</body></html>", "it is no notebook$"),
    "cells": (lambda text: changed(text, lambda held: held.update(cells=3)), "not those of a"),
    "foreign": (
        lambda text: nbformat.writes(nbformat.v4.new_notebook()).encode(),
        "a notebook that names no lab$",
    ),
    "other": (lambda text: text.replace(f'"{LAB}"', '"other"').encode(), "another lab, 'other'$"),
}


def changed(text, change):
    held = json.loads(text)
    change(held)
    return json.dumps(held).encode()


def resaved(table, encoding, between, marks):
    """The table as a spreadsheet saves it, with marks that a teacher has typed over."""
    rows = [*csv.reader(io.StringIO(grades.decoded(table.read_bytes()).removeprefix("\ufeff")))]
    if len(rows[0]) == 1:
        rows = [*csv.reader(io.StringIO(grades.decoded(table.read_bytes())), delimiter=";")]
        rows[0][0] = rows[0][0].removeprefix("\ufeff")
    for row in rows[1:]:
        for column, mark in marks.get(grades.plain(row[rows[0].index("file")]), {}).items():
            row[rows[0].index(column)] = mark
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=between).writerows(rows)
    table.write_bytes(text.getvalue().encode(encoding, "replace"))


def test_pages_follow_marks_that_were_changed_by_hand(tmp_path, monkeypatch):
    """Twenty sheets, ten of them broken; ten marks changed; saved as ANSI and as UTF-8."""
    asked = marking.questions(LAB)

    def run(notebook, archive, folder, env):
        """Every second question is right, and a check has said something."""
        found = [(q, float(k % 2), worth) for k, (q, worth) in enumerate(asked.items())]
        return {"tests": [{"name": q, "score": p, "max_score": m, "output": f"<{q}> said"}
                          for q, p, m in found]}  # fmt: skip

    monkeypatch.setattr(marking, "run", run)
    text = nbformat.writes(sheet_of(LAB))
    whole = ["Müller", "Łódź", "O'Neil", "Çelik", "ann", "ben", "Ååberg", "=1+1", "eva", "Ñuñez"]
    made = {name: text.encode() for name in whole}
    made |= {name: spoil(text) for name, (spoil, _) in BROKEN.items()}
    for k, (name, content) in enumerate(made.items()):  # each file is another one
        (tmp_path / name).mkdir()
        (tmp_path / name / "lab.ipynb").write_bytes(
            content + b" " * k if content.isascii() else content
        )
    first = {row["student"]: row for row in marking.grade(tmp_path)}
    assert len(first) == 20
    for name, (_, status) in BROKEN.items():
        assert re.search(status, first[name]["status"]), (name, first[name]["status"])
    by_hand = {f"{name}/lab.ipynb": {"q1": "1", "q2": "0,5"} for name in whole[:4]}
    by_hand |= {f"{name}/lab.ipynb": {"points": "7"} for name in whole[4:7]}
    by_hand |= {"=1+1/lab.ipynb": {"q3": "excused"}, "cut/lab.ipynb": {"points": "2"}}
    by_hand["empty/lab.ipynb"] = {"status": "handed in on paper"}
    assert len(by_hand) == 10
    table = tmp_path / "grades.csv"
    for encoding, between, marks in (("cp1252", ";", by_hand), ("utf-8", ",", {})):
        resaved(table, encoding, between, marks)
        marking.grade(tmp_path)
        rows = grades.Table(tmp_path).rows
        assert {*rows} == {f"{name}/lab.ipynb" for name in made}
        for where, marks in by_hand.items():
            assert {name: rows[where][name] for name in marks} == marks
        assert [rows[f"{name}/lab.ipynb"]["points"] for name in whole[:4]] == ["4.5"] * 4
        for where, row in rows.items():
            shown = (tmp_path / f"{where}.marks.html").read_text(encoding="utf-8")
            assert not (tmp_path / f"{where}.marks2.html").exists()
            points, possible = grades.written(row["points"]), grades.written(row["possible"])
            assert f"<p>{html.escape(row['status'])}: {points} of {possible} points" in shown, where
            of = {q: (mark, said) for q, mark, said in marking.TOLD.findall(shown)}
            assert {q: mark for q, (mark, _) in of.items()} == {
                q: grades.written(row[q]) for q in asked if row[q]
            }, where
            assert all(said == f"&lt;{q}&gt; said" for q, (_, said) in of.items())


def test_a_second_call_goes_on_and_an_endless_sheet_is_stopped(handed_in, monkeypatch):
    folder, rows = handed_in
    before = grades.Table(folder, False).rows
    for name, (last, _) in ENDLESS.items():
        nbformat.write(answered(sheet_of(LAB), RIGHT, last), folder / f"{name}.ipynb")
    monkeypatch.setattr(marking, "LONGEST", 20)
    found = {row["student"]: row for row in marking.grade(folder)}
    after = grades.Table(folder, False).rows
    assert {name: after[name] for name in before} == before
    assert found.keys() - rows.keys() == ENDLESS.keys()
    for name, (_, status) in ENDLESS.items():
        assert re.search(status, found[name]["status"]), found[name]


def test_a_question_counts_what_its_lab_says_and_ten_stands_behind_nine(tmp_path):
    for source in labs.sources():
        text = source.read_text(encoding="utf-8")
        offered = dict(re.findall(r"^name: (q\d+)\npoints: (\d+)$", text, re.MULTILINE))
        assert marking.questions(source.stem) == {q: int(p) for q, p in offered.items()}
    table, asked = grades.Table(tmp_path, False), [f"q{k}" for k in range(1, 11)]
    assert [*marking.questions("12_replication")] == asked
    for where, last in (("ann", 8), ("ben", 10)):
        points = {f"q{k}": 1 for k in (10, *range(1, 10)) if k <= last}
        table.add({"student": where, "file": where, **points, "sha256": "0"})
    header = (tmp_path / "grades.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == grades.MARK + ",".join([*grades.FIRST, *asked, "sha256"])


@pytest.mark.parametrize("text", WRONG_RESULTS)
def test_results_that_the_archive_does_not_offer_are_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    with pytest.raises(marking.Refused, match=WRONG_RESULTS[text]):
        marking.fill(marking.Marks(lab=LAB), marking.results_of(tmp_path / "results.json"))


def test_autograder_for_gradescope(tmp_path):
    made = autograder.archive(LAB, tmp_path / "grader.zip", alone=True)
    with zipfile.ZipFile(made) as held:
        names = set(held.namelist())
        assert {"run_autograder", "setup.sh", "files/fedlab_bench/__init__.py"} <= names
        (*_, needs) = yaml.safe_load(held.read("environment.yml"))["dependencies"]
        pins = (chapters.ROOT / "requirements.txt").read_text(encoding="utf-8").split()
        assert "torch" in [need.partition("==")[0] for need in needs["pip"]]
        assert {need for need in needs["pip"] if not need.startswith("otter-grader[")} <= {*pins}
        assert json.loads(held.read("otter_config.json"))["assignment_name"] == LAB
        tests = {f"tests/{name}.py" for name in sheet_of(LAB).metadata["otter"]["tests"]}
        assert tests == {name for name in names if name.startswith("tests/")}


def test_a_machine_is_ready_or_says_what_is_wrong(monkeypatch, capsys):
    row = {"lab": LAB, "status": "otter-grader stopped", "points": 0, "possible": 0, "student": ""}
    monkeypatch.setattr(marking, "grade", lambda folder: [row])
    with pytest.raises(SystemExit, match=r"not ready.*stopped"):
        classroom.ready()
    first = sheet_of(labs.sources()[0].stem)
    row |= {"status": "graded", "possible": len(first.metadata["otter"]["tests"])}
    classroom.ready()
    assert "is ready" in capsys.readouterr().out


def test_notes_for_the_board_name_sections_of_their_chapters():
    board = (chapters.ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    for source, notes in zip(chapters.numbered(), board.split("\n## Chapter ")[1:], strict=True):
        pages = [source, *source.parents[1].glob(f"evidence/{source.name}")]
        text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
        titles = re.findall(r"^#{2,3} (.*)$", text, re.MULTILINE)
        named = re.findall(r"^\| ([^|]+) \|", notes, re.MULTILINE)[1:]
        assert len(named) >= 5
        assert set(named) <= set(titles), set(named) - set(titles)


def test_the_teachers_key_has_the_letters_of_each_lab():
    page = (chapters.ROOT / "book" / "teaching.md").read_text(encoding="utf-8")
    for source in labs.sources():
        text = source.read_text(encoding="utf-8")
        title = re.search(r"^# (Lab \d+\. .*)$", text, re.MULTILINE)[1]
        (part,) = re.findall(
            rf"^### {re.escape(title)}\n(.*?)^:::$", page, re.MULTILINE | re.DOTALL
        )
        told = dict(re.findall(r"^\*\*Q(\d+):\*\* ([a-e](?:, [a-e])*)[;.]", part, re.MULTILINE))
        blocks = dict(
            re.findall(r"^name: q(\d+)\n(.*?)# END QUESTION$", text, re.MULTILINE | re.DOTALL)
        )
        keys = {question: labs.CHOICE.search(block) for question, block in blocks.items()}
        right = {question: ", ".join(found[2]) for question, found in keys.items() if found}
        assert told == right != {}, source.stem
