"""Label standardisation: an S-FedAvg that has permuted labels repaired. Chapter 9.

It is an S-FedAvg, so this is the one method that builds on another than fedavg. Below: sfedavg.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from ..checks import choice, flag, number, whole
from ..engine.model import Model
from ..engine.rounds import Message, Round, Server, State, Step
from .fedavg import classes_of, optional, strategy
from .sfedavg import SFedAvg


@dataclass(frozen=True)
class Inspection:
    """The message of label standardisation: what the server sends, and how a client answers it.

    clients [s]       who is asked
    right [classes]   P, what share of each class the server's model gets right
    margin, groups    see `LabelStandardisation`
    """

    clients: Tensor
    right: Tensor
    margin: float | None = 0.05
    groups: str = "original"

    def answer(
        self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor
    ) -> Tensor:
        """A client's new labels [n], from its own samples and the model it was sent.

        theta [P]; x [n, ...]; original [n] labels as they were at first; y [n] as they are now
        All groups are decided on before any is renamed, so that an exchange is undone at once.
        """
        predicted = net.predict(theta, x)
        # Original labels keep apart what a half repair has merged under one name.
        keys = original if self.groups == "original" else y
        renamed = y.clone()
        for key in keys.unique():
            group = keys == key
            votes = torch.bincount(predicted[group].cpu(), minlength=len(self.right))
            label = int(votes.argmax())
            predicted_so = int(votes[label]) / int(votes.sum())
            # A group is always renamed as a whole, so one label tells that of all.
            if label != int(y[group][0]) and self.accept(label, predicted_so):
                renamed[group] = label
        return renamed

    def accept(self, label: int, share: float) -> bool:
        """Is ``label`` the group's true name, if this share of it is predicted so?"""
        right = float(self.right[label])
        return (
            share > right if self.margin is None else share >= right - self.margin - 1e-12
        )


@strategy
class LabelStandardisation(SFedAvg):
    """S-FedAvg whose server tells suspects that their labels may be permuted; clients answer.

    Once the validation accuracy has been stable, every round's message holds what share of each
    class the server's model gets right; a client (`Inspection`) renames the label groups that the
    model names otherwise. The server learns only who changed something, and forgives: its phi
    becomes the mean.

    margin        a group is renamed if at least ``P[L] - margin`` of it is predicted as L; None: as
                  printed, if more than P[L] of it is
    spread        lambda: stable means that the last ``window`` (zeta) validation accuracies differ
                  by no more than this; 0.02 as printed
    once          signal in the first stable round only, not in every round from then on
    accuracy      what P is: "recall", the share of the true class L that is predicted as L, or
                  "precision", the share of the predictions of L that are right
    groups        a client's label groups are those of its "original" labels, or of its "current"
                  ones (as printed), which merges what a half repair has mixed
    literal       margin None, spread .02, current groups, and all that it means for `SFedAvg`
    other arguments, scores: see `SFedAvg`

    Suspects are the clients with phi below the mean and, unless literal, those that have renamed
    something before: a repair may be half done, and forgiven already.
    state         S-FedAvg's, and recent: the last validation accuracies; stable_at: the first
                  stable round, 0 if there was none; right [classes] P, of round ``looked_at``;
                  corrections [K] how often a client renamed something
    raises        ValueError or TypeError naming the argument
    source        [Nagalapatti & Narayanam 2021; chapter 9]
    """

    margin: float | None = 0.05
    spread: float = 0.05
    window: int = 5
    once: bool = False
    accuracy: str = "recall"
    groups: str = "original"

    PRINTED: ClassVar = SFedAvg.PRINTED | {
        "margin": None,
        "spread": 0.02,
        "groups": "current",
    }
    CHECKS: ClassVar = SFedAvg.CHECKS | {
        "margin": optional(partial(number, low=0, high=1)),
        "spread": partial(number, low=0, high=1),
        "window": whole,
        "once": flag,
        "accuracy": partial(choice, accepted=("recall", "precision")),
        "groups": partial(choice, accepted=("original", "current")),
    }

    def init(self, server: Server) -> State:
        """The state before round 1."""
        classes = classes_of(server, "label standardisation")
        return super().init(server) | {
            # NaN until the window is full: comparisons with it are false, so nothing is stable.
            "recent": torch.full((self.window,), math.nan, dtype=torch.float64),
            "right": torch.full((classes,), math.inf, dtype=torch.float64),
            "corrections": torch.zeros(server.clients, dtype=torch.long),
            "stable_at": torch.tensor(0),
            "looked_at": torch.tensor(0),
        }

    def step(self, server: Server, state: State, round: Round) -> Step:
        """S-FedAvg's; then the server looks whether its model is stable, and how good it is."""
        done = super().step(server, state, round)
        samples, labels = server.validation
        predicted = server.net.predict(done.theta, samples)
        accuracy = (predicted == labels).double().mean().cpu()
        recent = torch.cat([state["recent"][1:], accuracy[None]])
        if not state["stable_at"] and recent.max() - recent.min() <= self.spread + 1e-12:
            state["stable_at"] += round.t
        seen = {
            "recent": recent,
            "right": self._right(predicted, labels, server.classes),
            "looked_at": torch.tensor(round.t),
        }
        return done._replace(state=state | seen, evaluated=done.evaluated + 1)

    def _right(self, predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
        """P [classes]: recall or precision; infinite for a class that nothing is known of."""
        counted = labels if self.accuracy == "recall" else predicted
        hits = torch.bincount(
            counted[predicted == labels].cpu(), minlength=classes
        ).double()
        total = torch.bincount(counted.cpu(), minlength=classes).double()
        # No share reaches infinity, so nobody renames anything to a class without evidence.
        return torch.where(total > 0, hits / total, math.inf)

    def inspection(self, state: State, t: int) -> Inspection | None:
        """What the suspects are asked after round ``t``; None: nothing."""
        stable_at = int(state["stable_at"])
        # A repair may take several rounds, so the message is sent again in each of them.
        if (
            not stable_at
            or int(state["looked_at"]) != t
            or (self.once and stable_at != t)
        ):
            return None
        suspects = state["phi"] < state["phi"].mean()
        # Forgiven clients stand at the mean, and would never be asked for the rest.
        if not self.literal:
            suspects |= state["corrections"] > 0
        asked = suspects.nonzero().flatten()
        return Inspection(asked, state["right"], self.margin, self.groups)

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """See ``FedAvg``: the ``inspection``."""
        return self.inspection(state, t)

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The clients ``changed`` say that they renamed labels: their penalty is lifted."""
        state["corrections"][changed] += 1
        state["phi"][changed] = state["phi"].mean()
        return state
