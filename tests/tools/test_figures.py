"""A look at the real axes: what a reader cannot name is found, shared and hidden axes pass."""

import pytest
from matplotlib.figure import Figure

import figures


def made(rows=1, columns=1, **shared):
    """A figure and its axes, one or an array, each with a line."""
    figure = Figure()
    axes = figure.subplots(rows, columns, **shared)
    for one in figure.axes:
        one.plot([0, 1])
    return figure, axes


def colour_bar(label):
    figure = Figure()
    axes = figure.subplots()
    axes.set(xlabel="a", ylabel="b")
    figure.colorbar(axes.imshow([[0, 1]]), label=label)
    return figure


def none():
    return made()[0]


def one_of_two():
    figure, axes = made(1, 2)
    axes[0].set(xlabel="a", ylabel="b")
    return figure


def empty_text():
    figure, axes = made()
    axes.set(xlabel="", ylabel="b")
    return figure


def both():
    figure, axes = made()
    axes.set(xlabel="a", ylabel="b")
    return figure


def switched_off():
    figure, axes = made()
    axes.set_axis_off()
    return figure


def shared():
    figure, axes = made(1, 2, sharey=True)
    axes[0].set(xlabel="a", ylabel="b")
    axes[1].set(xlabel="a")
    return figure


def whole_figure():
    figure, _ = made(2, 1)
    figure.supxlabel("a")
    figure.supylabel("b")
    return figure


def hidden():
    figure, axes = made(1, 2)
    axes[0].set(xlabel="a", ylabel="b")
    axes[1].set_visible(False)
    return figure


@pytest.mark.parametrize(
    ("make", "lacks"),
    [
        (none, "x and y"),
        (one_of_two, "x and y"),
        (empty_text, "x"),
        (lambda: colour_bar(""), "x and y"),
    ],
)
def test_axes_without_a_label_are_found(make, lacks):
    (fault,) = figures.unlabelled(make())
    assert fault.endswith(f"no label on {lacks}")


@pytest.mark.parametrize(
    "make", [both, switched_off, shared, whole_figure, hidden, lambda: colour_bar("c")]
)
def test_labelled_and_hidden_axes_pass(make):
    assert list(figures.unlabelled(make())) == []
