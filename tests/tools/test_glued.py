"""What a chapter glues, and its parameters."""

import nbformat.v4 as nbf
import pytest

import glued


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("0.5", 0.5), ("'a'", "a"), ("[1, 2]", [1, 2]), ("tensor(1)", "tensor(1)")],
)
def test_literal(text, value):
    assert glued.literal(text) == value


def test_numbers_and_words_are_found_pictures_are_not():
    def output(name, **data):
        about = {"scrapbook": {"name": name, "mime_prefix": glued.RECORD}}
        kinds = {glued.RECORD + kind.replace("_", "/"): x for kind, x in data.items()}
        return nbf.new_output("display_data", data=kinds, metadata=about)

    cell = nbf.new_code_cell("")
    cell.outputs = [
        output("count", text_plain="7"),
        output("a", text_plain="'b'"),
        output("figure", text_plain="<Figure>", image_png=""),
    ]
    assert glued.glued(nbf.new_notebook(cells=[cell])) == {"a": "b", "count": 7}


def test_parameters_are_read_from_the_tagged_cell():
    tagged = nbf.new_code_cell("scale = 'fast'\nsizes = [1, 2]", metadata={"tags": ["parameters"]})
    cells = [nbf.new_code_cell("x = 1"), tagged]
    assert glued.parameters(nbf.new_notebook(cells=cells)) == {"scale": "fast", "sizes": [1, 2]}
    assert glued.parameters(nbf.new_notebook(cells=cells[:1])) == {}
