"""Calls: estimators of the Shapley value on stored worths, by how many worths they ask for.

A file of the bench's reference values holds the worths of all coalitions of eight clients, so the
exact value is known, and an estimator is judged by its error after 24, 32, ... different worths.
With retraining each of them is a training run. Below: fedlab_bench. Above: bench_findings,
leaderboard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

import pandas
import torch
from torch import Generator, Tensor

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.judging import COLUMNS
from fedlab_bench.measures import relative_error
from fedlab_bench.methods.gtg import GTGShapley
from fedlab_bench.truth import NEWEST, table_game
from fedlab_mini.games.sampling import gains_in
from fedlab_mini.judge.evidence import interval
from fedlab_mini.streams import stream

from .items import ROOT

FILE = ROOT / "data" / "bench" / f"v{NEWEST}" / "calls.csv"
BUDGETS = (24, 32, 48, 64, 96, 128)
SHOWN = (24, 48, 96, 128)  # what a page has room for
DRAWS = 2  # of every estimator in every table
TABLES = [name for name, world in fb.WORLDS.items() if world.rule != "mean"]
BLOCKS = (fb.HELD_OUT, fb.CONFIRMING_2)
Running = Iterator[Tensor]  # an estimate [n] after each further sample


def orderings(game: fm.Game, chance: Generator) -> Running:
    """Means over random orderings, as ``fm.permutation``."""
    return _ordered(game, chance, led=False)


def guided(game: fm.Game, chance: Generator) -> Running:
    """Means over orderings where each player leads in turn, as ``fm.guided``."""
    return _ordered(game, chance, led=True)


def truncated(game: fm.Game, chance: Generator) -> Running:
    """The same, and an ordering ends near v(N), as in GTG-Shapley with the bench's tolerance."""
    return _ordered(game, chance, led=True, within=GTGShapley().within)


def _ordered(game: fm.Game, chance: Generator, led: bool, within: float = 0.0) -> Running:
    ends = game(torch.tensor([[False] * game.n, [True] * game.n]))
    tolerance, total = within * float(ends.diff().abs()), torch.zeros(game.n).double()
    leaders = torch.randperm(game.n, generator=chance).tolist()
    for k in count():
        order = torch.randperm(game.n, generator=chance)
        if led:
            leader = leaders[k % game.n]
            order = torch.cat([torch.tensor([leader]), order[order != leader]])
        total += gains_in(game, order[None], tolerance)[0]
        yield total / (k + 1)


def stratified(game: fm.Game, chance: Generator) -> Running:
    """For every player and every size, the mean gain over coalitions; then the mean over sizes.

    A sample is a coalition of one stratum; all strata take turns in random order
    source  [Maleki et al. 2013]
    """
    n = game.n
    totals, times = torch.zeros(2, n, n, dtype=torch.float64)
    while True:
        for stratum in torch.randperm(n * n, generator=chance).tolist():
            player, size = divmod(stratum, n)
            others = torch.randperm(n, generator=chance)
            members = torch.zeros(2, n, dtype=torch.bool)
            members[:, others[others != player][:size]] = True
            members[1, player] = True
            totals[player, size] += float(game(members).diff())
            times[player, size] += 1
            means = totals / times.clamp(min=1)
            yield means.sum(1) / (times > 0).sum(1).clamp(min=1)


def owen(game: fm.Game, chance: Generator) -> Running:
    """Every player joins with the same chance, drawn anew for each pair of opposite coalitions.

    source  [Okhrati and Lipani 2021], halved sampling
    """
    total, everybody = torch.zeros(game.n).double(), torch.eye(game.n, dtype=torch.bool)
    for k in count(1):
        joins = torch.rand(game.n, generator=chance) < torch.rand(1, generator=chance)
        for members in (joins, ~joins):
            total += game(members | everybody) - game(members & ~everybody)
        yield total / (2 * k)


RUNNING: dict[str, Callable[[fm.Game, Generator], Running]] = {
    "random orderings": orderings,
    "guided orderings": guided,
    "GTG (truncated)": truncated,
    "stratified": stratified,
    "Owen": owen,
}
KERNEL = "paired kernel"
ESTIMATORS = (*RUNNING, KERNEL)


def estimates(name: str, game: fm.Game, seed: int) -> dict[int, Tensor]:
    """The last estimate [n] within each number of calls; zeros where not one sample fits."""
    if name == KERNEL:
        return {budget: fm.kernel(game, budget, seed).values for budget in BUDGETS}
    found = dict.fromkeys(BUDGETS, torch.zeros(game.n, dtype=torch.float64))
    with game.tally() as asked:
        for values in RUNNING[name](game, stream(seed, name)):
            found |= {budget: values for budget in BUDGETS if len(asked) <= budget}
            if len(asked) > BUDGETS[-1]:
                return found
    return found


def rows(seed: int, frozen: fb.Frozen) -> Iterator[tuple[int, str, str, str, float]]:
    """Of each estimator and number of calls, the mean error and tau over tables and draws."""
    tables = [frozen.tables[name][str(seed)][0] for name in TABLES]
    games = [table_game(torch.from_numpy(table).double()) for table in tables]
    for name in ESTIMATORS:
        found: dict[tuple[int, str], list[float]] = {}
        for place, game in enumerate(games):
            exact = fm.exact(game).values
            for draw in range(DRAWS):
                lot = (seed * len(games) + place) * DRAWS + draw
                for budget, values in estimates(name, game, lot).items():
                    error, tau = relative_error(values, exact), fm.kendall(values, exact)
                    found.setdefault((budget, "relative error"), []).append(error)
                    found.setdefault((budget, "tau"), []).append(tau)
        for (budget, metric), own in found.items():
            yield seed, at(budget), name, metric, round(sum(own) / len(own), 6)


def at(budget: int) -> str:
    """The scenario of a number of calls."""
    return f"{budget} calls"


def write(places: Iterable[Path]) -> None:
    """Judge all estimators on the tables of the bench and of folders with held-out values."""
    frozen = fb.Frozen(FILE.parent / "truth", *places)
    seeds = sorted(int(seed) for seed in frozen.tables[TABLES[0]])
    table = [row for seed in seeds for row in rows(seed, frozen)]
    pandas.DataFrame(table, columns=COLUMNS).to_csv(FILE, index=False)


def stored() -> pandas.DataFrame:
    """The stored rows of the seeds that claims are read on."""
    frame = pandas.read_csv(FILE)
    return frame[frame.seed.isin([seed for block in BLOCKS for seed in block])]


def curves() -> str:
    """A row per estimator, a column per number of calls: mean error and its interval."""
    frame = stored().query("metric == 'relative error'")
    lines = [
        f"| estimator | {' | '.join(map(str, SHOWN))} |",
        "| --- |" + " --: |" * len(SHOWN),
    ]
    for name in ESTIMATORS:
        own = frame[frame.method == name]
        cells = [interval(own[own.scenario == at(b)].value.tolist(), low=0, high=1) for b in SHOWN]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
