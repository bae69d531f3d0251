"""Nothing raw is shown: no page prints a record, an object or a tensor where a reader reads."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import chapters
from glued import RECORD

NOTEBOOKS = sorted(chapters.NOTEBOOKS.rglob("*.ipynb"))
BOOK = chapters.ROOT / "book"
PAGES = [*sorted(BOOK.glob("*.md")), *sorted({*BOOK.glob("*.txt")} - {BOOK / "examples.txt"})]
CODE = re.compile(
    r"(`{3,}|~{3,}).*?\1|(`+)(?!`).*?(?<!`)\2(?!`)|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^\s]*\)",
    re.DOTALL,
)
RAW = re.compile(
    r"\b\w+=-?\d*\.\d"  # a field of a record, such as low=0.05
    r"|\b[A-Z]\w*\(\w+="  # a record, such as Interval(mean=
    r"|\b(?:tensor|array|dict|OrderedDict|defaultdict|namedtuple)\("
    r"|\bnp\.\w+\(|\btorch\.\w+\d|\bdtype="
    r"|<(?:class|function|bound method|generator)\b|\bobject at 0x|\b0x[0-9a-f]{6,}"
    r"|\{'\w|\[\('|\d\.\d{7,}"  # brackets of records, and a number that nobody has rounded
)


def raw(text: str) -> list[str]:
    """What looks raw, with the words around it; code, formulas and links may look so."""
    plain = CODE.sub(" ", text)
    return [plain[max(0, m.start() - 20) : m.end() + 30] for m in RAW.finditer(plain)]


def shown(path: Path) -> Iterator[str]:
    """The texts that a reader of a notebook sees: prose with glued values, and outputs."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            yield cell.source
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if output.get("name") == "stderr" or any(kind.startswith(RECORD) for kind in data):
                continue  # the prose has what is glued
            if any("image/" in kind or "widget" in kind for kind in data):
                continue
            if "text/html" in data:
                yield html.unescape(re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ",
                                           data["text/html"], flags=re.DOTALL))  # fmt: skip
            else:
                text = data.get("text/plain", "") or output.get("text", "")
                # Beside visible code, the tensor that its last line makes is what is taught.
                seen = "hide-input" not in cell.metadata.get("tags", [])
                yield re.sub(r"^tensor\(.*\)$", "", text) if seen else text


@pytest.mark.parametrize("path", [*NOTEBOOKS, *PAGES], ids=lambda path: path.stem)
def test_nothing_raw_is_shown(path: Path) -> None:
    texts = shown(path) if path.suffix == ".ipynb" else [path.read_text(encoding="utf-8")]
    found = [words for text in texts for words in raw(text)]
    assert not found, f"show it as text, by tell, str or a format: {found}"


@pytest.mark.parametrize(
    ("text", "many"),
    [
        ("the gain is Stored(mean=0.0024333, low=0.0005, high=0.004, n=15)", 4),
        ("it is tensor([0.1, 0.2]) and np.float64(0.3)", 2),
        ("0.16 [0.14, 0.18], at T = 1, `SFedAvg(m=0.5)` and $x=0.5$", 0),
        ("{'a': 1} <function f at 0x7f1234567890>", 3),
    ],
)
def test_what_is_raw(text: str, many: int) -> None:
    assert len(raw(text)) == many
