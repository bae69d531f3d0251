"""Ledger: what came out of each item of the five papers, computed from the stored rows.

Below: items (what is asked), exact (what needs no seeds), store.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from secrets import randbelow
from typing import NamedTuple

import pandas as pd

from fedlab_mini.engine.progress import bar
from fedlab_mini.judge.evidence import Interval
from fedlab_mini.show import plots
from fedlab_mini.streams import one_thread

from . import exact, probes, store
from .items import DISTANCES, EXACT, NONE, PAPERS, Item, items
from .metrics import is_count
from .results import ALIKE, FAILS, HOLDS, NOT_SHOWN, WORDS, Results, Stored, reachable, word_of
from .study import BLOCK, COLUMNS, Study

UNTESTED, ONLY_A_NUMBER = "cannot be tested", "not compared"
VERDICTS = (HOLDS, FAILS, NOT_SHOWN, ALIKE, ONLY_A_NUMBER, UNTESTED)
CONFIRMED, SEEN, WITHOUT = "confirmed", "seen", "without seeds"
FRESH = 10_000  # re-runs draw their seeds from here on: no block reaches so far


class Entry(NamedTuple):
    """An item and what came out of it.

    measured  the interval, or what was found without seeds, as text
    power     the difference that the seeds would have shown, with 80 % power
    standing  confirmed: on seeds drawn when the question stood; seen: on others; without seeds
    blocks    how many blocks of seeds were drawn since then     each  the verdict of every one
    """

    item: Item
    verdict: str
    measured: str = ""
    power: float | None = None
    standing: str = WITHOUT
    seeds: int = 0
    interval: Interval | None = None
    blocks: int = 0
    each: tuple[str, ...] = ()

    @property
    def looks(self) -> str:
        """How often seeds were drawn for it, and what each block says alone."""
        told = f": {', '.join(self.each)}" if self.each else ""
        return f"{self.blocks}{told}" if self.blocks else ""

    @property
    def could(self) -> str:
        """The difference that could have been seen, where none was shown."""
        open_ = self.verdict in (NOT_SHOWN, ALIKE) and self.power is not None
        return f"{self.power:.2g}" if open_ else ""


def entries() -> list[Entry]:
    """Every item with its verdict, in the order of the ledger."""
    return [judge(item) for item in items()]


def judge(item: Item) -> Entry:
    """What the stored rows say of an item.

    raises  ValueError for one that no outcome of the seeds planned for its study could decide
    """
    if item.distance == EXACT:
        so, told = getattr(exact, item.metric)()
        return Entry(item, HOLDS if so else FAILS, told)
    if not item.study:
        return Entry(item, UNTESTED)
    results, rival = halves(item)
    planned = max(results.study.confirm, results.n)
    if not item.reason and not reachable(item.claim, planned):
        raise ValueError(f"{item.id}: {planned} seeds can never show it; six pass a half")
    return judged(item, results, rival, standing(item, results))


def judged(item: Item, results: Results, rival: Results, how: str) -> Entry:
    """The verdict on an item by given rows."""
    found = interval_of(item, results, rival)
    each = tuple(word_of(item.claim, alone) for alone in found.each)
    known = (found.power, how, found.n, found, found.blocks, each)
    if item.reason:
        return Entry(item, ONLY_A_NUMBER, str(found), *known)
    return Entry(item, word_of(item.claim, found), str(found), *known)


def interval_of(item: Item, results: Results, rival: Results) -> Stored:
    """The interval of what an item measures, on all seeds drawn since it was asked for."""
    if item.rival_study:
        theirs = rival.values(item.metric, item.rival, item.rival_at)
        own = results.values(item.metric, item.method, item.scenario)
        found = results.known(item.asked, own - theirs, -2, 2)
    elif item.compared:
        sides = (item.method, item.scenario), (item.rival, item.rival_at)
        found = results.paired(item.metric, *sides)
    else:
        read = results.count if is_count(item.metric) else results.interval
        found = read(item.metric, item.method, item.scenario)
    return found.against(item.ends)


def halves(item: Item) -> tuple[Results, Results]:
    """The rows that judge an item: those that confirm, of both studies or of neither."""
    own = _read(item.study)
    rival = _read(item.rival_study or item.study)
    if own.seeds == rival.seeds:
        return own, rival
    if shared := set(own.seeds) & set(rival.seeds):
        return own.only(shared), rival.only(shared)
    shared = set(own.look.seeds) & set(rival.look.seeds)
    return own.look.only(shared), rival.look.only(shared)


@cache
def _read(name: str) -> Results:
    return store.read(named(name))


def named(name: str) -> Study:
    """The study of a name."""
    from . import named as found  # the list of studies imports this room

    return found(name)


def standing(item: Item, results: Results) -> str:
    """Confirmed, if the question stood when the seeds that judge it were drawn."""
    if not results.confirmed:
        return SEEN
    return CONFIRMED if item.question in store.about(results.study)["asked"] else SEEN


def by_plain_engine() -> list[tuple[Entry, Entry]]:
    """The central items as they are stored, and as another engine has computed them."""
    central = importlib.import_module(f"{__package__}.plain_engine").CENTRAL
    other = _read("plain-engine")
    how = f"seen, {other.n} seeds"
    chosen = [item for item in items() if item.id in central]
    return [(judge(item), judged(item, other, other, how)) for item in chosen]


# --- counting and showing --------------------------------------------------------------------


def counted(found: Iterable[Entry]) -> dict[str, dict[str, int]]:
    """Paper by paper, how many items came out how."""
    counts: dict[str, Counter[str]] = {}
    for entry in found:
        counts.setdefault(entry.item.paper, Counter())[entry.verdict] += 1
    return {
        paper: {**{word: own[word] for word in VERDICTS}, "all": own.total()}
        for paper, own in counts.items()
    }


def by_distance(found: Iterable[Entry]) -> dict[str, dict[str, int]]:
    """How near to the papers' protocols, how many items came out how."""
    counts: dict[str, Counter[str]] = {distance: Counter() for distance in DISTANCES}
    for entry in found:
        counts[entry.item.distance][entry.verdict] += 1
    return {
        distance: {**{word: own[word] for word in VERDICTS}, "all": own.total()}
        for distance, own in counts.items()
        if own
    }


def cause_counts(found: Iterable[Entry]) -> Counter[str]:
    """How many items each shared cause decides."""
    return Counter(cause for entry in found for cause in entry.item.causes)


def frame(found: Iterable[Entry]) -> pd.DataFrame:
    """The ledger as a data frame: what the file says, and what came out."""
    rows = []
    for entry in found:
        item = entry.item
        rows.append(
            {
                "id": item.id,
                "paper": item.paper,
                "item": item.item,
                "whose": {"paper": "the paper's", "book": "ours"}[item.voice],
                "it says": item.sentence,
                "printed": item.printed,
                "measured": entry.measured,
                "verdict": entry.verdict,
                "could have been seen": entry.could,
                "standing": entry.standing,
                "seeds": entry.seeds or "",
                "blocks": entry.looks,
                "distance": item.distance,
                "departures": item.departures,
                "study": item.study if item.distance != EXACT else "",
                "bound": item.bound,
                "decided by": item.decides,
                "remark": " ".join(filter(None, [item.reason, item.remark])),
            }
        )
    return pd.DataFrame(rows)


def tested(found: Iterable[Entry]) -> list[Entry]:
    """The entries on the papers' own sentences that have a verdict."""
    return [e for e in found if e.item.voice == "paper" and e.verdict in WORDS]


def summary(found: Sequence[Entry]) -> str:
    """The count that the landing page shows, in a sentence."""
    own = tested(found)
    words = Counter(entry.verdict for entry in own)
    confirmed = sum(entry.standing == CONFIRMED for entry in own)
    return (
        f"{len(own)} sentences, table cells and curves of five papers are tested: "
        f"{words[HOLDS]} hold, {words[FAILS]} do not, and {words[NOT_SHOWN] + words[ALIKE]} are "
        f"open. {confirmed} verdicts rest on seeds drawn to confirm."
    )


def page(paper: str = "") -> str:
    """The ledger as text, item by item; raises ValueError for a paper that it does not have."""
    if paper and paper not in PAPERS:
        raise ValueError(f"paper: expected one of {', '.join(PAPERS)}; got {paper!r}")
    found = entries()
    told = [_told(entry) for entry in found if paper in ("", entry.item.paper)]
    return "\n".join([*told, "", summary(found)])


# --- one row again -------------------------------------------------------------------------------


def matching(start: str) -> list[Item]:
    """The items of an id, or of all ids that begin with it.

    raises  ValueError for an id that the ledger does not have, or that no study stands behind
    """
    found = [item for item in items() if item.id == start or item.id.startswith(f"{start}-")]
    if not found:
        raise ValueError(f"row: expected an id of data/ledger.csv, or its beginning; got {start!r}")
    return found


def minutes(study: Study, seeds: int) -> float:
    """What seeds of a study take, by the seconds that the stored ones took."""
    seconds = list(store.about(study)["seconds"].values())
    return seeds * sum(seconds) / len(seconds) / 60


def fresh_seeds(count: int, first: int | None = None) -> list[int]:
    """Seeds that nobody has used: drawn anew each time, unless the first is given.

    raises  ValueError for a first seed among those that studies use
    """
    if count < 2:
        raise ValueError(f"seeds: expected at least 2, since one has no interval; got {count}")
    if first is None:
        first = FRESH + BLOCK * randbelow(10_000)
    if first < FRESH:
        raise ValueError(f"first: expected at least {FRESH}, beyond all blocks; got {first}")
    return list(range(first, first + count))


def again(study: Study, seeds: Sequence[int], places: Iterable[tuple[str, str, str]]) -> Results:
    """The rows of fresh seeds, in memory: nothing is stored.

    places  (scenario, method, metric) of what is asked. Where rows themselves are asked for, a seed
            ends with the last of them; what is derived needs them all
    """
    asked = set(places)
    stored = store.rows(study)
    made = set(zip(stored.scenario, stored.method, stored.metric, strict=True))
    early = asked <= made
    tables = []
    with bar(None, study.name, total=len(seeds)) as progress, one_thread():
        for seed in seeds:
            missing, rows = set(asked), []
            for row in probes.generated(study, seed):
                rows.append(row)
                missing.discard(row[1:4])
                if early and not missing:
                    break
            tables.append(pd.DataFrame(rows, columns=COLUMNS))
            progress.update()
    return Results(replace(study, derived=None) if early else study, pd.concat(tables))


def places_of(item: Item, name: str) -> list[tuple[str, str, str]]:
    """The rows of a study that an item reads."""
    sides = [(item.study, item.scenario, item.method)]
    if item.compared:
        sides.append((item.rival_study or item.study, item.rival_at, item.rival))
    return [(at, method, item.metric) for study, at, method in sides if study == name]


def rerun(start: str, count: int = 2, first: int | None = None) -> str:
    """Run the items of an id again on fresh seeds; prints the minutes first, and what came out."""
    wanted = matching(start)
    tested = [item for item in wanted if item.study and item.distance != EXACT]
    parts = [_told(judge(item)) for item in wanted if item not in tested]
    names = list(dict.fromkeys(n for i in tested for n in (i.study, i.rival_study) if n))
    seeds = fresh_seeds(count, first) if names else []
    for name in names:
        about = f"{name}: seeds {seeds[0]} to {seeds[-1]}, some {minutes(named(name), count):.1f}"
        print(f"{about} minutes of computing; nothing is stored", flush=True)
    start_time, new = time.monotonic(), {}
    for name in names:
        places = [place for item in tested for place in places_of(item, name)]
        new[name] = again(named(name), seeds, places)
    for item in tested:
        own, rival = new[item.study], new[item.rival_study or item.study]
        parts += [_told(judge(item)), _told(judged(item, own, rival, "fresh"), head=False)]
    took = f"took {(time.monotonic() - start_time) / 60:.1f} minutes" if names else ""
    return "\n".join(filter(None, [*parts, took])).lstrip("\n")


def _told(entry: Entry, head: bool = True) -> str:
    item = entry.item
    title = [f"\n{item.id}, {item.item}: {item.sentence}"] if head else []
    if head and item.printed:
        title.append(f"  printed   {item.printed}")
    if item.distance == NONE or not entry.measured:
        return "\n".join([*title, f"  {entry.verdict}: {item.reason}"])
    label = ("stored" if entry.seeds else "found") if head else "fresh"
    could = f" ({entry.could} would have been)" if entry.could else ""
    rest = f"{entry.standing}, {entry.seeds} seeds" if entry.seeds else entry.standing
    if entry.each:
        rest += f"; blocks alone: {', '.join(entry.each)}"
    return "\n".join([*title, f"  {label:9s} {entry.measured}: {entry.verdict}{could}; {rest}"])


def table(found: Iterable[Entry], caption: str = "") -> plots.Table:
    """Items as a table for a page: what is said, printed, measured, and the verdict."""
    data = {}
    for entry in found:
        could = f" ({entry.could} would have been seen)" if entry.could else ""
        data[entry.item.id] = {
            "it says": entry.item.sentence,
            "printed": entry.item.printed,
            "measured": entry.measured,
            "verdict": entry.verdict + could,
        }
    return plots.table(data, rows="item", caption=caption)
