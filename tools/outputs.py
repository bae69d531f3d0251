"""Run the chapters and compare with their stored outputs: numbers as numbers, the rest exactly.

    python tools/outputs.py [CHAPTER ...]      such as 02, or a path of its text or notebook

Without names: every chapter that can run here, with its solutions; `evidence` means the pages of
evidence. nbval runs the cells; this is its plugin. A number may differ by one unit of its last
printed place, because another processor may round differently; numbers in one pair of
brackets share the finest place among them. Whole numbers must be equal. A number of more than seven
digits is not rounded for readers and must agree to one part in 100,000. Below 1e-9 a number is a
rounding error and counts as 0. A glued value is compared as the text shows it; pictures are not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from nbformat import from_dict

import chapters
import glued
import reading

NUMBER = re.compile(
    r"[ \t]*((?:(?<![\w.])[-+−])?(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+)"
    r"(?:\.\d*)?(?:e[-+]?\d+)?)(?!\w)"
)
QUIET = "ignore::pytest.PytestAssertRewriteWarning"
DIGITS, LOOSE, NOISE = 7, 1e-5, 1e-9
SENTENCE = "x-sentence+json"  # the record that `studies.tell` leaves beside a number


def value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def place(text: str) -> float:
    """One unit of the last printed place; 0 for a whole number, and for 0e+00."""
    mantissa, _, power = text.partition("e")
    if power and not value(mantissa):
        return 0.0
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(power or 0) - decimals) if decimals or power else 0.0


def numbers(text: str) -> list[tuple[int, str, int]]:
    """Every number: its brackets by their count (0: none), its text, its number of digits."""
    found = []
    for number in NUMBER.finditer(text):
        opened, closed = (text.count(bracket, 0, number.start(1)) for bracket in "[]")
        digits = len(re.findall(r"\d", number[1].partition("e")[0]))
        found.append((opened + closed if opened > closed else 0, number[1], digits))
    return found


def agree(stored: str, now: str) -> bool:
    """Whether two outputs agree."""
    if NUMBER.sub("#", stored) != NUMBER.sub("#", now):
        return False
    old, new = numbers(stored), numbers(now)
    finest: dict[int, float] = {}
    for box, text, _ in [*old, *new]:
        if box and place(text):
            finest[box] = min(place(text), finest.get(box, 1.0))
    for (box, a, many), (_, b, more) in zip(old, new, strict=True):
        bound = min(filter(None, (place(a), place(b), finest.get(box))), default=0.0)
        bound *= bool(place(a) or place(b))
        if bound and min(many, more) > DIGITS:
            bound = max(bound, LOOSE * abs(value(a)))
        if abs(value(a) - value(b)) > max(1.001 * bound, NOISE):
            return False
    return True


class Output(str):
    """An output's text, equal to another text that agrees with it."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and agree(str(self), str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


def as_read(outputs: list[Any], text: str) -> list[Any]:
    """Outputs without pictures, and glued values in the forms in which the text shows them."""
    shown = [from_dict(output) for output in outputs]
    for output in shown:
        output.get("data", {}).pop("image/svg+xml", None)
        name = output.get("metadata", {}).get("scrapbook", {}).get("name")
        forms = re.findall(rf"{{glue:text}}`{re.escape(name)}(?::([^`]*))?`", text) if name else []
        for kind in output.get("data", {}) if name else ():
            if kind.endswith("text/plain"):
                found = glued.literal(output["data"][kind])
                output["data"][kind] = " ".join(format(found, form) for form in forms)
            elif kind.endswith(SENTENCE):  # its numbers are those of the text
                record = output["data"][kind]
                output["data"][kind] = f"{record.get('asked')} {record['bounds']}"
    return shown


def pytest_configure(config: pytest.Config) -> None:
    """Let nbval compare outputs in this way, and show a cell's stderr."""
    from nbval import plugin
    from nbval.plugin import IPyNbCell

    clean, compare = IPyNbCell.sanitize, IPyNbCell.compare_outputs

    def sanitize(cell: Any, shown: Any) -> Any:
        shown = clean(cell, shown)
        return Output(shown) if isinstance(shown, str) else shown

    def compare_outputs(cell: Any, now: list[Any], stored: list[Any], *more: Any) -> bool:
        text = "\n".join(other.source for other in cell.parent.nb.cells)
        same = compare(cell, as_read(now, text), as_read(stored, text), *more)
        if not same:
            cell.comparison_traceback += [x.text for x in now if x.get("name") == "stderr"]
        return same

    IPyNbCell.sanitize, IPyNbCell.compare_outputs = sanitize, compare_outputs

    start = plugin.RunningKernel

    def running(*named: Any, cwd: str, **options: Any) -> Any:
        home = chapters.NOTEBOOKS if Path(cwd).is_relative_to(reading.STORED) else cwd
        return start(*named, cwd=str(home), **options)

    plugin.RunningKernel = running


def main(names: list[str]) -> int:
    found = chapters.runnable(names)
    sources = chapters.longest_first(found if names else chapters.lessons(found))
    chapters.use_own_settings()
    options = ["-p", "outputs", "-q", "-W", "default", "-W", QUIET, "--nbval"]
    options += ["--nbval-current-env", "--nbval-sanitize-with", "tests/notebooks/sanitize.cfg"]
    options += [f"--nbval-kernel-startup-timeout={chapters.KERNEL_START}"]
    options += ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
    return pytest.main([*options, *map(str, reading.gather(sources))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
