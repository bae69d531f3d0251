"""Sphinx extension: a page's footer says when its source or an included text last changed.

The dates are those of commits, so two builds of one commit are the same. Without git, or if its
history is shallow, the footer has no date.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

DATES = "last_changed.json"  # {path in the repository: day}, beside the staged sources
SHALLOW = ("git", "rev-parse", "--is-shallow-repository")
LOG = ("git", "-c", "core.quotepath=off", "log", "--format=/%cs", "--name-only", "--relative")


def dates(root: Path) -> dict[str, str]:
    """{path: day of the last commit that changed it}, for all sources of pages."""
    said, found, day = {"cwd": root, "stderr": subprocess.DEVNULL, "encoding": "utf-8"}, {}, ""
    try:
        if subprocess.check_output(SHALLOW, **said).strip() != "false":
            return {}
        log = subprocess.check_output([*LOG, "--", "book"], **said)
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return {}
    for line in filter(None, log.splitlines()):
        day = line[1:] if line.startswith("/") else day
        found.setdefault(line, day)  # the newest commit comes first
    return {path: day for path, day in found.items() if not path.startswith("/")}


def say(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The day for the theme's footer, if a page's sources are known to git."""
    known = json.loads((Path(app.srcdir) / DATES).read_text(encoding="utf-8"))
    source = page.replace("notebooks/evidence/", "book/evidence/")
    source = source.replace("notebooks/", "book/chapters/") + ".md"
    included = (Path(path).as_posix() for path in app.env.dependencies.get(page, ()))
    if days := [known[path] for path in (source, *included) if path in known]:
        context["last_updated"] = max(days)


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", say)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
