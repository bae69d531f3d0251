"""Items: the ledger as data, one claim for each table, figure or sentence of the five papers.

``data/ledger.csv`` says what is asked of which stored rows. What came out is computed, never typed.
Above: protocols (a study's claims), ledger (the verdicts). Below: study.
"""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path

from .study import Claim

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "data" / "ledger.csv"
COLUMNS = (
    *("id", "paper", "item", "voice", "sentence", "printed", "distance", "departures", "study"),
    *("metric", "method", "scenario", "rival", "rival_at", "rival_study", "low", "high", "bound"),
    *("decides", "reason", "remark"),
)
PAPERS = ("F-RCCE", "CGSV", "FedCCEA", "FLDVE", "S-FedAvg")
PAPER, NAMED, SCALED, OWN, EXACT, NONE = DISTANCES = (
    *("the paper's", "named departures", "scaled", "our own set-up", "no seeds", "not testable"),
)
CAUSES = (
    *("length", "empty coalition", "sign", "shared luck", "tuned rate", "unequal bill"),
    "free rival",
)


def split(text: str) -> list[str]:
    """The parts of a cell that holds several."""
    return [part.strip() for part in text.split(";") if part.strip()]


@cache
def items() -> tuple[Claim, ...]:
    """All rows, in the order of the file.

    raises  ValueError that names the row for columns, papers or distances that are not known
    """
    with FILE.open(encoding="utf-8", newline="") as lines:
        table = list(csv.DictReader(lines, strict=True))
    found: dict[str, Claim] = {}
    asked: dict[tuple[str, str], Claim] = {}
    for number, row in enumerate(table, start=2):
        if tuple(row) != COLUMNS or None in row.values():
            where = f"{FILE.name}, line {number}"
            raise ValueError(f"{where}: expected the columns {', '.join(COLUMNS)}")
        where = f"{FILE.name}, {row['id']}"
        if row["paper"] not in PAPERS or not row["id"].startswith(f"{row['paper']}-"):
            raise ValueError(f"{where}: expected a paper of {', '.join(PAPERS)}")
        if row["distance"] not in DISTANCES:
            raise ValueError(f"{where}: distance {row['distance']!r} is not known")
        if unknown := set(split(row["decides"])) - set(CAUSES):
            raise ValueError(f"{where}: decides: {sorted(unknown)} are not known")
        item = _claim(row)
        if found.setdefault(item.id, item) is not item:
            raise ValueError(f"{where}: the id stands twice")
        other = asked.setdefault((item.study, item.question), item)
        if item.study and other is not item:
            raise ValueError(f"{FILE.name}: {other.id} and {item.id} ask the same")
    return tuple(found.values())


def _claim(row: dict[str, str]) -> Claim:
    """A row as a claim; one without low and high says that there is no difference."""
    method, scenario, rival, rival_at, low, high, source = map(
        row.pop, ("method", "scenario", "rival", "rival_at", "low", "high", "voice")
    )
    elsewhere = rival_at != scenario and (rival or rival_at)
    return Claim(
        a=method,
        at=scenario,
        b=(rival, rival_at) if elsewhere else rival,
        low=float(low or -math.inf),
        high=float(high or math.inf),
        equal=not (low or high),
        source=source,
        **row,
    )
