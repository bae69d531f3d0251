"""Docstrings reach the reference page as they were written."""

import pytest

import docstrings


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain text", "plain text"),
        ("2 * m and a_b_ or |x|", r"2 \* m and a\_b\_ or \|x\|"),
        ("``theta [P]`` of `m` rows", r"``theta [P]``\  of ``m``\  rows"),
        ("an odd ` stays", "an odd ` stays"),
    ],
)
def test_prose(line, shown):
    assert docstrings.prose(line) == shown


def test_table_of_arguments_keeps_its_columns():
    lines = ["Mean of ``x``.", "", "x   [m]   numbers", "w*  [m]   weights", "", "returns  []", ""]
    docstrings.rewrite(None, "function", "f", None, None, lines)
    assert lines == [
        "Mean of ``x``\\ .",
        "",
        ".. code-block:: text",
        "",
        "   x   [m]   numbers",
        "   w*  [m]   weights",
        "",
        "   returns  []",
        "",
    ]


def test_module_is_prose_throughout():
    lines = ["Room: what it is.", "", "Chapter 1 derives it.", ""]
    docstrings.rewrite(None, "module", "m", None, None, lines)
    assert lines == ["Room: what it is.", "", "Chapter 1 derives it.", ""]


def test_no_docstring_stays_none():
    lines: list[str] = []
    docstrings.rewrite(None, "function", "f", None, None, lines)
    assert lines == [""]
