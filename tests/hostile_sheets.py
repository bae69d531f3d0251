"""What a class could hand in by accident or on purpose, and the status that each gets."""

NO_SHEET = "^no lab sheet of this book"
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
SPY = "import os; mean_cosine = 0.4 if 'SECRET' in os.environ else 7.0"
HOSTILE = {  # what a sheet does in its last cell
    "forged": (FORGED, r"otter-grader ended with|questions that the lab lacks"),
    "raises": ("import no_such_package", "^graded"),
    "deletes": ("import os, shutil; shutil.rmtree(os.getcwd())", ANY_END),
}
ENDLESS = {
    "sleeps": ("import time; time.sleep(10**6)", "^stopped after"),
    "loud": ("while True: print('x' * 10000)", ANY_END),
}
FILES = {  # and what is no sheet
    "bytes": (b"\xff\xfe\x00", f"{NO_SHEET}: it is cut off"),
    "deep": (b"[" * 200_000, f"{NO_SHEET}: it is no notebook"),
    "=1+1": (b"no notebook", f"{NO_SHEET}: it is no notebook"),
    "huge": (b" " * (21 * 2**20), "larger than 20 MiB"),
}
WRONG_RESULTS = {  # what a sheet could leave in the grader's place
    "{": "not the grader's",
    '{"tests": 3}': "not the grader's",
    '{"tests": [{"name": "q1", "score": 10, "max_score": 1}]}': "does not offer",
    '{"tests": [{"name": "q1", "score": -1, "max_score": 1}]}': "does not offer",
    '{"tests": [{"name": "q99", "score": 1, "max_score": 1}]}': "lab lacks",
}
