"""The computed parts of the page *How we know*: coverage, seeds, sentences, studies.

    python tools/how_we_know.py            write book/how_we_know.txt, which the page includes
    python tools/how_we_know.py --check    only say whether it is out of date

Sentences are read from the outputs of the committed notebooks, studies from data/results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import chapters
import computed
import interval_coverage
from fedlab_mini.judge import evidence
from fedlab_mini.judge.student import visible
from studies import every, store, telling
from studies.results import FAILS, HOLDS, WORDS

FILE = chapters.ROOT / "book" / "how_we_know.txt"
PROMISED, NORMAL = 0.05, 0.01  # the error of an interval: as promised, and where values are normal
CONFIRMED, SEEN, LIVE = "confirmed", "seen", "live"
DECIDED = (HOLDS, FAILS)
ADVICE = "python tools/how_we_know.py"


@dataclass(frozen=True)
class Known:
    """What the page says of one study: its seeds, its blocks, the paper's claims and verdicts."""

    name: str
    look: int = 0
    confirm: int = 0
    blocks: int = 0
    verdict: str = ""
    stood: frozenset[str] = field(default_factory=frozenset)  # questions when a block was drawn
    claims: tuple[tuple[str, str], ...] = ()  # question and verdict of every claim


def known_studies() -> list[Known]:
    """All studies, as their stored results know them."""
    found = []
    for study in every():
        known = store.about(study)
        blocks = known.get("blocks", [])
        verdicts = known.get("verdicts", {})
        found.append(
            Known(
                study.name,
                len(known.get("look", [])),
                sum(len(block["seeds"]) for block in blocks),
                len(blocks),
                known.get("verdict", ""),
                frozenset(known.get("asked", {})),
                tuple(
                    (claim.question, verdicts[claim.sentence][0])
                    for claim in study.claims
                    if verdicts.get(claim.sentence, [""])[0] in WORDS
                ),
            )
        )
    return found


def standing(record: dict[str, Any], stood: dict[str, frozenset[str]]) -> str:
    """Confirmed: its question stood when the seeds that judge it were drawn."""
    if record["half"] != CONFIRMED:
        return str(record["half"])
    # A bound that was chosen with the block in sight has been seen, whatever its seeds are called.
    stands = telling.claim_of(record).question in stood.get(record["study"], ())
    return CONFIRMED if stands else SEEN


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of Markdown; all columns but the first at the right."""
    line = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, line, *rows))


def covered(names: Iterable[str]) -> str:
    """Shape by shape: how often the usual interval holds the truth, and how often ours does."""
    stored, rows = interval_coverage.stored(), []
    for name in names:
        cells = [stored[name, seeds] for seeds in interval_coverage.SEEDS]
        rows.append(
            [
                name,
                *(
                    f"{cell['t']:.2f}\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}**{cell['rule']:.2f}**"
                    for cell in cells
                ),
            ]
        )
    head = ["one value per seed", *(f"{seeds} seeds" for seeds in interval_coverage.SEEDS)]
    return table(head, rows)


def coverage() -> str:
    """The shapes for which the rule is made, and its price."""
    names = [name for name in interval_coverage.SHAPES if name not in interval_coverage.HOPELESS]
    stored, seeds = interval_coverage.stored(), interval_coverage.SEEDS
    widths = ", ".join(f"{stored['normal', count]['width']:.1f}" for count in seeds)
    counts = ", ".join(map(str, seeds))
    return (
        f"{covered(names)}\n\nEach cell holds {interval_coverage.STUDIES:,} simulated studies. Its "
        "numbers are the shares of intervals that contain the true mean: the usual t interval → "
        "**our rule**. Both are called 95 %. The price is width: for normal values and "
        f"{counts} seeds, our interval is {widths} times as wide as the usual one."
    )


def seeds_needed() -> str:
    """How many seeds a difference needs, and what a number of seeds can show."""
    effects, powers = (0.5, 1, 1.5, 2), (0.8, 0.9)
    rows = [
        [f"{effect:g}", *(evidence.seeds_needed(effect, power) for power in powers)]
        for effect in effects
    ]
    head = ["true difference, in standard deviations"]
    head += [f"seeds, to see it {power:.0%} of the time" for power in powers]
    told = [f"{visible(seeds):.1f} standard deviations with {seeds} seeds" for seeds in (5, 10, 20)]
    return (
        f"{table(head, rows).replace('%', ' %')}\n\nThe other way round: four times in five we see "
        f"a difference of {', '.join(told)}."
    )


def unseen() -> str:
    """What no run out of n leaves possible."""
    lines = [f"- {evidence.count([0] * seeds).could()}" for seeds in interval_coverage.SEEDS]
    return "\n".join(lines)


def counted(studies: list[Known], records: list[dict[str, Any]]) -> str:
    """How many sentences the book makes, how they stand, and how many are wrong by chance."""
    stood = {study.name: study.stood for study in studies}
    found = [(standing(r, stood), "undecided" in r["bounds"]) for r in records]
    claims = [
        (CONFIRMED if question in study.stood else SEEN, word not in DECIDED)
        for study in studies
        for question, word in study.claims
    ]
    kinds = {
        "sentences of the chapters, confirmed": [open_ for how, open_ in found if how == CONFIRMED],
        "sentences of the chapters, seen": [open_ for how, open_ in found if how == SEEN],
        "sentences of the chapters, live": [open_ for how, open_ in found if how == LIVE],
        "claims that studies judge, confirmed": [
            open_ for how, open_ in claims if how == CONFIRMED
        ],
        "claims that studies judge, seen": [open_ for how, open_ in claims if how == SEEN],
    }
    numbers = [[len(kind), kind.count(False), kind.count(True)] for kind in kinds.values()]
    rows: list[list[object]] = [[name, *own] for name, own in zip(kinds, numbers, strict=True)]
    rows.append(["together", *map(sum, zip(*numbers, strict=True))])
    decided = [kind.count(False) for name, kind in kinds.items() if name.endswith(CONFIRMED)]
    total = sum(decided)
    text = (
        f"{total} confirmed sentences and claims say what is so, or what is not. If values were "
        f"normal, each interval would miss the truth with a chance of {NORMAL:.0%}, and "
        f"{NORMAL * total:.1f} of them would be wrong by chance. If each interval only kept its "
        f"promise, {PROMISED:.0%}, these would be {PROMISED * total:.1f}."
    )
    head = ["", "all", "decided", "not shown"]
    return f"{table(head, rows)}\n\n{text.replace('%', ' %')}"


def studied(studies: list[Known], records: list[dict[str, Any]]) -> str:
    """Study by study: seeds, blocks, sentences and verdicts."""
    stood = {study.name: study.stood for study in studies}
    rows = []
    for study in studies:
        own = [record for record in records if record.get("study") == study.name]
        confirmed = sum(standing(record, stood) == CONFIRMED for record in own)
        sure = sum(question in study.stood for question, _ in study.claims)
        words = Counter(word for _, word in study.claims)
        seeds = [study.look, study.confirm, study.blocks]
        told = [f"{confirmed} of {len(own)}", f"{sure} of {len(study.claims)}"]
        open_ = words.total() - sum(words[word] for word in DECIDED)
        rows.append([f"`{study.name}`", *seeds, *told, *(words[word] for word in DECIDED), open_])
    head = ["study", "look", "confirm", "blocks", "sentences", "claims", "hold", "do not", "open"]
    blocks = sum(study.blocks for study in studies)
    whole = sum(study.confirm > 0 for study in studies)
    return (
        f"{whole} of {len(studies)} studies have seeds that confirm; {blocks} blocks were drawn in "
        "all. *Look* and *confirm* count seeds. *Sentences* are those of the chapters, *claims* "
        "those that the study judges: so many are confirmed, of so many. Of the claims, so many "
        "hold, do not hold, or are open: not shown, or not shown to differ.\n\n"
        f"{table(head, rows)}"
    )


def listed(records: list[dict[str, Any]], stood: dict[str, frozenset[str]]) -> str:
    """Every sentence of the book that is tested, chapter by chapter."""
    parts = []
    for chapter in dict.fromkeys(record["chapter"] for record in records):
        own = [record for record in records if record["chapter"] == chapter]
        rows = [
            [f"`{r['key']}`", asked(r), bounds(r), measured(r), rested(r), standing(r, stood)]
            for r in own
        ]
        head = ["sentence", "of", "says", "measured", "seeds", "standing"]
        parts.append(f"````{{dropdown}} {chapter}: {len(own)}\n{table(head, rows)}\n````")
    return "\n\n".join(parts)


def asked(record: dict[str, Any]) -> str:
    """What was measured: metric, and the methods and scenarios that it is of."""
    if "asked" not in record:
        return "the run in the chapter"
    study, metric, *places = record["asked"]
    sides = [places[:2], places[3:]]
    # Both sides in one scenario: it is named once.
    shared = sides[0][1:] if sides[0][1:] == sides[1][1:] else []
    named = [", ".join(filter(None, side[:1] if shared else side)) for side in sides]
    words = ", ".join(filter(None, [" minus ".join(filter(None, named)), *shared]))
    text = f"{metric}: {words}" if words else metric
    return f"{text.replace('|', '/')} (`{study}`)"


def bounds(record: dict[str, Any]) -> str:
    """Where the interval must lie."""
    said = []
    for relation, bound in record["bounds"].items():
        if relation == "within":
            said.append(f"from {bound[0]:g} to {bound[1]:g}")
        elif relation == "undecided":
            power = record.get("power")
            would = f"; {power:.2g} would have been seen" if power is not None else ""
            said.append(f"not shown to differ from {bound:g}{would}")
        else:
            said.append(f"{relation} {bound:g}")
    return " and ".join(said)


def true(record: dict[str, Any]) -> bool:
    """Does the interval lie where the sentence says?"""
    _, low, high = record["mean, low, high"]
    low = -math.inf if low is None else low
    high = math.inf if high is None else high
    return telling.true(record, evidence.Interval(0, low, high, 2))


def measured(record: dict[str, Any]) -> str:
    """The interval; an end that nothing bounds is left open."""
    mean, low, high = record["mean, low, high"]
    if low is None or high is None:
        return f"{mean:.2f}"
    return str(evidence.Interval(mean, low, high, record["seeds"]))


def rested(record: dict[str, Any]) -> str:
    """How many seeds an interval rests on, and of how many blocks."""
    blocks = record.get("blocks", 1)
    return f"{record['seeds']} of {blocks} blocks" if blocks > 1 else str(record["seeds"])


def page() -> str:
    """All computed parts, each under its mark."""
    studies, records = known_studies(), list(telling.told())
    stood = {study.name: study.stood for study in studies}
    parts = {
        "coverage": coverage(),
        "hopeless": covered(interval_coverage.HOPELESS),
        "unseen": unseen(),
        "seeds": seeds_needed(),
        "sentences": counted(studies, records),
        "studies": studied(studies, records),
        "list": listed(records, stood),
    }
    return computed.under_marks(parts)


if __name__ == "__main__":
    computed.write_or_check(FILE, page(), ADVICE)
