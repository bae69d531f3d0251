"""The words that stand in a PDF of Chromium's: each font's table of glyphs, then what is drawn."""

from __future__ import annotations

import re
import unicodedata
import zlib
from pathlib import Path

OBJECT = re.compile(rb"^(\d+) 0 obj\n(.*?)\nendobj$", re.DOTALL | re.MULTILINE)
STREAM = re.compile(rb"stream\r?\n(.*)", re.DOTALL)
FONTS = re.compile(rb"/Font\s*<<(.*?)>>", re.DOTALL)
NAMED = re.compile(rb"/(\w+) (\d+) 0 R")
HEX = rb"<([0-9A-Fa-f]+)>\s*"
DRAWN = re.compile(rb"/(\w+) [\d.]+ Tf|<([0-9A-Fa-f]+)> Tj")  # a font is chosen, glyphs are drawn


def bare(text: str) -> str:
    """A text without its spaces, which on paper fall where lines break, and without ligatures.

    A glyph such as the one for "fi" stands for two letters: an answer could hide behind it.
    """
    return "".join(unicodedata.normalize("NFKC", text).split())


def words(path: Path) -> str:
    """Everything that a file says, page by page, without spaces."""
    objects = {int(number): body for number, body in OBJECT.findall(path.read_bytes())}
    fonts = {
        name: glyphs(objects, int(number))
        for body in objects.values()
        for group in FONTS.findall(body)
        for name, number in NAMED.findall(group)
    }
    places = [
        int(number)
        for body in objects.values()
        if re.search(rb"/Type /Page\s", body)
        for number in re.findall(rb"/Contents (\d+) 0 R", body)
    ]
    return bare("".join(drawn(unpacked(objects[place]), fonts) for place in places))


def pages(path: Path) -> int:
    """How many pages a file has."""
    return len(re.findall(rb"/Type /Page\s", path.read_bytes()))


def unpacked(body: bytes) -> bytes:
    found = STREAM.search(body)
    if not found:
        return b""
    if b"FlateDecode" in body:
        return zlib.decompressobj().decompress(found[1])  # it knows its own end
    return found[1]


def glyphs(objects: dict[int, bytes], font: int) -> dict[str, str]:
    """Glyph -> letters, from a font's ToUnicode table."""
    place = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    table = unpacked(objects[int(place[1])]) if place else b""
    found: dict[str, str] = {}
    for part in re.findall(rb"beginbfchar(.*?)endbfchar", table, re.DOTALL):
        for glyph, code in re.findall(HEX + HEX, part):
            letters = bytes.fromhex(code.decode()).decode("utf-16-be", errors="replace")
            found[glyph.decode().upper()] = letters
    for part in re.findall(rb"beginbfrange(.*?)endbfrange", table, re.DOTALL):
        for first, last, begin in re.findall(HEX + HEX + HEX, part):
            for step in range(int(last, 16) - int(first, 16) + 1):
                found[f"{int(first, 16) + step:04X}"] = chr(int(begin, 16) + step)
    return found


def drawn(drawing: bytes, fonts: dict[bytes, dict[str, str]]) -> str:
    table: dict[str, str] = {}
    found = []
    for font, code in DRAWN.findall(drawing):
        if font:
            table = fonts.get(font, {})
        else:
            glyph = code.decode().upper()
            found += [table.get(glyph[at : at + 4], "") for at in range(0, len(glyph), 4)]
    return "".join(found)
