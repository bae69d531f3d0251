"""What has been done on this machine and need not be done again until something that it hangs on
changes: a text, the package, the studies and their results, data, versions, the kind of run.

A stamp is a file with one hash over all that. `make book` stamps the runs of chapters that pages
are built from, `make test` the chapters, labs and pages that have passed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import chapters

PASSED = chapters.BUILD / "passed"
PASSED_BEFORE = "passed here before, and nothing that it hangs on has changed"
# what chapters reach
CODE = (*chapters.PACKAGES, "studies", "data", "examples", "notebooks/quizzes")
KIND = (
    "ATEN_CPU_CAPABILITY",
    "OMP_NUM_THREADS",
    "FEDLAB_ALL_CASES",
    "FEDLAB_DATA",
    "FEDLAB_RESULTS",
    "FEDLAB_ORACLES_PYTHON",
    "FONTCONFIG_FILE",
)


def digest(files: Iterable[Path], *more: str) -> str:
    """Hash of file names and contents, and of further strings."""
    total = hashlib.sha256("\0".join(more).encode())
    for path in sorted(files):
        total.update(os.path.relpath(path, chapters.ROOT).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def files_below(*folders: str) -> list[Path]:
    """Every file under some folders of the repository, without caches and hidden ones."""
    return [
        path
        for folder in folders
        for path in (chapters.ROOT / folder).rglob("*")
        if path.is_file() and not any(p.startswith((".", "__pycache__")) for p in path.parts[-4:])
    ]


def files_of_repository() -> list[Path]:
    """What git tracks or would track, as it lies here; nothing where git does not answer."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        said = subprocess.run(words, cwd=chapters.ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    paths = [chapters.ROOT / os.fsdecode(name) for name in said.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


@cache
def machine() -> tuple[str, ...]:
    """This machine, its Python and the packages installed in it, with their versions."""
    installed = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    return (platform.node(), sys.version, *sorted(path.name for path in installed))


@cache
def shared(root: Path) -> str:
    """Hash of what every chapter and lab may reach."""
    named = [root / name for name in ("requirements.txt", "tools/chapters.py", "tools/figures.py")]
    return digest([*files_below(*CODE), *named], *machine())


def key(files: Iterable[Path], *more: str) -> str:
    """What the outcome of running the code in these files depends on."""
    kind = (os.environ.get(name, "") for name in KIND)
    return digest(files, shared(chapters.ROOT), *kind, *more)


def is_current(target: Path, key: str) -> bool:
    """Whether `target` is there and was made of exactly these inputs."""
    stamp = target.with_suffix(".key")
    return target.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key


def set_current(target: Path, key: str) -> None:
    """Note what `target` was made of."""
    chapters.write_atomic(target.with_suffix(".key"), key)


class Passed:
    """Whether a check of this name has passed here, of these files and further settings."""

    def __init__(self, name: str, files: Iterable[Path], *more: str) -> None:
        self.place, self.key = PASSED / f"{name}.key", key(files, *more)

    def __bool__(self) -> bool:
        return is_current(self.place, self.key)

    def note(self) -> None:
        set_current(self.place, self.key)
