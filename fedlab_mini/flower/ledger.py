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

from ..checks import shown, text, whole
from . import keys
from .records import LOGGER

if TYPE_CHECKING:
    import pandas

FORMAT = "fedlab-mini 1"
SIGNATURE = b',"signature":'  # the signature covers what stands before it in its line
END = b'"}\n'
SHORTEST = 16  # digits of an anchor's hash


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
        self, path: str | os.PathLike, *, key: str | None = None, anchor: str | None = None
    ):
        self.path, self.anchor = Path(path), _parsed_anchor(anchor)
        self.t, self.end, self.loose = 0, 0, False
        with open(self.path, "rb") as file:
            line = file.readline()
        head = self._parsed(line)
        methods: Any = head.get("methods")
        texts = isinstance(methods, list) and all(isinstance(name, str) for name in methods)
        if head.get("ledger") != FORMAT or not texts:
            raise self._wrong(f"expected the head of a ledger ({FORMAT})")
        self.methods, self.key = tuple(methods), str(head.get("key"))
        self.fingerprint = keys.fingerprint(self.key)
        if key is not None and text("key", key).lower() != self.fingerprint:
            raise self._wrong(f"the key is {self.fingerprint}, not {key}")
        self._passed(line)

    def entries(self) -> Iterator[Entry]:
        """The rounds that were not read yet, each checked."""
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size < self.end:
                raise ValueError(f"{self.path}: shorter than it was, at round {self.t}: cut")
            file.seek(self.end)
            for line in file:
                self.loose = not line.endswith(b"\n")
                if self.loose:
                    return
                self.t += 1
                entry = self._entry(line)
                self._passed(line)
                yield entry

    def finish(self) -> None:
        """ValueError if the last line is not whole, or the ledger ends before its anchor."""
        if self.loose:
            self.t += 1
            raise self._wrong("the line is not whole: the server was killed, or it was cut")
        if self.anchor and self.anchor[0] > self.t:
            anchored = self.anchor[0]
            raise ValueError(f"{self.path}: ends with round {self.t}, not with {anchored}: cut")

    def _entry(self, line: bytes) -> Entry:
        content = _content(line)
        fields = self._parsed(content + b"}")  # what stands behind the signature says nothing
        if fields.get("before") != self.last or fields.get("round") != self.t:
            raise self._wrong("it does not follow the line before; one of the two was changed")
        signature = line[len(content) + len(SIGNATURE) + 1 : -len(END)]
        same = line == content + SIGNATURE + b'"' + signature + END
        hashed = digest(content).encode()
        if not same or not keys.signed(self.key, signature.decode("latin-1"), hashed):
            raise self._wrong("the signature does not fit: the line was changed")
        names = ("node", "size", "norm", "reply", "scores", "missing")
        found: list[Any] = [fields.get(name) for name in names]
        nodes, sizes, norms, replies, scores, missing = found
        try:
            columns = [nodes, sizes, norms, replies, *map(scores.get, self.methods)]
            whole_columns = {len(column) for column in columns} == {len(nodes)}
        except (AttributeError, TypeError):
            whole_columns = False
        if not whole_columns or not isinstance(missing, dict) or len(scores) != len(self.methods):
            raise self._wrong("expected a place per node in every column, and every score")
        return Entry(self.t, nodes, sizes, norms, scores, replies, missing)

    def _passed(self, line: bytes) -> None:
        self.end += len(line)
        self.last = digest(_content(line))
        if self.anchor and self.anchor[0] == self.t and not self.last.startswith(self.anchor[1]):
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
        self.path, self.methods = Path(os.path.abspath(path)), tuple(methods)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        own_key = self.path.with_name(self.path.name + ".key")
        self.key = keys.load(own_key, make=True) if key is None else keys.load(Path(key))
        public_key = keys.public(self.key)
        self.end = 0
        if not self.path.exists() or not self.path.stat().st_size:
            head = {"ledger": FORMAT, "methods": self.methods, "key": public_key}
            self._write(json.dumps(head).encode() + b"\n")
        self.past = Reader(self.path)
        if self.past.methods != self.methods:
            held = ", ".join(self.past.methods)
            raise ValueError(
                f"ledger: {self.path} holds {held}; give these methods or another file"
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
        total = sum(entry.sizes)
        scores = {name: _numbers(name, column) for name, column in entry.scores.items()}
        fields = {
            "round": str(entry.t),
            "time": json.dumps(datetime.now(UTC).isoformat(timespec="seconds")),
            "node": json.dumps(entry.nodes),
            "size": json.dumps(entry.sizes),
            "weight": _numbers("weight", [size / total for size in entry.sizes]),
            "norm": _numbers("norm", entry.norms),
            "scores": _object(scores),
            "reply": json.dumps(entry.replies),
            "missing": json.dumps(entry.missing),
            "before": json.dumps(self.past.last),
        }
        content = _object(fields)[:-1].encode()
        signature = keys.sign(self.key, digest(content).encode())
        self._write(content + SIGNATURE + b'"' + signature.encode() + END)
        self.past.t, self.past.end, self.past.last = entry.t, self.end, digest(content)

    def _write(self, line: bytes) -> None:
        """Append all of it, or nothing."""
        opener = lambda path, flags: os.open(path, flags, 0o600)  # noqa: E731
        try:
            with open(self.path, "ab", buffering=0, opener=opener) as file:
                if (size := os.fstat(file.fileno()).st_size) != self.end:
                    raise ValueError(f"ledger: {self.path} has {size} bytes, not {self.end}")
                try:
                    left = memoryview(line)
                    while left:
                        left = left[file.write(left) :]
                    os.fsync(file.fileno())
                except OSError:
                    os.ftruncate(file.fileno(), self.end)
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

    reader, parts = Reader(path, key=key, anchor=anchor), []
    for entry in reader.entries():
        columns = {"node": entry.nodes, "size": entry.sizes, "norm": entry.norms}
        there = pandas.DataFrame(columns | dict(entry.scores) | {"reply": entry.replies})
        there.insert(2, "weight", there["size"] / there["size"].sum())
        absent = pandas.DataFrame(list(entry.missing.items()), columns=["node", "missing"])
        whole_round = pandas.concat([there, absent])
        whole_round.insert(0, "round", entry.t)
        parts.append(whole_round)
    reader.finish()
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame()


def digest(content: bytes) -> str:
    """SHA-256 of what a line says: what its signature signs, and what the next line holds."""
    return hashlib.sha256(content).hexdigest()


def _content(line: bytes) -> bytes:
    """A line without its signature; the first has none."""
    end = line.rfind(SIGNATURE)
    return line if end < 0 else line[:end]


def _object(fields: Mapping[str, str]) -> str:
    """A JSON object from texts that are JSON."""
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items()) + "}"


def _numbers(name: str, values: Sequence[float]) -> str:
    """A column as JSON, read back to the last bit; three times as fast as ``json.dumps``."""
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{name}: holds NaN or infinite values")
    return "[" + ("%.17g," * len(values) % tuple(values))[:-1] + "]"


def _parsed_anchor(anchor: str | None) -> tuple[int, str] | None:
    if anchor is None:
        return None
    t, _, hashed = text("anchor", anchor).partition(":")
    if not t.isdecimal() or len(hashed) < SHORTEST:
        raise ValueError(f"anchor: expected ROUND:HASH from the log, got {shown(anchor)}")
    return int(t), hashed.lower()
