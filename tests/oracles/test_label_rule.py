"""The rule of label standardisation against binomial sums, exact fractions and scikit-learn."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from scipy import stats
from sklearn.metrics import precision_score, recall_score
from torch import Tensor
from torch.nn.functional import one_hot

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round
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
    kept = original.clone(), y.clone()
    found = message.answer(NET, THETA, seen_as(predicted), original, y)
    assert torch.equal(original, kept[0])  # labels are returned, not changed in place
    assert torch.equal(y, kept[1])
    assert found.dtype == torch.long
    return found.tolist()


def message(right=PERFECT, margin: float | None = 0.05, groups: str = "original") -> Inspection:
    """A message to client 0; by default the server's model is never wrong."""
    right = torch.as_tensor(right, dtype=torch.float64)
    return Inspection(torch.tensor([0]), right, margin, groups)


def accepts(a: int, n: int, b: int, N: int, margin: Fraction | None) -> bool:
    """The rule in whole numbers: a of n samples named L, b of N validation samples right."""
    if margin is None:
        return a * N > b * n
    return Fraction(a, n) >= Fraction(b, N) - margin


def chance(n: int, N: int, p: float, margin: Fraction | None) -> float:
    """P(a truly swapped group is renamed): a sum over what the model gets right, twice.

    Wrong samples are all predicted as the group's wrong label 2, and L = 1: 2 a >= n is a majority.
    """
    ours, theirs = stats.binom(n, p).pmf(range(n + 1)), stats.binom(N, p).pmf(range(N + 1))
    return sum(
        float(ours[a] * theirs[b])
        for a in range(n + 1)
        for b in range(N + 1)
        if 2 * a >= n and accepts(a, n, b, N, margin)
    )


# --- the threshold -------------------------------------------------------------------------------

MARGINS = {"strict": None, "none": Fraction(0), "5 %": Fraction(1, 20), "20 %": Fraction(1, 5)}


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize(("n", "N"), [(1, 1), (20, 20), (37, 23), (40, 60), (3, 100)])
def test_the_threshold_is_exact_for_all_counts(n, N, margin):
    """Shares that are equal as fractions are equal to the rule, whatever they are as floats."""
    wanted = MARGINS[margin]
    given = None if wanted is None else float(wanted)
    for b in range(N + 1):
        rule = message([b / N] * CLASSES, given)
        for a in range(n + 1):
            assert rule.accept(3, a / n) == accepts(a, n, b, N, wanted), (a, b)


@pytest.mark.parametrize("margin", ["strict", "5 %"])
def test_the_threshold_is_exact_for_the_counts_of_a_group(margin):
    """As above, with a group of samples: 57 of 60 reach 25 / 25 - 5 %; 3 of 5 do not pass 60 %."""
    wanted, wrong = MARGINS[margin], []
    given = None if wanted is None else float(wanted)
    for n, N in ((5, 5), (20, 25), (60, 25)):
        for a in range(n // 2 + 1, n + 1):
            for b in range(N // 2, N + 1):
                labels = answered(
                    message([b / N] * CLASSES, given), [1] * a + [2] * (n - a), [2] * n
                )
                if (labels[0] == 1) != accepts(a, n, b, N, wanted):
                    wrong.append((a, n, b, N))
    assert wrong == []


def test_the_accuracy_that_counts_is_that_of_the_new_name():
    rule = message([0.2, 0.9, 0.5, 0.7, math.inf], margin=None)
    for share in (0.1, 0.3, 0.6, 0.8, 1.0):
        found = [rule.accept(label, share) for label in range(CLASSES)]
        assert found == [share > p for p in (0.2, 0.9, 0.5, 0.7, math.inf)]


@pytest.mark.parametrize("margin", [None, 0.0, 0.05, 1.0])
def test_a_class_that_nothing_is_known_of_is_no_name(margin):
    rule = message([1, 1, math.inf, 1, 1], margin)
    assert not rule.accept(2, 1.0)
    assert answered(rule, [2] * 6, [3] * 6) == [3] * 6


# --- how often a swapped group is found ----------------------------------------------------------


@pytest.mark.parametrize(("n", "N", "p"), [(20, 30, 0.8), (9, 40, 0.7), (60, 25, 0.95)])
@pytest.mark.parametrize("margin", MARGINS)
def test_a_swapped_group_is_renamed_as_often_as_the_binomial_sum_says(n, N, p, margin):
    draws, exact = 1000, chance(n, N, p, MARGINS[margin])
    generator = torch.Generator().manual_seed(n)
    ours = torch.rand(draws, n, generator=generator) < p
    theirs = (torch.rand(draws, N, generator=generator) < p).sum(1)
    given = None if MARGINS[margin] is None else float(MARGINS[margin])
    renamed = 0
    for hits, b in zip(ours, theirs.tolist(), strict=True):
        rule = message([0.0, b / N, 0.0, 0.0, 0.0], given)
        labels = answered(rule, torch.where(hits, 1, 2), [2] * n)
        assert labels in ([1] * n, [2] * n)
        renamed += labels[0] == 1
    error = math.sqrt(exact * (1 - exact) / draws)
    assert abs(renamed / draws - exact) < 4 * error + 1e-9


@pytest.mark.parametrize("n", [10, 50, 200])
@pytest.mark.parametrize("p", [0.8, 0.9, 0.97])
def test_the_printed_rule_is_a_coin_flip_and_the_margin_repairs_it(n, p):
    """Two estimates of one number from n samples each: either is as often the larger one."""
    pmf = stats.binom(n, p).pmf(range(n + 1))
    tie = float((pmf**2).sum())
    few = 2 * float(pmf[: (n + 1) // 2].sum())  # the group has no majority: hardly ever
    assert abs(chance(n, n, p, None) - (1 - tie) / 2) <= few + 1e-12
    assert chance(n, n, p, None) < 0.5
    z = 0.05 / math.sqrt(2 * p * (1 - p) / n)
    repaired = chance(n, n, p, Fraction(1, 20))
    assert repaired > 0.5 + (1 - 2 * stats.norm.sf(z)) / 4
    if n == 200:
        assert repaired == pytest.approx(stats.norm.cdf(z), abs=0.035)
        assert repaired > 0.9


# --- what a client does with the answer ----------------------------------------------------------


@pytest.mark.parametrize("margin", [None, 0.05], ids=["strict", "margin"])
@pytest.mark.parametrize("groups", ["original", "current"])
def test_an_exchange_is_undone_at_once(groups, margin):
    """2 and 4 are decided on before either is renamed: no sample is renamed twice."""
    rule = message(0.9 * PERFECT, margin, groups)
    truth = [2, 2, 2, 4, 4, 0, 1, 1]
    swapped = [4, 4, 4, 2, 2, 0, 1, 1]
    assert answered(rule, truth, swapped) == truth


@pytest.mark.parametrize("seed", range(8))
def test_any_permutation_of_labels_is_undone_at_once(seed):
    generator = torch.Generator().manual_seed(seed)
    names = torch.randperm(CLASSES, generator=generator)
    truth = torch.randint(CLASSES, (60,), generator=generator)
    assert answered(message(0.95 * PERFECT), truth, names[truth]) == truth.tolist()
    assert answered(message(0.95 * PERFECT), truth, truth) == truth.tolist()


def test_a_half_repaired_exchange_is_finished_only_by_original_groups():
    """Originally 4, 4, 2, 2, 2; in truth 2, 2, 4, 4, 4. The group of 2 has been renamed already."""
    truth, original, now = [2, 2, 4, 4, 4], [4, 4, 2, 2, 2], [4, 4, 4, 4, 4]
    assert answered(message(groups="original"), truth, original, now) == truth
    assert answered(message(groups="current"), truth, original, now) == now  # 4 has the majority
    strict = message(0.9 * PERFECT, None, "original")
    assert answered(strict, truth, original, now) == truth
    more = [2, 2, 2, 4, 4], [4, 4, 4, 2, 2], [4] * 5  # now 2 has it: the merged group follows
    assert answered(message(0.5 * PERFECT, groups="current"), *more) == [2] * 5
    assert answered(message(0.5 * PERFECT, groups="original"), *more) == more[0]


def test_a_repaired_client_is_left_alone():
    truth, original = [2, 2, 4, 4, 0], [4, 4, 2, 2, 0]
    for groups in ("original", "current"):
        rule = message(groups=groups)
        assert answered(rule, truth, original, truth) == truth


def test_a_wrong_repair_is_taken_back():
    """A group that was renamed by mistake may get its first label again."""
    truth, now = [4, 4, 2, 2], [2, 2, 2, 2]
    assert answered(message(groups="original"), truth, truth, now) == truth
    assert answered(message(0.9 * PERFECT, None), truth, truth, now) == truth


def test_the_majority_names_the_group():
    rule = message([0.3] * CLASSES)
    assert answered(rule, [1, 1, 3, 3, 3, 0], [2] * 6) == [3] * 6
    assert answered(rule, [3, 3, 3, 1, 1, 0], [3] * 6) == [3] * 6
    assert answered(rule, [1, 1, 3, 3, 0, 0], [2] * 6) == [0] * 6  # a tie: the first class


@pytest.mark.parametrize("margin", [None, 0.05, 1.0])
def test_the_own_label_is_never_a_change(margin):
    rule = message([0.0] * CLASSES, margin)
    assert answered(rule, [2, 2, 2, 1], [2] * 4) == [2] * 4


@pytest.mark.parametrize("margin", [None, 0.0, 0.05, 0.2])
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


def test_groups_are_renamed_as_a_whole_and_one_by_one():
    """Group 0 is seen as 3 by too few, group 1 by enough, group 2 as itself."""
    predicted = [3, 3, 3, 0, 0, *[3, 3, 3, 3, 1], 2, 2]
    y = [0] * 5 + [1] * 5 + [2] * 2
    found = answered(message([0.75] * CLASSES), predicted, y)
    assert found == [0] * 5 + [3] * 5 + [2] * 2


def test_a_client_may_be_told_of_a_label_that_it_does_not_hold():
    assert answered(message(), [4, 4, 1], [0, 0, 1]) == [4, 4, 1]


# --- what the server tells of its model ----------------------------------------------------------


def told(predicted: Tensor, y: Tensor, **options) -> Inspection:
    """The message of a server whose model predicts so of its validation samples."""
    strategy = fm.LabelStandardisation(None, window=1, spread=1, **options)
    server = fm.Server(3, CLASSES, NET, (seen_as(predicted), y), 0)
    still = torch.zeros(3, NET.P, dtype=torch.float64)
    this = Round(1, THETA, torch.arange(3), torch.ones(3).long(), still)
    done = strategy.step(server, strategy.init(server), this)
    assert torch.equal(done.theta, THETA)
    return strategy.message(server, done.state, 1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("accuracy", ["recall", "precision"])
def test_the_accuracies_are_those_of_scikit_learn(accuracy, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (80,), generator=generator)
    wrong = torch.randint(CLASSES, (80,), generator=generator)
    predicted = torch.where(torch.rand(80, generator=generator) < 0.6, y, wrong)
    score = recall_score if accuracy == "recall" else precision_score
    wanted = score(y.numpy(), predicted.numpy(), labels=range(CLASSES), average=None)
    found = told(predicted, y, accuracy=accuracy).right
    assert found.tolist() == pytest.approx(wanted.tolist(), abs=1e-12)
    other = precision_score if accuracy == "recall" else recall_score
    unlike = other(y.numpy(), predicted.numpy(), labels=range(CLASSES), average=None)
    assert abs(found.numpy() - unlike).max() > 0.01


def test_recall_is_of_true_classes_and_precision_of_predictions():
    """Class 1: three samples, two found; it is named four times. Nothing is predicted as 4."""
    y = torch.tensor([1, 1, 1, 0, 0, 0, 4, 2])
    predicted = torch.tensor([1, 1, 0, 1, 1, 0, 0, 2])
    recall, precision = told(predicted, y).right, told(predicted, y, accuracy="precision").right
    assert recall.tolist() == pytest.approx([1 / 3, 2 / 3, 1, math.inf, 0])
    assert precision.tolist() == pytest.approx([1 / 3, 2 / 4, 1, math.inf, math.inf])


def test_the_message_says_how_groups_and_margin_are_meant():
    y = torch.arange(CLASSES)
    found = told(y, y)
    assert (found.margin, found.groups) == (0.05, "original")
    found = told(y, y, margin=0.2, groups="current")
    assert (found.margin, found.groups) == (0.2, "current")
    found = told(y, y, literal=True)
    assert (found.margin, found.groups) == (None, "current")
    found = told(y, y, literal=True, groups="original", margin=None)
    assert (found.margin, found.groups) == (None, "original")
