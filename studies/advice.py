"""Advice: what the book tells a reader to do, each piece as a record of ``book/advice.toml``.

A record is printed wherever a page has its marks, and rests on claims of lessons, studies, ledger
and bench. A claim that no longer holds names the record and every place that prints it.
Below: bench_findings, disagree, ledger, telling. Above: pages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from . import bench_findings, disagree, ledger, telling
from .items import ROOT
from .results import ALIKE, HOLDS, word_of
from .study import Claim

FILE = ROOT / "book" / "advice.toml"
PAGES = ("book/*.md", "book/chapters/*.md")
NAMING = "notebooks/quizzes/*.toml"  # whose questions about a choice name a record
OPEN, CLOSE = "<!-- advice: {} -->", "<!-- end of advice -->"
REGION = re.compile(r"<!-- advice: ([\w ]+?) -->(.*?)<!-- end of advice -->", re.DOTALL)
NAMED = re.compile(r'^advice = "([\w ]+)"', re.MULTILINE)
CHOICE = "which"  # its records are the rows of "Which score?"
CAPTION = (
    "Which score fits which server. In a round $m$ clients take part. Each answer rests on eight "
    "clients, 360 validation samples and small data sets; the models of a round are evaluated, "
    "not trained."
)
TABLE, LINES = "which table", "which lines"
HEAD = ("if", "take", "it must see", "it costs", "pay by it?", "beware of")


@dataclass(frozen=True)
class Advice:
    """One piece of advice: its words, and the claims it rests on, as in ``advice.toml``.

    asks, when, take, sees, cost, pay, beware  only of rows of "Which score?"
    """

    name: str
    says: str
    told: tuple[str, ...] = ()
    bench: tuple[str, ...] = ()
    ledger: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[Mapping[str, Any], ...] = ()
    tests: tuple[str, ...] = ()
    because: str = ""
    asks: str = ""
    when: str = ""
    take: str = ""
    sees: str = ""
    cost: str = ""
    pay: str = ""
    beware: str = ""

    def __post_init__(self) -> None:
        if not (self.told or self.bench or self.ledger or self.rows or self.tests or self.because):
            raise ValueError(f"{FILE.name}: {self.name} rests on nothing")

    @property
    def words(self) -> str:
        """What it says, with its numbers."""
        text = self.says
        for row in self.rows:
            if "name" in row:
                (results,) = disagree.sources()[row["study"]]
                mean = results.judge(_claim(row)).interval.mean  # type: ignore[union-attr]
                text = text.replace(
                    f"@{row['name']}@", row["form"].format(row.get("times", 1) * mean)
                )
        return text


@cache
def records(path: Path = FILE) -> dict[str, Advice]:
    """All records by name, such as "cgsv right"."""
    found = {}
    for method, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
        for name, given in fields.items():
            kept: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in given.items()
            }
            found[f"{method} {name}"] = Advice(f"{method} {name}", **kept)
    return found


def _claim(row: Mapping[str, Any]) -> Claim:
    bounds = {name: row[name] for name in ("above", "below", "within", "undecided") if name in row}
    return Claim.told(" ".join(row["asked"]), row["asked"], **bounds)


# --- what it rests on ----------------------------------------------------------------------------


def doubts(advice: Advice, sentences: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What a record rests on that does not hold, one line each.

    sentences  "10: holder_loo" -> the record of that claim of a lesson
    """
    for key in advice.told:
        if key not in sentences:
            yield f"no lesson or evidence page tells {key!r}"
        elif not _stands(sentences[key]):
            yield f"{key!r} does not hold"
    for name in advice.bench:
        one = [finding for finding in bench_findings.FINDINGS if finding.name == name]
        if not one:
            yield f"the bench has no finding {name!r}"
        yield from (
            fault for fault in _bench_faults() if fault.startswith(f"{bench_findings.NAME}-{name}-")
        )
    for row in advice.rows:
        (results,) = disagree.sources()[row["study"]]
        entry = results.judge(_claim(row))
        if entry.verdict not in (HOLDS, ALIKE):
            yield f"{row['study']}: {' '.join(row['asked'])}: {entry.measured}"
    verdicts = _verdicts() if advice.ledger else {}
    for item, verdict in advice.ledger.items():
        if verdicts.get(item) != verdict:
            yield f"the ledger's {item}: {verdicts.get(item)}, not {verdict!r}"
    for test in advice.tests:
        path, _, name = test.partition("::")
        file = ROOT / path
        if not file.is_file() or f"def {name}(" not in file.read_text(encoding="utf-8"):
            yield f"there is no test {test}"


def _stands(record: Mapping[str, Any]) -> bool:
    """Whether a claim of a lesson holds on all rows stored today, or in the run of its notebook."""
    claim = telling.claim_of(record)
    for results in disagree.sources().get(record.get("study", ""), ()):
        sides = [
            side if isinstance(side, tuple) else (side,) for side in (claim.a, claim.b) if side
        ]
        if sides and all(results.has(claim.metric, *side) for side in sides):
            return results.judge(claim).verdict in (HOLDS, ALIKE)
    return word_of(claim, disagree.interval_of(record)) in (HOLDS, ALIKE)


@cache
def _bench_faults() -> list[str]:
    return bench_findings.faults()


@cache
def _verdicts() -> dict[str, str]:
    return {entry.item.id: entry.verdict for entry in ledger.entries()}


def sentences() -> dict[str, Mapping[str, Any]]:
    """Every claim that lessons and evidence tell, by the number of its chapter and its key."""
    return {
        f"{record['chapter'].partition('_')[0]}: {record['key']}": record
        for record in telling.told()
    }


def faults(known: Mapping[str, Advice] | None = None) -> list[str]:
    """Records that no longer hold, each with its doubts and the places that print it."""
    found, told = [], sentences()
    for name, advice in (known or records()).items():
        if reasons := list(doubts(advice, told)):
            where = ", ".join(places(name)) or "no page"
            found.append(f"{name}: {'; '.join(reasons)}\n    printed by {where}")
    return found


# --- where it is printed -------------------------------------------------------------------------


def places(name: str) -> list[str]:
    """Every file that prints a record, or names it."""
    method = name.partition(" ")[0]
    of_all = {TABLE, LINES} if method == CHOICE else set()
    found = []
    for path in _files(*PAGES):
        text = path.read_text(encoding="utf-8")
        if {name, *of_all} & {mark for mark, _ in REGION.findall(text)}:
            found.append(path.relative_to(ROOT).as_posix())
    for path in _files(NAMING):
        if name in NAMED.findall(path.read_text(encoding="utf-8")):
            found.append(path.relative_to(ROOT).as_posix())
    return found


def _files(*patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def filled(text: str, where: str) -> str:
    """A page with the words of every record between its marks."""

    def words(found: re.Match[str]) -> str:
        name = found[1]
        if name in (TABLE, LINES):
            told = f"\n\n{table() if name == TABLE else lines()}\n\n"
        elif name in records():
            told = f" {records()[name].words}"
        else:
            raise ValueError(f"{where}: there is no advice {name!r} in {FILE.name}")
        return OPEN.format(name) + told + CLOSE

    return REGION.sub(words, text)


def pages() -> dict[Path, str]:
    """Every page with marks, and its text as it should be.

    raises  ValueError for a mark or a question that names no record
    """
    found = {}
    for path in _files(*PAGES):
        text = path.read_text(encoding="utf-8")
        if REGION.search(text):
            found[path] = filled(text, path.name)
    for path in _files(NAMING):
        for name in NAMED.findall(path.read_text(encoding="utf-8")):
            if name not in records():
                raise ValueError(f"{path.name}: there is no advice {name!r} in {FILE.name}")
    return found


def choices() -> list[Advice]:
    """The rows of "Which score?", in their order."""
    return [one for name, one in records().items() if name.startswith(f"{CHOICE} ")]


def lines() -> str:
    """The choices as a numbered list."""
    return "\n".join(f"{k}. **{one.asks}** {one.words}" for k, one in enumerate(choices(), start=1))


def table() -> str:
    """The choices as a table."""
    rows = [
        (one.when, one.take, one.sees, one.cost, one.pay, one.beware)
        for one in choices()
        if one.when
    ]
    lines = [f"| {' | '.join(row)} |" for row in (HEAD, ["---"] * len(HEAD), *rows)]
    return "\n".join([f":::{{table}} {CAPTION}", ":class: which", "", *lines, ":::"])
