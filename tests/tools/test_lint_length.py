"""What the lint of a chapter's length finds, and leaves alone."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import lint_length


def complaints(*cells):
    return " | ".join(lint_length.complaints(new_notebook(cells=list(cells))))


def lines(count, folded=False):
    tags = ["hide-input"] if folded else []
    return new_code_cell("\n".join(["x = 1"] * count), metadata={"tags": tags})


def figure():
    return new_code_cell("x", metadata={"mystnb": {"figure": {"caption": "A line."}}})


DRAWING = new_markdown_cell("```{figure} a.svg\n```")


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        ([new_markdown_cell("word " * 5001)], "5,001 words"),
        ([figure() for _ in range(11)], "11 figures"),
        (
            [*(figure() for _ in range(10)), new_markdown_cell("```{figure} a.svg\n```")],
            "11 figures",
        ),
        ([lines(7), lines(7), lines(2)], "half of the open cells have 7"),
        ([*(lines(11) for _ in range(6)), *(lines(1) for _ in range(20))], "6 open cells above 10"),
        ([new_markdown_cell(" ".join("{glue:text}`" + k + "`" for k in "abcd"))], "4 numbers"),
    ],
)
def test_too_long(cells, named):
    assert named in complaints(*cells)


def test_long_enough():
    folded = [lines(40, folded=True) for _ in range(9)]
    numbers = " ".join("{glue:text}`" + k + "`" for k in ("a", "b", "c", "a_power"))
    apart = new_markdown_cell(f"word {numbers}\n\n{numbers}")
    assert complaints(*folded, lines(6), lines(6), lines(11), apart, figure()) == ""
