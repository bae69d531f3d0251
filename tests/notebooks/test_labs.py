"""Labs: solutions pass every check, untouched sheets none; no failure or hint says an answer."""

import ast
import functools
import re
from pathlib import Path

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
            wanted = {argument.arg for argument in arguments(test)}
            found[question] = {name: names[name] for name in sorted(bound & wanted)}
    return found


def arguments(test):
    """The arguments of a question's checks, with their annotations."""
    checks = (part for part in ast.walk(ast.parse(test)) if isinstance(part, ast.FunctionDef))
    return [arg for part in checks if part.name.startswith("test_") for arg in part.args.args]


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
    every_minimum_and_maximum_is_needed(source.stem, student, solution, names, right)
    untouched_sheet_passes_nothing(student, right, tmp_path)


def forms(value, asked):
    """Sensible ways to write the same answer, and how a miss is written in each of them.

    asked  the annotation of the check's argument: what it says of the answer's form
    """
    if callable(value):
        return [returning(form, x) for x in (value, wrong(value)) for form in (single, listed)]
    kind, *about = (asked.func.id, *map(ast.unparse, asked.args)) if asked_for(asked) else (asked,)
    if kind in COLLECTED:
        value = listed(value)
        near = COLLECTED[kind](value, about)
        return [way(x) for x in (value, near) for way in ways(kind, value, about)]
    if isinstance(value, set) and all(isinstance(x, str) and len(x) == 1 for x in value):
        return [*letters(value), *letters({chr(ord(x) + 1) for x in value})]
    if isinstance(value, str) and len(value) == 1:
        miss = chr(ord(value) + 1)
        return [f(x) for x in (value, miss) for f in (str.upper, "({})".format, "{}.".format)]
    if type(value) is int:
        alone = (lambda x: [x], lambda x: {x}, lambda x: np.array([x]))
        every = (str, float, torch.tensor, np.int64, *alone)
        return [f(x) for x in (value, 3 * value + 7) for f in every]
    if isinstance(value, float):
        every = (repr, np.float64, lambda x: [x], lambda x: torch.tensor([x]).double())
        return [f(x) for x in (value, value + 0.3) for f in every]
    return []


def asked_for(asked):
    return isinstance(asked, ast.Call)


def other(value, about):
    """The same kind of answer with one part wrong."""
    if isinstance(value, dict):
        return wrong(value)
    if isinstance(value[0], list):
        return [value[0]] * len(value)
    if isinstance(value[0], str):
        return [value[1], *value[1:]]
    return [wrong(value[0]), *value[1:]]


def without_one(value, about):
    return {*value} ^ {min({0, 1, 2} - {*value}), max(value)}


COLLECTED = {
    "ordered": lambda value, about: other([*value], about),
    "worths": lambda value, about: other([*value], about),
    "table": other,
    "members": without_one,
    "member": lambda value, about: (int(value) + 1) % int(about[0]),
    "switches": lambda value, about: [not value[0], *value[1:]],
}


def ways(kind, value, about):
    """How the form that a check asks for could be written otherwise."""
    if kind in ("ordered", "worths"):
        names = WORTHS if kind == "worths" else [*eval(about[0])]
        words = isinstance(value[0], str)
        lists = [
            tuple,
            lambda x: {f"client {k}": v for k, v in reversed([*zip(names, x, strict=True)])},
        ]
        lists += [lambda x: dict(zip(names, x, strict=True)).values(), lambda x: [[*x]]]
        lists += [lambda x: "; ".join(map(str, x))] if not isinstance(value[0], list) else []
        return lists if words else [*lists, np.array, lambda x: torch.as_tensor(x).double()]
    if kind == "table":
        return [lambda x: [*x.values()], lambda x: {str(k).upper(): v for k, v in x.items()}]
    count = int(about[0])
    masks = [lambda x: [k in x for k in range(count)], lambda x: {k: k in x for k in range(count)}]
    masks += [lambda x: [int(k in x) for k in range(count)]]
    masks += [lambda x: torch.tensor([k in x for k in range(count)]), sorted, frozenset, np.array]
    masks[-1] = lambda x: np.array(sorted(x))
    masks += [lambda x: ", ".join(map(str, sorted(x))), lambda x: " and ".join(map(str, sorted(x)))]
    if kind == "switches":
        return [lambda x, way=way: way({k for k, on in enumerate(x) if on}) for way in masks]
    if kind == "member":
        return [lambda x, way=way: way({x}) for way in masks]
    return [*masks, tuple]


WORTHS = ["nobody", "A", "B", "AB", "C", "AC", "BC", "ABC"]


def returning(form, function):
    return functools.wraps(function)(lambda *given, **named: form(function(*given, **named)))


def single(value):
    """A float32 tensor in place of a float64 one."""
    return value.float() if torch.is_tensor(value) and value.is_floating_point() else value


def listed(value):
    if torch.is_tensor(value):
        return value.tolist()
    return [listed(x) for x in value] if isinstance(value, list) else value


def letters(value):
    """A set of letters, in other forms."""
    found = sorted(value)
    return [found, ", ".join(found), "".join(found).upper(), " and ".join(f"({x})" for x in found)]


def other_forms_pass(student, names, right):
    """Right answers in other forms; misses in these forms are refused, and tell no answer."""
    answered = [(q, name, value) for q, given in right.items() for name, value in given.items()]
    tests = student.metadata["otter"]["tests"]
    asked = {(q, arg.arg): arg.annotation for q, test in tests.items() for arg in arguments(test)}
    for question, name, value in answered:
        form = asked[question, name]
        several = not isinstance(value, str) and hasattr(value, "__len__")
        if several and "chosen(" not in tests[question]:
            assert form is not None, f"{question}: {name} is {value}, and no form is asked for"
        both = forms(value, getattr(form, "id", form))
        half = len(both) // 2
        for form, miss in zip(both[:half], both[half:], strict=True):
            result = check(question, names | {name: form})
            assert result.passed_all, f"{question}: {name} = {form!r} is refused: {result}"
            refused = check(question, names | {name: miss})
            assert not refused.passed_all, f"{question}: {name} = {miss!r} passes"
            assert "Error at line" not in refused._repr_html_()
            bare = miss.tolist() if hasattr(miss, "tolist") else miss
            said = map(float, re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", repr(bare)))
            # a check may repeat what was answered
            own = repr([right[question] | {name: bare}, [f"{x} {x:g}" for x in said]])
            told = leaks(student, {question: refused}, right)
            assert [text for _, text in told if not re.search(text, own)] == []


# Wrong in one place only, so that a check that looks at the wrong end lets it pass.
NEARLY = {  # of a lab: question and what somebody writes
    "01_federated_averaging": [
        ("q1", "updates = [updates[0], updates[1] + 1]"),
        ("q5", "cut = {'clients': 6, 'seed': 5, 'alpha': 0.05}"),
        ("q7", "mine = missed; missed = lambda *given: mine(*given) * (torch.arange(10) != 3)"),
    ],
    "02_shapley_theory": [
        ("q3", "replaceable = [0.0, 40, 40, 80, 40, 90, 90, 90]"),
        ("q3", "replaceable = [0.0, 50, 30, 90, 40, 90, 90, 90]"),
        ("q4", "one_order = [0.0, 0, 30, 30, 40, 40, 70, 70]"),
        ("q4", "one_order = [0.0, 20, 30, 60, 40, 60, 70, 100]"),
    ],
    "03_retraining_baselines": [("q3", "spread['alpha'] = 1.0")],
    "04_cgsv": [
        ("q2", "opponent = [[1, 0], [0.1, 1], [-1, -0.5]]"),
        ("q3", "apart = [[1, 0.1], [-1, -0.1], [0, 1]]"),
    ],
    "05_reinforce_frcce": [
        ("q2", "moved = [moved[0], moved[1] + 1]"),
        ("q4", "trusted = {**trusted, 'rate': 2.0, 'steps': 100}"),
        ("q4", "trusted = {**trusted, 'seed': 13, 'rate': 4.0, 'steps': 200}"),
        ("q6", "mine = step; step = lambda *given: mine(*given) + (torch.arange(4) > 0)"),
    ],
    "07_fedccea": [
        ("q4", "spent = [1, 1, 1, -0.1, 0, 0]"),
        ("q4", "spent = [1.1, 1, 0.9, 0, 0, 0]"),
    ],
    "08_sfedavg": [("q4", "unlucky = [*unlucky[:-1], unlucky[-1] - 0.001]")],
    "10_head_to_head": [
        ("q4", """
def leaving(scores, generator):
    order = torch.randperm(len(scores), generator=generator)
    return order.roll(1) if order[0] == 0 else order
"""),
        ("q4", """
def leaving(scores, generator):
    order = torch.randperm(len(scores), generator=generator)
    return order.roll(-1) if order[1] == 0 else order
"""),
    ],
    "12_replication": [
        ("q5", "rerun.seeds = [3, *rerun.seeds]"),
    ],
}  # fmt: skip
OTHER = {"min": "max", "argmin": "argmax", "amin": "amax", "minimum": "maximum"}
OTHER |= {high: low for low, high in OTHER.items()}


def exchanged(code, begins=""):
    """The code, once for each min or max that decides something, with this one exchanged; only in
    functions whose names begin so, if that is given."""
    tree = ast.parse(code)
    parts = [part for part in tree.body if getattr(part, "name", "").startswith(begins)]
    nodes = [node for part in parts for node in ast.walk(part)]
    words = [node for node in nodes if isinstance(node, ast.JoinedStr) or prints(node)]
    said = [inner for node in words for inner in ast.walk(node)]
    for node in nodes:
        for field in ("id", "attr"):
            word = getattr(node, field, "")
            if word in OTHER and node not in said:
                setattr(node, field, OTHER[word])
                yield ast.unparse(tree), f"{word}: {ast.unparse(node)}"
                setattr(node, field, word)


def prints(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"


def every_minimum_and_maximum_is_needed(lab, student, solution, names, right):
    """With one exchanged in a check, it refuses what is right or passes what is nearly right; with
    one exchanged in an answer, it is refused."""
    nearly, cell = {}, ""
    for question, code in NEARLY.get(lab, []):
        made = {
            name: dict(value) if type(value) is dict else value for name, value in names.items()
        }
        exec(code, made)
        nearly.setdefault(question, []).append(made)
    for question, test in student.metadata["otter"]["tests"].items():
        if not (changed := [*exchanged(test, "test_")]):
            continue
        path, every = Path(names["grader"]._tests_dir, f"{question}.py"), nearly.get(question, [])
        usual = [outcome(question, made) for made in every]
        assert [True] not in [[*{*cases}] for cases in usual], f"{question} passes a near miss"
        for text, place in changed:
            path.write_text(text, encoding="utf-8")
            told = all(outcome(question, names)) and usual == [outcome(question, m) for m in every]
            assert not told, f"{question}: {place}: nothing shows that this is the wrong one"
        path.write_text(test, encoding="utf-8")
    for block in solution.cells:
        if asked := re.match(r'grader\.check\("(\w+)"\)', block.source):
            for text, place in exchanged(cell):
                exec(text, made := dict(names))
                if repr({name: made[name] for name in right[asked[1]]}) != repr(right[asked[1]]):
                    assert not check(asked[1], made).passed_all, f"{asked[1]} passes: {place}"
        cell = block.source if block.cell_type == "code" else cell


def outcome(question, names):
    """Which of a question's checks are passed."""
    return [case.passed for case in check(question, names).test_case_results]


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
