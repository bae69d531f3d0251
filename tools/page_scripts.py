"""Sphinx extension: a widget's state cannot end the script that holds it, and is JSON.

A browser reads no NaN in JSON, and one would silence all widgets of the page; it becomes null.
"""

from __future__ import annotations

import json
import re
from typing import Any

from myst_nb.core import render


def harmless(content: str) -> str:
    """JSON for a script tag: without any character that HTML reads, and without NaN."""
    text = json.dumps(json.loads(content, parse_constant=lambda name: None))
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


def setup(app: Any) -> dict[str, bool]:
    render.sanitize_script_content = harmless
    return {"parallel_read_safe": True}
