"""Other people's scores: what examples/foreign has stored, judged, and shown on pages.

    python -m studies bench foreign FOLDER   judge the stored scores; FOLDER: held-out values

Each score is judged by itself among the book's, as ``fedlab_bench judge FILE`` does. So several
estimators of one value push neither each other nor the book's scores down. Below: judging, items.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.judging import Standing, over_seeds, place_of
from fedlab_bench.measures import MEASURES, relative_error
from fedlab_bench.recording import slug
from fedlab_bench.truth import cells_of
from fedlab_mini.gate.games import least_core
from fedlab_mini.judge.evidence import interval
from fedlab_mini.judge.metrics import kendall, spearman
from fedlab_mini.keep.files import whole_file

from .items import ROOT

PLACE = ROOT / "data" / "results" / "foreign"
PROJECTS = ROOT / "examples" / "foreign" / "projects.toml"
OURS = ROOT / "data" / "bench" / "v1" / "submissions"
JUDGED, RUNS, PUBLISHED = (PLACE / name for name in ("judged.csv", "runs.json", "published.csv"))
# What the public seeds are stored of, so that anybody can judge again; and what the board shows.
PUBLIC = ("sizes", "skew, even sizes")
FEW = ("sizes", "skew, even sizes", "dirt")
REACH = {  # of a score: how many families it is stored of
    "one": ("sizes",),
    "few": FEW,
    "broad": (*FEW, "skew", "dirt under skew", "alike", "an attack among alike"),
}
SHOWN = ("tau", "AUC", "pay gained")
BESIDE = {  # a score, and the book's score that it should equal or estimate
    "FedML: MR": "Shapley",
    "shapiq: Banzhaf": "Banzhaf",
    "FLCE: individual": "alone",
    "FLCE: leave one out": "leave one out",
    "pyDVL: least core": "least core",
    "FLCE: least core": "least core",
    "shapiq: ELC": "least core",
    "shapiq: KernelSHAP": "Shapley",
    "shapiq: SVARM": "Shapley",
    "pyDVL: permutations": "Shapley",
    "FLCE: guided sampling": "Shapley",
    "FLCE: structured sampling": "Shapley",
    "FedML: GTG, one line added": "Shapley",
    "mplc: truncated orderings": "Shapley",
    "ShapleyFL: complementary": "Shapley",
    "svfl": "Shapley",
    "FedML: LOO, one line added": "leave one out",
    "NVFLARE: FedCE": "FedCE",
    "ShapFed: updates": "class cosine",
    "ShapFed: models": "class cosine",
}


class Score(NamedTuple):
    """A score of a project: what it computes or estimates, sees and costs."""

    name: str
    value: str
    cost: str
    sees: str = "updates, validation"
    reach: str = "few"

    def cells(self) -> list[tuple[str, int]]:
        """The scenarios and seeds that it is stored of, the public ones first."""
        families = REACH[self.reach]
        public = [family for family in PUBLIC if family in families]
        return [*_cells(public, fb.PUBLIC), *_cells(families, fb.HELD_OUT)]

    def file(self) -> Path:
        """Its stored file."""
        return PLACE / f"{slug(self.name)}.csv"


class Project(NamedTuple):
    """A project; one without a commit is installed."""

    title: str
    version: str
    licence: str
    scores: tuple[Score, ...]
    commit: str = ""
    address: str = ""

    @property
    def source(self) -> str:
        """Its title, version and licence."""
        return f"{self.title} {self.version}, {self.licence}"


def _cells(families: Sequence[str], seeds: Iterable[int]) -> list[tuple[str, int]]:
    # In these scenarios all clients take part in every round, which every project expects.
    worlds = {name: world for name, world in fb.WORLDS.items() if world.family in families}
    return cells_of(worlds, seeds)


@cache
def projects() -> dict[str, Project]:
    """All projects by name."""
    with PROJECTS.open("rb") as file:
        known = tomllib.load(file)
    return {
        name: Project(**{**about, "scores": tuple(Score(**score) for score in about["scores"])})
        for name, about in known.items()
    }


def every() -> list[Score]:
    """The scores of all projects."""
    return [score for project in projects().values() for score in project.scores]


def keep(place: Path, name: str, **facts: Any) -> None:
    """Note facts about a run of a project in ``runs.json`` of a folder."""
    file = place / RUNS.name
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    known[name] = known.get(name, {}) | {"day": date.today().isoformat()} | facts
    with whole_file(file) as part:
        text = json.dumps(dict(sorted(known.items())), indent=1)
        part.write_text(text + "\n", encoding="utf-8", newline="\n")


# --- judged --------------------------------------------------------------------------------------


def judge(held_out: Path) -> None:
    """Judge all stored scores, and write a row for each score, scenario, measure and block."""
    frozen = fb.Frozen(OURS.parent / "truth", held_out)
    rows = pandas.concat([again(score, frozen) for score in every()], ignore_index=True)
    rows["block"] = rows.seed // 100 * 100
    keys = ["method", "scenario", "metric", "block"]
    # One row per block: its values, in the order of seeds, take less room so.
    values = rows.groupby(keys, sort=False).value.agg(lambda own: " ".join(f"{v:.6g}" for v in own))
    with whole_file(JUDGED) as part:
        values.rename("worths").reset_index().to_csv(part, index=False, lineterminator="\n")


def again(score: Score, frozen: fb.Frozen) -> pandas.DataFrame:
    """A stored score, judged by the reference values that are there, as rows of ``fb.judge``."""
    rows = fb.judge([fb.read_submission(score.file())], frozen)
    return rows[rows.method == score.name].sort_values("seed", kind="stable")


def rows_of(score: Score, seeds: Sequence[int]) -> pandas.DataFrame:
    """The stored judgements of a score in a block of seeds, as rows of ``fb.judge``."""
    stored = pandas.read_csv(JUDGED)
    stored = stored[(stored.method == score.name) & (stored.block == seeds[0])]
    cells = [
        (seed, row.scenario, score.name, row.metric, float(value))
        for row in stored.itertuples()
        for seed, value in zip(seeds, str(row.worths).split(), strict=False)
    ]
    return pandas.DataFrame(cells, columns=["seed", "scenario", "method", "metric", "value"])


def standing(rows: pandas.DataFrame, metric: str) -> dict[str, Standing]:
    """{family: standing} of a single score among the book's scores of the same cells."""
    (name,) = set(rows.method)
    cells = set(zip(rows.scenario, rows.seed, strict=True))
    book = fb.judged(sorted(set(rows.seed)))
    book = book[[cell in cells for cell in zip(book.scenario, book.seed, strict=True)]]
    low, high, *_ = MEASURES[metric]
    found = over_seeds(pandas.concat([book, rows], ignore_index=True), metric)
    return {
        family: Standing(
            interval(values[name], low=low, high=high), place_of(name, values, metric), values[name]
        )
        for family, values, _ in found
        if name in values
    }


# --- small cases ---------------------------------------------------------------------------------


def game_of(table: Any) -> fm.Game:
    """The game of a table of worths [2^n]; bit k of a position says whether player k is in."""
    worths = torch.as_tensor(table, dtype=torch.float64)
    players = len(worths).bit_length() - 1
    return fm.Game(players, lambda members: worths[members.long() @ (1 << torch.arange(players))])


class Case(NamedTuple):
    """A small game that shows a fault: who says what of it, and the right values.

    answer  the key under which ``runs.json`` keeps what the project said
    table   worths [2^n]; bit k of the position says whether player k is in
    right   from the game to the right values
    """

    project: str
    answer: str
    asked: str
    table: Sequence[float]
    right: Callable[[fm.Game], Any]

    def truth(self) -> list[float]:
        """The right values, by the book's own code."""
        return [float(value) for value in self.right(game_of(self.table)).values]

    def said(self) -> list[float] | str:
        """What the project said, or its error."""
        return json.loads(RUNS.read_text(encoding="utf-8"))[self.project]["cases"][self.answer]


ADDITIVE = (0, 1, 2, 3, 3, 4, 5, 6)
LEMAIRE = (0, 46125, 17437.5, 69187.5, 5812.5, 53812.5, 30750, 90000)
IN_SHARES = tuple(worth / 90000 for worth in LEMAIRE)
EIGHT = tuple(bin(position).count("1") for position in range(256))
CASES = (
    Case(
        "svfl", "floor", "Shapley values of worths 1, -1 and, together, 0", (0, 1, -1, 0), fm.exact
    ),
    Case("fedml", "GTG as shipped", "GTG of an additive game", ADDITIVE, fm.exact),
    Case("fedml", "LOO as shipped", "LOO of an additive game", ADDITIVE, fm.exact),
    Case("fedml", "GTG, ids from 0", "the same, a line added, ids 0, 1, 2", ADDITIVE, fm.exact),
    Case("fedml", "GTG, ids from 4", "the same, ids 4, 5, 6", ADDITIVE, fm.exact),
    Case("fedml", "LOO, ids from 1", "LOO, a line added, ids 1, 2, 3", ADDITIVE, fm.exact),
    Case(
        "fedml",
        "GTG, remembered",
        "GTG, a line added, of a detour",
        (0, 1, 0, 3, 0, 3, 0, 1),
        fm.exact,
    ),
    Case("flce", "Lemaire", "least core of Lemaire's game, in shares", IN_SHARES, least_core),
    Case("flce", "Lemaire, in money", "least core of Lemaire's game", LEMAIRE, least_core),
    Case("flce", "default budget", "guided sampling, eight players, no budget", EIGHT, fm.exact),
    Case(
        "mplc",
        "truncated",
        "truncated orderings, a gain of .026",
        (0, 0.01, 0.01, 0.02, 0.006, 0.016, 0.016, 0.026),
        fm.exact,
    ),
    Case("shapiq", "least core", "ELC of worths 1, 0 and, together, 0", (0, 1, 0, 0), least_core),
    Case("shapleyfl", "exact", "exact values of an additive game", ADDITIVE, fm.exact),
)


# --- shown ---------------------------------------------------------------------------------------


def parts() -> dict[str, str]:
    """The computed parts of the pages, by name."""
    boards = {metric: board(metric) for metric in SHOWN}
    return {
        "projects": listed(),
        **boards,
        "agreed": agreed(),
        "cases": cases(),
        "published": published(),
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def listed() -> str:
    """A row a project: version, licence, how it comes, when it was run, for how long."""
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    rows = [
        [
            f"[{one.title}]({one.address})" if one.address else one.title,
            f"`{one.version}`",
            one.licence,
            "fetched" if one.commit else "installed",
            len(one.scores),
            runs[name]["day"],
            runs[name]["seconds"],
        ]
        for name, one in projects().items()
    ]
    values = {score.value for score in every()}
    told = f"{len(rows)} projects, {len(every())} scores, {len(values)} different values."
    head = ["project", "version", "licence", "comes", "scores", "day", "seconds"]
    return f"{told}\n\n{_table(head, rows)}"


def board(metric: str) -> str:
    """A row a score: what it is, its cost, and per family its mean and its place."""
    found = {}
    for score in every():
        rows = rows_of(score, fb.HELD_OUT)
        if metric in set(rows.metric):
            found[score] = standing(rows, metric)
    families = list(dict.fromkeys(family for own in found.values() for family in own))
    homes = {score: one for one in projects().values() for score in one.scores}
    days = json.loads(RUNS.read_text(encoding="utf-8"))
    names = {one: name for name, one in projects().items()}
    rows = [
        [
            f"{score.name}<br>*{score.value}*",
            f"{homes[score].version}, {days[names[homes[score]]]['day']}<br>{score.cost}",
            *(_cell(own.get(family)) for family in families),
        ]
        for score, own in found.items()
    ]
    head = ["score, *value*", "version, run on; cost", *map(fb.shown, families)]
    return _table(head, rows)


def _cell(one: Standing | None) -> str:
    return "–" if one is None else f"{round(one.interval.mean, 2) + 0.0:.2f} ({one.place})"


def agreed() -> str:
    """Each score beside the book's: the mean and the largest distance, and tau."""
    rows = []
    for name, own in BESIDE.items():
        (score,) = [score for score in every() if score.name == name]
        theirs = fb.read_submission(score.file()).scores
        ours = fb.read_submission(OURS / f"{slug(own)}.csv").scores
        cells = [cell for cell in theirs if cell in ours]
        pairs = [(theirs[cell].double(), ours[cell].double()) for cell in cells]
        away = [relative_error(a, b) for a, b in pairs]
        taus = [kendall(a, b) for a, b in pairs]
        row = [sum(away) / len(away), max(away), sum(taus) / len(taus)]
        rows.append([name, fb.shown(own), *(f"{number:.2g}" for number in row), len(cells)])
    head = ["theirs", "ours", "mean distance", "largest", "tau", "runs"]
    return _table(head, rows)


def cases() -> str:
    """A row a small case: what was asked, what the project says, what is right."""
    names = projects()
    return _table(
        ["project", "asked", "it says", "right"],
        [
            [names[one.project].title, one.asked, _words(one.said()), _words(one.truth())]
            for one in CASES
        ],
    )


def _words(values: list[float] | str) -> str:
    if isinstance(values, str):
        return f"`{values.partition('(')[0].strip()}`"
    if len(set(values)) == 1 and len(values) > 3:
        return f"{values[0]:g} each"
    return ", ".join(f"{round(value, 3) + 0.0:g}" for value in values)


def published() -> str:
    """FLCE's published Spearman correlations beside those of the bench's public tables."""
    stored = pandas.read_csv(PUBLISHED)
    ours = own_games()
    rows = [
        [row.score, f"{row.spearman:.2f}", f"{ours[row.score]:.2f}" if row.score in ours else "–"]
        for row in stored.itertuples()
    ]
    count = f"{stored.runs.iloc[0]} runs"
    return _table(["score", f"FLCE's files, {count}", "the bench's public tables"], rows)


@cache
def own_games() -> Mapping[str, float]:
    """Mean Spearman correlation of two scores of a retraining game with its own exact values."""
    asked = {"individual": fm.alone, "leave one out": fm.leave_one_out}
    found: dict[str, list[float]] = {name: [] for name in asked}
    for name, tables in fb.Frozen().tables.items():
        if fb.WORLDS[name].sampled:
            continue
        for worths in (row for table in tables.values() for row in table):
            game = game_of(worths)
            exact = fm.exact(game).values
            for score, value in asked.items():
                found[score].append(spearman(value(game).values, exact))
    return {name: sum(own) / len(own) for name, own in found.items()}
