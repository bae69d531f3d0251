"""Make `.venv`, once: check the Python, install the pinned requirements and this package.

Run by every make target, and by hand where there is no make: `python tools/bootstrap.py`. It needs
nothing but the standard library, and is written so that an old Python can still read it and say what
is missing. Nothing is redone unless requirements.txt, pyproject.toml or the chosen Python changed.
"""

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)


def venv_python(venv):
    """The interpreter inside a virtual environment, on this operating system."""
    if os.name == "nt":
        return venv / "Scripts" / "python.exe"
    return venv / "bin" / "python"


def fingerprint():
    """Hash of everything that decides what gets installed."""
    digest = hashlib.sha256()
    for name in ("requirements.txt", "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def read_stamp(venv):
    """What the last complete set-up wrote, or an empty dict."""
    try:
        return json.loads((venv / "setup.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def check_python():
    """Exit with instructions when this Python cannot make the environment."""
    if sys.version_info < OLDEST:
        names = ["python3.%d" % minor for minor in range(OLDEST[1], 20)]
        found = [name for name in names if shutil.which(name)]
        advice = (
            "One is installed: make book PYTHON=" + found[-1]
            if found
            else "Install one, then: make book PYTHON=python3.12"
        )
        sys.exit(
            "This is Python %d.%d (%s); the book needs 3.11 or newer.\n%s"
            % (sys.version_info[0], sys.version_info[1], sys.executable, advice)
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as missing:
        sys.exit(
            "This Python cannot make virtual environments (%s).\n"
            "On Debian or Ubuntu: sudo apt install python3-venv   Then run the command again." % missing
        )


def create(venv):
    """An empty environment; a half-made one is replaced."""
    print("Making the environment %s with Python %d.%d" % ((venv.name,) + sys.version_info[:2]))
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)


def install(venv, flags):
    """Pinned requirements, then this package in place (its own dependencies are among the pins)."""
    pip = [str(venv_python(venv)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print("Installing the pinned requirements (about 1.5 GB, a few minutes the first time)", flush=True)
    subprocess.run(pip + flags + ["-r", str(ROOT / "requirements.txt")], check=True)
    package = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    subprocess.run(pip + flags + package, check=True)


def write_stamp(venv, stamp):
    """Recorded last and in one step, so that an interrupted set-up is started again."""
    part = venv / "setup.json.part"
    part.write_text(json.dumps(stamp), encoding="utf-8")
    os.replace(str(part), str(venv / "setup.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--pip-flags", default="", help="passed on to pip install")
    parser.add_argument("--keep-python", action="store_true", help="accept the Python already in .venv")
    args = parser.parse_args()

    stamp = {"inputs": fingerprint(), "python": "%d.%d" % sys.version_info[:2], "root": str(ROOT)}
    old = read_stamp(args.venv)
    if args.keep_python and old:
        stamp["python"] = old.get("python")
    if old == stamp and venv_python(args.venv).exists():
        return
    check_python()
    usable = subprocess.run(
        [str(venv_python(args.venv)), "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    ).returncode == 0 if venv_python(args.venv).exists() else False
    if not usable or old.get("python") != stamp["python"]:
        create(args.venv)
    try:
        install(args.venv, shlex.split(args.pip_flags))
    except subprocess.CalledProcessError as failed:
        sys.exit(
            "pip stopped with an error (above). Check the network and the free disk space (3 GB), then\n"
            "run the command again: what is already installed is kept. Exit status %d." % failed.returncode
        )
    write_stamp(args.venv, stamp)


if __name__ == "__main__":
    main()
