"""The stages of `make test`, in the order in which they fail fastest.

    python tools/check.py              the stages for every change
    python tools/check.py all          every stage, as `make test ALL=1` runs them
    python tools/check.py weekly       every stage with all cases, as `make test ALL=2` runs them
    python tools/check.py lint core    some stages

One line per stage. The first failure ends the run and shows its output and what to do next. The
commands in one row of STAGES run in parallel. No clock decides: a test whose deadline passes on a
busy machine is named as "not run".
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import chapters
import chromium
import deadlines

SITE = "_build/site"
ALWAYS, ALL, WEEKLY = range(3)
WHEN = ("always", "all, weekly", "weekly")
# Unit tests that start many trainings, processes or other tools; stage `rest` runs them.
LONG = tuple(
    f"tests/unit/test_{name}.py"
    for name in ("bench", "compare", "files", "going_on", "studies", "tour", "wheel")
)
# the front page, two chapters, one page of evidence, the labs'
PAGES = (
    *("book/index", "notebooks/01_federated_averaging", "notebooks/04_cgsv"),
    *("book/how_we_know", "book/labs"),
)
# as on another kind of processor, so that tests also pass on a reader's machine
PORTABLE = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}
Words = tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """A name, commands that must all succeed, what to do if one fails, special settings."""

    name: str
    commands: tuple[Words, ...]
    advice: str
    when: int = ALWAYS
    kernels: bool = False
    browser: bool = False
    env: dict[str, str] = field(default_factory=dict)


def pytest(*words: str, spread: str = "worksteal") -> Words:
    """pytest with two workers, also after failures; without nbval, which is slow to import."""
    return ("-m", "pytest", "-q", "-rs", "-p", "no:nbval", "-n", "2", "--dist", spread, *words)


ALONE = (
    "Run the failing test alone, as here without vector instructions and with one thread: "
    "ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 python -m pytest -x PATH::NAME"
)
LOOK = f"Open {SITE}/index.html and look at the page named above."
STAGES: tuple[tuple[Stage, ...], ...] = (
    (
        Stage(
            "lint",
            (*(("-m", "ruff", "check", "."), ("tools/lint.py",), ("-m", "codespell_lib")),),
            "ruff: `ruff check --fix .` repairs much. Chapters: edit the .md, then `make "
            "notebooks`. Labs: `make labs`. Each line above says the rest.",
        ),
        Stage(
            "site",
            (("tools/book.py", "--committed", "--without-pdf"), ("tools/check_site.py", SITE)),
            "Repair the pages named above; `make site` builds them again.",
        ),
    ),
    (
        Stage(
            "core",
            (pytest("tests/unit", "tests/properties", *(f"--ignore={path}" for path in LONG)),),
            ALONE,
            env=PORTABLE,
        ),
    ),
    (
        Stage(
            "oracles",
            (pytest("tests/oracles", spread="loadgroup"),),
            "A result differs from a closed form, an enumeration or another library.",
        ),
    ),
    (
        Stage(
            "chapters",
            (("tools/outputs.py",),),
            "A chapter no longer gives its stored outputs. If the change is meant: make notebooks.",
            kernels=True,
        ),
    ),
    (
        Stage(
            "pages",
            (pytest(*(f"tests/site/test_browser.py::test_page_is_sound[{x}]" for x in PAGES)),),
            LOOK,
            browser=True,
        ),
    ),
    (
        Stage(
            "evidence",
            (
                ("-m", "studies", "check"),
                ("-m", "studies", "pages", "--check"),
                ("tools/outputs.py", "evidence"),
            ),
            "A stored result is not what the code gives: CONTRIBUTING.md, 'Add a study'. "
            "A computed page is old: `python -m studies pages`. "
            "An evidence page gives other outputs: make notebooks CHAPTERS=evidence.",
            when=ALL,
        ),
        Stage(
            "types",
            (("-m", "mypy"),),
            "mypy names file and line; public functions have type hints.",
            when=ALL,
        ),
    ),
    (
        Stage(
            "mutants",
            (("tools/mutants.py", "--changed"),),
            "A sentence could be false and nothing would notice: sharpen the assert beside it.",
            when=ALL,
        ),
    ),
    (Stage("rest", (pytest(*LONG, "tests/tools"),), ALONE, when=ALL, env=PORTABLE),),
    (
        Stage(
            "flower",
            (pytest("tests/cluster", "tests/flower", spread="loadgroup"),),
            "Several processes do not give what one gives: Flower's, or joblib's on Dask and Ray.",
            when=ALL,
        ),
    ),
    (
        Stage(
            "parameters",
            (pytest("tests/notebooks"),),
            "A chapter's own checks fail away from its committed seed and sizes "
            "(tests/notebooks/other_parameters.toml): the claim is too strong or the code is "
            "wrong; or a lab's solution fails its checks, or its untouched copy passes one.",
            when=ALL,
            kernels=True,
        ),
    ),
    (Stage("browser", (pytest("tests/site", spread="loadgroup"),), LOOK, when=ALL, browser=True),),
    (
        Stage(
            "bounds",
            (("tools/unused.py",), ("tools/lower_bounds.py",)),
            "Use or drop the names above; raise a lower bound in pyproject.toml, or mend the code.",
            when=WEEKLY,
        ),
    ),
)
NAMES = [stage.name for row in STAGES for stage in row]
LEFT_OUT = re.compile(rf"{deadlines.NOT_RUN}(\S+)")


def run(stage: Stage, every_case: bool = False) -> list[str] | None:
    """Run a stage's commands until one fails; print its time, or what went wrong.

    returns  what was not run, because its deadline passed on a busy machine; None for a failure
    """
    if stage.browser and not chromium.wanted(f"{stage.name}:"):
        return []
    env = chapters.own_settings() if stage.kernels else os.environ
    # waiting threads sleep and leave the processor to other tests
    env = env | {"OMP_WAIT_POLICY": "PASSIVE"} | stage.env
    commands = stage.commands
    if every_case:
        env["FEDLAB_ALL_CASES"] = "1"
        commands = tuple(tuple(x for x in words if x != "--changed") for words in commands)
    start, left = time.perf_counter(), list[str]()
    for words in commands:
        done = subprocess.run(
            [sys.executable, *words], cwd=chapters.ROOT, env=env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
        if done.returncode:
            print(f"{done.stdout}\nFAILED in stage {stage.name}. {stage.advice}", flush=True)
            return None
        left += LEFT_OUT.findall(done.stdout)
    last = (done.stdout.strip().splitlines() or [""])[-1].strip("= ")[:80]
    rest = f"; {len(left)} not run: {', '.join(left)}" if left else ""
    print(f"{stage.name:10} {time.perf_counter() - start:4.0f} s  {last}{rest}", flush=True)
    return left


def told(stage: Stage) -> str:
    """What a stage runs, in words of a command line."""
    names = [re.sub(r"^-m pytest .*?(?=tests/)", "pytest ", " ".join(x)) for x in stage.commands]
    return "; ".join(name if len(name) < 90 else f"{name[:87]}..." for name in names)


def main() -> None:
    words = set(sys.argv[1:])
    if words & {"-h", "--help"}:
        print(__doc__)
        for stage in (stage for row in STAGES for stage in row):
            print(f"  {stage.name:11} {WHEN[stage.when]:14} {told(stage)}")
        return
    levels = {"all": ALL, "weekly": WEEKLY}
    if unknown := sorted(words - {*NAMES, *levels}):
        sys.exit(f"no stage {', '.join(unknown)}; there are: {', '.join([*NAMES, *levels])}")
    named, level = words & {*NAMES}, max((levels.get(word, ALWAYS) for word in words), default=0)
    start, left = time.perf_counter(), list[str]()
    for row in STAGES:
        chosen = [s for s in row if s.name in named or (not named and s.when <= level)]
        with ThreadPoolExecutor(2) as pool:
            for found in list(pool.map(lambda stage: run(stage, level == WEEKLY), chosen)):
                if found is None:
                    sys.exit(1)
                left += found
    rest = f", but {len(left)} not run, as the machine was busy: {', '.join(left)}" if left else ""
    print(f"All is well in {time.perf_counter() - start:.0f} s{rest}")


if __name__ == "__main__":
    main()
