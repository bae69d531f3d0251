"""Stages: kernels and processors in settings of their own, a missing browser said or an error."""

import datetime
import os
import re

import pytest

import check
import chromium
import stamps
from check import Run, Stage

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
    assert Run().stage(stage)
    printed = capfd.readouterr().out
    assert all(part in printed for part in said)


def test_the_first_command_that_fails_ends_a_stage(capfd):
    commands = (("-c", "raise SystemExit(1)"), ("-c", "print('second')"))
    assert not Run().stage(Stage("a", commands, ""))
    assert capfd.readouterr().out == ""


def test_without_a_browser_its_stage_is_left_out_or_an_error(monkeypatch, capsys):
    stage = Stage("a", (("-c", "raise SystemExit(1)"),), "", browser=True)
    monkeypatch.setattr(chromium, "find", lambda: None)
    monkeypatch.delenv("FEDLAB_REQUIRE_BROWSER", raising=False)
    assert Run().stage(stage)
    assert "Browser tests left out: no Chromium or Chrome here. Install" in capsys.readouterr().out
    monkeypatch.setenv("FEDLAB_REQUIRE_BROWSER", "1")
    with pytest.raises(SystemExit, match="Browser tests required"):
        Run().stage(stage)
    monkeypatch.setattr(chromium, "find", lambda: "/usr/bin/chromium")
    assert not Run().stage(stage)


def test_an_unknown_stage_is_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["check.py", "lnit"])
    with pytest.raises(SystemExit, match="no stage lnit; there are: lint, evidence, site"):
        check.main()


@pytest.mark.parametrize(("words", "run"), [([], "ac"), (["all"], "abc"), (["all", "b"], "b")])
def test_without_a_name_only_all_runs_what_takes_long(words, run, monkeypatch, capfd):
    stages = [Stage(name, (("-c", ""),), "", more=name == "b") for name in "abc"]
    monkeypatch.setattr(check, "STAGES", stages)
    monkeypatch.setattr("sys.argv", ["check.py", *words])
    check.main()
    assert sorted(re.findall(r"== (\w): ", capfd.readouterr().out)) == [*run]


def test_two_stages_run_at_a_time_and_one_that_fails_ends_the_other(monkeypatch, capfd, tmp_path):
    seen = tmp_path / "b begins"
    b = f"open({str(seen)!r}, 'w'); import time; time.sleep(600)"
    a = f"import pathlib as p\nwhile not p.Path({str(seen)!r}).exists(): pass\nprint('said')"
    commands = {"a": "print('first')", "b": b, "c": f"{a}\nraise SystemExit(1)", "d": "print('d')"}
    stages = [Stage(name, (("-c", text),), f"Mend {name}.") for name, text in commands.items()]
    monkeypatch.setattr(check, "STAGES", stages)
    monkeypatch.setattr("sys.argv", ["check.py"])
    with pytest.raises(SystemExit, match=r"^\nFAILED in stage c. Mend c.$"):
        check.main()
    said = re.sub(r"\d+ s", "_", capfd.readouterr().out).split()
    assert " ".join(said) == "== a: _ == first == c: _ == said"


def test_who_has_two_workers_has_both_processors(monkeypatch, capfd, tmp_path):
    book, stages = tmp_path / "book", []
    text = "import time; w = lambda s: open({!r}, 'a').write(s); w('{}'); time.sleep(0.4); w('{}')"
    for name, cores in zip("abcde", (1, 2, 1, 1, 2), strict=True):
        line = text.format(str(book), name, name.upper())
        stages.append(Stage(name, (("-c", line),), "", cores=cores))
    monkeypatch.setattr(check, "STAGES", stages)
    monkeypatch.setattr("sys.argv", ["check.py"])
    check.main()
    assert re.fullmatch("aAbB(cd|dc)(CD|DC)eE", book.read_text())
    capfd.readouterr()


def test_a_stage_waits_for_the_one_it_comes_after(monkeypatch, capfd):
    wait = "import time; time.sleep(1); print('built')"
    stages = [Stage("site", (("-c", wait),), ""), Stage("b", (("-c", "print('seen')"),), "")]
    stages.append(Stage("browser", (("-c", "print('looked')"),), "", after="site"))
    monkeypatch.setattr(check, "STAGES", stages)
    monkeypatch.setattr("sys.argv", ["check.py"])
    check.main()
    said = capfd.readouterr().out
    assert said.index("seen") < said.index("built") < said.index("looked")
    assert re.search(r"All is well in \d+ s: b \d+ s, site \d+ s, browser \d+ s", said)


def test_a_stage_that_passed_today_runs_again_when_a_file_changes(monkeypatch, capfd, tmp_path):
    file, seen = tmp_path / "x.py", tmp_path / "runs"
    file.write_text("1", encoding="utf-8")
    monkeypatch.setattr(stamps, "PASSED", tmp_path / "passed")
    monkeypatch.setattr(stamps, "files_of_repository", lambda: [file])
    run = f"open({str(seen)!r}, 'a').write('a'); assert {str(file)!r}.endswith('x.py')"
    again = (("-c", run),)
    stages = [Stage("a", again, "", whole=True), Stage("b", (("-c", "print('b')"),), "")]
    monkeypatch.setattr(check, "STAGES", stages)

    def runs(*words):
        monkeypatch.setattr("sys.argv", ["check.py", *words])
        check.main()
        return len(seen.read_text()), capfd.readouterr().out

    assert runs()[0] == 1
    count, said = runs()
    assert count == 1
    assert f"== a: 0 s ==\n{stamps.PASSED_BEFORE}" in said
    assert said.count("\nb\n") == 1
    assert runs("a")[0] == 2  # who names a stage wants to see it run
    file.write_text("2", encoding="utf-8")
    assert runs()[0] == 3
    another_day = type("date", (), {"today": lambda: datetime.datetime(2020, 1, 1)})
    monkeypatch.setattr(check.datetime, "date", another_day)
    assert runs()[0] == 4
    object.__setattr__(stages[0], "commands", (("-c", "raise SystemExit(1)"),))
    file.write_text("3", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(SystemExit, match="FAILED in stage a"):
            runs()
    monkeypatch.setattr(stamps, "files_of_repository", list)  # no git: it always runs
    object.__setattr__(stages[0], "commands", again)
    assert [runs()[0], runs()[0]] == [5, 6]
