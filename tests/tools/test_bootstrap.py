"""Set-up: done once, done again when its inputs change, refused with advice on an old Python."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bootstrap


def test_old_python_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(bootstrap, "OLDEST", (9, 0))
    with pytest.raises(SystemExit, match="newer") as caught:
        bootstrap.check_python()
    assert "PYTHON=" in str(caught.value)


def test_python_without_ensurepip_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit, match="apt install python3-venv"):
        bootstrap.check_python()


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_half_written_stamp_counts_as_none(tmp_path, text):
    (tmp_path / "setup.json").write_text(text, encoding="utf-8")
    assert bootstrap.read_stamp(tmp_path) == {}


def test_stamp_comes_back(tmp_path):
    bootstrap.write_stamp(tmp_path, {"inputs": "x"})
    assert bootstrap.read_stamp(tmp_path) == {"inputs": "x"}
    assert [path.name for path in tmp_path.iterdir()] == ["setup.json"]


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_fingerprint_follows_both_files(tmp_path, monkeypatch, name):
    for each in ("requirements.txt", "pyproject.toml"):
        (tmp_path / each).write_text(each, encoding="utf-8")
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    before = bootstrap.fingerprint()
    (tmp_path / name).write_text("changed", encoding="utf-8")
    assert bootstrap.fingerprint() != before


@pytest.fixture
def ready(tmp_path, monkeypatch):
    """An environment that counts as complete, and a list of what set-up would do."""
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path), "--keep-python"])
    done = []

    def create(venv):
        done.append("create")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)

    monkeypatch.setattr(bootstrap, "create", create)
    monkeypatch.setattr(bootstrap, "install", lambda venv, flags: done.append("install"))
    monkeypatch.setattr(bootstrap, "answers", lambda command: Path(command[0]).exists())
    bootstrap.main()
    assert done == ["create", "install"]
    done.clear()
    return tmp_path, done


def test_complete_environment_is_left_alone(ready):
    bootstrap.main()
    assert ready[1] == []


def test_changed_requirements_are_installed_into_it(ready):
    venv, done = ready
    stamp = json.loads((venv / "setup.json").read_text(encoding="utf-8"))
    bootstrap.write_stamp(venv, stamp | {"inputs": "older"})
    bootstrap.main()
    assert done == ["install"]


def test_another_python_asked_for_makes_it_anew(ready, monkeypatch):
    venv, done = ready
    stamp = json.loads((venv / "setup.json").read_text(encoding="utf-8"))
    bootstrap.write_stamp(venv, stamp | {"python": "3.99"})
    bootstrap.main()
    assert done == []
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(venv)])
    bootstrap.main()
    assert done == ["create", "install"]
