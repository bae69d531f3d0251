"""Widgets as Python sees them: numbers by other means, stable text, a fallback, checked values."""

import copy
import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import beta, kstest

import fedlab_mini as fm
from fedlab_bench.methods.neighbours import MeanCosine
from fedlab_bench.show.headtohead import HeadToHeadExplorer
from fedlab_mini.methods.round_scores import Taylor
from fedlab_mini.show import widgets
from fedlab_mini.show.widgets import (
    AAMExplorer,
    AttackerExplorer,
    ChangesExplorer,
    CosineExplorer,
    DriftExplorer,
    LabelRuleExplorer,
    MixUpExplorer,
    PartitionExplorer,
    PolicyExplorer,
    PotExplorer,
    Quiz,
    ReplicaExplorer,
    RoundReplay,
    ShapleyExplorer,
    TemperatureExplorer,
    VerdictExplorer,
)
from fedlab_mini.show.widgets.attacker import ATTACKS, DETECTORS, OWN
from fedlab_mini.show.widgets.base import uniforms
from studies.results import WORDS, word_of
from studies.study import Claim

EVERY = [*(getattr(widgets, name) for name in widgets.__all__), HeadToHeadExplorer]
WORTH = [0, 60, 60, 60, 30, 84, 84, 90]
LOSSES = [1.0, 0.4, 1.6, 0.8]
QUESTION = {
    "text": "1 < 2?",
    "choices": [
        {"text": "yes", "right": True, "why": "Count."},
        {"text": "no", "right": False, "why": "Count <again>."},
    ],
}


@pytest.fixture(scope="module")
def history():
    fed = fm.federation(fm.load("digits"), clients=3, samples=120, seed=0)
    local = fm.LocalSGD(epochs=1, batch=20, lr=0.1)
    return fm.train(fed, fm.logistic(64, 10), fm.CGSV(), rounds=3, local=local, seed=0)


def model():
    generator = torch.Generator().manual_seed(0)
    parts = [torch.rand(*s, generator=generator) for s in ((2, 3), (2, 4, 5), (2, 4), (2, 4), (2,))]
    return fm.methods.AAM(*[part.double() for part in parts])


def compared(scores=(("a", 0.5), ("b", 0.8), ("c", 0.81)), truth=0.8):
    """A comparison of three seeds: three scores, the ceiling, and seconds, which have none."""
    rows = [("(the truth itself)", "tau", truth)]
    rows += [(name, metric, v) for metric in ("tau", "seconds") for name, v in scores]
    luck = {("a", 1): 0.02, ("b", 1): 0.05, ("c", 2): -0.03}
    made = [(s, "alike", n, m, v + luck.get((n, s), 0)) for s in range(3) for n, m, v in rows]
    return pd.DataFrame(made, columns=["seed", "scenario", "method", "metric", "value"])


@pytest.fixture
def every(history):
    return [
        ShapleyExplorer(WORTH),
        PartitionExplorer([40, 50, 60]),
        RoundReplay(history, corrupted=[1]),
        CosineExplorer([[1, 0], [0, 1], [0.5, 0.5]]),
        CosineExplorer(),
        DriftExplorer(),
        ReplicaExplorer(),
        PolicyExplorer(LOSSES),
        AAMExplorer(model(), [1, 2, 3]),
        TemperatureExplorer([0.2, 0.1, 0.0], drawn=2),
        LabelRuleExplorer(),
        MixUpExplorer(),
        changed(),
        VerdictExplorer(),
        PotExplorer(),
        AttackerExplorer(),
        HeadToHeadExplorer(compared()),
        Quiz([QUESTION]),
    ]


def test_printed_form_is_stable_and_a_table_of_every_number_stands_in(every):
    for widget in every:
        name = type(widget).__name__
        assert repr(widget) == f"<{name}: open it in JupyterLab or on the book's site>"
        data, _ = widget._repr_mimebundle_()
        assert data["text/plain"] == repr(widget)
        assert re.search(r"<(table|ol)>", data["text/html"])
        for column, row in widget.numbers().items() if hasattr(widget, "numbers") else ():
            for name, value in row.items():
                if not {column, name} & {*widget.hides}:
                    assert f"<td>{value:.4g}</td>" in data["text/html"]
    assert "Count &lt;again&gt;." in Quiz([QUESTION]).fallback()


# Random choices: the page makes the same ones, as tests/site/test_widgets.py sees


def test_uniform_numbers_are_uniform_within_a_run_and_over_runs():
    drawn = np.array([uniforms(seed, 400) for seed in range(400)])
    for some in (drawn[0], drawn[:, 0], drawn.ravel(), (drawn[:, 1:] - drawn[:, :-1]).ravel() % 1):
        assert kstest(some, "uniform").pvalue > 1e-3


def test_shares_of_a_class_are_dirichlets():
    explorer = PartitionExplorer([10**8] * 4, alpha=0.5, clients=3)
    shares = []
    for explorer.seed in range(500):
        shares.append(explorer.counts() / 10**8)
    for client in np.stack(shares).reshape(-1, 3).T:
        assert kstest(client, beta(0.5, 1.0).cdf).pvalue > 1e-3


def test_a_client_is_selected_as_often_as_its_probability_says():
    """So the mean second step, from probabilities that differ, is the slope of the reward there."""
    explorer, off = PolicyExplorer(LOSSES, rate=3.0, steps=2), []
    explorer.longest = 2
    for explorer.seed in range(1000):
        _, omega, after = explorer.path()
        (a, b), (_, first, second, both) = omega.tolist(), LOSSES
        slope_a = (1 - b) * (both - first) + b * (second - both)
        slope_b = (1 - a) * (both - second) + a * (first - both)
        slope = torch.tensor([slope_a * a * (1 - a), slope_b * b * (1 - b)])
        off.append(after.logit() - omega.logit() - 3.0 * slope)
    off = torch.stack(off)
    assert ((off.mean(0) / off.std(0)).abs() < 4.5 / 1000**0.5).all()


# Shapley


def test_phi_is_the_shapley_value_and_follows(make_table_game):
    explorer = ShapleyExplorer(WORTH)
    assert explorer.phi == pytest.approx([31, 31, 28])
    table = torch.rand(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    table[0] = 0
    explorer.values = table.tolist()
    assert explorer.phi == pytest.approx(fm.exact(make_table_game(table)).values.tolist())
    explorer = ShapleyExplorer(WORTH)
    explorer.orders = 2  # A, B, C and A, C, B
    assert explorer.numbers()["share"] == pytest.approx({"A": 60, "B": 3, "C": 27})


# Drift


@pytest.mark.parametrize(
    ("a", "c", "rate", "steps", "rest", "best"),
    [
        ([1, 3], [0, 10], 0.02, 200, 5.0443494, 7.5),
        ([1, 3], [0, 10], 0.02, 1, 7.5, 7.5),
        ([2, 2], [1, 4], 0.1, 7, 2.5, 2.5),
        ([0.5, 5], [10, 0], 0.2, 2, 10 * 0.19 / 1.19, 10 / 11),  # 1 - 0.9^2 of the way, and all
    ],
)
def test_fedavg_rests_where_the_moves_cancel(a, c, rate, steps, rest, best):
    explorer = DriftExplorer(curvatures=a, optima=c, rate=rate, steps=steps)
    numbers = explorer.numbers()
    found = list(numbers["value"].values())
    assert found == pytest.approx([best, rest, abs(rest - best)], abs=1e-6)
    q = [1 - (1 - rate * x) ** steps for x in a]
    assert list(numbers["part of the way"].values()) == pytest.approx(q)
    closed = sum(x * y for x, y in zip(q, c, strict=True)) / sum(q)
    assert found[1] == pytest.approx(closed, abs=1e-9)


# Replica


@pytest.mark.parametrize(
    ("twice", "missed", "worth"),
    [
        (False, [4, 0.04, 9, 0], [8.16, 13.68, 14.16, 0]),
        (True, [240 / 49, 0.5625, -1, -1], [8.3376, 10.5725, 8.0450, 8.0450]),
    ],
)
def test_a_replica_can_do_harm(twice, missed, worth):
    numbers = ReplicaExplorer(twice=twice).numbers()
    assert list(numbers["leave-one-out"].values()) == pytest.approx(missed)
    assert list(numbers["Shapley value φ"].values()) == pytest.approx(worth, abs=1e-4)
    # Nobody's model is 0, whose worth is -36.
    assert sum(worth) == pytest.approx(numbers["value"]["worth of all"] + 36, abs=1e-3)


# Partition


def test_counts_are_whole_and_complete():
    explorer = PartitionExplorer([178, 182, 177], alpha=0.05, clients=12, seed=3)
    for explorer.alpha in (0.05, 100.0):
        counts = explorer.counts()
        assert counts.sum(1).tolist() == explorer.totals
        assert counts.min() >= 0


# Replay


def test_replay_shows_the_history(history):
    replay = RoundReplay(history, corrupted=[1])
    replay.round = 2
    replay.shown = [True, False, True]
    numbers = replay.numbers()
    assert list(numbers["score"].values()) == pytest.approx(history.scores[1].tolist(), abs=1e-5)
    kept = history.weights[1, [0, 2]]
    assert numbers["value"]["weight of the shown"] == pytest.approx(float(kept.sum()), abs=1e-4)
    assert numbers["value"]["test accuracy"] == pytest.approx(float(history.accuracy[2]), abs=1e-5)


def test_replay_asks_about_the_client_that_is_named(history):
    assert [RoundReplay(history).asked, RoundReplay(history, corrupted=[2, 1]).asked] == [0, 1]
    assert RoundReplay(history, corrupted=[1], asked=2).asked == 2
    with pytest.raises(ValueError, match="asked: "):
        RoundReplay(history, asked=3)


def test_replay_shows_omega_of_the_round():
    fed = fm.federation(fm.load("digits"), clients=3, samples=120, seed=0)
    local = fm.LocalSGD(epochs=1, batch=20, lr=0.1)
    rule = fm.FLDVE(lr=0.01)
    learned = fm.train(fed, fm.logistic(64, 10), rule, rounds=4, local=local, seed=0)
    replay = RoundReplay(learned)
    numbers = replay.numbers()
    omega = torch.tensor(list(numbers["ω"].values()))
    assert omega.tolist() == pytest.approx(learned.state["omega"].tolist(), abs=2e-5)
    assert not torch.allclose(omega, learned.scores[-1].float(), atol=1e-3)
    for replay.round in (1, 2, 3, 4):
        omega, weights = (
            torch.tensor([*replay.numbers()[key].values()]) for key in ("ω", "weight")
        )
        assert weights.tolist() == pytest.approx((omega / omega.sum()).tolist(), abs=5e-5)


def test_replay_of_what_is_not_finite(history):
    broken = copy.copy(history)
    object.__setattr__(broken, "accuracy", history.accuracy * math.nan)
    object.__setattr__(broken, "scores", history.scores / 0)
    replay = RoundReplay(broken)
    json.dumps(replay.get_state(["accuracy", "scores", "weights"]), allow_nan=False)
    assert math.isnan(replay.numbers()["value"]["test accuracy"])


# Cosine


def test_cosines_of_three_arrows():
    numbers = CosineExplorer([[2, 0], [0, 1], [0, 3]]).numbers()
    root = 5**0.5
    assert list(numbers["cosine ψ"].values()) == pytest.approx([1 / root, 2 / root, 2 / root])
    assert numbers["value"]["length of the mean U"] == pytest.approx(root / 3)
    numbers = CosineExplorer([[1, 0], [-1, 0]]).numbers()  # what cancels has no direction
    assert set(numbers["cosine ψ"].values()) == {0.0}
    assert all(math.isnan(x) for x in numbers["ψ, scaled to sum 1"].values())


def test_the_three_arrows_of_the_start_are_ranked_in_two_ways():
    numbers = CosineExplorer().numbers()
    psi, phi = (list(numbers[name].values()) for name in ("cosine ψ", "exact Shapley"))
    assert psi[1] < psi[2]
    assert phi[1] > phi[2]
    assert phi[0] == pytest.approx(-0.5156, abs=1e-4)


# Policy


def test_expected_loss_is_the_mean_of_many_draws():
    explorer = PolicyExplorer(LOSSES, steps=3)
    omega = explorer.path()[-1]
    draws = torch.rand(40_000, 2, generator=torch.Generator().manual_seed(0)) < omega
    losses = torch.tensor(LOSSES)[draws.long() @ torch.tensor([1, 2])]
    expected = explorer.numbers()["loss"]["of these probabilities"]
    assert abs(losses.mean() - expected) < 4.5 * losses.std() / 200


def test_first_step_is_reinforce():
    explorer = PolicyExplorer(LOSSES, rate=0.3, steps=1)
    selected = [u < 0.5 for u in uniforms(0, 2)]
    loss = LOSSES[selected[0] + 2 * selected[1]]
    cases = ((1, "none", 0.0), (1, "moving", 1.0), (1, "aggregate", 0.8), (-1, "none", 0.0))
    for explorer.sign, explorer.baseline, b in cases:
        step = [explorer.sign * 0.3 * (b - loss) * (s - 0.5) * any(selected) for s in selected]
        expected = [1 / (1 + math.exp(-x)) for x in step]
        assert explorer.path()[-1].tolist() == pytest.approx(expected)


# AAM


def test_prediction_is_the_models():
    aam = model()
    explorer = AAMExplorer(aam, [0.5, 1.0, 1.5])
    explorer.shares = [1.0, 0.4, 0.0]
    sizes = torch.tensor([0.5, 0.4, 0.0]).double()
    truth = float(aam(sizes.expand(1, 5, 3))[0, 0, -1])
    assert explorer.numbers()["accuracy"]["with these sizes"] == pytest.approx(truth)
    value = sizes * aam.omega[0]
    index = list(explorer.numbers()["index"].values())
    assert index == pytest.approx(fm.contribution_index(value).tolist())
    with pytest.raises(TypeError, match="model: expected an AAM"):
        AAMExplorer(None, [1, 1, 1])


# Temperature


def test_inclusion_is_the_sum_over_all_orders():
    phi = [0.2, 0.15, 0.0, -0.05, 0.1]
    explorer = TemperatureExplorer(phi, irrelevant=[2, 3], temperature=0.1, drawn=3)
    p = (torch.tensor(phi).double() / 0.1).softmax(0).tolist()
    found = [0.0] * 5
    for order in itertools.permutations(range(5), 3):
        chance, left = 1.0, 1.0
        for k in order:
            chance, left = chance * p[k] / left, left - p[k]
        for k in order:
            found[k] += chance
    numbers = explorer.numbers()
    assert list(numbers["among those drawn"].values()) == pytest.approx(found)
    assert numbers["value"]["irrelevant clients expected"] == pytest.approx(found[2] + found[3])


# Label rule


def test_chance_of_renaming_is_that_of_many_draws():
    chance = np.random.default_rng(0)
    share = chance.binomial(12, 0.7, 50_000) / 12
    right = chance.binomial(30, 0.9, 50_000) / 30
    for strict, hits in ((True, share > right + 1e-9), (False, share >= right - 0.1 - 1e-9)):
        explorer = LabelRuleExplorer(group=12, server=30, recall=0.9, margin=0.1, strict=strict)
        assert explorer.chance(0.7) == pytest.approx(hits.mean(), abs=0.012)


# Mix-up


def test_a_mix_up_moves_scores_and_never_the_model():
    told = {}
    for order in itertools.permutations(range(3)):
        numbers = MixUpExplorer(order=list(order)).numbers()
        assert numbers["value"] == pytest.approx({"the model moves by": 2 / 3, "mean score": 4 / 9})
        told[order] = list(numbers["told"].values())
        assert told[order] == pytest.approx([(4 / 3, 2 / 3, -2 / 3)[k] for k in order])
    assert MixUpExplorer().numbers()["told"]["client 0"] == pytest.approx(-2 / 3)
    # If all orders are equally likely, every place has the same mean.
    assert np.mean(list(told.values()), axis=0) == pytest.approx([4 / 9] * 3)
    drift = [list(MixUpExplorer(rounds=t).numbers()["told"].values()) for t in (1, 400, 20_000)]
    far = [max(abs(x - 4 / 9) for x in places) for places in drift]
    assert [x < limit for x, limit in zip(far, (1, 0.1, 0.02), strict=True)] == [False, True, True]


# One thing changes


def changed() -> ChangesExplorer:
    """Two clients; the second one changes, and moves its share by the score alone."""
    before = {"retraining": [[0.4, 0.6], [0.6, 0.4]], "score": [[0.9, 0.7], [0.1, 0.3]]}
    after = {"retraining": before["retraining"], "score": [[0.2, 0.4], [0.8, 0.6]]}
    told = {"nothing changes": before, "B lies": after}
    shares = {c: {s: torch.tensor(of) for s, of in told[c].items()} for c in told}
    return ChangesExplorer(["A", "B"], shares, {"B lies": "B"}, change="B lies", score="score")


def test_a_change_shows_shares_before_and_then_beside_the_reference():
    explorer = changed()
    assert explorer.numbers() == {
        "before": pytest.approx({"A": 0.8, "B": 0.2}),
        "then": pytest.approx({"A": 0.3, "B": 0.7}),
        "retraining": pytest.approx({"A": 0.5, "B": 0.5}),
    }
    assert explorer.who == [0, 1]
    assert "retraining" in explorer.hides


# Verdict


def test_the_five_differences_are_the_chapters_and_ten_decide_the_claim():
    ahead = [0.03, 0.01, 0.02, 0.00, 0.04]
    explorer = VerdictExplorer()
    for times in (1, 2, 3):
        told = fm.evidence.interval(ahead * times, low=-1, high=1)
        assert explorer.found(5 * times) == pytest.approx(told)
    ends = explorer.numbers()["A minus B"]
    assert ends == pytest.approx({"low": -0.013, "high": 0.053}, abs=5e-4)
    assert str(explorer.found(10)) == "0.020 [0.005, 0.035]"
    assert explorer.numbers()["seeds"] == {"to decide": 8}
    heard = set()
    for bound, equal, seeds in itertools.product((-0.1, 0.0, 0.02, 0.2), (False, True), (5, 8)):
        explorer.bound, explorer.equal = bound, equal
        asked = Claim(
            "?", "accuracy", "A", low=bound, high=bound if equal else math.inf, equal=equal
        )
        heard.add(explorer.judged(seeds))
        assert explorer.judged(seeds) == word_of(asked, explorer.found(seeds))
    assert heard == set(WORDS)
    assert math.isnan(VerdictExplorer(bound=0.02).numbers()["seeds"]["to decide"])
    assert explorer.hides == ("to decide",)
    explorer.seeds = 8
    assert "low" in explorer.hides  # it would give the answer away


# Head to head


def test_dots_are_the_intervals_and_the_line_is_the_ceiling_or_the_best():
    explorer = HeadToHeadExplorer(compared())
    found = explorer.numbers()
    told = fm.evidence.interval([0.8, 0.85, 0.8])
    assert [found[key]["b"] for key in ("mean", "low", "high")] == pytest.approx(list(told)[:3])
    assert found["mean"]["ceiling"] == pytest.approx(0.8)
    assert found["minus the line"]["a"] == pytest.approx(0.5 + 0.02 / 3 - 0.8)
    assert found["scores"] == {"at the line": 2, "with all seeds": 2}  # a's interval lies below 0
    assert "mean" in explorer.hides  # what is shown would be the answer
    explorer.metric = "seconds"  # less is better, and there is no ceiling
    found = explorer.numbers()
    assert math.isnan(found["mean"]["ceiling"])
    assert found["minus the line"]["a"] == 0
    explorer = HeadToHeadExplorer(compared(), metric="seconds", seeds=2)
    assert explorer.numbers()["mean"]["c"] == pytest.approx(0.81)
    assert explorer.hides == ("with all seeds",)
    with pytest.raises(ValueError, match="seeds: expected"):
        HeadToHeadExplorer(compared(), seeds=4)


def test_pot_pays_gloves_as_on_paper():
    """One left glove, two right ones; A, who holds the left one, under two names."""
    gloves = [0.0, 0, 0, 60, 0, 60, 0, 60]
    numbers = PotExplorer(worths=gloves).numbers()
    assert [numbers[name]["Shapley"] for name in "ABC"] == pytest.approx([40, 10, 10])
    assert [numbers[name]["nucleolus"] for name in "ABC"] == pytest.approx([60, 0, 0], abs=1e-6)
    assert numbers["left over"] == pytest.approx(dict.fromkeys(numbers["A"], 0), abs=1e-6)
    assert numbers["worst group"]["Shapley"] == pytest.approx(10)
    assert numbers["second name"]["marginal"] == pytest.approx(60)  # both halves are needed
    copied = PotExplorer(worths=gloves, copies=True).numbers()["second name"]
    assert copied["marginal"] == pytest.approx(-60)  # neither is missed
    assert copied["Shapley"] == pytest.approx(-10)
    assert math.isnan(copied["nucleolus"])


# Attacker


def attackers():
    return [AttackerExplorer(sends=sent, watched=[True] * 4) for sent in (*ATTACKS, OWN)]


def test_an_attacker_is_paid_what_the_methods_give_it():
    """The loss of the toy is quadratic, so second-order Taylor scores are its Shapley values."""
    for explorer in attackers():
        numbers, server, round = explorer.numbers(), explorer.server(), explorer.round()
        for name, method in (("mean cosine", MeanCosine()), ("silent Shapley", Taylor(2))):
            scores = method.score(server, method.init(server), round)
            paid = fm.pay.by_score(scores[0] if isinstance(scores, tuple) else scores)
            assert list(numbers[name].values()) == pytest.approx(paid.tolist(), abs=1e-9)


def test_honest_clients_are_named_with_fir_by_the_first_limit_that_names_it():
    strict = {
        "last step": [fm.defences.LastStep(1 - x / 500) for x in range(1000)],
        "duplicates": [fm.defences.Duplicates(1 - x / 500) for x in range(1000)],
        "norms": [fm.defences.Norms(5 - x / 500) for x in range(2000)],
        "server's gradient": [fm.defences.ServersGradient(x / 500 - 1) for x in range(1000)],
    }
    missed = set()
    for explorer in attackers():
        told, server, round = (
            explorer.numbers()["named with Fir"],
            explorer.server(),
            explorer.round(),
        )
        before = round.theta - torch.tensor(explorer.last_step)
        for name, detectors in strict.items():
            found = (d.suspects(server, {"theta": before}, round) for d in detectors)
            first = next((named for named in found if named[5]), None)
            if first is None:
                missed.add((explorer.sends, name))
            else:
                assert told[name] == first[:5].sum(), (explorer.sends, name)
    # No limit says that the median length is unusual.
    assert missed == {("replay, median length", "norms"), ("disguise", "norms")}


def test_detectors_accuse_honest_clients_and_not_the_disguise():
    explorer = AttackerExplorer()
    numbers = explorer.numbers()
    assert numbers["named with Fir"]["last step"] == 3
    assert sum(numbers["named by"].values()) == 0
    assert numbers["mean cosine"]["Fir"] > 1.5 * numbers["mean cosine"]["Birch"]
    explorer.watched = [True] * 4
    accused = explorer.numbers()["named by"]
    assert {name for name, count in accused.items() if count} == {"Alder", "Birch", "Elm"}
    explorer.sends = "replay"  # which only its own detector finds
    assert explorer.numbers()["named by"]["Fir"] == 1
    assert explorer.numbers()["honest named"] == dict(zip(DETECTORS, (0, 0, 0, 3), strict=True))
    explorer.watched = [False] * 4
    assert all(math.isnan(count) for count in explorer.numbers()["honest named"].values())
