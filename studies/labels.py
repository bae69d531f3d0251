"""Label standardisation with the paper's protocol: messages, repairs, and harm.

[nagalapatti2021game, Fig. 5]; chapter 9 reads these results. Below: sfedavg.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.methods.label_standardisation import Inspection
from fedlab_mini.show import plots
from fedlab_mini.worlds.partition import Split

from .protocols import study
from .results import Results
from .sfedavg import COLD, FEDAVG, RELEVANT, SHORT, SPLITS, WARM, M, setting, sound, uniform
from .study import Claim, Row, rows_of

ROUNDS, ALL_ROUNDS = 70, 100  # fewer than the paper's to save time, but on MNIST
EXCHANGE = fm.SwapLabels((1, 2))  # classes 1 and 2 are the digits 2 and 4
NAMES = torch.tensor([0, 2, 1, 3, 4])  # the true class of an exchanged label
SHARES = (0.8, 0.9, 1.0)  # of all twos and fours, at the client that exchanges them
HARMFUL = 0.9  # also if all get the message
OURS, SERVER, STRICT = "our rule", "server's matrices", "strict rule"
ALL, PRINTED, ONCE, CURRENT = "all are asked", "all as printed", "asked once", "current groups"
COLD_PRINTED, NARROW = "printed rule, T = 0.02", "our rule, 2 %"
PRECISION, RIGHT = "P is the precision", "S-FedAvg, labels right"
LEFT_OUT = {  # to save time
    "IID": (FEDAVG, WARM, STRICT, PRECISION, PRINTED, COLD_PRINTED),
    "1 class": (ONCE, CURRENT, ALL),
}
RULES: dict[str, dict] = {
    OURS: {},
    STRICT: {"margin": None},
    ONCE: {"once": True},
    CURRENT: {"groups": "current"},
    PRECISION: {"accuracy": "precision"},
    COLD_PRINTED: {"literal": True, "temperature": 0.02},
    PRINTED: {"literal": True},
}
WIDE = {  # on MNIST: stable within 5 % and within 2 %
    OURS: {},
    NARROW: {"spread": 0.02},
    COLD_PRINTED: RULES[COLD_PRINTED],
    PRINTED: RULES[PRINTED],
}


@dataclass(frozen=True, eq=False, kw_only=True)
class AskAll(fm.LabelStandardisation):
    """Label standardisation that sends its message to all clients, not only to suspects."""

    def inspection(self, state: State, t: int) -> Inspection | None:
        """The message of label standardisation, for every client."""
        note = super().inspection(state, t)
        return note and replace(note, clients=torch.arange(len(state["phi"])))


class Messages:
    """Who gets a rule's message, and the answers: ``train(..., watch=Messages(rule))``.

    sent   round -> ids that got it, or suspects if the rule tells only some of them
    known  round -> the relevances [K] that decided who got the message
    """

    def __init__(self, rule: fm.LabelStandardisation):
        self.rule = rule
        self.sent: dict[int, list[int]] = {}
        self.known: dict[int, Tensor] = {}
        self.renamed: dict[int, Tensor] = {}  # [K], before the round's message

    def __call__(self, round: Round, step: Step) -> None:
        """Note a round."""
        self.renamed[round.t] = step.state["corrections"]
        if note := self.rule.inspection(step.state, round.t):
            self.sent[round.t], self.known[round.t] = note.clients.tolist(), step.state["phi"]

    def heard(self, history: fm.History) -> dict[int, list[int]]:
        """Round -> ids that have renamed labels after it."""
        counts = [*self.renamed.values(), history.state["corrections"]]
        more = dict(zip(self.renamed, torch.stack(counts).diff(dim=0), strict=True))
        return {t: ids.nonzero().flatten().tolist() for t, ids in more.items() if ids.any()}


@dataclass(frozen=True)
class Renaming:
    """A message that decides for its client: label c becomes names[c]."""

    clients: Tensor
    names: Tensor

    def answer(
        self, net: fm.Model, theta: Tensor, x: Tensor, original: Tensor, y: Tensor
    ) -> Tensor:
        """The client's new labels [n]."""
        return self.names[y]


@dataclass(frozen=True, eq=False, kw_only=True)
class ServerSide(fm.LabelStandardisation):
    """The server guesses a suspect's names from a confusion matrix and tells them.

    A client's own model, theta plus its update, predicts the validation samples, counted by true
    class in a moving average over its rounds. The one-to-one names that put most of them on the
    diagonal are sent if they add more than the share ``gain`` of all; to one client per round.

    state  tables [K, classes, classes]; told, the client that is told, -1 for nobody, and its names
    """

    gain: float = 0.1

    def init(self, server: Server) -> State:
        """The state before round 1."""
        tables = torch.zeros(server.clients, server.classes, server.classes)
        nobody = {"told": torch.tensor(-1), "names": torch.arange(server.classes)}
        return super().init(server) | {"tables": tables} | nobody

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The step of S-FedAvg; then guess from clients' own models whom to send which names."""
        done, classes = super().step(server, state, round), server.classes
        x, y = server.validation
        tables = done.state["tables"]
        for k, update in zip(round.clients.tolist(), round.updates, strict=True):
            predicted = server.net.predict(round.theta + update, x)
            counts = torch.bincount(classes * y + predicted, minlength=classes**2)
            # A client participates only in some rounds, so its earlier table is kept.
            tables[k] = 0.75 * tables[k] + 0.25 * counts.view(classes, classes)
        told, names = -1, torch.arange(classes)
        note = self.inspection(done.state, round.t)
        for k in note.clients.tolist() if note else ():
            names = self.names(tables[k])
            if not torch.equal(names, torch.arange(classes)):
                tables[k] = 0  # its earlier models say nothing about the new names
                told = k
                break
        return done._replace(state=done.state | {"told": torch.tensor(told), "names": names})

    def names(self, table: Tensor) -> Tensor:
        """The class [classes] that each label of a client with this table should have."""
        true, called = linear_sum_assignment(-table.numpy())
        names = torch.arange(len(table))
        if table[true, called].sum() > table.trace() + self.gain * table.sum():
            names[called] = torch.from_numpy(true)
        return names

    def message(self, server: Server, state: State, t: int) -> Renaming | None:
        """Names for the first suspect that seems to need them; None if there is none."""
        if state["told"] < 0 or state["looked_at"] != t:
            return None
        return Renaming(state["told"][None], state["names"])


def who(fed: fm.Federation) -> tuple[int, list[int], list[int]]:
    """The ids of the client with exchanged labels, the healthy ones, and the irrelevant ones."""
    (swapped,) = (k for k, what in fed.truth.items() if what.startswith("SwapLabels"))
    return swapped, sound(fed), sorted(fed.corrupted - {swapped})


def left(
    fed: fm.Federation, history: fm.History, log: Messages | None = None
) -> Iterator[tuple[str, float]]:
    """Results of a training run: accuracy, who got messages, repairs, harm, and relevance."""
    swapped, healthy, _ = who(fed)
    yield "accuracy", float(history.accuracy[-20:].mean())
    # Whether the relevance of a repaired client is that of a healthy one.
    below = history.scores[-20:, healthy].mean(1) - history.scores[-20:, swapped]
    yield "below healthy, at the end", float(below.mean())
    if log is not None:
        yield from repaired(fed, history)
        yield from inquiry(log, history, swapped)


def repaired(fed: fm.Federation, history: fm.History) -> Iterator[tuple[str, float]]:
    """How the labels of each kind of client have changed."""
    swapped, healthy, irrelevant = who(fed)
    own = [slice(*fed.offsets[k : k + 2].tolist()) for k in range(fed.clients)]
    right = history.labels[own[swapped]] == NAMES[fed.y[own[swapped]]]
    changed = [bool((history.labels[part] != fed.y[part]).any()) for part in own]
    harmed = sum(changed[k] for k in healthy)
    yield "repaired", float(right.all())
    yield "a healthy client harmed", float(harmed > 0)
    yield "healthy harmed", float(harmed)
    yield "irrelevant renamed", float(sum(changed[k] for k in irrelevant))


def inquiry(log: Messages, history: fm.History, swapped: int) -> Iterator[tuple[str, float]]:
    """Which clients got the message, and when the client with exchanged labels renamed them."""
    yield "rounds with a message", float(len(log.sent))
    yield "any message", float(bool(log.sent))
    heard = log.heard(history)
    first = min((t for t, ids in heard.items() if swapped in ids), default=None)
    # Up to the first renaming, because later messages find nothing to repair.
    asked = [swapped in ids for t, ids in log.sent.items() if first is None or t <= first]
    yield "ever asked", float(any(asked))
    if first is not None:
        yield "round of the first renaming", float(first)


def compared(
    strategies: dict[str, fm.SFedAvg], split: Split, scenario: str, seed: int, rounds: int
) -> Iterator[Row]:
    """Each rule in a scenario with exchanged labels."""
    data, net, local = setting()
    fed = fm.irrelevant_digits(data, corrupt=EXCHANGE, split=split, seed=seed)
    for method, rule in strategies.items():
        log = Messages(rule) if isinstance(rule, fm.LabelStandardisation) else None
        history = fm.train(fed, net, rule, rounds=rounds, local=local, seed=seed, watch=log)
        yield from rows_of(scenario, method, left(fed, history, log))


def untouched(split: Split, scenario: str, seed: int, rounds: int) -> Iterator[Row]:
    """S-FedAvg without exchanged labels."""
    data, net, local = setting()
    fed = fm.irrelevant_digits(data, split=split, seed=seed)
    history = fm.train(fed, net, fm.SFedAvg(M), rounds=rounds, local=local, seed=seed)
    yield scenario, RIGHT, "accuracy", float(history.accuracy[-20:].mean())


def rates(
    seed: int, *, rounds: int = ROUNDS, without: Mapping[str, Sequence[str]] = LEFT_OUT
) -> Iterator[Row]:
    """Fig. 5: FedAvg, S-FedAvg, our rule, each change undone alone, the server's guess.

    without  {scenario: rules that it leaves out}
    """
    for scenario, left_out in without.items():
        strategies: dict[str, fm.SFedAvg] = {
            FEDAVG: uniform(),
            WARM: fm.SFedAvg(M, temperature=1.0),
            COLD: fm.SFedAvg(M),
            **{rule: fm.LabelStandardisation(M, **options) for rule, options in RULES.items()},
            ALL: AskAll(M),
            SERVER: ServerSide(M),
        }
        strategies = {rule: one for rule, one in strategies.items() if rule not in left_out}
        yield from compared(strategies, SPLITS[scenario], scenario, seed, rounds)
    yield from untouched(SPLITS[scenario], scenario, seed, rounds)  # of the paper's split


def mnist_rates(
    seed: int,
    *,
    data: str = "mnist",
    split: str = "1 class",
    width: int = 200,
    rounds: int = ALL_ROUNDS,
) -> Iterator[Row]:
    """Fig. 5 on MNIST: FedAvg, S-FedAvg, our rule and the published one, stable by 5 % and 2 %.

    width  hidden units of each of the network's two layers
    """
    fed = fm.irrelevant_digits(fm.load(data), split=SPLITS[split], corrupt=EXCHANGE, seed=seed)
    strategies: dict[str, fm.SFedAvg] = {
        FEDAVG: uniform(),
        COLD: fm.SFedAvg(M),
        **{rule: fm.LabelStandardisation(M, **options) for rule, options in WIDE.items()},
    }
    net = fm.mlp(fed.x[0].numel(), width, width, 5)
    for method, rule in strategies.items():
        log = Messages(rule) if isinstance(rule, fm.LabelStandardisation) else None
        history = fm.train(fed, net, rule, rounds=rounds, local=SHORT, seed=seed, watch=log)
        yield from rows_of("", method, left(fed, history, log))


def scarce(seed: int, *, rounds: int = ROUNDS, shares: Sequence[float] = SHARES) -> Iterator[Row]:
    """A case in which repair should help: few others hold twos and fours."""
    for share in shares:
        strategies: dict[str, fm.SFedAvg] = {COLD: fm.SFedAvg(M), OURS: fm.LabelStandardisation(M)}
        if share == HARMFUL:
            strategies[ALL] = AskAll(M)
        yield from compared(strategies, mostly(share), of_share(share), seed, rounds)
        yield from untouched(mostly(share), of_share(share), seed, rounds)


def of_share(share: float) -> str:
    """The name of a scenario, such as "90 %"."""
    return f"{100 * share:.0f} %"


def mostly(share: float) -> Split:
    """The first relevant client holds this share of twos and fours; otherwise clients are IID."""

    def deal(y: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
        # Called twice, for relevant and for irrelevant clients; the latter are all IID.
        if clients < RELEVANT:
            return fm.IID()(y, clients, generator)
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
    """The gain of the repair, and the possible gain, against the share of twos and fours."""
    shown = {}
    for scenario in map(of_share, SHARES):
        for method in (OURS, RIGHT):
            shown[f"{method}, {scenario}"] = results.minus("accuracy", method, COLD, scenario)
    xlabel, ylabel = "accuracy above S-FedAvg, last 20 rounds", "rule, share at one client"
    names = {"xlabel": xlabel, "ylabel": ylabel}
    return plots.dots(shown, reference={"no gain": 0.0}, low=-1, high=1, **names)


def cold_claims(data: str, at: str = "") -> Iterator[Claim]:
    """Fig. 5 at temperature 0.02: FedAvg, S-FedAvg, the rule as published, in this order."""
    names = {FEDAVG: "FedAvg", COLD: "S-FedAvg", COLD_PRINTED: "the rule as published"}
    for less, more in ((FEDAVG, COLD), (COLD, COLD_PRINTED)):
        sentence = f"At temperature .02 {names[more]} is more accurate than {names[less]} ({data})."
        yield Claim(sentence, "accuracy", more, less, at, 0, item="Fig. 5", source="book")


STUDIES = (
    study(
        "label-rates",
        rates,
        cold_claims("digits", "1 class"),
        # The other rules are in the probe on MNIST's protocol.
        probe={
            "rounds": 13,
            "without": {"IID": [FEDAVG, WARM, COLD, CURRENT, COLD_PRINTED, PRINTED]},
        },
    ),
    study(
        "label-mnist",
        mnist_rates,
        cold_claims("MNIST"),
        probe={"data": "digits", "split": "IID", "width": 50, "rounds": 12},
    ),
    study("label-scarce", scarce, figure=scarce_figure, probe={"rounds": 16, "shares": [0.9]}),
)
