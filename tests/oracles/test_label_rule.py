"""The rule of label standardisation against exact fractions and scikit-learn."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from sklearn.metrics import precision_score, recall_score
from torch import Tensor
from torch.nn.functional import one_hot

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.label_standardisation import Inspection

CLASSES = 5
NET = fm.logistic(CLASSES, CLASSES)
THETA = torch.cat([torch.eye(CLASSES).flatten(), torch.zeros(CLASSES)]).double()
PERFECT = torch.ones(CLASSES, dtype=torch.float64)


def seen_as(predicted: Tensor) -> Tensor:
    """Inputs that the model ``THETA`` predicts as these classes."""
    return one_hot(predicted, CLASSES).double()


def answered(message: Inspection, predicted, original, y=None) -> list[int]:
    """A client's new labels if the model predicts ``predicted`` of its samples."""
    predicted, original = torch.as_tensor(predicted), torch.as_tensor(original)
    y = original.clone() if y is None else torch.as_tensor(y)
    return message.answer(NET, THETA, seen_as(predicted), original, y).tolist()


def message(right=PERFECT, margin: float | None = 0.05, groups: str = "original") -> Inspection:
    """A message to client 0; by default the server's model is never wrong."""
    right = torch.as_tensor(right, dtype=torch.float64)
    return Inspection(torch.tensor([0]), right, margin, groups)


def accepts(a: int, n: int, b: int, N: int, margin: Fraction | None) -> bool:
    """The rule in whole numbers: a of n samples named L, b of N validation samples right."""
    if margin is None:
        return a * N > b * n
    return Fraction(a, n) >= Fraction(b, N) - margin


# --- the threshold -------------------------------------------------------------------------------

MARGINS = {"strict": None, "none": Fraction(0), "5 %": Fraction(1, 20), "20 %": Fraction(1, 5)}


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize(("n", "N"), [(20, 20), (37, 23), (3, 100)])
def test_the_threshold_is_exact_for_all_counts(n, N, margin):
    """Shares that are equal as fractions are equal to the rule, whatever they are as floats."""
    wanted = MARGINS[margin]
    given = None if wanted is None else float(wanted)
    for b in range(N + 1):
        rule = message([b / N] * CLASSES, given)
        for a in range(n + 1):
            assert rule.accept(3, a / n) == accepts(a, n, b, N, wanted), (a, b)
            if 2 * a > n and 2 * b > N:  # counted by a client, of whose samples most are seen as 1
                labels = answered(rule, [1] * a + [2] * (n - a), [2] * n)
                assert (labels[0] == 1) == accepts(a, n, b, N, wanted), (a, b)


@pytest.mark.parametrize("margin", [None, 0.0, 0.05, 1.0])
def test_a_class_that_nothing_is_known_of_is_no_name_nor_is_the_own_label(margin):
    rule = message([1, 1, math.inf, 1, 1], margin)
    assert not rule.accept(2, 1.0)
    assert answered(rule, [2] * 6, [3] * 6) == [3] * 6
    assert answered(message([0.0] * CLASSES, margin), [2, 2, 2, 1], [2] * 4) == [2] * 4
    other = message([0.2, 0.9, 0.5, 0.7, 0.6], None)  # what counts is the new name's accuracy
    assert [label for label in range(CLASSES) if other.accept(label, 0.65)] == [0, 2, 4]


# --- what a client does with the answer ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_any_permutation_of_labels_is_undone_at_once(seed):
    generator = torch.Generator().manual_seed(seed)
    names = torch.randperm(CLASSES, generator=generator)
    truth = torch.randint(CLASSES, (60,), generator=generator)
    assert answered(message(0.95 * PERFECT), truth, names[truth]) == truth.tolist()
    for groups in ("original", "current"):  # who has been repaired is left alone
        assert answered(message(0.9 * PERFECT, 0.05, groups), truth, names[truth], truth) == (
            truth.tolist()
        )


def test_a_half_repaired_exchange_is_finished_only_by_original_groups():
    """Originally 4, 4, 2, 2, 2; in truth 2, 2, 4, 4, 4. The group of 2 has been renamed already."""
    truth, original, now = [2, 2, 4, 4, 4], [4, 4, 2, 2, 2], [4, 4, 4, 4, 4]
    assert answered(message(groups="original"), truth, original, now) == truth
    assert answered(message(groups="current"), truth, original, now) == now  # 4 has the majority
    wrong = [4, 4, 2, 2], [4, 4, 2, 2], [2] * 4  # a wrong repair is taken back
    assert answered(message(), *wrong) == wrong[0]


def test_the_majority_names_the_group():
    rule = message([0.3] * CLASSES)
    assert answered(rule, [1, 1, 3, 3, 3, 0], [2] * 6) == [3] * 6
    assert answered(rule, [3, 3, 3, 1, 1, 0], [3] * 6) == [3] * 6
    assert answered(rule, [1, 1, 3, 3, 0, 0], [2] * 6) == [0] * 6  # a tie: the first class


@pytest.mark.parametrize("margin", [None, 0.2])
def test_a_healthy_client_is_not_harmed(margin):
    """Where more than half of each group is predicted right, no accuracy makes it rename."""
    generator = torch.Generator().manual_seed(3)
    for draw in range(40):
        y = torch.arange(CLASSES).repeat_interleave(21)
        wrong = torch.randint(CLASSES, (len(y),), generator=generator)
        predicted = torch.where(torch.arange(len(y)) % 21 < 11, y, wrong)
        right = torch.rand(CLASSES, generator=generator)
        groups = "original" if draw % 2 else "current"
        assert answered(message(right, margin, groups), predicted, y) == y.tolist()


# --- what the server tells of its model ----------------------------------------------------------


def told(predicted: Tensor, y: Tensor, **options) -> Inspection:
    """The message of a server whose model predicts so of its validation samples."""
    strategy = fm.LabelStandardisation(None, window=1, spread=1, **options)
    server = Server(3, CLASSES, NET, (seen_as(predicted), y), 0)
    still = torch.zeros(3, NET.P, dtype=torch.float64)
    this = Round(1, THETA, torch.arange(3), torch.ones(3).long(), still)
    done = strategy.step(server, strategy.init(server), this)
    assert torch.equal(done.theta, THETA)
    return strategy.message(server, done.state, 1)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("accuracy", ["recall", "precision"])
def test_the_accuracies_are_those_of_scikit_learn(accuracy, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES - 1, (80,), generator=generator)  # nothing is known of the last
    wrong = torch.randint(CLASSES - 1, (80,), generator=generator)
    predicted = torch.where(torch.rand(80, generator=generator) < 0.6, y, wrong)
    score = recall_score if accuracy == "recall" else precision_score
    wanted = score(y.numpy(), predicted.numpy(), labels=range(CLASSES - 1), average=None)
    found = told(predicted, y, accuracy=accuracy).right
    assert found.tolist() == pytest.approx([*wanted, math.inf], abs=1e-12)


def test_the_message_says_how_groups_and_margin_are_meant():
    y = torch.arange(CLASSES)
    for options, margin, groups in (
        ({}, 0.05, "original"),
        ({"margin": 0.2, "groups": "current"}, 0.2, "current"),
        ({"literal": True}, None, "current"),
    ):
        found = told(y, y, **options)
        assert (found.margin, found.groups) == (margin, groups)
