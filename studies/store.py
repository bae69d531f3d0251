"""Store: the files of stored evidence, and the runs that fill them.

``NAME.csv`` holds the rows of all seeds, ``NAME.json`` what is known of them, under one hash. A run
leaves one file per seed in ``parts/`` until its half is whole; one that was killed goes on with the
seeds that are missing. Above: audit (is it what the code gives?).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
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

from .code import ROOT, fingerprint
from .metrics import base
from .results import Results
from .sentences import questions
from .study import COLUMNS, Study

DIGITS = 6  # of the stored values, after the point
Known = dict[str, Any]


def folder() -> Path:
    """Where results lie: the folder of FEDLAB_RESULTS, or ``data/results`` beside the studies.

    raises  FileNotFoundError if there is no such folder
    """
    place = Path(os.environ.get("FEDLAB_RESULTS") or ROOT / "data" / "results")
    if not place.is_dir():
        raise FileNotFoundError(f"results: no folder {place}; name another in FEDLAB_RESULTS")
    return place


def about(study: Study) -> Known:
    """What is known of stored rows; empty if there are none.

    item, protocol, verdict, verdicts  of the study, as they were stored
    look, blocks  seeds to look at; blocks that confirm: seeds, date, marks of the sentences that
                  stood when the block was drawn; past: blocks whose rows older code has made
    computed      which seeds were computed by which version, on what machine, when
    verified      the code's fingerprint, and which seeds that code has run, when
    seconds       of every seed
    sha256        of the rows and of all fields above
    """
    path = folder() / f"{study.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def rows(study: Study) -> pd.DataFrame:
    """The stored rows of all seeds.

    raises  FileNotFoundError if there are none, and says how they are made
    """
    name, path = study.name, folder() / f"{study.name}.csv"
    if not path.is_file():
        raise FileNotFoundError(f"{name}: no stored results; python -m studies run {name}")
    return pd.read_csv(path, keep_default_na=False, na_values={"value": ["nan"]})


def read(study: Study, half: str = "") -> Results:
    """The stored results of a study: of the last block that confirms, if there is one.

    half  "look" for the seeds to look at
    """
    frame, known = rows(study), about(study)
    look = Results(study, frame[frame.seed.isin(known["look"])])
    if half == "look" or not known["blocks"]:
        return look
    block = known["blocks"][-1]["seeds"]
    confirming = Results(study, frame[frame.seed.isin(block)], confirmed=True)
    confirming.other = look
    return confirming


def state(study: Study) -> str:
    """One word: current, unconfirmed, stale (older than its code), short, edited, or missing."""
    known, path = about(study), folder() / f"{study.name}.csv"
    if not known or not path.is_file():
        return "missing"
    if known.get("sha256") != seal(path.read_text(encoding="utf-8"), known):
        return "edited"
    if known["verified"]["fingerprint"] != fingerprint(study):
        return "stale"
    if len(known["look"]) < study.seeds:
        return "short"
    return "current" if known["blocks"] else "unconfirmed"


def seal(text: str, known: Known) -> str:
    """One hash over the rows and all that is said of them."""
    rest = {name: value for name, value in known.items() if name != "sha256"}
    sealed = text + json.dumps(rest, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(sealed.encode()).hexdigest()


def run(
    studies: Iterable[Study],
    seeds: Iterable[int] | None = None,
    jobs: int | None = None,
    again: bool = False,
) -> list[str]:
    """Compute the seeds to look at that are missing, and store them; returns the names stored.

    seeds   instead of each study's own, below 100: those that confirm have their own way
    jobs    processes side by side; None: one, or what ``joblib.parallel_config`` says
    again   do not take over what is stored, even if it is current
    raises  ValueError for a stale study: renew it, or compute it again
    """
    wanted = list(studies)
    asked = {s.name: list(range(s.seeds) if seeds is None else seeds) for s in wanted}
    return _fill(wanted, asked, jobs, again, block=None)


def confirm(
    studies: Iterable[Study], block: int = 0, jobs: int | None = None, again: bool = False
) -> list[str]:
    """Draw a block of seeds that confirm: compute it and store it; returns the names stored.

    block   1, 2, ...; 0: the one at hand, or the first that nobody has seen
    again   do not take over what is stored
    The sentences that stand now are noted with the block: only they are confirmed by it.
    """
    packed = []
    for study in studies:
        number = block or _next(about(study))
        packed += _fill([study], {study.name: study.block(number)}, jobs, again, number)
    return packed


def _next(known: Known) -> int:
    """The block at hand; a new one where those before were of older code, and seen."""
    if blocks := known.get("blocks"):
        return blocks[-1]["number"]
    return 1 + max((entry["number"] for entry in known.get("past", [])), default=0)


def _fill(
    studies: list[Study], asked: dict[str, list[int]], jobs: int | None, again: bool,
    block: int | None,
) -> list[str]:  # fmt: skip
    """Compute the seeds asked for that are neither stored nor waiting, and store what is whole."""
    tasks = []
    for study in studies:
        if state(study) in ("stale", "edited") and not again:
            cure = f"python -m studies renew {study.name}, or run it --again"
            raise ValueError(f"{study.name}: {state(study)}; {cure}")
        if again:
            for seed in asked[study.name]:
                _part(study, seed).unlink(missing_ok=True)
        present = set(waiting(study)) | (set() if again else _seeds(study))
        tasks += [(study, seed) for seed in asked[study.name] if seed not in present]
    named = {study.name: study for study in studies}
    computations = (joblib.delayed(compute)(study, seed) for study, seed in tasks)
    with bar(None, "studies", total=len(tasks)) as progress:
        for name, seed, table in spread(computations, jobs, ordered=False):
            # Written by who asked: a worker on another machine has no such folder.
            write(_part(named[name], seed), table.to_csv(index=False))
            progress.update()
    return [study.name for study in studies if _pack(study, asked[study.name], block)]


def compute(study: Study, seed: int) -> tuple[str, int, pd.DataFrame]:
    """The rows of a seed, and the seconds that they took."""
    start = time.process_time()
    with one_thread():
        table = pd.DataFrame(generated(study, seed), columns=COLUMNS)
    return study.name, seed, table.assign(seconds=time.process_time() - start)


def generated(study: Study, seed: int) -> Iterator[tuple[int, str, str, str, float]]:
    """The rows of a seed as they are stored, one by one; no metric without a range."""
    for scenario, method, metric, value in study.rows(seed):
        base(metric)
        yield seed, scenario, method, metric, round(float(value), DIGITS)


def _seeds(study: Study) -> set[int]:
    return {int(seed) for seed in about(study).get("seconds", {})}


def _part(study: Study, seed: int | str) -> Path:
    return folder() / "parts" / f"{study.name}-{fingerprint(study)}-{seed}.csv"


def waiting(study: Study) -> dict[int, pd.DataFrame]:
    """Seeds that wait in parts, with their seconds."""
    tables = []
    for path in folder().glob(f"parts/{_part(study, '*').name}"):
        with contextlib.suppress(FileNotFoundError):  # another run has stored it meanwhile
            tables.append(pd.read_csv(path, keep_default_na=False))
    return {int(table.seed.iloc[0]): table for table in tables}


def _pack(study: Study, asked: list[int], block: int | None) -> bool:
    """Join a half that is whole to what is stored; says whether anything has changed."""
    # Under a lock, since another run may store other seeds of the same study meanwhile.
    with lock():
        ready, known = waiting(study), about(study)
        stored = {} if state(study) in ("stale", "edited") else _tables(study)
        tables = {**stored, **ready}
        # One seed has no interval, and half a block confirms nothing: they wait for the others.
        if not ready or len(tables) < 2 or not set(asked) <= tables.keys():
            return update(study)
        fresh = sorted(set(ready) & set(asked))
        if not stored:
            past = known.get("past", []) + known.get("blocks", [])
            known = {"look": [], "blocks": [], "past": past, "computed": [], "seconds": {}}
        for seed in fresh:
            known["seconds"][str(seed)] = round(float(ready[seed].seconds.iloc[0]), 1)
        others = [_without(entry, fresh) for entry in known["computed"]]
        known["computed"] = [entry for entry in others if entry["seeds"]]
        known["computed"].append({"seeds": fresh, **here()})
        if block is None:
            known["look"] = sorted({*known["look"], *asked})
        else:
            earlier = [b for b in known["blocks"] if b["number"] != block]
            drawn = {"number": block, "seeds": asked, "drawn": f"{date.today()}"}
            drawn["sentences"] = sorted(questions(study))
            known["blocks"] = sorted([*earlier, drawn], key=lambda b: b["number"])
        known["verified"] = verified(study, fresh)
        kept = sorted(tables.keys() & {int(s) for s in known["seconds"]})
        note(study, pd.concat([tables[seed] for seed in kept])[COLUMNS], known)
        for seed in fresh:
            _part(study, seed).unlink(missing_ok=True)
    return True


def _tables(study: Study) -> dict[int, pd.DataFrame]:
    """The stored rows, seed by seed."""
    if state(study) == "missing":
        return {}
    return {int(seed): table for seed, table in rows(study).groupby("seed", sort=False)}


def _without(entry: Mapping[str, Any], seeds: list[int]) -> dict[str, Any]:
    return {**entry, "seeds": sorted(set(entry["seeds"]) - set(seeds))}


def update(study: Study) -> bool:
    """Store verdicts and protocol anew if only they are others; says whether they were."""
    known = about(study)
    if not known or state(study) == "edited" or said(study, known) == _said_before(known):
        return False
    note(study, rows(study), known)
    return True


def said(study: Study, known: Known) -> Known:
    """What the study says of itself and its rows now."""
    results = _half(study, known)
    return {
        "item": study.item,
        "protocol": {setting: list(pair) for setting, pair in study.protocol.items()},
        "verdict": results.verdict(),
        "verdicts": {text: list(verdict[:2]) for text, verdict in results.verdicts().items()},
    }


def _half(study: Study, known: Known, frame: pd.DataFrame | None = None) -> Results:
    frame = rows(study) if frame is None else frame
    seeds = known["blocks"][-1]["seeds"] if known["blocks"] else known["look"]
    return Results(study, frame[frame.seed.isin(seeds)], confirmed=bool(known["blocks"]))


def _said_before(known: Known) -> Known:
    return {name: known[name] for name in ("item", "protocol", "verdict", "verdicts")}


def note(study: Study, frame: pd.DataFrame, known: Known) -> None:
    """Write rows and what is known of them, under one hash."""
    text = frame.to_csv(index=False)
    path = folder() / f"{study.name}.csv"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write(path, text)
    known = {**said(study, known), **{k: v for k, v in known.items() if k not in SAID}}
    known["sha256"] = seal(text, known)
    data = json.dumps(known, indent=1, ensure_ascii=False) + "\n"
    write(folder() / f"{study.name}.json", data)


SAID = ("item", "protocol", "verdict", "verdicts", "sha256")


def lock() -> FileLock:
    """One writer at a time."""
    (folder() / "parts").mkdir(exist_ok=True)
    return FileLock(folder() / "parts" / "lock")


def here() -> dict[str, str]:
    """What computes now: version, machine, date."""
    processor = f"{platform.machine()}, {vendor()}, {torch.backends.cpu.get_cpu_capability()}"
    torch_version = torch.__version__.partition("+")[0]
    machine = f"{processor}, torch {torch_version}, Python {platform.python_version()}"
    return {"version": __version__, "machine": machine, "date": f"{date.today()}"}


def vendor() -> str:
    """Who made the processor: long trainings end alike on one kind only."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    makers = [line.partition(": ")[2] for line in lines if line.startswith("vendor_id")]
    return makers[0] if makers else platform.processor() or "unknown"


def verified(study: Study, seeds: list[int]) -> Known:
    """That the code as it is has made the rows of these seeds."""
    return {"fingerprint": fingerprint(study), "seeds": seeds, "date": f"{date.today()}"}


def write(path: Path, text: str) -> None:
    """A file as a whole or not at all."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
