"""The wheel is whole: built, installed and used where no checkout can be imported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fedlab_mini", "fedlab_bench", "fedlab_flower")
NOT_IN_THE_WHEEL = shutil.ignore_patterns("__pycache__", "*.egg-info")

# Like an environment without the checkout: the wheel and what it depends on, no .pth file is read.
PROGRAM = """
import sys
sys.path += {paths!r}
import fedlab_mini as fm
from fedlab_mini.worlds.data import CARDS
from fedlab_mini.command.data import main
{example}
for name in [name for name, card in CARDS.items() if card.embedded]:
    print(fm.load(name))
assert main(["verify", "digits", "mnist5k", "sms-synthetic"]) == 0
print("from", fm.__file__)
"""


def run(command: list[str], **more) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder into which the wheel of this checkout has been installed."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=NOT_IN_THE_WHEEL)
    for path in [ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("LICENSE*")]:
        shutil.copy(path, folder / "source")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-index"]  # nothing is downloaded
    wheel = [*pip, "wheel", *alone, "--no-build-isolation", "-w", str(folder)]
    run([*wheel, str(folder / "source")])
    (built,) = folder.glob("fedlab_mini-*.whl")
    run([*pip, "install", *alone, "--no-compile", "--target", str(folder / "site"), str(built)])
    return folder / "site"


def test_the_wheel_holds_every_file_of_the_package(installed):
    def files(folder: Path) -> set[str]:
        found = (path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
        return {name for name in found if "__pycache__" not in name}

    for_authors = {"ruff.toml"}
    for package in PACKAGES:
        assert files(installed / package) == files(ROOT / package) - for_authors
    assert {"py.typed", "worlds/data/files/mnist5k.LICENSE.txt"} <= files(installed / "fedlab_mini")


def test_the_readmes_examples_and_all_embedded_sets_outside_the_repository(installed, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = "\n".join(re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S))
    assert {"fm.score(", "fb.compare("} <= set(re.findall(r"f[bm]\.\w+\(", example))
    packages = [path for path in sys.path if path.endswith("-packages")]
    program = PROGRAM.format(paths=[str(installed), *packages], example=example)
    empty = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "FEDLAB_DATA": ""}
    told = run([sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, env=os.environ | empty)
    assert f"from {installed}" in told
    assert len(re.findall(r"^Dataset\((digits|mnist5k|sms-synthetic):", told, re.M)) == 3
