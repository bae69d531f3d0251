"""Labs: the solution passes every check, the untouched student's copy passes none, hints help."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

import labs

pytestmark = pytest.mark.usefixtures("own_settings")
SOURCES = labs.sources()
NAMES = [source.stem for source in SOURCES]
REPORT = """
import json
found = {}
for question in %s:
    results = grader.check(question).test_case_results
    found[question] = [[r.test_case.name, r.passed, r.test_case.failure_message] for r in results]
print("REPORT", json.dumps(found))
"""


@pytest.fixture(scope="module")
def made():
    """Both notebooks of every lab: (student's copy, solution)."""
    return {source.stem: labs.assign(source) for source in SOURCES}


def run(notebook, folder, *, errors: bool):
    """Results of every check after the notebook ran: question -> [name, passed, hint]."""
    folder.mkdir()
    name = "lab.ipynb"
    notebook.cells[0].source = f'import otter\ngrader = otter.Notebook("{name}")'
    questions = sorted(notebook.metadata["otter"]["tests"])
    notebook.cells.append(nbformat.v4.new_code_cell(REPORT % questions))
    nbformat.write(notebook, folder / name)
    client = NotebookClient(
        notebook, timeout=300, allow_errors=errors, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    text = "".join(out.text for out in notebook.cells[-1].outputs if out.output_type == "stream")
    return json.loads(text.partition("REPORT ")[2].splitlines()[0])


def test_there_is_a_lab_for_every_method():
    assert [name[:2] for name in NAMES] == ["02", "03", "04", "05", "06", "07", "08", "09"]


@pytest.mark.parametrize("name", NAMES)
def test_solution_passes_every_check(made, name, tmp_path):
    results = run(made[name][1], tmp_path / "solution", errors=False)
    assert [(q, case) for q, cases in results.items() for case in cases if not case[1]] == []


@pytest.mark.parametrize("name", NAMES)
def test_untouched_copy_fails_every_check_and_each_hint_helps(made, name, tmp_path):
    results = run(made[name][0], tmp_path / "student", errors=True)
    assert len(results) >= 6
    assert [(q, case) for q, cases in results.items() for case in cases if case[1]] == []
    for cases in results.values():
        assert all("look at" in (hint or "").lower() for _, _, hint in cases)


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_student_copy_is_generated_from_the_source(source):
    stored = labs.STUDENT / f"{source.stem}.ipynb"
    student, _ = labs.assign(source)
    assert stored.read_text(encoding="utf-8") == labs.chapters.serialise(student), "run: make labs"


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_lab_has_goal_timing_and_hidden_solutions(source):
    text = source.read_text(encoding="utf-8")
    for part in ("**Goal.**", "**Before the lab.**", "| minutes | what |", "## Before you leave"):
        assert part in text, part
    stored = (labs.STUDENT / f"{source.stem}.ipynb").read_text(encoding="utf-8")
    assert "SOLUTION" not in stored
