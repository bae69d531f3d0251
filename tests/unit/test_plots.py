"""Plots: figures with a caption, a description and named axes, and nothing left open."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.figure import Figure

import fedlab_mini as fm
from fedlab_mini import plots

LINES = {"one": torch.linspace(0, 1, 5), "two": torch.linspace(1, 0.25, 5)}
RUNS = {"one": torch.rand(3, 5, generator=torch.Generator().manual_seed(0))}
CURVES = fm.metrics.RemovalCurves(
    torch.tensor([0, 1, 2]), torch.tensor([0.9, 0.5, 0.3]), torch.tensor([0.9, 0.9, 0.8])
)


@pytest.fixture(autouse=True)
def agg():
    """Draw without a display, and begin with no open figure."""
    before = mpl.get_backend()
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.switch_backend(before)


def corrupted_federation(make_fed) -> fm.Federation:
    """A federation whose client 1 is marked."""
    return fm.Federation(**{**vars(make_fed((9, 4, 20))), "truth": {1: "flip_labels(0.4)"}})


FIGURES = {
    "curves": lambda make_fed: plots.curves(LINES),
    "curves of runs": lambda make_fed: plots.curves(RUNS, x=[0, 1, 2, 5, 9], title="Runs"),
    "holdings": lambda make_fed: plots.holdings(corrupted_federation(make_fed)),
    "scores": lambda make_fed: plots.scores({"exact": torch.tensor([0.1, -0.2, 0.3])}),
    "scores of two methods": lambda make_fed: plots.scores(
        {"exact": torch.tensor([0.1, -0.2, 0.3]), "sampled": torch.tensor([0.1, -0.1, 0.3])},
        corrupted={1},
        stderr={"sampled": torch.full((3,), 0.01)},
    ),
    "errors": lambda make_fed: plots.errors(
        {"plain": [10, 100], "kernel": [12, 90]},
        {"plain": torch.tensor([0.1, 0.03]), "kernel": torch.tensor([0.05, 0.01])},
        exact_at=1024,
    ),
    "removal": lambda make_fed: plots.removal({"exact": CURVES, "random": CURVES}),
}
every = pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES.keys())


@every
def test_a_figure_says_what_it_shows(make_fed, draw):
    figure = draw(make_fed)
    assert isinstance(figure, Figure)
    assert len(figure.caption) > 20
    assert len(figure.alt) > 40
    assert figure.caption.endswith(".")
    assert figure.alt.endswith(".")
    own = [axis for axis in figure.axes if axis.get_label() != "<colorbar>"]
    for axis in own:
        assert axis.get_xlabel()
        assert axis.get_ylabel()
    figure.canvas.draw()


@every
def test_no_figure_is_left_open(make_fed, draw):
    draw(make_fed)
    assert plt.get_fignums() == []


def test_curves_show_every_line_and_say_where_it_ends():
    figure = plots.curves(LINES)
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["one", "two"]
    assert "one 1.00" in figure.alt
    assert "two 0.25" in figure.alt
    thin_and_mean = plots.curves(RUNS).axes[0].get_lines()
    assert len(thin_and_mean) == 4
    assert thin_and_mean[-1].get_ydata() == pytest.approx(RUNS["one"].mean(0).tolist(), abs=1e-6)


def test_nothing_is_left_out_when_there_are_many_lines():
    many = {f"line {k}": torch.tensor([0.0, float(k)]) for k in range(9)}
    labels = [line.get_label() for line in plots.curves(many).axes[0].get_lines()]
    assert labels == list(many)
    bars = plots.scores({label: torch.ones(3) for label in many}).axes[0].containers
    assert len(bars) == 9


def test_scores_draw_one_bar_a_client_and_mark_the_corrupted():
    values = torch.tensor([0.1, -0.2, 0.3])
    axis = plots.scores({"exact": values}, corrupted={1}).axes[0]
    heights = [bar.get_height() for bar in axis.containers[0]]
    assert heights == pytest.approx(values.tolist())
    hatched = [bool(bar.get_hatch()) for bar in axis.containers[0]]
    assert hatched == [False, True, False]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1\ncorrupted", "2"]
    assert "lowest is client 1" in plots.scores({"exact": values}).alt


def test_holdings_show_the_label_counts(make_fed):
    fed = corrupted_federation(make_fed)
    figure = plots.holdings(fed)
    shown = torch.tensor(figure.axes[0].images[0].get_array().tolist())
    assert torch.equal(shown.long(), fed.label_counts.T)
    assert "3 clients by 3 classes" in figure.alt
    assert "4 to 20 samples" in figure.alt


def test_removal_has_a_panel_for_the_best_and_one_for_the_worst():
    left, right = plots.removal({"exact": CURVES}).axes
    assert left.get_lines()[0].get_ydata() == pytest.approx([0.9, 0.5, 0.3])
    assert right.get_lines()[0].get_ydata() == pytest.approx([0.9, 0.9, 0.8])
    assert "highest" in left.get_xlabel()
    assert "lowest" in right.get_xlabel()


def test_errors_are_drawn_on_logarithmic_axes_with_the_exact_count():
    figure = plots.errors({"plain": [10, 100]}, {"plain": torch.tensor([0.1, 0.03])}, exact_at=64)
    axis = figure.axes[0]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in axis.texts] == ["exact: 64"]
    assert "lowest at the end is plain" in figure.alt
