"""The rules that FLDVE is compared with: what each one weighs by."""

import pandas as pd
import pytest
import torch

import fedlab_mini as fm
import studies
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.policy import Policy
from studies import fldve
from studies.results import Results
from studies.study import COLUMNS

LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.25)
NET = fm.mlp(64, 8, 10)


@pytest.fixture(scope="module", params=fldve.SETS)
def fed(request):
    data = fm.load("digits", dtype=torch.float64)
    return fm.noisy_digits(data, request.param, seed=1)


def last(fed, rule):
    """Weights [5] of the fourth round, and all clients' losses in it, each alone [5]."""
    theta = fm.train(fed, NET, fm.FedAvg(), rounds=3, local=LOCAL, seed=1).theta
    server = Server(5, 10, NET, fed.validation, 1)
    updates = fm.local_updates(fed, NET, theta, local=LOCAL, seed=1, t=4)
    round = Round(4, theta, torch.arange(5), fed.sizes, updates)
    losses = NET.evaluate(theta + updates, *fed.validation, "loss")
    return rule.step(server, rule.init(server), round).weights, losses


def test_own_loss_weighs_by_the_loss_of_each_alone(fed):
    weights, losses = last(fed, fldve.OwnLoss())
    assert weights.argsort().tolist() == losses.argsort(descending=True).tolist()
    assert torch.allclose((weights[0] / weights).log(), (losses - losses[0]) / losses.std())


def test_the_best_weights_of_a_round_lower_its_loss(fed):
    theta = fm.train(fed, NET, fm.FedAvg(), rounds=3, local=LOCAL, seed=1).theta
    updates = fm.local_updates(fed, NET, theta, local=LOCAL, seed=1, t=4)
    weights = fldve.best_weights(NET, theta, updates, *fed.validation)
    models = theta + torch.stack([weights, torch.full((5,), 0.2).double()]) @ updates
    best, plain = NET.evaluate(models, *fed.validation, "loss")
    assert best < plain
    assert weights.min() >= 0
    assert abs(weights.sum() - 1) < 1e-9
    assert 1 <= fldve.effective(weights) <= 5
    assert fldve.effective(torch.full((2, 5), 0.2)).tolist() == pytest.approx([5, 5])


def test_the_reward_by_accuracy_is_the_share_of_right_answers(fed):
    rule, server = fldve.ByAccuracy(), Server(5, 10, NET, fed.validation, 1)
    theta = NET.init(0, dtype=torch.float64)
    updates = fm.local_updates(fed, NET, theta, local=LOCAL, seed=1, t=1)
    round = Round(1, theta, torch.arange(5), fed.sizes, updates)
    right = NET.evaluate(theta + updates, *fed.validation, "accuracy")
    assert torch.allclose(rule.losses(server, round, torch.eye(5).double()), 1 - right)


def test_a_server_that_stops_watches_what_teaches_nothing(fed):
    """The rule sees every second validation sample, the watch the others."""
    seen = []

    class Asks(fm.FedAvg):
        def init(self, server):
            seen.append(server.validation)
            return super().init(server)

    fed = fm.noisy_digits(fm.load("digits"), 2, seed=1)
    history, watch = fldve.watched(fed, NET, Asks(), 40, 1)
    samples, labels = fed.validation
    assert torch.equal(seen[0][0], samples[::2])
    assert torch.equal(watch.second[1], labels[1::2])
    assert list(watch.loss) == [10, 20, 30, 40]
    assert watch.stop() == min(watch.loss, key=watch.loss.get)
    own = NET.evaluate(history.theta[None], *watch.second, "loss")
    assert watch.loss[40] == pytest.approx(float(own))


def test_eight_probes_estimate_the_gradient_shortened_by_what_is_empty():
    worth = torch.rand(32, generator=torch.Generator().manual_seed(3)).double()
    empty = (1 - fldve.OMEGA).prod()
    factor = (1 - empty**7) * 1.0  # `gradient` holds the other factor already
    estimates = fldve.eight_probes(worth, 5)
    error = (estimates.mean(0) - factor * fldve.gradient(worth)) / (estimates.std(0) / 2000**0.5)
    assert error.abs().max() < 4


def test_a_reward_that_always_points_one_way_agrees_with_itself():
    worth = torch.rand(32, generator=torch.Generator().manual_seed(3)).double()
    same = dict(fldve.strength([worth, 2 * worth], 0))
    assert same["agreement of rounds"] == pytest.approx(1)
    opposed = dict(fldve.strength([worth, -worth], 0))
    assert opposed["agreement of rounds"] == pytest.approx(0, abs=1e-9)


def test_a_policy_above_its_clamp_is_drawn_back():
    """Chapter 6: a mean of omega above 0.9 is out of reach, whatever the reward says."""
    policy = Policy(4, 1, (8,), 1e-2, 0.1)
    policy.start(0, torch.zeros(1))
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    everybody = torch.ones(1, 5)
    for _ in range(400):
        policy.learn(policy.logits(inputs), everybody, torch.tensor([0.5]))
    assert 0.8 < policy.logits(inputs).sigmoid().mean() < 0.95


@pytest.mark.parametrize("rule", [fldve.Direct, fldve.ByAccuracy])
def test_the_learners_learn_who_is_noisy(fed, rule):
    history = fm.train(fed, NET, rule(), rounds=40, local=LOCAL, seed=1)
    weights = history.weights[-10:].mean(0)
    assert weights[fed.noise.argmax()] < weights[fed.noise.argmin()]


@pytest.fixture
def rows():
    """Two seeds of every row that the figures and tables of the long study read, all different."""
    metrics = [f"{name} @ {t}" for t in fldve.LOOKS for name in PLOTTED]
    metrics += ["stopped round", "stopped accuracy", "rank correlation @ 30"]
    places = [(f"set {n}", method) for n in fldve.SETS for method in fldve.RULES]
    places += [("without noise", "FedAvg"), ("without noise", "cleanest alone")]
    places += [("set 2", "cleanest alone")]
    cells = [(*place, metric) for place in places for metric in metrics]
    value = {cell: (number + 1) / len(cells) for number, cell in enumerate(cells)}
    frame = pd.DataFrame(
        [(seed, *cell, value[cell]) for seed in range(2) for cell in cells], columns=COLUMNS
    )
    return Results(studies.named("fldve-long"), frame), value


PLOTTED = ("accuracy", "effective clients", "wrong labels repeated")


def test_the_long_figures_show_the_rows_that_they_name(rows):
    results, value = rows
    pictures = {"effective clients": fldve.long_figure(results)}
    for axis in pictures["effective clients"].axes:
        for line in axis.lines:
            where, method = axis.get_title(), line.get_label()
            wanted = [value[where, method, f"effective clients @ {t}"] for t in fldve.LOOKS]
            assert line.get_ydata().tolist() == pytest.approx(wanted)
    for axis in fldve.length_figure(results).axes:
        metric = axis.get_title().replace("test accuracy", "accuracy")
        for line in axis.lines:
            wanted = [value["set 2", line.get_label(), f"{metric} @ {t}"] for t in fldve.LOOKS]
            assert line.get_ydata().tolist() == pytest.approx(wanted)


def test_the_tables_show_the_rows_that_they_name(rows):
    results, value = rows
    shown = str(fldve.stopped_table(results))
    for where, method in (("set 1", "FLDVE"), ("set 3", "rewarded by accuracy")):
        line = next(line for line in shown.splitlines() if line.startswith(f"{method}, {where}"))
        for metric in ("stopped round", "stopped accuracy", "accuracy @ 1200"):
            assert f"{value[where, method, metric]:.2f}" in line


def test_the_gains_by_kind_are_those_of_fldve_over_fedavg():
    results = studies.results("fldve-kinds")
    (axis,) = results.figure().axes
    dots = [line for line in axis.lines if line.get_marker() == "o" and len(line.get_xdata()) > 1]
    assert [text.get_text() for text in axis.get_yticklabels()] == list(fldve.KINDS)
    for kind, line in zip(fldve.KINDS, dots, strict=True):
        accuracy = [results.values("accuracy", rule, kind) for rule in ("FLDVE", "FedAvg")]
        assert line.get_xdata().tolist() == pytest.approx((accuracy[0] - accuracy[1]).tolist())


def test_the_lines_on_images_are_those_of_their_rules():
    results = studies.results("fldve-mnist-full")
    for axis in results.figure().axes:
        shown = {line.get_label(): line.get_ydata().tolist() for line in axis.lines}
        for rule in ("FedAvg", "FLDVE", "own loss"):
            values = results.curve("accuracy", rule, axis.get_title())[1].mean(0)
            assert shown[rule] == pytest.approx(values[1:].tolist())
        clean = results.curve("accuracy", "FedAvg", "without noise")[1].mean(0)
        assert shown["without noise"] == pytest.approx(clean[1:].tolist())
