"""GTG-Shapley, FedCE, FedIF, quality inference: against slow loops that follow their papers' text.

The loops are NumPy and dictionaries; of the package they take the numbers of a round and, for GTG,
the orders that were drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import Played, numbers

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server

NET, K = fm.mlp(3, 4, 3), 6
X, Y = numbers(40, 3, seed=7), torch.arange(40) % 3
SERVER = Server(K, 3, NET, (X, Y), 0)
THETA = NET.init(0, dtype=torch.float64)


def a_round(t: int = 1, clients: Sequence[int] = tuple(range(K)), scale: float = 0.6) -> Round:
    """A round whose updates and sizes belong to ids; the model moves from round to round."""
    ids = torch.tensor(clients)
    updates = scale * torch.stack([numbers(NET.P, seed=100 * t + k) for k in clients])
    return Round(t, THETA + 0.1 * t, ids, 2 + 2 * (ids % 3), updates)


ROUNDS = [a_round(t) for t in (1, 2, 3, 4)]
LONG = [a_round(t, scale=1.5) for t in (1, 2, 3, 4)]
SOME = [a_round(t, ids) for t, ids in enumerate([(0, 1, 2), (3, 4), (0, 5, 2), (1, 5), (3, 0)], 1)]


def played(strategy: fm.FedAvg, rounds: Sequence[Round]) -> Played:
    """A strategy that was shown some rounds."""
    shown = Played(strategy, SERVER)
    for this in rounds:
        shown.step(this)
    return shown


def after(strategy: fm.FedAvg, rounds: Sequence[Round]) -> torch.Tensor:
    return played(strategy, rounds).scores


def outputs(theta: np.ndarray) -> np.ndarray:
    """Class scores [N, 3] of the network 3-4-3, written out."""
    first, second = theta[:12].reshape(4, 3), theta[16:28].reshape(3, 4)
    hidden = np.maximum(X.numpy() @ first.T + theta[12:16], 0)
    return hidden @ second.T + theta[28:]


def accuracy(theta: np.ndarray) -> float:
    return float((outputs(theta).argmax(1) == Y.numpy()).mean())


def loss(theta: np.ndarray) -> float:
    scores = outputs(theta)
    chosen = scores[np.arange(len(scores)), Y.numpy()]
    return float((np.log(np.exp(scores).sum(1)) - chosen).mean())


def model_of(this: Round, members: Sequence[int]) -> np.ndarray:
    """The round's model plus the mean update of some rows, weighted by their sizes."""
    theta, sizes = this.theta.numpy().copy(), this.sizes.numpy()
    for row in members:
        theta += sizes[row] / sizes[list(members)].sum() * this.updates[row].numpy()
    return theta


# --- GTG-Shapley ---------------------------------------------------------------------------------


def gtg(
    rule: fb.GTGShapley, rounds: Sequence[Round], worth: Callable[[np.ndarray], float]
) -> tuple[np.ndarray, int]:
    """Algorithm 1 order by order: values summed over rounds, and coalitions evaluated."""
    total, evaluated, largest = np.zeros(K), 0, 0.0
    for this in rounds:
        m = len(this.clients)
        memo: dict[frozenset, float] = {}

        def v(members: Sequence[int], memo=memo, this=this) -> float:
            key = frozenset(members)
            if key not in memo:
                memo[key] = worth(model_of(this, sorted(key)))
            return memo[key]

        v_0, v_N = v([]), v(range(m))
        gain = abs(v_N - v_0)
        largest = max(largest, gain)
        of_gain = rule.unit == "gain"
        records: list[list[float]] = []
        running: list[list[float]] = []
        if gain > rule.between * (largest if of_gain else 1):
            eps, k, settled = rule.within * (gain if of_gain else 1), 0, False
            while not settled:
                for order in rule._sweep(m, SERVER.seed, this.t, k // m).tolist():
                    k += 1
                    marginal, before = [0.0] * m, v_0
                    for j, client in enumerate(order):
                        if abs(v_N - before) <= eps > 0:
                            break  # who has not come yet adds nothing
                        now = v(order[: j + 1])
                        marginal[client], before = now - before, now
                    records.append(marginal)
                    running.append([sum(r[i] for r in records) / k for i in range(m)])
                errors = []
                for mean in running[-rule.window :]:
                    last = running[-1]
                    change = [abs(mean[i] - last[i]) / (abs(last[i]) + 1e-12) for i in range(m)]
                    errors.append(sum(change) / m)
                settled = (k > rule.least and max(errors) <= rule.settled) or k + m > rule.samples
            total[this.clients.numpy()] += running[-1]
        evaluated += len(memo)
    return total / len(rounds), evaluated


GTG = {
    "ours": {},
    "published": {"unit": "worth", "metric": "accuracy", "between": 0.01, "within": 0.001},
    "early": {"least": 0, "window": 3, "settled": 0.3},
    "one sweep": {"samples": 1},
}


@pytest.mark.parametrize("rounds", [LONG, SOME], ids=["all clients", "some clients"])
@pytest.mark.parametrize("given", GTG)
def test_gtg_is_its_algorithm_and_asks_for_no_more(given: str, rounds: list[Round]) -> None:
    rule = fb.GTGShapley(**GTG[given])
    shown = played(rule, rounds)
    worth = accuracy if rule.metric == "accuracy" else lambda theta: -loss(theta)
    wanted, evaluated = gtg(rule, rounds, worth)
    np.testing.assert_allclose(shown.scores.numpy(), wanted, rtol=0, atol=1e-12)
    assert shown.evaluated == evaluated
    assert np.abs(wanted).max() > 1e-3


def test_gtg_draws_orders_anew_and_comes_near_the_exact_value() -> None:
    rule = fb.GTGShapley()
    sweeps = [rule._sweep(K, 0, 1, index) for index in range(3)]
    for sweep in sweeps:
        assert sweep[:, 0].tolist() == list(range(K))
        assert (sweep.sort(1).values == torch.arange(K)).all()
    assert not torch.equal(sweeps[0], sweeps[1])
    exact = after(fm.methods.RoundValue(fm.exact), ROUNDS)
    many = after(fb.GTGShapley(between=0, within=0, settled=0, samples=3_000), ROUNDS)
    assert (many - exact).norm() < 0.05 * exact.norm()


# --- FedCE ---------------------------------------------------------------------------------------


def fedce(
    rounds: Sequence[Round], mix: str, error: Callable[[np.ndarray], float]
) -> dict[int, float]:
    """The authors' assembler and learner, site by site; round 0 counts with an error of 1.

    Theirs has every site in every round; that a round's sites share what they held is our rule.
    """
    cosines: dict[int, list[float]] = {}
    errors: dict[int, list[float]] = {}
    coefficient = dict.fromkeys(range(K), 1 / K)
    for this in rounds:
        sites, theta = this.clients.tolist(), this.theta.numpy()
        delta = dict(zip(sites, this.updates.numpy(), strict=True))
        held = sum(coefficient[k] for k in sites)
        old = {k: coefficient[k] / held for k in sites}
        consensus = sum(old[k] * delta[k] for k in sites)
        for k in sites:
            minus = consensus - old[k] * delta[k]
            norms = np.linalg.norm(delta[k]) * np.linalg.norm(minus)
            cosines.setdefault(k, []).append(delta[k] @ minus / norms)
            errors.setdefault(k, [1.0])
        g = np.array([1 - np.mean(cosines[k]) for k in sites])
        e = np.array([np.mean(errors[k]) for k in sites])
        g, e = np.clip(g / g.sum(), 1e-3, None), np.clip(e / e.sum(), 1e-3, None)
        mixed = g * e if mix == "times" else g + e
        mixed = np.clip(mixed / mixed.sum(), 1e-3, None)
        new = dict(zip(sites, mixed / mixed.sum(), strict=True))
        after_it = theta + sum(new[k] * delta[k] for k in sites)
        for k in sites:
            minus_model = (after_it - new[k] * (theta + delta[k])) / (1 - new[k])
            errors[k].append(error(minus_model))
        coefficient |= {k: new[k] * held for k in sites}
    return coefficient


FEW = [a_round(t, ids) for t, ids in enumerate([(0, 1, 2), (4, 2, 1), (3, 0, 5, 2), (1, 3, 0)], 1)]


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
@pytest.mark.parametrize("mix", ["plus", "times"])
@pytest.mark.parametrize("rounds", [ROUNDS, FEW], ids=["all clients", "some clients"])
def test_fedce_is_its_authors_loop(rounds: list[Round], mix: str, metric: str) -> None:
    shown = played(fb.FedCE(mix=mix, metric=metric), rounds)
    found = fedce(rounds, mix, loss if metric == "loss" else lambda theta: 1 - accuracy(theta))
    wanted = [found[k] for k in range(K)]
    np.testing.assert_allclose(shown.scores.numpy(), wanted, rtol=0, atol=1e-12)
    assert np.ptp(wanted) > 0.01
    assert shown.evaluated == sum(len(this.clients) for this in rounds)


def test_fedce_where_updates_agree() -> None:
    alike = replace(ROUNDS[0], updates=ROUNDS[0].updates[:1].expand(K, -1).clone())
    torch.testing.assert_close(after(fb.FedCE(), [alike]), torch.full((K,), 1 / K).double())


# --- FedIF ---------------------------------------------------------------------------------------


def fedif(rounds: Sequence[Round], keep: float) -> np.ndarray:
    """Eq. 6 to 8 client by client; the slope by finite differences."""
    score: dict[int, float] = {}
    for this in rounds:
        theta, P = this.theta.numpy(), NET.P
        steps = 1e-5 * np.eye(P)
        slope = np.array([(loss(theta + h) - loss(theta - h)) / 2e-5 for h in steps])
        influence = {}
        for row, k in enumerate(this.clients.tolist()):
            gradient_like = -this.updates[row].numpy()  # w_{t-1} - w_i
            influence[k] = gradient_like @ slope / np.linalg.norm(gradient_like)
        low, high = min(influence.values()), max(influence.values())
        for k, phi in influence.items():
            psi = (phi - low) / (high - low)
            score[k] = keep * score[k] + (1 - keep) * psi if k in score else psi
    return np.array([score.get(k, 0.0) for k in range(K)])


@pytest.mark.parametrize("rounds", [ROUNDS, SOME], ids=["all clients", "some clients"])
@pytest.mark.parametrize("keep", [0.7, 0.0])
def test_fedif_is_its_three_equations(keep: float, rounds: list[Round]) -> None:
    if keep == 0:
        rounds = rounds[-1:]  # without a memory RoundScore sums
    rule = fb.FedIF(memory=keep)
    np.testing.assert_allclose(after(rule, rounds).numpy(), fedif(rounds, keep), atol=1e-6)
    assert played(rule, rounds).evaluated == 0


def test_fedif_sees_no_rounding() -> None:
    this = ROUNDS[0]
    same = replace(this, updates=this.updates[:1] * torch.rand(K, 1).double())
    torch.testing.assert_close(after(fb.FedIF(), [same]), torch.full((K,), 0.5).double())


# --- quality inference ---------------------------------------------------------------------------


def quality(rounds: Sequence[Round], worth: Callable[[np.ndarray], float]) -> list[float]:
    """Algorithm 1, line by line."""
    phi = [0.0] * K
    omega: list[float] = []
    for i, this in enumerate(rounds):
        members = range(len(this.clients))
        omega.append(worth(model_of(this, members)) - worth(this.theta.numpy()))
        if i >= 1 and omega[i] > omega[i - 1]:
            for n in this.clients.tolist():
                phi[n] += 1
            for n in rounds[i - 1].clients.tolist():
                phi[n] -= 1
        if omega[i] < 0:
            for n in this.clients.tolist():
                phi[n] -= 1
    return phi


CHAIN = [a_round(t, torch.randperm(K, generator=torch.Generator().manual_seed(t))[:3].tolist(), 0.2)
         for t in range(1, 13)]  # fmt: skip


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_quality_inference_is_its_algorithm(metric: str) -> None:
    shown = played(fb.QualityInference(metric=metric), CHAIN)
    wanted = quality(CHAIN, accuracy if metric == "accuracy" else lambda theta: -loss(theta))
    assert shown.scores.tolist() == wanted
    assert len(set(wanted)) > 3
    assert shown.evaluated == 2 * len(CHAIN)
