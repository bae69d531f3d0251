"""The lint of figures finds images without alt text and axes without labels."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

import lint_figures

BLIND = [
    "Look: ![](a.png)",
    "![ ](a.svg)",
    ":::{figure} a.svg\n:width: 80%\n\nA caption.\n:::",
    "```{image} a.png\n:width: 80%\n```",
    ":::{figure} a.svg\n:alt:\n\nA caption.\n:::",
    'A line with <img src="a.svg"> in it.',
    '<img src="a.svg" alt="">',
    "<p>\n<IMG width=3\n src='a.png'>\n</p>",
    ":::{admonition} Deep\n- ![](a.png)\n:::",
]
SEEN = [
    "Look: ![A rising line.](a.png)",
    ":::{figure} a.svg\n:alt: A rising line.\n\nA caption.\n:::",
    "```{image} a.png\n---\nwidth: 80%\nalt: A rising line.\n---\n```",
    'A line with <img src="a.svg" alt="A rising line."> in it.',
    '```html\n<img src="a.svg">\n```',
    "In code: `![](a.png)` and `<img>`.",
]

UNLABELLED = {
    "none": ("figure, axis = plt.subplots()\naxis.plot(x, y)", "axis", "x and no y"),
    "no y": ("figure, axis = plt.subplots()\naxis.bar(x, y)\naxis.set(xlabel='a')", "axis", "y"),
    "no x": ("plt.scatter(x, y)\nplt.ylabel('a')", "plt", "x"),
    "empty": ("axis.hist(x)\naxis.set_xlabel('')\naxis.set_ylabel('n')", "axis", "x"),
    "made only": ("figure, axis = plt.subplots()\ndraw(axis)", "axis", "x and no y"),
    "second of two": (
        "figure, (left, right) = plt.subplots(1, 2)\nleft.plot(x)\nright.imshow(y)\n"
        "left.set(xlabel='a', ylabel='b')",
        "right",
        "x and no y",
    ),
    "one of an array": (
        "axes[0].plot(x)\naxes[1].plot(x)\naxes[0].set(xlabel='a', ylabel='b')",
        "axes[1]",
        "x and no y",
    ),
    "other loop": (
        "for axis, v in zip(axes, values):\n    axis.plot(v)\n"
        "for label, v in zip(labels, values):\n    label.set(xlabel='a', ylabel='b')",
        "axis",
        "x and no y",
    ),
}
LABELLED = {
    "set": "figure, axis = plt.subplots()\naxis.plot(x)\naxis.set(xlabel='a', ylabel='b')",
    "single calls": "axis.plot(x)\naxis.set_xlabel('a')\naxis.set_ylabel('b')",
    "pyplot": "plt.plot(x)\nplt.xlabel('a')\nplt.ylabel('b')",
    "off": "figure, axis = plt.subplots()\naxis.imshow(x)\naxis.set_axis_off()",
    "off by name": "plt.imshow(x)\nplt.axis('off')",
    "loop": (
        "figure, axes = plt.subplots(1, 2)\nfor axis, v in zip(axes.flat, values):\n"
        "    axis.plot(v)\n    axis.set(xlabel='a', ylabel='b')"
    ),
    "loop over two": (
        "figure, (left, right) = plt.subplots(1, 2)\nleft.plot(x)\nright.plot(y)\n"
        "for axis in (left, right):\n    axis.set(xlabel='a', ylabel='b')"
    ),
    "shared": (
        "figure, axes = plt.subplots(1, 2, sharey=True)\n"
        "for axis in axes:\n    axis.plot(x)\n    axis.set_xlabel('a')\naxes[0].set_ylabel('b')"
    ),
    "whole figure": (
        "figure, axes = plt.subplots(2)\nfor axis in axes:\n    axis.plot(x)\n"
        "figure.supxlabel('a')\nfigure.supylabel('b')"
    ),
    "plots": "figure = plots.curves(lines)\naxis = figure.axes[0]\naxis.plot(x)\nfigure",
    "no drawing": "plots.errors(a, b)\nadam.step()\ncounts = torch.histc(x)",
    "function": "def panel(axis, v):\n    axis.plot(v)\n    axis.set(xlabel='a', ylabel='b')",
}


@pytest.mark.parametrize("text", BLIND)
def test_image_without_alt_text_is_found(text):
    found = list(lint_figures.image_faults([new_markdown_cell(text)]))
    assert len(found) == 1
    assert "no alt text" in found[0]


@pytest.mark.parametrize("text", SEEN)
def test_described_images_and_quoted_code_pass(text):
    assert list(lint_figures.image_faults([new_markdown_cell(text)])) == []


@pytest.mark.parametrize(("source", "axes", "lacks"), UNLABELLED.values(), ids=UNLABELLED)
def test_axis_without_label_is_found(source, axes, lacks):
    found = list(lint_figures.axis_faults([new_code_cell(source)]))
    assert len(found) == 1
    assert found[0].startswith(f"`{axes}` has no {lacks} label; write {axes}.set(")


@pytest.mark.parametrize("source", LABELLED.values(), ids=LABELLED)
def test_labelled_axes_pass(source):
    assert list(lint_figures.axis_faults([new_code_cell(source)])) == []
