"""Everything `make test` proves, in the order in which it fails fastest.

    python tools/check.py              all stages
    python tools/check.py lint unit    some of them

The first stage that fails ends the run and says what to do next.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

import chapters
import chromium

SITE = "_build/site"
FAR = (  # what no processor computes differently
    "data or plots or table or widgets or quizzes or benchmarks or checkpoint or resume or sms or "
    "federation or partition or corrupt or scenarios or streams or simulation or wheel or types or "
    "results or truth or contract or score or label_standardisation or test_game.py or "
    "sweep or team"
)


@dataclass(frozen=True)
class Stage:
    """A name, commands that must all succeed, what to do when one does not, special settings."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    advice: str
    kernels: bool = False
    browser: bool = False
    env: dict[str, str] = field(default_factory=dict)


def pytest(*words: str, spread: str = "loadscope") -> tuple[str, ...]:
    """pytest on both cores; ``spread="loadgroup"`` also takes the tests of one file apart."""
    return ("-m", "pytest", "-q", "-n", "2", "--dist", spread, *words)


STAGES = (
    Stage(
        "lint",
        (
            ("-m", "ruff", "check", "."),
            ("tools/lint_notebooks.py",),
            ("tools/labs.py", "--check"),
            ("-m", "codespell_lib"),
        ),
        "ruff: `ruff check --fix .` repairs much. Notebooks: edit the .md, then `make notebooks`. "
        "Typed results and claims: CONTRIBUTING.md, 'What the lint asks of a text'. "
        "Spelling: correct the word, or add it to [tool.codespell] in pyproject.toml.",
    ),
    Stage(
        "unit",
        (pytest("tests/unit", "tests/properties", "tests/tools"),),
        "Run the failing test alone: python -m pytest -x PATH::NAME",
    ),
    Stage(
        "portable",
        (pytest("tests/unit", "-k", f"not ({FAR})"),),
        "A test depends on the processor: it fails without vector instructions, with one thread. "
        "Alone: ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 python -m pytest -x PATH::NAME",
        env={"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"},
    ),
    Stage(
        "oracles",
        (pytest("tests/oracles", "tests/flower", "tests/cluster"),),
        "A result differs from a closed form, an enumeration or another library.",
    ),
    Stage(
        "evidence",
        (("-m", "fedlab_mini.studies", "check"),),
        "A stored result is not what the code gives: `make evidence` runs what is stale.",
    ),
    Stage(
        "outputs",
        (("tools/outputs.py",),),
        "A chapter no longer gives its stored outputs. If the change is meant: make notebooks.",
        kernels=True,
    ),
    Stage(
        "parameters",
        (pytest("tests/notebooks", spread="loadgroup"),),
        "A chapter's own checks fail away from its committed seed and sizes "
        "(tests/notebooks/other_parameters.toml): the claim is too strong or the code is wrong; or "
        "a lab's solution fails its checks, or its untouched copy passes one (notebooks/labs/).",
        kernels=True,
    ),
    Stage(
        "mutants",
        (("tools/mutants.py", "--some", "2"),),
        "A sentence could be false and nothing would notice: sharpen the assert beside it.",
    ),
    Stage(
        "site",
        (("tools/book.py", "--committed", "--without-pdf"), ("tools/check_site.py", SITE)),
        "Repair the pages named above; `make site` builds them again.",
    ),
    Stage(
        "browser",
        (pytest("tests/site", spread="loadgroup"),),
        f"Open {SITE}/index.html and look at the page named above.",
        browser=True,
    ),
)


def run(stage: Stage) -> bool:
    """Run a stage's commands until one fails; a browser's stage only where there is one."""
    if stage.browser and not chromium.wanted("Browser tests"):
        return True
    env = (chapters.own_settings() if stage.kernels else os.environ) | stage.env
    return all(
        subprocess.run([sys.executable, *words], cwd=chapters.ROOT, env=env, check=False).returncode
        == 0
        for words in stage.commands
    )


def main() -> None:
    wanted, names = sys.argv[1:], [stage.name for stage in STAGES]
    if unknown := sorted(set(wanted) - set(names)):
        sys.exit(f"no stage {', '.join(unknown)}; there are: {', '.join(names)}")
    took: list[str] = []
    for stage in [stage for stage in STAGES if not wanted or stage.name in wanted]:
        start = time.perf_counter()
        print(f"\n== {stage.name} ==", flush=True)
        if not run(stage):
            sys.exit(f"\nFAILED in stage {stage.name}. {stage.advice}")
        took.append(f"{stage.name} {time.perf_counter() - start:.0f} s")
    print(f"\nAll is well: {', '.join(took)}")


if __name__ == "__main__":
    main()
