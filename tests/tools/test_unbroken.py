"""Intervals get spaces at which no line ends; code, formulas and programs keep theirs."""

import pytest
from docutils import nodes
from docutils.utils import new_document

import unbroken


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("by 0.12 [0.08, 0.16]. It", "by 0.12~[0.08,~0.16]. It"),
        (".52 [.43, .62]", ".52~[.43,~.62]"),
        (
            "-0.02 [-0.05, 0.01] and 1,204 [988, 1,420]",
            "-0.02~[-0.05,~0.01] and 1,204~[988,~1,420]",
        ),
        ("in [0.1, 0.9] it", "in [0.1,~0.9] it"),
        ("chapter 3 [Castro, 2009]", "chapter 3 [Castro, 2009]"),
        ("a list [1, 2, 3]", "a list [1, 2, 3]"),
    ],
)
def test_no_line_ends_inside_an_interval(text, shown):
    assert unbroken.whole(text) == shown.replace("~", "\N{NO-BREAK SPACE}")


def test_code_formulas_and_programs_stay_as_they_are():
    said = "0.12 [0.08, 0.16]"
    page = new_document("page")
    table = f"<table><tr><td>{said}</td></tr></table>"
    paragraph = nodes.paragraph(
        "", "", nodes.Text(said), nodes.literal("", said), nodes.math("", said)
    )
    page += [paragraph, nodes.literal_block("", said)]
    page += [nodes.raw("", table, format="html"), nodes.raw("", f"<script>{table}", format="html")]
    unbroken.keep_whole(None, page, "page")
    kept = said.replace(" ", "\N{NO-BREAK SPACE}")
    assert [child.astext() for child in paragraph] == [kept, said, said]
    assert [part.astext() for part in page[1:]] == [
        said,
        table.replace(said, kept),
        f"<script>{table}",
    ]
