"""What an explorer asks its reader to guess stands in no table above it."""

from __future__ import annotations

import re

import pytest
from test_widgets import HOMES, settings, twin

import chapters
import reading

ROW = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
RULE = re.compile(r"[-:| ]+")
BARE = re.compile(r"<[^>]*>|\*")


def tables(cell) -> list[list[list[str]]]:
    """The tables of a text or of a cell's results, as rows of bare cells."""
    if cell.cell_type == "markdown":
        lines = [line.strip() for line in cell.source.splitlines() if line.lstrip().startswith("|")]
        rows = [line.strip("|").split("|") for line in lines if not RULE.fullmatch(line)]
        return [[[BARE.sub("", part).strip() for part in row] for row in rows]] if rows else []
    texts = [output.get("data", {}).get("text/html", "") for output in cell.get("outputs", [])]
    found = [[CELL.findall(row) for row in ROW.findall(text)] for text in texts if "<table" in text]
    return [[[BARE.sub("", part).strip() for part in row] for row in rows] for rows in found]


def beside(rows: list[list[str]], name: str) -> list[str]:
    """What a table says of a name: its column, and its row."""
    columns = [place for place, head in enumerate(rows[0]) if head == name]
    down = [row[place] for place in columns for row in rows[1:] if place < len(row)]
    return down + [part for row in rows if row and row[0] == name for part in row[1:]]


@pytest.mark.parametrize("stem", HOMES)
def test_a_guess_is_not_answered_above_it(stem):
    cls, quantity, name = HOMES[stem]
    (source,) = [source for source in chapters.sources() if source.stem == stem]
    whole = reading.compose(source)
    states = whole.metadata["widgets"][chapters.WIDGET_STATE]["state"]
    for cell in whole.cells:
        views = [x["data"] for x in cell.get("outputs", []) if "data" in x]
        shown = [x[chapters.WIDGET_VIEW]["model_id"] for x in views if chapters.WIDGET_VIEW in x]
        if shown:
            break
    state = states[shown[0]]["state"]
    stored = {key: state[key] for key in settings(cls) if key in state}
    truth = twin(cls, stored).numbers()[quantity][name]
    before = whole.cells[: whole.cells.index(cell)]
    above = [rows for part in before for rows in tables(part)]
    said = [part for rows in above for part in beside(rows, name)]
    numbers = [float(part) for part in said if re.fullmatch(r"-?\d*\.?\d+", part)]
    assert [number for number in numbers if abs(number - truth) < 5e-3] == []
