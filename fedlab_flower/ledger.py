"""Ledger: what each node sent and its scores, in a file of JSON lines, one line per round.

Every line holds the SHA-256 of the previous line, which reveals a line that was changed, lost or
moved. ``pandas.read_json(path, lines=True)`` reads it. Used by standing and scored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlab_mini.parse.checks import home, shown

from .messages import LOGGER

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Entry:
    """One round: m nodes with a usable reply, in the order of their ids, and the other nodes.

    size     [m] samples that a node says it holds; norm [m] lengths of the updates
    scores   {score: [m]}, for this round only; reply [m] SHA-256 of a reply's arrays
    missing  {node: why}, for nodes that were asked but sent nothing usable
    before   SHA-256 of the previous line, as Scored wrote it; "" in the first line
    time     when the line was written, UTC, ISO 8601: 2026-05-04T09:30:00+00:00; "" before 3.0
    """

    round: int
    node: list[str]
    size: list[int]
    norm: list[float]
    scores: dict[str, list[float]]
    reply: list[str]
    missing: dict[str, str]
    before: str
    time: str = ""


def entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """The rounds of a ledger, each checked; ValueError naming the first wrong line.

    If the last line is lost or changed, nothing reveals it, because no line holds its hash yet
    """
    before, entry = "", None
    with open(home(path), "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = Entry(**json.loads(line))
            except (ValueError, TypeError):
                entry = None
            if entry is None or not line.endswith(b"\n"):
                raise ValueError(f"{path}, line {number}: not a round, got {shown(line)}")
            if entry.round != number:
                why = f"holds round {entry.round}; a line was lost or moved"
                raise ValueError(f"{path}, line {number}: {why}")
            if entry.before != before:
                why = f"was changed, as line {number} does not hold its hash"
                raise ValueError(f"{path}, line {max(1, number - 1)}: {why}")
            before = _sha256(line)
            yield entry


def table(path: str | os.PathLike[str]) -> pandas.DataFrame:
    """A ledger as a tidy table, after a check: a row per round and node, a column per score.

    The times are pandas' own, in UTC
    raises  ValueError naming the line that was changed, lost or moved
    """
    import pandas  # here, since it takes a second to import

    rows = []
    for entry in entries(path):
        columns = {"node": entry.node, "size": entry.size, "norm": entry.norm}
        columns |= entry.scores | {"reply": entry.reply}
        sent = pandas.DataFrame(columns)
        silent = pandas.DataFrame(entry.missing.items(), columns=["node", "missing"])
        # A round in which nobody sent anything has no rows in ``sent``.
        parts = [part.assign(round=entry.round, time=entry.time) for part in (sent, silent)]
        rows += [part for part in parts if len(part)]
    if not rows:
        return pandas.DataFrame()
    whole = pandas.concat(rows, ignore_index=True)
    return whole.assign(time=pandas.to_datetime(whole["time"], utc=True))


class Ledger:
    """The writer of a ledger; it continues an existing one after the last round.

    path     its file; methods  names of the scores
    raises   ValueError naming a wrong line, or if the ledger holds other scores
    """

    def __init__(self, path: str | os.PathLike[str], methods: Sequence[str]):
        # An absolute path, because a server may change its folder while it runs.
        self.path, self.methods = Path(os.path.abspath(home(path))), tuple(methods)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            LOGGER.warning("ledger %s: half a line is cut off", self.path)
            os.truncate(self.path, content.rfind(b"\n") + 1)
        self.past = list(entries(self.path))
        self.rounds, lines = len(self.past), self.path.read_bytes().splitlines(True)
        self.last = _sha256(lines[-1]) if lines else ""
        if self.past and tuple(self.past[-1].scores) != self.methods:
            held = ", ".join(self.past[-1].scores)
            raise ValueError(f"ledger: {path} holds {held}; give these, or another file")

    def append(self, **fields: Any) -> Entry:
        """Add the next round, with the fields of ``Entry``; it is on the disk when this returns.

        raises  ValueError for numbers that are not finite; OSError naming the file, unchanged
        """
        entry = Entry(round=self.rounds + 1, before=self.last, time=now(), **fields)
        line = json.dumps(asdict(entry), allow_nan=False).encode() + b"\n"
        end = self.path.stat().st_size
        try:
            with open(self.path, "ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # Nothing could be appended after half a line, which a full disk may leave.
            os.truncate(self.path, end)
            raise OSError(f"ledger: cannot write {self.path} ({error})") from error
        self.rounds, self.last = entry.round, _sha256(line)
        return entry


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sha256(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
