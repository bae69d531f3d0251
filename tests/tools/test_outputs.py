"""Stored outputs: another processor's last digit passes, a wrong number, word or shape does not."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import chapters
import outputs
from glued import RECORD

SAME = [
    ("auc 1.00, gap  0.00", "auc 0.99, gap -0.00"),
    ("[0.0, 1.0]", "[2.2e-16, 0.9999999999999998]"),
    ("1,234.5 and 3.21e-05 s", "1,234.6 and 3.20e-05 s"),
    ("0.9123456789012", "0.9123461"),
    ("<td>1</td><td>− 0.5</td>", "<td>0.9999</td><td>− 0.5</td>"),
]
OTHER = [
    ("auc 0.94", "auc 0.96"),
    ("auc 0.94", "auc 0.94 0.94"),
    ("auc 0.94", "auc nan"),
    ("[1, 2, 3]", "[1, 3, 2]"),
    ("times: [1.75, 1.7, 1.75]", "times: [1.75, 1.8, 1.75]"),
    ("without 0e+00, as printed 3e-01", "without 3e-01, as printed 3e-01"),
    ("0.0091234567", "0.0091244567"),
    ("a\n0.5", "a 0.5"),
]


@pytest.mark.parametrize(("stored", "now"), [*SAME, *OTHER])
def test_rounding_is_no_difference_and_anything_else_is(stored, now):
    same = (stored, now) in SAME
    assert outputs.agree(stored, now) == outputs.agree(now, stored) == same


def test_a_glued_value_is_compared_as_the_text_shows_it_and_a_picture_not_at_all():
    about = {"scrapbook": {"name": "seen", "mime_prefix": RECORD}}
    glue = new_output("display_data", {f"{RECORD}text/plain": "0.9441234"}, metadata=about)
    figure = new_output("display_data", {"image/svg+xml": "<svg/>", "text/plain": "<Figure>"})
    shown = outputs.as_read(
        [glue, figure], "It is {glue:text}`seen:.2f`, that is {glue:text}`seen`."
    )
    assert [output["data"] for output in shown] == [
        {f"{RECORD}text/plain": "0.94 0.9441234"},
        {"text/plain": "<Figure>"},
    ]


def test_nbval_finds_what_is_planted(tmp_path, own_settings):
    draw = "import matplotlib.pyplot as plt\n_ = plt.subplots()[1].set_xlabel('a')"
    size = "<Figure size 640x480 with 1 Axes>"
    stored = [new_output("stream", name="stdout", text=f"auc 0.94{end}\n") for end in (50, 59)]
    stored.append(new_output("display_data", {"image/svg+xml": "<svg/>", "text/plain": size}))
    sources = ["print('auc 0.9449')", "print( 'auc 0.9449')", draw]
    cells = [
        new_code_cell(source, execution_count=1, outputs=[output])
        for source, output in zip(sources, stored, strict=True)
    ]
    notebook = new_notebook(metadata=chapters.METADATA, cells=cells)
    nbformat.write(notebook, tmp_path / "planted.ipynb")
    command = [sys.executable, "-m", "pytest", "-p", "outputs", "--nbval", "--nbval-current-env"]
    env = os.environ | {"PYTHONPATH": str(chapters.ROOT / "tools")}
    done = subprocess.run([*command, "-rA", "."], cwd=tmp_path, env=env, capture_output=True)
    said = done.stdout.decode()
    assert [f"PASSED planted.ipynb::Cell {k}" in said for k in range(3)] == [1, 0, 0]
    assert "no label on y" in said
