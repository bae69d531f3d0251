"""Checks of labs: a hint after each wrong try, an error named, a choice explained at the end."""

import copy
import re

import nbformat
import pytest
from lab_sheets import assigned, check, exception_test, hints, leaks, run, sheet
from nbclient import NotebookClient

import chapters
import labs

pytestmark = pytest.mark.usefixtures("own_settings")
SOURCES = labs.sources()
NAMES = [source.stem for source in SOURCES]


def test_a_question_of_choice_counts_tries_and_is_then_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(exception_test().ExceptionTestFile, "tried", {}, raising=False)
    student, _ = assigned("04_cgsv")
    names = run(nbformat.from_dict({**student, "cells": student.cells[:1]}), tmp_path)
    answers = ["ab", "AB", {"b", "c"}, "ad", "ac"]
    seen = [check(student, "q8", names | {"wrong": answer})._repr_html_() for answer in answers]
    assert ["1 of 3 tries" in text for text in seen] == [True, True, False, False, False]
    assert "2 of 3 tries" in seen[2]
    assert [re.findall(r"Hint \d of \d", text) for text in seen] == [
        ["Hint 1 of 2"], ["Hint 1 of 2"], ["Hint 2 of 2"], [], []
    ]  # fmt: skip
    assert ["echoes the majority" in text for text in seen] == [False, False, False, True, True]
    assert "passed" in seen[4]


def test_each_wrong_try_unfolds_the_next_hint(tmp_path, monkeypatch):
    monkeypatch.setattr(exception_test().ExceptionTestFile, "tried", {}, raising=False)
    student, _ = assigned("04_cgsv")
    names = run(nbformat.from_dict({**student, "cells": student.cells[:1]}), tmp_path)
    tried = [..., 0.3, "0.3", ..., 0.5, 0.6, 0.7, 0.4, 0.8]
    seen = [check(student, "q4", names | {"mean_cosine": answer}) for answer in tried]
    places = [re.findall(r"<details><summary>Hint (\d) of 3</summary>(.*?)</details>", html)
              for html in (result._repr_html_() for result in seen)]  # fmt: skip
    (told,) = hints(student, "q4")
    due = [[], 1, 1, [], 2, 3, 3, [], 3]
    assert places == [place and [(str(place), told[place - 1])] for place in due]
    for result, place in zip(seen, due, strict=True):  # what a page of marks and a console show
        assert [hint in result.summary() for hint in told] == [place == k for k in (1, 2, 3)]
        assert not any(word in result.summary() for word in ("raise", "NotYet", "Traceback"))
    assert "not answered yet" in seen[0]._repr_html_()
    assert "passed" in seen[-2]._repr_html_()


def test_a_function_run_again_as_it_was_is_no_new_try(tmp_path, monkeypatch):
    monkeypatch.setattr(exception_test().ExceptionTestFile, "tried", {}, raising=False)
    student, _ = assigned("04_cgsv")
    names = run(nbformat.from_dict({**student, "cells": student.cells[:1]}), tmp_path)
    cells = ["def scores(updates, weights):\n    return weights"] * 2
    cells += ["def scores(updates, weights):\n    return 0 * weights"]
    seen = []
    for cell in cells:
        exec(compile(cell, "cell", "exec"), names)
        seen.append(re.findall(r"Hint \d", check(student, "q1", names).summary()))
    assert seen == [["Hint 1"], ["Hint 1"], ["Hint 2"]]  # none from the check of lengths


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_every_check_has_its_hints_and_they_name_no_letter_of_the_answer(source):
    student, text = sheet(source.stem), source.read_text(encoding="utf-8")
    keys = dict(re.findall(r"def (test_\w+)\(\w+\):\n    chosen\(\w+, \"(\w+)\"\)", text))
    assert len(keys) == 1
    for question, test in student.metadata["otter"]["tests"].items():
        checks = re.findall(r"^def (test_\w+)", test, re.MULTILINE)
        for name, told in zip(checks, hints(student, question), strict=True):
            assert len({*told}) == len(told) == (2 if name in keys else 3), (question, name)
            assert told[0].startswith("Look at "), (question, name)
            letters = set(keys.get(name, "")) - {"a"}  # which is a word, too
            assert not letters & {*re.findall(r"\b[a-z]\b", " ".join(told))}, (question, name)


def test_the_bug_that_a_sheet_gives_is_no_try(tmp_path):
    """In a kernel, which compiles a cell in its own way."""
    student = sheet("01_federated_averaging")
    at = [cell.source for cell in student.cells].index('grader.check("q4")')
    bug = student.cells[at - 1].source
    student.cells = student.cells[:1]
    for source in (bug, bug, bug.replace("sizes.sum()", "len(clients)")):
        told = 'print(grader.check("q4").summary())'
        student.cells += map(nbformat.v4.new_code_cell, [source, told])
    nbformat.write(student, tmp_path / "mine.ipynb")
    client = NotebookClient(student, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    chapters.patiently(client.execute)
    said = [cell.outputs[0].text for cell in student.cells[2::2]]
    assert ["not changed yet: model: tensor" in text for text in said] == [True, True, False]
    assert [len(re.findall("Hint 1 of 3", text)) for text in said] == [0, 0, 2]


def test_an_answer_in_any_hint_is_caught(tmp_path):
    student = copy.deepcopy(assigned("02_shapley_theory")[0])
    names = run(nbformat.from_dict({**student, "cells": student.cells[:1]}), tmp_path)
    results, right = {"q1": check(student, "q1", names)}, {"q1": {"shares": [29, 32, 11]}}
    tests = student.metadata["otter"]["tests"]
    assert leaks(student, results, right) == []
    for hint in hints(student, "q1")[0]:
        whole = tests["q1"]
        tests["q1"] = whole.replace(hint, f"{hint} A has 29.")
        assert [question for question, _ in leaks(student, results, right)] == ["q1"], hint
        tests["q1"] = whole


def test_a_check_without_three_hints_is_refused():
    text = (
        '@test_case(points=None, hidden=False, \n    failure_message="{}")\ndef test_x(x):\n    {}'
    )
    assert '@quiet("a", "b", "c")\ndef test_x' in labs.hushed(text.format("a // b // c", "pass"))
    for told in ("a", "a // b", "a // b // c // d"):
        with pytest.raises(ValueError, match=r"(?s)3 hints.*test_x"):
            labs.hushed(text.format(told, "pass"))
    with pytest.raises(ValueError, match=r"2 hints"):
        labs.hushed(text.format("a // b // c", 'chosen(x, "a")'), "why")
    with pytest.raises(ValueError, match=r"3 hints"):
        labs.hushed("@test_case(points=None, hidden=False)\ndef test_x(x):\n    pass")


def test_an_error_in_a_cell_is_named_and_is_no_missing_answer(tmp_path):
    student, _ = assigned("04_cgsv")
    shown = 'print(grader.check("q{}").summary())'
    cells = [
        ("mean_cosine = ...", 4, "not answered yet"),
        ("mean_cosine = total / 5", 4, "NameError: name 'total' is not defined"),
        ("mean_cosine = (", 4, "SyntaxError: "),
        ("mean_cosine = 0.3", 4, "Hint 1 of 3"),
        ("mean_cosine = 1 / 0", 4, "ZeroDivisionError: division by zero"),  # 0.3 is left over
        ("1 / 0", 4, "ZeroDivisionError: division by zero"),
        ("mean_cosine = 0.3\nother = total", 2, "not answered yet"),
        ("mean_cosine = 0.4", 4, "passed"),
        ("1 / 0", 4, "passed"),
        ("def scores(updates, weights):\n    return weights\nscores(1)", 1, "TypeError: scores()"),
        ("def scores(updates, weights):\n    return total", 1, "cannot be used as it stands"),
    ]
    sources = [text for code, k, _ in cells for text in (code, shown.format(k))]
    student = nbformat.from_dict({**student, "cells": student.cells[:1]})
    student.cells += [nbformat.v4.new_code_cell(text) for text in sources]
    nbformat.write(student, tmp_path / "mine.ipynb")
    where = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(student, timeout=300, resources=where, allow_errors=True)
    chapters.patiently(client.execute)
    for (code, _, wanted), cell in zip(cells, student.cells[2::2], strict=True):
        text = "".join(output.get("text", "") for output in cell.outputs)
        assert wanted in text, f"{code}: {text}"
        assert not re.search(r"Traceback|\.py|Hint.*raised", text), text


def test_no_key_of_a_choice_stands_in_a_sheet():
    for source in SOURCES:
        tests = sheet(source.stem).metadata["otter"]["tests"].values()
        keys = re.findall(r"chosen\(\w+, '([^']+)'\)", " ".join(tests))
        assert len(keys) == 1, source.stem
        assert all(len(key) == 16 for key in keys)
