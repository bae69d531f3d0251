"""Label standardisation at its paper's protocol: who is asked, what is repaired, whom it harms.

[nagalapatti2021game, Fig. 5]; chapter 9 reads these results. Below: sfedavg. Above:
label_standardisation_claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import train
from fedlab_mini.methods.label_standardisation import Inspection, LabelStandardisation
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.worlds.corrupt import swap_labels
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.partition import Split, iid
from fedlab_mini.worlds.scenarios import irrelevant_digits

from .sfedavg import RELEVANT, SPLITS, M, setting
from .study import Row

ROUNDS = 70  # instead of 100, to save time
EXCHANGE = swap_labels((1, 2))  # classes 1 and 2 are the digits 2 and 4
NAMES = torch.tensor([0, 2, 1, 3, 4])  # the true class of an exchanged label
SHARES = (0.9, 1.0)  # of all twos and fours, at the client that exchanges them
OURS, SERVER, STRICT = "our rule", "server's matrices", "strict rule"
ALL, PRINTED, ONCE, CURRENT = "everybody asked", "as printed", "asked once", "current groups"
LEFT_OUT = {"IID": ("FedAvg", PRINTED), "1 class": (ONCE, CURRENT)}  # to save time
RULES: dict[str, dict] = {
    OURS: {},
    STRICT: {"margin": None},
    ONCE: {"once": True},
    CURRENT: {"groups": "current"},
    "P is the precision": {"accuracy": "precision"},
    ALL: {"everybody": True},
    PRINTED: {"literal": True},
}


@dataclass(eq=False, kw_only=True)
class Logged(LabelStandardisation):
    """Label standardisation that notes whom it asks, and what it hears.

    everybody  ask all clients, not suspects alone
    sent       round -> ids asked; heard  round -> ids that have renamed something
    known      round -> the relevances [K] by which it was decided whom to ask
    """

    everybody: bool = False

    def start(self, server: Server) -> None:
        """Forget everything."""
        super().start(server)
        self.sent: dict[int, list[int]] = {}
        self.heard: dict[int, list[int]] = {}
        self.known: dict[int, Tensor] = {}

    def message(self, t: int) -> Inspection | None:
        """As label standardisation; then note it."""
        note = super().message(t)
        if note is not None:
            if self.everybody:
                note = replace(note, clients=torch.arange(self.server.clients))
            self.sent[t], self.known[t] = note.clients.tolist(), self.phi.clone()
        return note

    def hear(self, clients: Tensor) -> None:
        """As label standardisation; then note it."""
        super().hear(clients)
        self.heard[max(self.sent)] = clients.tolist()


@dataclass(frozen=True)
class Renaming:
    """A message that leaves its client nothing to decide: label c becomes names[c]."""

    clients: Tensor
    names: Tensor

    def answer(self, net: Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor) -> Tensor:
        """The client's new labels [n]."""
        return self.names[y]


@dataclass(eq=False, kw_only=True)
class ServerSide(Logged):
    """The server guesses a suspect's names from a confusion matrix and tells them.

    A client's own model, theta plus its update, predicts the validation samples, counted by true
    class in a moving average over its rounds. The one-to-one names that put most of them on the
    diagonal are sent if that is more than ``gain`` of all more than now; to one client a round.
    """

    gain: float = 0.1

    def start(self, server: Server) -> None:
        """Forget everything."""
        super().start(server)
        self.tables = torch.zeros(server.clients, server.classes, server.classes)

    def aggregate(self, round: Round) -> Tensor:
        """As S-FedAvg; then look at each client's own model."""
        theta, classes = super().aggregate(round), self.server.classes
        x, y = self.server.validation
        for k, update in zip(round.clients.tolist(), round.updates, strict=True):
            predicted = self.server.net.predict(round.theta + update, x)
            counts = torch.bincount(classes * y + predicted, minlength=classes**2)
            self.tables[k] = 0.75 * self.tables[k] + 0.25 * counts.view(classes, classes)
        return theta

    def names(self, k: int) -> Tensor:
        """The class [classes] that each label of client k should have."""
        table = self.tables[k]
        true, called = linear_sum_assignment(-table.numpy())
        names = torch.arange(len(table))
        if table[true, called].sum() > table.trace() + self.gain * table.sum():
            names[called] = torch.from_numpy(true)
        return names

    def message(self, t: int) -> Renaming | None:  # type: ignore[override]
        """Names for the first suspect that seems to need any; None: nobody does."""
        note = super().message(t)
        for k in note.clients.tolist() if note else ():
            if not torch.equal(names := self.names(k), torch.arange(len(names))):
                self.tables[k] = 0
                return Renaming(torch.tensor([k]), names)
        return None


def who(fed: Federation) -> tuple[int, list[int], list[int]]:
    """Ids: the client with exchanged labels, the healthy ones, the irrelevant ones."""
    (swapped,) = (k for k, what in fed.truth.items() if what.startswith("swap"))
    healthy = [k for k in range(fed.clients) if k not in fed.corrupted]
    return swapped, healthy, sorted(fed.corrupted - {swapped})


def left(fed: Federation, history: History, trace: bool = False) -> Iterator[tuple[str, float]]:
    """What a training leaves: accuracy, who was asked and repaired, who was harmed, relevance."""
    swapped, healthy, irrelevant = who(fed)
    yield "accuracy", float(history.accuracy[-20:].mean())
    phi, asked = history.scores, history.selected.double()
    yield (
        "below healthy, at the end",
        float((phi[-20:, healthy].mean(1) - phi[-20:, swapped]).mean()),
    )
    for t in range(10, ROUNDS + 1, 10) if trace else ():
        for name, ids in {"exchanged": [swapped], "healthy": healthy, "other": irrelevant}.items():
            yield f"relevance, {name} @ {t}", float(phi[t - 10 : t, ids].mean())
            yield f"selected, {name} @ {t}", float(asked[t - 10 : t, ids].mean())
    rule = history.strategy
    if not isinstance(rule, Logged):
        return
    own = [slice(*fed.offsets[k : k + 2].tolist()) for k in range(fed.clients)]
    right = history.labels[own[swapped]] == NAMES[fed.y[own[swapped]]]
    changed = [bool((history.labels[o] != fed.y[o]).any()) for o in own]
    yield "repaired", float(right.all())
    yield "labels right at the end", float(right.double().mean())
    yield "healthy harmed", float(sum(changed[k] for k in healthy))
    yield "irrelevant renamed", float(sum(changed[k] for k in irrelevant))
    yield "rounds with a message", float(len(rule.sent))
    first = min((t for t, ids in rule.heard.items() if swapped in ids), default=None)
    before = [swapped in ids for t, ids in rule.sent.items() if first is None or t <= first]
    yield "ever asked", float(any(before))
    yield "asked until it renames, share of messages", sum(before) / max(1, len(before))
    if first is not None:
        yield "round of the first renaming", float(first)
    if trace and rule.sent:
        known = rule.known[min(rule.sent)]
        yield "below the mean at the first message", float(known.mean() - known[swapped])


def rates(seed: int) -> Iterator[Row]:
    """Fig. 5: FedAvg, S-FedAvg, our rule, one change taken back at a time, the server's guess."""
    data, net, local = setting()
    rules: dict[str, SFedAvg] = {"FedAvg": SFedAvg(M, temperature=math.inf), "S-FedAvg": SFedAvg(M)}
    rules |= {name: Logged(M, **given) for name, given in RULES.items()} | {SERVER: ServerSide(M)}
    for name, left_out in LEFT_OUT.items():
        given: dict = {"split": SPLITS[name], "seed": seed}
        fed = irrelevant_digits(data, corrupt=EXCHANGE, **given)
        for label, rule in rules.items():
            if label not in left_out:
                history = train(fed, net, rule, rounds=ROUNDS, local=local, seed=seed)
                for metric, value in left(fed, history, label in (OURS, "S-FedAvg")):
                    yield f"{label}; {name}", metric, value
    sound = irrelevant_digits(data, **given)  # of the paper's split
    history = train(sound, net, SFedAvg(M), rounds=ROUNDS, local=local, seed=seed)
    yield f"nothing exchanged; {name}", "accuracy", float(history.accuracy[-20:].mean())


def mostly(share: float) -> Split:
    """The first of the relevant clients holds this share of twos and fours; else all alike."""

    def deal(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        if clients < RELEVANT:
            return iid()(y, clients, generator)
        parts: list[list[Tensor]] = [[] for _ in range(clients)]
        for c in range(int(y.max()) + 1):
            ids = (y == c).nonzero().flatten()
            ids = ids[torch.randperm(len(ids), generator=generator)]
            first = round(len(ids) * (share if c in (1, 2) else 1 / clients))
            rest = ids[first:].tensor_split(clients - 1)
            for part, group in zip(parts, (ids[:first], *rest), strict=True):
                part.append(group)
        return [torch.cat(part) for part in parts]

    return deal


def scarce(seed: int) -> Iterator[Row]:
    """Where repair should pay: few others hold twos and fours."""
    data, net, local = setting()
    for share in SHARES:
        given: dict = {"split": mostly(share), "seed": seed}
        fed = irrelevant_digits(data, corrupt=EXCHANGE, **given)
        rules = {"S-FedAvg": SFedAvg(M), OURS: Logged(M), ALL: Logged(M, everybody=True)}
        for label, rule in rules.items():
            history = train(fed, net, rule, rounds=ROUNDS, local=local, seed=seed)
            for metric, value in left(fed, history):
                yield f"{label}; {share:.2g}", metric, value
        sound = irrelevant_digits(data, **given)
        history = train(sound, net, SFedAvg(M), rounds=ROUNDS, local=local, seed=seed)
        yield f"nothing exchanged; {share:.2g}", "accuracy", float(history.accuracy[-20:].mean())
