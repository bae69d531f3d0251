"""One version wherever it is named, and no line that fetches the package from an index."""

import re
import tomllib

import yaml

import chapters
import fedlab_mini as fm

ROOT = chapters.ROOT
NOTES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
# A path before the name makes it a folder. On an index its holder could be anybody.
BY_NAME = re.compile(r"\binstall\b[^\n]*?(?<![\w./\\-])fedlab[-_.]mini(?![\w/\\-]|\.\w)", re.I)


def test_the_version_is_the_same_everywhere():
    headings = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", NOTES, re.MULTILINE)
    newest, day = headings[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == fm.__version__
    if fm.__version__ != newest:  # the next one, not out yet
        coming, _ = fm.__version__.split(".dev")
        assert [*map(int, coming.split("."))] > [*map(int, newest.split("."))]
        assert "\n## Unreleased\n" in NOTES
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for part in (citation, *citation["references"]):
        assert (part["version"], str(part["date-released"])) == (newest, day)


def test_no_page_installs_the_package_by_its_name():
    assert BY_NAME.search("%pip install -q 'fedlab-mini[flower]==1.0'")
    assert not BY_NAME.search('pip install "./fedlab-mini[flower]"')
    texts = (p for kind in ("md", "py", "yml", "toml", "html") for p in ROOT.rglob(f"*.{kind}"))
    left_out = {"_build", ".venv", "test_release.py", "CHANGELOG.md"}
    own = (path for path in texts if not left_out & {*path.relative_to(ROOT).parts})
    assert [path for path in own if BY_NAME.search(path.read_text("utf-8", "replace"))] == []
