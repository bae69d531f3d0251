"""Other people's scores on the bench: fetch a project, run it on recorded rounds, write CSV files.

    python -m examples.foreign                      the projects, with version and licence
    python -m examples.foreign flce                 one of them; `all` for all
    python -m examples.foreign flce --code FOLDER   with a checkout that you have
    python -m examples.foreign flce --cases         only what it says of small cases
    python -m examples.foreign all --check          fail if it is not what is stored

Each project gets an environment of its own below _build/foreign. Before anything is fetched, the
command says what. `python -m fedlab_bench judge FILES` judges what it writes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedlab_bench as fb
import fedlab_mini as fm
from fedlab_bench.measures import relative_error
from fedlab_bench.recording import Recorded, recorded, slug
from fedlab_mini.command import terminal
from fedlab_mini.keep.files import whole_file
from fedlab_mini.streams import one_thread
from studies import foreign

from . import small_cases

HERE = Path(__file__).resolve().parent
BUILT = foreign.ROOT / "_build" / "foreign"
DIGITS = 5  # of a stored score
ROUNDING = 0.001  # of a score: other processors round otherwise, and training amplifies it
QUIET = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""}


def recording(name: str, seed: int) -> Path:
    """The file of a scenario and seed, recorded if there is none."""
    path = BUILT / "cells" / f"{slug(name)}-{seed}.npz"
    if not path.is_file():
        who = {"name": np.array(name), "seed": np.array(seed)}
        arrays = who | _arrays(recorded(fb.WORLDS[name], seed))
        with whole_file(path) as part, open(part, "wb") as file:
            np.savez(file, **arrays)
    return path


def _arrays(seen: Recorded) -> dict[str, np.ndarray]:
    x, y = seen.server.validation

    def worths(weights: Any) -> np.ndarray:
        with one_thread():
            games = [
                fm.round_game(
                    seen.server.net, one.theta, one.updates, x, y, metric="loss", weights=weights
                )
                for one in seen.rounds
            ]
            return torch.stack([game.all() for game in games]).numpy()

    theta = torch.stack([one.theta for one in seen.rounds]).numpy()
    updates = torch.stack([one.updates for one in seen.rounds]).numpy().astype(np.float32)
    sizes = seen.rounds[0].sizes
    weighted = {"worths": worths(sizes.double()), "plain": worths(None)}
    server = {"x": x.numpy(), "y": y.numpy()}
    return {**weighted, "theta": theta, "updates": updates, "sizes": sizes.numpy(), **server}


def prepared(name: str, project: foreign.Project, code: Path | None) -> dict[str, str]:
    """Make the project's environment, fetch its code; returns variables for its process."""
    place, needs = BUILT / name, HERE / "requirements" / f"{name}.txt"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.is_file():
        print(f"{name}: installing {needs.relative_to(foreign.ROOT)} into {place}", flush=True)
        venv.create(place, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps"]
        subprocess.run([*install, "-r", needs], check=True)
    if project.commit and code is None:
        code = place / "code"
        if not code.is_dir():
            print(f"{name}: fetching {project.address} at {project.commit}", flush=True)
            clone = ["git", "clone", "--quiet", "--no-checkout", project.address, code]
            subprocess.run(clone, check=True)
            subprocess.run(["git", "-C", code, "checkout", "--quiet", project.commit], check=True)
    if code is not None and not any(code.glob("LICENSE*")):
        sys.exit(f"--code: {code} has no licence file, so it is not run")
    return {"PYTHON": str(python), "FOREIGN_CODE": str(code or "")}


def ran(name: str, project: foreign.Project, code: Path | None) -> dict[str, Any]:
    """The adapter's answer: {"scores": {score: [[scenario, seed, values]]}, "seconds": a number}.

    Scores that reach the same cells are asked for in one run.
    """
    said = prepared(name, project, code)
    asked = dict.fromkeys(cell for score in project.scores for cell in score.cells())
    listing, out = BUILT / f"{name}.cells", BUILT / f"{name}.json"
    listing.write_text("\n".join(str(recording(*cell)) for cell in asked))
    run = [said["PYTHON"], HERE / f"{name}_scores.py", listing, out]
    subprocess.run(run, check=True, env={**os.environ, **QUIET, **said})
    return json.loads(out.read_text())


def asked_cases(name: str, project: foreign.Project, code: Path | None) -> dict[str, Any]:
    """What the project says of its small cases, by name."""
    said = prepared(name, project, code)
    run = [said["PYTHON"], HERE / "small_cases.py", name]
    done = subprocess.run(run, check=True, capture_output=True, env={**os.environ, **QUIET, **said})
    return json.loads(done.stdout)


def written(project: foreign.Project, held: dict[str, Any], to: Path) -> list[Path]:
    """Write a file a score, each with the cells that the score reaches."""
    files, today = [], date.today().isoformat()
    for score in project.scores:
        numbers = {(name, seed): own for name, seed, own in held["scores"][score.name]}
        scores = {
            cell: torch.tensor(
                [float(f"{v:.{DIGITS}g}") for v in numbers[cell]], dtype=torch.float64
            )
            for cell in score.cells()
        }
        notes = {
            "name": score.name,
            "sees": score.sees,
            "cost": score.cost,
            "source": f"{project.source}; stored",
            "date": today,
            "version": fb.VERSION,
        }
        files.append(to / f"{slug(score.name)}.csv")
        fb.Submission(scores, notes).write(files[-1])
    return files


def changed(name: str, project: foreign.Project, to: Path) -> list[str]:
    """The project's scores and small cases in a folder that are not the stored ones."""
    said, stored = (
        json.loads((place / "runs.json").read_text())[name] for place in (to, foreign.PLACE)
    )
    found = [] if said.get("cases") == stored.get("cases") else [f"{name}: small cases"]
    for score in project.scores:
        new, old = (
            fb.read_submission(place / score.file().name).scores for place in (to, foreign.PLACE)
        )
        away = max(relative_error(new[cell], old[cell]) for cell in old)
        if away > ROUNDING:
            found.append(f"{score.name}: {away:.2g} away from the stored scores")
    return found


@terminal()
def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    program = "python -m examples.foreign"
    parser = argparse.ArgumentParser(prog=program, description=__doc__, formatter_class=formatter)
    known = foreign.projects()
    parser.add_argument("names", nargs="*", choices=[*known, "all", []], metavar="NAME")
    parser.add_argument("--code", type=Path, help="a checkout of the one project that is named")
    parser.add_argument("--to", type=Path, default=BUILT / "scores", help="the folder of the files")
    parser.add_argument("--cases", action="store_true", help="only the small cases")
    parser.add_argument("--check", action="store_true", help="fail if it is not what is stored")
    asked = parser.parse_args(words)
    names = [*known] if "all" in asked.names else asked.names
    if asked.code and len(names) != 1:
        parser.error("--code: expected one NAME beside it")
    if not names:
        print("\n".join(f"{name:10s} {one.source}" for name, one in known.items()))
    code, faults = asked.code and asked.code.resolve(), []
    for name in names:
        if hasattr(small_cases, name):
            foreign.keep(asked.to, name, cases=asked_cases(name, known[name], code))
        if asked.cases:
            continue
        held = ran(name, known[name], code)
        files = written(known[name], held, asked.to)
        foreign.keep(asked.to, name, seconds=round(held["seconds"]))
        print(f"{name}: {held['seconds']:.0f} s; written: {', '.join(map(str, files))}", flush=True)
        faults += changed(name, known[name], asked.to) if asked.check else []
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
