"""Make `.venv`, once: check the Python, install the pinned requirements and this package.

Run by every make target, and by hand where there is no make: `python tools/bootstrap.py`. It needs
nothing but the standard library, and an old Python (3.6) can still read it and say what is missing.
Nothing is redone unless requirements.txt, pyproject.toml or the chosen Python changed.
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
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


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
        stamp = json.loads((venv / "setup.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv, stamp):
    """Recorded last and in one step, so that an interrupted set-up is started again."""
    part = venv / "setup.json.part"
    part.write_text(json.dumps(stamp), encoding="utf-8")
    os.replace(part, venv / "setup.json")


def newer_python():
    """A command for a Python that is new enough, if one is on the path."""
    for minor in range(19, OLDEST[1] - 1, -1):
        name = f"python3.{minor}"
        if shutil.which(name) and answers([name, "--version"]):
            return name
    return None


def check_python():
    """Exit with instructions when this Python cannot make the environment."""
    if sys.version_info < OLDEST:
        other = newer_python()
        advice = "One is installed:" if other else "Install one, then:"
        sys.exit(
            f"This is Python {THIS} ({sys.executable}); the book needs 3.11 or newer.\n"
            f"{advice} make book PYTHON={other or 'python3.12'}"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as missing:
        sys.exit(
            f"This Python cannot make virtual environments ({missing}).\n"
            "On Debian or Ubuntu: sudo apt install python3-venv\nThen run the command again."
        )


def answers(command):
    """True if a command can be started and ends well."""
    try:
        return (
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
            == 0
        )
    except OSError:
        return False


def create(venv):
    """An empty environment; a half-made one is replaced."""
    print(f"Making the environment {venv.name} with Python {THIS}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)


def install(venv, flags):
    """Pinned requirements, then this package in place (its own dependencies are among the pins)."""
    pip = [str(venv_python(venv)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print("Installing the pinned requirements; the first time this takes minutes", flush=True)
    subprocess.run([*pip, *flags, "-r", str(ROOT / "requirements.txt")], check=True)
    package = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    subprocess.run([*pip, *flags, *package], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--pip-flags", default="", help="passed on to pip install")
    parser.add_argument(
        "--keep-python",
        action="store_true",
        help="accept the Python that is already in the environment",
    )
    args = parser.parse_args()

    old = read_stamp(args.venv)
    python = old.get("python", THIS) if args.keep_python else THIS
    stamp = {"inputs": fingerprint(), "python": python, "root": str(ROOT)}
    present = answers([str(venv_python(args.venv)), "--version"])
    if present and old == stamp:
        return
    anew = not present or old.get("python", python) != python
    if anew or not answers([str(venv_python(args.venv)), "-m", "pip", "--version"]):
        check_python()
        create(args.venv)
        stamp["python"] = THIS
    try:
        install(args.venv, shlex.split(args.pip_flags))
    except subprocess.CalledProcessError as failed:
        sys.exit(
            "pip stopped with an error (above). Check the network and the free disk space (4 GB),\n"
            f"then run the command again. Exit status {failed.returncode}."
        )
    write_stamp(args.venv, stamp)


if __name__ == "__main__":
    main()
