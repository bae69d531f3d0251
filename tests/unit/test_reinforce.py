"""F-RCCE, FLDVE and removal: rewards by hand, baselines, what is read, and what is deployed."""

from __future__ import annotations

import itertools
import math

import helpers
import pytest
import torch
from helpers import Played
from torch import Tensor, nn

import fedlab_mini as fm
from fedlab_mini.engine.outputs import parts
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.methods.policy import scaled
from fedlab_mini.methods.reinforce import shortened

LN2 = math.log(2)


def a_server(clients: int, net: fm.Model | None = None) -> Server:
    """A server whose one sample is x = 1 of class 0."""
    net = fm.logistic(1, 2) if net is None else net
    layers = parts(net).layers
    x = torch.ones(1, layers[0][0] if layers else 6, dtype=torch.float64)
    return Server(clients, 2, net, (x, torch.tensor([0])), 0)


def started(strategy: fm.FRCCE, clients: int, net=None) -> Played:
    """The strategy before round 1."""
    return Played(strategy, a_server(clients, net))


def push(*sizes: float) -> Tensor:
    """Updates [m, 4] of ``logistic(1, 2)``: from theta = 0, a gives the loss log(1 + exp(-2 a))."""
    return torch.tensor([[a, -a, 0.0, 0.0] for a in sizes], dtype=torch.float64)


def loss_of(a: float) -> float:
    """Loss of the model (a, -a) on the sample x = 1 of class 0: scores a and -a."""
    return math.log(1 + math.exp(-2 * a))


def a_round(updates: Tensor, clients=None, t=1, sizes=10, theta: float = 0.0) -> Round:
    """A round with the given updates; theta is (theta, -theta, 0, 0), or zeros."""
    start = torch.zeros(updates.shape[1])
    start[:2] = torch.tensor([theta, -theta])
    return helpers.a_round(updates, sizes, clients, t=t, theta=start, dtype=updates.dtype)


class Bench(Played):
    """A strategy whose draws and logits are prescribed; lessons are noted, not learned."""

    def __init__(self, strategy: fm.FRCCE, server: Server):
        super().__init__(strategy, server)
        self.lessons, policy_of = [], strategy.policy

        def policy(state):
            policy = policy_of(state)
            policy.learn = lambda *lesson: self.lessons.append(lesson)
            return policy

        # In its dictionary, here and below, as a strategy takes no other attributes.
        vars(strategy)["policy"] = policy

    def draw(self, *selections: list[int]) -> Bench:
        """From now on these are the selections of every round."""
        table = torch.tensor(selections)
        vars(self.strategy)["draw"] = lambda server, omega, *_: table.to(omega)
        return self

    def omega(self, *omega: float) -> Bench:
        """From now on the policy says so."""
        said = torch.tensor(omega, dtype=torch.float64).logit()
        vars(self.strategy)["logits"] = lambda *_: said
        return self

    def advantages(self, round: Round) -> list[float]:
        """Play the round; reward minus baseline of every selection."""
        self.step(round)
        return self.lessons[-1][2].double().tolist()


def bench(strategy: fm.FRCCE, clients: int) -> Bench:
    """A strategy before round 1, on the bench."""
    return Bench(strategy, a_server(clients))


# --- rewards by hand -----------------------------------------------------------------------------

A, B, BOTH = 0.313262, 1.313262, 0.693147  # losses of .5, of -.5, and of their mean, from theta = 0
ALL = ([1, 0], [0, 1], [1, 1], [0, 0])


HALVES, PROBES = (0.5, -0.5), {"probes": 3, "baseline": "probes"}
PREVIOUS = {"baseline": "previous"}


@pytest.mark.parametrize(
    ("strategy", "drawn", "updates", "wanted"),
    [
        (fm.FRCCE(probes=4), ALL, HALVES, [BOTH - A, BOTH - B, 0, 0]),
        (fm.FRCCE(probes=4, sign="printed"), ALL, HALVES, [A - BOTH, B - BOTH, 0, 0]),
        (
            fm.FRCCE(**PROBES),  # the mean of the two others
            ALL[:3],
            HALVES,
            [(B + BOTH) / 2 - A, (A + BOTH) / 2 - B, (A + B) / 2 - BOTH],
        ),
        # an empty probe is no baseline of the others; nobody to compare with
        (fm.FRCCE(**PROBES), ([1, 0], [0, 0], [0, 1]), HALVES, [1, 0, -1]),
        (fm.FRCCE(**PROBES), ([0, 0], [0, 1], [0, 0]), HALVES, [0] * 3),
        # the gap of 79 nats counts as 1, and as it is in the printed text
        (fm.FRCCE(probes=2), ALL[:2], (40, -40), [LN2, -1]),
        (fm.FRCCE(literal=True, **PREVIOUS), ALL[1:2], (40, -40), [80 - LN2]),
        # an infinite loss, here also of everybody's mean, is as bad as can be
        (fm.FRCCE(probes=2, limit=None), ALL[:2], (0.5, -1e308), [1, 0]),
        # four lengths of .1, .1, .1 and 30: what is rewarded is cut to five times their median
        (fm.FRCCE(**PREVIOUS), ([0, 0, 0, 1],), (0.1, 0.1, 0.1, 30), [LN2 - A]),
        # rewarded are the probes, not the model that goes out
        (fm.FLDVE(probes=2, **PREVIOUS), ALL[:2], HALVES, [LN2 - A, LN2 - B]),
    ],
)
def test_rewards_by_hand(strategy, drawn, updates, wanted):
    found = bench(strategy, len(updates)).draw(*drawn).advantages(a_round(push(*updates)))
    assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(("window", "options"), [(1, {}), (4, {}), (20, {"literal": True})])
def test_the_moving_average_by_a_plain_loop(window, options):
    """It starts at the loss before round 1, and a reward uses it before it moves."""
    b = bench(fm.FRCCE(baseline="moving", window=window, **options), 2)
    sign = -1 if options else 1
    choices = [[1, 0], [1, 1], [0, 1], [1, 0], [0, 0], [1, 0]]
    thetas, average = [0.1, 0.2, 0.0, 0.3, 0.6, 0.5], loss_of(0.1)
    for t, (choice, theta) in enumerate(zip(choices, thetas, strict=True), 1):
        found = b.draw(choice).advantages(a_round(push(0.4, -0.2), t=t, theta=theta))
        moved = {(1, 0): 0.4, (0, 1): -0.2, (1, 1): 0.1, (0, 0): 0.0}[tuple(choice)]
        loss = loss_of(theta + moved)
        wanted = sign * (average - loss) if any(choice) else 0
        assert found == pytest.approx([wanted], abs=1e-7)
        average = average + (loss - average) / window


def test_when_nobody_is_selected_model_and_policy_stay():
    strategy = started(fm.FRCCE(clamp=0.0), 3)
    vars(strategy.strategy)["draw"] = lambda server, omega, *_: torch.zeros(1, 3).to(omega)
    phi, this = strategy["phi"], a_round(push(0.5, 0.2, -0.1), theta=0.3)
    done = strategy.step(this)
    assert torch.equal(done.theta, this.theta)
    assert torch.equal(strategy["phi"], phi)
    assert not done.weights.any()
    assert (strategy.scores > 0).all()  # they were judged, though


# --- what goes out -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "omega", "sizes", "wanted"),
    [
        (fm.FRCCE(probes=2), (0.9, 0.3, 0.6, 0.5), 10, [0.5, 0, 0.5, 0]),
        (
            fm.FRCCE(probes=2, weighting="size"),
            (0.9, 0.3, 0.6, 0.5),
            [30, 7, 10, 5],
            [0.75, 0, 0.25, 0],
        ),
        (fm.FLDVE(probes=2), (0.9, 0.3, 0.6, 0.2), [1, 50, 9, 3], [0.45, 0.15, 0.3, 0.1]),
        (fm.DVRLRemoval(probes=2), (0.9, 0.49, 0.5, 0.51), 10, [1 / 3, 0, 1 / 3, 1 / 3]),
        (fm.DVRLRemoval(probes=2), (0.1, 0.49, 0.2, 0.3), 10, [0.25] * 4),
    ],
)
def test_the_model_that_goes_out(strategy, omega, sizes, wanted):
    """F-RCCE deploys its first selection, FLDVE weighs by omega, removal drops below one half."""
    b = bench(strategy, 4).omega(*omega).draw([1, 0, 1, 0], [0, 1, 0, 0])
    done = b.step(a_round(push(0.1, 0.2, 0.4, 0.5), sizes=sizes))
    assert done.weights.tolist() == pytest.approx(wanted, abs=1e-7)
    moved = sum(w * a for w, a in zip(wanted, (0.1, 0.2, 0.4, 0.5), strict=True))
    torch.testing.assert_close(done.theta, push(moved)[0], rtol=0, atol=1e-7)
    assert b["omega"].tolist() == pytest.approx(list(omega))  # before the lesson
    assert b.scores.tolist() == pytest.approx(list(omega))


def test_literal_fldve_rewards_the_deployed_model():
    """Omega stands in place of an action; that it never learns from it is asserted in chapter 6."""
    b = bench(fm.FLDVE(literal=True), 2).omega(0.8, 0.2)
    found = b.advantages(a_round(push(0.5, -0.5), theta=0.1))
    assert found == pytest.approx([loss_of(0.1) - loss_of(0.1 + 0.8 * 0.5 - 0.2 * 0.5)], abs=1e-6)


def test_scores_are_means_over_all_rounds_and_quality_over_the_clients_own():
    strategy = started(fm.FRCCE(), 5)
    turns, total, last = torch.zeros(5), torch.zeros(5).double(), torch.zeros(5).double()
    for t, ids in enumerate([[4, 1], [0, 4], [1, 4, 0], [4]], 1):
        strategy.step(a_round(push(*[0.1 * (k - 1.5) for k in ids]), ids, t))
        turns[ids] += 1
        last[ids] = strategy["omega"][ids]
        total[ids] += last[ids]
        assert torch.equal(strategy["omega"], last)
        torch.testing.assert_close(strategy.scores, total / t)
        quality = strategy.strategy.quality(strategy.state)
        torch.testing.assert_close(quality, total / turns.clamp(min=1).double())


def test_models_are_counted():
    for strategy, count in (
        (fm.FRCCE(), 1 + 1),  # the probe, which goes out, and everybody
        (fm.FRCCE(baseline="moving"), 1),
        (fm.FRCCE(probes=4, baseline="probes"), 4),
        (fm.FLDVE(), 8 + 1),  # and what goes out
        (fm.FLDVE(literal=True), 1 + 1),
    ):
        played = started(strategy, 3)
        played.step(a_round(push(0.1, 0.2, 0.3)))
        assert played.step(a_round(push(0.1, 0.2, 0.3), t=2)).evaluated == count


# --- what the policy reads -----------------------------------------------------------------------


def test_scaling_per_client_gives_mean_square_one():
    rows = torch.tensor([[3.0, 4], [0, 0], [-1e-3, 0], [1e6, 1e6]], dtype=torch.float64)
    wanted = [[3 / 12.5**0.5, 4 / 12.5**0.5], [0, 0], [-(2**0.5), 0], [1, 1]]
    torch.testing.assert_close(scaled(rows, "client"), torch.tensor(wanted, dtype=torch.float64))
    assert torch.equal(scaled(rows, "none"), rows)


@pytest.mark.parametrize(
    ("layer", "scaling", "read"),
    [("last", "client", []), ("last", "none", ["length"]), ("all", "none", ["first", "length"])],
)
def test_what_is_read_changes_what_the_policy_says(layer, scaling, read):
    """Of ``mlp(3, 4, 2)`` the first layer has parameters 0 to 15; the last one is always read."""
    updates, omegas = helpers.numbers(3, 26, seed=0), {}
    sent = {name: updates.clone() for name in ("nothing", "first", "length", "last")}
    sent["first"][1, 15] += 0.3
    sent["length"][2] *= 3
    sent["last"][1, 16] += 0.3
    for name, rows in sent.items():
        options = {"layer": layer, "scaling": scaling, "limit": None}
        strategy = started(fm.FRCCE(**options), 3, fm.mlp(3, 4, 2))
        strategy.step(a_round(rows))
        omegas[name] = strategy["omega"]
    still = omegas.pop("nothing")
    found = [name for name, omega in omegas.items() if not torch.allclose(omega, still, atol=1e-9)]
    assert found == [*read, "last"]


def test_fldve_reads_updates_or_models():
    rows, start = helpers.numbers(3, 26, seed=0), torch.zeros(26)
    start[:2] = torch.tensor([0.5, -0.5])  # the model that `a_round` begins with

    def omega(reads: str, theta: float, sent: Tensor) -> Tensor:
        rule = fm.FLDVE(reads=reads, layer="all", limit=None)
        played = started(rule, 3, fm.mlp(3, 4, 2))
        played.step(a_round(sent, theta=theta))
        return played["omega"]

    models = omega("model", 0.5, rows)
    torch.testing.assert_close(models, omega("update", 0.0, rows + start))
    assert not torch.allclose(models, omega("update", 0.5, rows), atol=1e-4)
    assert fm.FLDVE.departures()["reads"] == {"as printed": "model", "ours": "update"}


def test_the_policy_has_the_printed_widths():
    no_bias = fm.Model(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)))
    for net, inputs in ((fm.mlp(3, 4, 2), 10), (fm.logistic(1, 2), 4), (no_bias, 8)):
        widths = itertools.pairwise([inputs, 64, 32, 16, 1])
        assert len(started(fm.FRCCE(), 3, net)["phi"]) == sum((a + 1) * b for a, b in widths)


# --- long updates --------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "huge"), [(1.0, 3e38), (1e-9, 1e-6)])
def test_long_updates_are_shortened_by_hand(unit, huge):
    """Lengths of 1, 2, 3, 0 and a huge one: the lower median of the four is 2."""
    rows = [[unit, 0], [0, 2 * unit], [-3 * unit, 0], [0.6 * huge, -0.8 * huge], [0, 0]]
    updates = torch.tensor(rows)
    found = shortened(updates, 5.0)
    assert (found[3] / unit).tolist() == pytest.approx([6, -8], rel=1e-5)
    assert torch.equal(found[[0, 1, 2, 4]], updates[[0, 1, 2, 4]])
