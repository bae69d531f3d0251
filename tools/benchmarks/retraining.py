"""Exact Shapley values by retraining: one federated training for every coalition.

``fm.exact(fm.retraining_game(...))`` against a plain loop over coalitions, rounds and clients.
"""

from __future__ import annotations

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.games.estimate import Estimate
from fedlab_mini.games.game import all_coalitions

from .loop import Order, PlainLoop, engine_order
from .timing import Result, cpu, interleave, ratios

NAME = "retraining"
CLIENTS, ROUNDS, TARGET = 8, 10, 12.0
WIDTHS = (64, 32, 10)
LOCAL = fm.LocalSGD(epochs=1, batch=20, lr=0.1)


def digits() -> fm.Federation:
    """Eight clients with 100 handwritten digits each."""
    data = fm.load("digits")
    return fm.federation(
        data, clients=CLIENTS, samples=100 * CLIENTS, validation=360, test=360, seed=0
    )


def loop_values(
    sets: Tensor,
    fed: fm.Federation,
    net: fm.Model,
    rounds: int,
    metric: str,
    order: Order | None = None,
) -> Tensor:
    """The worth [C] of coalitions [C, n], trained one after another from the same model."""
    loop = PlainLoop(fed, net.module, batch=LOCAL.batch, lr=LOCAL.lr, order=order)
    theta = net.init(0, dtype=fed.x.dtype)
    sign = 1.0 if metric == "accuracy" else -1.0
    worth = []
    for members in sets:
        ids = members.nonzero().flatten().tolist()
        final = loop.train(theta, rounds, ids) if ids else theta
        worth.append(sign * net.evaluate(final[None], *fed.validation, metric))
    return torch.cat(worth)


def check_equal(fed: fm.Federation, net: fm.Model) -> float:
    """Largest difference of any coalition's loss in float64 after two rounds; equal accuracies."""
    fed, rounds = fed.to(dtype=torch.float64), 2
    order, sets = engine_order(fed, LOCAL, 0), all_coalitions(CLIENTS)
    values = {}
    for metric in ("loss", "accuracy"):
        mine = fm.retraining_game(fed, net, rounds, LOCAL, metric, seed=0)(sets)
        values[metric] = (mine - loop_values(sets, fed, net, rounds, metric, order)).abs().max()
    assert values["accuracy"] == 0, f"accuracies differ by {values['accuracy']}"
    assert values["loss"] < 1e-9, f"losses differ by {values['loss']}"
    return float(values["loss"])


def run(repetitions: int) -> list[Result]:
    """Eight clients, 64-32-10, 10 rounds: 256 coalitions, 10,240 client epochs."""
    fed, net = digits(), fm.mlp(*WIDTHS)
    print(f"all coalitions, float64, 2 rounds, game - loop: {check_equal(fed, net):.1e} in loss")
    found: dict[str, Estimate] = {}

    def stacked() -> None:
        game = fm.retraining_game(fed, net, ROUNDS, LOCAL, "accuracy", seed=0)
        found["game"] = fm.exact(game)

    def loop() -> None:
        game = fm.Game(CLIENTS, lambda sets: loop_values(sets, fed, net, ROUNDS, "accuracy"))
        found["loop"] = fm.exact(game)

    seconds = interleave({"game": cpu(stacked), "loop": cpu(loop)}, repetitions)
    assert found["game"].evaluations == 1 << CLIENTS, found["game"]
    for side in ("game", "loop"):
        print(f"Shapley values by {side}:", [round(v, 4) for v in found[side].values.tolist()])
    what = f"{CLIENTS} clients x 100 samples, 64-32-10, {ROUNDS} rounds: loop / retraining_game"
    return [Result(NAME, what, ratios(seconds["loop"], seconds["game"]), TARGET)]
