"""Items: the ledger as data, one row for each table, figure or sentence of the five papers.

``data/ledger.csv`` says what is asked of which stored rows. What came out is computed, never typed.
Above: ledger (the verdicts). Below: study.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from .study import Claim, question

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "data" / "ledger.csv"
PAPERS = ("F-RCCE", "CGSV", "FedCCEA", "FLDVE", "S-FedAvg")
PAPER, NAMED, SCALED, OWN, EXACT, NONE = (
    "the paper's",
    "named departures",
    "scaled",
    "our own set-up",
    "no seeds",
    "not testable",
)
VOICES = ("paper", "book")
DISTANCES = (PAPER, NAMED, SCALED, OWN, EXACT, NONE)
CAUSES = (
    "length",
    "empty coalition",
    "sign",
    "shared luck",
    "tuned rate",
    "unequal bill",
    "free rival",
)


@dataclass(frozen=True, kw_only=True)
class Item:
    """A row of the ledger, as it stands in the file.

    id         stable: paper, place and number, such as F-RCCE-2a-1
    item       the figure, table or section
    voice      whose sentence it is: the paper's, or the book's beside it
    sentence   what it says, in our words
    printed    the paper's number, or empty
    distance   how far our protocol is from the paper's: one of DISTANCES
    departures settings of the study in which it differs, where one or two do
    study      whose rows are read: ``metric`` of ``method`` at ``scenario``, minus ``rival`` at
               ``rival_at`` if there is one (of the study ``rival_study``, if it is another)
    low, high  the sentence holds if the whole interval lies there; both empty: no difference
    bound      whose low and high are: the paper's, or ours where it gives none
    decides    what decides the outcome, of CAUSES
    reason     why nothing is tested, or why numbers are not compared
    """

    id: str
    paper: str
    item: str
    voice: str
    sentence: str
    printed: str
    distance: str
    departures: str
    study: str
    metric: str
    method: str
    scenario: str
    rival: str
    rival_at: str
    rival_study: str
    low: str
    high: str
    bound: str
    decides: str
    reason: str
    remark: str

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high as numbers; infinite where there is none."""
        return float(self.low or -math.inf), float(self.high or math.inf)

    @property
    def compared(self) -> bool:
        """Is it minus something?"""
        return bool(self.rival or self.rival_at or self.rival_study)

    @property
    def causes(self) -> list[str]:
        """What decides it."""
        return split(self.decides)

    @property
    def claim(self) -> Claim:
        """What is claimed of the stored rows; raises ValueError for an item that tests nothing."""
        low, high = self.ends
        rival = (self.rival, self.rival_at) if self.compared else ""
        return Claim(
            self.sentence, self.metric, (self.method, self.scenario), rival,
            low=low, high=high, equal=not (self.low or self.high), item=self.item,
        )  # fmt: skip

    @property
    def asked(self) -> tuple[str, ...]:
        """The metric and of whom, as claims and chapters note it."""
        rival = ("minus", self.rival, self.rival_at) if self.compared else ()
        return (self.metric, self.method, self.scenario, *rival)

    @property
    def question(self) -> str:
        """The id of what is asked of the study."""
        return question(self.asked, self.ends)


def split(text: str) -> list[str]:
    """The parts of a cell that holds several."""
    return [part.strip() for part in text.split(";") if part.strip()]


@cache
def items() -> tuple[Item, ...]:
    """All rows, in the order of the file.

    raises  ValueError that names the row for columns, papers or distances that are not known
    """
    with FILE.open(encoding="utf-8", newline="") as lines:
        table = list(csv.DictReader(lines, strict=True))
    names = [field.name for field in fields(Item)]
    found = []
    for number, row in enumerate(table, start=2):
        if list(row) != names or None in row.values():
            raise ValueError(f"{FILE.name}, line {number}: expected the columns {', '.join(names)}")
        item = Item(**row)
        if item.paper not in PAPERS or not item.id.startswith(f"{item.paper}-"):
            raise ValueError(f"{FILE.name}, {item.id}: expected a paper of {', '.join(PAPERS)}")
        if item.distance not in DISTANCES:
            raise ValueError(f"{FILE.name}, {item.id}: distance {item.distance!r} is not known")
        if item.voice not in VOICES:
            raise ValueError(f"{FILE.name}, {item.id}: voice {item.voice!r} is not known")
        if unknown := set(item.causes) - set(CAUSES):
            raise ValueError(f"{FILE.name}, {item.id}: decides: {sorted(unknown)} are not known")
        found.append(item)
    if len({item.id for item in found}) < len(found):
        raise ValueError(f"{FILE.name}: an id stands twice")
    asked: dict[tuple[str, str], Item] = {}
    for item in found:
        if item.study and item.distance != EXACT:
            other = asked.setdefault((item.study, item.question), item)
            if other is not item:
                raise ValueError(f"{FILE.name}: {other.id} and {item.id} ask the same")
    return tuple(found)
