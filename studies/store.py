"""Store: the files of stored evidence, and the runs that fill them.

``NAME.csv`` holds the rows, ``NAME.json`` what is known of them. A run leaves one file per seed in
``parts/`` until all seeds are there; a run that was killed goes on with the missing ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch
from filelock import FileLock

from fedlab_mini import __version__
from fedlab_mini.engine.checkpoint import whole_file
from fedlab_mini.engine.model import one_thread
from fedlab_mini.engine.progress import bar
from fedlab_mini.engine.sweep import spread
from fedlab_mini.worlds.data import DataUnavailable

from .code import ROOT, fingerprint
from .study import COLUMNS, Results, Study

DIGITS = 6  # of the stored values, after the point
TOLERANCE = 1e-4  # between two kinds of processor
TIMED = ("seconds", "MiB")  # metrics that begin so differ from run to run


def folder() -> Path:
    """Where results lie: the folder of FEDLAB_RESULTS, or ``data/results`` beside the studies.

    raises  FileNotFoundError if there is no such folder
    """
    place = Path(os.environ.get("FEDLAB_RESULTS") or ROOT / "data" / "results")
    if not place.is_dir():
        raise FileNotFoundError(f"results: no folder {place}; name another in FEDLAB_RESULTS")
    return place


def read(study: Study) -> Results:
    """The stored results of a study.

    raises  FileNotFoundError if there are none, and says how they are made
    """
    name, path = study.name, folder() / f"{study.name}.csv"
    if not path.is_file():
        raise FileNotFoundError(f"{name}: no stored results; python -m studies run {name}")
    return Results(study, pd.read_csv(path, keep_default_na=False, na_values=["nan"]))


def about(study: Study) -> dict[str, Any]:
    """What is known of a stored result; empty if there is none.

    item, protocol, verdict, verdicts  of the study, as they were stored
    computed  version, machine and date of the rows; seconds of every seed, as last run
    verified  the code's fingerprint, and which seeds that code has run, when, chosen how
    sha256    of the rows' file
    """
    path = folder() / f"{study.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def state(study: Study) -> str:
    """One word: current, stale (older than its code), short (of seeds), edited, or missing."""
    known, path = about(study), folder() / f"{study.name}.csv"
    if not known or not path.is_file():
        return "missing"
    if known["sha256"] != _hash(path):
        return "edited"
    if known["verified"]["fingerprint"] != fingerprint(study):
        return "stale"
    return "short" if len(known["seconds"]) < study.seeds else "current"


def run(
    studies: Iterable[Study],
    seeds: Iterable[int] | None = None,
    jobs: int | None = None,
    again: bool = False,
) -> list[str]:
    """Compute what is missing or stale, seed by seed, and store it; returns the names stored.

    seeds   instead of each study's own
    jobs    processes side by side; None: one, or what ``joblib.parallel_config`` says
    again   do not take over what is stored, even if it is current
    A stale result is not thrown away at once: see ``renew``
    """
    wanted = {study.name: study for study in studies}
    stale = [study for study in wanted.values() if not again and state(study) == "stale"]
    renewed = [name for name, word in renew(stale, jobs=jobs).items() if word == "renewed"]
    tasks = []
    for study in wanted.values():
        if again:
            for seed in _waiting(study):
                _part(study, seed).unlink(missing_ok=True)
        present = {} if again else {**_stored(study), **_waiting(study)}
        asked = range(study.seeds) if seeds is None else seeds
        tasks += [(study, seed) for seed in asked if seed not in present]
    computations = (joblib.delayed(_compute)(study, seed) for study, seed in tasks)
    with bar(None, "studies", total=len(tasks)) as progress:
        for name, seed, table in spread(computations, jobs, ordered=False):
            # Written by who asked: a worker on another machine has no such folder.
            _write(_part(wanted[name], seed), table.to_csv(index=False))
            progress.update()
    return renewed + [study.name for study in wanted.values() if _pack(study)]


def renew(
    studies: Iterable[Study], choose: str = "rotate", jobs: int | None = None
) -> dict[str, str]:
    """Run one stored seed of each study again; if its rows come again, the code is noted as theirs.

    choose   "rotate", by the code, since a change may spare one seed; "cheapest", which took least
    returns  {name: "renewed", "other rows", "no data" here, or the state of what cannot be renewed}
    The rows stay as they are in any case, and with them the version and machine that computed them
    """
    wanted = {study.name: study for study in studies}
    outcome = {name: state(study) for name, study in wanted.items()}
    sound = [wanted[name] for name, word in outcome.items() if word not in ("missing", "edited")]
    trials = (joblib.delayed(_try)(study, _chosen(study, choose)) for study in sound)
    with bar(None, "seeds run again", total=len(sound)) as progress:
        for name, seed, table in spread(trials, jobs, ordered=False):
            study = wanted[name]
            outcome[name] = _compared(study, seed, table)
            if outcome[name] == "renewed":
                with _lock():
                    known = about(study)
                    known["seconds"][str(seed)] = round(float(table.seconds.iloc[0]), 1)
                    verified = _verified(study, [seed], choose)
                    _note(study, known["computed"], verified, known["seconds"])
            progress.update()
    return outcome


def check(studies: Sequence[Study], budget: float = 40.0) -> list[str]:
    """What is wrong with stored results: missing, edited or stale, verdicts, rows that differ.

    budget  seconds that runs of single seeds may take together; those that cost least come first
    """
    faults, affordable = [], []
    for study in studies:
        if (word := state(study)) != "current":
            cure = {"edited": "run it with --again"}.get(word, "run it, or `make evidence`")
            faults.append(f"{study.name}: {word}; {cure}")
            continue
        try:
            read(study).told()
        except AssertionError as broken:
            faults.append(f"a sentence of the chapter does not hold: {broken}")
        if about(study)["verdicts"] != _plain(read(study)):
            faults.append(f"{study.name}: stored verdicts are not those of its rows; run it")
        seed = _chosen(study, "rotate")
        affordable.append((about(study)["seconds"][str(seed)], study.name, seed, study))
    for seconds, name, seed, study in sorted(affordable, key=lambda item: item[:2]):
        budget -= seconds
        if budget >= 0 and _compared(study, *_try(study, seed)[1:]) == "other rows":
            faults.append(f"{name}: seed {seed} gives other rows; run it with --again")
    return faults


def _chosen(study: Study, choose: str) -> int:
    """The stored seed to run again."""
    seconds = {int(seed): took for seed, took in about(study)["seconds"].items()}
    if choose == "cheapest":
        return min(seconds, key=lambda seed: (seconds[seed], seed))
    return sorted(seconds)[int(fingerprint(study), 16) % len(seconds)]


def _compute(study: Study, seed: int) -> tuple[str, int, pd.DataFrame]:
    """The rows of a seed, and the seconds that they took."""
    start = time.perf_counter()
    with one_thread():
        rows = [
            (seed, variant, metric, round(float(value), DIGITS))
            for variant, metric, value in study.rows(seed)
        ]
    seconds = time.perf_counter() - start
    return study.name, seed, pd.DataFrame(rows, columns=COLUMNS).assign(seconds=seconds)


def _try(study: Study, seed: int) -> tuple[str, int, pd.DataFrame | None]:
    try:
        return _compute(study, seed)
    except DataUnavailable:  # stored with a data set that is not on this machine
        return study.name, seed, None


def _compared(study: Study, seed: int, table: pd.DataFrame | None) -> str:
    """Are these the stored rows of a seed, but for times?"""
    if table is None:
        return "no data"
    frame = read(study).frame
    stored = frame[frame.seed == seed].reset_index(drop=True)
    if not stored[["variant", "metric"]].equals(table[["variant", "metric"]]):
        return "other rows"
    distance = (stored.value - table.value).abs()[~stored.metric.str.startswith(TIMED)]
    return "renewed" if distance.le(TOLERANCE).all() else "other rows"


def _part(study: Study, seed: int | str) -> Path:
    return folder() / "parts" / f"{study.name}-{fingerprint(study)}-{seed}.csv"


def _waiting(study: Study) -> dict[int, pd.DataFrame]:
    """Seeds that wait in parts, with their seconds."""
    tables = []
    for path in folder().glob(f"parts/{_part(study, '*').name}"):
        with contextlib.suppress(FileNotFoundError):  # another run has stored it meanwhile
            tables.append(pd.read_csv(path, keep_default_na=False))
    return {int(table.seed.iloc[0]): table for table in tables}


def _stored(study: Study) -> dict[int, pd.DataFrame]:
    """Seeds of the stored result, with their seconds, if it is this code's."""
    if state(study) not in ("current", "short"):
        return {}
    frame = read(study).frame
    seconds = {int(seed): took for seed, took in about(study)["seconds"].items()}
    return {seed: frame[frame.seed == seed].assign(seconds=seconds[seed]) for seed in seconds}


def _pack(study: Study) -> bool:
    """Join the seeds that wait with those stored before; says whether anything has changed.

    One seed has no interval: it waits in its part for others, and nothing is stored
    """
    # Under a lock, since another run may store other seeds of the same study meanwhile.
    with _lock():
        waiting, stored, known = _waiting(study), _stored(study), about(study)
        tables = dict(sorted({**stored, **waiting}.items()))
        if stored and not waiting and known["verdicts"] != _plain(read(study)):
            # Only the sentences are others: the rows, and what is known of them, stay.
            _note(study, known["computed"], known["verified"], known["seconds"])
            return True
        if not waiting or len(tables) < 2:
            return False
        # Where some rows are older, what computed them is not forgotten: `verified` has the rest.
        computed = known["computed"] if stored.keys() - waiting else _here()
        seconds = {str(s): round(float(table.seconds.iloc[0]), 1) for s, table in tables.items()}
        rows = pd.concat(tables.values())[COLUMNS]
        _write(folder() / f"{study.name}.csv", rows.to_csv(index=False))
        _note(study, computed, _verified(study, sorted(waiting), "run"), seconds)
        for seed in waiting:
            _part(study, seed).unlink(missing_ok=True)
    return True


def _lock() -> FileLock:
    (folder() / "parts").mkdir(exist_ok=True)
    return FileLock(folder() / "parts" / "lock")


def _here() -> dict[str, str]:
    """What computes now: version, machine, date."""
    processor = f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"
    torch_version = torch.__version__.partition("+")[0]
    machine = f"{processor}, torch {torch_version}, Python {platform.python_version()}"
    return {"version": __version__, "machine": machine, "date": f"{date.today()}"}


def _verified(study: Study, seeds: list[int], chosen: str) -> dict[str, Any]:
    mark, today = fingerprint(study), f"{date.today()}"
    return {"fingerprint": mark, "seeds": seeds, "chosen": chosen, "date": today}


def _note(study: Study, computed: dict, verified: dict, seconds: dict[str, float]) -> None:
    """Write what is known of the stored rows."""
    results = read(study)
    known = {
        "item": study.item,
        "protocol": {setting: list(pair) for setting, pair in study.protocol.items()},
        "verdict": results.verdict(),
        "verdicts": _plain(results),
        "computed": computed,
        "verified": verified,
        "seconds": seconds,
        "sha256": _hash(folder() / f"{study.name}.csv"),
    }
    text = json.dumps(known, indent=1, ensure_ascii=False) + "\n"
    _write(folder() / f"{study.name}.json", text)


def _plain(results: Results) -> dict[str, list[str]]:
    return {sentence: list(outcome) for sentence, outcome in results.verdicts().items()}


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_text(encoding="utf-8").encode()).hexdigest()


def _write(path: Path, text: str) -> None:
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
