"""S-FedAvg against plain enumeration: its game, Algorithm 2, relevance, and who is drawn."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable

import helpers
import pytest
import torch
from helpers import Played, numbers
from scipy import stats
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.sfedavg import algorithm_2 as packaged

NET = fm.mlp(4, 5, 3)  # P = 43
CLASSES = 3


def samples(n: int = 50, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Validation samples of unequally frequent classes."""
    x = numbers(n, 4, seed=seed)
    return x, (x[:, 0] > 0).long() + (x[:, 0] + x[:, 1] > 0.8).long()


def started(strategy: fm.SFedAvg, clients: int, seed: int = 0, validation=None) -> Played:
    """The strategy before round 1."""
    return Played(strategy, Server(clients, CLASSES, NET, validation or samples(), seed))


def a_round(ids: Iterable[int], t: int = 1, missing: Iterable[int] = ()) -> Round:
    """A round with random updates of unequal sizes."""
    updates, sizes = 0.6 * numbers(len(ids), NET.P, seed=7 * t), [5 + 3 * k for k in ids]
    theta = 0.5 * numbers(NET.P, seed=t)
    return helpers.a_round(updates, sizes, ids, t=t, missing=missing, theta=theta)


Worth = Callable[[frozenset[int]], float]


def plain_worth(plain, this: Round, part: tuple[Tensor, Tensor], **options) -> Worth:
    """v(S) of one coalition: average its rows, load the model, count what it gets right."""
    by_size, metric = options.get("weighting") == "size", options.get("metric", "accuracy")
    known: dict[frozenset[int], float] = {}

    def worth(members: frozenset[int]) -> float:
        if not members and options.get("empty") == "zero":
            return 0.0
        if members not in known:
            theta, rows = this.theta.clone(), sorted(members)
            total = sum(float(this.sizes[i]) if by_size else 1.0 for i in rows)
            for i in rows:
                theta += (float(this.sizes[i]) if by_size else 1.0) / total * this.updates[i]
            accuracy, loss = plain.judge(NET, theta, part)
            known[members] = accuracy if metric == "accuracy" else -loss
        return known[members]

    return worth


def by_orders(worth: Worth, m: int) -> Tensor:
    """Shapley values [m]: the mean marginal contribution over all m! orders, one by one."""
    total, orders = torch.zeros(m, dtype=torch.float64), list(itertools.permutations(range(m)))
    for order in orders:
        for place, i in enumerate(order):
            before = frozenset(order[:place])
            total[i] += worth(before | {i}) - worth(before)
    return total / len(orders)


# --- the round game ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("empty", "weighting", "metric"),
    [("theta", "uniform", "accuracy"), ("zero", "size", "loss"), ("theta", "size", "loss")],
)
@pytest.mark.parametrize("m", [1, 5])
def test_exact_values_are_those_of_plain_enumeration(plain, m, empty, weighting, metric):
    options = {"empty": empty, "weighting": weighting, "metric": metric}
    strategy, this = started(fm.SFedAvg(None, exact=True, **options), 8), a_round([6, 1, 3, 7, 0])
    this = Round(1, this.theta, this.clients[:m], this.sizes[:m], this.updates[:m])
    worth = plain_worth(plain, this, samples(), **options)
    strategy.step(this)
    torch.testing.assert_close(
        strategy["values"][this.clients], by_orders(worth, m), rtol=0, atol=1e-9
    )
    assert strategy.evaluated == 2**m  # the empty coalition is one of them


@pytest.mark.parametrize("m", [1, 4, 5, 7])
def test_values_are_exact_wherever_that_asks_for_no_more_coalitions(m):
    """R orders of m clients pass through R (m - 1) coalitions between the empty and the full."""
    for permutations in (1, 3, 10):
        chosen = started(fm.SFedAvg(None, permutations=permutations, metric="loss"), m)
        exact = started(fm.SFedAvg(None, exact=True, metric="loss"), m)
        orders = fm.SFedAvg(None, permutations=permutations, exact=False, metric="loss")
        orders = started(orders, m)
        this = a_round(range(m), 2)
        for strategy in (chosen, exact, orders):
            strategy.step(this)
        wanted = exact if 2**m <= permutations * (m - 1) + 2 else orders
        assert torch.equal(chosen["values"], wanted["values"])
        assert orders.evaluated <= permutations * (m - 1) + 2


def test_sampled_orders_are_unbiased_and_share_out_the_whole_gain(plain):
    """The same round at 400 times t: the mean is near the exact values, each sum is the gain."""
    this = a_round([4, 0, 2, 5])
    worth = plain_worth(plain, this, samples(), metric="loss")
    exact, gain = by_orders(worth, 4), worth(frozenset(range(4))) - worth(frozenset())
    rule, found = fm.SFedAvg(None, permutations=2, exact=False, metric="loss"), []
    strategy = started(rule, 6)
    for t in range(1, 401):
        again = Round(t, this.theta, this.clients, this.sizes, this.updates)
        strategy.step(again)
        found.append(strategy["values"][this.clients])
        assert float(found[-1].sum()) == pytest.approx(gain, abs=1e-9)
    found = torch.stack(found)
    error = found.std(0) / math.sqrt(len(found))
    assert (error > 0).all()
    assert ((found.mean(0) - exact).abs() < 4 * error).all()
    assert len(found.round(decimals=9).unique(dim=0)) >= 12  # orders differ from round to round


# --- Algorithm 2, as printed ---------------------------------------------------------------------


def algorithm_2(worth: Worth, order: tuple[int, ...]) -> Tensor:
    """The loop of Algorithm 2 for one permutation; clients and places are counted from 1."""
    n, sv = len(order), []
    place = {client + 1: at + 1 for at, client in enumerate(order)}  # p(j)
    for i in range(1, n + 1):
        members = {j for j in range(1, n + 1) if place[j] <= i}  # p(j) <= i
        with_i = frozenset(j - 1 for j in members | {i})
        sv.append(worth(with_i) - worth(frozenset(j - 1 for j in members)))
    return torch.tensor(sv, dtype=torch.float64)


def table(n: int, seed: int) -> Worth:
    """A worth drawn at random for each coalition."""
    values = numbers(1 << n, seed=seed).tolist()
    return lambda members: values[sum(1 << i for i in members)]


def test_printed_values_go_to_the_mean_of_algorithm_2_over_all_orders(make_game):
    n, worth = 4, table(4, 8)
    all_ = torch.stack([algorithm_2(worth, p) for p in itertools.permutations(range(n))])
    found, spread = packaged(make_game(n, 8), 20_000, 1), all_.std(0) / math.sqrt(20_000)
    assert ((found - all_.mean(0)).abs() <= 4.5 * spread + 1e-12).all()
    exact = by_orders(worth, n)
    assert float((all_.mean(0) - exact).abs().max()) > 0.05  # these are no Shapley values


def test_literal_rounds_use_algorithm_2(plain):
    this = a_round([1, 4, 5], 2)
    worth = plain_worth(plain, this, samples(), metric="loss")
    known = torch.stack([algorithm_2(worth, p) for p in itertools.permutations(range(3))])
    for seed in range(5):
        make = fm.SFedAvg(None, permutations=1, literal=True, metric="loss")
        strategy = started(make, 8, seed)
        strategy.step(this)
        near = (known - strategy["values"][this.clients]).abs().amax(1)
        assert float(near.min()) < 1e-9


# --- relevance -----------------------------------------------------------------------------------

TIMETABLE = ([0, 3, 5], [3], [1, 2, 3, 5], [5, 0], [3, 5], [0, 1, 3, 5], [2], [5])


@pytest.mark.parametrize(("alpha", "beta"), [(0.75, 0.25), (1, 1), (0, 0.5)])
@pytest.mark.parametrize("by_class", [False, True], ids=["all", "by_class"])
def test_relevance_is_the_expansion_over_a_clients_own_rounds(plain, alpha, beta, by_class):
    """phi_k = alpha^r phi_0 + beta sum over its rounds s = 1..r of alpha^(r - s) sv_s."""
    options = {"metric": "loss", "exact": True, "by_class": by_class}
    strategy = started(fm.SFedAvg(None, alpha, beta, **options), 7)
    x, y = samples()
    parts = [(x, y)] + [(x[y == c], y[y == c]) for c in range(CLASSES) if by_class]
    earned: list[dict[int, list[float]]] = [{k: [] for k in range(7)} for _ in parts]
    for t, ids in enumerate(TIMETABLE, 1):
        before, this = strategy.scores.clone(), a_round(ids, t)
        strategy.step(this)
        absent = [k for k in range(7) if k not in ids]
        assert torch.equal(strategy.scores[absent], before[absent])
        for part, own in zip(parts, earned, strict=True):
            values = by_orders(plain_worth(plain, this, part, metric="loss"), len(ids))
            for k, value in zip(ids, values.tolist(), strict=True):
                own[k].append(value)
    columns = [strategy.scores, *(strategy["class_scores"].T if by_class else ())]
    for phi, own in zip(columns, earned, strict=True):
        for k, values in own.items():
            r = len(values)
            wanted = alpha**r / 7 + beta * sum(
                alpha ** (r - s) * value for s, value in enumerate(values, 1)
            )
            assert float(phi[k]) == pytest.approx(wanted, abs=1e-7)
    wanted = torch.tensor([sum(values) for values in earned[0].values()]).double()
    torch.testing.assert_close(strategy["total"], wanted, rtol=0, atol=1e-7)


# --- classes -------------------------------------------------------------------------------------


def test_a_class_without_validation_samples_earns_nothing():
    x, y = samples()
    some = y != 1
    validation = x[some], y[some]
    one = started(fm.SFedAvg(None, by_class=True, metric="loss"), 5, validation=validation)
    two = started(fm.SFedAvg(None, metric="loss"), 5, validation=validation)
    for strategy in (one, two):
        strategy.step(a_round([0, 2, 4]))
    torch.testing.assert_close(one["values"], two["values"], rtol=0, atol=1e-7)
    wanted = torch.tensor([0.75, 1, 0.75, 1, 0.75], dtype=torch.float64) / 5
    torch.testing.assert_close(one["class_scores"][:, 1], wanted, rtol=0, atol=1e-12)


# --- who is drawn --------------------------------------------------------------------------------


def set_chances(p: list[float], m: int) -> dict[tuple[int, ...], float]:
    """Chance of every set of m clients: one after another by p, without replacement."""
    chances: Counter[tuple[int, ...]] = Counter()
    for order in itertools.permutations(range(len(p)), m):
        chance, left = 1.0, 1.0
        for k in order:
            chance, left = chance * p[k] / left, left - p[k]
        chances[tuple(sorted(order))] += chance
    return dict(chances)


PHI = {
    "equal": ([0.2] * 5, 1.0),
    "far": ([0.02, 0.05, -0.01, 0.06, 0.0], 0.02),
    "printed": ([0.3, 0.1, 0.1, -0.4], 1.0),
    "all alike": ([5.0, -3, 0, 1e3, -1e3], math.inf),
}


@pytest.mark.parametrize("case", PHI)
@pytest.mark.parametrize("m", [1, 2])
def test_clients_are_drawn_as_by_successive_sampling(case, m):
    phi, temperature = PHI[case]
    weights = [math.exp(value / temperature) for value in phi]
    p = [w / sum(weights) for w in weights]
    chances = set_chances(p, m)
    strategy = started(fm.SFedAvg(m, temperature=temperature), len(phi), seed=11)
    strategy.state["phi"] = torch.tensor(phi, dtype=torch.float64)
    assert strategy.strategy.probabilities(strategy.state).tolist() == pytest.approx(p)
    draws = 3000
    found = Counter(tuple(strategy.select(t).tolist()) for t in range(1, draws + 1))
    assert set(found) <= set(chances)
    sets = list(chances)
    test = stats.chisquare([found[s] for s in sets], [draws * chances[s] for s in sets])
    assert test.pvalue > 1e-3


@pytest.mark.parametrize(("temperature", "scale"), [(1e-300, 1.0), (1e-4, 1e5)])
def test_a_tiny_temperature_takes_the_best_and_nothing_underflows(temperature, scale):
    strategy = started(fm.SFedAvg(3, temperature=temperature), 6)
    strategy.state["phi"] = scale * torch.tensor([-3.0, 7, 2, -8, 6, 1]).double()
    for t in range(1, 30):
        assert strategy.select(t).tolist() == [1, 2, 4]
    assert float(strategy.strategy.probabilities(strategy.state).sum()) == pytest.approx(1)
