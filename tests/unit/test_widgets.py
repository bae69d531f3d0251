"""Widgets as Python sees them: checked values, Shapley values, stable text, a fallback."""

import pytest
import torch

import fedlab_mini as fm
from fedlab_mini.widgets import ShapleyExplorer

WORTH = [0, 60, 60, 60, 30, 84, 84, 90]


def test_phi_is_the_shapley_value():
    assert ShapleyExplorer(WORTH).phi == pytest.approx([31, 31, 28])


def test_phi_follows_the_values(make_table_game):
    explorer = ShapleyExplorer(WORTH)
    table = torch.rand(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    table[0] = 0
    explorer.values = table.tolist()
    assert explorer.phi == pytest.approx(fm.exact(make_table_game(table)).values.tolist())


def test_representation_is_stable_and_says_where_it_works():
    first, second = ShapleyExplorer(WORTH), ShapleyExplorer(WORTH)
    assert repr(first) == repr(second)
    assert "JupyterLab" in repr(first)
    shown = [explorer._repr_mimebundle_()[0] for explorer in (first, second)]
    assert shown[0]["text/plain"] == shown[1]["text/plain"]
    assert shown[0]["text/html"] == shown[1]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in shown[0]


def test_fallback_holds_the_numbers_and_escapes_the_names():
    data, _ = ShapleyExplorer([0, 1, 2, 4], names=["<b>", "B"])._repr_mimebundle_()
    assert "<b>" not in data["text/html"]
    assert "&lt;b&gt;B" in data["text/html"]
    assert "<td>1.50</td><td>2.50</td>" in data["text/html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": [0, 1, 2]}, "values: expected 8 finite numbers"),
        ({"values": [0, 1, 2, float("nan")], "names": "AB"}, "values: expected 4 finite"),
        ({"values": [1, 1, 1, 1], "names": "AB"}, "empty coalition is worth 0, got 1.0"),
        ({"values": [0, 1], "names": "A"}, "names: expected 2 to 4 players, got 1"),
        ({"values": [0] * 32, "names": "ABCDE"}, "names: expected 2 to 4 players, got 5"),
        ({"values": WORTH, "highest": 80}, "highest: expected a number above 0 and all values"),
        ({"values": [0] * 8}, "highest: expected a number above 0"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ShapleyExplorer(**arguments)
