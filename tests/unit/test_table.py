"""Tables: real HTML with heads and a caption."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fedlab_mini.show import plots

RESULTS = {
    "a < b": {"AUC": (0.9, 0.8, 1.0), "loss": 0.123, "rounds": 7, "kept": True},
    "CGSV": {"AUC": (0.5, 0.4, 0.6), "loss": 0.05, "rounds": 12, "kept": False},
    "none": {"AUC": float("nan"), "loss": float("nan"), "rounds": 3, "kept": None},
}


def test_a_table_has_heads_and_a_caption():
    made = plots.table(RESULTS, rows="method", caption="How good.")
    page = ElementTree.fromstring(made._repr_html_())
    assert page.find("caption").text == "How good."
    heads = page.findall("thead/tr/th")
    assert [head.text for head in heads] == ["method", "AUC", "loss", "rounds", "kept"]
    assert {head.get("scope") for head in heads} == {"col"}
    lines = page.findall("tbody/tr")
    assert [line.find("th").text for line in lines] == ["a < b", "CGSV", "none"]
    assert {line.find("th").get("scope") for line in lines} == {"row"}
    sides = [[cell.get("style").split()[-1] for cell in line] for line in lines]
    assert sides == [["left", "right", "right", "right", "left"]] * 3  # JupyterLab's own is right
    cells = [["".join(cell.itertext()) for cell in line.findall("td")] for line in lines]
    assert cells[0] == ["0.90 [0.80, 1.00]", "0.12", "7", "yes"]
    assert cells[1] == ["0.50 [0.40, 0.60]", "0.05", "12", "no"]
    assert repr(made).splitlines()[1] == "a < b   0.90 [0.80, 1.00]  0.12       7   yes"


@pytest.mark.parametrize(
    ("column", "written"),
    [
        ([160.0, 2.0], ["160", "2"]),  # counts
        ([-0.001], ["0.00"]),
        ([812.5, 120.04], ["812", "120"]),
        ([170.0, float("inf"), float("nan")], ["170", "inf", "nan"]),
        ([(170.0, 0.0, 1200.0), (5.0, 4.0, 8.0)], ["170 [0, 1200]", "5.0 [4.0, 8.0]"]),
        ([(0.5012, 0.5010, 0.5014)], ["0.5012 [0.5010, 0.5014]"]),
        ([(0.02, 0.004, 0.03), (0.02, 0.0, 0.03)], ["0.020 [0.004, 0.030]", "0.02 [0.00, 0.03]"]),
        ([(0.5, 0.5, 0.5), (0.5, float("-inf"), 1)], ["0.50 [0.50, 0.50]", "0.50 [-inf, 1.00]"]),
    ],
)
def test_a_number_has_the_decimals_that_say_something(column: list, written: list[str]) -> None:
    cells = {str(row): {"x": cell} for row, cell in enumerate(column)}
    assert [row[1] for row in plots.table(cells, caption="A.").rows] == written
