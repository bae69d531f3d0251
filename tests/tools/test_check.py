"""The stages of `make test`: what its help says, and what CONTRIBUTING says of them."""

import re
import sys

import pytest

import chapters
import check


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_names_every_stage_and_runs_none(word, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["check.py", "lint", word])
    monkeypatch.setattr(check, "run", lambda *_: pytest.fail("a stage was run"))
    check.main()
    said = capsys.readouterr().out
    assert "python tools/check.py all" in said
    assert re.findall(r"^  (\w+) +(?:always|all, weekly|weekly) +\S", said, re.M) == check.NAMES


def test_contributing_names_every_stage_and_the_tests_that_strategies_share():
    page = (chapters.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", page.split("## Run the checks")[1], re.M
    )
    named = re.findall(r"\w+", re.sub(r"\*.*?\*", "", " ".join(rows)))
    assert {*check.NAMES} - {"bounds"} <= {*named}
    method = page.split("## Add a method")[1].split("\n## ")[0]
    assert "tests/unit/test_strategies.py" in method
    assert (chapters.ROOT / "tests/unit/test_strategies.py").is_file()
