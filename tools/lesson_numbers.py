"""Sphinx extension: a lesson has the number of its file, also while an earlier one is unwritten.

Sphinx counts; 14_payments would be chapter 13 as long as there is no 13_....
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles


def renumbered(number: Any, chapter: int) -> Any:
    """A section's number, such as (13, 2), with this chapter as its first part."""
    return number and type(number)([chapter, *number[1:]])


def by_file(env: Any) -> None:
    """Give each lesson's sections the number of its file, wherever Sphinx has noted one."""
    for page, numbers in env.toc_secnumbers.items():
        if lesson := re.match(r"notebooks/(\d\d)_", page):
            chapter = int(lesson[1])
            for anchor, number in numbers.items():
                numbers[anchor] = renumbered(number, chapter)
            for noted in [env.titles[page], *env.tocs[page].findall(nodes.reference)]:
                if noted.get("secnumber"):
                    noted["secnumber"] = renumbered(noted["secnumber"], chapter)


def setup(app: Any) -> dict[str, bool]:
    collector = TocTreeCollectorWithStyles
    assign = collector.assign_section_numbers

    def assign_by_file(self: Any, env: Any) -> list[str]:
        rewritten = assign(self, env)
        by_file(env)
        return rewritten

    # Figures and equations are numbered afterwards, and read these numbers.
    collector.assign_section_numbers = assign_by_file
    return {"parallel_read_safe": True, "parallel_write_safe": True}
