"""The wheel is whole: built, installed and used where no checkout can be imported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedlab_mini", "fedlab_bench", "fedlab_flower")

# Like an environment without the checkout: the wheel and what it depends on, no .pth file is read.
PROGRAM = """
import sys
sys.path += {paths!r}
import fedlab_bench
import fedlab_mini as fm
from fedlab_mini.command.data import main
fed = fm.federation(fm.load("digits"), clients=3, samples=90)
print(fm.train(fed, fm.mlp(64, 8, 10), fm.CGSV(), rounds=2).scores)
assert main(["verify", "digits", "mnist5k", "sms-synthetic"]) == 0
print("from", fm.__file__)
"""


def run(*command: str, **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(folder: Path) -> set[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    return {name for name in found if "__pycache__" not in name}


def test_a_wheel_is_whole_and_trains_where_no_checkout_can_be_seen(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")]:
        shutil.copy(path, source)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-index"]  # nothing is downloaded
    run(*pip, "wheel", *alone, "--no-build-isolation", "-w", str(tmp_path), str(source))
    (built,) = tmp_path.glob("fedlab_mini-*.whl")
    run(*pip, "install", *alone, "--no-compile", "--target", str(site), str(built))
    for name in PACKAGES:
        assert files(site / name) == files(ROOT / name)
    packages = [path for path in sys.path if path.endswith("-packages")]
    program = PROGRAM.format(paths=[str(site), *packages])
    empty = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "FEDLAB_DATA": ""}
    told = run(sys.executable, "-ISc", program, cwd=tmp_path, env=os.environ | empty)
    assert f"from {site}" in told
