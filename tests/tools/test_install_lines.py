"""No line tells to install this package by its name, which is on no index: its holder could be
anybody. From a clone it is `pip install "PATH_OF_THE_CLONE[flower]"`."""

import random
import re
import tomllib

import pytest

import chapters

PROJECT = tomllib.loads((chapters.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = re.sub(r"[-_.]", "[-_.]+", PROJECT["name"])  # as an index reads it
# A path before it makes it a folder; a slash, a dot or a word behind it something else.
TOOL = r"\binstall\b|\b(?:uv|poetry) add\b|\bpip download\b"
BY_NAME = re.compile(rf"(?:{TOOL})[^\n`]*?`?(?<![\w./\\-]){NAME}(?![\w/\\-]|\.\w)", re.IGNORECASE)
READ = {".md", ".py", ".toml", ".txt", ".yml", ".yaml", ".ipynb", ".sh", ".html", ".js", ".cff", ""}
PAST = {"CHANGELOG.md", "test_install_lines.py"}  # what was, and what is drawn
MADE = {"_build", ".venv", ".git", "node_modules", "data"}


def installs_by_name(text):
    """The lines that fetch the package from whoever holds its name."""
    return [line for line in text.splitlines() if BY_NAME.search(line)]


def pages():
    """Every text file of the project, error messages of programs among them."""
    for path in sorted(chapters.ROOT.rglob("*")):
        parts = path.relative_to(chapters.ROOT).parts
        left_out = parts[0] in MADE or "__pycache__" in parts or path.name in PAST
        if path.suffix in READ and path.is_file() and not left_out:
            yield path


def test_no_page_installs_the_package_by_its_name():
    found = {}
    for path in pages():
        lines = installs_by_name(path.read_text(encoding="utf-8", errors="replace"))
        if lines:
            found[path.relative_to(chapters.ROOT).as_posix()] = [line[:160] for line in lines]
    assert found == {}


@pytest.mark.parametrize("seed", range(60))
def test_such_a_line_is_found_however_it_is_written(seed):
    draw = random.Random(seed)
    tool = draw.choice(["pip", "pip3", "%pip", "!pip", "python -m pip", "uv pip", "RUN pip"])
    words = [
        tool,
        "install",
        *draw.sample(["--upgrade", "-q", "torch==2.13.0", "'ray[default]'"], 2),
    ]
    name = draw.choice(["fedlab-mini", "fedlab_mini", "Fedlab-Mini", "fedlab.mini"])
    extra = draw.choice(["", "[flower]", "[flower,test]", "==1.0.0", ">=1,<2"])
    quote = draw.choice(['"', "'", "`", ""])
    where = f"{quote}{name}{extra}{quote}"
    around = draw.choice(["{}", "- run: {}", "Needed: `{}` in the same version.", "    '{}'"])
    assert installs_by_name(around.format(" ".join([*words, where])))
    folder = draw.choice(["./", "PATH_OF_THE_CLONE/", "/srv/", "..\\"]) + name
    for sound in (f"{quote}PATH_OF_THE_CLONE[flower]{quote}", "-e .", '".[flower]"', folder):
        assert not installs_by_name(around.format(" ".join([*words, sound])))
