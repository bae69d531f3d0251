"""Studies: every empirical claim of the book with its protocol, its stored rows and its verdict.

``python -m studies list`` lists them. A chapter reads stored results and tests its claims:

    import studies
    from studies import tell
    rounds = studies.results("frcce-rounds")
    tell("late", rounds.interval("AUC @ 1000", "ours", "all flipped"), above=0.5)
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from .audit import check, verify
from .results import Results
from .runs import confirm, run
from .store import read, state
from .study import Claim, Study
from .telling import tell

PLUMBING = ["study", "results", "metrics", "telling", "protocols", "store", "probes", "runs"]
PLUMBING += ["audit", "items", "exact", "ledger", "ledger_views", "__main__"]
PLUMBING += ["pages", "leaderboard", "bench_findings", "disagree", "foreign"]

__all__ = ["Claim", "Results", "Study"]
__all__ += ["check", "confirm", "every", "named", "read", "results", "run", "state", "tell"]
__all__ += ["verify"]


def every() -> list[Study]:
    """All studies; each file of this folder lists its own in STUDIES, if it has any."""
    files = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    rooms = [file for file in files if file not in PLUMBING]
    modules = [importlib.import_module(f"{__name__}.{room}") for room in rooms]
    return [study for module in modules for study in getattr(module, "STUDIES", ())]


def named(name: str) -> Study:
    """The study with this name; for an unknown name, a ValueError lists all names."""
    found = {study.name: study for study in every()}
    if name not in found:
        raise ValueError(f"name: expected one of {', '.join(found)}; got {name!r}")
    return found[name]


def results(name: str) -> Results:
    """The stored results of the named study, from its confirming seeds if it has some."""
    return read(named(name))
