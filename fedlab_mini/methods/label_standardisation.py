"""Label standardisation: an S-FedAvg that makes clients repair permuted labels. Chapter 9.

The rule is from [Nagalapatti & Narayanam 2021]. Compared with their text, a label group is renamed
also if it falls short by a margin, groups are those of the original labels, and clients that have
renamed something are asked again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..engine.model import Model
from ..engine.rounds import Message, Round, Server, State, Step
from ..parse.settings import Count, Share, ours
from .numerics import classes_of
from .sfedavg import SFedAvg


@dataclass(frozen=True)
class Inspection:
    """The message of label standardisation: what the server sends, and how a client answers it.

    clients [s]       the clients that get the message
    right [classes]   P, the share of each class that the server's model gets right
    margin, groups    see `LabelStandardisation`
    """

    clients: Tensor
    right: Tensor
    margin: float | None = 0.05
    groups: str = "original"

    def answer(self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor) -> Tensor:
        """A client's new labels [n], from its own samples and the model it received.

        theta [P]; x [n, ...]; original [n] the labels at the start; y [n] the labels now
        All decisions precede all renaming, so that two exchanged groups swap back in one round.
        """
        predicted = net.predict(theta, x)
        # An incomplete repair may merge two groups under one label; original labels separate them.
        keys = original if self.groups == "original" else y
        renamed = y.clone()
        for key in keys.unique():
            group = keys == key
            votes = torch.bincount(predicted[group].cpu(), minlength=len(self.right))
            label = int(votes.argmax())
            predicted_so = int(votes[label]) / int(votes.sum())
            # A group is always renamed as a whole, so its first label is the label of all.
            if label != int(y[group][0]) and self.accept(label, predicted_so):
                renamed[group] = label
        return renamed

    def accept(self, label: int, share: float) -> bool:
        """Is ``label`` the group's true label, if the model predicts it for this share of it?"""
        right = float(self.right[label])
        return share > right if self.margin is None else share >= right - self.margin - 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelStandardisation(SFedAvg):
    """S-FedAvg whose server tells suspects that their labels may be permuted; clients answer.

    After the validation accuracy has been stable, the server sends suspects in every round the
    share of each class that its model gets right. A client (`Inspection`) renames the label groups
    for which the model predicts another label. The server learns only which clients renamed
    something, and sets their phi to the mean.

    margin        a group is renamed if at least ``P[L] - margin`` of it is predicted as L; None: if
                  more than P[L] of it is, as in the paper
    spread        lambda: stable means that the last ``window`` (zeta) validation accuracies differ
                  by no more than this; the paper has 0.02
    once          send the message in the first stable round only, not in every later round
    accuracy      what P is: "recall", the share of the true class L that is predicted as L, or
                  "precision", the share of the predictions of L that are right
    groups        a client groups samples by its "original" labels, or by its "current" ones, as in
                  the paper; then an incomplete repair may merge two groups for good
    literal       margin None, spread .02, current groups, and the effects of `SFedAvg`'s literal
    other arguments, scores: see `SFedAvg`

    Suspects are the clients with phi below the mean. Unless literal, clients that renamed labels
    before are suspects too, because their repair may be incomplete.
    state         S-FedAvg's, and recent: the last validation accuracies; stable_at: the first
                  stable round, 0 if there was none; right [classes] P, of round ``looked_at``;
                  corrections [K] how often a client renamed something
    raises        ValueError or TypeError naming the argument
    source        [Nagalapatti & Narayanam 2021; chapter 9]
    """

    margin: Share | None = ours(0.05, printed=None)
    spread: Share = ours(0.05, printed=0.02)
    window: Count = 5
    once: bool = False
    accuracy: Literal["recall", "precision"] = "recall"
    groups: Literal["original", "current"] = ours("original", printed="current")

    def init(self, server: Server) -> State:
        """The state before round 1."""
        classes = classes_of(server, "label standardisation")
        return super().init(server) | {
            # NaN until the window is full: comparisons with NaN are false, so no round is stable.
            "recent": torch.full((self.window,), math.nan, dtype=torch.float64),
            "right": torch.full((classes,), math.inf, dtype=torch.float64),
            "corrections": torch.zeros(server.clients, dtype=torch.long),
            "stable_at": torch.tensor(0),
            "looked_at": torch.tensor(0),
        }

    def step(self, server: Server, state: State, round: Round) -> Step:
        """S-FedAvg's step; then the server checks whether its model is stable, and how good."""
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
        """P [classes]: recall or precision; infinite for a class without any samples to count."""
        counted = labels if self.accuracy == "recall" else predicted
        hits = torch.bincount(counted[predicted == labels].cpu(), minlength=classes).double()
        total = torch.bincount(counted.cpu(), minlength=classes).double()
        # No share reaches infinity, so no client renames a group to a class without evidence.
        return torch.where(total > 0, hits / total, math.inf)

    def inspection(self, state: State, t: int) -> Inspection | None:
        """The message to the suspects after round ``t``; None: there is none."""
        stable_at = int(state["stable_at"])
        # A repair may take several rounds, so the message is sent again in each of them.
        if not stable_at or int(state["looked_at"]) != t or (self.once and stable_at != t):
            return None
        suspects = state["phi"] < state["phi"].mean()
        # Clients that renamed labels have the mean phi, and would get no further message.
        if not self.literal:
            suspects |= state["corrections"] > 0
        asked = suspects.nonzero().flatten()
        return Inspection(asked, state["right"], self.margin, self.groups)

    def message(self, server: Server, state: State, t: int) -> Message | None:
        """See ``FedAvg``: the ``inspection``."""
        return self.inspection(state, t)

    def heard(self, server: Server, state: State, changed: Tensor) -> State:
        """The clients ``changed`` report that they renamed labels: their phi becomes the mean."""
        state["corrections"][changed] += 1
        state["phi"][changed] = state["phi"].mean()
        return state
