"""PolicyExplorer: change the reward's sign, the baseline or the step size; see the probabilities.

Chapter 5 shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import traitlets

from ...games.game import Game, all_coalitions
from ...parse import checks
from .base import Explorer, Numbers, by_name, client_names, program, uniforms

LONGEST = 400


class PolicyExplorer(Explorer):
    """REINFORCE on one round: a coin per client, a selection per step, and a free choice of rule.

    losses     [2^n]  validation loss of the model with each selection, index = bit mask; or a
                      `Game` of n players with minus the loss as its value; 2 to 8 clients
    corrupted         ids to be marked
    sign       1: the reward is the fall of the loss (ours); -1: the rise of the loss (the paper's)
    baseline   "none", "moving" (average of 20 steps) or "aggregate" (loss of all clients together)
    rate       step size; seed: which run; steps: 0 ... 400
    raises     ValueError naming the argument

    Each client's probability is the sigmoid of one number. An empty selection changes nothing.
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
        # A game's value is how much the loss falls, so its sign is reversed.
        if isinstance(losses, Game):
            losses = (-losses(all_coalitions(losses.n))).tolist()
        loss_table = checks.reals("losses", losses, ["2^n"], dtype=torch.float64)
        client_count = len(loss_table).bit_length() - 1
        if not 2 <= client_count <= 8 or len(loss_table) != 1 << client_count:
            raise ValueError(
                f"losses: expected 2^n numbers for 2 to 8 clients, got {len(loss_table)}"
            )
        corrupted_ids = sorted(checks.distinct_ids("corrupted", corrupted, client_count).tolist())
        super().__init__(
            losses=loss_table.tolist(),
            names=client_names(client_count, corrupted_ids, "corrupted"),
            corrupted=corrupted_ids,
            rate=checks.number("rate", rate, 0, ends="(]"),
            seed=checks.whole("seed", seed, 0, 19),
            steps=checks.whole("steps", steps, 0, LONGEST),
        )

    def path(self) -> torch.Tensor:
        """Probabilities [steps + 1, n] before each step and after the last."""
        clients = len(self.names)
        coin_flips = torch.tensor(uniforms(self.seed, clients * self.longest)).double()
        client_bits = 1 << torch.arange(clients)
        logits, moving_loss = torch.zeros(clients, dtype=torch.float64), self.losses[0]
        probabilities = [logits.sigmoid()]
        # One row of coins [n] per step, so that a shorter run is the beginning of a longer one.
        for step_coins in coin_flips.view(-1, clients)[: self.steps]:
            is_selected = step_coins < probabilities[-1]
            # The bit mask of the selection is the index of its loss.
            step_loss = self.losses[int((is_selected * client_bits).sum())]
            baseline_losses = {"none": 0.0, "moving": moving_loss, "aggregate": self.losses[-1]}
            loss_drop = baseline_losses[self.baseline] - step_loss
            # An empty selection trains nothing, so its reward is 0.
            reward = self.sign * loss_drop if is_selected.any() else 0.0
            # Updated after its use, because a baseline with the step's loss biases the gradient.
            moving_loss += (step_loss - moving_loss) / 20
            # The selection minus the probability is the gradient of its log probability.
            logits = logits + self.rate * reward * (is_selected.double() - probabilities[-1])
            probabilities.append(logits.sigmoid())
        return torch.stack(probabilities)

    def numbers(self) -> Numbers:
        omega = self.path()[-1]
        selections = all_coalitions(len(omega))
        loss_table = torch.tensor(self.losses, dtype=torch.float64)

        def expected(omega: torch.Tensor) -> float:
            # [2^n]: coins are independent, so the probabilities of the clients multiply.
            selection_chances = torch.where(selections, omega, 1 - omega).prod(1)
            return float(selection_chances @ loss_table)

        expected_losses = {
            "of these probabilities": expected(omega),
            "of one half each": expected(torch.full_like(omega, 0.5)),
            "of everybody": self.losses[-1],
        }
        return {**by_name(self.names, {"probability": omega}), "loss": expected_losses}
