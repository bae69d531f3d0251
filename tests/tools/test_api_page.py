"""The reference page lists every public name."""

import re

import chapters
import fedlab_mini as fm


def test_every_public_name_is_on_the_api_page():
    page = (chapters.ROOT / "book" / "api.md").read_text(encoding="utf-8")
    directives = re.findall(r"(?::members:|auto\w+::) *(.*)", page)
    listed = {name.split(".")[-1].strip() for line in directives for name in line.split(",")}
    assert ".. automodule:: fedlab_mini.methods\n   :members:\n" in page
    assert set(fm.__all__) <= listed | set(fm.methods.__all__)
