"""Labs: solutions pass every check, untouched sheets none; no failure or hint says an answer."""

import ast
import contextlib
import importlib.util
import inspect
import itertools
import re
from pathlib import Path

import lab_sheets
import nbformat
import numpy as np
import pytest
import torch
from helpers import unless_passed
from lab_sheets import assigned, check, checked, exception_test, leaks, run, sheet
from nbclient import NotebookClient

import chapters
import labs

# Otter imports ipylab, which names its traits in an old way: whichever test comes first says so.
OLD_TRAITS = "ignore:Traits should be given as instances:DeprecationWarning"
pytestmark = [pytest.mark.usefixtures("own_settings"), pytest.mark.filterwarnings(OLD_TRAITS)]
SOURCES = labs.sources()
NAMES = [source.stem for source in SOURCES]
BY = [Path(module.__file__) for module in (labs, lab_sheets)]
BY += [Path(__file__), Path(labs.__file__).with_name("quiet.py")]


def answers(notebook, names):
    """What a student writes: question -> its checks' arguments that its answer cell binds."""
    found, cell = {}, None
    for block in notebook.cells:
        if "otter_answer_cell" in block.metadata.get("tags", []):
            cell = block
        elif block.source.startswith("grader.check("):
            bound = {node.id for node in ast.walk(ast.parse(cell.source)) if is_store(node)}
            bound |= {n.name for n in ast.parse(cell.source).body if isinstance(n, ast.FunctionDef)}
            asked = re.findall(
                r"^def test_\w+\((.*)\)",
                notebook.metadata["otter"]["tests"][block.source.split('"')[1]],
                re.MULTILINE,
            )
            wanted = {name.strip() for line in asked for name in line.split(",")}
            found[block.source.split('"')[1]] = {n: names[n] for n in sorted(bound & wanted)}
    return found


def is_store(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def wrong(value):
    """An answer of the same kind that is not right."""
    if callable(value):
        return lambda *given: wrong(value(*given))
    if isinstance(value, dict):
        return {key: wrong(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(wrong(x) for x in value)
    if isinstance(value, set):
        return {"z"} if all(isinstance(x, str) for x in value) else {77}
    if isinstance(value, (bool, str)):
        return not value if isinstance(value, bool) else "z"
    return value + 3 if isinstance(value, (int, float, torch.Tensor)) else None


def test_there_is_a_lab_for_every_chapter_but_the_one_that_only_sends():
    stems = [chapter.stem for chapter in labs.chapters.numbered()]
    assert [stem for stem in stems if stem != "11_out_of_the_notebook"] == NAMES


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_only_right_answers_pass_and_no_failure_says_them(source, tmp_path):
    with unless_passed(f"labs/{source.stem}", [source, labs.STUDENT / f"{source.stem}.ipynb", *BY]):
        student, solution = assigned(source.stem)
        given = Given(student)
        names = run(solution, tmp_path, given.note)
        assert given.misfits(names) == []
        right = answers(student, names)
        failed = [q for q, result in checked(names, solution).items() if not result.passed_all]
        assert failed == []
        assert all(right.values()), "a question without an answer of its own"
        wrong_answers_fail(student, solution, names, right)
        assert other_forms_pass(student, solution, names, right) >= 6  # eleven labs: over 60
        untouched_sheet_passes_nothing(student, right, tmp_path)


class Given:
    """What the cells of a sheet give, in its types, for the functions that it asks for.

    ``note`` is called behind each cell; a cell is given where the student's sheet has it, too.
    """

    def __init__(self, student):
        code = [cell for cell in student.cells if cell.cell_type == "code"]
        mine = [
            cell.source for cell in code if "otter_answer_cell" in cell.metadata.get("tags", [])
        ]
        self.asked = {name for source in mine for name in defined(source)}
        self.cells = {cell.source for cell in code} - {*mine}
        self.values, self.sets = {}, []

    def note(self, source, names):
        if source in self.cells:
            new = {name: names[name] for name in sets(source) if name in names}
            self.values |= new
            self.sets.append((new, dict(self.values)))

    def misfits(self, names):
        """Functions that do not take what bears their arguments' names; numbers that do not mix."""
        found = []
        for new, known in self.sets:
            for name in sorted(self.asked):
                wanted = [*inspect.signature(names[name]).parameters]
                if {*wanted} & {*new} and {*wanted} <= {*known}:
                    try:
                        names[name](**{argument: known[argument] for argument in wanted})
                    except Exception as error:
                        found.append(f"{name}({', '.join(wanted)}): {error}")
            tensors = {n: x for n, x in new.items() if torch.is_tensor(x) and x.is_floating_point()}
            for (one, a), (two, b) in itertools.combinations(tensors.items(), 2):
                if a.dtype != b.dtype and a.shape[:1] == b.shape[:1]:
                    found.append(f"{one} is {a.dtype}, {two} is {b.dtype}")
        return found


def defined(source):
    """The functions of a cell."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def sets(source):
    """The names that a cell's own lines set, those inside of its functions apart."""
    lines = [node for node in ast.parse(source).body if not isinstance(node, ast.FunctionDef)]
    return {node.id for line in lines for node in ast.walk(line) if is_store(node)}


def test_a_cell_whose_numbers_do_not_fit_is_found(tmp_path):
    """As the fifth question of lab 4 once had it."""
    student, solution = assigned("04_cgsv")
    given = Given(student)
    names = run(nbformat.from_dict({**solution, "cells": solution.cells[:1]}), tmp_path)
    (cell,) = [
        source
        for source in given.cells
        if source.startswith("weights = ") or "\nweights =" in source
    ]
    rows = torch.eye(3).double()
    names["scores"] = lambda updates, weights: weights @ updates
    for weights, count in ((torch.ones(3).double(), 0), (torch.ones(3), 2)):
        given.sets.clear()
        given.note(cell, {"updates": rows, "weights": weights})
        assert len(given.misfits(names)) == count


def wrong_answers_fail(student, solution, names, right):
    spoilt = names | {n: wrong(v) for given in right.values() for n, v in given.items()}
    results = checked(spoilt, solution)
    assert [q for q, result in results.items() if result.passed_all] == []
    assert leaks(student, results, right) == []


def forms(value):
    """Sensible ways to write the same answer, and how a miss is written in each of them."""
    if isinstance(value, bool) or callable(value):
        return []
    if isinstance(value, set) and all(isinstance(x, str) and len(x) == 1 for x in value):
        return [*letters(value), *letters({chr(ord(x) + 1) for x in value})]
    if isinstance(value, str) and len(value) == 1:
        miss = chr(ord(value) + 1)
        return [f(x) for x in (value, miss) for f in (str.upper, "({})".format, "{}.".format)]
    if isinstance(value, int):
        return [f(x) for x in (value, 3 * value + 7) for f in (str, float, torch.tensor, np.int64)]
    if isinstance(value, float):
        found = [f(x) for x in (value, value + 0.3) for f in (repr, np.float64, torch.tensor)]
        return [float(x) if isinstance(x, torch.Tensor) and x.item() != value else x for x in found]
    if isinstance(value, (list, tuple)) and value and all(type(x) in (int, float) for x in value):
        near = (
            [*value[:-1], value[-1] + 1] if len(value) < 2 else [value[0], value[1] + 9, *value[2:]]
        )
        return [f(x) for x in ([*value], near) for f in (tuple, np.array, lambda x: [*map(str, x)])]
    return []


def letters(value):
    """A set of letters, in other forms."""
    found = sorted(value)
    return [found, ", ".join(found), "".join(found).upper(), " and ".join(f"({x})" for x in found)]


def other_forms_pass(student, solution, names, right):
    """How many forms of right answers passed; as many misses were refused, none told the answer."""
    count = 0
    for question, given in right.items():
        for name, value in given.items():
            both = forms(value)
            half = len(both) // 2
            for form, miss in zip(both[:half], both[half:], strict=True):
                result = check(solution, question, names | {name: form})
                assert result.passed_all, f"{question}: {name} = {form!r} is refused: {result}"
                refused = check(solution, question, names | {name: miss})
                assert not refused.passed_all, f"{question}: {name} = {miss!r} passes"
                assert "Error at line" not in refused._repr_html_()
                bare = miss.tolist() if isinstance(miss, np.ndarray) else miss
                own = repr({**given, name: bare})  # a check may repeat what was answered
                told = leaks(student, {question: refused}, right)
                assert [text for _, text in told if not re.search(text, own)] == []
                count += 1
    return count


def untouched_sheet_passes_nothing(student, right, folder):
    results = checked(run(student, folder), student)
    assert len(results) >= 6
    cases = [case for result in results.values() for case in result.test_case_results]
    assert [case.test_case.name for case in cases if case.passed] == []
    said = " ".join(case.message for case in cases)
    assert "Hint" not in said + "".join(result.summary() for result in results.values())
    assert "not answered yet" in said
    assert re.findall("ellipsis|Ellipsis|NoneType", said) == []
    assert leaks(student, results, right) == []


def test_loud_checks_are_caught(monkeypatch, tmp_path):
    fresh = importlib.util.module_from_spec(exception_test().__spec__)
    fresh.__spec__.loader.exec_module(fresh)
    quieted, loud = exception_test().ExceptionTestFile, fresh.ExceptionTestFile
    for name in ("_generate_error_message", "_repr_html_"):  # earlier tests have quieted them
        monkeypatch.setattr(quieted, name, getattr(loud, name))
    monkeypatch.setattr(labs, "hushed", lambda test, reason, given: test)
    student, solution = labs.assign(labs.LABS / "04_cgsv.md")
    names = run(solution, tmp_path)
    right = answers(student, names)
    spoilt = names | {n: wrong(v) for given in right.values() for n, v in given.items()}
    assert {"q4"} <= {q for q, _ in leaks(student, checked(spoilt, student), right)}


def test_a_sheet_may_be_renamed_while_it_is_open(tmp_path):
    student = sheet("04_cgsv")
    student = nbformat.from_dict({**student, "cells": student.cells[:1]})
    names = run(student, tmp_path)
    (tmp_path / "renamed by a student.ipynb").rename(tmp_path / "again.ipynb")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "again.ipynb").rename(tmp_path / "elsewhere" / "again.ipynb")
    with contextlib.chdir(tmp_path):
        result = names["grader"].check("q4", global_env={"mean_cosine": ...})
    assert "not answered yet" in result.summary()


def test_a_lab_works_in_jupyter_as_well(tmp_path):
    with unless_passed("labs/jupyter", [labs.LABS / "04_cgsv.md", *BY]):
        notebook = assigned("04_cgsv")[1]
        nbformat.write(notebook, tmp_path / "mine.ipynb")
        where = {"metadata": {"path": str(tmp_path)}}
        client = NotebookClient(notebook, timeout=300, resources=where)
        chapters.patiently(client.execute)
        said = [
            output.data["text/plain"]
            for cell in notebook.cells
            if cell.cell_type == "code" and cell.source.startswith("grader.check(")
            for output in cell.outputs
        ]
        assert len(said) == len(notebook.metadata["otter"]["tests"])
        assert all("passed" in text for text in said), said


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_a_sheet_says_what_it_is_about_and_holds_no_solution(source):
    """That it is generated from its source, `tools/labs.py --check` sees."""
    assert "SOLUTION" not in (labs.STUDENT / f"{source.stem}.ipynb").read_text(encoding="utf-8")
    text = source.read_text(encoding="utf-8")
    for part in ("**Goal.**", "**Before the lab.**", "| minutes | what |", "## Before you leave"):
        assert part in text, part
