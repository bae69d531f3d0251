"""The core trusts its arguments: it takes no check, asks for no type, and says why it raises."""

from __future__ import annotations

import ast
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedlab_mini as fm
from chapters import ROOT
from fedlab_mini.gate import games, methods

PACKAGE = ROOT / "fedlab_mini"
ROOMS = ("engine", "engine/fast", "games", "methods")
# Who takes checks nevertheless, and why.
CHECKING = {
    "engine/history.py": "a path, in which ~ is the user's home",
    "engine/model.py": "Model parses what it is made of and what it is asked",
    "engine/outputs.py": "labels: only the outputs show how many classes there are",
    "engine/train.py": "what a client answers to a message, whoever wrote the message",
    "games/game.py": "Game parses what it is made of, what it is asked, and what a value answers",
    "games/estimate.py": "Estimate parses what it is made of: estimators of strangers make some",
    "methods/cgsv.py": "CGSV parses its settings",
    "methods/reinforce.py": "Reinforce parses its settings",
    "methods/round_scores.py": "RoundScore parses its settings, and what a reader's score answers",
    "methods/sfedavg.py": "SFedAvg parses its settings",
}
# Functions that parse settings may ask for types.
SETTINGS = {"methods/cgsv.py _server_lr", "methods/sfedavg.py _temperature"}
SETTINGS |= {"methods/round_scores.py _callable"}
# Who reads the form of what it is given, and why.
SHAPES = {
    "engine/local.py UpdateMemory.lend",  # NumPy, which counts who holds memory, has no bfloat16
    "engine/networks.py Images.forward",  # rows and images are the same numbers
}
# Where the core raises, and why.
RAISING = {
    "engine/fast/stacks.py Stack.prepare": "each kind of stack has its own",
    "engine/fast/stacks.py Stack.step": "each kind of stack has its own",
    "engine/history.py History.load": "a file that holds no history",
    "engine/history.py History.save": "a setting that is a lambda has no name",
    "engine/networks.py Images.forward": "what a module says of inputs that are no such images",
    "engine/networks.py cnn": "an image too small for two poolings",
    "engine/objective.py _no_accuracy": "labels that are numbers have no accuracy",
    "engine/outputs.py output_table": "outputs that depend on no parameter",
    "engine/minibatches.py LocalSGD.rate": "a step size that grows each round becomes infinite",
    "engine/train.py of_clients": "samples changed under a running training",
    "games/estimate.py asking": "all 2^n coalitions are too many",
    "games/game.py Game._checked": "see CHECKING",
    "games/game.py Game._compute": "see CHECKING",
    "games/game.py all_coalitions": "all 2^n coalitions do not fit into memory",
    "games/kernel.py kernel": "fewer pairs of coalitions than players determine no fit",
    "games/round_tables.py _differentiable": "a loss without a derivative has no gradient",
    "games/values.py _program": "the solver finds no optimum",
    "games/values.py nucleolus": "the solver finds no optimum",
    "methods/aam.py AAM.collapsed": "sigmoid nodes form no linear map",
    "methods/cgsv.py CGSV.__post_init__": "settings that exclude each other",
    "methods/cgsv.py cosine_game": "a sum of length 0 has no direction",
    "methods/defences.py Detector.suspects": "a detector that a reader has not finished",
    "methods/fedavg.py Configuration.__setattr__": "a strategy's attributes are fixed",
    "methods/fedavg.py FedAvg._checked_weights": "what weights of a reader's subclass returns",
    "methods/fedavg.py FedAvg.count": "a reader's subclass whose state begins without rounds",
    "methods/fedavg.py FedAvg.init": "a setting that does not fit the federation",
    "methods/round_scores.py _callable": "see CHECKING",
    "methods/numerics.py classes_of": "labels that are numbers have no classes",
    "methods/reinforce.py FLDVE.__post_init__": "settings that exclude each other",
    "methods/reinforce.py FRCCE.__post_init__": "settings that exclude each other",
    "methods/sfedavg.py SFedAvg.__post_init__": "settings that exclude each other",
    "methods/sfedavg.py SFedAvg.init": "a setting that does not fit the federation",
}
ASKS = {"isinstance", "issubclass", "hasattr", "callable", "torch.is_tensor"}
FILES = [file for room in ROOMS for file in sorted((PACKAGE / room).glob("[!_]*.py"))]
named = pytest.mark.parametrize("file", FILES, ids=[str(f.relative_to(PACKAGE)) for f in FILES])


def functions(file: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a file, by where they stand; inner ones belong to the outer."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        outer = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for one in node.body if outer else [node]:
            if isinstance(one, ast.FunctionDef):
                yield f"{file.relative_to(PACKAGE)} {outer}{one.name}", one


@named
def test_the_core_takes_no_check(file):
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    imports = [n for n in nodes if isinstance(n, ast.ImportFrom)]
    taken = [f"{n.module}.{alias.name}" for n in imports for alias in n.names]
    checks = any(module.startswith(("parse.checks", "gate")) for module in taken)
    assert checks == (str(file.relative_to(PACKAGE)) in CHECKING)


@named
def test_the_core_asks_no_argument_for_its_type(file):
    for place, function in functions(file):
        given = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)} - {"self"}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ASKS:
                asked = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
                trusts = not asked & given or place in SETTINGS
                assert trusts, f"{place} asks {ast.unparse(node)}"


@named
def test_the_core_branches_on_no_shape_or_type_of_an_argument(file):
    for place, function in functions(file):
        given = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)} - {"self"}
        tests = [
            n.test for n in ast.walk(function) if isinstance(n, ast.If | ast.IfExp | ast.While)
        ]
        for node in (node for test in tests for node in ast.walk(test)):
            if isinstance(node, ast.Attribute) and node.attr in ("shape", "ndim", "dtype"):
                assert ast.unparse(node.value) not in given or place in SHAPES, place


def test_the_core_raises_where_listed():
    found = {
        place
        for file in FILES
        for place, function in functions(file)
        if any(isinstance(node, ast.Raise) for node in ast.walk(function))
    }
    assert found == {*RAISING}


@pytest.mark.parametrize("room", [games, methods])
def test_a_gates_function_reads_as_the_cores_and_can_be_sent_to_another_process(room):
    public = {name: one for name, one in vars(room).items() if hasattr(one, "__wrapped__")}
    own = {name: one for name, one in public.items() if one.__module__ == room.__name__}
    assert len(own) > 5
    for name, one in own.items():
        assert pickle.loads(pickle.dumps(one)) is one
        assert (one.__name__, one.__doc__) == (name, one.__wrapped__.__doc__)
        assert inspect.signature(one) == inspect.signature(one.__wrapped__)
        assert name not in fm.__all__ or getattr(fm, name) is one
