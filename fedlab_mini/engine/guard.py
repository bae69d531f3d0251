"""Contract: what a strategy of one's own owes a training, checked where it is first broken.

Each message names the class and says what to write; the page "Bring your own" has a template.
Below: checkpoint. Above: loop.
"""

from __future__ import annotations

import copy
import dataclasses
from operator import attrgetter
from typing import Any

from . import checkpoint as files


def begun(strategy: Any) -> None:
    """After ``start``: constructor and start of the base have run; TypeError otherwise."""
    kind = type(strategy).__name__
    if dataclasses.is_dataclass(strategy):
        lacking = [f.name for f in dataclasses.fields(strategy) if f.name not in vars(strategy)]
        if lacking:
            raise TypeError(
                f"{kind}: its __init__ leaves {', '.join(lacking)} unset; "
                "write super().__init__() as its first line"
            )
    for name in getattr(strategy, "KEPT", ()):
        try:
            attrgetter(name)(strategy)
        except AttributeError:
            raise TypeError(
                f"{kind}: {name} is named in KEPT and not set by start; write "
                "super().start(server) as the first line of start, and set there what KEPT names"
            ) from None


def recorded(strategy: Any, before: int | None, t: int) -> None:
    """After ``aggregate``: it has called ``record``; ``before``: rounds counted until then."""
    if before is not None and strategy.rounds == before and not strategy.applied.any():
        raise ValueError(
            f"round {t}: {type(strategy).__name__}.aggregate notes no weights and no scores; "
            "write self.record(round, weights, scores) before it returns"
        )


def remembers(strategy: Any, fresh: Any) -> None:
    """Before a checkpoint: its state restores all that training has changed, or ValueError.

    fresh  a copy from before round 1. Attributes whose names begin with "_" may be lost
    """
    twin, kind = copy.copy(fresh), type(strategy).__name__
    twin.load_state_dict(strategy.state_dict())
    lost = [
        name
        for name, value in vars(strategy).items()
        if name != "applied"
        and not name.startswith("_")  # ``train`` sets it in every round
        and files.fingerprint(value) != files.fingerprint(vars(twin).get(name))
    ]
    if lost:
        base = type(strategy).__bases__[0].__name__
        names = "".join(f', "{name}"' for name in lost)
        kept = hasattr(strategy, "KEPT")
        write = f"KEPT = (*{base}.KEPT{names}) in the class" if kept else "them into state_dict"
        raise ValueError(
            f"{kind}: a resumed training would have lost {', '.join(lost)}; write {write}, for "
            "tensors and numbers that start sets, or begin the names of what may be lost with _"
        )
