"""Telling: a sentence of the book beside its test, and its number in the text from the same call.

    gain = rounds.paired("accuracy @ 300", "FLDVE", "FedAvg", "set 2")
    tell("gain", gain, above=0)        # false: AssertionError; true: {glue:text}`gain` shows it

Every sentence is noted in the notebook's outputs; the page *How we know* counts them there.
"""

from __future__ import annotations

import math
from typing import Any

from fedlab_mini.judge.evidence import Interval

from .results import Stored
from .study import ends_of

RECORD = "application/x-sentence+json"


class Told:
    """What is glued: the text of an interval, with a record of the sentence beside it."""

    def __init__(self, text: str, record: dict[str, Any]):
        self.text, self.record = text, record

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/plain": self.text, **({RECORD: self.record} if self.record else {})}


def tell(
    key: str,
    found: Interval,
    *,
    above: float | None = None,
    below: float | None = None,
    within: tuple[float, float] | None = None,
    undecided: float | None = None,
) -> None:
    """Assert a sentence, and glue its interval under ``key``.

    above, below  the whole interval lies there     within  it lies between two numbers
    undecided     it covers this value: a difference is not shown. Then ``key_power`` is glued, too:
                  the difference that these seeds would have shown, with 80 % power
    raises        AssertionError that says what was measured; TypeError without a bound
    """
    from myst_nb import glue  # the command line does without it

    bounds = {"above": above, "below": below, "within": within, "undecided": undecided}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    if not bounds:
        raise TypeError(f"{key}: expected above, below, within or undecided; got no bound")
    if isinstance(found, Stored):
        found = found.against(ends_of(*bounds.values()))
    tests = {
        "above": above is None or found.above(above),
        "below": below is None or found.below(below),
        "within": within is None or (found.above(within[0]) and found.below(within[1])),
        "undecided": undecided is None or not (found.above(undecided) or found.below(undecided)),
    }
    if wrong := [name for name, right in tests.items() if not right]:
        raise AssertionError(f"{key}: {found} is not {wrong[0]} {bounds[wrong[0]]}")
    glue(key, Told(str(found), sentence(found, bounds)), display=False)
    if undecided is not None:
        power = found.power if isinstance(found, Stored) else (found.high - found.low) / 2
        glue(f"{key}_power", Told(f"{power:.2g}", {}), display=False)


def sentence(found: Interval, bounds: dict[str, Any]) -> dict[str, Any]:
    """The record of a sentence: what is asked of which study, and what came out."""
    relation = {name: list(b) if isinstance(b, tuple) else b for name, b in bounds.items()}
    ends = [_finite(end) for end in found[:3]]
    record = {"bounds": relation, "mean, low, high": ends, "seeds": found.n}
    if isinstance(found, Stored):
        asked = [found.study, *found.asked]
        half = "confirmed" if found.confirmed else "seen"
        return {**record, "study": found.study, "asked": asked, "half": half,
                "blocks": found.blocks, "power": _finite(found.power)}  # fmt: skip
    return {**record, "half": "live"}


def _finite(number: float) -> float | None:
    return round(number, 6) if math.isfinite(number) else None
