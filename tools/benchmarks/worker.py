"""A side of a comparison in a separate process, for packages of another environment.

The parent sends a line, the child runs its work once and answers with its CPU seconds, so turns
can be interleaved across processes, and neither imports nor pipes are counted. Run as a module it
is the child, which needs nothing but the standard library and what its work imports.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def python_with(module: str, package: str, variable: str) -> str | None:
    """The interpreter that ``variable`` names (default: this one) if it can import ``module``.

    Otherwise prints which package is missing where, and returns None.
    """
    python = os.path.expanduser(os.environ.get(variable, sys.executable))
    tried = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    if tried.returncode == 0:
        return python
    reason = tried.stderr.strip().splitlines()[-1]
    print(
        f"{package}: not installed ({reason}). Install it with `pip install '{package}'` into an "
        f"environment and name its python in {variable}.",
        flush=True,
    )
    return None


class WorkerError(RuntimeError):
    """A child process failed; the message contains its last output."""


class Worker:
    """A child process that repeats one piece of work on demand; use it in a ``with`` block.

    python    interpreter; work  "module:function"; settings  its keyword arguments (JSON values)
    The function prepares and returns the work: a callable without arguments that gives None or a
    dict of JSON values. A "seconds" among them replaces the CPU seconds of the child.
    raises    WorkerError if the child fails
    """

    def __init__(self, python: str, work: str, **settings: object):
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed in __exit__
        self.process = subprocess.Popen(
            [python, "-m", "tools.benchmarks.worker", work, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # run() has already reported a child that died
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def run(self) -> dict:
        """One repetition; returns what the work gave, with its CPU "seconds"."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise WorkerError("the worker failed:\n" + self.log.read()[-2000:])
        return json.loads(line)

    def seconds(self) -> float:
        """One repetition; returns its CPU seconds."""
        return self.run()["seconds"]


def child(work: str, settings: str) -> None:
    """Prepare the work, then run it once for every line of input."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print goes to the log
    module, function = work.split(":")
    repeat = getattr(importlib.import_module(module), function)(**json.loads(settings))
    for _ in sys.stdin:
        began = time.process_time()
        given = repeat() or {}
        answer = {"seconds": time.process_time() - began} | given
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    child(*sys.argv[1:])
