"""No clock decides: nothing that `make test` runs compares a measured duration.

Read here: tests, chapters, pages of evidence and labs. What is about speed is a row of `make bench`
or a stored row of a study; a deadline that passes on a busy machine ends in "not run".
"""

import ast
import re
import subprocess
import sys

import pytest

import chapters
import check
import deadlines
import labs

NAMES = ("perf_counter", "process_time", "monotonic", "thread_time", "default_timer", "timeit")
CLOCKS = {f"{name}{ns}" for name in NAMES for ns in ("", "_ns")}
OF_A_MODULE = {("time", "time"), ("time", "time_ns"), ("timeit", "repeat")}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
BODIES = ("body", "orelse", "finalbody", "handlers")


def is_clock(node: ast.AST) -> bool:
    """Whether this reads a clock, or the seconds that a result has cost."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        module = getattr(node.func.value, "id", "")
        return node.func.attr in CLOCKS or (module, node.func.attr) in OF_A_MODULE
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in CLOCKS
    return isinstance(node, ast.Attribute) and node.attr == "seconds"


class Reader:
    """Follows what clocks have said through the statements of a program, in their order.

    found  its lines that let a clock decide: an assert that compares by size, or a call of `tell`
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def read(self, body: list[ast.stmt], known: set[str]) -> bool:
        """Read statements; ``known`` names what holds a duration. Whether one is returned."""
        given = False
        for node in body:
            for part in ast.walk(node) if not hasattr(node, "body") else ():
                if isinstance(part, ast.Assert | ast.Call) and self.decides(part, known):
                    self.found.append(ast.unparse(part))
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.note(node.name, self.read(node.body, set(known)), known)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self.note(target, self.told(node.value, known), known)
            elif isinstance(node, ast.Return):
                given |= self.told(node.value, known)
            else:
                if isinstance(node, ast.For):
                    self.note(node.target, self.told(node.iter, known), known)
                for part in [x for name in BODIES for x in getattr(node, name, ())] * 2:
                    inside = part.body if isinstance(part, ast.ExceptHandler) else [part]
                    given |= self.read(inside, known)
        return given

    def note(self, target: ast.AST | str, timed: bool, known: set[str]) -> None:
        """A name gets a new value; what is written into a part of it leaves the others."""
        if isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                self.note(one, timed, known)
            return
        whole = isinstance(target, str | ast.Name)
        while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
            target = target.value
        name = target if isinstance(target, str) else getattr(target, "id", "")
        if timed:
            known.add(name)
        elif whole:
            known.discard(name)

    def told(self, node: ast.AST | None, known: set[str]) -> bool:
        """Whether an expression holds a duration; how many there are is none."""
        if node is None or (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len"):
            return False
        if is_clock(node) or (isinstance(node, ast.Name) and node.id in known):
            return True
        return any(self.told(part, known) for part in ast.iter_child_nodes(node))

    def decides(self, node: ast.Assert | ast.Call, known: set[str]) -> bool:
        if isinstance(node, ast.Call):
            return getattr(node.func, "id", "") == "tell" and self.told(node, known)
        return any(
            isinstance(part, ast.Compare)
            and any(isinstance(op, ORDERED) for op in part.ops)
            and self.told(part, known)
            for part in ast.walk(node.test)
        )


def deciding(code: str) -> list[str]:
    """The lines of a program that let a clock decide."""
    (reader := Reader()).read(ast.parse(code).body, set())
    return sorted({*reader.found})


def programs() -> dict[str, str]:
    """The code of every test, chapter, page of evidence and lab, by its path."""
    found = {path: path.read_text("utf-8") for path in (chapters.ROOT / "tests").rglob("*.py")}
    for path in [*chapters.sources(), *labs.sources()]:
        cells = chapters.read_text(path).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        found[path] = re.sub(r"^\s*[%!].*$|^\s*\.\.\.\s*$", "", code, flags=re.MULTILINE)
    return {path.relative_to(chapters.ROOT).as_posix(): code for path, code in found.items()}


def test_no_assert_compares_a_duration():
    found = programs()
    assert len(found) > 120
    assert {path: lines for path, code in found.items() if (lines := deciding(code))} == {}


FUNCTION = """
def cost():
    start = time.process_time()
    return work(), time.process_time() - start
assert 0 < cost()[1]
"""
TABLE = """
for w in (1, 2):
    walls[w] = {"wall": perf_counter()}
for row in walls.values():
    ratio = row["wall"] / row["model"]
    assert 0.7 < ratio < 1.5
"""
DEADLINE = """
end = time.monotonic() + 9
while time.monotonic() < end:
    work()
end = 4
assert done > end
"""
DECIDES = {
    FUNCTION: True,
    TABLE: True,
    "start = time.time()\nassert done(time.time() - start) < 2": True,
    "with work():\n    assert history.cost.seconds > 0": True,
    "took = timeit.repeat(work)\ntell('fast', min(took), below=1)": True,
    "assert history.cost.seconds == 5.0": False,  # by a clock of the test's own
    DEADLINE: False,
    "walls = [time.time()]\nassert len(walls) < 3": False,
    "assert study.values('seconds', 'CGSV').mean() < 3": False,  # stored
}


@pytest.mark.parametrize("code", DECIDES)
def test_a_planted_clock_is_found(code):
    assert bool(deciding(code)) == DECIDES[code]


LATE = """
import subprocess, sys
from pathlib import Path
import pytest, deadlines

@pytest.fixture
def server():
    raise TimeoutError("no server yet")

def test_of_a_process():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.01)

def test_with_a_server(server): ...

def test_behind_another_error():
    try:
        raise TimeoutError("30000 ms exceeded")
    except TimeoutError:
        raise ValueError("the page did not print") from None

def test_that_is_wrong():
    assert False, "timed out"
"""


@pytest.mark.parametrize("busy", [True, False])
def test_a_deadline_that_passes_ends_in_not_run_on_a_busy_machine_alone(tmp_path, busy):
    """An assert that fails stays a failure, whatever it says."""
    (tmp_path / "test_late.py").write_text(LATE)
    here = (chapters.ROOT / "tests" / "conftest.py").read_text("utf-8")
    (tmp_path / "conftest.py").write_text(f"{here}\ndeadlines.busy = lambda: {busy}\n")
    words = ["-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", "-p", "no:nbval", "."]
    env = {"PYTHONPATH": f"{chapters.ROOT}:{chapters.ROOT / 'tools'}", "PATH": ""}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True)
    said = done.stdout.decode()
    left = re.findall(rf"{deadlines.NOT_RUN}test_late.py::(\w+)", said)
    late = ["test_of_a_process", "test_with_a_server", "test_behind_another_error"]
    assert sorted(left) == sorted(late if busy else []), said
    failed = re.findall(r"^(?:FAILED|ERROR) test_late.py::(\w+)", said, re.MULTILINE)
    assert sorted(failed) == sorted(["test_that_is_wrong", *([] if busy else late)]), said


def test_a_chapter_that_needs_other_packages_has_passed_no_deadline(monkeypatch):
    """What it says holds "not run", too, and no machine was busy."""
    monkeypatch.setattr(chapters, "find_spec", lambda name: None)
    said = chapters.left_out(chapters.ROOT / "book/chapters/11_out_of_the_notebook.md")
    assert "is not run: it needs" in said
    assert check.LEFT_OUT.findall(said) == []
    late = f"SKIPPED [1] {deadlines.NOT_RUN}tests/a.py::test_b (a busy machine; Timeout)"
    assert check.LEFT_OUT.findall(late) == ["tests/a.py::test_b"]
