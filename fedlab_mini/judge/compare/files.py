"""Files: finished cells on disk, each a table under its own checksum. Below: checkpoint."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.checkpoint import whole_file

if TYPE_CHECKING:
    import pandas

COLUMNS = ["seed", "scenario", "method", "metric", "value"]


def path_of(folder: str | os.PathLike, mark: str, seed: int) -> Path:
    """The file of one cell; the mark says all that decides its numbers but the seed."""
    return Path(folder) / f"{mark[:16]}-{seed}.csv"


def write_cell(path: Path, frame: pandas.DataFrame) -> None:
    """Write a cell, whole or not at all; the first line is the checksum of the others."""
    table = frame.to_csv(index=False, na_rep="nan")
    digest = hashlib.sha256(table.encode()).hexdigest()
    with whole_file(path) as part:
        part.write_text(f"{digest}\n{table}", encoding="utf-8", newline="")


def read_cell(path: Path, seed: int, scenario: str) -> pandas.DataFrame:
    """A cell as it was written, to the bit.

    raises  ValueError naming the file if a byte of it has changed, or if it is another's
    """
    import pandas

    digest, _, table = path.read_bytes().partition(b"\n")
    if digest != hashlib.sha256(table).hexdigest().encode():
        raise ValueError(f"folder: {path} is damaged; delete it, and its cell is computed again")
    # As words first: "NA" is a fine name of a method, and a number keeps all its digits.
    frame = pandas.read_csv(io.BytesIO(table), dtype=str, keep_default_na=False)
    frame = frame.assign(seed=frame.seed.map(int), value=frame.value.map(float))
    if set(frame.seed) != {seed} or set(frame.scenario) != {scenario}:
        raise ValueError(f"folder: {path} holds another seed or scenario; delete it")
    return frame
