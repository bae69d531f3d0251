"""Fleet: a federation on several machines: its files, its keys, who is registered, who gets in.

``python -m fedlab_mini.flower plan hosts.toml`` writes a folder for each machine and says what to
do where. Chapter 11 says whom this keeps out. Below: certificates, door. The files: ``machines/``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from ..checks import shown, text, whole
from ..engine.checkpoint import whole_file
from .certificates import LONG, certificates, client_certificate, node_key, task_key
from .door import INNER, check, map_line
from .private import readable_by_owner

MACHINES = Path(__file__).parent / "machines"
PROGRAMS = Path(sys.executable).parent
QUIET = {  # nothing is sent, asked or installed, and answers have no colours
    "NO_COLOR": "1",
    "FORCE_COLOR": "",
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
OWN = {"user", "memory", "programs"}  # what a machine may have of its own, beside what it needs
PARTS = {"server": OWN | {"address", "port"}, "clients": OWN | {"login", "folder", "samples"}}
REFUSED = (OSError, RuntimeError, TypeError, ValueError, subprocess.TimeoutExpired,
           UnsupportedAlgorithm)  # fmt: skip


def plan(hosts: Path, folder: Path) -> str:
    """Write what each machine needs into folders of ``folder``; what to do where, step by step.

    raises  ValueError or TypeError naming the line of ``hosts`` that is missing or wrong
    """
    given, folder = tomllib.loads(hosts.read_text(encoding="utf-8")), folder.resolve()
    server = _table("server", _table(str(hosts), given, PARTS).get("server", {}), PARTS["server"])
    clients = _table("clients", given.get("clients", {}))
    if not clients:
        raise ValueError(f"{hosts}: expected a table [clients.NAME] for each client")
    address = text("server.address", server.get("address"))
    port = whole("server.port", server.get("port", 9443), 1, 65535)
    for name, about in clients.items():
        if name == "server" or not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"clients: expected a name of letters and digits, got {name!r}")
        _table(f"clients.{name}", about, PARTS["clients"])
        for part in ("login", "folder"):
            text(f"clients.{name}.{part}", about.get(part))
        whole(f"clients.{name}.samples", about.get("samples"))
    ids = _ids(folder, clients)
    authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    # Who is called by IPv6 has it; elsewhere nginx might not start with such a line.
    listen = f"[::]:{port} ipv6only=off" if ":" in address else port
    shared = {"authority": authority, "listen": listen, "runtime": INNER["runtime"]}
    with readable_by_owner():
        own = folder / "server"
        certificates(own / "tls", [address, "federation"])
        certificates(own / "back", ["localhost", "127.0.0.1"], LONG)
        tasks = task_key(own / "keys" / "tasks").with_suffix(".pub")
        (own / "home").mkdir(exist_ok=True)
        (own / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:'
            f'{INNER["server"]}"\nroot-certificates = "{own / "back" / "ca.pem"}"\n'
        )
        _write(own, "server", server | {"folder": str(own)}, shared)
        _publish(folder, _registered(folder))
        for name, about in clients.items():
            shutil.copy(own / "tls" / "ca.pem", _write(folder / name, "client", about, shared
                        | {"client": ids[name]}) / "ca.pem")  # fmt: skip
            shutil.copy(tasks, folder / name / "tasks.pub")
            (folder / name / "client.json").write_text(
                json.dumps({"client": ids[name], "samples": about["samples"]})
            )
    each = {
        "send": "   scp -r {folder}/{name} {login}:{there}",
        "keys": "   python -m fedlab_mini.flower key {there}",
        "fetch": "   scp {login}:{there}/node.pub {login}:{there}/client.pem {folder}/{name}/",
        "start": "   sh {there}/run.sh",
    }
    lines = {
        step: "\n".join(
            line.format(folder=folder, name=name, login=about["login"], there=about["folder"])
            for name, about in clients.items()
        )
        for step, line in each.items()
    }
    steps = (MACHINES / "steps.txt").read_text(encoding="utf-8")
    count = 1 + max(ids.values())
    return steps.format(folder=folder, authority=authority, count=count, **lines)


def _table(name: str, found: Any, parts: Iterable[str] = ()) -> dict[str, Any]:
    """A table of the list of hosts, with nothing else in it than ``parts``, if any are given."""
    if not isinstance(found, dict):
        raise ValueError(f"{name}: expected a table [{name}], got {shown(found)}")
    if parts and (extra := found.keys() - parts):
        raise ValueError(f"{name}: expected {', '.join(sorted(parts))}, got {min(extra)}")
    return found


def _ids(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Each name's client id: the one that it has had, or the next that nobody has had."""
    ids = {name: about["client"] for name, about in _registered(folder).items()}
    for name in names:
        if planned := _read(folder / name / "client.json"):
            ids.setdefault(name, planned["client"])
    gone = [entry["client"] for entry in _read(folder / "server" / "nodes.json").values()]
    free = (k for k in itertools.count() if k not in {*gone, *ids.values()})
    return ids | {name: next(free) for name in names if name not in ids}


def _write(folder: Path, role: str, about: Mapping[str, Any], shared: Mapping[str, Any]) -> Path:
    """A machine's files, filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "temporary").mkdir(exist_ok=True)
    values = {"programs": PROGRAMS, "user": "fedlab", "memory": "4G", "name": folder.name}
    values |= {**shared, "inner": INNER[role], **about}
    files = {f"{role}.sh": "run.sh", f"{role}.conf": "nginx.conf"}
    files |= {name: name for name in ("quiet.sh", "fedlab.service", "compose.yml")}
    for template, name in files.items():
        lines = Template((MACHINES / template).read_text(encoding="utf-8"))
        (folder / name).write_text(lines.substitute(values), encoding="utf-8")
    return folder


def keys(folder: Path, new: bool = False) -> None:
    """A client's keys, in its folder; ``new`` ones in place of those that are there."""
    if new:
        for name in ("node", "client.key", "client.pem"):
            (folder / name).unlink(missing_ok=True)
    node_key(folder / "node")
    client_certificate(folder, folder.resolve().name)
    # The SuperNode speaks TLS to its own machine's nginx, too: it has no other way to sign.
    certificates(folder / "tls", ["localhost", "127.0.0.1"], LONG)


def register(folder: Path) -> None:
    """Register all clients whose public halves are there; one with another key than before anew.

    raises  RuntimeError with a line for each that cannot be; the others are registered
    """
    known, failed = _registered(folder), []
    for path in sorted(folder.glob("*/node.pub")):
        name = path.parent.name
        try:
            about = _brought(path.parent)
            for other, part in itertools.product(known.keys() - {name}, ("key", "client")):
                if known[other][part] == about[part]:
                    raise ValueError(f"{part}: expected one of its own, got that of {other}")
            if name in known and known[name]["key"] != about["key"]:
                _shut_out(folder, known, name)
            if name not in known:
                answer = flwr(folder / "server" / "home", "supernode", "register", str(path))
                about["node"] = str(answer["node-id"])
            known[name] = known.get(name, {}) | about
            _publish(folder, known)  # after each: what fails later forgets nobody
        except REFUSED as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise RuntimeError("\n".join(failed))


def _brought(folder: Path) -> dict[str, Any]:
    """What a client has brought, read and written anew; its client id and samples."""
    key = serialization.load_ssh_public_key((folder / "node.pub").read_bytes())
    certificate = x509.load_pem_x509_certificate((folder / "client.pem").read_bytes())
    form = serialization.PublicFormat.OpenSSH
    return json.loads((folder / "client.json").read_text()) | {
        "key": key.public_bytes(serialization.Encoding.OpenSSH, form).decode(),
        "certificate": certificate.public_bytes(serialization.Encoding.PEM).decode(),
    }


def remove(folder: Path, name: str) -> None:
    """Shut a client out; others keep their ids, and it counts as missing."""
    known = _registered(folder)
    if name not in known:
        raise ValueError(f"name: expected one of {', '.join(sorted(known))}, got {name}")
    (folder / name / "node.pub").unlink(missing_ok=True)
    _shut_out(folder, known, name)


def _shut_out(folder: Path, known: dict[str, Any], name: str) -> None:
    """Take a client from the door first, then from Flower's own list."""
    gone = known.pop(name)
    _publish(folder, known)
    flwr(folder / "server" / "home", "supernode", "unregister", gone["node"])


def _registered(folder: Path) -> dict[str, Any]:
    """Who is registered: {name: node id, client id, samples, key and certificate}."""
    return _read(folder / "server" / "registered.json")


def _read(path: Path) -> dict[str, Any]:
    """What a file of JSON holds; nothing if there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def _publish(folder: Path, known: Mapping[str, Any]) -> None:
    """Write down who is registered, for the app and for nginx as well."""
    server = folder / "server"
    # The app needs those, too, that have been there and have gone: ids stay as they are.
    nodes = _read(server / "nodes.json")
    for about in known.values():
        nodes = {n: entry for n, entry in nodes.items() if entry["client"] != about["client"]}
        nodes[about["node"]] = {part: about[part] for part in ("client", "samples")}
    # nginx wants one certificate at least; the authority's own opens nothing.
    trusted = [(server / "tls" / "ca.pem").read_text()]
    texts = {
        "registered.json": json.dumps(known, indent=1),
        "nodes.json": json.dumps(nodes, indent=1),
        "registered.map": "".join(map(map_line, known.values())),
        "clients.pem": "".join(trusted + [about["certificate"] for about in known.values()]),
    }
    with readable_by_owner(), contextlib.ExitStack() as files:  # all are written, or none
        for name, content in texts.items():
            files.enter_context(whole_file(server / name)).write_text(content)
    _reload(server)


def _reload(server: Path) -> None:
    """Have nginx read its files anew, if it runs."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(int((server / "nginx.pid").read_text()), signal.SIGHUP)


def renew(server: Path) -> None:
    """Renew the door's certificate where it ends within 30 days."""
    old = x509.load_pem_x509_certificate((server / "tls" / "server.pem").read_bytes())
    named = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if certificates(server / "tls", [str(name.value) for name in named]):
        _reload(server)


def flwr(home: Path, *command: str) -> dict[str, Any]:
    """What Flower's command line answers; RuntimeError with its words where it fails."""
    words = [str(PROGRAMS / "flwr"), *command, "--format", "json"]
    path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
    env = os.environ | QUIET | {"FLWR_HOME": str(home), "PATH": path}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    try:
        answer = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}") from None
    if not answer.get("success", True):
        raise RuntimeError(f"{' '.join(command)}: {answer}")
    return answer


def add_to(commands: Any) -> None:
    """The commands, to the parser of all; each sets ``run``, which returns the exit status."""
    asked = commands.add_parser("plan", help="files for each machine, and what to do where")
    asked.add_argument("hosts", type=Path)
    asked.add_argument("--folder", type=Path, default=Path("fleet"))
    asked.set_defaults(run=lambda o: print(plan(o.hosts, o.folder)))
    asked = commands.add_parser("key", help="on a client: its keys")
    asked.add_argument("folder", type=Path)
    asked.add_argument("--new", action="store_true", help="in place of those that are there")
    asked.set_defaults(run=lambda o: keys(o.folder, o.new))
    asked = commands.add_parser("register", help="on the server: clients that brought their keys")
    asked.add_argument("folder", type=Path)
    asked.set_defaults(run=lambda o: register(o.folder))
    asked = commands.add_parser("remove", help="on the server: shut a client out")
    asked.add_argument("folder", type=Path)
    asked.add_argument("name")
    asked.set_defaults(run=lambda o: remove(o.folder, o.name))
    asked = commands.add_parser("renew", help="on the server: certificates that end soon")
    asked.add_argument("folder", type=Path)
    asked.set_defaults(run=lambda o: renew(o.folder))
    asked = commands.add_parser("check", help="from outside: what a stranger can reach")
    asked.add_argument("address", help="HOST:PORT")
    asked.add_argument("--ca", type=Path, required=True, help="ca.pem, as clients get it")
    asked.set_defaults(run=lambda o: 0 if check(o.address, o.ca) else 1)
