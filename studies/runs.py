"""Runs: compute the rows of studies and store them as evidence.

A run leaves one file per seed in ``parts/`` until its half is complete; a killed run continues
with the seeds that are missing. Below: probes, store. Above: audit.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import joblib
import pandas as pd

from fedlab_mini.engine.progress import bar
from fedlab_mini.engine.sweep import spread
from fedlab_mini.streams import one_thread

from . import probes, store
from .store import Known
from .study import COLUMNS, Study


def run(
    study: Study, seeds: Iterable[int] | None = None, jobs: int | None = None, again: bool = False
) -> bool:
    """Compute and store the missing seeds to look at; return whether any were stored.

    seeds   instead of the study's own, below 100; ``confirm`` computes those that confirm
    jobs    parallel processes; None: one, or as ``joblib.parallel_config`` says
    again   do not take over what is stored
    raises  ValueError for a study that was edited, or whose probe gives other rows
    """
    return _fill(study, list(range(study.seeds) if seeds is None else seeds), jobs, again, None)


def confirm(study: Study, block: int = 0, jobs: int | None = None, again: bool = False) -> bool:
    """Draw, compute and store a block of seeds that confirm; return whether any were stored.

    block   1, 2, ...; 0: the current block, or the first that nobody has seen
    again   do not take over what is stored
    The block is stored with the questions that are asked now; it confirms only these.
    """
    number = block or _next(store.about(study))
    return _fill(study, study.block(number), jobs, again, number)


def _next(known: Known) -> int:
    """The current block; a new one if earlier blocks come from older code and have been seen."""
    if blocks := known.get("blocks"):
        return blocks[-1]["number"]
    return 1 + max((entry["number"] for entry in known.get("past", [])), default=0)


def _fill(study: Study, asked: list[int], jobs: int | None, again: bool, block: int | None) -> bool:
    """Compute the given seeds that are neither stored nor waiting, and store a complete half."""
    if again:
        for seed in asked:
            _part(study, seed).unlink(missing_ok=True)
    present = set(waiting(study)) | (set() if again else _seeds(study))
    missing = [seed for seed in asked if seed not in present]
    if not again:
        _refuse_other_rows(study, bool(missing))
    computations = (joblib.delayed(compute)(study, seed) for seed in missing)
    with bar(None, study.name, len(missing), delay=0) as progress:
        for seed, table in spread(computations, jobs, ordered=False):
            # Written by the caller, because a worker on another machine lacks this folder.
            store.write(_part(study, seed), table.to_csv(index=False))
            progress.update()
    return _pack(study, asked, block, again)


def _refuse_other_rows(study: Study, missing: bool) -> None:
    """Refuse new seeds if the code no longer gives the stored rows of the probe."""
    word, fault = store.state(study), ""
    if word == "edited":
        fault = word
    elif word != "missing" and missing:
        fault = probes.fault(study, probes.SEEDS[0])
    if fault:
        raise ValueError(f"{study.name}: {fault}; or run it --again")


def compute(study: Study, seed: int) -> tuple[int, pd.DataFrame]:
    """The rows of a seed, and the seconds that they took."""
    start = time.process_time()
    with one_thread():
        table = pd.DataFrame(probes.generated(study, seed), columns=COLUMNS)
    return seed, table.assign(seconds=time.process_time() - start)


def _seeds(study: Study) -> set[int]:
    return {int(seed) for seed in store.about(study).get("seconds", {})}


def _part(study: Study, seed: int | str) -> Path:
    """The file of a waiting seed; the probe's rows are in its name, so old code's are ignored."""
    probe = store.probe_rows(study)
    text = "" if probe is None else probe.to_csv(index=False)
    code = hashlib.sha256(text.encode()).hexdigest()[:8]
    return store.folder() / "parts" / f"{study.name}-{code}-{seed}.csv"


def waiting(study: Study) -> dict[int, pd.DataFrame]:
    """The seeds that wait in parts, with their seconds."""
    tables = []
    for path in store.folder().glob(f"parts/{_part(study, '*').name}"):
        with contextlib.suppress(FileNotFoundError):  # another run has stored it in the meantime
            tables.append(pd.read_csv(path, keep_default_na=False))
    return {int(table.seed.iloc[0]): table for table in tables}


def _pack(study: Study, asked: list[int], block: int | None, again: bool) -> bool:
    """Add a complete half to the stored rows; return whether anything has changed."""
    # Under a lock, because another run may store other seeds of the same study.
    with store.lock():
        ready, known = waiting(study), store.about(study)
        stored = {} if again or store.state(study) == "edited" else _tables(study)
        tables = {**stored, **ready}
        # One seed has no interval, and half a block confirms nothing, so they wait for the others.
        if not ready or len(tables) < 2 or not set(asked) <= tables.keys():
            return store.update(study)
        added = sorted(set(ready) & set(asked))
        parts = [_part(study, seed) for seed in added]
        probe = None
        if not stored:
            past = known.get("past", []) + known.get("blocks", [])
            known = {"look": [], "blocks": [], "past": past, "asked": {}, "computed": []}
            known |= {"verified": {}, "seconds": {}}
            probe, known["probe"] = probes.fresh(study)
        for seed in added:
            known["seconds"][str(seed)] = round(float(ready[seed].seconds.iloc[0]), 1)
            known["verified"][str(seed)] = store.today()
        others = [_without(entry, added) for entry in known["computed"]]
        known["computed"] = [entry for entry in others if entry["seeds"]]
        known["computed"].append({"seeds": added, **probes.here()})
        if block is None:
            known["look"] = sorted({*known["look"], *asked})
        else:
            earlier = [b for b in known["blocks"] if b["number"] != block]
            drawn = {"number": block, "seeds": asked, "drawn": store.today()}
            known["blocks"] = sorted([*earlier, drawn], key=lambda b: b["number"])
            known["asked"] = store.stood(study, known, block)
        kept = sorted(tables.keys() & {int(s) for s in known["seconds"]})
        store.note(study, pd.concat([tables[seed] for seed in kept])[COLUMNS], known, probe)
        for part in parts:
            part.unlink(missing_ok=True)
    return True


def _tables(study: Study) -> dict[int, pd.DataFrame]:
    """The stored rows, seed by seed."""
    if store.state(study) == "missing":
        return {}
    return {int(seed): table for seed, table in store.rows(study).groupby("seed", sort=False)}


def _without(entry: Mapping[str, Any], seeds: list[int]) -> dict[str, Any]:
    return {**entry, "seeds": sorted(set(entry["seeds"]) - set(seeds))}
