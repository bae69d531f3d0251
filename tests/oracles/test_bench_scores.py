"""GTG-Shapley, least core and nucleolus on a round of the bench: by their definitions, slowly.

Worths come from a network that is written out in NumPy; of the package the references take the
round's numbers and, for GTG, the orders that were drawn.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, nnls

import fedlab_bench as fb
from fedlab_bench import registry, truth
from fedlab_bench.rounds import Recorded

SCENARIO, SEED, N = "sizes", 0, 8
NAMES = ("GTG-Shapley", "least core", "nucleolus")
MEMBERS = (np.arange(1 << N)[:, None] >> np.arange(N)) & 1  # row: a coalition's bit mask


@cache
def rounds() -> Recorded:
    return fb.recorded(fb.WORLDS[SCENARIO], SEED)


@cache
def worths() -> np.ndarray:
    """Minus the validation loss of every coalition's mean model in the first round, [256]."""
    record, (x, y) = rounds().records[0], rounds().server.validation
    inputs, labels, sizes = x.flatten(1).numpy(), y.numpy(), record["sizes"].numpy()
    found = []
    for members in MEMBERS:
        shares = members * sizes / max(1, members @ sizes)
        theta = record["theta"].numpy() + shares @ record["updates"].numpy()
        first, second = theta[: 64 * 32].reshape(32, 64), theta[2080:2400].reshape(10, 32)
        hidden = np.maximum(inputs @ first.T + theta[2048:2080], 0)
        scores = hidden @ second.T + theta[2400:]
        chosen = scores[np.arange(len(labels)), labels]
        found.append(-(np.log(np.exp(scores).sum(1)) - chosen).mean())
    return np.array(found)


def first_round(name: str) -> tuple[np.ndarray, object, int]:
    """What a score says after one round, the score itself, and how much it evaluated."""
    method, server = registry.METHODS[name], replace(rounds().server, seed=0)
    done = method.step(server, method.init(server), rounds().rounds[0])
    return method.scores(server, done.state).numpy(), method, done.evaluated


def shortfalls(shares: np.ndarray) -> np.ndarray:
    """By how much every coalition but the empty and the grand one stays short, [254]."""
    v = worths()
    return (v - v[0] - MEMBERS @ shares)[1:-1]


def test_gtg_is_the_mean_of_its_orders() -> None:
    scores, rule, evaluated = first_round("GTG-Shapley")
    v, records, asked = worths(), [], {0, 255}
    gain = abs(v[255] - v[0])
    while True:
        sweep = rule._sweep(N, 0, 1, len(records) // N).tolist()
        for order in sweep:
            marginal, mask = np.zeros(N), 0
            for client in order:
                if abs(v[255] - v[mask]) <= rule.within * gain:
                    break
                marginal[client] = v[mask | 1 << client] - v[mask]
                mask |= 1 << client
                asked.add(mask)
            records.append(marginal)
        running = np.cumsum(records, 0) / np.arange(1, len(records) + 1)[:, None]
        last, recent = running[-1], running[-rule.window :]
        changes = (np.abs(recent - last) / (np.abs(last) + 1e-12)).mean(1)
        settled = len(records) > rule.least and changes.max() <= rule.settled
        if settled or len(records) + N > rule.samples:
            break
    np.testing.assert_allclose(scores, last, rtol=0, atol=1e-10)
    assert evaluated == len(asked)
    assert np.abs(last).max() > 1e-3


def test_the_least_core_is_the_shortest_of_the_fairest() -> None:
    scores, *_ = first_round("least core")
    v = worths()
    gain = v[255] - v[0]
    assert scores.sum() == pytest.approx(gain)
    rows = np.c_[-MEMBERS[1:-1], -np.ones(254)]
    program = linprog(
        np.r_[np.zeros(N), 1.0],
        A_ub=rows,
        b_ub=-(v - v[0])[1:-1],
        A_eq=np.r_[np.ones(N), 0.0][None],
        b_eq=[gain],
        bounds=(None, None),
    )
    assert shortfalls(scores).max() == pytest.approx(program.fun, abs=1e-7)
    # No shorter one: from equal shares it goes only where coalitions that are shortest push it.
    pushed = shortfalls(scores) > program.fun - 1e-7
    directions = MEMBERS[1:-1][pushed] - MEMBERS[1:-1][pushed].mean(1, keepdims=True)
    _, left = nnls(directions.T.astype(float), scores - scores.mean())
    assert left < 1e-6
    assert np.ptp(scores) > 1e-3


def test_the_nucleolus_meets_kohlbergs_criterion() -> None:
    """At every level the coalitions that are at least so short are balanced [Kohlberg 1971]."""
    scores, *_ = first_round("nucleolus")
    v, short, sets = worths(), shortfalls(scores), MEMBERS[1:-1]
    assert scores.sum() == pytest.approx(v[255] - v[0])
    for level in np.unique(np.round(short, 7)):
        chosen = sets[short >= level - 1e-6]
        found = linprog(  # the least of their weights, as large as can be
            np.r_[np.zeros(len(chosen)), -1.0],
            A_ub=np.c_[-np.eye(len(chosen)), np.ones(len(chosen))],
            b_ub=np.zeros(len(chosen)),
            A_eq=np.c_[chosen.T, np.zeros(N)],
            b_eq=np.ones(N),
            bounds=[(0, None)] * len(chosen) + [(None, None)],
        )
        assert found.status == 0
        assert -found.fun > 1e-7
        if np.linalg.matrix_rank(chosen) == N:
            break  # from here on nothing is left to choose


def test_the_board_has_what_they_say_of_all_rounds() -> None:
    """Stored scores are the mean over rounds; on another processor GTG may stop an order later."""
    methods = {name: registry.compared()[name] for name in NAMES}
    submitted = {
        one.name: one
        for one in map(fb.read_submission, sorted((truth.folder() / "submissions").glob("*.csv")))
    }
    for one in fb.entered(methods, [SCENARIO], [SEED]):
        mine, stored = one.scores[SCENARIO, SEED], submitted[one.name].scores[SCENARIO, SEED]
        room = 0.05 if one.name == "GTG-Shapley" else 1e-4
        assert (mine - stored).abs().max() <= room * stored.abs().max()
        assert torch.isfinite(stored).all()
