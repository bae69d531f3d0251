"""What `make test` proves, in the order in which it fails fastest.

    python tools/check.py              what a change is tried with
    python tools/check.py all          every stage, as `make test ALL=1` runs them
    python tools/check.py lint core    some stages

Stages that keep one processor busy run two at a time, those with two workers alone. What a stage
prints is shown when it ends. The first that fails ends the run and says what to do next. Without
names, a stage that has passed here today, with the very same files, is not run again.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

import chapters
import chromium
import stamps

SITE = "_build/site"
ALL = "all"  # the word for every stage
# Unit tests that start trainings, processes or other tools by the dozen: stage `rest` has them.
LONG = tuple(
    f"tests/unit/test_{name}.py"
    for name in (
        *("bench", "bench_versions", "benchmarks", "compare", "contributing", "files"),
        *("going_on", "readme", "studies", "types", "wheel"),
    )
)
# the front page, two chapters, one page of evidence, the labs'
PAGES = (
    *("book/index", "notebooks/01_federated_averaging", "notebooks/04_cgsv"),
    *("book/how_we_know", "book/labs"),
)
QUIET = {"OMP_WAIT_POLICY": "PASSIVE"}  # who waits sleeps, and leaves the core to other tests
# as on another kind of processor, so that a reader's machine is no surprise
PORTABLE = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Stage:
    """A name, commands that must all succeed, what to do when one does not, special settings.

    cores  how many processors it keeps busy, 1 or 2
    after  the stage that must have ended before this one begins
    whole  whether all of it hangs on the repository's files, the machine and the day alone, and on
           no stamps of its own parts; it leaves nothing that a later stage needs
    more   whether it is run where it is asked for alone, by name or with all stages
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    advice: str
    kernels: bool = False
    browser: bool = False
    cores: int = 1
    after: str = ""
    whole: bool = False
    more: bool = False
    env: dict[str, str] = field(default_factory=dict)


def pytest(*words: str, spread: str = "worksteal") -> tuple[str, ...]:
    """pytest with two workers, to the end: who is done takes over what others have not begun.

    Without nbval, which only ``outputs`` needs and which takes seconds to import
    """
    return ("-m", "pytest", "-q", "-p", "no:nbval", "-n", "2", "--dist", spread, *words)


ALONE = (
    "Run the failing test alone, as here without vector instructions and with one thread: "
    "ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 python -m pytest -x PATH::NAME"
)
LOOK = f"Open {SITE}/index.html and look at the page named above."
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
        "evidence",
        (("-m", "studies", "check"),),
        "A stored result is not what the code gives. CONTRIBUTING.md, 'Evidence', says what to do.",
        whole=True,
        more=True,
    ),
    Stage(
        "site",
        (("tools/book.py", "--committed", "--without-pdf"), ("tools/check_site.py", SITE)),
        "Repair the pages named above; `make site` builds them again.",
    ),
    Stage(
        "mutants",
        (("tools/mutants.py", "--some", "2"),),
        "A sentence could be false and nothing would notice: sharpen the assert beside it.",
        whole=True,
        more=True,
    ),
    Stage(
        "core",
        (pytest("tests/unit", "tests/properties", *(f"--ignore={path}" for path in LONG)),),
        ALONE,
        whole=True,
        env=PORTABLE,
        cores=2,
    ),
    Stage(
        "oracles",
        (pytest("tests/oracles", spread="loadgroup"),),
        "A result differs from a closed form, an enumeration or another library.",
        whole=True,
        cores=2,
    ),
    Stage(
        "outputs",
        (("tools/outputs.py",),),
        "A chapter no longer gives its stored outputs. If the change is meant: make notebooks.",
        kernels=True,
        cores=2,
    ),
    Stage(
        "pages",
        (pytest(*(f"tests/site/test_browser.py::test_page_is_sound[{page}]" for page in PAGES)),),
        LOOK,
        browser=True,
        after="site",
        cores=2,
    ),
    Stage(
        "rest",
        (pytest(*LONG, "tests/tools"),),
        ALONE,
        whole=True,
        more=True,
        env=PORTABLE,
        cores=2,
    ),
    Stage(
        "flower",
        (pytest("tests/cluster", "tests/flower", spread="loadgroup"),),
        "Several processes do not give what one gives: Flower's, or joblib's on Dask and Ray.",
        whole=True,
        more=True,
        cores=2,
    ),
    Stage(
        "parameters",
        (pytest("tests/notebooks"),),
        "A chapter's own checks fail away from its committed seed and sizes "
        "(tests/notebooks/other_parameters.toml): the claim is too strong or the code is wrong; or "
        "a lab's solution fails its checks, or its untouched copy passes one (notebooks/labs/).",
        kernels=True,
        more=True,
        cores=2,
    ),
    Stage(
        "browser",
        (pytest("tests/site", spread="loadgroup"),),
        LOOK,
        browser=True,
        after="site",
        more=True,
        cores=2,
    ),
)


class Failed(Exception):
    """The stage of this name did not succeed."""


class Run:
    """Stages under way: what they have started, and whether one has failed."""

    def __init__(self) -> None:
        self.lock, self.over = threading.Lock(), False
        self.order, self.cores = threading.Lock(), threading.Semaphore(2)
        self.started: list[subprocess.Popen[bytes]] = []

    def stage(self, stage: Stage, out: IO[bytes] | None = None) -> bool:
        """Run a stage's commands until one fails; a browser's stage only where there is one."""
        if stage.browser and not chromium.wanted("Browser tests"):
            return True
        with self.lock:  # two stages that begin at once would write the settings at once
            settings = chapters.own_settings() if stage.kernels else os.environ
        env = settings | QUIET | stage.env
        return all(self.command(words, env, out) == 0 for words in stage.commands)

    @contextmanager
    def busy(self, cores: int) -> Iterator[None]:
        """Wait for so many processors; who has begun to wait is not overtaken."""
        with self.order:
            for _ in range(cores):
                self.cores.acquire()
        try:
            yield
        finally:
            self.cores.release(cores)

    def command(self, words: tuple[str, ...], env: dict[str, str], out: IO[bytes] | None) -> int:
        with self.lock:
            if self.over:
                return 1
            told = {"stdout": out, "stderr": subprocess.STDOUT} if out else {}
            now = subprocess.Popen([sys.executable, *words], cwd=chapters.ROOT, env=env, **told)
            self.started.append(now)
        return now.wait()

    def stop(self) -> None:
        with self.lock:
            self.over = True
            for now in self.started:
                now.terminate()


def stamped(stages: list[Stage]) -> dict[str, stamps.Passed]:
    """By name, whether a stage has passed today with the files as they are; some always run."""
    files = stamps.files_of_repository()
    if not files:
        return {}
    # Read once for all. The day counts, since some tests take other cases every day.
    state = stamps.digest(files, datetime.date.today().isoformat())
    whole = [stage.name for stage in stages if stage.whole]
    return {name: stamps.Passed(f"stages/{name}", (), state) for name in whole}


def side_by_side(stages: list[Stage], passed: Mapping[str, stamps.Passed]) -> dict[str, float]:
    """Run stages in their order, as many as there are processors; their seconds, or Failed."""
    turns, took, told = Run(), {}, threading.Lock()
    futures: dict[str, Future[None]] = {}

    def turn(stage: Stage) -> None:
        if first := futures.get(stage.after):
            first.result()
        before = passed.get(stage.name)
        with turns.busy(stage.cores), tempfile.TemporaryFile() as out:
            start = time.perf_counter()
            if before:
                out.write(f"{stamps.PASSED_BEFORE}\n".encode())
            good = bool(before) or turns.stage(stage, None if len(stages) == 1 else out)
            if good and before is not None:
                before.note()
            out.seek(0)
            with told:
                if turns.over:
                    return
                took[stage.name] = time.perf_counter() - start
                print(f"\n== {stage.name}: {took[stage.name]:.0f} s ==", flush=True)
                sys.stdout.write(out.read().decode(errors="replace"))
                sys.stdout.flush()
                if not good:
                    turns.stop()
                    raise Failed(stage.name)

    with ThreadPoolExecutor(2) as pool:
        for stage in stages:
            futures[stage.name] = pool.submit(turn, stage)
        try:
            wait(futures.values(), return_when=FIRST_EXCEPTION)
        finally:
            turns.stop()
    for future in futures.values():
        future.result()
    return took


def main() -> None:
    wanted, names = set(sys.argv[1:]), [stage.name for stage in STAGES]
    if unknown := sorted(wanted - {*names, ALL}):
        sys.exit(f"no stage {', '.join(unknown)}; there are: {', '.join(names)}, and {ALL}")
    named = wanted - {ALL}
    chosen = [
        stage
        for stage in STAGES
        if stage.name in named or (not named and (ALL in wanted or not stage.more))
    ]
    passed = {} if named else stamped(chosen)
    start = time.perf_counter()
    try:
        took = side_by_side(chosen, passed)
    except Failed as failed:
        advice = next(stage.advice for stage in chosen if stage.name == str(failed))
        sys.exit(f"\nFAILED in stage {failed}. {advice}")
    told = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in took.items())
    print(f"\nAll is well in {time.perf_counter() - start:.0f} s: {told}")


if __name__ == "__main__":
    main()
