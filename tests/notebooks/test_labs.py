"""Labs: the solution passes every check, the untouched student's copy passes none, hints help."""

import contextlib
import io

import nbformat
import pytest
from nbclient import NotebookClient

import labs

pytestmark = pytest.mark.usefixtures("own_settings")
GRADER = 'Notebook("lab.ipynb")'
SOURCES = labs.sources()
NAMES = [source.stem for source in SOURCES]


@pytest.fixture(scope="module")
def made():
    """Both notebooks of every lab: (student's copy, solution)."""
    return {source.stem: labs.assign(source) for source in SOURCES}


def results(grader, questions, names=None):
    """Every check's result: question -> [name, passed, hint]."""
    found = {}
    for question in questions:
        cases = grader.check(question, global_env=names).test_case_results
        found[question] = [(c.test_case.name, c.passed, c.test_case.failure_message) for c in cases]
    return found


def run(notebook, folder, *, errors: bool):
    """`results` after all cells ran one after the other, in this process: that saves 16 kernels."""
    folder.mkdir()
    nbformat.write(notebook, folder / "lab.ipynb")
    names = {"__name__": "__main__", "display": lambda *shown: None}
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        for cell in notebook.cells:
            source = cell.source.replace(f'Notebook("{stem(notebook)}.ipynb")', GRADER)
            if cell.cell_type != "code":
                continue
            try:
                exec(compile(source, "cell", "exec"), names)
            except Exception:
                if not errors:
                    raise
        return results(names["grader"], sorted(notebook.metadata["otter"]["tests"]), names)


def stem(notebook):
    """The name under which the notebook's first cell starts the grader."""
    return notebook.cells[0].source.partition('Notebook("')[2].partition(".ipynb")[0]


def test_there_is_a_lab_for_every_method():
    assert [name[:2] for name in NAMES] == ["02", "03", "04", "05", "06", "07", "08", "09"]


@pytest.mark.parametrize("name", NAMES)
def test_solution_passes_every_check(made, name, tmp_path):
    found = run(made[name][1], tmp_path / "solution", errors=False)
    assert [(q, case) for q, cases in found.items() for case in cases if not case[1]] == []


@pytest.mark.parametrize("name", NAMES)
def test_untouched_copy_fails_every_check_and_each_hint_helps(made, name, tmp_path):
    found = run(made[name][0], tmp_path / "student", errors=True)
    assert len(found) >= 6
    assert [(q, case) for q, cases in found.items() for case in cases if case[1]] == []
    for cases in found.values():
        assert all("look at" in (hint or "").lower() for _, _, hint in cases)


def test_a_lab_works_in_jupyter_as_well(made, tmp_path):
    notebook = made["04_cgsv"][1]
    nbformat.write(notebook, tmp_path / "04_cgsv.ipynb")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = [
        output.data["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.source.startswith("grader.check(")
        for output in cell.outputs
    ]
    assert len(said) == len(notebook.metadata["otter"]["tests"])
    assert all("passed" in text for text in said), said


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
