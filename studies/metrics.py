"""Metrics: the range of every metric that a study stores, declared once in ``metrics.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")
COUNT = "count"  # 0 or 1 per seed


@cache
def declared() -> dict[str, list[float] | str]:
    """{name: [low, high], or "count"}."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def base(metric: str, study: str = "") -> str:
    """The name without its place: "AUC" of "AUC @ 100"; with the study if so declared.

    raises  KeyError for a metric whose range is not declared
    """
    name = metric.partition(" @ ")[0]
    if name not in declared():
        raise KeyError(f"metric: {name!r} has no range in {FILE.name}")
    own = f"{name}, {study}"
    return own if own in declared() else name


def span(metric: str, study: str = "") -> tuple[float, float]:
    """The lowest and the highest value of a metric in a study; infinite if it has no limit."""
    told = declared()[base(metric, study)]
    low, high = (0, 1) if isinstance(told, str) else told
    return float(low), float(high)


def is_count(metric: str) -> bool:
    """Whether a metric is 1 if something is true of a seed, and otherwise 0."""
    return declared()[base(metric)] == COUNT
