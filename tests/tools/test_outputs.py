"""Stored outputs: another processor's last digit passes, a wrong number, word or shape does not."""

import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import chapters
import outputs
from glued import RECORD

SAME = [
    ("auc 0.94", "auc 0.95"),
    ("auc 1.00, gap  0.00", "auc 0.99, gap -0.00"),
    ("tensor([-0.0000,  1.0000])", "tensor([0.0000, 0.9999])"),
    ("largest gap 0.0", "largest gap 1.1102230246251565e-16"),
    ("[0.0, 1.0]", "[2.2e-16, 0.9999999999999998]"),
    ("gap 1e-13", "gap 3e-13"),
    ("3.21e-05 s", "3.20e-05 s"),
    ("1,234.5", "1,234.6"),
    ("0.9123456789012", "0.9123461"),
    ("<td>1</td><td>0.5</td>", "<td>0.9999</td><td>0.5</td>"),
    ("− 0.25 and −0.25", "− 0.26 and −0.24"),
    ("auc      0.10\nrank    -0.10", "auc      0.09\nrank    -0.11"),
]
OTHER = [
    ("auc 0.94", "auc 0.96"),
    ("auc 0.94", "auc -0.94"),
    ("auc 0.94", "AUC 0.94"),
    ("auc 0.94", "auc 0.94 0.94"),
    ("auc 0.94", "auc nan"),
    ("10 clients", "11 clients"),
    ("[1, 2, 3]", "[1, 3, 2]"),
    ("torch.Size([10, 64])", "torch.Size([10, 65])"),
    ("tensor([0., 1.])", "tensor([1., 0.])"),
    ("tensor([1.0000, 2.0000])", "tensor([1.0000, 2.0002])"),
    ("times: [1.75, 1.7, 1.75]", "times: [1.75, 1.8, 1.75]"),
    ("without 0e+00, as printed 3e-01", "without 3e-01, as printed 3e-01"),
    ("3e-05", "8e-05"),
    ("0.9123456789012", "0.9125456789012"),
    ("4,096 and 13", "4,097 and 13"),
    ("<td>0.5</td>", "<th>0.5</th>"),
    ("64-32-10", "64-33-10"),
    ("True", "False"),
    ("a\n0.5", "a 0.5"),
]


@pytest.mark.parametrize(("stored", "now"), SAME)
def test_rounding_is_no_difference(stored, now):
    assert outputs.agree(stored, now)
    assert outputs.agree(now, stored)


@pytest.mark.parametrize(("stored", "now"), OTHER)
def test_anything_else_is(stored, now):
    assert not outputs.agree(stored, now)
    assert not outputs.agree(now, stored)


GLUE = "from myst_nb import glue\nglue('{}', 0.94412345678, display=False)"
DRAW = "import matplotlib.pyplot as plt\naxes = plt.subplots()[1]\n_ = axes.set_xlabel('a')"
CELLS = {  # source, what is stored, whether that passes
    "last digit": ("print('auc 0.9449')", "auc 0.9450\n", True),
    "wrong number": ("print('auc 0.9449')", "auc 0.9559\n", False),
    "wrong shape": ("print('torch.Size([3, 4])')", "torch.Size([4, 3])\n", False),
    "glued, as read": (GLUE.format("seen"), "0.95112345678", True),
    "glued wrongly": (GLUE.format("seen"), "0.96112345678", False),
    "labelled": (f"{DRAW}\n_ = axes.set_ylabel('b')", "<Figure size 640x480 with 1 Axes>", True),
    "unlabelled": (DRAW, "<Figure size 640x480 with 1 Axes>", False),
}


def test_nbval_finds_what_is_planted(tmp_path):
    seen = new_markdown_cell("It is {glue:text}`seen:.2f`.")
    notebook = new_notebook(metadata=chapters.METADATA, cells=[seen])
    for source, stored, _ in CELLS.values():
        output = new_output("stream", name="stdout", text=stored)
        if stored[0] == "<":
            output = new_output("display_data", {"image/svg+xml": "<svg/>", "text/plain": stored})
        if "glue" in source:
            about = {"scrapbook": {"name": "seen", "mime_prefix": RECORD}}
            output = new_output("display_data", {f"{RECORD}text/plain": stored}, metadata=about)
        notebook.cells.append(new_code_cell(source, execution_count=1, outputs=[output]))
    nbformat.write(notebook, tmp_path / "planted.ipynb")
    command = [sys.executable, "tools/outputs.py", str(tmp_path / "planted.ipynb"), "-rA"]
    env = chapters.own_settings()
    done = subprocess.run(
        command, cwd=chapters.ROOT, env=env, capture_output=True, encoding="utf-8", check=False
    )
    passed = {name for i, name in enumerate(CELLS) if f"PASSED ::Cell {i}\n" in done.stdout}
    assert passed == {name for name, (_, _, passes) in CELLS.items() if passes}, done.stdout
    assert "no label on y" in done.stdout
    assert done.returncode == 1
