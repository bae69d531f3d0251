"""One version wherever it is named, and no line that fetches the package from an index."""

import re
import tomllib

import yaml

import chapters
import fedlab_mini as fm

ROOT = chapters.ROOT
# A path before the name makes it a folder. On an index its holder could be anybody.
BY_NAME = re.compile(r"\binstall\b[^\n]*?(?<![\w./\\-])fedlab[-_.]mini(?![\w/\\-]|\.\w)", re.I)


def test_the_version_is_the_same_everywhere():
    notes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, day = re.search(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", notes, re.M).groups()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == fm.__version__
    if fm.__version__ != newest:  # the next one, not out yet
        coming, _, _ = fm.__version__.partition(".dev")
        assert f"\n## Unreleased, {coming}\n" in notes
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    for part in (citation, *citation["references"]):
        assert (part["version"], str(part["date-released"])) == (newest, day)


def test_no_page_installs_the_package_by_its_name():
    assert BY_NAME.search("%pip install -q 'fedlab-mini[flower]==1.0'")
    assert not BY_NAME.search('pip install "./fedlab-mini[flower]"')
    for path in [
        ROOT / "README.md",
        *(ROOT / "book").rglob("*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]:
        assert not BY_NAME.search(path.read_text("utf-8")), path
