"""Metrics: the range of every metric that a study stores, declared once in ``metrics.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")
COUNT = "count"  # 0 or 1 per seed


@cache
def declared() -> dict[str, list[float] | str]:
    """Name -> [low, high], or "count"."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def base(metric: str, study: str = "") -> str:
    """The name without its place: "AUC" of "AUC @ 100"; with the study where that is declared.

    raises  KeyError for a metric whose range is not declared
    """
    name = metric.partition(" @ ")[0]
    if name not in declared():
        raise KeyError(f"metric: {name!r} has no range in {FILE.name}")
    own = f"{name}, {study}"
    return own if own in declared() else name


def span(metric: str, study: str = "") -> tuple[float, float]:
    """The lowest and the highest value that a metric can take in a study; infinite: no end."""
    told = declared()[base(metric, study)]
    low, high = (0, 1) if isinstance(told, str) else told
    return float(low), float(high)


def is_count(metric: str) -> bool:
    """Is a metric 1 where something is true of a seed, and 0 where not?"""
    return declared()[base(metric)] == COUNT
