"""Class-wise Shapley against loops over orderings in plain Python and closed forms."""

from __future__ import annotations

import json
import math
import os
import subprocess
from itertools import permutations
from pathlib import Path

import pytest
import torch
from helpers import Played, numbers

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server

INTERPRETER = os.environ.get("FEDLAB_ORACLES_PYTHON")
SCRIPT = Path(__file__).parent / "foreign" / "classwise.py"
NET, K = fm.mlp(3, 4, 3), 4
X, Y = numbers(45, 3, seed=7), torch.tensor([0, 0, 1, 2, 2] * 9)
THETA = NET.init(0, dtype=torch.float64)
UPDATES, SIZES = 0.8 * numbers(K, NET.P, seed=1), torch.tensor([3, 1, 2, 5])


def answer(model: list[float], sample: list[float]) -> int:
    """The class that the network 3-4-3 gives a sample, written out."""
    first, bias, second, last = model[:12], model[12:16], model[16:28], model[28:]
    hidden = [
        max(0.0, bias[h] + sum(first[3 * h + d] * sample[d] for d in range(3))) for h in range(4)
    ]
    scores = [last[c] + sum(second[4 * c + h] * hidden[h] for h in range(4)) for c in range(3)]
    return scores.index(max(scores))


def worth(label: int, members: tuple[int, ...]) -> float:
    """Right answers in the class times e to the right answers elsewhere, as shares of all."""
    model, sizes = THETA.tolist(), SIZES.tolist()
    total = sum(sizes[client] for client in members)
    for client in members:
        update = UPDATES[client].tolist()
        model = [m + sizes[client] / total * u for m, u in zip(model, update, strict=True)]
    inside = outside = 0
    for sample, truth in zip(X.tolist(), Y.tolist(), strict=True):
        right = answer(model, sample) == truth
        inside += right and truth == label
        outside += right and truth != label
    return inside / len(Y) * math.exp(outside / len(Y))


def by_orderings(label: int) -> list[float]:
    values, orderings = [0.0] * K, list(permutations(range(K)))
    known = {}
    for order in orderings:
        for place, client in enumerate(order):
            before, after = (tuple(sorted(order[:end])) for end in (place, place + 1))
            for members in (before, after):
                if members not in known:
                    known[members] = worth(label, members)
            values[client] += (known[after] - known[before]) / len(orderings)
    return values


def test_values_are_means_over_orderings_in_the_game_of_every_class():
    found = fb.classwise_shapley(NET, THETA, UPDATES, X, Y, SIZES)
    wanted = torch.tensor([by_orderings(label) for label in range(3)], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
    assert wanted.abs().amax(1).min() > 0.01  # no row is all zeros


def test_the_strategy_is_the_sum_over_classes_and_counts_each_coalition_once():
    server, rule = Server(6, 3, NET, (X, Y), 0), fb.ClasswiseShapley()
    shown = Played(rule, server)
    one = Round(1, THETA, torch.tensor([5, 0, 2, 3]), SIZES, UPDATES)
    evaluated = shown.step(one).evaluated
    values = fb.classwise_shapley(NET, THETA, UPDATES, X, Y, SIZES).sum(0)
    torch.testing.assert_close(shown.scores[one.clients], values, rtol=0, atol=1e-12)
    assert shown.scores[[1, 4]].tolist() == [0, 0]
    assert evaluated == 2**K


def knowing(*samples: tuple[int, ...], labels: list[int]) -> tuple[torch.Tensor, ...]:
    """A linear model that answers 0, and updates with which it gets some samples right.

    Sample n is the nth unit vector, so an update decides each answer alone.
    """
    N, classes = len(labels), max(labels) + 1
    weight = torch.zeros(len(samples), classes, N, dtype=torch.float64)
    for client, own in enumerate(samples):
        for n in own:
            weight[client, labels[n], n] = 1
    updates = torch.cat([weight.flatten(1), torch.zeros(len(samples), classes)], 1)
    theta = torch.zeros(updates.shape[1], dtype=torch.float64)
    return theta, updates, torch.eye(N, dtype=torch.float64), torch.tensor(labels)


def test_closed_form_where_every_client_helps_one_class():
    """Additive in class 1; in class 0, whose answers never change, a product of exponentials."""
    labels = [0, 0, 1, 1, 1, 1, 1, 1]
    round = knowing((2,), (3, 4, 5), labels=labels)
    found = fb.classwise_shapley(fm.logistic(8, 2), *round)
    elsewhere = math.exp(2 / 8)
    torch.testing.assert_close(found[1], torch.tensor([1 / 8, 3 / 8]).double() * elsewhere)
    first, second, both = (math.exp(gain / 8) - 1 for gain in (1, 3, 4))
    shares = torch.tensor([first + both - second, second + both - first]).double() / 2
    torch.testing.assert_close(found[0], 2 / 8 * shares)


def test_closed_form_where_clients_help_different_classes():
    """v_1 = a b^[other], so the other client earns half of what it multiplies."""
    round = knowing((1, 2), (3, 4, 5), labels=[0, 1, 1, 2, 2, 2])
    found = fb.classwise_shapley(fm.logistic(6, 3), *round)
    a, b = 2 / 6, 3 / 6
    base, alone, both = math.exp(1 / 6), a, a * math.exp(b)
    in_1 = [(alone + both) / 2, (both - alone) / 2]
    torch.testing.assert_close(found[1], base * torch.tensor(in_1).double())
    alone, both = b, b * math.exp(a)
    in_2 = [(both - alone) / 2, (alone + both) / 2]
    torch.testing.assert_close(found[2], base * torch.tensor(in_2).double())


def test_a_class_without_samples_has_a_row_of_zeros():
    lacking = Y != 1
    found = fb.classwise_shapley(NET, THETA, UPDATES, X[lacking], Y[lacking], SIZES)
    assert found.shape == (3, K)
    assert not found[1].any()
    assert found[0].any()


def test_with_more_than_twelve_clients_the_values_still_sum_to_the_gain():
    updates = 0.8 * numbers(14, NET.P, seed=2)
    found = fb.classwise_shapley(NET, THETA, updates, X, Y)
    models = torch.stack([THETA, THETA + updates.mean(0)])
    right = torch.stack([NET.predict(model, X) == Y for model in models]).double()
    for label in range(3):
        inside, outside = (right[:, label == Y].sum(1), right[:, label != Y].sum(1))
        worths = inside / 45 * torch.exp(outside / 45)
        assert float(found[label].sum()) == pytest.approx(float(worths[1] - worths[0]))


@pytest.mark.skipif(not INTERPRETER, reason="FEDLAB_ORACLES_PYTHON names no interpreter")
def test_pydvl_agrees_where_both_definitions_are_one():
    """Clients of one class, beside one of another that changes nothing; see test_foreign.

    With clients of several classes the two differ: pyDVL, like the paper, averages over sets of
    the other classes' players that are equally likely. It also takes 0 for the worth of no player,
    so the label is one that theta never answers.
    """
    for label in (0, 2):
        coalitions = fm.all_coalitions(K).double() * SIZES
        weights = coalitions / coalitions.sum(1, keepdim=True).clamp(min=1)
        answers = [NET.predict(THETA + row @ UPDATES, X).tolist() for row in weights]
        assert label not in answers[0]
        asked = {"answers": 2 * answers, "labels": Y.tolist(), "classes": [label] * K + [1]}
        found = subprocess.run(
            [INTERPRETER, str(SCRIPT)],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        theirs = torch.tensor(json.loads(found.stdout.splitlines()[-1])[:K], dtype=torch.float64)
        ours = fb.classwise_shapley(NET, THETA, UPDATES, X, Y, SIZES)[label]
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-11)
