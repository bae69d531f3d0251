"""Parts of pages computed from stored rows: counts of the ledger, *How we know*, the bench.

``python -m studies pages`` writes them, each part under its mark, into files that pages include.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

import fedlab_bench as fb
from fedlab_mini.judge import evidence
from fedlab_mini.judge.student import visible
from fedlab_mini.keep.files import whole_file

from . import (
    advice,
    bench_findings,
    every,
    foreign,
    leaderboard,
    ledger,
    ledger_views,
    store,
    telling,
)
from .items import ROOT
from .metrics import is_count, span
from .results import ALIKE, CONFIRMED, FAILS, HOLDS, NOT_SHOWN, SEEN, WORDS, Results

BOOK = ROOT / "book"
COVERAGE, SIMULATED = ROOT / "data" / "coverage.csv", 20_000  # studies behind each of its rows
HOPELESS = 4  # its last distributions, whose rare values most samples of seeds do not contain
LOOKS = COVERAGE.with_name("looks.csv")
# A seed is far off if it lies so many times the median distance from the median.
ZEROS, FAR, FEW = 0.8, 15, 0.2
PROMISED, NORMAL = 0.05, 0.01  # the error of an interval: nominal, and for normal values
ZERO = f"at least {100 * ZEROS:.0f} % of the differences are exactly 0"
DISASTER = f"a few seeds, at most {100 * FEW:.0f} %, lie far off and not at an end"
LIVE = "live"
DECIDED = (HOLDS, FAILS)
Record = dict[str, Any]  # a claim, as `telling.told` yields it


class Known(NamedTuple):
    """A study: its seeds, its blocks, its claims as (question, verdict).

    stood  questions that had been asked when a block was drawn
    """

    name: str
    look: int = 0
    confirm: int = 0
    blocks: int = 0
    stood: frozenset[str] = frozenset()
    claims: Sequence[tuple[str, str]] = ()


def known_studies() -> list[Known]:
    """All studies, as their stored results describe them."""
    found = []
    for study in every():
        known = store.about(study)
        blocks, told = known.get("blocks", []), known.get("verdicts", {})
        words = [(claim.question, told.get(claim.sentence, [""])[0]) for claim in study.claims]
        claims = [(question, word) for question, word in words if word in WORDS]
        drawn = sum(len(block["seeds"]) for block in blocks)
        stood = frozenset(known.get("asked", {}))
        look = len(known.get("look", []))
        found.append(Known(study.name, look, drawn, len(blocks), stood, claims))
    return [*found, _known_bench()]


def _known_bench() -> Known:
    """The bench as a study, by the claims of its page."""
    judged = [
        bench_findings.judged(claim) for one in bench_findings.FINDINGS for claim in one.claims
    ]
    claims = [(entry.item.question, entry.verdict) for entry in judged]
    stood, blocks = frozenset(question for question, _ in claims), bench_findings.BLOCKS
    drawn = sum(map(len, blocks.values()))
    return Known(bench_findings.NAME, len(fb.PUBLIC), drawn, len(blocks), stood, claims)


def standing(record: Record, stood: Mapping[str, frozenset[str]]) -> str:
    """Confirmed if its question was asked before the seeds that judge it were drawn."""
    if record["half"] == LIVE:
        return LIVE
    # A bound chosen after looking at the block is exploratory, even if its seeds "confirm".
    stands = telling.claim_of(record).question in stood.get(record["study"], ())
    return CONFIRMED if stands and record["half"] == CONFIRMED else SEEN


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; all columns except the first are aligned right."""
    line = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, line, *rows))


# --- intervals -----------------------------------------------------------------------------------


def coverage() -> dict[str, str]:
    """For each distribution: how often the usual interval and ours contain the true mean."""
    stored = pd.read_csv(COVERAGE)
    cells = [f"{t:.2f} → **{rule:.2f}**" for t, rule in zip(stored.t, stored.rule, strict=True)]
    shown = stored.assign(cell=[cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in cells])
    rows = [[name, *own.cell] for name, own in shown.groupby("values", sort=False)]
    seeds = list(dict.fromkeys(stored.seeds))
    head = ["one value per seed", *(f"{count} seeds" for count in seeds)]
    widths = [f"{width:.1f}" for width in stored[stored["values"] == "normal"].width]
    told = (
        f"Each cell holds {SIMULATED:,} simulated studies. Its numbers are the shares of intervals "
        "that contain the true mean: the usual t interval → **our rule**. Both are called 95 %. "
        f"The price is width: for normal values and {', '.join(map(str, seeds))} seeds, our "
        f"interval is {', '.join(widths)} times as wide as the usual one."
    )
    return {
        "coverage": f"{table(head, rows[:-HOPELESS])}\n\n{told}",
        "hopeless": table(head, rows[-HOPELESS:]),
        "unseen": "\n".join(f"- {evidence.count([0] * count).could()}" for count in seeds),
    }


def looks() -> str:
    """How often any of the looks at a study misses the true mean, after so many blocks."""
    stored = pd.read_csv(LOOKS)
    counts = list(dict.fromkeys(stored.blocks))
    allowed = [sum(PROMISED / look for look in range(1, k + 1)) for k in counts]
    rows: list[list[Any]] = [["what is allowed", "any", *(f"{sum_:.3f}" for sum_ in allowed)]]
    for (name, seeds), own in stored.groupby(["values", "seeds"], sort=False):
        rows.append([name, seeds, *(f"{share:.3f}" for share in own["any"])])
    head = ["one value per seed", "seeds per block", "1 look", *(f"{k} looks" for k in counts[1:])]
    return (
        f"{table(head, rows)}\n\nEach cell is the share of {SIMULATED:,} simulated studies in "
        "which at least one of so many looks had an interval without the true mean."
    )


def rare(records: Sequence[Record], entries: Sequence[ledger.Entry]) -> str:
    """The claims and rows whose seeds look like the distributions that defeat every interval."""
    named = {study.name: study for study in every()}
    rows = [e for e in entries if e.verdict in WORDS and e.item.study in named]
    asked = [(f"{r['chapter']}: `{r['key']}`", r["asked"]) for r in records if r.get("study")]
    asked += [(f"`{e.item.id}`", [e.item.study, *e.item.asked]) for e in rows
              if not e.item.rival_study]  # fmt: skip
    read = {study: store.read(named[study]) for study in {of[0] for _, of in asked}}
    kinds = {name: defeats(*values) for name, of in asked if (values := seeds_of(read[of[0]], of))}
    found = {kind: [name for name in kinds if kinds[name] == kind] for kind in (ZERO, DISASTER)}
    return "\n".join(f"- {kind}: {', '.join(own) or 'none'}" for kind, own in found.items())


def seeds_of(results: Results, asked: Sequence[str]) -> tuple[Tensor, float, float] | None:
    """One value per seed and their range; None for a count, and for what has no stored row."""
    study, metric, *places = asked
    cut = places.index("minus") if "minus" in places else len(places)
    sides = [(*own, "", "")[:2] for own in (places[:cut], places[cut + 1 :]) if own]
    if not sides or not all(results.has(metric, *side) for side in sides) or is_count(metric):
        return None
    low, high = span(metric, study)
    one, *rival = (results.values(metric, *side) for side in sides)
    return (one - rival[0], low - high, high - low) if rival else (one, low, high)


def defeats(values: Tensor, low: float, high: float) -> str:
    """Which rare event the values show, one per seed; empty if none."""
    inside = (values != low) & (values != high)
    if ZEROS <= (values == 0).double().mean() < 1 and inside.all():
        return ZERO
    distance = (values - values.median()).abs()
    usual = distance.median()
    far = (distance > FAR * usual) & inside
    return DISASTER if usual > 0 and 0 < far.double().mean() <= FEW else ""


def seeds_needed() -> str:
    """How many seeds a difference needs, and which difference a number of seeds can show."""
    rows = [
        [f"{effect:g}", *(evidence.seeds_needed(effect, power) for power in (0.8, 0.9))]
        for effect in (0.5, 1, 1.5, 2)
    ]
    head = ["true difference, in standard deviations"]
    head += [f"seeds, to see it {power} % of the time" for power in (80, 90)]
    told = [f"{visible(seeds):.1f} standard deviations with {seeds} seeds" for seeds in (5, 10, 20)]
    return (
        f"{table(head, rows)}\n\nThe other way round: detectable with 80 % power is "
        f"a difference of {', '.join(told)}."
    )


# --- claims and studies --------------------------------------------------------------------------


def counted(studies: Sequence[Known], records: Sequence[Record]) -> str:
    """The number of tested claims, of each kind, and the expected number of false ones."""
    stood = {study.name: study.stood for study in studies}
    chapters, claims = "claims of the chapters", "claims of the studies"
    found = [(chapters, standing(r, stood), "undecided" not in r["bounds"]) for r in records]
    found += [
        (claims, CONFIRMED if question in study.stood else SEEN, word in DECIDED)
        for study in studies
        for question, word in study.claims
    ]
    kinds = [(chapters, how) for how in (CONFIRMED, SEEN, LIVE)]
    kinds += [(claims, how) for how in (CONFIRMED, SEEN)]
    rows: list[list[Any]] = []
    for kind in kinds:
        own = [decided for *what, decided in found if tuple(what) == kind]
        rows.append([", ".join(kind), len(own), sum(own), len(own) - sum(own)])
    total = sum(decided for _, how, decided in found if how == CONFIRMED)
    rows.append(["together", *(sum(row[column] for row in rows) for column in (1, 2, 3))])
    return (
        f"{table(['', 'all', 'decided', 'not shown'], rows)}\n\n"
        f"{total} confirmed claims say what is so, or what is not. If values were normal, "
        f"each interval would miss the true mean with a chance of {100 * NORMAL:.0f} %, and "
        f"{NORMAL * total:.1f} of them would be wrong by chance. If each interval only kept its "
        f"promise, {100 * PROMISED:.0f} %, these would be {PROMISED * total:.1f}."
    )


def studied(studies: Sequence[Known], records: Sequence[Record]) -> str:
    """The seeds, blocks, claims and verdicts of each study."""
    stood, rows = {study.name: study.stood for study in studies}, []
    for study in studies:
        own = [standing(r, stood) for r in records if r.get("study") == study.name]
        sure = sum(question in study.stood for question, _ in study.claims)
        words = Counter(word for _, word in study.claims)
        told = [f"{own.count(CONFIRMED)} of {len(own)}", f"{sure} of {len(study.claims)}"]
        verdicts = [words[HOLDS], words[FAILS], words[NOT_SHOWN] + words[ALIKE]]
        seeds = [study.look, study.confirm, study.blocks]
        rows.append([f"`{study.name}`", *seeds, *told, *verdicts])
    head = ["study", "look", "confirm", "blocks", "chapters", "own", "hold", "do not", "open"]
    return (
        f"{sum(study.confirm > 0 for study in studies)} of {len(studies)} studies have seeds that "
        f"confirm; {sum(study.blocks for study in studies)} blocks were drawn in "
        "all. *Look* and *confirm* count seeds. *Chapters* counts the claims of the chapters, "
        "*own* those of the study: so many are confirmed, of so many. Of the study's own, so many "
        "hold, do not hold, or are open: not shown, or not shown to differ.\n\n"
        f"{table(head, rows)}"
    )


def listed(records: Sequence[Record], stood: Mapping[str, frozenset[str]]) -> str:
    """Every tested claim of the book, chapter by chapter.

    raises  ValueError for a claim that is false, because its output was edited after it ran
    """
    parts = []
    for chapter in dict.fromkeys(record["chapter"] for record in records):
        own = [record for record in records if record["chapter"] == chapter]
        rows = []
        for r in own:
            found = interval(r)
            if not telling.true(r, found):
                raise ValueError(f"{chapter}, {r['key']}: {found} is not {bounds(r)}")
            shown = str(found) if math.isfinite(found.low + found.high) else f"{found.mean:.2f}"
            blocks = f" of {r['blocks']} blocks" if r.get("blocks", 1) > 1 else ""
            seeds, how = f"{r['seeds']}{blocks}", standing(r, stood)
            rows.append([f"`{r['key']}`", asked(r), bounds(r), shown, seeds, how])
        head = ["claim", "of", "says", "measured", "seeds", "standing"]
        parts.append(f"````{{dropdown}} {chapter}: {len(own)}\n{table(head, rows)}\n````")
    return "\n\n".join(parts)


def interval(record: Record) -> evidence.Interval:
    """The measured interval; an end without a bound is infinite."""
    mean, low, high = record["mean, low, high"]
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    return evidence.Interval(mean, low, high, record["seeds"])


def asked(record: Record) -> str:
    """What was measured: the metric, with its methods and scenarios."""
    if "asked" not in record:
        return "the run in the chapter"
    study, metric, *places = record["asked"]
    sides = [places[:2], places[3:]]
    # If both sides have the same scenario, it is named once.
    shared = sides[0][1:] if sides[0][1:] == sides[1][1:] else []
    named = [", ".join(filter(None, side[:1] if shared else side)) for side in sides]
    words = ", ".join(filter(None, [" minus ".join(filter(None, named)), *shared]))
    text = f"{metric}: {words}" if words else metric
    return f"{text.replace('|', '/')} (`{study}`)"


def bounds(record: Record) -> str:
    """The bounds within which the interval must lie."""
    said = []
    for relation, bound in record["bounds"].items():
        if relation == "within":
            said.append(f"from {bound[0]:g} to {bound[1]:g}")
        elif relation == "undecided":
            power = record.get("power")
            would = f"; {power:.2g} detectable with 80 % power" if power is not None else ""
            said.append(f"not shown to differ from {bound:g}{would}")
        else:
            said.append(f"{relation} {bound:g}")
    return " and ".join(said)


# --- the ledger ----------------------------------------------------------------------------------


def by_paper(own: Sequence[ledger.Entry]) -> str:
    """A table of how many tested claims of each paper hold, do not hold, or are open."""
    sure = Counter(entry.item.paper for entry in own if entry.standing == CONFIRMED)
    rows = [
        [paper, n["all"], n[HOLDS], n[FAILS], n[NOT_SHOWN] + n[ALIKE], sure[paper]]
        for paper, n in ledger.counted(own).items()
    ]
    return table(["paper", "tested", "hold", "do not hold", "open", "confirmed"], rows)


# --- files ---------------------------------------------------------------------------------------


def parts() -> dict[str, dict[str, str]]:
    """File below book/ -> name and text of its parts."""
    studies, records, entries = known_studies(), list(telling.told()), ledger.entries()
    return {
        "ledger.txt": {
            "count": ledger.summary(entries),
            "papers": by_paper(ledger.tested(entries)),
        },
        "ledger_rows.txt": {"rows": ledger_views.listing(entries)},
        "how_we_know.txt": {
            **coverage(),
            "looks": looks(),
            "rare": rare(records, entries),
            "seeds": seeds_needed(),
            "sentences": counted(studies, records),
            "studies": studied(studies, records),
            "list": listed(records, {study.name: study.stood for study in studies}),
        },
        "bench.txt": leaderboard.parts(),
        "foreign.txt": foreign.parts(),
    }


def write(check: bool = False) -> list[Path]:
    """Write the files and regions that are out of date; with ``check`` only return the files.

    raises  ValueError that names each advice that no longer holds, and the pages that print it
    """
    if found := advice.faults():
        raise ValueError("advice that its claims no longer support:\n" + "\n".join(found))
    texts = {
        BOOK / name: "\n".join(
            f"<!-- {k} -->\n\n{part}\n\n<!-- end -->\n" for k, part in own.items()
        )
        for name, own in parts().items()
    }
    stale = []
    for path, text in {**texts, **advice.pages()}.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                with whole_file(path) as part:
                    part.write_text(text, encoding="utf-8", newline="\n")
    return stale
