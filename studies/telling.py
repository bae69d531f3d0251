"""Telling: one call tests a claim of the book and gives the text its number.

    gain = rounds.paired("accuracy @ 300", "FLDVE", "FedAvg", "set 2")
    tell("gain", gain, above=0)        # false: AssertionError; true: {glue:text}`gain` shows it

Every claim is recorded in the notebook's outputs, where ``told`` reads it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from fedlab_mini.judge.evidence import Interval

from .items import ROOT
from .results import ALIKE, HOLDS, Stored, word_of
from .study import Claim

SUFFIX = "x-sentence+json"


class Told:
    """A glued value: the text of an interval with the record of its claim."""

    def __init__(self, text: str, record: dict[str, Any]):
        self.text, self.record = text, record

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        more = {f"application/{SUFFIX}": self.record} if self.record else {}
        return {"text/plain": self.text, **more}


def tell(
    key: str,
    found: Interval,
    *,
    above: float | None = None,
    below: float | None = None,
    within: tuple[float, float] | None = None,
    undecided: float | None = None,
) -> None:
    """Assert a claim, and glue its interval under ``key``.

    above, below  the whole interval lies there     within  it lies between two numbers
    undecided     it contains this value: no difference is shown. Then ``key_power`` is glued, too:
                  the difference that was detectable with 80 % power
    raises        AssertionError that says what was measured; TypeError without a bound
    """
    from myst_nb import glue  # the command line does not need it

    given = {"above": above, "below": below, "within": within, "undecided": undecided}
    bounds: dict[str, Any] = {name: bound for name, bound in given.items() if bound is not None}
    if len(bounds) != 1 and set(bounds) != {"above", "below"}:
        got = ", ".join(bounds) or "no bound"
        raise TypeError(f"{key}: expected above, below, within or undecided; got {got}")
    if isinstance(found, Stored):
        found = found.against(Claim.told(key, found.asked, **bounds).question)
    record = sentence(found, bounds)
    if not true(record, found):
        said = " and ".join(f"{name} {bound}" for name, bound in bounds.items())
        raise AssertionError(
            f"this run does not show what the text says of {key}: {found} is not {said}"
        )
    glue(key, Told(str(found), record), display=False)
    if undecided is not None:
        power = found.power if isinstance(found, Stored) else (found.high - found.low) / 2
        glue(f"{key}_power", Told(f"{power:.2g}", {}), display=False)


def sentence(found: Interval, bounds: dict[str, Any]) -> dict[str, Any]:
    """The record of a claim: the question, the study, and the outcome."""
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


def claim_of(record: Mapping[str, Any]) -> Claim:
    """The claim of a tested text, from its record; a live run does not record its question."""
    asked = record.get("asked", ("", ""))[1:]
    return Claim.told(record.get("key", ""), asked, **record["bounds"])


def true(record: Mapping[str, Any], found: Interval) -> bool:
    """Whether an interval lies within the claim's bounds."""
    return word_of(claim_of(record), found) in (HOLDS, ALIKE)


def told() -> Iterator[dict[str, Any]]:
    """Every claim of the book that a notebook has recorded: its record, chapter and key."""
    folder = ROOT / "notebooks"
    for path in [*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("evidence/*.ipynb"))]:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                key = output.get("metadata", {}).get("scrapbook", {}).get("name")
                for kind, record in output.get("data", {}).items():
                    if kind.endswith(SUFFIX):
                        yield {"chapter": path.stem, "key": key, **record}
