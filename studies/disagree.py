"""Disagree: each question that two sources ask, with both answers.

A source is a study or the bench; lessons, the ledger and pages speak of their rows. The table
``situations.toml`` says which scenarios are one situation, which stored names are one score, and
which sentences of pages without code rest on rows. A claim of one source is judged on the rows of
every other source that has them; sentences about the same rows are compared, too.
Below: bench_findings, telling, store.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from fedlab_mini.judge.evidence import Interval

from . import bench_findings, every, read, state, telling
from .items import ROOT
from .results import ALIKE, FAILS, HOLDS, Results, word_of
from .study import Claim

FILE = Path(__file__).with_name("situations.toml")
Side = tuple[str, str]  # a score and a situation
Question = tuple[str, Side, Side | None]  # a measure, whose, and minus whose


class Answer(NamedTuple):
    """What a place says of a question, and the rows that it rests on."""

    source: str  # a study, or the bench
    place: str  # a claim's id, a chapter and the key of its sentence, or a page and a phrase
    claim: Claim
    found: Interval

    @property
    def verdict(self) -> str:
        """The verdict on the claim by these rows."""
        return word_of(self.claim, self.found)

    def __str__(self) -> str:
        return f"{self.place}: {self.found} n={self.found.n}, {self.verdict}"


class Clash(NamedTuple):
    """Two answers to one question; ``word`` says how they differ, and is empty if they agree."""

    question: Question
    one: Answer
    other: Answer
    word: str

    def __str__(self) -> str:
        measure, own, rival = self.question
        asks = f"{measure}: {' in '.join(own)}" + (f" minus {' in '.join(rival)}" if rival else "")
        return f"{asks}\n    {self.one}\n    {self.other}\n    {self.word or 'agree'}"


@cache
def table() -> dict[str, Any]:
    """The hand-made table: situations, scores, sentences of pages, and what is said."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def names() -> tuple[dict[str, str], dict[str, str]]:
    """{"study: scenario": situation} and {stored name of a score: name}."""
    known = table()
    situations = {place: one["name"] for one in known["situation"] for place in one["places"]}
    scores = {stored: name for name, own in known["scores"].items() for stored in own}
    return situations, scores


def side(source: str, score: str, scenario: str) -> Side:
    """A score and a situation by their names in the table; what is not there is its own."""
    situations, scores = names()
    place = f"{source}: {scenario}"
    return scores.get(score, score), situations.get(place, place)


def question_of(source: str, claim: Claim) -> Question:
    """The question that a claim asks, without its bounds."""
    metric, *places = claim.asked
    sides = [side(source, *pair) for pair in _pairs(places)]
    return metric, sides[0], sides[1] if len(sides) > 1 else None


def _pairs(places: Sequence[str]) -> list[tuple[str, str]]:
    """(method, scenario), and that of the rival behind "minus"."""
    parts = [*places, "", ""]
    if "minus" in parts:
        at = parts.index("minus")
        return [*_pairs(parts[:at]), *_pairs(parts[at + 1 :])]
    return [(parts[0], parts[1])]


@cache
def sources() -> dict[str, tuple[Results, ...]]:
    """The rows of every source."""
    found = {study.name: (read(study),) for study in every() if state(study) != "missing"}
    return {**found, bench_findings.NAME: tuple(bench_findings.board().values())}


@cache
def stored() -> dict[tuple[str, Side], list[tuple[str, Results, tuple[str, str]]]]:
    """For a measure and a side: who has such rows, and under which names."""
    found: dict[tuple[str, Side], list[tuple[str, Results, tuple[str, str]]]] = {}
    for name, parts in sources().items():
        for results in parts:
            for scenario, method, metric in results.places:
                key = (metric, side(name, method, scenario))
                found.setdefault(key, []).append((name, results, (method, scenario)))
    return found


def rows_of(question: Question) -> Iterator[tuple[str, Interval]]:
    """The intervals that other sources give for a question, with the name of each."""
    measure, own, rival = question
    for name, results, place in stored().get((measure, own), []):
        if rival is None:
            yield name, results.interval(measure, place)
            continue
        for _, same, against in stored().get((measure, rival), []):
            if same is results:
                yield name, results.paired(measure, place, against)


def answers() -> Iterator[Answer]:
    """Every claim of studies, ledger, lessons and bench, with its interval."""
    for study in every():
        if state(study) == "missing":
            continue
        for claim in study.claims:
            if claim.reason or claim.rival_study:
                continue
            (results,) = sources()[study.name]
            entry = results.judge(claim)
            assert entry.interval is not None
            yield Answer(study.name, claim.id or claim.sentence, claim, entry.interval)
    for record in telling.told():
        if record.get("study") in sources():
            claim, place = telling.claim_of(record), f"{record['chapter']}: {record['key']}"
            yield Answer(record["study"], place, claim, interval_of(record))
    for one in bench_findings.FINDINGS:
        for claim in one.claims:
            entry = bench_findings.judged(claim)
            assert entry.interval is not None
            yield Answer(bench_findings.NAME, claim.id, claim, entry.interval)


def interval_of(record: Mapping[str, Any]) -> Interval:
    """The interval that a notebook has recorded; an end without a number is infinite."""
    ends = zip(record["mean, low, high"], (math.nan, -math.inf, math.inf), strict=True)
    mean, low, high = (end if number is None else number for number, end in ends)
    return Interval(mean, low, high, record["seeds"])


def sentences(entries: Iterable[Mapping[str, Any]]) -> Iterator[Clash]:
    """Sentences of pages, each judged on all rows that its question has."""
    for entry in entries:
        if "words" in entry:
            _stands(entry["page"], entry["words"])
        claim = Claim.told(entry["says"], (entry["measure"], *entry["of"]), **entry["holds"])
        question: Question = (entry["measure"], tuple(entry["of"]), None)
        if "minus" in entry:
            question = (*question[:2], tuple(entry["minus"]))
        nothing = Interval(math.nan, -math.inf, math.inf, 0)
        for name, found in list(rows_of(question)) or [("no source", nothing)]:
            one = Answer(name, f"{entry['page']}: {entry['says']}", claim, found)
            there = Answer(name, f"rows of {name}", claim, found)
            holds = one.verdict in (HOLDS, ALIKE)
            yield Clash(question, one, there, "" if holds else "the page says more")


def clashes(found: Iterable[Answer]) -> Iterator[Clash]:
    """Each question that two sources ask, and each that two places ask of the same rows."""
    by_question: dict[Question, list[Answer]] = {}
    for answer in found:
        by_question.setdefault(question_of(answer.source, answer.claim), []).append(answer)
    for question, own in by_question.items():
        for one in own:
            for name, interval in rows_of(question):
                if name != one.source:
                    other = Answer(name, f"rows of {name}", one.claim, interval)
                    yield Clash(question, one, other, word(one, other))
        for one, other in combinations(own, 2):
            if one.source == other.source and one.claim.asked == other.claim.asked:
                yield Clash(question, one, other, numbers(one, other) or word(one, other))


def word(one: Answer, other: Answer) -> str:
    """How two answers contradict each other, if they do."""
    there = word_of(one.claim, other.found)
    if (one.verdict, there) in ((HOLDS, FAILS), (FAILS, HOLDS), (ALIKE, FAILS)):
        return f"{one.verdict} here, {there} there"
    return ""


def numbers(one: Answer, other: Answer) -> str:
    """Whether two places print different numbers for the same rows."""
    first, second = (Interval.__str__(answer.found) for answer in (one, other))
    if one.found.n != other.found.n and first.split(" [")[0] != second.split(" [")[0]:
        return "the same rows, two numbers"
    return ""


def said(clash: Clash) -> bool:
    """Whether a page says that the two differ: the table names the page and its words."""
    for entry in table().get("said", []):
        if entry["question"] in str(clash).splitlines()[0]:
            _stands(entry["page"], entry["words"])
            return True
    return False


def _stands(page: str, words: str) -> None:
    """Raise ValueError unless a page has these words."""
    if words not in " ".join((ROOT / page).read_text(encoding="utf-8").split()):
        raise ValueError(f"{FILE.name}: {page} does not say {words!r}")


def page(every_question: bool = False) -> tuple[str, int]:
    """The list as text, and the number of disagreements that no page says."""
    found = [*clashes(answers()), *sentences(table().get("text", []))]
    apart = [clash for clash in found if clash.word]
    unsaid = [clash for clash in apart if not said(clash)]
    shown = found if every_question else unsaid
    questions = len({clash.question for clash in found})
    count = f"{questions} questions that two sources ask; {len(apart)} answered differently"
    return "\n".join([*map(str, shown), f"{count}, {len(unsaid)} of them unsaid"]), len(unsaid)
