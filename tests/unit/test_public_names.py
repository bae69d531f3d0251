"""Public names: how many there are, how they are written, and that those of before still work."""

from __future__ import annotations

import importlib
import inspect

import pytest
from torch import nn

import fedlab_bench as fb
import fedlab_mini as fm

OLD = [
    (room, *pair.split("=")) if "=" in pair else (room, pair, pair)
    for room, names in fm.MOVED.items()
    for pair in names.split()
]


def test_at_most_sixty_names_and_those_are_what_a_person_sees():
    assert len({*fm.__all__}) == len(fm.__all__) <= 60
    assert {*dir(fm)} == {
        *(*fm.__all__, "attacks", "defences", "evidence", "methods", "pay", "__version__")
    }
    assert all(hasattr(fm, name) for name in dir(fm))


def test_a_model_has_ten_names():
    given = {name for name in dir(fm.Model(nn.Linear(3, 2))) if name[0] != "_"}
    passed = {"P", "shapes", "module", "objective", "init", "theta", "split"}
    assert given == passed | {"forward", "predict", "evaluate"}


def test_a_class_begins_with_a_capital():
    rooms = (fm, fb, fm.methods, fm.attacks)
    rooms += tuple(importlib.import_module(f"fedlab_mini.{room}") for room in fm.MOVED)
    kinds = {value for room in rooms for value in vars(room).values() if inspect.isclass(value)}
    found = {kind.__name__ for kind in kinds if kind.__module__.startswith("fedlab")}
    assert len(found) > 50
    assert not [name for name in found if name.strip("_")[0].islower()]


@pytest.mark.parametrize(("room", "old", "new"), OLD, ids=[old for _, old, _ in OLD])
def test_a_name_of_version_2_works_and_says_what_to_write(room, old, new):
    with pytest.warns(DeprecationWarning, match=rf"^fm\.{old} is now (fm|fedlab_mini)\.") as seen:
        found = getattr(fm, old)
    (told,) = (str(warning.message).rpartition(" ")[2] for warning in seen)
    assert eval(told, {"fm": fm, "fedlab_mini": fm}) is found
    assert found is getattr(importlib.import_module(f"fedlab_mini.{room}"), new)
    assert old not in fm.__all__
    assert seen[0].filename == __file__


def test_a_misspelt_name_is_no_name():
    with pytest.raises(AttributeError, match=r"fedlab_mini.* has no attribute 'flip_label'"):
        _ = fm.flip_label
