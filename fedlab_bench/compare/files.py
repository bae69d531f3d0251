"""Files: finished cells on disk, each a table under its own checksum. Below: checkpoint."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib

from fedlab_mini import __version__, checks
from fedlab_mini.engine.files import described, whole_file

if TYPE_CHECKING:
    import pandas

CELL = re.compile(r"[0-9a-f]{16}-\d+")  # how a cell's file is called
COLUMNS = ["seed", "scenario", "method", "metric", "value"]


def cell_paths(
    folder: str | os.PathLike[str] | None,
    cells: Iterable[tuple[int, str]],
    makers: Mapping[str, Callable[..., Any]],
    *work: object,
) -> dict[tuple[int, str], Path]:
    """The file of every cell, named by all that decides its numbers; without a folder, none."""
    if folder is None:
        return {}
    checks.instance("folder", folder, (str, os.PathLike), "a path")  # type: ignore[arg-type]
    # The function counts as well: a scenario may change and keep its name.
    try:
        marks = {
            scenario: joblib.hash(described((__version__, *work, scenario, make)))[:16]
            for scenario, make in makers.items()
        }
    except ValueError as error:
        raise ValueError(f"folder: {error}") from None
    return {
        (seed, scenario): checks.home(folder) / f"{marks[scenario]}-{seed}.csv"
        for seed, scenario in cells
    }


def finished(folder: Path | None) -> list[Path]:
    """The cells of a folder, of whatever work."""
    found = [] if folder is None else sorted(folder.glob("*.csv"))
    return [path for path in found if CELL.fullmatch(path.stem)]


def write_cell(path: Path, frame: pandas.DataFrame) -> None:
    """Write a cell, whole or not at all; the first line is the checksum of the others."""
    table = frame.to_csv(index=False, na_rep="nan")
    digest = hashlib.sha256(table.encode()).hexdigest()
    with whole_file(path) as part:
        # Line ends as they are on every system, or the checksum would not fit the bytes.
        part.write_text(f"{digest}\n{table}", encoding="utf-8", newline="")


def read_cell(path: Path, seed: int, scenario: str) -> pandas.DataFrame:
    """A cell as it was written, to the bit.

    raises  ValueError naming the file if a byte of it has changed, or if it is another's
    """
    import pandas

    digest, _, table = path.read_bytes().partition(b"\n")
    if digest != hashlib.sha256(table).hexdigest().encode():
        raise ValueError(
            f"folder: {path} is damaged; delete it, and its cell is computed again"
        )
    # As words first: "NA" is a fine name of a method, and a number keeps all its digits.
    frame = pandas.read_csv(io.BytesIO(table), dtype=str, keep_default_na=False)
    frame = frame.assign(seed=frame.seed.map(int), value=frame.value.map(float))
    if set(frame.seed) != {seed} or set(frame.scenario) != {scenario}:
        raise ValueError(f"folder: {path} holds another seed or scenario; delete it")
    return frame
