"""Everything `make test` proves, in the order in which it fails fastest.

    python tools/check.py              all stages
    python tools/check.py lint unit    some of them

The first stage that fails ends the run and says what to do next.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import chapters

PYTEST = (sys.executable, "-m", "pytest", "-q")
TWO = ("-n", "2", "--dist", "loadscope")
EACH = ("-n", "2", "--dist", "loadgroup")  # the tests of one file on both cores
SITE = "_build/site"


@dataclass(frozen=True)
class Stage:
    """A name, the commands that must all succeed, and what to do when one does not."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    advice: str
    kernels: bool = False


def tool(*words: str) -> tuple[str, ...]:
    """A command of the environment this runs in."""
    return (sys.executable, "-m", *words)


def script(name: str, *words: str) -> tuple[str, ...]:
    """A script of this folder."""
    return (sys.executable, f"tools/{name}.py", *words)


STAGES = (
    Stage(
        "lint",
        (
            tool("ruff", "check", "."),
            script("lint_notebooks"),
            script("labs", "--check"),
            tool("codespell_lib"),
        ),
        "ruff: `ruff check --fix .` repairs much. Notebooks: edit the .md, then `make notebooks`. "
        "Typed results and claims: CONTRIBUTING.md, 'What the lint asks of a text'. "
        "Spelling: correct the word, or add it to [tool.codespell] in pyproject.toml.",
    ),
    Stage(
        "unit",
        ((*PYTEST, *TWO, "tests/unit", "tests/properties", "tests/tools"),),
        "Run the failing test alone: python -m pytest -x PATH::NAME",
    ),
    Stage(
        "oracles",
        ((*PYTEST, *TWO, "tests/oracles"),),
        "A result differs from a closed form, an enumeration or another library.",
    ),
    Stage(
        "outputs",
        (
            (
                *PYTEST,
                *TWO,
                "-W",
                "default",
                "--nbval",
                "--nbval-current-env",
                "--nbval-sanitize-with",
                "tests/notebooks/sanitize.cfg",
                "--ignore=notebooks/labs",  # they have checks of their own
                "notebooks",
            ),
        ),
        "A chapter no longer gives its stored outputs. If the change is meant: make notebooks.",
        kernels=True,
    ),
    Stage(
        "parameters",
        ((*PYTEST, *EACH, "tests/notebooks"),),
        "A chapter's own checks fail away from its committed seed and sizes "
        "(tests/notebooks/other_parameters.toml): the claim is too strong or the code is wrong; or "
        "a lab's solution fails its checks, or its untouched copy passes one (notebooks/labs/).",
        kernels=True,
    ),
    Stage(
        "site",
        (script("book", "--committed", "--without-pdf"), script("check_site", SITE)),
        "Repair the pages named above; `make site` builds them again.",
    ),
    Stage(
        "browser",
        ((*PYTEST, *EACH, "tests/site"),),
        f"Open {SITE}/index.html and look at the page named above.",
    ),
)


def run(stage: Stage) -> bool:
    """Run a stage's commands until one fails, kernels in settings of their own."""
    env = chapters.own_settings() if stage.kernels else None
    return all(
        subprocess.run(command, cwd=chapters.ROOT, env=env, check=False).returncode == 0
        for command in stage.commands
    )


def pick(names: Sequence[str]) -> list[Stage]:
    """Stages by name, in their own order; all when none is named."""
    return [stage for stage in STAGES if not names or stage.name in names]


def main() -> None:
    names = [stage.name for stage in STAGES]
    parser = argparse.ArgumentParser(description="Run the checks.")
    parser.add_argument("stage", nargs="*", help=", ".join(names))
    wanted = parser.parse_args().stage
    if unknown := set(wanted) - set(names):
        parser.error(f"no stage {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    took: list[str] = []
    stages = pick(wanted)
    for stage in stages:
        start = time.perf_counter()
        if stage is stages[-1] and took:
            print(f"\nso far: {', '.join(took)}", flush=True)
        print(f"\n== {stage.name} ==", flush=True)
        if not run(stage):
            sys.exit(f"\nFAILED in stage {stage.name}. {stage.advice}")
        took.append(f"{stage.name} {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
