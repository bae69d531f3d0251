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
from concurrent.futures import ThreadPoolExecutor
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
    """A name, commands that must all succeed, what to do when one does not, special settings.

    one_core  keeps one processor busy: neighbours of this kind run at the same time
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    advice: str
    kernels: bool = False
    browser: bool = False
    one_core: bool = False
    env: dict[str, str] = field(default_factory=dict)


def pytest(*words: str, spread: str = "worksteal", workers: int = 2) -> tuple[str, ...]:
    """pytest on both cores, to the end: who is done takes over what others have not begun.

    workers  three keep two cores busy where tests wait for processes of their own
    """
    return ("-m", "pytest", "-q", "-n", str(workers), "--dist", spread, *words)


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
        (pytest("tests/unit", "tests/properties", "tests/tools", workers=3),),
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
        (pytest("tests/cluster", "tests/flower", "tests/oracles"),),
        "A result differs from a closed form, an enumeration or another library.",
    ),
    Stage(
        "evidence",
        (("-m", "fedlab_mini.studies", "check"),),
        "A stored result is not what the code gives: `make evidence` runs what is stale.",
        one_core=True,
    ),
    Stage(
        "site",
        (("tools/book.py", "--committed", "--without-pdf"), ("tools/check_site.py", SITE)),
        "Repair the pages named above; `make site` builds them again.",
        one_core=True,
    ),
    Stage(
        "outputs",
        (("tools/outputs.py",),),
        "A chapter no longer gives its stored outputs. If the change is meant: make notebooks.",
        kernels=True,
    ),
    Stage(
        "parameters",
        (pytest("tests/notebooks"),),
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


def groups(stages: list[Stage]) -> list[list[Stage]]:
    """The stages in their order; neighbours that need one core each, together."""
    made: list[list[Stage]] = []
    for stage in stages:
        if made and stage.one_core and made[-1][-1].one_core:
            made[-1].append(stage)
        else:
            made.append([stage])
    return made


def main() -> None:
    wanted, names = sys.argv[1:], [stage.name for stage in STAGES]
    if unknown := sorted(set(wanted) - set(names)):
        sys.exit(f"no stage {', '.join(unknown)}; there are: {', '.join(names)}")
    took: list[str] = []
    chosen = [stage for stage in STAGES if not wanted or stage.name in wanted]
    for group in groups(chosen):
        start, title = time.perf_counter(), " and ".join(stage.name for stage in group)
        print(f"\n== {title} ==", flush=True)
        with ThreadPoolExecutor(len(group)) as pool:
            good = list(pool.map(run, group))
        if failed := [stage for stage, ok in zip(group, good, strict=True) if not ok]:
            told = "\n".join(f"FAILED in stage {stage.name}. {stage.advice}" for stage in failed)
            sys.exit(f"\n{told}")
        took.append(f"{title} {time.perf_counter() - start:.0f} s")
    print(f"\nAll is well: {', '.join(took)}")


if __name__ == "__main__":
    main()
