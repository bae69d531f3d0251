"""One version wherever it is named; notes that name every chapter, and a site that is attached."""

from __future__ import annotations

import re
import tomllib

import yaml

import chapters
import downloads
import fedlab_mini as fm

ROOT = chapters.ROOT
NOTES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", NOTES, re.MULTILINE)
CITED = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    (newest, day), *_ = HEADINGS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = [CITED, *CITED["references"]]
    assert {part["version"] for part in cited} == {newest}
    assert project["version"] == fm.__version__
    # Between two releases the code has the number of the next one, and says that it is not out.
    if fm.__version__ != newest:
        coming, is_dev = fm.__version__.split(".dev")
        assert is_dev.isdigit()
        assert [*map(int, coming.split("."))] > [*map(int, newest.split("."))]
        assert re.search(r"^## Unreleased$", NOTES, re.MULTILINE)
    assert {str(part["date-released"]) for part in cited} == {day}


def test_versions_stand_newest_first() -> None:
    numbers = [tuple(map(int, number.split("."))) for number, _ in HEADINGS]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] >= (1, 0, 0)


def test_the_notes_name_every_chapter_in_order() -> None:
    """By the first words of its title, as the landing page's map does."""
    listed = re.findall(r"^(\d+)\. \*(?:The )?([^*]+)\*: ", NOTES, re.MULTILINE)
    found = [(str(k), source) for k, source in enumerate(chapters.numbered(), 1)]
    assert [number for number, _ in listed] == [number for number, _ in found]
    for (_, name), (_, source) in zip(listed, found, strict=True):
        title = re.search(r"^# (?:The )?(.+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        assert title[1].startswith(name), source.stem


def test_a_tag_attaches_the_site() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(workflow)["jobs"]["site"]["steps"]
    commands = [step.get("run", "") for step in steps]
    assert commands.index("make site") == len(commands) - 2
    assert commands[-1].endswith(f" _build/site/{downloads.NAME}.zip")
