"""kill -9 of each process, nginx among them, and who comes in meanwhile: with real processes.

The scripts of the machines are tried with nginx and stand-ins for Flower, in every run. Of Flower's
own processes a run tries one part, another one every day; all of them with all cases.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import ALL_CASES

import chapters

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from fedlab_flower import fleet

HOSTS = """
[server]
address = "127.0.0.1"
port = {port}

[clients.north]
login = "north"
folder = "{folder}"
samples = 2000
"""
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
EXAMPLE = chapters.ROOT / "examples" / "flower" / "run.py"
linux = pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in Linux' /proc")


def until(true: Callable[[], bool], seconds: float = 200) -> None:
    """Wait for something, not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "nothing has come of it"
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [found.getsockname()[1] for found in sockets]


def answers(port: int) -> bool:
    """Does anything listen there?"""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@contextlib.contextmanager
def running(folder: Path, bin: Path) -> Iterator[subprocess.Popen]:
    """A machine's script, with what lies in ``bin`` in the place of Flower."""
    env = os.environ | {"PROGRAMS": str(bin)}  # first in the path of the script
    given = {"env": env, "stderr": subprocess.DEVNULL, "start_new_session": True}
    with subprocess.Popen(["sh", folder / "run.sh"], **given) as script:
        try:
            yield script
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)


def with_folder(folder: Path) -> list[int]:
    """Processes that have to do with a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            if os.fsencode(folder) in words and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


def named(folder: Path, word: str) -> list[int]:
    """Processes of a folder whose command has this word."""
    found = []
    for process in with_folder(folder):
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


@linux
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("name", ["server", "north"])
@pytest.mark.parametrize("victim", ["nginx: master", "a stand-in"])
def test_where_one_process_of_a_machine_dies_all_end_and_start_again(
    tmp_path, monkeypatch, name, victim
):
    """Else a server would run behind no door, and no unit would start it again."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for program in ("flower-superlink", "flower-supernode"):
        (bin / program).write_text("#!/bin/sh\n: a stand-in\nexec sleep 601\n")
        (bin / program).chmod(0o755)
    (bin / "nginx").symlink_to(NGINX)
    inner = free_ports(4)
    for which, port in zip(("server", "client", "runtime"), inner, strict=False):
        monkeypatch.setitem(fleet.INNER, which, port)
    there = tmp_path / "there" / "north"
    (tmp_path / "hosts.toml").write_text(HOSTS.format(port=inner[3], folder=there))
    fleet.plan(tmp_path / "hosts.toml", tmp_path / "fleet")
    folder = tmp_path / "fleet" / name
    monkeypatch.setattr(fleet, "flwr", lambda *words: {"node-id": 7})
    fleet.keys(tmp_path / "fleet" / "north")
    fleet.register(tmp_path / "fleet")
    door = inner[3] if name == "server" else inner[1]
    words = {"nginx: master": "nginx: master", "a stand-in": "601"}
    for _ in range(2):
        with running(folder, bin) as script:
            until(lambda: answers(door) and bool(named(folder, "601")), 60)
            (process,) = (p for p in named(folder, words[victim]) if p != script.pid)
            os.kill(process, signal.SIGKILL)
            assert script.wait(30) != 0  # a unit starts it again
            until(lambda: not with_folder(folder) and not answers(door), 30)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator:
    """``run.Cluster`` of the example with its SuperLink; whatever it started ends here."""
    spec = importlib.util.spec_from_file_location("flower_run_of_deaths", EXAMPLE)
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    made = run.Cluster(folder)
    try:
        made.superlink()
        yield made
    finally:
        for name in list(made.processes):
            made.kill(name)
        made.keeper.stdin.close()
        made.keeper.wait()
        made.lock.close()
        until(lambda: not with_folder(folder) and not answers(made.port), 60)


def a_strangers_key(folder: Path) -> None:
    """Who is not registered never joins, and ends."""
    with cluster(folder) as made:
        stranger = made.supernode(0, key=made.folder / "keys" / "tasks")
        other = fleet.node_key(made.folder / "keys" / "unknown")
        unknown = made.supernode(1, key=other)
        until(lambda: stranger.poll() is not None and unknown.poll() is not None)
        assert stranger.returncode != 0
        assert unknown.returncode != 0
        assert made.flwr("supernode", "list", "here")["nodes"] == []


def a_killed_superlink(folder: Path) -> None:
    """It comes back with the nodes that were registered."""
    with cluster(folder) as made:
        made.register(1)
        listed = made.flwr("supernode", "list", "here")["nodes"]
        made.kill("superlink")
        assert not answers(made.port)
        made.superlink()
        again = made.flwr("supernode", "list", "here")["nodes"]
        assert [node["node-id"] for node in again] == [node["node-id"] for node in listed]
        assert len(again) == 1


PARENT = """
import pathlib, runpy, sys
made = runpy.run_path(sys.argv[1])["Cluster"](pathlib.Path(sys.argv[2]))
made.superlink()
made.supernode(0, key=runpy.run_path(sys.argv[1])["node_key"](made.folder / "keys" / "a"))
print(made.port, flush=True)
sys.stdin.read()
"""


def a_killed_parent(folder: Path) -> None:
    """A second start is refused; what the first has started ends with it."""
    words = [sys.executable, "-c", PARENT, EXAMPLE, folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as first:
        port = int(first.stdout.readline())
        assert answers(port)
        second = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert second.returncode == 1
        assert "another process works there" in second.stderr
        first.kill()
    until(lambda: not with_folder(folder) and not answers(port), 60)


PARTS = [a_strangers_key, a_killed_superlink, a_killed_parent]
TODAY = datetime.date.today().toordinal() % len(PARTS)


@linux
@pytest.mark.skipif(" " in sys.prefix, reason="Flower cannot work below a folder with a space")
@pytest.mark.parametrize(
    "part", PARTS if ALL_CASES else [PARTS[TODAY]], ids=lambda part: part.__name__
)
def test_a_part_of_the_attacks_on_real_processes_each_day(part, tmp_path):
    part(tmp_path / "made")
