"""The explorer of the landing page, from a run of its five lines.

    python data/made/first_minute.py

``explorer.html`` is `RoundReplay` of that training: its state and program, as a notebook stores
them, and the table for readers without scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedlab_mini.keep.files import whole_file

ROOT = Path(__file__).resolve().parents[2]
EXPLORER = ROOT / "book" / "_static" / "figures" / "explorer.html"
KIND = "application/vnd.jupyter.widget-{}+json"
PAGE = """<div class="cell_output">
<div class="widget-table">{table}</div>
<script type="{state_kind}">{state}</script>
<script type="{view_kind}">{view}</script>
</div>
<script defer src="../_static/afm-host.js"></script>
"""


def code() -> str:
    """The five lines: the first block of Python of the landing page."""
    text = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]


def explorer(hist: Any, corrupted: Sequence[int]) -> str:
    """`RoundReplay` as a piece of a page; the page's host runs it."""
    from fedlab_mini.show.widgets import RoundReplay

    replay = RoundReplay(hist, corrupted=corrupted)
    one = {"model_module": "anywidget", "state": {}}
    one["state"] = {key: value for key, value in replay.get_state().items() if key != "layout"}
    state = {"state": {"first": one}}
    # A "</" within a script would end it.
    texts = [json.dumps(data).replace("</", r"<\/") for data in (state, {"model_id": "first"})]
    kinds = [KIND.format(name) for name in ("state", "view")]
    return PAGE.format(
        table=replay.fallback(),
        state_kind=kinds[0],
        state=texts[0],
        view_kind=kinds[1],
        view=texts[1],
    )


def made() -> str:
    """The piece of a page, from a run."""
    names: dict[str, Any] = {}
    exec(code(), names)
    return explorer(names["hist"], sorted(names["fed"].corrupted))


if __name__ == "__main__":
    with whole_file(EXPLORER) as part:
        part.write_text(made(), encoding="utf-8", newline="\n")
