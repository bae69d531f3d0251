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
from ..engine.rounds import Round, Server
from .fedavg import optional, strategy
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
    stable_at     the first stable round (0: none yet); corrections [K] how often a client renamed
    raises        ValueError or TypeError naming the argument
    source        [Nagalapatti & Narayanam 2021; chapter 9]
    """

    margin: float | None = 0.05
    spread: float = 0.05
    window: int = 5
    once: bool = False
    accuracy: str = "recall"
    groups: str = "original"

    KEPT: ClassVar = (*SFedAvg.KEPT, "recent", "corrections", "stable_at")
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

    def start(self, server: Server) -> None:
        """Called once before the first round; forgets everything."""
        super().start(server)
        # NaN until the window is full: comparisons with it are false, so nothing is stable before.
        self.recent = torch.full((self.window,), math.nan, dtype=torch.float64)
        self.corrections = torch.zeros(server.clients, dtype=torch.long)
        self.stable_at = 0
        self.note: Inspection | None = None

    def aggregate(self, round: Round) -> Tensor:
        """The new global model [P]; then the server looks whether it is stable, and whom to ask."""
        theta = super().aggregate(round)
        samples, labels = self.server.validation
        predicted = self.server.net.predict(theta, samples)
        self.evaluations += 1
        accuracy = (predicted == labels).double().mean().cpu()
        self.recent = torch.cat([self.recent[1:], accuracy[None]])
        if (
            not self.stable_at
            and self.recent.max() - self.recent.min() <= self.spread + 1e-12
        ):
            self.stable_at = round.t
        # A repair may take several rounds, so the message is sent again in each of them.
        if self.stable_at and (not self.once or self.stable_at == round.t):
            suspects = self.phi < self.phi.mean()
            # Forgiven clients stand at the mean, and would never be asked for the rest.
            if not self.literal:
                suspects |= self.corrections > 0
            right = self._right(predicted, labels)
            self.note = Inspection(
                suspects.nonzero().flatten(), right, self.margin, self.groups
            )
        return theta

    def _right(self, predicted: Tensor, labels: Tensor) -> Tensor:
        """P [classes]: recall or precision; infinite for a class that nothing is known of."""
        classes = self.server.classes
        counted = labels if self.accuracy == "recall" else predicted
        hits = torch.bincount(
            counted[predicted == labels].cpu(), minlength=classes
        ).double()
        total = torch.bincount(counted.cpu(), minlength=classes).double()
        # No share reaches infinity, so nobody renames anything to a class without evidence.
        return torch.where(total > 0, hits / total, math.inf)

    def message(self, t: int) -> Inspection | None:
        """What the suspects are asked after round ``t``; None: nothing."""
        note, self.note = self.note, None
        return note

    def hear(self, clients: Tensor) -> None:
        """The ids of the clients that say they have renamed labels: their penalty is lifted."""
        self.corrections[clients] += 1
        self.phi[clients] = self.phi.mean()
