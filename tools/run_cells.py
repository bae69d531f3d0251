"""Run the code cells of one chapter's text, without a kernel: python tools/run_cells.py TEXT.

They run in the order of the text, with solutions and the committed parameters; a cell that
raises, or shows a figure with a fault, ends the run with its error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure

import chapters
import figures


def main() -> None:
    cells = chapters.read_text(Path(sys.argv[1])).cells
    os.chdir("notebooks")
    shell = InteractiveShell.instance(colors="nocolor")
    for cell in cells:
        if cell.cell_type == "code":
            result = shell.run_cell(cell.source)
            if not result.success:
                sys.exit(1)
            if isinstance(result.result, Figure):
                assert not (wrong := [*figures.faults(result.result)]), wrong


if __name__ == "__main__":
    main()
