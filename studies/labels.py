"""Label standardisation at its paper's protocol: who is asked, what is repaired, whom it harms.

[nagalapatti2021game, Fig. 5]; chapter 9 reads these results. Below: sfedavg.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedlab_mini.engine.history import History
from fedlab_mini.engine.model import Model
from fedlab_mini.engine.rounds import Round, Server
from fedlab_mini.engine.train import train
from fedlab_mini.methods.fedavg import strategy
from fedlab_mini.methods.label_standardisation import Inspection, LabelStandardisation
from fedlab_mini.methods.sfedavg import SFedAvg
from fedlab_mini.show import plots
from fedlab_mini.worlds.corrupt import swap_labels
from fedlab_mini.worlds.federation import Federation
from fedlab_mini.worlds.partition import Split, iid
from fedlab_mini.worlds.scenarios import irrelevant_digits

from .claims import beyond, higher, ours, within
from .protocols import study
from .sfedavg import RELEVANT, SPLITS, M, setting, sound
from .study import Claim, Results, Row

ROUNDS = 70  # instead of 100, to save time
EXCHANGE = swap_labels((1, 2))  # classes 1 and 2 are the digits 2 and 4
NAMES = torch.tensor([0, 2, 1, 3, 4])  # the true class of an exchanged label
SHARES = (0.9, 1.0)  # of all twos and fours, at the client that exchanges them
OURS, SERVER, STRICT = "our rule", "server's matrices", "strict rule"
ALL, PRINTED, ONCE, CURRENT = "everybody asked", "as printed", "asked once", "current groups"
PRECISION = "P is the precision"
LEFT_OUT = {"IID": ("FedAvg", PRINTED), "1 class": (ONCE, CURRENT)}  # to save time
RULES: dict[str, dict] = {
    OURS: {},
    STRICT: {"margin": None},
    ONCE: {"once": True},
    CURRENT: {"groups": "current"},
    PRECISION: {"accuracy": "precision"},
    ALL: {"everybody": True},
    PRINTED: {"literal": True},
}


@strategy
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


@strategy
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
            # A client is asked in some rounds only: keep what it has shown before.
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
            names = self.names(k)
            if not torch.equal(names, torch.arange(len(names))):
                self.tables[k] = 0  # the client's model of before says nothing of the new names
                return Renaming(torch.tensor([k]), names)
        return None


def who(fed: Federation) -> tuple[int, list[int], list[int]]:
    """Ids: the client with exchanged labels, the healthy ones, the irrelevant ones."""
    (swapped,) = (k for k, what in fed.truth.items() if what.startswith("swap"))
    return swapped, sound(fed), sorted(fed.corrupted - {swapped})


def left(fed: Federation, history: History, trace: bool = False) -> Iterator[tuple[str, float]]:
    """What a training leaves: accuracy, who was asked and repaired, who was harmed, relevance."""
    swapped, healthy, irrelevant = who(fed)
    yield "accuracy", float(history.accuracy[-20:].mean())
    phi, asked = history.scores, history.selected.double()
    # Is a repaired client taken for a healthy one?
    below = phi[-20:, healthy].mean(1) - phi[-20:, swapped]
    yield "below healthy, at the end", float(below.mean())
    for t in range(10, ROUNDS + 1, 10) if trace else ():
        for name, ids in {"exchanged": [swapped], "healthy": healthy, "other": irrelevant}.items():
            yield f"relevance, {name} @ {t}", float(phi[t - 10 : t, ids].mean())
            yield f"selected, {name} @ {t}", float(asked[t - 10 : t, ids].mean())
    if isinstance(history.strategy, Logged):
        yield from repaired(fed, history)
        yield from inquiry(history.strategy, swapped, trace)


def repaired(fed: Federation, history: History) -> Iterator[tuple[str, float]]:
    """What became of the labels of each kind of client."""
    swapped, healthy, irrelevant = who(fed)
    own = [slice(*fed.offsets[k : k + 2].tolist()) for k in range(fed.clients)]
    right = history.labels[own[swapped]] == NAMES[fed.y[own[swapped]]]
    changed = [bool((history.labels[part] != fed.y[part]).any()) for part in own]
    yield "repaired", float(right.all())
    yield "labels right at the end", float(right.double().mean())
    yield "healthy harmed", float(sum(changed[k] for k in healthy))
    yield "irrelevant renamed", float(sum(changed[k] for k in irrelevant))


def inquiry(rule: Logged, swapped: int, trace: bool) -> Iterator[tuple[str, float]]:
    """Whom the server asked, and when the client in question renamed its labels."""
    yield "rounds with a message", float(len(rule.sent))
    first = min((t for t, ids in rule.heard.items() if swapped in ids), default=None)
    # Up to the first renaming: later messages find nothing to repair.
    before = [swapped in ids for t, ids in rule.sent.items() if first is None or t <= first]
    yield "ever asked", float(any(before))
    yield "asked until it renames, share of messages", sum(before) / max(1, len(before))
    if first is not None:
        yield "round of the first renaming", float(first)
    if trace and rule.sent:
        known = rule.known[min(rule.sent)]
        yield "below the mean at the first message", float(known.mean() - known[swapped])


def compared(
    strategies: dict[str, SFedAvg], split: Split, name: str, traced: Sequence[str], seed: int
) -> Iterator[Row]:
    """Each rule where labels are exchanged."""
    data, net, local = setting()
    fed = irrelevant_digits(data, corrupt=EXCHANGE, split=split, seed=seed)
    for label, rule in strategies.items():
        history = train(fed, net, rule, rounds=ROUNDS, local=local, seed=seed)
        yield from ((f"{label}; {name}", *row) for row in left(fed, history, label in traced))


def untouched(split: Split, name: str, seed: int) -> Iterator[Row]:
    """S-FedAvg where nothing is exchanged."""
    data, net, local = setting()
    fed = irrelevant_digits(data, split=split, seed=seed)
    history = train(fed, net, SFedAvg(M), rounds=ROUNDS, local=local, seed=seed)
    yield f"nothing exchanged; {name}", "accuracy", float(history.accuracy[-20:].mean())


def rates(seed: int) -> Iterator[Row]:
    """Fig. 5: FedAvg, S-FedAvg, our rule, one change taken back at a time, the server's guess."""
    for name, left_out in LEFT_OUT.items():
        strategies: dict[str, SFedAvg] = {
            "FedAvg": SFedAvg(M, temperature=math.inf),
            "S-FedAvg": SFedAvg(M),
            **{label: Logged(M, **given) for label, given in RULES.items()},
            SERVER: ServerSide(M),
        }
        strategies = {label: rule for label, rule in strategies.items() if label not in left_out}
        yield from compared(strategies, SPLITS[name], name, (OURS, "S-FedAvg"), seed)
    yield from untouched(SPLITS[name], name, seed)  # of the paper's split


def scarce(seed: int) -> Iterator[Row]:
    """Where repair should pay: few others hold twos and fours."""
    for share in SHARES:
        strategies = {"S-FedAvg": SFedAvg(M), OURS: Logged(M), ALL: Logged(M, everybody=True)}
        yield from compared(strategies, mostly(share), f"{share:.2g}", (), seed)
        yield from untouched(mostly(share), f"{share:.2g}", seed)


def mostly(share: float) -> Split:
    """The first of the relevant clients holds this share of twos and fours; else all alike."""

    def deal(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        # Called twice, for relevant and for irrelevant clients; these are all alike.
        if clients < RELEVANT:
            return iid()(y, clients, generator)
        parts: list[list[Tensor]] = [[] for _ in range(clients)]
        for label in range(int(y.max()) + 1):
            ids = (y == label).nonzero().flatten()
            ids = ids[torch.randperm(len(ids), generator=generator)]
            first = round(len(ids) * (share if label in (1, 2) else 1 / clients))
            rest = ids[first:].tensor_split(clients - 1)
            for part, group in zip(parts, (ids[:first], *rest), strict=True):
                part.append(group)
        return [torch.cat(part) for part in parts]

    return deal


def scarce_figure(results: Results) -> Figure:
    """Accuracy where the client with exchanged names holds nearly all twos and fours, and all."""
    rows = {
        f"{name}, {100 * share:.0f} %": results.values("accuracy", f"{name}; {share:.2g}")
        for share in SHARES
        for name in ("S-FedAvg", OURS, ALL, "nothing exchanged")
    }
    ylabel = "rule, share of twos and fours at one client"
    return plots.dots(rows, xlabel="test accuracy, last 20 rounds", ylabel=ylabel)


def rates_claims() -> Iterator[Claim]:
    """Fig. 5's order of accuracies; who is repaired and harmed; what each change is worth."""
    for sentence, better, worse in (
        ("S-FedAvg is more accurate than FedAvg", "S-FedAvg", "FedAvg"),
        ("our rule is more accurate than S-FedAvg", OURS, "S-FedAvg"),
        ("as printed it is more accurate than S-FedAvg", PRINTED, "S-FedAvg"),
        ("as printed it is more accurate than FedAvg", PRINTED, "FedAvg"),
    ):
        test = higher("accuracy", f"{better}; 1 class", f"{worse}; 1 class")
        yield Claim(f"1 class: {sentence}", test)
    most = beyond("repaired", f"{PRINTED}; 1 class", 0.5)
    yield Claim("1 class: as printed the client is repaired (above .5)", most)
    for split, left_out in LEFT_OUT.items():
        own, precision, harm = f"{OURS}; {split}", f"{PRECISION}; {split}", "healthy harmed"
        most, none = beyond("repaired", own, 0.75), within(harm, -0.5, 0.5, own)
        yield ours(f"{split}: our rule repairs the client (above .75)", most)
        yield ours(f"{split}: our rule harms nobody healthy (within half a client)", none)
        below = beyond("below healthy, at the end", own, 0.0)
        yield ours(f"{split}: repaired, it still ends below the healthy clients", below)
        for rule in (*RULES, SERVER):
            if rule not in (OURS, *left_out):
                more = higher("repaired", own, f"{rule}; {split}")
                yield ours(f"{split}: our rule repairs more than: {rule}", more)
        for metric in (harm, "irrelevant renamed"):
            yield ours(f"{split}: {metric}: more with precision", higher(metric, precision, own))


def scarce_claims() -> Iterator[Claim]:
    """Repair pays where the others hold few twos and fours, but some."""
    for share in (f"{one:.2g}" for one in SHARES):
        own, plain, every = (f"{name}; {share}" for name in (OURS, "S-FedAvg", ALL))
        pays = higher("accuracy", own, plain)
        yield ours(f"share {share}: our rule is more accurate than S-FedAvg", pays)
        harm = higher("accuracy", own, every)
        yield ours(f"share {share}: and more accurate than asking everybody", harm)


STUDIES = (
    study("label-rates", rates, rates_claims()),
    study("label-scarce", scarce, scarce_claims(), figure=scarce_figure),
)
