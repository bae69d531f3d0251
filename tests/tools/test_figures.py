"""A look at the real axes: what a reader cannot name is found, shared and hidden axes pass."""

import pytest
from matplotlib.figure import Figure

import figures

XY = {"xlabel": "a", "ylabel": "b"}


def made(*labels, whole=False, hide=None, **shared):
    """A figure with one axes a dictionary of settings; ``hide`` switches one off."""
    figure = Figure()
    axes = figure.subplots(1, len(labels), squeeze=False, **shared)[0]
    for one, setting in zip(axes, labels, strict=True):
        one.plot([0, 1])
        one.set(**setting)
    if hide:
        getattr(axes[-1], hide[0])(*hide[1:])
    if whole:
        figure.supxlabel("a")
        figure.supylabel("b")
    return figure


def with_colour_bar(label):
    figure = made(XY)
    figure.colorbar(figure.axes[0].imshow([[0, 1]]), label=label)
    return figure


@pytest.mark.parametrize(
    ("figure", "lacks"),
    [
        (made({}), "x and y"),
        (made(XY, {}), "x and y"),
        (made({"xlabel": "", "ylabel": "b"}), "x"),
        (made(XY, {}, sharey=True), "x"),
        (with_colour_bar(""), "x and y"),
    ],
)
def test_axes_without_a_label_are_found(figure, lacks):
    (fault,) = figures.unlabelled(figure)
    assert fault.endswith(f"no label on {lacks}")


@pytest.mark.parametrize(
    "figure",
    [
        made(XY),
        made(XY, {"xlabel": "a"}, sharey=True),
        made({}, {}, whole=True),
        made({}, hide=("set_axis_off",)),
        made(XY, {}, hide=("set_visible", False)),
        with_colour_bar("c"),
    ],
)
def test_labelled_and_hidden_axes_pass(figure):
    assert list(figures.unlabelled(figure)) == []
