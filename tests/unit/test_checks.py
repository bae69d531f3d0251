"""Checks: what no argument may be, said in one voice, whichever argument it is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import fedlab_mini as fm
from fedlab_mini import checks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # a prototype, says torch
    NESTED = {
        "strided": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    }
X, Y = torch.ones(3, 2), torch.tensor([0, 1, 1])
HIDDEN = np.ma.array([1, 2, 3], mask=[False, False, True])
nested = pytest.mark.parametrize("value", NESTED.values(), ids=NESTED.keys())


@nested
@pytest.mark.parametrize(
    "check",
    [
        lambda value: checks.array("it", value, ["n"]),
        lambda value: checks.reals("it", value, ["..."]),
        lambda value: checks.wholes("it", value, ["n"]),
        lambda value: checks.distinct_ids("it", value, 3),
        lambda value: checks.whole("it", value),
        lambda value: checks.number("it", value),
        lambda value: checks.flag("it", value),
        lambda value: checks.text("it", value),
        lambda value: checks.choice("it", value, ["a", "b"]),
        lambda value: checks.instance("it", value, fm.Game, "a Game"),
    ],
)
def test_nested_tensors_are_refused_by_name(check, value):
    with pytest.raises(TypeError, match=r"^it: expected .*, got a nested Tensor$"):
        check(value)


@nested
def test_nested_tensors_are_refused_by_public_names(value):
    with pytest.raises(TypeError, match=r"^w: .* a nested Tensor"):
        fm.additive(value)
    with pytest.raises(TypeError, match=r"^sizes: .* a nested Tensor"):
        fm.Federation(X, Y, value, (X, Y), (X, Y), 2)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (HIDDEN, ["n"]),
        (HIDDEN.astype(float), ["n"]),
        ([HIDDEN, HIDDEN], ["n", "m"]),
        ([1.0, np.ma.masked], ["n"]),
        (([1, np.ma.masked],), ["n", "m"]),
    ],
)
def test_masked_arrays_are_refused(value, shape):
    for check in (checks.array, checks.reals, checks.wholes):
        with pytest.raises(TypeError, match=r"^it: expected .* hides values behind a mask$"):
            check("it", value, shape)


def test_a_mask_that_hides_nothing_is_none():
    whole = np.ma.array([1, 2, 3], mask=[False, False, False])
    assert checks.wholes("it", whole, ["n"]).tolist() == [1, 2, 3]


def test_masked_arrays_are_refused_by_public_names():
    with pytest.raises(TypeError, match=r"^w: .*mask"):
        fm.additive(HIDDEN)
    with pytest.raises(TypeError, match=r"^y: .*mask"):
        fm.Dataset(X, HIDDEN, classes=4)
    with pytest.raises(TypeError, match=r"^validation: y: .*mask"):
        fm.Federation.from_datasets([(X, Y)], validation=(X, HIDDEN), test=(X, Y))


def test_whole_numbers_add_up_to_a_whole_number():
    with pytest.raises(ValueError, match=r"^sizes: expected whole numbers in 1\.\.\d+, got 46"):
        checks.wholes("sizes", [2**62] * 3, ["K"], 1)
    assert checks.wholes("sizes", [2**62], ["K"], 1).tolist() == [2**62]


@pytest.mark.parametrize("three", [3, np.int8(3), np.int64(3), np.uint32(3), np.array(3)], ids=repr)
def test_numpy_numbers_are_numbers(three):
    assert checks.whole("it", three) == 3
    assert type(checks.whole("it", three)) is int


@pytest.mark.parametrize("half", [0.5, np.float16(0.5), np.float32(0.5), np.float64(0.5)], ids=repr)
def test_numpy_fractions_are_numbers(half):
    assert checks.number("it", half, 0, 1) == 0.5
    assert type(checks.number("it", half)) is float


def test_texts_are_texts():
    assert checks.texts("labels", ["a", np.str_("b")]) == ("a", "b")
    for wrong in ("ab", 3, [1, 2], {"a": 1}):
        with pytest.raises(TypeError, match=r"^labels: expected a"):
            checks.texts("labels", wrong)


def test_a_data_sets_names_are_texts():
    for wrong in ({"labels": (1, 2)}, {"labels": "ab"}, {"vocabulary": [3]}, {"name": 4}):
        (name,) = wrong
        with pytest.raises(TypeError, match=rf"^{name}: expected a "):
            fm.Dataset(X, Y, 2, **wrong)


class Broken:
    def __repr__(self):
        raise ArithmeticError("no")


class Poem:
    def __repr__(self):
        return "roses\nare red" * 50


def test_a_message_is_one_line_whatever_was_given():
    assert "Broken object at" in checks.shown(Broken())
    assert checks.shown(Poem()).startswith("roses are red")
    assert len(checks.shown(Poem())) == checks.SHOWN


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda many: fm.permutation(fm.additive([1, 2]), many), "samples"),
        (lambda many: fm.truncated(fm.additive([1, 2]), many), "samples"),
        (lambda many: fm.guided(fm.additive([1, 2]), many), "samples"),
        (lambda many: fm.banzhaf(fm.additive([1, 2]), many), "samples"),
        (lambda many: fm.kernel(fm.additive(range(70)), many), "budget"),
        (lambda many: fm.glove(many, 1), "left"),
        (lambda many: fm.glove(1, many), "right"),
        (lambda many: fm.majority([many, many], many), "weights"),
        (lambda many: fm.Game(many, lambda s: s.sum(1)), "n"),
        (lambda many: fm.Dataset(torch.ones(2, 2), [0, 1], many), "classes"),
        (lambda many: fm.federation(fm.load("digits"), clients=many), "clients"),
        (lambda many: fm.noisy_digits(clients=many), "clients"),
        (lambda many: fm.skewed_digits(clients=many), "clients"),
        (lambda many: fm.spam(clients=many), "clients"),
        (lambda many: fm.irrelevant_digits(relevant=many), "relevant"),
        (lambda many: fm.irrelevant_digits(irrelevant=many), "irrelevant"),
    ],
)
@pytest.mark.parametrize("many", [2**31, 2**62])
def test_huge_counts_are_refused_at_once(call, name, many):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call(many)
