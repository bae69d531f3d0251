"""Flower as it runs in earnest, on this machine: TLS, registered keys, a process for every part.

    python examples/flower/run.py --folder _build/flower --clients 3 --rounds 5

makes a certificate authority, the server's certificate and a key for every client; starts a
SuperLink and the SuperNodes, registers the keys, submits the run, waits, prints the scores and
stops all it started. Started again on the same folder, it goes on from the checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from fedlab_flower.certificates import certificates, node_key, task_key
from fedlab_flower.fleet import QUIET, flwr
from fedlab_flower.private import alone
from fedlab_mini.checks import home

SAMPLES = 2000  # that a client may claim: there are not so many digits
APP = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
# Reads process groups, one a line, until its parent is gone, however it went; then it ends those.
KEEPER = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Cluster:
    """A SuperLink and its SuperNodes as processes; logs, keys and state in one folder.

    They end when this process does, also where it is killed; a folder has one cluster at a time.
    raises  RuntimeError where another one runs in the folder
    """

    def __init__(self, folder: Path):
        if " " in str(BIN):  # its SuperLink would find no plan of its tables
            raise RuntimeError(f"Flower cannot work below a folder with a space: {BIN}")
        self.folder, self.port = folder.resolve(), free_port()
        self.lock = contextlib.ExitStack()
        lock = self.lock.enter_context(alone(self.folder / "cluster"))
        # It holds the lock, too: the folder is free when all of these processes are gone.
        keeper = [sys.executable, "-c", KEEPER]
        self.keeper = subprocess.Popen(
            keeper, stdin=subprocess.PIPE, text=True, pass_fds=[lock], start_new_session=True
        )
        self.address = f"127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen] = {}
        certificates(self.folder / "tls", ["localhost", "127.0.0.1"])
        task_key(self.folder / "keys" / "tasks")
        home = self.folder / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{self.address}"\n'
            f'root-certificates = "{self.folder / "tls" / "ca.pem"}"\n'
        )
        path = os.pathsep.join(filter(None, [str(BIN), os.environ.get("PATH")]))
        self.env = os.environ | QUIET | {"FLWR_HOME": str(home), "PATH": path}

    def start(
        self, name: str, *command: str, env: dict[str, str] | None = None
    ) -> subprocess.Popen:
        """A process in a group of its own, with its lines in ``name.log``."""
        path = self.folder / f"{name}.log"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "ab") as log:
            given = [str(BIN / command[0]), *command[1:]]
            env = self.env | (env or {})
            process = subprocess.Popen(
                given, env=env, stdout=log, stderr=log, start_new_session=True, umask=0o077
            )
        self.processes[name] = process
        self._tell_keeper(f"+{process.pid}")
        return process

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a process and what it has started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.wait()
        self._tell_keeper(f"-{process.pid}")

    def _tell_keeper(self, line: str) -> None:
        print(line, file=self.keeper.stdin, flush=True)

    def flwr(self, *command: str) -> dict:
        """What Flower's command line answers."""
        return flwr(self.folder / "home", *command)

    def superlink(self) -> None:
        """Start the server's part, and wait until it answers."""
        tls = self.folder / "tls"
        self.taken_up = (self.folder / "superlink.db").exists()
        self.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            "--ssl-ca-certfile", str(tls / "ca.pem"), "--ssl-certfile", str(tls / "server.pem"),
            "--ssl-keyfile", str(tls / "server.key"), "--enable-supernode-auth",
            "--database", str(self.folder / "superlink.db"),
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        for _ in range(1200):  # a busy machine takes a minute
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if self.processes["superlink"].poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the SuperLink did not start: see {self.folder / 'superlink.log'}")

    def register(self, clients: int) -> None:
        """Register a key for every client, and write down whose node is which client."""
        file = self.folder / "nodes.json"
        found = json.loads(file.read_text()) if file.exists() else {}
        for k in range(clients):
            if k not in [entry["client"] for entry in found.values()]:
                key = node_key(self.folder / "keys" / f"client-{k}")
                answer = self.flwr("supernode", "register", str(key.with_suffix(".pub")))
                found[str(answer["node-id"])] = {"client": k, "samples": SAMPLES}
        file.touch(mode=0o600)
        file.write_text(json.dumps(found, indent=1))

    def supernode(self, k: int, *, key: Path | None = None, ca: Path | None = None,
                  name: str | None = None) -> subprocess.Popen:  # fmt: skip
        """Start client ``k``; another key or authority is refused."""
        keys = self.folder / "keys"
        key = key or keys / f"client-{k}"
        config = f'partition-id={k} server-key="{keys / "tasks.pub"}"'
        return self.start(
            name or f"client-{k}", "flower-supernode", "--superlink", self.address,
            "--root-certificates", str(ca or self.folder / "tls" / "ca.pem"),
            "--auth-supernode-private-key", str(key), "--node-config", config,
            "--port", str(free_port()),
        )  # fmt: skip

    def submit(self, **settings: object) -> str:
        """Submit a run; returns its id."""
        # A SuperLink that was killed goes on with its runs, and this one would be the second.
        for old in self.flwr("list", "here")["runs"] if self.taken_up else []:
            if not old["status"].startswith("finished"):
                self.flwr("stop", str(old["run-id"]), "here")
        settings = {
            "nodes": str(self.folder / "nodes.json"),
            "folder": str(self.folder),
            "signing-key": str(self.folder / "keys" / "tasks"),
            "same-as-train": True,  # this is a demonstration, and says so
            **settings,
        }
        asked = " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
        return str(self.flwr("run", str(APP), "here", "--run-config", asked)["run-id"])

    def status(self, run: str) -> str:
        """What Flower says of a run, such as ``running`` or ``finished:completed``."""
        return self.flwr("list", "--run-id", run, "here")["runs"][0]["status"]

    def wait(self, run: str, rounds: int, seconds: float = 600) -> str:
        """The status of a run once it has ended, or after some seconds."""
        end, asked = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            time.sleep(0.5)
            if self.rounds() >= rounds or time.monotonic() - asked > 20:  # asking takes seconds
                asked = time.monotonic()
                if (status := self.status(run)).startswith("finished"):
                    return status
        return f"unfinished after {seconds:.0f} s"

    def log(self, run: str) -> str:
        """What the server has logged of a run."""
        made = [str(BIN / "flwr"), "log", run, "here", "--show"]
        return subprocess.run(
            made, env=self.env, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    def rounds(self) -> int:
        """How many rounds the results hold."""
        try:
            lines = (self.folder / "scores.csv").read_text().splitlines()
        except FileNotFoundError:
            return 0
        return int(lines[-1].split(",")[0])

    def stop(self) -> None:
        """End all that was started, clients first."""
        for name in sorted(self.processes):
            self.kill(name, signal.SIGTERM)
        self.keeper.communicate()
        self.lock.close()


@contextlib.contextmanager
def cluster(folder: Path, clients: int) -> Iterator[Cluster]:
    """A SuperLink with its clients registered and running; all is stopped at the end."""
    made = Cluster(folder)
    try:
        made.superlink()
        made.register(clients)
        for k in range(clients):
            made.supernode(k)
        yield made
    finally:
        made.stop()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and all that was started
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--folder", type=home, default=Path("_build/flower"))
    asked.add_argument("--clients", type=int, default=3)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--strategy", default="CGSV")
    given = asked.parse_args()
    try:
        train(given)
    except RuntimeError as error:
        sys.exit(str(error))


def train(given: argparse.Namespace) -> None:
    """A run on a cluster of its own; prints the scores of the last round."""
    with cluster(given.folder, given.clients) as made:
        settings = {"clients": given.clients, "rounds": given.rounds, "strategy": given.strategy}
        run = made.submit(**settings)
        if (status := made.wait(run, given.rounds)) != "finished:completed":
            subprocess.run([BIN / "flwr", "log", run, "here", "--show"], env=made.env, check=False)
            sys.exit(status)
    import pandas

    table = pandas.read_csv(given.folder / "scores.csv").query(f"round == {given.rounds}")
    print(table.drop(columns=["round", "selected"]).to_string(index=False))


if __name__ == "__main__":
    main()
