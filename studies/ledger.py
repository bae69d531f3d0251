"""Ledger: the outcome of each item of the five papers, computed from the stored rows.

Below: items (what is asked), exact (what needs no seeds), store.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from secrets import randbelow

import pandas as pd

from fedlab_mini.engine.progress import bar
from fedlab_mini.streams import one_thread

from . import exact, options, probes, store
from .items import DISTANCES, EXACT, PAPERS, items
from .results import (
    ALIKE,
    CONFIRMED,
    FAILS,
    HOLDS,
    NOT_SHOWN,
    ONLY_A_NUMBER,
    UNTESTED,
    WORDS,
    Entry,
    Results,
)
from .study import BLOCK, COLUMNS, Claim, Study, flat

VERDICTS = (*WORDS, ONLY_A_NUMBER, UNTESTED)
FRESH = 10_000  # re-runs draw their seeds from here on; blocks do not reach so far


def entries() -> list[Entry]:
    """All items with their verdicts, in the order of the ledger."""
    return [judge(item) for item in items()]


def judge(item: Claim) -> Entry:
    """The verdict of the stored rows on an item."""
    if item.distance == EXACT:
        so, told = getattr(exact, item.metric)()
        return Entry(item, HOLDS if so else FAILS, told)
    if not item.study:
        return Entry(item, UNTESTED)
    return together(item, *halves(item)).judge(item)


def judged(item: Claim, results: Results, rival: Results, how: str) -> Entry:
    """The verdict of given rows on an item: rows of its study and of its rival's study."""
    return together(item, results, rival).judge(item)._replace(standing=how)


def together(item: Claim, results: Results, rival: Results) -> Results:
    """The rows that an item needs, of its study and of the study that it is compared with."""
    return results.with_rows_of(rival) if item.rival_study else results


def halves(item: Claim) -> tuple[Results, Results]:
    """The rows that judge an item: on confirming seeds if both studies share some."""
    own = _read(item.study)
    if not item.rival_study:
        return own, own
    rival = _read(item.rival_study)
    if shared := set(own.seeds) & set(rival.seeds):
        return own.only(shared), rival.only(shared)
    shared = set(own.look.seeds) & set(rival.look.seeds)
    return own.look.only(shared), rival.look.only(shared)


@cache
def _read(name: str) -> Results:
    return store.read(named(name))


def named(name: str) -> Study:
    """The study of a name."""
    from . import named as found  # the list of studies imports this file

    return found(name)


def by_plain_engine() -> list[tuple[Entry, Entry]]:
    """The central items, as stored and as another engine has computed them."""
    central = importlib.import_module(f"{__package__}.plain_engine").CENTRAL
    other = _read("plain-engine")
    chosen = [item for item in items() if item.id in central]
    return [(judge(item), other.judge(item)) for item in chosen]


# --- numbers and texts -----------------------------------------------------------------------


def counted(found: Iterable[Entry], by: str = "paper") -> dict[str, dict[str, int]]:
    """Counts of outcomes for each paper, or for each distance from the papers' protocols."""
    counts: dict[str, Counter[str]] = {}
    for entry in found:
        counts.setdefault(getattr(entry.item, by), Counter())[entry.verdict] += 1
    return {
        kind: {**{word: counts[kind][word] for word in VERDICTS}, "all": counts[kind].total()}
        for kind in (*PAPERS, *DISTANCES)
        if kind in counts
    }


def tested(found: Iterable[Entry]) -> list[Entry]:
    """The entries about claims of the papers that have a verdict."""
    return [e for e in found if e.item.source == "paper" and e.verdict in WORDS]


def summary(found: Sequence[Entry]) -> str:
    """The sentence with the counts for the landing page."""
    own = tested(found)
    words = Counter(entry.verdict for entry in own)
    confirmed = sum(entry.standing == CONFIRMED for entry in own)
    return (
        f"{len(own)} claims of five papers, in words, tables and curves, are tested: "
        f"{words[HOLDS]} hold, {words[FAILS]} do not, and {words[NOT_SHOWN] + words[ALIKE]} are "
        f"open. {confirmed} verdicts rest on seeds drawn to confirm."
    )


def page(paper: str = "") -> str:
    """The ledger as text, item by item; ValueError for an unknown paper."""
    if paper and paper not in PAPERS:
        raise ValueError(f"paper: expected one of {', '.join(PAPERS)}; got {paper!r}")
    found = entries()
    told = [_told(entry) for entry in found if paper in ("", entry.item.paper)]
    return "\n".join([*told, "", summary(found)])


# --- one row again -------------------------------------------------------------------------------


def matching(start: str) -> list[Claim]:
    """The items whose id is this text or begins with it.

    raises  ValueError for an id that the ledger does not have
    """
    found = [item for item in items() if item.id == start or item.id.startswith(f"{start}-")]
    if not found:
        raise ValueError(f"row: expected an id of data/ledger.csv, or its beginning; got {start!r}")
    return found


def minutes(study: Study, seeds: int) -> float:
    """The expected minutes of these seeds, from the seconds of the stored ones."""
    seconds = list(store.about(study)["seconds"].values())
    return seeds * sum(seconds) / len(seconds) / 60


def fresh_seeds(count: int, first: int | None = None) -> list[int]:
    """Unused seeds: drawn anew each time, unless the first is given.

    raises  ValueError if studies use the first seed
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

    places  (scenario, method, metric) of all that is asked. If these are rows themselves, a seed
            stops after the last of them; derived metrics need all rows
    """
    asked = set(places)
    early = asked <= _places(store.rows(study))
    study, tables = replace(study, derived=None) if early else study, []
    with bar(None, study.name, len(seeds), delay=0) as progress, one_thread():
        for seed in seeds:
            missing, rows = set(asked), []
            for row in probes.generated(study, seed):
                rows.append(row)
                missing.discard(row[1:4])
                if early and not missing:
                    break
            tables.append(pd.DataFrame(rows, columns=COLUMNS))
            if len(tables) == 1:  # not after the last seed
                _refuse_missing(asked, Results(study, tables[0]))
            progress.update()
    return Results(study, pd.concat(tables))


def _places(frame: pd.DataFrame) -> set[tuple[str, str, str]]:
    return set(zip(frame.scenario, frame.method, frame.metric, strict=True))


def _refuse_missing(asked: Iterable[tuple[str, str, str]], results: Results) -> None:
    """KeyError for the first of the places that these results lack."""
    for scenario, method, metric in sorted(asked):
        if not results.has(metric, method, scenario):
            results.values(metric, method, scenario)


def refuse_early(
    study: Study, changes: Mapping[str, object], places: Iterable[tuple[str, str, str]]
) -> None:
    """KeyError if changed settings leave no row for a place, as far as stored labels tell."""
    asked, stored = set(places), store.rows(study)
    if asked <= _places(stored):
        study = replace(study, derived=None)
    labels = ["scenario", "method", "metric"]
    names = {text for label in labels for text in stored[label].unique()}
    defaults = study.defaults()
    gone = {text for name, new in changes.items() for text in lost(names, defaults[name], new)}
    left = stored[~stored[labels].isin(gone).any(axis=1)]
    _refuse_missing(asked, Results(study, left))


def lost(names: Iterable[str], default: object, new: object) -> set[str]:
    """The labels that a changed setting no longer makes.

    Several values: labels such as "100 clients", if there is one for each value by default. A
    whole number: labels such as "accuracy @ 800" beyond it, if the last of them is the default
    """
    forms: dict[str, dict[str, str]] = {}  # with a # for the value: {value: label}
    several = isinstance(default, tuple)
    values = {*map(str, default)} if isinstance(default, tuple) else set()
    for name in names:
        place = r"(?<=@ )\d+$" if not several else rf"(?<![\w.])({_either(values)})(?![\w.])"
        for found in re.finditer(place, name):
            form = f"{name[: found.start()]}#{name[found.end() :]}"
            forms.setdefault(form, {})[found[0]] = name
    if isinstance(new, tuple):
        left = {*map(str, new)}
        whole = [made for made in forms.values() if made.keys() == values and len(values) > 1]
        return {name for made in whole for value, name in made.items() if value not in left}
    if not isinstance(new, int):
        return set()
    ends = [made for made in forms.values() if str(max(map(int, made))) == str(default)]
    return {name for made in ends for value, name in made.items() if int(value) > new}


def _either(values: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(values, key=len, reverse=True)))


def places_of(item: Claim, name: str) -> list[tuple[str, str, str]]:
    """The rows of a study that an item reads."""
    sides = [(item.study, flat(item.a, item.at))]
    if item.b:
        sides.append((item.rival_study or item.study, flat(item.b, item.at)))
    return [(at, method, item.metric) for study, (method, at) in sides if study == name]


def rerun(
    start: str, count: int = 2, first: int | None = None, settings: Sequence[str] = ()
) -> str:
    """Run the items of an id again on fresh seeds; print the minutes first, then the outcomes.

    settings  NAME=VALUE each, of the study or of its methods, to be changed for this run: see
              ``options``
    raises    ValueError for a setting that no study of the items has, or that leaves the items
              without a number
    """
    wanted = matching(start)
    parts = [_told(judge(item)) for item in wanted if not item.study]
    wanted = [item for item in wanted if item.study]
    names = list(dict.fromkeys(n for i in wanted for n in (i.study, i.rival_study) if n))
    changes = {name: options.parted(named(name), settings) for name in names}
    if settings and not names:
        raise ValueError(f"set: {start} is not run, so it has no settings")
    seeds = fresh_seeds(count, first) if names else []
    places = {n: [place for i in wanted for place in places_of(i, n)] for n in names}
    with _explained(settings):
        for name in names if settings else ():
            refuse_early(named(name), changes[name][0], places[name])
    for name in names:
        about = f"{name}: seeds {seeds[0]} to {seeds[-1]}, some {minutes(named(name), count):.1f}"
        rest = f" with the study's settings, here {', '.join(settings)}" if settings else ""
        print(f"{about} minutes of computing{rest}; nothing is stored", flush=True)
    start_time, new = time.monotonic(), {}
    how = f"fresh, with {', '.join(settings)}" if settings else "fresh"
    with _explained(settings):
        for name in names:
            study = named(name)
            of_rows, of_methods = changes[name]
            study = replace(study, rows=partial(study.rows, **of_rows))
            with options.trained_with(of_methods):
                new[name] = again(study, seeds, places[name])
        for item in wanted:
            own, rival = new[item.study], new[item.rival_study or item.study]
            parts += [_told(judge(item)), _told(judged(item, own, rival, how), head=False)]
    took = f"took {(time.monotonic() - start_time) / 60:.1f} minutes" if names else ""
    return "\n".join(filter(None, [*parts, took])).lstrip("\n")


@contextlib.contextmanager
def _explained(settings: Sequence[str]) -> Iterator[None]:
    """A KeyError, for rows that are missing, as a ValueError that names the settings."""
    try:
        yield
    except KeyError as error:
        if not settings:
            raise
        raise ValueError(f"set: with {', '.join(settings)} {error.args[0]}") from error


def _told(entry: Entry, head: bool = True) -> str:
    item, seeds = entry.item, entry.seeds
    title = [f"\n{item.id}, {item.item}: {item.sentence}"] if head else []
    if head and item.printed:
        title.append(f"  printed   {item.printed}")
    if not entry.measured:
        return "\n".join([*title, f"  {entry.verdict}: {item.reason}"])
    label = ("stored" if seeds else "found") if head else "fresh"
    could = f" ({entry.could} detectable)" if entry.could else ""
    rest = f"{entry.standing}, {seeds} seeds" if seeds else entry.standing
    if entry.each:
        rest += f"; blocks alone: {', '.join(entry.each)}"
    return "\n".join([*title, f"  {label:9s} {entry.measured}: {entry.verdict}{could}; {rest}"])
