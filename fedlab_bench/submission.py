"""Submission: scores of any method, as a CSV file from any language; errors name the line.

    # name: my score
    # sees: single updates
    # cost: 8 evaluations per round
    scenario,seed,client,score
    sizes,0,0,0.125

Builds on worlds.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import math
import os
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedlab_mini.keep.files import whole_file
from fedlab_mini.parse.checks import home

from .truth import HELD_OUT, PUBLIC, folders, seeds_of
from .worlds import WORLDS

COLUMNS = ("scenario", "seed", "client", "score")
# Notes that may precede the table; version is the bench's version when the score was entered.
NOTES = ("name", "sees", "cost", "source", "date", "version")
BOOKS = b"PK", b"\xd0\xcf\x11\xe0"  # the first bytes of .xlsx and .ods, and of .xls
FILLING = ",;\t "  # what a spreadsheet writes for empty cells
SEPARATORS = ",", ";", "\t"  # of columns; decimal commas only with the last two
LONGEST, LARGEST = 60, 2**25  # characters of a note, bytes of a file
Scores = Mapping[tuple[str, int], Tensor]


class Refused(ValueError):
    """A file is not a valid submission; the message names the file and, if known, the line."""


@dataclass(frozen=True)
class Submission:
    """Scores [K] of worlds and seeds, higher for a larger contribution, with notes about them.

    scores  {(scenario, seed): [K]}      notes  {one of NOTES: text}, as far as given
    """

    scores: Scores
    notes: Mapping[str, str]

    @property
    def name(self) -> str:
        """Its name in tables."""
        return self.notes["name"]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the submission to a file; Refused, without a file, if reading it would fail."""
        lines = [f"# {note}: {words}".rstrip() for note, words in self.notes.items()]
        lines.append(",".join(COLUMNS))
        for (scenario, seed), values in self.scores.items():
            name = f'"{scenario}"' if "," in scenario else scenario
            for client, score in enumerate(values.tolist()):
                # All digits, so that reading and writing a file again keeps its bytes.
                lines.append(f"{name},{seed},{client},{repr(score).removesuffix('.0')}")
        file = home(path)
        _parsed(file, lines)
        with whole_file(file) as part:
            part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_submission(path: str | os.PathLike[str]) -> Submission:
    """Read and check a file; every scenario that it names must be complete.

    raises  Refused, naming the file and the line
    """
    file = home(path)
    return _parsed(file, _text(file).splitlines())


def _parsed(file: Path, lines: Sequence[str]) -> Submission:
    notes, first = _notes(file, lines)
    found: dict[tuple[str, int], dict[int, float]] = {}
    places: dict[tuple[str, int, int], int] = {}
    for number, fields in _rows(file, lines, first):
        voice = f"{file}, line {number}"
        scenario, seed, client, score = _row(voice, fields)
        if earlier := places.get((scenario, seed, client)):
            where = f"{scenario}, seed {seed}, client {client}"
            raise Refused(f"{voice}: {where} has its score in line {earlier} already")
        places[scenario, seed, client] = number
        found.setdefault((scenario, seed), {})[client] = score
    if not found:
        raise Refused(f"{file}: expected rows below the header {','.join(COLUMNS)}, got none")
    _check_whole(file, found)
    scores = {
        cell: torch.tensor([row[client] for client in sorted(row)], dtype=torch.float64)
        for cell, row in found.items()
    }
    return Submission(scores, {"name": file.stem[:LONGEST], **notes})


def notes_of(path: str | os.PathLike[str]) -> dict[str, str]:
    """The notes of a submission, without its scores."""
    file = home(path)
    return {"name": file.stem[:LONGEST], **_notes(file, _text(file).splitlines())[0]}


def committed() -> dict[str, dict[str, str]]:
    """The notes of every committed submission by name; a score keeps those of its first version."""
    paths = [path for place in folders() for path in sorted(place.glob("submissions/*.csv"))]
    known: dict[str, dict[str, str]] = {}
    for notes in map(notes_of, paths):
        known.setdefault(notes["name"], notes)
    return known


def _text(file: Path) -> str:
    if not file.is_file():
        raise Refused(f"{file}: there is no such file")
    if file.stat().st_size > LARGEST:
        raise Refused(f"{file}: larger than {LARGEST >> 20} MiB; a submission has some 250 kB")
    held = file.read_bytes()
    if held.startswith(BOOKS):
        raise Refused(f"{file}: it is a spreadsheet or an archive; save it as CSV")
    # Spreadsheets begin a file with a byte order mark, which these encodings skip.
    code = "utf-16" if held.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = held.decode(code)
    except UnicodeDecodeError as error:
        line = held[: error.start].count(b"\n") + 1
        raise Refused(f"{file}, line {line}: not text in UTF-8; save it as CSV in UTF-8") from None
    if not text.strip():
        raise Refused(f"{file}: it is empty")
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Refused(f"{file}, line {line}: holds a zero byte; a submission is plain text")
    return text


def _notes(file: Path, lines: Sequence[str]) -> tuple[dict[str, str], int]:
    """The notes above the table, and the number of their lines."""
    notes: dict[str, str] = {}
    for number, given in enumerate(lines, start=1):
        # Spreadsheets quote words with commas, and fill a line up with separators.
        line = given.rstrip(FILLING)
        if line.startswith('"#'):
            line = line.removeprefix('"').removesuffix('"').replace('""', '"')
        if line and not line.startswith("#"):
            # A line that waits to be filled in says nothing yet.
            return {note: words for note, words in notes.items() if words}, number - 1
        note, colon, words = line.lstrip("# ").partition(":")
        if not line.strip():
            continue
        voice = f"{file}, line {number}"
        if not colon or note.strip() not in NOTES:
            raise Refused(f"{voice}: expected '# NOTE: words', NOTE one of {', '.join(NOTES)}")
        if note.strip() in notes:
            raise Refused(f"{voice}: {note.strip()} is given twice")
        if len(words.strip()) > LONGEST or not words.isprintable():
            raise Refused(
                f"{voice}: {note.strip()}: expected at most {LONGEST} letters in one line"
            )
        notes[note.strip()] = words.strip()
    raise Refused(f"{file}: expected the header {','.join(COLUMNS)}, got none")


def _rows(file: Path, lines: Sequence[str], first: int) -> Iterator[tuple[int, list[str]]]:
    """The rows after the header with their line numbers; blank lines do not count."""
    headers = {}
    for mark in SEPARATORS:
        with contextlib.suppress(csv.Error):  # quotes that no table has
            headers[mark] = _fields(lines[first], mark)
    # pandas and R write row names in a first column without a name.
    named = {
        mark: header[0] == ""
        for mark, header in headers.items()
        if tuple(map(str.lower, header[-len(COLUMNS) :])) == COLUMNS
        and header[: -len(COLUMNS)] in ([], [""])
    }
    if not named:
        expected = ",".join(COLUMNS)
        given = lines[first][:LONGEST]
        raise Refused(f"{file}, line {first + 1}: expected the header {expected}, got {given!r}")
    ((separator, has_names),) = named.items()
    decimal_marks: dict[str, int] = {}
    for number, line in enumerate(lines[first + 1 :], start=first + 2):
        voice = f"{file}, line {number}"
        if not line.strip(FILLING):
            continue
        try:
            fields = _fields(line, separator)[has_names:]
        except (csv.Error, ValueError) as error:
            raise Refused(f"{voice}: cannot be read as a row ({error})") from None
        if separator != ",":
            for mark in {*",."} & {*"".join(fields[1:])}:
                decimal_marks.setdefault(mark, number)
            if len(decimal_marks) > 1:
                raise Refused(
                    f"{voice}: decimal commas and decimal points in one file; "
                    f"the other stands in line {min(decimal_marks.values())}"
                )
            fields[1:] = [field.replace(",", ".") for field in fields[1:]]
        yield number, fields


def _fields(line: str, separator: str) -> list[str]:
    """The fields between separators, without surrounding spaces and empty fields at the end."""
    reader = csv.reader([line], delimiter=separator, skipinitialspace=True, strict=True)
    fields = [field.strip() for field in next(reader)]
    while len(fields) > len(COLUMNS) and not fields[-1]:
        fields.pop()
    return fields


def _row(voice: str, fields: Sequence[str]) -> tuple[str, int, int, float]:
    if len(fields) != len(COLUMNS):
        raise Refused(
            f"{voice}: expected {len(COLUMNS)} columns, got {len(fields)}; where commas "
            "stand between columns, decimals have points and rows no names"
        )
    scenario, *numbers = fields
    if scenario not in WORLDS:
        near = difflib.get_close_matches(scenario, WORLDS, 1)
        advice = f"; did you mean {near[0]}?" if near else f"; they are {'; '.join(WORLDS)}"
        raise Refused(f"{voice}: scenario: {scenario[:LONGEST]!r} is none of the bench{advice}")
    world = WORLDS[scenario]
    seeds = [*seeds_of(world, PUBLIC), *seeds_of(world, HELD_OUT)]
    seed = _whole(f"{voice}: seed", numbers[0], seeds)
    client = _whole(f"{voice}: client", numbers[1], range(world.clients))
    try:
        score = float(numbers[2])
    except ValueError:
        raise Refused(f"{voice}: score: expected a number, got {numbers[2][:20]!r}") from None
    if not math.isfinite(score) or abs(score) > 1e30:
        raise Refused(f"{voice}: score: expected a finite number below 1e30, got {numbers[2][:20]}")
    return scenario, seed, client, score


def _whole(voice: str, text: str, known: Sequence[int]) -> int:
    digits = text.removesuffix(".0")  # pandas writes it in a column that once had gaps
    # isdigit is also true for digits of other scripts and for superscripts, which int rejects.
    is_whole = digits.isascii() and digits.isdigit() and len(digits) < 10
    number = int(digits) if is_whole else -1
    if number not in known:
        most = f"one of {known[0]} to {known[-1]}"
        raise Refused(f"{voice}: expected {most}, got {text[:20]!r}")
    return number


def _check_whole(file: Path, found: Mapping[tuple[str, int], Mapping[int, float]]) -> None:
    """A scenario needs all public seeds, all held-out seeds, or both; and all clients."""
    for (scenario, seed), row in found.items():
        world = WORLDS[scenario]
        block = seeds_of(world, PUBLIC if seed in PUBLIC else HELD_OUT)
        if missing := [other for other in block if (scenario, other) not in found]:
            raise Refused(f"{file}: {scenario}: no scores for the seeds {missing}")
        if missing := sorted(set(range(world.clients)) - set(row)):
            raise Refused(f"{file}: {scenario}, seed {seed}: no scores of the clients {missing}")
        if world.truth is None and (world.beside, seed) not in found:
            words = f"{scenario} is judged beside {world.beside}, which has no scores"
            raise Refused(f"{file}: {words}")
