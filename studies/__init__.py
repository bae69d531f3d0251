"""Studies: every empirical claim of the book with its protocol, its stored rows and its verdict.

``python -m studies list`` says what there is. A chapter reads stored results:

    import studies
    rounds = studies.results("frcce-rounds")
    rounds.interval("AUC @ 1000", "ours"), rounds.figure(), rounds.judged()
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from .store import check, read, renew, run, state
from .study import Claim, Results, Study

PLUMBING = ("study", "claims", "protocols", "store", "code", "__main__")

__all__ = ["Claim", "Results", "Study"]
__all__ += ["check", "every", "named", "read", "renew", "results", "run", "state"]


def every() -> list[Study]:
    """All studies: a file of this folder says which it has in STUDIES, or has none."""
    files = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    modules = [importlib.import_module(f"{__name__}.{f}") for f in files if f not in PLUMBING]
    return [study for module in modules for study in getattr(module, "STUDIES", ())]


def named(name: str) -> Study:
    """The study of a name; raises ValueError that lists all names."""
    found = {study.name: study for study in every()}
    if name not in found:
        raise ValueError(f"name: expected one of {', '.join(found)}; got {name!r}")
    return found[name]


def results(name: str) -> Results:
    """The stored results of a study, by its name."""
    return read(named(name))
