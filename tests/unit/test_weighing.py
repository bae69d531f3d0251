"""The rules that FLDVE is compared with: what each one weighs by."""

import pandas as pd
import pytest
import torch

import fedlab_mini as fm
import studies
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.policy import Policy
from fedlab_mini.show import plots
from studies import fldve
from studies.results import Results
from studies.study import COLUMNS

LOCAL = fm.LocalSGD(epochs=1, batch=32, lr=0.25)
NET = fm.mlp(64, 8, 10)


@pytest.fixture(scope="module")
def fourth():
    """The server and the fourth round of a training on set 2."""
    fed = fm.noisy_digits(fm.load("digits", dtype=torch.float64), 2, seed=1)
    theta = fm.train(fed, NET, fm.FedAvg(), rounds=3, local=LOCAL, seed=1).theta
    updates = fm.local_updates(fed, NET, theta, local=LOCAL, seed=1, t=4)
    server = Server(5, 10, NET, fed.validation, 1)
    return server, Round(4, theta, torch.arange(5), fed.sizes, updates)


def test_each_rule_weighs_by_what_it_says(fourth):
    server, round = fourth
    models, judged = round.theta + round.updates, server.validation
    losses, right = (NET.evaluate(models, *judged, metric) for metric in ("loss", "accuracy"))
    own = fldve.OwnLoss()
    weights = own.step(server, own.init(server), round).weights
    assert torch.allclose((weights[0] / weights).log(), (losses - losses[0]) / losses.std())
    alone = torch.eye(5).double()
    assert torch.allclose(fldve.ByAccuracy().losses(server, round, alone), 1 - right)
    weights = fldve.best_weights(NET, round.theta, round.updates, *judged)
    models = round.theta + torch.stack([weights, torch.full((5,), 0.2).double()]) @ round.updates
    best, plain = NET.evaluate(models, *judged, "loss")
    assert best < plain
    assert weights.min() >= 0


def test_a_server_that_stops_watches_what_teaches_nothing():
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
    assert watch.stop() == min(watch.loss, key=watch.loss.get)
    own = NET.evaluate(history.theta[None], *watch.second, "loss")
    assert watch.loss[40] == pytest.approx(float(own))


def test_eight_probes_estimate_the_gradient_shortened_by_what_is_empty():
    worth = torch.rand(32, generator=torch.Generator().manual_seed(3)).double()
    factor = 1 - (1 - fldve.OMEGA).prod() ** 7  # `gradient` holds the other factor already
    estimates = fldve.eight_probes(worth, 5)
    error = (estimates.mean(0) - factor * fldve.gradient(worth)) / (estimates.std(0) / 2000**0.5)
    assert error.abs().max() < 4
    for rounds, agreement in (([worth, 2 * worth], 1), ([worth, -worth], 0)):
        found = dict(fldve.strength(rounds, 0))["agreement of rounds"]
        assert found == pytest.approx(agreement, abs=1e-9)


def test_a_policy_above_its_clamp_is_drawn_back():
    """Chapter 6: a mean of omega above 0.9 is out of reach, whatever the reward says."""
    policy = Policy(4, 1, (8,), 1e-2, 0.1)
    policy.start(0, torch.zeros(1))
    inputs = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    everybody = torch.ones(1, 5)
    for _ in range(400):
        policy.learn(policy.logits(inputs), everybody, torch.tensor([0.5]))
    assert 0.8 < policy.logits(inputs).sigmoid().mean() < 0.95


@pytest.fixture
def rows():
    """Two seeds of every row that the figures and tables of the long study read, all different."""
    metrics = [f"{name} @ {t}" for t in fldve.LOOKS for name in PLOTTED]
    metrics += ["stopped round", "stopped accuracy", "rank correlation @ 30"]
    places = [(f"set {n}", method) for n in fldve.SETS for method in fldve.RULES]
    places += [("without noise", "FedAvg"), ("without noise", "cleanest alone")]
    places += [("set 2", "cleanest alone")]
    cells = [(*place, metric) for place in places for metric in metrics]
    value = {
        cell: (number + 1) / len(cells) + cell[2].startswith("effective")  # at least one client
        for number, cell in enumerate(cells)
    }
    frame = pd.DataFrame(
        [(seed, *cell, value[cell]) for seed in range(2) for cell in cells], columns=COLUMNS
    )
    return Results(studies.named("fldve-long"), frame), value


PLOTTED = ("accuracy", "effective clients", "wrong labels repeated")


def test_the_long_figures_show_the_rows_that_they_name(rows):
    results, value = rows
    drawn = [
        (axis, axis.get_title(), "effective clients") for axis in fldve.long_figure(results).axes
    ]
    for axis in fldve.length_figure(results).axes:
        drawn.append((axis, "set 2", axis.get_title().replace("test accuracy", "accuracy")))
    for axis, where, metric in drawn:
        for line in axis.lines:
            wanted = [value[where, line.get_label(), f"{metric} @ {t}"] for t in fldve.LOOKS]
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


def test_the_rows_on_images_are_the_gains_of_fldve_over_the_rule_that_they_name():
    results = studies.results("fldve-mnist-full")
    shown = plots.drawn(results.figure())
    for rule in ("FedAvg", "own loss"):
        for where in ("set 1", "set 2", "set 3"):
            ours, theirs = (results.values("accuracy", r, where) for r in ("FLDVE", rule))
            gain = float((ours - theirs).mean())
            assert shown[f"{rule}, {where}"][0] == pytest.approx(gain)
