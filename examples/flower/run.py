"""Flower as it runs in earnest, on this machine: TLS, registered keys, a process for every part.

    python examples/flower/run.py --folder _build/flower --clients 3 --rounds 5

makes a certificate authority, the server's certificate and a key for every client; starts a
SuperLink and the SuperNodes, registers the keys, submits the run, waits, prints the scores and
stops all it started. Started again on the same folder, it goes on from the checkpoint.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

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
PEM, SSH = serialization.Encoding.PEM, serialization.Encoding.OpenSSH
OPEN, DAYS = serialization.NoEncryption(), datetime.timedelta(days=365)


def private(path: Path, form: serialization.PrivateFormat) -> ec.EllipticCurvePrivateKey:
    """A key in a file that only its owner reads; the one that is there, if there is one."""
    if path.exists():
        ssh = form == serialization.PrivateFormat.OpenSSH
        load = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
        return load(path.read_bytes(), None)
    key = ec.generate_private_key(ec.SECP384R1())
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(key.private_bytes(PEM, form, OPEN))
    return key


def certificates(folder: Path, hosts: list[str]) -> None:
    """``ca.pem``, which every node needs, and ``server.pem`` for the hosts that nodes call."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "server.pem").exists():
        return
    pkcs8 = serialization.PrivateFormat.PKCS8
    ca, server = private(folder / "ca.key", pkcs8), private(folder / "server.key", pkcs8)
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in ("CA", hosts[0])]
    now = datetime.datetime.now(datetime.UTC)

    def signed(name: x509.Name, key: ec.EllipticCurvePublicKey, extensions: list) -> bytes:
        made = x509.CertificateBuilder(names[0], name, key, x509.random_serial_number())
        made = made.not_valid_before(now - datetime.timedelta(minutes=5)).not_valid_after(
            now + DAYS
        )
        for extension, critical in extensions:
            made = made.add_extension(extension, critical)
        return made.sign(ca, hashes.SHA256()).public_bytes(PEM)

    who: list[x509.GeneralName] = []
    for host in hosts:
        try:
            who.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            who.append(x509.DNSName(host))
    authority = x509.SubjectKeyIdentifier.from_public_key(ca.public_key())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())
    own = [(x509.BasicConstraints(True, 0), True), (usage, True), (authority, False)]
    (folder / "ca.pem").write_bytes(signed(names[0], ca.public_key(), own))
    named = [(x509.SubjectAlternativeName(who), False), (issuer, False)]
    named += [(x509.BasicConstraints(False, None), True)]
    (folder / "server.pem").write_bytes(signed(names[1], server.public_key(), named))


def node_key(path: Path) -> Path:
    """A client's key; ``path.pub`` is what the server's operator registers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    key = private(path, serialization.PrivateFormat.OpenSSH)
    form = serialization.PublicFormat.OpenSSH
    path.with_suffix(".pub").write_bytes(key.public_key().public_bytes(SSH, form))
    return path


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Cluster:
    """A SuperLink and its SuperNodes as processes; logs, keys and state in one folder."""

    def __init__(self, folder: Path):
        if " " in str(BIN):  # its SuperLink would find no plan of its tables
            raise RuntimeError(f"Flower cannot work below a folder with a space: {BIN}")
        self.folder, self.port = folder.resolve(), free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.address = f"127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen] = {}
        certificates(self.folder / "tls", ["localhost", "127.0.0.1"])
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
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
        with open(self.folder / f"{name}.log", "ab") as log:
            given = [str(BIN / command[0]), *command[1:]]
            env = self.env | (env or {})
            process = subprocess.Popen(
                given, env=env, stdout=log, stderr=log, start_new_session=True
            )
        self.processes[name] = process
        return process

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a process and what it has started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.wait()

    def flwr(self, *command: str) -> dict:
        """What Flower's command line answers."""
        made = [str(BIN / "flwr"), *command, "--format", "json"]
        done = subprocess.run(made, env=self.env, capture_output=True, text=True, timeout=120)
        try:
            answer = json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}") from None
        if not answer.get("success", True):
            raise RuntimeError(f"{' '.join(command)}: {answer}")
        return answer

    def superlink(self) -> None:
        """Start the server's part, and wait until it answers."""
        tls = self.folder / "tls"
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
            if k not in found.values():
                key = node_key(self.folder / "keys" / f"client-{k}")
                answer = self.flwr("supernode", "register", str(key.with_suffix(".pub")))
                found[str(answer["node-id"])] = k
        file.write_text(json.dumps(found, indent=1))

    def supernode(self, k: int, *, key: Path | None = None, ca: Path | None = None,
                  name: str | None = None) -> subprocess.Popen:  # fmt: skip
        """Start client ``k``; another key or authority is refused."""
        key = key or self.folder / "keys" / f"client-{k}"
        return self.start(
            name or f"client-{k}", "flower-supernode", "--superlink", self.address,
            "--root-certificates", str(ca or self.folder / "tls" / "ca.pem"),
            "--auth-supernode-private-key", str(key), "--node-config", f"partition-id={k}",
            "--port", str(free_port()),
        )  # fmt: skip

    def submit(self, **settings: object) -> str:
        """Submit a run; returns its id."""
        settings = {
            "nodes": str(self.folder / "nodes.json"),
            "folder": str(self.folder),
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
    asked.add_argument("--folder", type=Path, default=Path("_build/flower"))
    asked.add_argument("--clients", type=int, default=3)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--strategy", default="CGSV")
    given = asked.parse_args()
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
