"""Sphinx extension: a page's foot says when its source, or a text that it includes, last changed.

The dates are those of commits, so two builds of one commit are the same. Without git, or where its
history is cut short, a page says nothing.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

DATES = "last_changed.json"  # {path in the repository: day}, beside the staged sources
SOURCES = ("book", "README.md")


def dates(root: Path) -> dict[str, str]:
    """The day of the last commit that changed each file that pages are made of, by its path."""

    def git(*words: str) -> str:
        command = ["git", "-c", "core.quotepath=off", *words]
        done = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=False)
        return done.stdout if done.returncode == 0 else ""

    try:
        if git("rev-parse", "--is-shallow-repository").strip() != "false":
            return {}
        log = git("log", "--format=/%cs", "--name-only", "--relative", "--", *SOURCES)
    except OSError:  # no git here
        return {}
    found: dict[str, str] = {}
    day = ""
    for line in filter(None, log.splitlines()):
        if line.startswith("/"):
            day = line[1:]
        else:
            found.setdefault(line, day)  # the newest commit comes first
    return found


def source(page: str) -> str:
    """Where the repository has the text of a page."""
    folder, _, name = page.rpartition("/")
    return f"book/chapters/{name}.md" if folder == "notebooks" else f"{page}.md"


def say(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The day for the theme's foot, where a page is made of files that git knows."""
    known = json.loads((Path(app.srcdir) / DATES).read_text(encoding="utf-8"))
    included = (Path(path).as_posix() for path in app.env.dependencies.get(page, ()))
    days = [known[path] for path in (source(page), *included) if path in known]
    if days:
        context["last_updated"] = max(days)


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", say)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
