"""Interleaved measurements: A B A B ..., CPU time, medians of paired ratios.

A shared machine is noisy, and the noise changes slowly. Two consecutive runs have nearly
the same noise, so their ratio is steadier than either time.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Side = Callable[[], float]  # runs the work once; returns CPU seconds


@dataclass(frozen=True)
class Result:
    """One line of the table: a figure, measured several times, and its target if it has one.

    values    the measured figures, one per repetition
    target    the wanted figure, or None if the figure is only for information
    at_most   the target is an upper limit (memory), not a lower one (ratios)
    unit      what the figure counts: "x" for ratios
    """

    benchmark: str
    what: str
    values: tuple[float, ...]
    target: float | None = None
    at_most: bool = False
    unit: str = "x"

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """Whether the median meets the target: "met", "missed", or empty without a target."""
        if self.target is None:
            return ""
        within = self.median <= self.target if self.at_most else self.median >= self.target
        return "met" if within else "missed"

    def __str__(self) -> str:
        low, high = min(self.values), max(self.values)
        return f"{self.median:.3g} ({low:.3g}-{high:.3g}) {self.unit}"


def cpu(work: Callable[[], object], times: int = 1) -> Side:
    """A side that repeats the work ``times`` times; returns this process's CPU seconds."""

    def side() -> float:
        began = time.process_time()
        for _ in range(times):
            work()
        return time.process_time() - began

    return side


def interleave(sides: dict[str, Side], repetitions: int) -> dict[str, list[float]]:
    """CPU seconds of every side, in turns, after one warm-up turn that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repetitions + 1):
        for name, side in sides.items():
            taken = side()
            if turn:
                seconds[name].append(taken)
    return seconds


def ratios(slow: list[float], fast: list[float]) -> tuple[float, ...]:
    """How many times less CPU the second side took, turn by turn."""
    return tuple(s / f for s, f in zip(slow, fast, strict=True))


def table(results: list[Result]) -> str:
    """The results as a Markdown table."""
    lines = ["| benchmark | what | target | median (lowest-highest) | |", "|---|---|---|---|---|"]
    for r in results:
        sign = "at most" if r.at_most else "at least"
        target = "" if r.target is None else f"{sign} {r.target:g} {r.unit}"
        lines.append(f"| {r.benchmark} | {r.what} | {target} | {r} | {r.verdict} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor as the system names it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if names:
            return f"{len(names)} x {names[0].split(':', 1)[1].strip()}"
    return platform.processor() or platform.machine()
