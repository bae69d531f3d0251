"""Ledger: what each node sent and what it was worth, in a file that is only appended to.

A line per round, with a column per score and a place in each column per node. Every line holds the
hash of the line before and is signed with the server's key. Below: keys. Above: standing, scored.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlab_mini.checks import home, shown, text, whole

from . import keys
from .records import LOGGER

if TYPE_CHECKING:
    import pandas

FORMAT = "fedlab-mini 1"
SIGNATURE = b',"signature":'  # the signature covers what stands before it in its line
LINE_END = b'"}\n'
SHORTEST_HASH = 16  # digits of an anchor's hash


@dataclass(frozen=True)
class Entry:
    """One round: m nodes with a usable reply, in the order of their ids, and those without.

    sizes    [m] samples that a node says it holds; norms [m] lengths of the updates
    scores   {score: [m]}, what this round alone says; replies [m] SHA-256 of a reply's arrays
    missing  {node: why} of those that were asked and sent nothing usable
    """

    t: int
    nodes: Sequence[str]
    sizes: Sequence[int]
    norms: Sequence[float]
    scores: Mapping[str, Sequence[float]]
    replies: Sequence[str]
    missing: Mapping[str, str] = field(default_factory=dict)


class Reader:
    """Reads a ledger from its start, refuses what was changed, and goes on as the file grows.

    key     fingerprint of the server's key, from its log; None: the ledger's own word is taken
    anchor  ROUND:HASH from the server's log, noted elsewhere. Without one no reader can tell that
            the last rounds were cut off, or that the key's owner has written all of it anew
    raises  ValueError naming the line; OSError if there is no such file

    ``methods`` names the scores; ``end`` bytes and ``t`` rounds were read, the last line's hash is
    ``last``; ``loose``: whether an unfinished line follows
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        key: str | None = None,
        anchor: str | None = None,
    ):
        self.path, self.anchor = home(path), _parsed_anchor(anchor)
        self.t, self.end, self.loose = 0, 0, False
        with open(self.path, "rb") as ledger_file:
            head_line = ledger_file.readline()
        head = self._parsed(head_line)
        methods: Any = head.get("methods")
        all_texts = isinstance(methods, list) and all(
            isinstance(name, str) for name in methods
        )
        if head.get("ledger") != FORMAT or not all_texts:
            raise self._wrong(f"expected the head of a ledger ({FORMAT})")
        self.methods, self.key = tuple(methods), str(head.get("key"))
        self.fingerprint = keys.fingerprint(self.key)
        if key is not None and text("key", key).lower() != self.fingerprint:
            raise self._wrong(f"the key is {self.fingerprint}, not {key}")
        self._passed(head_line)

    def entries(self) -> Iterator[Entry]:
        """The rounds that were not read yet, each checked."""
        with open(self.path, "rb") as ledger_file:
            # What was read is not read again: that it was cut shows by the length only.
            if os.fstat(ledger_file.fileno()).st_size < self.end:
                raise ValueError(
                    f"{self.path}: shorter than it was, at round {self.t}: cut"
                )
            ledger_file.seek(self.end)
            for signed_line in ledger_file:
                # A writer may be at the last line just now: it is read next time, from its start.
                self.loose = not signed_line.endswith(b"\n")
                if self.loose:
                    return
                self.t += 1
                entry = self._entry(signed_line)
                self._passed(signed_line)
                yield entry

    def finish(self) -> None:
        """ValueError if the last line is not whole, or the ledger ends before its anchor."""
        if self.loose:
            self.t += 1
            raise self._wrong(
                "the line is not whole: the server was killed, or it was cut"
            )
        if self.anchor and self.anchor[0] > self.t:
            anchored = self.anchor[0]
            raise ValueError(
                f"{self.path}: ends with round {self.t}, not with {anchored}: cut"
            )

    def _entry(self, signed_line: bytes) -> Entry:
        signed_part = _content(signed_line)
        # JSON lets the last of two equal keys win, so a forger would add one behind the signature.
        fields = self._parsed(signed_part + b"}")
        if fields.get("before") != self.last or fields.get("round") != self.t:
            raise self._wrong(
                "it does not follow the line before; one of the two was changed"
            )
        signature = signed_line[len(signed_part) + len(SIGNATURE) + 1 : -len(LINE_END)]
        # The frame is written out again and compared: nothing can be added around a signature.
        is_canonical = (
            signed_line == signed_part + SIGNATURE + b'"' + signature + LINE_END
        )
        content_hash = digest(signed_part).encode()
        if not is_canonical or not keys.signed(
            self.key, signature.decode("latin-1"), content_hash
        ):
            raise self._wrong("the signature does not fit: the line was changed")
        field_names = ("node", "size", "norm", "reply", "scores", "missing")
        field_values: list[Any] = [fields.get(field_name) for field_name in field_names]
        nodes, sizes, norms, replies, scores, missing = field_values
        try:
            columns = [nodes, sizes, norms, replies, *map(scores.get, self.methods)]
            whole_columns = {len(column) for column in columns} == {len(nodes)}
        # Signed by a stranger's key, a field may be anything, such as a number without a length.
        except (AttributeError, TypeError):
            whole_columns = False
        if (
            not whole_columns
            or not isinstance(missing, dict)
            or len(scores) != len(self.methods)
        ):
            raise self._wrong(
                "expected a place per node in every column, and every score"
            )
        return Entry(self.t, nodes, sizes, norms, scores, replies, missing)

    def _passed(self, line: bytes) -> None:
        self.end += len(line)
        self.last = digest(_content(line))
        if (
            self.anchor
            and self.anchor[0] == self.t
            and not self.last.startswith(self.anchor[1])
        ):
            raise self._wrong("it is not the one of the anchor")

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError, RecursionError):
            raise self._wrong(f"expected JSON, got {shown(line)}") from None

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"{self.path}, line {self.t + 1}: {what}")


class Ledger:
    """The writer; of a ledger that is there it goes on after the last whole round.

    path     its file, readable by its owner only
    methods  names of the scores
    key      file with the server's private key, PEM or OpenSSH, EC or Ed25519; None: PATH.key,
             which is made if it is not there

    ``past``: the reader that has to read the rounds that are there before the first ``append``
    raises   ValueError if the ledger belongs to other scores or another key
    """

    def __init__(
        self,
        path: str | os.PathLike,
        methods: Sequence[str],
        key: str | os.PathLike | None = None,
    ):
        self.path, self.methods = Path(os.path.abspath(home(path))), tuple(methods)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        own_key = self.path.with_name(self.path.name + ".key")
        self.key = keys.load(own_key, make=True) if key is None else keys.load(home(key))
        public_key = keys.public(self.key)
        self.end = 0
        if not self.path.exists() or not self.path.stat().st_size:
            head = {"ledger": FORMAT, "methods": self.methods, "key": public_key}
            self._write(json.dumps(head).encode() + b"\n")
        self.past = Reader(self.path)
        if self.past.methods != self.methods:
            held_methods = ", ".join(self.past.methods)
            raise ValueError(
                f"ledger: {self.path} holds {held_methods}; give these methods or another file"
            )
        if self.past.key != public_key:
            raise ValueError(f"ledger: {self.path} is signed with another key")
        LOGGER.info("ledger %s, key %s", self.path, self.past.fingerprint)

    @property
    def anchor(self) -> str:
        """ROUND:HASH of the last round; noted elsewhere, it shows when rounds were cut off."""
        return f"{self.past.t}:{self.past.last}"

    def replay(self) -> Iterator[Entry]:
        """The rounds that are there; half a line, of a server that was killed, is cut off."""
        yield from self.past.entries()
        if self.past.loose:
            LOGGER.warning("ledger %s: half a line is cut off", self.path)
            os.truncate(self.path, self.past.end)
            self.past.loose = False
        self.end = self.past.end

    def append(self, entry: Entry) -> None:
        """Add the next round: on the disk when this returns.

        raises  OSError naming the ledger, which is then as it was; ValueError if another process
                has written to it, or for another round than the next
        """
        whole("t", entry.t, self.past.t + 1, self.past.t + 1)
        total_size = sum(entry.sizes)
        score_texts = {
            name: _numbers(name, column) for name, column in entry.scores.items()
        }
        fields = {
            "round": str(entry.t),
            "time": json.dumps(datetime.now(UTC).isoformat(timespec="seconds")),
            "node": json.dumps(entry.nodes),
            "size": json.dumps(entry.sizes),
            "weight": _numbers("weight", [size / total_size for size in entry.sizes]),
            "norm": _numbers("norm", entry.norms),
            "scores": _object(score_texts),
            "reply": json.dumps(entry.replies),
            "missing": json.dumps(entry.missing),
            "before": json.dumps(self.past.last),
        }
        # Without its last brace: the signature follows as one more field of the same object.
        content = _object(fields)[:-1].encode()
        signature = keys.sign(self.key, digest(content).encode())
        self._write(content + SIGNATURE + b'"' + signature.encode() + LINE_END)
        self.past.t, self.past.end, self.past.last = entry.t, self.end, digest(content)

    def _write(self, line: bytes) -> None:
        """Append all of it, or nothing."""
        opener = lambda path, flags: os.open(path, flags, 0o600)  # noqa: E731
        try:
            with open(self.path, "ab", buffering=0, opener=opener) as ledger_file:
                # Another process has written: this line would hold a hash that is not the last.
                if (file_size := os.fstat(ledger_file.fileno()).st_size) != self.end:
                    raise ValueError(
                        f"ledger: {self.path} has {file_size} bytes, not {self.end}"
                    )
                try:
                    unwritten = memoryview(line)
                    while unwritten:
                        unwritten = unwritten[ledger_file.write(unwritten) :]
                    os.fsync(ledger_file.fileno())
                except OSError:
                    # Behind half a line, as of a full disk, nothing could be appended any more.
                    os.ftruncate(ledger_file.fileno(), self.end)
                    raise
        except OSError as error:
            raise OSError(f"ledger: cannot write {self.path} ({error})") from error
        self.end += len(line)


def table(
    path: str | os.PathLike, *, key: str | None = None, anchor: str | None = None
) -> pandas.DataFrame:
    """A ledger as a tidy table: a row per round and node, a column per score.

    key, anchor  from the server's log, to check against; None: not checked
    raises       ValueError naming the line that was changed
    """
    import pandas  # here, since it takes a second to import

    reader, round_tables = Reader(path, key=key, anchor=anchor), []
    for entry in reader.entries():
        columns = {"node": entry.nodes, "size": entry.sizes, "norm": entry.norms}
        reply_rows = pandas.DataFrame(
            columns | dict(entry.scores) | {"reply": entry.replies}
        )
        reply_rows.insert(2, "weight", reply_rows["size"] / reply_rows["size"].sum())
        missing_rows = pandas.DataFrame(
            list(entry.missing.items()), columns=["node", "missing"]
        )
        round_table = pandas.concat([reply_rows, missing_rows])
        round_table.insert(0, "round", entry.t)
        round_tables.append(round_table)
    reader.finish()
    return (
        pandas.concat(round_tables, ignore_index=True)
        if round_tables
        else pandas.DataFrame()
    )


def digest(content: bytes) -> str:
    """SHA-256 of what a line says: what its signature signs, and what the next line holds."""
    return hashlib.sha256(content).hexdigest()


def _content(line: bytes) -> bytes:
    """A line without its signature; the first has none."""
    content_end = line.rfind(SIGNATURE)
    return line if content_end < 0 else line[:content_end]


def _object(fields: Mapping[str, str]) -> str:
    """A JSON object from texts that are JSON."""
    return (
        "{"
        + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items())
        + "}"
    )


def _numbers(name: str, values: Sequence[float]) -> str:
    """A column as JSON, read back to the last bit; three times as fast as ``json.dumps``."""
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{name}: holds NaN or infinite values")
    return "[" + ("%.17g," * len(values) % tuple(values))[:-1] + "]"


def _parsed_anchor(anchor: str | None) -> tuple[int, str] | None:
    if anchor is None:
        return None
    t, _, line_hash = text("anchor", anchor).partition(":")
    if not t.isdecimal() or len(line_hash) < SHORTEST_HASH:
        raise ValueError(f"anchor: expected ROUND:HASH from the log, got {shown(anchor)}")
    return int(t), line_hash.lower()
