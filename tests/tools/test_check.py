"""Stages: kernels and processors in settings of their own, a missing browser said or an error."""

import os
import threading

import pytest

import check
import chromium
from check import Stage

SAY = "import os; print(*(os.environ.get(k) for k in ('ATEN_CPU_CAPABILITY', 'IPYTHONDIR')))"


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (Stage("a", (), ""), ["None", str(os.environ.get("IPYTHONDIR"))]),
        (Stage("a", (), "", env={"ATEN_CPU_CAPABILITY": "x"}), ["x"]),
        (Stage("a", (), "", kernels=True), ["None", "_build"]),
    ],
)
def test_a_stage_runs_in_its_settings(stage, said, capfd, monkeypatch):
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    object.__setattr__(stage, "commands", (("-c", SAY),))
    assert check.run(stage)
    printed = capfd.readouterr().out
    assert all(part in printed for part in said)


def test_the_first_command_that_fails_ends_a_stage(capfd):
    commands = (("-c", "raise SystemExit(1)"), ("-c", "print('second')"))
    assert not check.run(Stage("a", commands, ""))
    assert capfd.readouterr().out == ""


def test_without_a_browser_its_stage_is_left_out_or_an_error(monkeypatch, capsys):
    stage = Stage("a", (("-c", "raise SystemExit(1)"),), "", browser=True)
    monkeypatch.setattr(chromium, "find", lambda: None)
    monkeypatch.delenv("FEDLAB_REQUIRE_BROWSER", raising=False)
    assert check.run(stage)
    assert "Browser tests left out: no Chromium or Chrome here. Install" in capsys.readouterr().out
    monkeypatch.setenv("FEDLAB_REQUIRE_BROWSER", "1")
    with pytest.raises(SystemExit, match="Browser tests required"):
        check.run(stage)
    monkeypatch.setattr(chromium, "find", lambda: "/usr/bin/chromium")
    assert not check.run(stage)


def test_an_unknown_stage_is_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["check.py", "lnit"])
    with pytest.raises(SystemExit, match="no stage lnit; there are: lint, unit, portable"):
        check.main()


def test_neighbours_of_one_core_run_together_and_one_that_fails_is_named(monkeypatch):
    both = threading.Barrier(2, timeout=60)
    stages = [Stage(name, (), f"Mend {name}.", one_core=name in "bc") for name in "abcd"]
    ran = []

    def run(stage):
        ran.append(stage.name)
        if stage.one_core:
            both.wait()
        return stage.name != "c"

    monkeypatch.setattr(check, "STAGES", stages)
    monkeypatch.setattr(check, "run", run)
    monkeypatch.setattr("sys.argv", ["check.py"])
    with pytest.raises(SystemExit, match=r"^\nFAILED in stage c. Mend c.$"):
        check.main()
    assert sorted(ran) == ["a", "b", "c"]
