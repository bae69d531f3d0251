"""Labs: solutions pass every check, untouched sheets none; no failure or hint says an answer."""

import ast
import functools
import re

import numpy as np
import pytest
import torch
from lab_sheets import assigned, check, leaks, run, sheet

import labs

# Otter imports ipylab, which names its traits in an old way: whichever test comes first says so.
OLD_TRAITS = "ignore:Traits should be given as instances:DeprecationWarning"
pytestmark = [pytest.mark.usefixtures("own_settings"), pytest.mark.filterwarnings(OLD_TRAITS)]
SOURCES = labs.sources()
NAMES = [source.stem for source in SOURCES]


def answers(notebook, names):
    """What a student writes: question -> its checks' arguments that its answer cell binds."""
    found, cell = {}, None
    for block in notebook.cells:
        if "otter_answer_cell" in block.metadata.get("tags", []):
            cell = ast.parse(block.source)
        elif block.source.startswith("grader.check("):
            question = block.source.split('"')[1]
            stored = [n for n in ast.walk(cell) if isinstance(getattr(n, "ctx", None), ast.Store)]
            bound = {getattr(node, "id", "") for node in stored}
            bound |= {node.name for node in cell.body if isinstance(node, ast.FunctionDef)}
            test = notebook.metadata["otter"]["tests"][question]
            asked = re.findall(r"^def test_\w+\((.*)\)", test, re.MULTILINE)
            wanted = {name.strip() for line in asked for name in line.split(",")}
            found[question] = {name: names[name] for name in sorted(bound & wanted)}
    return found


def wrong(value):
    """An answer of the same kind that is not right."""
    if callable(value):
        return lambda *given, **named: wrong(value(*given, **named))
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
    student, solution = assigned(source.stem)
    questions = student.metadata["otter"]["tests"]
    names = run(solution, tmp_path)
    right = answers(student, names)
    assert all(right.values()), "a question without an answer of its own"
    assert [q for q in questions if not check(q, names).passed_all] == []
    spoilt = names | {n: wrong(v) for given in right.values() for n, v in given.items()}
    results = {q: check(q, spoilt) for q in questions}
    assert [q for q, result in results.items() if result.passed_all] == []
    assert leaks(student, results, right) == []
    other_forms_pass(student, names, right)
    untouched_sheet_passes_nothing(student, right, tmp_path)


def forms(value):
    """Sensible ways to write the same answer, and how a miss is written in each of them."""
    if callable(value):
        return [returning(form, x) for x in (value, wrong(value)) for form in (single, listed)]
    if isinstance(value, set) and all(isinstance(x, str) and len(x) == 1 for x in value):
        return [*letters(value), *letters({chr(ord(x) + 1) for x in value})]
    if isinstance(value, str) and len(value) == 1:
        miss = chr(ord(value) + 1)
        return [f(x) for x in (value, miss) for f in (str.upper, "({})".format, "{}.".format)]
    if type(value) is int:
        return [f(x) for x in (value, 3 * value + 7) for f in (str, float, torch.tensor, np.int64)]
    if isinstance(value, float):
        return [f(x) for x in (value, value + 0.3) for f in (repr, np.float64)]
    if isinstance(value, (list, tuple)) and value and all(type(x) in (int, float) for x in value):
        near = [value[0] + 9, *value[1:]]
        return [f(x) for x in ([*value], near) for f in (tuple, np.array, lambda x: [*map(str, x)])]
    return []


def returning(form, function):
    return functools.wraps(function)(lambda *given, **named: form(function(*given, **named)))


def single(value):
    """A float32 tensor in place of a float64 one."""
    return value.float() if torch.is_tensor(value) and value.is_floating_point() else value


def listed(value):
    return value.tolist() if torch.is_tensor(value) else value


def letters(value):
    """A set of letters, in other forms."""
    found = sorted(value)
    return [found, ", ".join(found), "".join(found).upper(), " and ".join(f"({x})" for x in found)]


def other_forms_pass(student, names, right):
    """Right answers in other forms; misses in these forms are refused, and tell no answer."""
    answered = [(q, name, value) for q, given in right.items() for name, value in given.items()]
    for question, name, value in answered:
        both = forms(value)
        half = len(both) // 2
        for form, miss in zip(both[:half], both[half:], strict=True):
            result = check(question, names | {name: form})
            assert result.passed_all, f"{question}: {name} = {form!r} is refused: {result}"
            refused = check(question, names | {name: miss})
            assert not refused.passed_all, f"{question}: {name} = {miss!r} passes"
            assert "Error at line" not in refused._repr_html_()
            bare = miss.tolist() if isinstance(miss, np.ndarray) else miss
            own = repr(right[question] | {name: bare})  # a check may repeat what was answered
            told = leaks(student, {question: refused}, right)
            assert [text for _, text in told if not re.search(text, own)] == []
    assert any(forms(value) for _, _, value in answered)


def untouched_sheet_passes_nothing(student, right, folder):
    names = run(student, folder)
    results = {q: check(q, names) for q in right}
    cases = [case for result in results.values() for case in result.test_case_results]
    assert [case.test_case.name for case in cases if case.passed] == []
    said = " ".join(case.message for case in cases)
    assert "Hint" not in said + "".join(result.summary() for result in results.values())
    assert "not answered yet" in said
    assert re.findall("ellipsis|Ellipsis|NoneType", said) == []
    assert leaks(student, results, right) == []


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_a_sheet_says_what_it_is_about_and_holds_no_solution(source):
    """That it is generated from its source, `tools/labs.py --check` sees."""
    assert sheet(source.stem).cells[0].metadata["jupyter"] == {"source_hidden": True}
    assert "SOLUTION" not in (labs.STUDENT / f"{source.stem}.ipynb").read_text(encoding="utf-8")
    text = source.read_text(encoding="utf-8")
    for part in ("**Goal.**", "**Before the lab.**", "| minutes | what |", "## Before you leave"):
        assert part in text, part
