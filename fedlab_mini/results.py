"""Results: numbers of the paper-scale runs, which chapters show beside those of the fast ones.

``make paper`` writes the files: one a chapter, with every number the chapter glues, its parameters,
the package's version and the seconds it took. They belong to the book, not to the package: they
are read from the folder FEDLAB_RESULTS, by default the one that a chapter finds beside its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import checks

BESIDE_THE_CHAPTERS = "../data/results"


def paper_run(chapter: str) -> dict[str, Any]:
    """What the paper-scale run of a chapter left: values, parameters, version, seconds.

    raises  FileNotFoundError if there is none (``make paper`` makes it)
    """
    name = f"{checks.instance('chapter', chapter, str, 'a name such as 04_cgsv')}.json"
    path = Path(os.environ.get("FEDLAB_RESULTS") or BESIDE_THE_CHAPTERS) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"chapter: no file {path.resolve()}; `make paper` writes it. Work in the folder of the "
            "chapters, or set FEDLAB_RESULTS to the folder that holds it"
        )
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
