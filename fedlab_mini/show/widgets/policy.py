"""PolicyExplorer: change the reward's sign, the baseline, the step size; watch the probabilities.

Chapter 5 shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import traitlets

from ... import checks
from ...games.game import Game, all_coalitions
from .base import Explorer, Numbers, by_name, client_names, program, uniforms

LONGEST = 400


class PolicyExplorer(Explorer):
    """REINFORCE on one round: a coin a client, one draw a step, every choice of the rule open.

    losses     [2^n]  validation loss of the model with each selection, index = bit mask; or a
                      `Game` of n players, whose worth is minus the loss; 2 to 8 clients
    corrupted         ids to be marked
    sign       1: the reward is how much the loss falls (ours); -1: how much it rises (as printed)
    baseline   "none", "moving" (average of 20 steps) or "aggregate" (loss of everybody together)
    rate       step size; seed which run; steps 0 ... 400
    raises     ValueError naming the argument

    Each client's probability is the sigmoid of one number; a selection of nobody teaches nothing.
    """

    _esm = program("kit", "random", "policy")
    hides = ("probability", "of these probabilities")
    losses = traitlets.List(traitlets.Float()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    corrupted = traitlets.List(traitlets.Int()).tag(sync=True)
    longest = traitlets.Int(LONGEST).tag(sync=True)
    sign = traitlets.Enum([1, -1], 1).tag(sync=True)
    baseline = traitlets.Enum(["none", "moving", "aggregate"], "aggregate").tag(sync=True)
    rate = traitlets.Float().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    steps = traitlets.Int(LONGEST).tag(sync=True)

    def __init__(
        self,
        losses: Sequence[float] | Game,
        *,
        corrupted: Iterable[int] = (),
        rate: float = 1.0,
        seed: int = 0,
        steps: int = LONGEST,
    ):
        # A game's worth is what the loss falls by, so it is taken with the other sign.
        if isinstance(losses, Game):
            losses = (-losses(all_coalitions(losses.n))).tolist()
        table = checks.reals("losses", losses, ["2^n"], dtype=torch.float64)
        clients = len(table).bit_length() - 1
        if not 2 <= clients <= 8 or len(table) != 1 << clients:
            raise ValueError(f"losses: expected 2^n numbers for 2 to 8 clients, got {len(table)}")
        marked = sorted(checks.distinct_ids("corrupted", corrupted, clients).tolist())
        super().__init__(
            losses=table.tolist(),
            names=client_names(clients, marked, "corrupted"),
            corrupted=marked,
            rate=checks.number("rate", rate, 0, ends="(]"),
            seed=checks.whole("seed", seed, 0, 19),
            steps=checks.whole("steps", steps, 0, LONGEST),
        )

    def path(self) -> torch.Tensor:
        """Probabilities [steps + 1, n] before each step and after the last."""
        clients = len(self.names)
        coins = torch.tensor(uniforms(self.seed, clients * self.longest)).double()
        bits = 1 << torch.arange(clients)
        logits, moving = torch.zeros(clients, dtype=torch.float64), self.losses[0]
        path = [logits.sigmoid()]
        for coin in coins.view(-1, clients)[: self.steps]:
            selected = coin < path[-1]
            loss = self.losses[int((selected * bits).sum())]
            baselines = {"none": 0.0, "moving": moving, "aggregate": self.losses[-1]}
            gain = baselines[self.baseline] - loss
            # A selection of nobody trains nothing and so teaches nothing.
            reward = self.sign * gain if selected.any() else 0.0
            moving += (loss - moving) / 20
            logits = logits + self.rate * reward * (selected.double() - path[-1])
            path.append(logits.sigmoid())
        return torch.stack(path)

    def numbers(self) -> Numbers:
        omega = self.path()[-1]
        everyone = all_coalitions(len(omega))
        losses = torch.tensor(self.losses, dtype=torch.float64)

        def expected(omega: torch.Tensor) -> float:
            chances = torch.where(everyone, omega, 1 - omega).prod(1)
            return float(chances @ losses)

        facts = {
            "of these probabilities": expected(omega),
            "of one half each": expected(torch.full_like(omega, 0.5)),
            "of everybody": self.losses[-1],
        }
        return {**by_name(self.names, {"probability": omega}), "loss": facts}
