"""Audit: are the stored rows what the code gives? A daily check, and reruns of whole rows.

Below: runs, probes, store.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from datetime import date

import pandas as pd

from fedlab_mini.streams import one_thread
from fedlab_mini.worlds.data import DataUnavailable

from . import probes, store
from .study import COLUMNS, Study

TOLERANCE = 1e-4  # of whole rows, on one kind of processor
SPREADS = 6.0  # on another kind, where long runs diverge: standard deviations between seeds
SOUND, OTHER, NO_DATA = "verified", "other rows", "no data"


def check(studies: Sequence[Study]) -> list[str]:
    """What is wrong with stored results, one sentence each: hash, verdicts, seeds, probes.

    One seed of every probe is run again, another one each day
    """
    faults, seed = [], probes.SEEDS[date.today().toordinal() % len(probes.SEEDS)]
    for study in studies:
        word = store.state(study)
        if word not in ("current", "unconfirmed"):
            cure = {"edited": "run it --again"}.get(word, "run it")
            faults.append(f"{study.name}: {word}; {cure}")
            continue
        faults += _inconsistent(study)
        if fault := _probe_fault(study, seed):
            faults.append(f"{study.name}: {fault}")
    return faults


def _probe_fault(study: Study, seed: int) -> str:
    try:
        return probes.fault(study, seed)
    except DataUnavailable:  # Flower is not installed here
        return ""


def _inconsistent(study: Study) -> list[str]:
    """Seeds that differ from the recorded ones, variants that a seed lacks, changed verdicts."""
    known, frame = store.about(study), store.rows(study)
    faults = []
    noted = {*known["look"], *(seed for block in known["blocks"] for seed in block["seeds"])}
    if set(frame.seed) != noted or {int(seed) for seed in known["seconds"]} != noted:
        faults.append(f"{study.name}: its seeds are not those noted; run it --again")
    sizes = frame.groupby("seed").size()
    if sizes.nunique() > 1 and not study.ragged:
        faults.append(f"{study.name}: seeds have different numbers of rows: {sizes.to_dict()}")
    if store.said(study, known) != store.said_before(known):
        faults.append(f"{study.name}: stored verdicts are not those of its rows; run it")
    return faults


def verify(studies: Iterable[Study], minutes: float = math.inf) -> dict[str, str]:
    """Run whole rows again, one seed per study; if they agree, the date is stored.

    The seed that has waited longest is run; studies are ordered in the same way. If the rows agree,
    the rows of the probe are stored anew, too
    minutes  stop if the next study would exceed the time left, by its stored seconds
    returns  {name: "verified", "other rows", "no data" here, or the state of what cannot be run}
    """
    outcome: dict[str, str] = {}
    stop = time.monotonic() + 60 * minutes
    for study in sorted(studies, key=_waited):
        word, known = store.state(study), store.about(study)
        if word in ("missing", "edited"):
            outcome[study.name] = word
            continue
        seed = min(known["seconds"], key=lambda seed: known["verified"].get(seed, ""))
        if time.monotonic() + known["seconds"][seed] > stop:
            continue
        outcome[study.name] = compared(study, int(seed))
        if outcome[study.name] == SOUND:
            rows, probe = _again(study)
            with store.lock():
                known = store.about(study)
                known["verified"][seed] = store.today()
                known["probe"] = probe
                store.note(study, store.rows(study), known, rows)
    return outcome


def _waited(study: Study) -> tuple[str, float]:
    """When its rows were last verified, and the seconds of one seed."""
    known = store.about(study)
    dates = known.get("verified", {}).values()
    return max(dates, default=""), max(known.get("seconds", {}).values(), default=0.0)


def _again(study: Study) -> tuple[pd.DataFrame | None, store.Known]:
    """New rows of a probe; None if the stored ones are what the code gives."""
    if probes.fault(study, probes.SEEDS[0]):
        return probes.fresh(study)
    return None, store.about(study).get("probe", {})


def compared(study: Study, seed: int) -> str:
    """Whether these are the stored rows of a seed, apart from times."""
    frame = store.rows(study)
    try:
        with one_thread():
            table = pd.DataFrame(probes.generated(study, seed), columns=COLUMNS)
    except DataUnavailable:  # stored with a data set that is not on this machine
        return NO_DATA
    stored = frame[frame.seed == seed]
    both = stored.merge(table, on=COLUMNS[:-1], how="outer", suffixes=("", "_now"), indicator=True)
    timed = both.metric.str.startswith(probes.TIMED)
    apart = (both.value - both.value_now).abs() > _allowed(study, seed, both, frame)
    return OTHER if ((both._merge != "both") | (apart & ~timed)).any() else SOUND


def _allowed(study: Study, seed: int, rows: pd.DataFrame, frame: pd.DataFrame) -> pd.Series:
    """The allowed error of each row: rounding; on another processor, the spread of seeds."""
    entries = [e for e in store.about(study)["computed"] if seed in e["seeds"]]
    if entries and entries[0]["machine"] == probes.here()["machine"]:
        return pd.Series(TOLERANCE, index=rows.index)
    names = ["scenario", "method", "metric"]
    spread = frame.groupby(names).value.std().rename("spread")
    return TOLERANCE + SPREADS * rows.join(spread, on=names).spread.fillna(0)
