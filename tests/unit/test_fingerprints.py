"""Fingerprints of studies: what makes numbers counts, and nothing else."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import re
from pathlib import Path

import pytest

import studies
from studies import code

SHARED = '''
"""A module of the project."""
from __future__ import annotations

import math
import warnings

from fedlab_mini import checks
from torch.nn.functional import relu

RATE = 0.1
OTHER: float = 4
TABLE = {}


def helper(seed: int, rate: float = RATE) -> float:
    """A docstring."""
    # a remark
    checks.whole("seed", seed, 0)
    if seed < 0:
        raise ValueError(f"seed: expected 0 or more, got {seed}")
    warnings.warn("slowly", stacklevel=2)
    assert rate > 0, "a rate"
    return relu(seed) * rate + math.pi


def unused(): return OTHER
'''
TOY = """
from dataclasses import dataclass
from typing import ClassVar

from {home} import helper, unused

@dataclass
class Setting:
    seed: int
    many: ClassVar[int] = 3
    known: list[int] | None = None

def rows(seed):
    return helper(Setting(seed).seed)

def others(seed):
    return unused()

def figure():
    return "blue"

STUDIES = tuple(seed for seed in (1, 2))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The hash of a study of a small project, given its two files."""
    monkeypatch.setattr(code, "ROOT", tmp_path)
    numbers = itertools.count()

    def digest(shared: str = SHARED, toy: str = TOY, name: str = "rows", home: str = "shared"):
        place = f"project{next(numbers)}"  # files are read once, so each version has its own
        module = tmp_path.joinpath(place, *home.split(".")).with_suffix(".py")
        module.parent.mkdir(parents=True)
        module.write_text(shared)
        study = tmp_path / place / "toy.py"
        study.write_text(toy.format(home=f"{place}.{home}"))
        return code.digest(study, name)

    return digest


def test_a_fingerprint_sees_no_words_and_no_annotations(project) -> None:
    same = {
        "a docstring": ('"""A docstring."""', '"""Another."""'),
        "a comment": ("    # a remark\n", ""),
        "layout": ("return relu(seed) * rate + math.pi", "return (\n relu(seed) * rate + math.pi)"),
        "an annotation": ("seed: int, rate: float = RATE", "seed, rate: object = RATE"),
        "an error": ("expected 0 or more, got {seed}", "expected at least 0, got {seed!r}"),
        "a refusal": ('checks.whole("seed", seed, 0)', 'checks.whole("a seed", seed, 0)'),
        "a warning": ('"slowly"', '"very slowly"'),
        "an assertion": ('"a rate"', '"a positive rate"'),
        "what is not reached": ("OTHER: float = 4", "OTHER: float = 5"),
        "an import that is not used": ("import math\n", "import cmath\nimport math\n"),
    }
    for what, edit in same.items():
        assert SHARED.replace(*edit) != SHARED
        assert project(SHARED.replace(*edit)) == project(), what
    for edit in (('"blue"', '"red"'), ("(1, 2)", "(1, 3)"), ("seed: int\n", "seed: float\n")):
        assert project(toy=TOY.replace(*edit)) == project(), edit
    assert project(home="deeper.down") == project()


def test_a_fingerprint_sees_what_makes_numbers(project) -> None:
    shared = {
        "a constant": ("RATE = 0.1", "RATE = 0.2"),
        "a default": ("rate: float = RATE", "rate: float = 0.1"),
        "a statement of the module": ("TABLE = {}", "RATE += 0.2"),
        "what an import does": ("TABLE = {}", "TABLE = {}\nTABLE[RATE] = 1"),
        "another function of torch": ("import relu", "import gelu as relu"),
        "a condition": ("if seed < 0", "if seed < 1"),
        "which error": ("raise ValueError", "raise KeyError"),
        "a number in a check": ('"seed", seed, 0', '"seed", seed, 1'),
    }
    for what, edit in shared.items():
        assert SHARED.replace(*edit) != SHARED
        assert project(SHARED.replace(*edit)) != project(), what
    toy = {
        "a field's kind": ("many: ClassVar[int]", "many: int"),
        "another helper": ("import helper, unused", "import unused as helper, unused"),
        "a field": ("    seed: int\n", "    seed: int\n    more: int = 0\n"),
    }
    for what, edit in toy.items():
        assert project(toy=TOY.replace(*edit)) != project(), what
    changed = SHARED.replace("OTHER: float = 4", "OTHER: float = 5")
    assert project(changed, name="others") != project(name="others")
    rate = SHARED.replace("RATE = 0.1", "RATE = 0.2")
    assert project(rate, name="others") == project(name="others")


def test_what_is_used_as_a_whole_counts_as_a_whole(project) -> None:
    changed = SHARED.replace("OTHER: float = 4", "OTHER: float = 5")
    starred = TOY.replace("import helper, unused", "import *")
    passed = TOY.replace("from {home} import helper, unused", "import {home} as helper")
    for toy in (starred, passed):
        assert project(changed, toy) != project(toy=toy)
    through = TOY.replace("from {home} import helper, unused", "import {home} as tools")
    through = through.replace("helper(", "tools.helper(")
    assert project(changed, through) == project(toy=through)


def test_stored_studies_are_stale_for_numbers_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code, "ROOT", tmp_path)
    some = ("cgsv-steps", "fedccea-letters", "fedccea-fit", "growth", "head-to-head", "label-rates")
    repository, files = Path(studies.__file__).parents[1], ("fedlab_mini", "studies")
    where = {
        s.name: (Path(inspect.getsourcefile(s.rows)), s.rows.__name__)
        for s in map(studies.named, some)
    }
    numbers = itertools.count()

    def stale(*edits: tuple[str, str, str]) -> set[str]:
        """The studies that edits (of which files, old, new) make stale."""
        code.ROOT = tmp_path / str(next(numbers))
        for path in (path for name in files for path in (repository / name).rglob("*.py")):
            text, relative = path.read_text(), path.relative_to(repository)
            for pattern, old, new in edits:
                text = re.sub(old, new, text) if re.search(pattern, str(relative)) else text
            target = code.ROOT / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for name, (file, rows) in where.items():
            marks[name].append(code.digest(code.ROOT / file.relative_to(repository), rows))
        return {name for name, found in marks.items() if found[0] != found[-1]}

    marks: dict[str, list[str]] = {name: [] for name in where}
    returned = r"(?m)^( +)return ", r"\1return 0 or "
    stale()  # as they are
    words = (
        ("checks.py", "expected", "it should have been"),
        ("show/", '"#[0-9a-f]{6}"', '"#123456"'),
    )
    ceremony = ("engine/(progress|checkpoint)", *returned), ("engine/guard", "remembered", "known")
    assert stale(*words, *ceremony) == set()
    assert stale(("engine/minibatches", r"lr: float = [0-9.]+", "lr: float = 0.123")) == set(where)
    fedccea = stale(("methods/(fedccea|aam)", *returned))
    assert fedccea == {"fedccea-letters", "fedccea-fit", "head-to-head"}


def test_what_is_left_out_of_fingerprints_exists() -> None:
    for name in (*code.WITHOUT_NUMBERS, *code.STILL_NUMBERS):
        module, _, part = name.rpartition(".")
        assert importlib.util.find_spec(module or name) is not None
        if module and not hasattr(importlib.import_module(module), part):
            assert importlib.util.find_spec(name) is not None
