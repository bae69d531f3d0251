"""Flower between processes of this machine: a SuperLink, a SuperNode for every client, one run.

    python examples/flower/run.py --folder _build/flower --clients 3 --rounds 5

makes an authority, the server's certificate and a key for every client, as Flower's documentation
has it; starts a SuperLink and the SuperNodes, registers the keys, submits the run, waits, prints
the scores and stops all it started. Started again on the same folder, it goes on from the history.
With ``--insecure`` it does without certificates and keys. It listens on 127.0.0.1 only.
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

import fedlab_mini as fm

APP = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
QUIET = {  # nothing is sent, asked or installed, and answers have no colours
    "NO_COLOR": "1",
    "FORCE_COLOR": "",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
NEW = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes"]
NEW += ["-days", "365"]


def certificates(folder: Path) -> None:
    """An authority, ``ca.pem``, and the certificate that it signs for this machine."""
    if not (folder / "server.pem").exists():
        folder.mkdir(parents=True, exist_ok=True)
        given = {"cwd": folder, "check": True, "capture_output": True}
        authority = ["-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"]
        subprocess.run([*NEW, *authority], **given)
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        server = ["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.pem"]
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", names]
        leaf = ["-addext", "basicConstraints=critical,CA:FALSE"]
        subprocess.run([*NEW, *server, *signed, *leaf], **given)


def node_key(path: Path) -> Path:
    """A client's key; ``path.pub`` is what the server's operator registers."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        words = ["ssh-keygen", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(path)]
        subprocess.run(words, check=True, capture_output=True)
    return path


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Cluster:
    """A SuperLink and its SuperNodes as processes; logs, keys and state in one folder."""

    def __init__(self, folder: Path, insecure: bool = False):
        if " " in str(BIN):  # its SuperLink would find no plan of its tables
            raise RuntimeError(f"Flower cannot work below a folder with a space: {BIN}")
        self.folder, self.insecure, self.port = folder.resolve(), insecure, free_port()
        self.address, self.ca = f"127.0.0.1:{self.port}", self.folder / "tls" / "ca.pem"
        self.history, self.nodes = self.folder / "history.npz", self.folder / "nodes.json"
        self.processes: dict[str, subprocess.Popen] = {}
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        trust = "insecure = true" if insecure else f'root-certificates = "{self.ca}"'
        here = f'[superlink.here]\naddress = "{self.address}"\n{trust}\n'
        (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n\n{here}')
        path = os.pathsep.join(filter(None, [str(BIN), os.environ.get("PATH")]))
        self.env = os.environ | QUIET | {"FLWR_HOME": str(home), "PATH": path}

    def start(self, name: str, *command: str) -> subprocess.Popen:
        """A process in a group of its own, with its lines in ``name.log``."""
        with open(self.folder / f"{name}.log", "ab") as log:
            given = {"env": self.env, "stdout": log, "stderr": log, "start_new_session": True}
            process = subprocess.Popen([str(BIN / command[0]), *command[1:]], **given)
        self.processes[name] = process
        return process

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a process and what it has started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.wait()

    def flwr(self, *command: str) -> dict:
        """What Flower's command line answers; RuntimeError with its words where it fails."""
        words = [str(BIN / "flwr"), *command, "--format", "json"]
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=600)
        start = done.stdout.find("{")
        answer = json.loads(done.stdout[start:]) if start >= 0 else {"success": False}
        if not answer.get("success", True):
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return answer

    def superlink(self) -> None:
        """Start the server's part, and wait until it answers."""
        secure = ["--insecure"]
        if not self.insecure:
            certificates(tls := self.ca.parent)
            secure = ["--ssl-ca-certfile", str(self.ca), "--enable-supernode-auth"]
            secure += ["--ssl-certfile", str(tls / "server.pem")]
            secure += ["--ssl-keyfile", str(tls / "server.key")]
        database = self.folder / "superlink.db"
        self.taken_up = database.exists()
        self.start(
            "superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port),
            *secure, "--database", str(database), "--disable-runtime-dependency-installation",
        )  # fmt: skip
        for _ in range(6000):  # a busy machine takes minutes
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            if self.processes["superlink"].poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the SuperLink did not start: see {self.folder / 'superlink.log'}")

    def register(self, clients: int) -> None:
        """Register a key for every client, and write down whose node is which client."""
        found = json.loads(self.nodes.read_text()) if self.nodes.exists() else {}
        for k in set(range(clients)) - set(found.values()):
            key = node_key(self.folder / "keys" / f"client-{k}")
            answer = self.flwr("supernode", "register", f"{key}.pub")
            found[str(answer["node-id"])] = k
        self.nodes.write_text(json.dumps(found, indent=1))

    def supernode(
        self, k: int, *, key: Path | None = None, name: str | None = None
    ) -> subprocess.Popen:
        """Start client ``k``; a key that is not registered is refused."""
        key = key or self.folder / "keys" / f"client-{k}"
        secure = ["--root-certificates", str(self.ca), "--auth-supernode-private-key", str(key)]
        return self.start(
            name or f"client-{k}", "flower-supernode", "--superlink", self.address,
            *(["--insecure"] if self.insecure else secure),
            "--node-config", f"partition-id={k}", "--port", str(free_port()),
        )  # fmt: skip

    def submit(self, **settings: object) -> str:
        """Submit a run; returns its id."""
        # A SuperLink that was killed goes on with its runs, and this one would be the second.
        for old in self.flwr("list", "here")["runs"] if self.taken_up else []:
            if not old["status"].startswith("finished"):
                self.flwr("stop", str(old["run-id"]), "here")
        given = {"nodes": "" if self.insecure else str(self.nodes), "history": str(self.history)}
        given |= {"same-as-train": True}  # this is a demonstration, and says so
        asked = " ".join(f"{n}={json.dumps(value)}" for n, value in (given | settings).items())
        return str(self.flwr("run", str(APP), "here", "--run-config", asked)["run-id"])

    def wait(self, run: str, rounds: int, seconds: float = 1800) -> str:
        """The status of a run once it has ended, such as ``finished:completed``.

        raises  TimeoutError after so many seconds
        """
        end, asked = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            time.sleep(0.5)
            if self.rounds() >= rounds or time.monotonic() - asked > 20:  # asking takes seconds
                asked = time.monotonic()
                status = self.flwr("list", "--run-id", run, "here")["runs"][0]["status"]
                if status.startswith("finished"):
                    return status
        raise TimeoutError(f"unfinished after {seconds:.0f} s: see {self.folder}")

    def log(self, run: str) -> str:
        """What the server has logged of a run."""
        words = [str(BIN / "flwr"), "log", run, "here", "--show"]
        given = {"capture_output": True, "text": True, "check": True, "timeout": 600}
        return subprocess.run(words, env=self.env, **given).stdout

    def rounds(self) -> int:
        """How many rounds the history holds."""
        return len(fm.History.load(self.history).scores) if self.history.exists() else 0

    def stop(self) -> None:
        """End all that was started, clients first."""
        for name in sorted(self.processes):
            self.kill(name, signal.SIGTERM)


@contextlib.contextmanager
def cluster(folder: Path, clients: int, insecure: bool = False) -> Iterator[Cluster]:
    """A SuperLink with its clients registered and running; all is stopped at the end."""
    made = Cluster(folder, insecure)
    try:
        made.superlink()
        if not insecure:
            made.register(clients)
        for k in range(clients):
            made.supernode(k)
        yield made
    finally:
        made.stop()


def main() -> None:
    """A run on a cluster of its own; prints the scores of the last round."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and all that was started
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--folder", type=Path, default=Path("_build/flower"))
    asked.add_argument("--clients", type=int, default=3)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--strategy", default="CGSV")
    asked.add_argument("--insecure", action="store_true", help="no certificates, no keys")
    given = asked.parse_args()
    settings = {name: getattr(given, name) for name in ("clients", "rounds", "strategy")}
    with cluster(given.folder, given.clients, given.insecure) as made:
        run = made.submit(**settings)
        if (status := made.wait(run, given.rounds)) != "finished:completed":
            sys.exit(f"{made.log(run)}\n{status}")
        table = fm.History.load(made.history).to_frame().query(f"round == {given.rounds}")
    print(table.drop(columns=["round", "selected"]).to_string(index=False))


if __name__ == "__main__":
    main()
