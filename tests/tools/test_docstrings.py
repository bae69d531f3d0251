"""Docstrings reach the reference page as they were written."""

from types import SimpleNamespace

import pytest

import docstrings

APP = SimpleNamespace(examples={"f": ">>> f()"})


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain text", "plain text"),
        ("2 * m and a_b_ or |x|", r"2 \* m and a\_b\_ or \|x\|"),
        ("``theta [P]`` of `m` rows", r"``theta [P]``\  of ``m``\  rows"),
        ('"a": one', '``"a"``\\ : one'),
        ("an odd ` stays", "an odd ` stays"),
    ],
)
def test_prose(line, shown):
    assert docstrings.prose(line) == shown


def test_table_of_arguments_becomes_a_list():
    lines = ["Mean of ``x``.", "", "x [m]   numbers, in", "        order; w*  [m] weights"]
    lines += ["raises  ValueError      source [A 2020; chapter 1]", "", "All of it is kept."]
    docstrings.rewrite(APP, "function", "room.f", None, None, lines)
    assert lines == [
        "Mean of ``x``\\ .",
        "",
        ".. container:: arguments",
        "",
        "   x [m]",
        "      numbers, in order; w\\*  [m] weights".replace("*  ", "* "),
        "   raises",
        "      ValueError",
        "   source",
        "      [A 2020; chapter 1]",
        "",
        "All of it is kept.",
        "",
        "",
        ".. code-block:: pycon",
        "",
        "   >>> f()",
        "",
    ]


WIDE = "x " * 46


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["a  one; b  two"], [("a", "one"), ("b", "two")]),
        ([f"{WIDE}x", "goes on"], [("", f"{WIDE}x goes on")]),
        (["short", "another"], [("", "short"), ("", "another")]),
        (
            ["v [K]; returns [K]        [A 2020]"],
            [("", "v [K]; returns [K]"), ("source", "[A 2020]")],
        ),
    ],
)
def test_rows(lines, found):
    assert docstrings.rows(lines) == found


def test_module_is_prose_throughout():
    lines = ["Room: what it is.", "", "Chapter 1 derives it.", ""]
    docstrings.rewrite(APP, "module", "m", None, None, lines)
    assert lines == ["Room: what it is.", "", "Chapter 1 derives it.", ""]


def test_no_docstring_stays_none():
    lines: list[str] = []
    docstrings.rewrite(APP, "function", "g", None, None, lines)
    assert lines == [""]
