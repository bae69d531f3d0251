"""Store: the files of stored evidence, and the runs that fill them.

``NAME.csv`` holds the rows, ``NAME.json`` the protocol, verdicts, version, fingerprint, machine and
seconds. A run leaves one file a seed in ``parts/`` until all seeds are there; a run that was killed
goes on with the missing ones.
Above: __main__. Below: study, code.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch

from fedlab_mini.engine.checkpoint import whole_file
from fedlab_mini.engine.model import one_thread
from fedlab_mini.engine.progress import bar
from fedlab_mini.engine.sweep import spread
from fedlab_mini.worlds.data import DataUnavailable

from .code import fingerprint
from .study import COLUMNS, Results, Row, Study

PLACES = ("data/results", "../data/results", "../../data/results")
DIGITS = 6  # of the stored values, after the point


def folder() -> Path:
    """Where results lie: FEDLAB_RESULTS, or data/results of the book, seen from its folders.

    raises  FileNotFoundError if there is no such folder
    """
    own = os.environ.get("FEDLAB_RESULTS")
    for place in [own] if own else PLACES:
        if Path(place).is_dir():
            return Path(place)
    raise FileNotFoundError(
        "results: no folder data/results here; work in the book's folder, or name a folder in "
        "FEDLAB_RESULTS"
    )


def read(study: Study) -> Results:
    """The stored results of a study.

    raises  FileNotFoundError if there are none, and says how they are made
    """
    path = folder() / f"{study.name}.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"{study.name}: no stored results; python -m studies run {study.name}"
        )
    return Results(study, pd.read_csv(path, keep_default_na=False, na_values=["nan"]))


def about(study: Study) -> dict[str, Any]:
    """What is known of a stored result; empty if there is none."""
    path = folder() / f"{study.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def state(study: Study) -> str:
    """One word: current, stale (older than its code), short (of seeds), edited, or missing."""
    told = about(study)
    path = folder() / f"{study.name}.csv"
    if not told or not path.is_file():
        return "missing"
    if told["sha256"] != _hash(path):
        return "edited"
    if told["fingerprint"] != fingerprint(study):
        return "stale"
    return "short" if len(told["seconds"]) < study.seeds else "current"


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
    A stale result is not thrown away at once: where its first seed gives the stored rows again, the
    code has changed but not what it computes, and only the fingerprint is renewed
    """
    tasks, wanted, stored = [], {}, []
    for study in studies:
        now = state(study)
        if now == "stale" and not again and _same(study):
            _store(study, read(study).frame, about(study)["seconds"], fingerprint(study))
            stored.append(study.name)
            now = state(study)
        numbers = list(range(study.seeds) if seeds is None else seeds)
        mark = fingerprint(study)
        if again:
            for path in _parts(study, mark):
                path.unlink()
        elif now in ("current", "short"):
            numbers = [s for s in numbers if str(s) not in about(study)["seconds"]]
            if numbers:
                _unpack(study)
        wanted[study.name] = (study, mark)
        if now != "current" or again or any(_parts(study, mark)):
            tasks += [(study, s, mark) for s in numbers if not _part(study, s, mark).is_file()]
    work = (joblib.delayed(_one)(study, seed, mark) for study, seed, mark in tasks)
    with bar(None, "studies", total=len(tasks)) as seen:
        for name, seed, mark, text in spread(work, jobs, ordered=False):
            _write(_part(wanted[name][0], seed, mark), text)
            seen.update()
    for study, mark in wanted.values():
        if any(_parts(study, mark)) and _pack(study, mark):
            stored.append(study.name)
    return list(dict.fromkeys(stored))


def check(studies: Sequence[Study], budget: float = 40.0) -> list[str]:
    """What is wrong with stored results: missing, edited or stale, verdicts, rows that differ.

    budget  seconds that runs of single seeds may take together; those that cost least come first
    """
    found, cheap = [], []
    for study in studies:
        now = state(study)
        if now != "current":
            cure = {"edited": "run it with --again"}.get(now, "run it, or `make evidence`")
            found.append(f"{study.name}: {now}; {cure}")
            continue
        try:
            read(study).told()
        except AssertionError as broken:
            found.append(f"a sentence of the chapter does not hold: {broken}")
        told = about(study)
        if told["verdicts"] != _plain(read(study).verdicts()):
            found.append(f"{study.name}: stored verdicts are not those of its rows; run it again")
        cheap.append((min(told["seconds"].values()), study.name, study))
    for seconds, name, study in sorted(cheap, key=lambda item: item[:2]):
        budget -= seconds
        if budget < 0:
            break
        try:
            same = _same(study)
        except DataUnavailable:  # stored with a data set that is not on this machine
            continue
        if not same:
            found.append(f"{name}: a seed gives other rows than are stored; run it with --again")
    return found


def _same(study: Study) -> bool:
    """Does the cheapest seed give the stored rows again? What is named "seconds..." or "MiB..." may
    differ."""
    seconds = about(study)["seconds"]
    seed = min(seconds, key=lambda s: (seconds[s], int(s)))
    frame = read(study).frame
    old = frame[frame.seed == int(seed)].reset_index(drop=True)
    with one_thread():
        new = _frame(int(seed), study.rows(int(seed)))
    alike = list(old.variant) == list(new.variant) and list(old.metric) == list(new.metric)
    exact = ~old.metric.str.startswith(("seconds", "MiB"))
    return alike and bool((old.value - new.value)[exact].abs().le(1e-4).all())


def _one(study: Study, seed: int, mark: str) -> tuple[str, int, str, str]:
    start = time.perf_counter()
    with one_thread():
        frame = _frame(seed, study.rows(seed))
    frame["seconds"] = time.perf_counter() - start
    return study.name, seed, mark, frame.to_csv(index=False)  # who asked has the folder


def _frame(seed: int, rows: Iterable[Row]) -> pd.DataFrame:
    data = [(seed, variant, metric, round(float(value), DIGITS)) for variant, metric, value in rows]
    return pd.DataFrame(data, columns=COLUMNS)


def _part(study: Study, seed: int, mark: str) -> Path:
    return folder() / "parts" / f"{study.name}-{mark}-{seed}.csv"


def _unpack(study: Study) -> None:
    """Stored seeds as parts, where there are none of these seeds."""
    told, frame = about(study), read(study).frame
    for seed, seconds in told["seconds"].items():
        rows = frame[frame.seed == int(seed)].assign(seconds=seconds)
        if not (path := _part(study, int(seed), told["fingerprint"])).is_file():
            _write(path, rows.to_csv(index=False))


def _parts(study: Study, mark: str) -> list[Path]:
    return list((folder() / "parts").glob(f"{study.name}-{mark}-*.csv"))


def _pack(study: Study, mark: str) -> bool:
    """All parts that the code of this mark made, and the seeds stored before, as stored files.

    One seed has no interval: it waits in its part for others, and nothing is stored
    """
    if state(study) in ("current", "short") and about(study)["fingerprint"] == mark:
        _unpack(study)  # also what another run has stored meanwhile
    if len(paths := _parts(study, mark)) < 2:
        return False
    frames = sorted((pd.read_csv(path, keep_default_na=False) for path in paths), key=_seed)
    seconds = {str(_seed(frame)): round(float(frame.seconds.iloc[0]), 1) for frame in frames}
    _store(study, pd.concat(frames)[COLUMNS], seconds, mark)
    for path in paths:
        path.unlink()
    return True


def _seed(frame: pd.DataFrame) -> int:
    return int(frame.seed.iloc[0])


def _store(study: Study, frame: pd.DataFrame, seconds: Mapping[str, float], mark: str) -> None:
    from fedlab_mini import __version__

    path = folder() / f"{study.name}.csv"
    _write(path, frame.to_csv(index=False))
    results = Results(study, frame)
    told = {
        "item": study.item,
        "protocol": {k: list(v) for k, v in study.protocol.items()},
        "verdict": results.verdict(),
        "verdicts": _plain(results.verdicts()),
        "version": __version__,
        "fingerprint": mark,
        "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"torch {torch.__version__.partition('+')[0]}, Python {platform.python_version()}",
        "seconds": dict(seconds),
        "sha256": _hash(path),
    }
    _write(path.with_suffix(".json"), json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _plain(verdicts: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    return {sentence: list(found) for sentence, found in verdicts.items()}


def _hash(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, text: str) -> None:
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
