"""Run the chapters and compare with their stored outputs: numbers as numbers, the rest exactly.

    python tools/outputs.py [NOTEBOOK ...]

nbval runs the cells; this is its plugin. A number agrees if it is off by one unit of its last
printed place, since another processor may round the other way; numbers in one pair of brackets share
the finest place among them. Whole numbers agree if they are equal. With more than seven digits a
number is not rounded for readers: it agrees to one part in 100,000. What is below 1e-9 counts as 0.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

NUMBER = re.compile(
    r"[ \t]*((?:(?<![\w.])[-+−])?(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:e[-+]?\d+)?)(?!\w)"
)
ROUNDED, LOOSE, NOISE = 7, 1e-5, 1e-9


def value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def place(text: str) -> float:
    """One unit of the last printed place; 0 for a whole number, and for zero times a power of 10."""
    mantissa, _, power = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not (decimals or power) or (power and not value(mantissa)):
        return 0.0
    return 10.0 ** (int(power or 0) - decimals)


def places(text: str, numbers: list[re.Match[str]]) -> list[tuple[int, float]]:
    """For every number the brackets it stands in, by their count (0: in none), and its place."""
    found = []
    for number in numbers:
        before = text[: number.start(1)]
        opened, closed = before.count("["), before.count("]")
        found.append((opened + closed if opened > closed else 0, place(number[1])))
    return found


def agree(stored: str, now: str) -> bool:
    """Whether two outputs say the same."""
    (text, old), (other, new) = ((NUMBER.sub("#", t), [*NUMBER.finditer(t)]) for t in (stored, now))
    if text != other:
        return False
    both = [*zip(places(stored, old), places(now, new), strict=True)]
    finest: dict[int, float] = {}
    for box, unit in (pair for pairs in both for pair in pairs if pair[1]):
        finest[box] = min(unit, finest.get(box, unit))
    for a, b, ((box, one), (_, two)) in zip(old, new, both, strict=True):
        x, y = value(a[1]), value(b[1])
        unit = (finest[box] if box else min(filter(None, (one, two)))) if one or two else 0.0
        if min(len(re.findall(r"\d", n[1].partition("e")[0])) for n in (a, b)) > ROUNDED and unit:
            unit = max(unit, LOOSE * max(abs(x), abs(y)))
        if abs(x - y) > max(1.001 * unit, NOISE):
            return False
    return True


class Output(str):
    """An output's text, equal to another that says the same."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and agree(str(self), str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


def pytest_configure(config: pytest.Config) -> None:
    """Let nbval compare outputs in this way, and show what a cell said on stderr."""
    from nbval.plugin import IPyNbCell

    clean, compare = IPyNbCell.sanitize, IPyNbCell.compare_outputs

    def sanitize(cell: Any, shown: Any) -> Any:
        shown = clean(cell, shown)
        return Output(shown) if isinstance(shown, str) else shown

    def compare_outputs(cell: Any, now: list, stored: list, *more: Any) -> bool:
        same = compare(cell, now, stored, *more)
        if not same:
            cell.comparison_traceback += [x.text for x in now if x.get("name") == "stderr"]
        return same

    IPyNbCell.sanitize, IPyNbCell.compare_outputs = sanitize, compare_outputs


if __name__ == "__main__":
    options = ["-p", "outputs", "-q", "-W", "default", "--nbval", "--nbval-current-env"]
    options += ["--nbval-sanitize-with", "tests/notebooks/sanitize.cfg"]
    if len(sys.argv) > 1:
        sys.exit(pytest.main([*options, *sys.argv[1:]]))
    labs = "--ignore=notebooks/labs"  # they have checks of their own
    sys.exit(pytest.main([*options, "-n", "2", "--dist", "loadscope", labs, "notebooks"]))
