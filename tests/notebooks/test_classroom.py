"""A class: sheets are handed out, written into, renamed, run, handed in and marked, offline."""

import csv
import html
import json
import os
import re
import subprocess
import sys
import zipfile

import hostile_sheets
import nbformat
import pytest
import yaml
from hostile_sheets import HONEST, HOSTILE, WRONG_RESULTS

import autograder
import chapters
import classroom
import grades
import labs
import marking
import processes

pytestmark = pytest.mark.usefixtures("own_settings")
LAB = "04_cgsv"
LONG = 240 * "x"  # as a name, with no room for more
LONGEST = 240  # seconds for a sheet, where all cases run
NAMES = [source.stem for source in labs.sources()]
HALF_WAY = {"first = ...": "first = rows // 5", "opponent = ...": "opponent = [[1.0, 0.0]] * 3"}
HALF_WAY["apart = ..."] = "print(angle)"  # and stopped there: nothing is set
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
    half = answered(student, RIGHT | HALF_WAY)
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
        rows = marking.grade(folder)
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
    assert "Traceback" not in page
    assert {table["ann"]["raised"], table["eve"]["raised"]} == {""}


def test_question_ten_stands_behind_question_nine(tmp_path):
    asked = marking.questions("12_replication")
    assert [*asked] == [f"q{k}" for k in range(1, 11)]
    table = grades.Table(tmp_path, False)
    for where, last in (("ann", 8), ("ben", 10)):
        points = {f"q{k}": 1 for k in (10, *range(1, 10)) if k <= last}
        table.add({"student": where, "file": where, **points, "sha256": "0"})
    header = (tmp_path / "grades.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join([*grades.FIRST, *asked, "sha256"])


@pytest.fixture(scope="module", autouse=True)
def sheets_of_these_tests():
    """Tests that run beside these mark sheets, too: theirs have another name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "OWNER", f"{processes.OWNER}_{os.getpid()}")
        yield


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """Hostile sheets and broken files between honest ones: (folder, rows by student, peak)."""
    folder = tmp_path_factory.mktemp("hostile")
    student, solution = labs.assign(labs.LABS / f"{LAB}.md")
    (folder / "anna").mkdir()
    nbformat.write(solution, folder / "anna" / "lab.ipynb")
    for name in ("zoe", *HONEST):
        nbformat.write(answered(student, RIGHT), folder / f"{name}.ipynb")
    for name in HOSTILE:
        sheet = hostile_sheets.sheet(name, answered(student, RIGHT))
        nbformat.write(sheet, folder / f"{name}.ipynb")
    for name, (content, _) in hostile_sheets.FILES.items():
        (folder / f"{name}.ipynb").write_bytes(content)
    strange = hostile_sheets.another_lab(answered(student, RIGHT), "../../04_cgsv")
    nbformat.write(strange, folder / "strange.ipynb")
    (folder / "folder.ipynb").mkdir()
    (folder / "link.ipynb").symlink_to("/etc/passwd")
    (folder / "zoe.ipynb.marks.html").mkdir()  # where her page should lie
    nbformat.write(answered(student, RIGHT), folder / f"{LONG}.ipynb")
    peak = hostile_sheets.Peak()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(chapters.ROOT))
        patch.setenv("SECRET", "of the teacher")
        patch.setattr(marking, "LONGEST", LONGEST if hostile_sheets.ALL else marking.LONGEST)
        peak.start()
        rows = marking.grade(folder)
        peak.ended.set()
    return folder, {row["student"]: row for row in rows}, peak.bytes


def test_a_hostile_sheet_costs_nobody_else_their_marks(attacked):
    folder, rows, peak = attacked
    for row in sorted(rows.values(), key=lambda row: row["student"]):
        print(f"{row['student'][:20]:20} {row['points']:g} of {row['possible']:g}  {row['status']}")
    print(f"peak {peak / 2**30:.2f} GiB")
    assert (rows["anna"]["points"], rows["anna"]["status"]) == (8, "graded")
    assert rows["zoe"]["points"] == 2
    assert rows["zoe"]["status"] == "graded"
    assert (folder / "zoe.ipynb.marks2.html").is_file()
    assert rows[LONG]["status"].startswith("graded (no page: ")
    for name in HONEST:
        assert (rows[name]["points"], rows[name]["status"]) == (2, "graded"), rows[name]
    for name, (_, status) in HOSTILE.items():
        assert re.search(status, rows[name]["status"]), (name, rows[name])
        assert float(rows[name]["points"]) <= 2, rows[name]
    for name, (_, status) in hostile_sheets.FILES.items():
        assert rows[name]["status"] == status, (name, rows[name])
    assert rows["strange"]["status"] == hostile_sheets.NO_SHEET
    assert rows["folder"]["status"] == rows["link"]["status"] == "no file: a link or a folder"
    text = (folder / "grades.csv").read_text(encoding="utf-8")
    assert "\n'=1+1" in text.replace("\r", "")
    for page in folder.rglob("*.html"):
        assert page.is_dir() or "<script" not in page.read_text(encoding="utf-8")


def test_a_process_in_a_session_of_its_own_ends_with_its_sheet():
    code = "import os, time; os.fork() or os.setsid(); print(flush=True); time.sleep(600)"
    env = {**os.environ, processes.OWNER: "a sheet"}
    started = {"env": env, "stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen([sys.executable, "-c", code], **started) as process:
        assert process.stdout.readline() == process.stdout.readline() == b"\n"
        processes.end(process, "another sheet")
        (left,) = hostile_sheets.left_behind("a sheet")
        processes.end(process, "a sheet")
        left.wait(10)
    assert hostile_sheets.left_behind("a sheet") == []


def test_nothing_of_a_sheet_is_left_and_memory_is_bounded(attacked):
    assert hostile_sheets.left_behind() == []
    assert attacked[2] < 2 * 2**30
    if hostile_sheets.ALL:
        assert len(HONEST) + 2 == 10
        assert len(HOSTILE) + len(hostile_sheets.FILES) >= 20


def test_a_second_call_goes_on_and_marks_what_is_new(attacked, monkeypatch):
    folder, *_ = attacked
    runs = []
    monkeypatch.setattr(
        marking, "marked", lambda content, *_: runs.append(content) or marking.Marks()
    )
    marking.grade(folder)
    assert runs == []
    nbformat.write(sheet_of(LAB), folder / "late.ipynb")
    before = {row["file"]: row for row in grades.Table(folder, False).rows.values()}
    marking.grade(folder)
    assert len(runs) == 1
    after = grades.Table(folder, False).rows
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("lab", NAMES)
def test_a_right_sheet_gets_what_its_questions_are_worth(lab):
    text = (labs.LABS / f"{lab}.md").read_text(encoding="utf-8")
    offered = dict(re.findall(r"^name: (q\d+)\npoints: (\d+)$", text, re.MULTILINE))
    results = [{"name": q, "score": int(p), "max_score": int(p)} for q, p in offered.items()]
    marks = marking.Marks(lab=lab)
    marking.fill(marks, {"tests": results})
    assert marks.points == marks.possible == {q: int(p) for q, p in offered.items()}


@pytest.mark.parametrize("what", WRONG_RESULTS)
def test_results_that_the_archive_does_not_offer_are_refused(tmp_path, what):
    text, why = WRONG_RESULTS[what]
    (tmp_path / "results.json").write_text(text, encoding="utf-8")
    marks = marking.Marks(lab=LAB)
    with pytest.raises(marking.Refused, match=why):
        marking.fill(marks, marking.results_of(tmp_path / "results.json"))


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
    nbformat.write(answered(sheet_of(LAB), RIGHT), tmp_path / "mine.ipynb")
    content = (tmp_path / "mine.ipynb").read_bytes()
    row = marking.marked(content, {LAB: made}, chapters.own_settings()).row()
    assert (row["status"], row["points"]) == ("graded", 2)


def test_an_autograder_holds_what_its_lab_imports(tmp_path):
    made = autograder.archive("12_replication", tmp_path / "grader.zip", alone=True)
    with zipfile.ZipFile(made) as held:
        names = {name.removeprefix("files/") for name in held.namelist()}
    assert {"fedlab_mini/__init__.py", "studies/ledger.py", "data/ledger.csv"} <= names
    assert "data/results/cgsv-steps.csv" in names
    assert not [name for name in names if "/parts/" in name]


def test_a_machine_is_ready_or_says_what_is_wrong(monkeypatch, capsys):
    row = {"lab": LAB, "status": "otter-grader stopped", "points": 0, "possible": 0, "student": ""}
    monkeypatch.setattr(marking, "grade", lambda folder: [row])
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
