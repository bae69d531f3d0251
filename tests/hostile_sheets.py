"""What a class could hand in by accident or on purpose: sheets that run, and files that are none.

Each has the status that it gets. A few stand for all in the usual run; FEDLAB_ALL_CASES=1 has all.
"""

from __future__ import annotations

import os
import threading

import nbformat
import psutil

import processes
from marking import LARGEST
from processes import held

ALL = bool(os.environ.get("FEDLAB_ALL_CASES"))
HONEST = [f"honest {k}" for k in range(8 if ALL else 0)]  # beside anna and zoe
NO_SHEET = "no lab sheet of this book"
ANY_END = r"^(graded|otter-grader (ended with|left no results)|stopped)"

FORGED = """
import json, os, pathlib, signal
tests = [{"name": "<script>alert(1)</script>", "score": 10, "max_score": 1, "output": ""}]
for place in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents[:1]):
    for out in (place, place / "out"):
        if out.is_dir() and os.access(out, os.W_OK):
            (out / "results.json").write_text(json.dumps({"tests": tests}))
os.kill(os.getppid(), signal.SIGKILL)
"""
CHILDREN = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        time.sleep(10**6)
"""
THREADS = """
import threading
for _ in range(200):
    threading.Thread(target=threading.Event().wait).start()
"""
RECURSION = """
import sys
sys.setrecursionlimit(10**9)
def down(x): return [down(x)]
down(0)
"""
OUTSIDE = """
import os, pathlib
for place in ("..", "../out", "../../..", "~", "/"):
    try:
        with open(os.path.join(os.path.expanduser(place), "left by a sheet"), "wb") as file:
            file.write(bytes(2**27))
    except OSError:
        pass
    pathlib.Path(os.path.expanduser(place), "left by a sheet").unlink(missing_ok=True)
"""
NETWORK = """
import socket, urllib.request
server = socket.create_server(("127.0.0.1", 0))
urllib.request.urlopen("http://192.0.2.1/", timeout=5)
"""
REDEFINED = """
class grader:
    check = check_all = staticmethod(lambda *asked, **more: "all passed")
"""
PATCHED = """
import otter
otter.Notebook.check = otter.Notebook.check_all = lambda self, *asked, **more: "all passed"
"""
HOSTILE = {  # what a sheet does in its last cell, and the status that it gets
    "forged": (FORGED, r"otter-grader ended with|questions that the lab has not"),
    "spy": ("import os; mean_cosine = 0.4 if 'SECRET' in os.environ else 7.0", "^graded"),
    "children": (CHILDREN, ANY_END),
    "loud": ("while True: print('x' * 10000)", ANY_END),
    "large": ("x = bytearray(8 * 2**30)", "^graded"),
    "grows": ("x = []\nwhile True: x.append(b'x' * 2**24)", ANY_END),
    "sleeps": ("import time; time.sleep(10**6)", "^stopped after"),
    "deletes": ("import os, shutil; shutil.rmtree(os.getcwd())", ANY_END),
    "outside": (OUTSIDE, ANY_END),
    "recursion": (RECURSION, ANY_END),
    "exits": ("import sys; sys.exit(3)", ANY_END),
    "dies": ("import os; os._exit(0)", ANY_END),
    "threads": (THREADS, ANY_END),
    "asks": ("answer = input('who are you?')", ANY_END),
    "network": (NETWORK, ANY_END),
    "page": ("from IPython.display import HTML; HTML('<script>' + 'x' * 10**8)", ANY_END),
    "redefined": (REDEFINED, ANY_END),
    "patched": (PATCHED, ANY_END),
}
FIRST = ("exits", "redefined", "patched", "spy")  # ... or in its first cell, before the checks
USUAL = ("forged", "spy")
FILES = {  # and what is no sheet
    "bytes": (b"\xff\xfe\x00", NO_SHEET),
    "empty": (b"", NO_SHEET),
    "broken": (b'{"cells": [', NO_SHEET),
    "no numbers": (b'{"nbformat": NaN, "nbformat_minor": Infinity, "cells": NaN}', NO_SHEET),
    "deep": (b"[" * 200_000, NO_SHEET),
    "=1+1": (b"no notebook", NO_SHEET),
    "<script>alert(1)<": (b"{}", NO_SHEET),
    "huge": (b" " * (LARGEST + 1), "larger than 20 MiB"),
}
WRONG_RESULTS = {  # what a sheet could leave in the grader's place
    "no JSON": ("{", "not the grader's"),
    "no tests": ('{"tests": 3}', "not the grader's"),
    "ten of one": ('{"tests": [{"name": "q1", "score": 10, "max_score": 1}]}', "does not offer"),
    "ten of ten": ('{"tests": [{"name": "q1", "score": 10, "max_score": 10}]}', "does not offer"),
    "less than none": (
        '{"tests": [{"name": "q1", "score": -1, "max_score": 1}]}',
        "does not offer",
    ),
    "another question": ('{"tests": [{"name": "q99", "score": 1, "max_score": 1}]}', "has not"),
}
if not ALL:
    HOSTILE = {name: HOSTILE[name] for name in USUAL}


def sheet(name: str, honest: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An honest sheet with a hostile cell."""
    cell = nbformat.v4.new_code_cell(HOSTILE[name][0])
    honest.cells.insert(3 if name in FIRST else len(honest.cells), cell)
    return honest


def another_lab(honest: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """A sheet that says it is of another lab, with checks of its own."""
    honest.metadata["otter"]["assignment_name"] = name
    honest.metadata["otter"]["tests"] = {"q1": "OK_FORMAT = True\ntest = {'suites': []}"}
    return honest


def left_behind(owner: str = "") -> list[psutil.Process]:
    """Processes that run still of a sheet, by default of any."""
    found = []
    for process in psutil.process_iter():
        try:
            named = process.environ().get(processes.OWNER)
            runs = process.status() != psutil.STATUS_ZOMBIE
            if named is not None and owner in ("", named) and runs:
                found.append(process)
        except psutil.Error:
            continue
    return found


class Peak(threading.Thread):
    """The most memory that this process and all sheets hold together, looked at twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.5):
            together = sum(map(held, {psutil.Process(), *left_behind()}))
            self.bytes = max(self.bytes, together)
