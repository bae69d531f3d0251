"""S-FedAvg: whether it selects, what selection gains, and what its relevance finds.

[nagalapatti2021game, Figs. 1, 3 and 4]; chapter 8 reads these results. Above: labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.engine.rounds import Round, Server, State, Step
from fedlab_mini.methods.sfedavg import algorithm_2
from fedlab_mini.show import plots
from fedlab_mini.streams import stream
from fedlab_mini.worlds.partition import Split

from .protocols import study
from .results import Results
from .study import Claim, Derived, Row, rows_of

ROUNDS, HALF, M, RELEVANT, IRRELEVANT = 100, 50, 5, 6, 4
SPLITS = {"IID": fm.IID(), "1 class": fm.SortedShards(1)}
# The rate is higher than the paper's: a client has a small part of its samples.
LOCAL = fm.LocalSGD(epochs=5, batch=32, lr=0.05, decay=0.995, decay_every=20)
FEW = replace(LOCAL, steps=5, lr=0.01)  # exactly as in Algorithm 1: five minibatches
# A client uses only 640 MNIST images per round; the rate compensates for a part of this.
SHORT = replace(LOCAL, epochs=1, steps=20, lr=0.1)
FEDAVG, BANDIT, ORACLE = "FedAvg", "bandit", "oracle"
WARM, COLD, COLDEST = (f"S-FedAvg, T = {T}" for T in ("1", "0.02", "0.005"))
OWN_SCALE, WIDE = "S-FedAvg, own scale", "bandit, doubts x 100"
STEERED = "oracle, T = 0.02"
PAID = "S-FedAvg, T = 0.02, v(empty) = 0"
LETTER, PAID_ORDERS = "S-FedAvg, Algorithm 2", "S-FedAvg, ten orders, v(empty) = 0"
PRECISE, ORDERS, LISTED = "exact values", "ten orders", "Algorithm 2"
UNPAID = {PRECISE: "exact values, v(empty) = 0", ORDERS: "ten orders, v(empty) = 0"}
SIZES = (15, 60)  # of the validation set
DIGITS = range(0, 10, 2)
SCENARIOS = dict.fromkeys(SPLITS, IRRELEVANT)
SCENARIOS |= {f"1 class, {irrelevant} irrelevant": irrelevant for irrelevant in (0, 1)}
FEDS = {"relevant data": 0, "irrelevant data": IRRELEVANT}  # Fig. 4
SHARE, RESTLESS, SPREAD = "relevant share", "change per round", "relevant clients in effect"


@dataclass(frozen=True, eq=False, kw_only=True)
class Oracle(fm.SFedAvg):
    """Draws only from the clients that are truly relevant.

    steered  by the softmax of their relevance, as S-FedAvg does; otherwise uniformly
    """

    pool: tuple[int, ...] = ()
    steered: bool = False

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids [m] drawn from the pool."""
        pool, generator = torch.tensor(self.pool), stream(server.seed, "oracle", t)
        if not self.steered:
            return pool[torch.randperm(len(pool), generator=generator)[: self.m]].sort().values
        # A client with relevance minus infinity is never drawn.
        phi = torch.full_like(state["phi"], -math.inf)
        phi[pool] = state["phi"][pool]
        return super().select(server, state | {"phi": phi}, t)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnScale(fm.SFedAvg):
    """S-FedAvg with a temperature in units of the spread of recent values, not of accuracy.

    state  asked [K] rounds of each client; spread, a moving average of the values' spread
    """

    def init(self, server: Server) -> State:
        """The state before round 1."""
        asked, spread = torch.zeros(server.clients), torch.ones(()).double()
        return super().init(server) | {"asked": asked, "spread": spread}

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids [m] drawn by a softmax of phi / (temperature x spread)."""
        phi = state["phi"] / state["spread"].clamp(min=1e-12)
        return super().select(server, state | {"phi": phi}, t)

    def step(self, server: Server, state: State, round: Round) -> Step:
        """The step of S-FedAvg; then count, and measure the spread of values."""
        done = super().step(server, state, round)
        state = done.state
        spread = state["values"][round.clients].std()
        if state["asked"].any():
            spread = 0.75 * state["spread"] + 0.25 * spread
        state["asked"][round.clients] += 1
        return done._replace(state=state | {"spread": spread})


@dataclass(frozen=True, eq=False, kw_only=True)
class Bandit(OwnScale):
    """Upper confidence bound on S-FedAvg's relevance: phi_k + s sqrt(2 ln t / n_k), the m largest.

    n_k is the number of a client's rounds, s a moving average of the spread of a round's values
    [Auer et al. 2002]
    doubt  a factor of s; 1 in the textbook
    """

    doubt: float = 1.0

    def select(self, server: Server, state: State, t: int) -> Tensor:
        """Ids [m] of the largest bounds; at random first, then those never selected."""
        asked, spread = state["asked"], float(state["spread"])
        bound = state["phi"] + self.doubt * spread * (2 * math.log(t) / asked).sqrt()
        # In round 1 the bound is 0/0; afterwards it is infinite for clients never selected.
        if not asked.any():
            bound = torch.rand(len(bound), generator=stream(server.seed, "bandit"))
        return bound.topk(self.m or len(bound)).indices.sort().values


class Panel:
    """Relevances by other ways to value S-FedAvg's rounds: ``watch=Panel(...)``.

    seen [rounds, K] of each way; earned: the exact values [K] of each round, nan if not selected;
    of_class: class relevances [K, classes] of each round, if the rule keeps them
    """

    def __init__(self, rule: fm.SFedAvg, server: Server):
        self.rule, self.server = rule, server
        phi = rule.init(server)["phi"]
        self.opinions = {way: phi.clone() for way in (ORDERS, LISTED, *UNPAID.values())}
        self.seen: dict[str, list[Tensor]] = {way: [] for way in self.opinions}
        self.earned: list[Tensor] = []
        self.of_class: list[Tensor] = []

    def __call__(self, round: Round, step: Step) -> None:
        """Value the same game in the other ways."""
        server, state = self.server, step.state
        game = fm.round_game(server.net, round.theta, round.updates, *server.validation)
        seed = stream(server.seed, "orders", round.t).initial_seed()
        for way, values in ways(game, seed).items():
            self.rule.learn(self.opinions[way], round, values)
            self.seen[way].append(self.opinions[way].clone())
        earned = torch.full_like(state["phi"], math.nan)
        earned[round.clients] = state["values"][round.clients]
        self.earned.append(earned)
        self.of_class.append(state["class_scores"])


def with_panel(
    fed: fm.Federation, net: fm.Model, rule: fm.SFedAvg, rounds: int, local: fm.LocalSGD, seed: int
) -> tuple[fm.History, Panel]:
    """A training run of the rule, watched by a panel."""
    panel = Panel(rule, Server(fed.clients, fed.classes, net, fed.validation, seed))
    return fm.train(fed, net, rule, rounds=rounds, local=local, seed=seed, watch=panel), panel


def ways(game: fm.Game, seed: int) -> dict[str, Tensor]:
    """The values [m] of a round's game by ten orderings, by Algorithm 2, and with v(empty) = 0."""
    zeroed = fm.Game(game.n, lambda mask: torch.where(mask.any(1), game(mask), 0.0))
    return {
        ORDERS: fm.permutation(game, 10, seed).values,
        LISTED: algorithm_2(game, 10, seed),
        UNPAID[PRECISE]: fm.exact(zeroed).values,
        UNPAID[ORDERS]: fm.permutation(zeroed, 10, seed).values,
    }


def uniform(**options: object) -> fm.SFedAvg:
    """FedAvg that also keeps phi: at an infinite temperature, selection is uniform."""
    return fm.SFedAvg(M, temperature=math.inf, **options)  # type: ignore[arg-type]


def setting() -> tuple[fm.Dataset, fm.Model, fm.LocalSGD]:
    """Data, network, local work."""
    return fm.load("digits", dtype=torch.float64), fm.mlp(64, 32, 5), LOCAL


def federation_of(data: fm.Dataset, split: Split, irrelevant: int, seed: int) -> fm.Federation:
    """Ten clients, with this number of irrelevant ones."""
    clients = RELEVANT + IRRELEVANT
    return fm.irrelevant_digits(data, clients - irrelevant, irrelevant, split=split, seed=seed)


def sound(fed: fm.Federation) -> list[int]:
    """Ids of the relevant clients."""
    return [k for k in range(fed.clients) if k not in fed.corrupted]


def late(rounds: Tensor) -> Tensor:
    """The second half of a training run, because relevance needs many rounds."""
    return rounds[len(rounds) // 2 :]


def late_auc(relevances: Tensor | list[Tensor], irrelevant: list[int]) -> float:
    """Detection AUC of relevance, a mean over every fifth round of the second half."""
    middle = len(relevances) // 2
    areas = [fm.detection_auc(phi, irrelevant) for phi in relevances[middle - 1 :: 5]]
    return sum(areas) / len(areas)


def left(fed: fm.Federation, history: fm.History, every: int = 10) -> Iterator[tuple[str, float]]:
    """Results of a training run: accuracy, restlessness, who was selected, and relevance."""
    rounds, half = len(history.selected), len(history.selected) // 2
    for t in range(every, rounds + 1, every):
        yield f"accuracy @ {t}", float(history.accuracy[t - every + 1 : t + 1].mean())
    yield "accuracy", float(history.accuracy[half + 1 :].mean())
    yield RESTLESS, float(history.accuracy[half:].diff().abs().mean())
    if fed.corrupted:
        relevant, irrelevant = sound(fed), sorted(fed.corrupted)
        asked, phi = late(history.selected).double(), late(history.scores).mean(0)
        yield SHARE, float(asked[:, relevant].sum() / asked.sum())
        # An oracle selects only relevant clients, so the others cannot be compared.
        if not isinstance(history.strategy, Oracle):
            yield "AUC", late_auc(history.scores, irrelevant)
            yield "relevance gap", float(phi[relevant].mean() - phi[irrelevant].mean())


def in_effect(fed: fm.Federation, history: fm.History) -> float:
    """The effective number of relevant clients, by how often each was selected."""
    often = late(history.selected)[:, sound(fed)].double().sum(0)
    return float(often.sum() ** 2 / (often**2).sum())


def rivals(fed: fm.Federation, scenario: str) -> dict[str, fm.SFedAvg]:
    """FedAvg, S-FedAvg and a bandit; with the paper's split, more of each kind and oracles."""
    both = {FEDAVG: uniform(), COLD: fm.SFedAvg(M), BANDIT: Bandit(M)}
    if scenario == "IID":
        return both
    pool = tuple(sound(fed))
    return both | {
        WARM: fm.SFedAvg(M, temperature=1.0),
        COLDEST: fm.SFedAvg(M, temperature=0.005),
        PAID: fm.SFedAvg(M, empty="zero"),
        OWN_SCALE: OwnScale(M, temperature=0.25),
        WIDE: Bandit(M, doubt=100.0),
        ORACLE: Oracle(M, pool=pool),
        STEERED: Oracle(M, pool=pool, steered=True),
    }


def selection(
    seed: int, *, rounds: int = ROUNDS, scenarios: Sequence[str] = tuple(SCENARIOS)
) -> Iterator[Row]:
    """Figs. 1 and 3: FedAvg with fewer irrelevant clients; all rules with four of them."""
    data, net, local = setting()
    for scenario in scenarios:
        split = SPLITS[scenario.partition(", ")[0]]
        fed = federation_of(data, split, SCENARIOS[scenario], seed)
        rules = rivals(fed, scenario) if scenario in SPLITS else {FEDAVG: uniform()}
        for rule, strategy in rules.items():
            history = fm.train(fed, net, strategy, rounds=rounds, local=local, seed=seed)
            yield from rows_of(scenario, rule, left(fed, history))
            yield scenario, rule, SPREAD, in_effect(fed, history)


def mnist_rows(seed: int, *, data: str = "mnist", rounds: int = ROUNDS) -> Iterator[Row]:
    """Fig. 3 on MNIST with the paper's network, rate, split and local work."""
    fed = fm.irrelevant_digits(fm.load(data), seed=seed)
    net, local = fm.mlp(fed.x[0].numel(), 200, 200, 5), replace(LOCAL, lr=0.01)
    rules = {FEDAVG: uniform(), WARM: fm.SFedAvg(M, temperature=1.0), COLD: fm.SFedAvg(M)}
    for rule, strategy in rules.items():
        history = fm.train(fed, net, strategy, rounds=rounds, local=local, seed=seed)
        yield from rows_of("", rule, left(fed, history))


def figures(
    seed: int, *, data: str = "mnist", width: int = 200, rounds: int = ROUNDS
) -> Iterator[Row]:
    """Figs. 1, 3 and 4 on MNIST with the paper's network and split, but short local work.

    width  hidden units of each of the network's two layers
    """
    images = fm.load(data)
    net = fm.mlp(images.x[0].numel(), width, width, 5)
    for name, irrelevant in FEDS.items():
        fed = federation_of(images, SPLITS["1 class"], irrelevant, seed)
        uniform_draws = fm.SFedAvg(M, temperature=math.inf, by_class=True)
        rules: dict[str, fm.SFedAvg] = {FEDAVG: uniform_draws}
        if irrelevant:
            rules[LETTER] = fm.SFedAvg(M, literal=True)
            rules[PAID_ORDERS] = fm.SFedAvg(M, temperature=1.0, exact=False, empty="zero")
            rules[COLD] = fm.SFedAvg(M)
        for rule, strategy in rules.items():
            if rule == FEDAVG:
                history, panel = with_panel(fed, net, strategy, rounds, SHORT, seed)
            else:
                history = fm.train(fed, net, strategy, rounds=rounds, local=SHORT, seed=seed)
            yield from rows_of(name, rule, left(fed, history))
            if rule == FEDAVG:
                yield from of_classes(fed, torch.stack(panel.of_class), name)
                yield from of_panel(fed, history, panel, name)


def values(
    seed: int, *, rounds: int = ROUNDS, splits: Sequence[str] = tuple(SPLITS)
) -> Iterator[Row]:
    """What relevance finds under uniform sampling, by estimator, work, validation set and kind."""
    data, net, local = setting()
    for name in splits:
        fed = federation_of(data, SPLITS[name], IRRELEVANT, seed)
        drawn = fm.SFedAvg(M, temperature=math.inf)
        history, panel = with_panel(fed, net, drawn, rounds, local, seed)
        yield from of_panel(fed, history, panel, name)
        yield from kinds(fed, history, panel, name)
        quick = fm.train(fed, net, uniform(), rounds=rounds, local=FEW, seed=seed)
        yield name, "five minibatches", "AUC", late_auc(quick.scores, sorted(fed.corrupted))
        # With selection, too, because there a wrong relevance decides who is selected again.
        x, y = fed.validation
        for size in (*SIZES, len(y)):
            small = replace(fed, validation=(x[:size], y[:size]))
            cold = fm.train(small, net, fm.SFedAvg(M), rounds=rounds, local=local, seed=seed)
            method = f"{COLD}, {size} samples"
            yield from rows_of(name, method, left(fed, cold, rounds))


def of_panel(fed: fm.Federation, history: fm.History, panel: Panel, scenario: str) -> Iterator[Row]:
    """How well each way of valuing the same rounds finds the irrelevant clients."""
    if irrelevant := sorted(fed.corrupted):
        opinions: dict[str, Tensor | list[Tensor]] = {PRECISE: history.scores}
        opinions |= panel.seen
        for way, relevances in opinions.items():
            yield scenario, way, "AUC", late_auc(relevances, irrelevant)


def kinds(fed: fm.Federation, history: fm.History, panel: Panel, scenario: str) -> Iterator[Row]:
    """Mean relevance by a client's data; its values by the data of the round's other clients."""
    held, phi = fed.label_counts > 0, late(history.scores).mean(0)
    groups = {"irrelevant": sorted(fed.corrupted)}
    for count in (1, 2, 5):
        kind = f"relevant, {count} class" + "es" * (count > 1)
        groups[kind] = [k for k in sound(fed) if held[k].sum() == count]
    for kind, ids in groups.items():
        if ids:
            yield scenario, kind, "relevance", float(phi[ids].mean())
    if scenario == "1 class":
        for company, value in in_company(fed, torch.stack(panel.earned)).items():
            yield scenario, company, "value in a round", value


def in_company(fed: fm.Federation, earned: Tensor) -> dict[str, float]:
    """A relevant client's mean value if it adds a class, and if others hold all its classes.

    earned [rounds, K], nan if not selected. A class is present if another relevant client of the
    round holds it. Clients with only one of the two kinds of rounds are left out.
    """
    held, relevant, means = fed.label_counts > 0, sound(fed), []
    for k in relevant:
        own: dict[bool, list[float]] = {True: [], False: []}
        for round_values in earned[~earned[:, k].isnan()]:
            others = [j for j in relevant if j != k and not round_values[j].isnan()]
            brings = bool((held[k] & ~held[others].any(0)).any())
            own[brings].append(float(round_values[k]))
        if own[True] and own[False]:
            means.append([sum(own[brings]) / len(own[brings]) for brings in (True, False)])
    brought, there = torch.tensor(means).mean(0).tolist()
    return {"its class is missing": brought, "its classes are there": there}


def of_classes(fed: fm.Federation, seen: Tensor, scenario: str) -> Iterator[Row]:
    """Class relevances, seen [T, K, classes]: holders of a class against the others."""
    held = fed.label_counts > 0
    for c, digit in enumerate(DIGITS):
        holds = [k for k in sound(fed) if held[k, c]]
        rest = [k for k in range(fed.clients) if k not in holds]
        for t in range(10, len(seen) + 1, 10) if digit == 2 else ():
            for group, ids in {"holders of 2": holds, "others": rest}.items():
                yield scenario, group, f"phi_2 @ {t}", float(seen[t - 10 : t, ids, c].mean())
        # Later rounds, because all class relevances start with the same value.
        later = late(seen)[:, :, c]
        gap = later[:, holds].mean() - later[:, rest].mean()
        areas = [fm.detection_auc(-phi, holds) for phi in later[::5]]
        yield scenario, f"holders of {digit}", "relevance gap", float(gap)
        yield scenario, f"holders of {digit}", "AUC", sum(areas) / len(areas)


def watched(fed: fm.Federation, seed: int, rounds: int) -> tuple[Tensor, fm.History]:
    """The class relevances of a training run [T, K, classes], and the run."""
    _, net, local = setting()
    rule, of_class = fm.SFedAvg(M, temperature=1.0, by_class=True), []

    def note(round: Round, step: Step) -> None:
        of_class.append(step.state["class_scores"])

    history = fm.train(fed, net, rule, rounds=rounds, local=local, seed=seed, watch=note)
    return torch.stack(of_class), history


def classes(seed: int, *, rounds: int = ROUNDS) -> Iterator[Row]:
    """Fig. 4: class relevance with and without irrelevant clients, and with a shouting one."""
    data, _, _ = setting()
    for name, irrelevant in FEDS.items():
        fed = federation_of(data, SPLITS["1 class"], irrelevant, seed)
        yield from of_classes(fed, watched(fed, seed, rounds)[0], name)
    fed = federation_of(data, fm.IID(), IRRELEVANT, seed)
    loud, y = min(fed.corrupted), fed.y.clone()
    y[slice(*fed.offsets[loud : loud + 2].tolist())] = 2  # the class of the digit 4
    seen, history = watched(replace(fed, y=y), seed, rounds)
    places = {"phi_4": late(seen)[:, :, 2].mean(0), "phi": late(history.scores).mean(0)}
    for score, phi in places.items():
        yield (
            "one shouts 4",
            "who shouts",
            f"place in {score}",
            1.0 + float((phi > phi[loud]).sum()),
        )


def over_digits(results: Results) -> Derived:
    """The lead of a class's holders, as a mean over five digits."""
    for name in FEDS:
        for metric in ("relevance gap", "AUC"):
            each = [results.values(metric, f"holders of {digit}", name) for digit in DIGITS]
            yield name, "holders, mean of five digits", metric, torch.stack(each).mean(0)


def selection_figure(results: Results) -> Figure:
    """Accuracy of the second half in the paper's split: S-FedAvg between FedAvg and oracles."""
    scenario, fewer = "1 class", "1 class, 0 irrelevant"
    shown = {f"{FEDAVG}, 10 relevant": results.values("accuracy", FEDAVG, fewer)}
    for rule in (ORACLE, STEERED, COLD, WARM, FEDAVG):
        if results.has("accuracy", rule, scenario):
            shown[rule] = results.values("accuracy", rule, scenario)
    xlabel = "test accuracy, rounds 51 to 100"
    return plots.dots(highest_first(shown), xlabel=xlabel, ylabel="rule", low=0, high=1)


def highest_first(rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rows by their mean."""
    return dict(sorted(rows.items(), key=lambda row: -float(row[1].mean())))


def mnist_figure(results: Results) -> Figure:
    """Accuracy against rounds, rule by rule."""
    curves = {rule: results.curve("accuracy", rule) for rule in results.methods}
    return plots.curves({rule: line for rule, (_, line) in curves.items()}, x=curves[FEDAVG][0])


def values_figure(results: Results) -> Figure:
    """How well relevance finds irrelevant clients, by way of valuing rounds and by split."""
    ways_shown = {
        "IID": (PRECISE, UNPAID[PRECISE], ORDERS, UNPAID[ORDERS]),
        "1 class": (PRECISE, "five minibatches"),
    }
    rows = {
        f"{way}, {split}": results.values("AUC", way, split)
        for split, ways in ways_shown.items()
        for way in ways
        if results.has("AUC", way, split)
    }
    chance, xlabel = {"chance": 0.5}, "detection AUC"
    return plots.dots(highest_first(rows), xlabel=xlabel, reference=chance, low=0, high=1)


def classes_figure(results: Results) -> Figure:
    """Relevance for the digit 2 over rounds: who holds twos and who does not."""
    groups, lines = ("holders of 2", "others"), {}
    for name in FEDS:
        curves = {group: results.curve("phi_2", group, name) for group in groups}
        lines[name] = {group: line for group, (_, line) in curves.items()}
        rounds = curves["others"][0]
    return plots.panels(lines, x=rounds, ylabel="relevance for 2", low=-1, high=1)


STEADIER = "At temperature .02 S-FedAvg is steadier than FedAvg (MNIST)."
STEADY = Claim(STEADIER, RESTLESS, FEDAVG, COLD, low=0, source="book")
STUDIES = (
    study(
        "sfedavg-selection",
        selection,
        figure=selection_figure,
        probe={"rounds": 10, "scenarios": ["1 class"]},
    ),
    study(
        "sfedavg-mnist",
        mnist_rows,
        [STEADY],
        figure=mnist_figure,
        probe={"data": "digits", "rounds": 10},
    ),
    study(
        "sfedavg-figures",
        figures,
        derived=over_digits,
        probe={"data": "digits", "width": 50, "rounds": 6},
    ),
    study(
        "sfedavg-values", values, figure=values_figure, probe={"rounds": 12, "splits": ["1 class"]}
    ),
    study("sfedavg-classes", classes, (), over_digits, classes_figure, probe={"rounds": 15}),
)
