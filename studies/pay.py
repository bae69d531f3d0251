"""Pay: what six clinics and four hospitals would be paid by each rule, and which promises hold.

Chapter 14 reads these results. Games are retrained, or of single rounds; every rule divides the
accuracy gained, so that pay is in points of accuracy (1 = all).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import fedlab_mini as fm
from fedlab_mini.games.values import core_shortfall
from fedlab_mini.worlds.data.heart import HOSPITALS

from .case_claims import ALL
from .cases import CLINICS, PATIENTS, Case, _Worths, worths
from .pay_claims import MINT, OF_PAY, RULES, gained
from .protocols import study
from .study import Row

ALDER, CEDAR, ELM = 0, 2, 4
MONTHS = (12, 24, 36, 48)  # rounds after which a month ends
LENGTHS = (6, *MONTHS)
RHOS = (1.0, 0.5, 0.2)
HAIR = 1e-9  # of accuracy: smaller numbers are rounding
SHARES = (1.0, 0.5, 0.25, 0.1, 0.05)  # of a model's change that a clinic receives


def paid(game: fm.Game, sizes: Tensor) -> dict[str, Tensor]:
    """{rule: pay [n]} of a game by every rule."""
    gain = float(game.all()[-1] - game.all()[0])
    return {
        "Shapley": fm.pay.shapley(game),
        "marginal": fm.pay.marginal(game),
        "nucleolus": fm.pay.nucleolus(game),
        "size": fm.pay.by_score(sizes, gain),
        "alone": fm.pay.by_score(fm.alone(game).values, gain),
    }


def promises(scenario: str, game: fm.Game, sizes: Tensor, names: Sequence[str]) -> Iterator[Row]:
    """What is left of each promise of each rule, and everybody's pay."""
    gain = float(game.all()[-1] - game.all()[0])
    epsilon = core_shortfall(game)
    yield scenario, "core", "core empty", float(epsilon > HAIR)
    yield scenario, "core", "epsilon", epsilon
    yield scenario, "core", "gain", gain
    if gain > 0:
        yield scenario, "core", "epsilon / gain", epsilon / gain
    for rule, pay in paid(game, sizes).items():
        below = (~fm.pay.alone_or_better(pay, game)).sum()
        yield scenario, rule, "paid less than alone", float(below)
        yield scenario, rule, "negative pay", float((pay < -HAIR).sum())
        yield scenario, rule, "beyond the gain", fm.pay.balance(pay, game)
        yield scenario, rule, "shortfall", fm.pay.shortfall(pay, game)
        for name, own in zip(names, pay.tolist(), strict=True):
            yield f"{scenario}, {name}", rule, "pay", own


def models_as_reward(scenario: str, game: fm.Game) -> Iterator[Row]:
    """Rho-Shapley: who gets a worse model than alone, and how equal rewards must become."""
    for rho in RHOS:
        below = ~fm.pay.alone_or_better(fm.pay.rho_shapley(game, rho), game)
        yield scenario, f"rho {rho:g}", "paid less than alone", float(below.sum())
    yield scenario, "rho", "largest rho", min(fm.pay.largest_rho(game), 1.0)


# --- two names ------------------------------------------------------------------------------------


def game_of(clients: int, worth: Tensor) -> fm.Game:
    """The game of stored worths [2^K]."""
    return fm.Game(clients, _Worths(fm.all_coalitions(clients), worth))


def what_names_pay(
    scenario: str, case: Case, client: int, changed: fm.Federation, before: Mapping[int, fm.Game]
) -> Iterator[Row]:
    """What both names of a client get beyond what it got under one."""
    both = replace(case, fed=changed)
    told = worths(both, 3 * case.seed, tuple(before), {"": case.fed.validation})
    for length, game in before.items():
        now = game_of(changed.clients, told["", "accuracy", length])
        one, two = paid(game, case.fed.sizes.double()), paid(now, changed.sizes.double())
        for rule in RULES:
            earned = two[rule][client] + two[rule][-1] - one[rule][client]
            yield f"{scenario} @ {length}", rule, "pay gained", float(earned)


# --- rounds --------------------------------------------------------------------------------------


@dataclass
class Rounds:
    """What the games of single rounds add up to, under one rule for absent clients."""

    case: Case
    absent: str

    def games(self, seen: Sequence[dict], metric: str) -> Iterator[fm.Game]:
        x, y = self.case.fed.validation
        for one in seen:
            yield fm.round_game(
                self.case.net, one["theta"], one["updates"], x, y,
                metric=metric, weights=one["sizes"].float(), absent=self.absent,
            )  # fmt: skip

    def rows(self, seen: Sequence[dict]) -> Iterator[Row]:
        """Core and promises round by round, as means; the pay of four months; the mint."""
        scenario = f"rounds, {self.absent}"
        games = list(self.games(seen, "accuracy"))
        values = torch.stack([fm.pay.shapley(game) for game in games])  # [T, n]
        gains = torch.stack([game.all()[-1] - game.all()[0] for game in games])
        epsilon = [core_shortfall(game) for game in games]
        below = torch.stack(
            [~fm.pay.alone_or_better(pay, game) for pay, game in zip(values, games, strict=True)]
        )
        yield scenario, "core", "share of rounds", sum(e > HAIR for e in epsilon) / len(games)
        yield scenario, "core", "epsilon / gain", sum(epsilon) / float(gains.sum())
        yield scenario, "Shapley", "paid less than alone", float(below.sum(1).double().mean())
        yield scenario, "Shapley", "negative pay", float((values < -HAIR).sum(1).double().mean())
        yield from by_month(scenario, values.view(len(MONTHS), -1, values.shape[1]).sum(1))
        names = self.case.fed.names
        for name, month in zip(names, values[len(values) // 2 :].sum(0).tolist(), strict=True):
            yield f"{scenario}, {name}", "Shapley", "pay of the second half", month
        for name, month in zip(names, values[: len(values) // 2].sum(0).tolist(), strict=True):
            yield f"{scenario}, {name}", "Shapley", "pay of the first half", month
        yield from self.minted(scenario, seen)

    def minted(self, scenario: str, seen: Sequence[dict]) -> Iterator[Row]:
        """Worth = 1 / loss, negative values cut to 0: what is paid per unit of gain."""
        minted = gained = 0.0
        for game in self.games(seen, "loss"):
            inverse = game_of(game.n, -1 / game.all())
            minted += float(fm.pay.floored(fm.pay.shapley(inverse)).sum())
            gained += float(inverse.all()[-1] - inverse.all()[0])
        yield scenario, MINT, "paid / gain", minted / gained


def by_month(scenario: str, months: Tensor) -> Iterator[Row]:
    """Three ways with negative values of months [T, n]: what they pay per unit of gain."""
    gain = float(months.sum())
    carried, owed = fm.pay.carried(months)
    yield scenario, "floor", "paid / gain", float(fm.pay.floored(months).sum()) / gain
    yield scenario, "carry over", "paid / gain", float(carried.sum()) / gain
    yield scenario, "carry over", "owed / gain", float(owed.sum()) / gain
    yield scenario, "Shapley", "negative months", float((months < -HAIR).sum())


# --- the study -----------------------------------------------------------------------------------


def pay_rows(
    seed: int, *, lengths: Sequence[int] = LENGTHS, judges: Sequence[str] = ("all", *HOSPITALS)
) -> Iterator[Row]:
    """Every rule's pay and promises, on the clinics and on the hospitals.

    lengths  rounds at which training runs are judged; the first, and the last, have rows of their
             own, and those after the first end months
    judges   whose patients judge the hospitals' models
    """
    yield from of_clinics(seed, lengths)
    yield from of_hospitals(seed, (lengths[0], lengths[-1]), judges)


def of_clinics(seed: int, lengths: Sequence[int]) -> Iterator[Row]:
    """The clinics: promises, names, copies, half a training run, months, models as reward."""
    fed = fm.six_clinics(seed)
    case = Case(fed, fm.mlp(64, 32, 10), CLINICS, seed)
    sizes, first, last = fed.sizes.double(), lengths[0], lengths[-1]
    runs = []
    for run in range(2):
        told = worths(case, 3 * seed + run, lengths, {"": fed.validation})
        runs.append({n: game_of(6, told["", "accuracy", n]) for n in lengths})
    games, again = runs
    for length in {first: 0, last: 0}:
        yield from promises(f"clinics @ {length}", games[length], sizes, fed.names)
        yield from models_as_reward(f"clinics @ {length}", games[length])
    other = paid(again[last], sizes)
    for rule, pay in paid(games[last], sizes).items():
        yield "clinics", rule, "moved by another training", float((pay - other[rule]).abs().mean())
    # What the copy takes from the original: without Elm, the others play a game of their own.
    five = fm.pay.without(games[last], ELM)
    before = paid(five, sizes[torch.arange(6) != ELM])
    for rule, pay in paid(games[last], sizes).items():
        yield "Elm joins, Alder", rule, "pay gained", float(pay[ALDER] - before[rule][ALDER])
    yield "Elm joins", "all", "gain added", float(games[last].all()[-1] - five.all()[-1])
    kept = {n: games[n] for n in dict.fromkeys((first, last))}
    yield from what_names_pay("Alder as two", case, ALDER, fed.under_names(ALDER), kept)
    yield from what_names_pay("Elm twice", case, ELM, fed.under_names(ELM, 2, "copied"), kept)
    yield from half_way(case, games[last], last)
    months = months_of(games, lengths)
    yield from by_month("months, retrained", months)
    theirs = months_of(again, lengths)
    for name, one, two in zip(fed.names, months.T, theirs.T, strict=True):
        moved = (one - two).abs().mean()
        yield f"months, retrained, {name}", "Shapley", "moved by another training", float(moved)
        yield f"months, retrained, {name}", "Shapley", "monthly pay", float(one.abs().mean())
    yield from in_rounds(case, last)


def months_of(games: Mapping[int, fm.Game], lengths: Sequence[int]) -> Tensor:
    """What the Shapley value of retraining grew by in each month, [T, n]."""
    ends = [n for n in lengths if n in MONTHS] or list(lengths)
    values = torch.stack([fm.pay.shapley(games[n]) for n in ends])
    return values.diff(dim=0, prepend=torch.zeros_like(values[:1]))


def half_way(case: Case, game: fm.Game, rounds: int) -> Iterator[Row]:
    """A clinic that joins after half of the rounds, or leaves then: its pay beside a full one."""
    coalitions = fm.all_coalitions(6)
    full = paid(game, case.fed.sizes.double())
    yield ALL, "full", "accuracy gained", float(game.all()[-1] - game.all()[0])
    for name, client in (("Alder", ALDER), ("Cedar", CEDAR)):
        for when, gone in (("joins", slice(0, rounds // 2)), ("leaves", slice(rounds // 2, None))):
            present = coalitions[:, None, :].repeat(1, rounds, 1)
            present[:, gone, client] = False
            worth = fm.simulate(
                case.fed, case.net, present.float(), local=case.local, seed=3 * case.seed, last=True
            )[:, 0]
            half = game_of(6, worth.double())
            pay, scenario = paid(half, case.fed.sizes.double()), f"{name} {when} half-way"
            yield scenario, "all", "gain added", float(worth[-1]) - float(game.all()[-1])
            for rule in ("Shapley", "marginal", "nucleolus"):
                yield scenario, rule, "pay", float(pay[rule][client])
                yield scenario, rule, "pay gained", float((pay[rule] - full[rule])[client])


def in_rounds(case: Case, rounds: int) -> Iterator[Row]:
    """The games of the rounds of one training run, and the model that it ends with, thinned."""
    seen: list[dict] = []

    def watch(round: object, step: object) -> None:
        parts = ("theta", "updates", "sizes")
        seen.append({part: getattr(round, part) for part in parts})

    history = case.train(fm.FedAvg(), rounds, watch=watch)
    for absent in ("left out", "silent"):
        yield from Rounds(case, absent).rows(seen)
    begin = seen[0]["theta"]
    change = history.theta - begin
    thinned = torch.stack([begin + fm.pay.sparsified(change, share) for share in SHARES])
    accuracy = case.net.evaluate(thinned, *case.fed.test, "accuracy")
    for share, found in zip(SHARES, accuracy.tolist(), strict=True):
        yield "sparse models", f"share {share:g}", "accuracy", found


def of_hospitals(seed: int, lengths: Sequence[int], judges: Sequence[str]) -> Iterator[Row]:
    """The hospitals: promises by whose patients judge, and the largest under two names."""
    feds = {judge: fm.four_hospitals(judge, seed=seed) for judge in judges}
    fed = feds[judges[0]]
    case = Case(fed, fm.mlp(14, 8, 2), PATIENTS, seed)
    patients = {judge: own.validation for judge, own in feds.items()}
    found = worths(case, 3 * seed, lengths, patients)
    for judge in judges:
        for length in dict.fromkeys(lengths):
            game = game_of(4, found[judge, "accuracy", length])
            scenario = f"hospitals @ {length}, judged by {judge}"
            yield from promises(scenario, game, fed.sizes.double(), fed.names)
    games = {n: game_of(4, found[judges[0], "accuracy", n]) for n in dict.fromkeys(lengths)}
    yield from what_names_pay("Cleveland as two", case, 0, fed.under_names(0), games)


STUDIES = (
    study(
        "pay",
        pay_rows,
        OF_PAY.values(),
        derived=gained,
        probe={"lengths": (1, 4), "judges": ("Switzerland",)},
    ),
)
