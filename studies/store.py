"""Store: the files of stored evidence.

``NAME.csv`` has the rows of all seeds, ``probes/NAME.csv`` those of the probe, ``NAME.json`` what
is known of them, under one hash. Below: results, telling. Above: runs (fills them), audit.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from fedlab_mini.keep.files import whole_file
from fedlab_mini.parse.checks import home

from .items import ROOT
from .results import Results
from .study import Study
from .telling import claim_of, told

Known = dict[str, Any]


def folder() -> Path:
    """The folder of results: FEDLAB_RESULTS, or ``data/results`` beside the studies.

    raises  FileNotFoundError if there is no such folder
    """
    place = home(os.environ.get("FEDLAB_RESULTS") or ROOT / "data" / "results")
    if not place.is_dir():
        raise FileNotFoundError(f"results: no folder {place}; name another in FEDLAB_RESULTS")
    return place


def about(study: Study) -> Known:
    """The record of stored rows; empty if there are none.

    item, protocol, verdict, verdicts  of the study, when they were stored
    look      seeds to look at
    blocks    blocks that confirm: number, seeds, date; past: blocks that were replaced
    asked     {question: the first block drawn after it was asked}
    computed  seeds by version, machine and date
    verified  {seed: date of the last rerun with the same rows}
    probe     settings, seconds a seed, machine and date of the stored rows of the probe
    seconds   of every seed
    sha256    of all rows and of all fields above
    """
    path = folder() / f"{study.name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def rows(study: Study) -> pd.DataFrame:
    """The stored rows of all seeds.

    raises  FileNotFoundError if there are none; it says how to make them
    """
    path = folder() / f"{study.name}.csv"
    if not path.is_file():
        cure = f"python -m studies run {study.name}"
        raise FileNotFoundError(f"{study.name}: no stored results; {cure}")
    return _table(path)


def probe_rows(study: Study) -> pd.DataFrame | None:
    """The stored rows of a study's probe, None if there are none."""
    path = _probe(study)
    return _table(path) if path.is_file() else None


def _table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values={"value": ["nan", ""]})


def _probe(study: Study) -> Path:
    return folder() / "probes" / f"{study.name}.csv"


def read(study: Study, known: Known | None = None) -> Results:
    """The stored results of a study: of all blocks that confirm, if there are any."""
    frame, known = rows(study), known or about(study)
    look = Results(study, frame[frame.seed.isin(known["look"])])
    if not known["blocks"]:
        return look
    blocks = {block["number"]: block["seeds"] for block in known["blocks"]}
    seeds = [seed for own in blocks.values() for seed in own]
    confirming = Results(study, frame[frame.seed.isin(seeds)], True, blocks, known["asked"])
    confirming.other = look
    return confirming


def state(study: Study) -> str:
    """One word: current, unconfirmed, short of seeds, edited, or missing."""
    known, path = about(study), folder() / f"{study.name}.csv"
    if not known or not path.is_file():
        return "missing"
    if known.get("sha256") != seal(study, path.read_text(encoding="utf-8"), known):
        return "edited"
    if len(known["look"]) < study.seeds:
        return "short"
    return "current" if known["blocks"] else "unconfirmed"


def seal(study: Study, text: str, known: Known) -> str:
    """One hash over the rows, the rows of the probe, and their record."""
    rest = {name: value for name, value in known.items() if name != "sha256"}
    probe = _probe(study).read_text(encoding="utf-8") if _probe(study).is_file() else ""
    sealed = text + probe + json.dumps(rest, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(sealed.encode()).hexdigest()


def questions(study: Study) -> set[str]:
    """The ids of all questions to a study now, by its claims and by chapters."""
    chapters = [claim_of(record) for record in told() if record.get("study") == study.name]
    return {claim.question for claim in (*study.claims, *chapters)}


def stood(study: Study, known: Known, block: int) -> dict[str, int]:
    """Every question that is asked now, with the first block drawn after it was asked.

    block  the number of the block that is drawn now, for new questions
    """
    asked = known.get("asked", {})
    return {each: asked.get(each, block) for each in sorted(questions(study))}


def update(study: Study) -> bool:
    """Store verdicts and protocol again if only they changed; return whether they did."""
    known = about(study)
    if not known or state(study) == "edited" or said(study, known) == said_before(known):
        return False
    note(study, rows(study), known)
    return True


def said(study: Study, known: Known) -> Known:
    """The study's description, and its verdicts on its rows, now."""
    results = read(study, known)
    return {
        "item": study.item,
        "protocol": {setting: list(pair) for setting, pair in study.protocol.items()},
        "verdict": results.verdict(),
        "verdicts": {text: [e.verdict, e.measured] for text, e in results.verdicts().items()},
    }


SAID = ("item", "protocol", "verdict", "verdicts")


def said_before(known: Known) -> Known:
    """The same, when it was stored."""
    return {name: known[name] for name in SAID}


def note(
    study: Study, frame: pd.DataFrame, known: Known, probe: pd.DataFrame | None = None
) -> None:
    """Write rows and their record under one hash; ``probe`` if its rows are new."""
    text = frame.to_csv(index=False)
    path = folder() / f"{study.name}.csv"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write(path, text)
    if probe is not None:
        _probe(study).parent.mkdir(exist_ok=True)
        write(_probe(study), probe.to_csv(index=False))
    rest = {k: v for k, v in known.items() if k not in (*SAID, "sha256")}
    known = {**said(study, known), **rest}
    known["sha256"] = seal(study, text, known)
    data = json.dumps(known, indent=1, ensure_ascii=False) + "\n"
    write(folder() / f"{study.name}.json", data)


def lock() -> FileLock:
    """Allow one writer at a time."""
    (folder() / "parts").mkdir(exist_ok=True)
    return FileLock(folder() / "parts" / "lock")


def today() -> str:
    """Today's date, as stored with results."""
    return f"{date.today()}"


def write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
