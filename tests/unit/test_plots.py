"""Plots: figures with a caption, a description and named axes, and nothing left open."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from fedlab_mini.judge.evidence import interval
from fedlab_mini.judge.metrics import kendall
from fedlab_mini.show import plots
from fedlab_mini.show.styles import CLIENTS, CORRUPTED, METHODS

LINES = {"one": torch.linspace(0, 1, 5), "two": torch.linspace(1, 0.25, 5)}
RUNS = {"one": torch.rand(3, 5, generator=torch.Generator().manual_seed(0))}
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def agg():
    """Draw without a display, and begin with no open figure."""
    before = mpl.get_backend()
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.switch_backend(before)


FIGURES = {
    "curves": lambda make_fed: plots.curves(LINES),
    "curves of runs": lambda make_fed: plots.curves(RUNS, x=[0, 1, 2, 5, 9], title="Runs"),
    "holdings": lambda make_fed: plots.holdings(make_fed((9, 4, 20))),
    "scores of two methods": lambda make_fed: plots.scores(
        {"exact": torch.rand(3), "sampled": torch.rand(3)},
        corrupted={1},
        stderr={"sampled": torch.full((3,), 0.01)},
    ),
    "by_client": lambda make_fed: plots.by_client(torch.eye(4)[:, :3], corrupted={1}),
    "dots": lambda make_fed: plots.dots(
        {"one": [0.2, 0.5, 0.4], "two": [0.1, 0.3]}, xlabel="AUC", reference={"chance": 0.5}
    ),
    "panels": lambda make_fed: plots.panels(
        {"one": {"a": [[0.2, 0.5], [0.4, 0.6]]}, "two": {"a": [[0.1, 0.3], [0.2, 0.3]]}},
        x=[1, 10],
        ylabel="AUC",
        chance=0.5,
    ),
    "slopes": lambda make_fed: plots.slopes([3, 2, 1], {"size": [2, 3, 1]}, name="truth"),
    "confusion": lambda make_fed: plots.confusion({"one": torch.eye(3), "two": torch.ones(3, 3)}),
}

AXES = {
    **dict.fromkeys(("curves", "curves of runs"), ("round", "test accuracy")),
    "holdings": ("client", "class"),
    "scores of two methods": ("client", "contribution"),
    "by_client": ("round", "contribution"),
    "dots": ("AUC", "setting"),
    "panels": ("round", "AUC"),
    "slopes": ("1 of 3 pairs cross", "rank"),
    "confusion": ("predicted class", "true class"),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_a_figure_says_what_it_shows_and_can_be_read_on_a_phone(make_fed, kind):
    figure = FIGURES[kind](make_fed)
    assert isinstance(figure, Figure)
    assert plots.shows(figure, {}, axes=AXES[kind])
    assert plt.get_fignums() == []  # a notebook would show it twice
    for words, least in ((figure.caption, 20), (figure.alt, 40)):
        assert len(words) > least
        assert words.endswith(".")
    for axis in (axis for axis in figure.axes if axis.get_visible() and axis.axison):
        named = axis.get_xlabel(), axis.get_ylabel()
        assert any(named) if axis.get_label() == "<colorbar>" else all(named)
    figure.canvas.draw()
    shown = max(0.7, 350 / (96 * figure.get_figwidth()))  # at least this much, by book.css
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() * 96 / 72 * shown for text in texts) >= 9


def test_dots_show_every_seed_the_mean_and_its_interval():
    figure = plots.dots({"one": [0.2, 0.5, 0.4], "two": [0.7]}, xlabel="AUC")
    seeds, span, mean, lone, own = figure.axes[0].get_lines()
    found = interval([0.2, 0.5, 0.4])
    assert sorted(seeds.get_xdata()) == pytest.approx([0.2, 0.4, 0.5])
    assert list(span.get_xdata()) == pytest.approx([found.low, found.high])
    assert list(mean.get_xdata()) == pytest.approx([found.mean])
    assert list(lone.get_xdata()) == list(own.get_xdata()) == pytest.approx([0.7])
    assert str(found) in figure.alt


def test_a_value_at_an_end_of_the_range_is_in_it_and_beyond_is_refused():
    plots.dots({"a": [0, 1, 1 + 1e-7]}, xlabel="accuracy", low=0, high=1)
    for values, end in (([-0.1, 1], "low"), ([0, 1.1], "high")):
        with pytest.raises(ValueError, match=f"^{end}: "):
            plots.dots({"a": values}, xlabel="accuracy", low=0, high=1)


def test_panels_show_a_mean_and_its_interval_at_every_place_on_one_scale():
    runs, other = [[0.2, 0.5], [0.4, 0.6]], [[7.0, 7.0], [9.0, 9.0]]
    pictures = {"one": {"a": runs, "b": runs}, "two": {"b": other, "c": runs}}
    figure = plots.panels(pictures, x=[1, 10], ylabel="AUC")
    first, second = figure.axes
    found = interval([0.5, 0.6])
    assert list(first.get_lines()[0].get_ydata()) == pytest.approx([0.3, 0.55])
    edge = first.collections[0].get_paths()[0].vertices[:, 1]
    assert {round(v, 9) for v in (found.low, found.high)} <= {round(float(y), 9) for y in edge}
    assert str(found) in figure.alt
    assert first.get_ylim() == second.get_ylim()
    figure = plots.panels({"one": {"CGSV": runs, "FedAvg": runs}}, x=[1, 10], ylabel="AUC")
    assert plots.shows(figure, {})
    colours = [to_hex(band.get_facecolor()[0]) for band in figure.axes[0].collections]
    assert [each.upper() for each in colours] == [METHODS[name][0] for name in ("CGSV", "FedAvg")]


def test_slopes_cross_where_two_rankings_part():
    values = torch.randperm(8, generator=torch.Generator().manual_seed(3)).double()
    other = torch.rand(8, generator=torch.Generator().manual_seed(4))
    figure = plots.slopes(values, {"same": values, "other": other}, name="truth")
    same, drawn = (plots.drawn(figure, panel) for panel in (0, 1))
    assert same["crossings"] == []
    assert [drawn[str(k)][0] for k in range(8)] == [v - 8 for v in values.tolist()]
    assert [drawn[str(k)][1] for k in range(8)] == [-float((other >= v).sum()) for v in other]
    tau = 1 - len(drawn["crossings"]) / 14
    assert tau == pytest.approx(kendall(values, other))
    assert figure.axes[1].get_xlabel() == f"{len(drawn['crossings'])} of 28 pairs cross"
    tied = plots.drawn(plots.slopes([3, 2, 1], {"tied": [1, 1, 0]}, name="truth"))
    assert tied == {"0": [-1, -1.5], "1": [-2, -1.5], "2": [-3, -3], "crossings": []}


def test_curves_show_every_line_and_say_where_it_ends():
    figure = plots.curves(LINES)
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["one", "two"]
    assert "two 0.25" in figure.alt
    thin_and_mean = plots.curves({"CGSV": RUNS["one"]}).axes[0].get_lines()
    assert [line.get_color() for line in thin_and_mean] == [METHODS["CGSV"][0]] * 4
    assert thin_and_mean[-1].get_ydata() == pytest.approx(RUNS["one"].mean(0).tolist(), abs=1e-6)


@pytest.mark.parametrize(("count", "inside"), [(8, True), (9, False)])
def test_nothing_is_left_out_and_many_labels_stand_beside_the_lines(count, inside):
    many = {f"line {k}": torch.tensor([0.0, float(k), 2]) for k in range(count)}
    figure = plots.curves(many)
    assert (figure.axes[0].get_legend() is not None, len(figure.legends)) == (inside, not inside)
    assert [line.get_label() for line in figure.axes[0].get_lines()] == list(many)
    assert len(plots.scores(many).axes[0].containers) == count


def test_scores_draw_one_bar_a_client_and_mark_the_corrupted():
    values = torch.tensor([0.1, -0.2, 0.3])
    figure = plots.scores({"exact": values}, corrupted={1})
    (axis,) = figure.axes
    assert [bar.get_height() for bar in axis.containers[0]] == pytest.approx(values.tolist())
    assert [bool(bar.get_hatch()) for bar in axis.containers[0]] == [False, True, False]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1\ncorrupted", "2"]


def test_holdings_show_the_label_counts(make_fed):
    fed = make_fed((9, 4, 20))
    figure = plots.holdings(fed)
    assert plots.shows(figure, {str(c): row for c, row in enumerate(fed.label_counts.T)})
    assert "4 to 20 samples" in figure.alt


def test_corrupted_clients_are_told_apart_without_colour_too():
    figure = plots.by_client(torch.ones(6, 4), corrupted={2, 1})
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert [*drawn] == ["0", "1 corrupted", "2 corrupted", "3"]
    looks = [(line.get_linestyle(), line.get_marker()) for line in drawn.values()]
    assert looks[0] != looks[1] == looks[2] != looks[3]


# Colours, markers and lines

TOGETHER = [  # labels that stand in one figure
    [
        *("FedAvg", "CGSV", "F-RCCE", "FLDVE", "removal", "FedCCEA", "S-FedAvg"),
        *("label standardisation", "exact", "leave-one-out", "truncated"),
    ],
    ["exact", "leave-one-out", "truncated", "permutation", "guided", "kernel", "Banzhaf"],
    [
        "our sign, clean",
        "our sign, corrupted",
        "published sign, clean",
        "published sign, corrupted",
    ],
    ["FedAvg", "S-FedAvg, T = 1", "S-FedAvg, T = 0.02"],
]


def test_what_stands_in_one_figure_differs_without_colour_too():
    for labels in TOGETHER:
        for (a, one), (b, other) in itertools.combinations(plots.styles(labels).items(), 2):
            assert one.marker != other.marker, f"{a} and {b} have one marker"
            assert (one.colour, one.line) != (other.colour, other.line), f"{a} and {b} look alike"


def test_a_method_has_its_style_whatever_else_is_drawn():
    others = ["IID", "corrupted", "clean", *TOGETHER[0]]
    for name, (colour, marker) in METHODS.items():
        for labels in ([name], [*others, name], [name, *others], [f"{name}, old", name]):
            assert plots.styles(labels)[name] == plots.Style(colour, marker, "-")


def test_a_client_has_its_colour_in_figures_and_in_widgets():
    assert [plots.client_colour(k) for k in range(12)] == [*CLIENTS, *CLIENTS[:2]]
    figure = plots.by_client(torch.ones(6, 12), corrupted={4})
    shown = [line.get_color() for line in figure.axes[0].get_lines()]
    assert shown == [plots.client_colour(k) for k in range(12)]
    sheet = ROOT / "fedlab_mini" / "show" / "widgets" / "static" / "kit.css"
    light = sheet.read_text(encoding="utf-8").split("data-theme")[0].upper()
    assert all(f"--CLIENT-{k}: {colour};" in light for k, colour in enumerate(CLIENTS))
    assert f"--CORRUPTED: {CORRUPTED};" in light


def test_a_table_whose_columns_are_no_clients_is_not_drawn_by_client():
    table = pd.DataFrame(torch.rand(5, 3).numpy(), columns=["CGSV", "Shapley", "rounds"])
    with pytest.raises(ValueError, match=r"values: .* as columns, got \['CGSV'.*to_numpy\(\)"):
        plots.by_client(table)
    assert plots.by_client(table.set_axis([0, 1, 2], axis=1)).axes[0].lines


def upside_down(figure: Figure) -> Figure:
    """The figure with both axes reversed, which a reader takes for the other way round."""
    figure.axes[0].invert_xaxis()
    figure.axes[0].invert_yaxis()
    return figure


def renamed(figure: Figure, *words: str) -> Figure:
    """The figure with words under its first ticks."""
    figure.axes[0].set_xticks(range(len(words)), words)
    return figure


def bleached(figure: Figure) -> Figure:
    """The figure with its colour map reversed."""
    figure.axes[0].images[0].set_cmap("Blues_r")
    return figure


A = interval([0.2, 0.4], low=-1, high=1)
TWO = {"a": [1.0, 2.0], "b": [[3.0, 5.0], [5.0, 5.0]]}
READ_OFF = {
    "curves": (plots.curves(TWO), {"round": [0, 1], "a": [1, 2], "b": [4, 5]}),
    "curves, reversed": (
        upside_down(plots.curves(TWO)),
        {"round": [0, -1], "a": [-1, -2], "b": [-4, -5]},
    ),
    "curves, words": (
        renamed(plots.curves(TWO, xlabel="x"), "before", "7"),
        {"x": ["before", 7], "a": [1, 2], "b": [4, 5]},
    ),
    "scores": (
        plots.scores({"a": [1.0, -2.0]}, stderr={"a": [0.1, 0.3]}, corrupted=[1]),
        {"client": ["0", "1 corrupted"], "a": [1, -2], "a ±": [0.1, 0.3]},
    ),
    "dots": (
        plots.dots({"a": [0.2, 0.4], "b": [1]}, xlabel="", reference={"c": 0.5}, low=-1, high=1),
        {"a": [A.mean, A.low, A.high], "b": [1], "c": [0.5]},
    ),
    "dots, reversed": (
        upside_down(plots.dots({"a": [1, 2]}, xlabel="", reference={"c": 0.5})),
        {"a": [-x for x in interval([1, 2])[:3]], "c": [-0.5]},
    ),
    "grid": (
        plots.confusion({"a": torch.tensor([[3, 1], [0, 0]])}),
        {"predicted class": ["0", "1"], "0": [0.75, 0.25], "1": [0, 0]},
    ),
    "grid, dark for less": (
        bleached(plots.confusion({"a": torch.tensor([[3, 1], [0, 2]])})),
        {"0": [-0.75, -0.25], "1": [0, -1]},
    ),
    "table": (
        plots.table({"a": {"x": 1, "y": "-"}, "b": {"x": 2, "y": ""}}, caption="", rows="who"),
        {"who": ["x", "y"], "a": ["1", "-"], "b": ["2", ""]},
    ),
}


@pytest.mark.parametrize("kind", READ_OFF)
def test_what_is_drawn_can_be_read_off_by_label(kind):
    figure, wanted = READ_OFF[kind]
    found = plots.along(figure) | plots.drawn(figure)
    assert found.keys() == wanted.keys() | plots.along(figure).keys()
    for label, numbers in wanted.items():
        assert found[label] == pytest.approx(numbers), label


def test_a_figure_shows_these_numbers_and_no_others():
    figure = plots.panels({"left": {"a": [[1.0], [3.0]]}, "right": {"a": [[5.0], [5.0]]}}, x=[9],
                          ylabel="y")  # fmt: skip
    assert plots.shows(figure, {"round": [9], "a": [2]}, "left")
    assert plots.shows(figure, {"a": torch.tensor([5])}, "right")
    for others in ({"a": [5]}, {"a": [2, 2]}, {"b": [2]}):
        assert not plots.shows(figure, others, "left")
    assert plots.shows(figure, {"a": [2]}, "left", axes=("round", "y"))
    assert not plots.shows(figure, {"a": [2]}, "left", axes=("y", "round"))


@pytest.mark.parametrize("draw", [plots.curves, plots.scores, partial(plots.dots, xlabel="AUC")])
def test_a_method_in_another_colour_is_not_shown(draw):
    figure = draw({"CGSV": [0.2, 0.4], "FedAvg": [0.3, 0.5]})
    (axis,) = figure.axes
    assert plots.shows(figure, {})
    for mark in [*axis.get_lines(), *axis.patches]:
        mark.set_color(METHODS["FedAvg"][0])
    assert not plots.shows(figure, {})
