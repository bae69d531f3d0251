"""Results: numbers of the paper-scale runs, kept in ``data/results``, beside the fast ones.

``make paper`` writes the files: one a chapter, with every number the chapter glues, its parameters,
the package's version and the seconds it took.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "data" / "results"


def paper_run(chapter: str) -> dict:
    """What the paper-scale run of a chapter left: values, parameters, version, seconds.

    raises  FileNotFoundError if it has not been run in this checkout (``make paper`` runs it)
    """
    path = FOLDER / f"{chapter}.json"
    if not path.exists():
        raise FileNotFoundError(f"chapter: no file {path}; `make paper` writes it")
    return json.loads(path.read_text(encoding="utf-8"))


def beside(chapter: str, now: Mapping[str, float]) -> str:
    """A table of this run's numbers beside those of the paper-scale run, one line a name.

    raises  KeyError if the paper-scale run has no number of that name
    """
    run = paper_run(chapter)
    lines = [f"{'':34s} this run  paper scale"]
    for name, value in now.items():
        lines.append(f"{name.replace('_', ' '):34s} {value:8.2f}  {run['values'][name]:11.2f}")
    seed = run["parameters"]["seed"]
    lines.append(
        f"(paper scale: fedlab_mini {run['version']}, seed {seed}, {run['seconds']} seconds)"
    )
    return "\n".join(lines)
