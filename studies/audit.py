"""Audit: are the stored rows what the code gives? Renewal, and the check of ``make test``.

Below: store.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from datetime import date

import pandas as pd

from fedlab_mini.engine.model import one_thread
from fedlab_mini.worlds.data import DataUnavailable

from . import store
from .code import fingerprint
from .study import COLUMNS, Study

TOLERANCE = 1e-4  # on one kind of processor
SPREADS = 6.0  # on another kind, where long trainings part: standard deviations between seeds
TIMED = ("seconds", "MiB")  # metrics that begin so differ from run to run
SLICE = 3.0  # seconds that a check gives to each study, and goes on to the next row
FIRST = 20.0
ALWAYS, DEAR = 10, 150.0  # studies that every check runs; seconds per seed that none tries
SOUND, OTHER, NO_DATA = "renewed", "other rows", "no data"


def renew(studies: Iterable[Study]) -> dict[str, str]:
    """Run two stored seeds of each study again; if their rows come, the code is noted as theirs.

    Which two rotates with the code, as a change may spare any one seed. Of a dear study the rows of
    the first seconds are compared, and that is noted.
    returns  {name: "renewed", "other rows", "no data" here, or the state of what cannot be renewed}
    The rows stay as they are in any case, and with them the version and machine that computed them
    """
    outcome = {}
    for study in studies:
        outcome[study.name] = store.state(study)
        if outcome[study.name] in ("missing", "edited"):
            continue
        seeds = chosen(study, int(fingerprint(study), 16), 2)
        dear = max(store.about(study)["seconds"].values()) > DEAR
        words = {seed: compared(study, seed, FIRST if dear else math.inf) for seed in seeds}
        wrong = [word for word in words.values() if word != SOUND]
        outcome[study.name] = wrong[0] if wrong else SOUND
        if not wrong:
            with store.lock():
                known = store.about(study)
                known["verified"] = store.verified(study, seeds)
                if dear:
                    known["verified"]["how"] = f"rows of the first {FIRST:.0f} seconds"
                store.note(study, store.rows(study), known)
    return outcome


def check(studies: Sequence[Study], budget: float = 40.0) -> tuple[list[str], list[str]]:
    """What is wrong with stored results, and what was run again without a fault.

    budget  seconds that the runs may take together; each study runs a seed that rotates from day
            to day, as far as it comes in three seconds: the cheapest ten, then others in turn
    """
    faults, sound = [], []
    for study in studies:
        word = store.state(study)
        if word in ("current", "unconfirmed"):
            sound.append(study)
            faults += _inconsistent(study)
        else:
            cure = {"edited": "run it --again", "stale": "`make evidence`"}.get(word, "run it")
            faults.append(f"{study.name}: {word}; {cure}")
    today, rerun = date.today().toordinal(), []
    stop = time.process_time() + budget
    for study in _in_turn(sound, today):
        if time.process_time() > stop:
            break
        (seed,) = chosen(study, today, 1)
        word = compared(study, seed, SLICE)
        if word == OTHER:
            faults.append(f"{study.name}: seed {seed} gives other rows; run it --again")
        rerun.append(f"{study.name} (seed {seed}{', no data' if word == NO_DATA else ''})")
    return faults, rerun


def _in_turn(studies: Iterable[Study], day: int) -> list[Study]:
    """The cheapest ten always, then others in turn; none whose first row alone might take long."""
    costs = {s.name: max(store.about(s)["seconds"].values()) for s in studies}
    order = sorted((s for s in studies if costs[s.name] < DEAR), key=lambda s: costs[s.name])
    cheap, others = order[:ALWAYS], order[ALWAYS:]
    first = day % max(len(others), 1)
    return [*cheap, *others[first:], *others[:first]]


def _inconsistent(study: Study) -> list[str]:
    """Seeds that are not those that are noted, variants that a seed lacks, other verdicts."""
    known, frame = store.about(study), store.rows(study)
    faults = []
    noted = {*known["look"], *(seed for block in known["blocks"] for seed in block["seeds"])}
    if set(frame.seed) != noted or {int(seed) for seed in known["seconds"]} != noted:
        faults.append(f"{study.name}: its seeds are not those noted; run it --again")
    sizes = frame.groupby("seed").size()
    if sizes.nunique() > 1 and not study.ragged:
        faults.append(f"{study.name}: seeds have different numbers of rows: {sizes.to_dict()}")
    if store.said(study, known) != {key: known[key] for key in store.SAID[:4]}:
        faults.append(f"{study.name}: stored verdicts are not those of its rows; run it")
    return faults


def chosen(study: Study, turn: int, count: int) -> list[int]:
    """Stored seeds to run again, far from each other in their list."""
    seeds = sorted(int(seed) for seed in store.about(study)["seconds"])
    count = min(count, len(seeds))
    return [seeds[(turn + k * (len(seeds) // count)) % len(seeds)] for k in range(count)]


def compared(study: Study, seed: int, seconds: float = math.inf) -> str:
    """Are these the stored rows of a seed, but for times? As far as they come in ``seconds``."""
    frame = store.rows(study)
    rows, stop, whole = [], time.process_time() + seconds, True
    try:
        with one_thread():
            for row in store.generated(study, seed):
                rows.append(row)
                if time.process_time() > stop:
                    whole = False
                    break
    except DataUnavailable:  # stored with a data set that is not on this machine
        return NO_DATA
    table = pd.DataFrame(rows, columns=COLUMNS)
    stored = frame[frame.seed == seed]
    both = stored.merge(table, on=COLUMNS[:-1], how="outer", suffixes=("", "_now"), indicator=True)
    strange = both._merge == "right_only"
    lost = (both._merge == "left_only") & whole
    timed = both.metric.str.startswith(TIMED)
    apart = (both.value - both.value_now).abs() > _allowed(study, seed, both, frame)
    return OTHER if (strange | lost | (apart & ~timed)).any() else SOUND


def _allowed(study: Study, seed: int, rows: pd.DataFrame, frame: pd.DataFrame) -> pd.Series:
    """How far each row may be off: rounding, or on another kind of processor the seeds' spread."""
    entries = [e for e in store.about(study)["computed"] if seed in e["seeds"]]
    if entries and entries[0]["machine"] == store.here()["machine"]:
        return pd.Series(TOLERANCE, index=rows.index)
    names = ["scenario", "method", "metric"]
    spread = frame.groupby(names).value.std().rename("spread")
    return TOLERANCE + SPREADS * rows.join(spread, on=names).spread.fillna(0)
