"""Fleet: a federation on several machines: its files, its keys, who is registered, who gets in.

``python -m fedlab_flower plan hosts.toml`` writes a folder for each machine and says what to
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

from fedlab_mini.checks import home, shown, text, whole
from fedlab_mini.engine.files import whole_file

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
# What a machine may have of its own, beside what it needs.
OWN = {"user", "memory", "programs"}
PARTS = {
    "server": OWN | {"address", "port"},
    "clients": OWN | {"login", "folder", "samples"},
}
REFUSED = (
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    subprocess.TimeoutExpired,
    UnsupportedAlgorithm,
)


def plan(hosts: Path, folder: Path) -> str:
    """Write what each machine needs into folders of ``folder``; what to do where, step by step.

    raises  ValueError or TypeError naming the line of ``hosts`` that is missing or wrong
    """
    tables, folder = tomllib.loads(hosts.read_text(encoding="utf-8")), folder.resolve()
    server = _table(
        "server", _table(str(hosts), tables, PARTS).get("server", {}), PARTS["server"]
    )
    clients = _table("clients", tables.get("clients", {}))
    if not clients:
        raise ValueError(f"{hosts}: expected a table [clients.NAME] for each client")
    address = text("server.address", server.get("address"))
    port = whole("server.port", server.get("port", 9443), 1, 65535)
    for name, host in clients.items():
        # It becomes the name of a folder: no slash and no dots may lead out of `folder`.
        if name == "server" or not re.fullmatch(r"[\w-]+", name):
            raise ValueError(
                f"clients: expected a name of letters and digits, got {name!r}"
            )
        _table(f"clients.{name}", host, PARTS["clients"])
        for field in ("login", "folder"):
            text(f"clients.{name}.{field}", host.get(field))
        whole(f"clients.{name}.samples", host.get("samples"))
    client_ids = _ids(folder, clients)
    authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    # Who is called by IPv6 has it; elsewhere nginx might not start with such a line.
    listen = f"[::]:{port} ipv6only=off" if ":" in address else port
    shared_values = {
        "authority": authority,
        "listen": listen,
        "runtime": INNER["runtime"],
    }
    with readable_by_owner():
        server_folder = folder / "server"
        certificates(server_folder / "tls", [address, "federation"])
        certificates(server_folder / "back", ["localhost", "127.0.0.1"], LONG)
        task_public_key = task_key(server_folder / "keys" / "tasks").with_suffix(".pub")
        (server_folder / "home").mkdir(exist_ok=True)
        (server_folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:'
            f'{INNER["server"]}"\nroot-certificates = "{server_folder / "back" / "ca.pem"}"\n'
        )
        _write(
            server_folder,
            "server",
            server | {"folder": str(server_folder)},
            shared_values,
        )
        _publish(folder, _registered(folder))
        for name, host in clients.items():
            shutil.copy(
                server_folder / "tls" / "ca.pem",
                _write(
                    folder / name,
                    "client",
                    host,
                    shared_values | {"client": client_ids[name]},
                )
                / "ca.pem",
            )
            shutil.copy(task_public_key, folder / name / "tasks.pub")
            (folder / name / "client.json").write_text(
                json.dumps({"client": client_ids[name], "samples": host["samples"]})
            )
    step_templates = {
        "send": "   scp -r {folder}/{name} {login}:{there}",
        "keys": "   python -m fedlab_flower key {there}",
        "fetch": "   scp {login}:{there}/node.pub {login}:{there}/client.pem {folder}/{name}/",
        "start": "   sh {there}/run.sh",
    }
    step_lines = {
        step_name: "\n".join(
            template.format(
                folder=folder, name=name, login=host["login"], there=host["folder"]
            )
            for name, host in clients.items()
        )
        for step_name, template in step_templates.items()
    }
    steps_text = (MACHINES / "steps.txt").read_text(encoding="utf-8")
    client_count = 1 + max(client_ids.values())
    return steps_text.format(
        folder=folder, authority=authority, count=client_count, **step_lines
    )


def _table(name: str, content: Any, parts: Iterable[str] = ()) -> dict[str, Any]:
    """A table of the list of hosts, with nothing else in it than ``parts``, if any are given."""
    if not isinstance(content, dict):
        raise ValueError(f"{name}: expected a table [{name}], got {shown(content)}")
    if parts and (unknown_parts := content.keys() - parts):
        raise ValueError(
            f"{name}: expected {', '.join(sorted(parts))}, got {min(unknown_parts)}"
        )
    return content


def _ids(folder: Path, names: Iterable[str]) -> dict[str, int]:
    """Each name's client id: the one that it has had, or the next that nobody has had."""
    client_ids = {
        name: registered["client"] for name, registered in _registered(folder).items()
    }
    for name in names:
        # Who was planned and has not come yet keeps the id that its files hold.
        if planned_client := _read(folder / name / "client.json"):
            client_ids.setdefault(name, planned_client["client"])
    used_ids = [
        entry["client"] for entry in _read(folder / "server" / "nodes.json").values()
    ]
    free_ids = (
        k for k in itertools.count() if k not in {*used_ids, *client_ids.values()}
    )
    return client_ids | {name: next(free_ids) for name in names if name not in client_ids}


def _write(
    folder: Path, role: str, host: Mapping[str, Any], shared: Mapping[str, Any]
) -> Path:
    """A machine's files, filled in."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "temporary").mkdir(exist_ok=True)
    substitutions = {
        "programs": PROGRAMS,
        "user": "fedlab",
        "memory": "4G",
        "name": folder.name,
    }
    # The list of hosts comes last: what it says of a machine wins.
    substitutions |= {**shared, "inner": INNER[role], **host}
    target_names = {f"{role}.sh": "run.sh", f"{role}.conf": "nginx.conf"}
    target_names |= {name: name for name in ("quiet.sh", "fedlab.service", "compose.yml")}
    for template_name, file_name in target_names.items():
        template = Template((MACHINES / template_name).read_text(encoding="utf-8"))
        (folder / file_name).write_text(
            template.substitute(substitutions), encoding="utf-8"
        )
    return folder


def keys(folder: Path, new: bool = False) -> None:
    """A client's keys, in its folder; ``new`` ones in place of those that are there."""
    if new:
        for file_name in ("node", "client.key", "client.pem"):
            (folder / file_name).unlink(missing_ok=True)
    node_key(folder / "node")
    client_certificate(folder, folder.resolve().name)
    # The SuperNode speaks TLS to its own machine's nginx, too: it has no other way to sign.
    certificates(folder / "tls", ["localhost", "127.0.0.1"], LONG)


def register(folder: Path) -> None:
    """Register all clients whose public halves are there; one with another key than before anew.

    raises  RuntimeError with a line for each that cannot be; the others are registered
    """
    registered, failures = _registered(folder), []
    for key_path in sorted(folder.glob("*/node.pub")):
        name = key_path.parent.name
        try:
            brought = _brought(key_path.parent)
            for other, field in itertools.product(
                registered.keys() - {name}, ("key", "client")
            ):
                if registered[other][field] == brought[field]:
                    raise ValueError(
                        f"{field}: expected one of its own, got that of {other}"
                    )
            if name in registered and registered[name]["key"] != brought["key"]:
                _shut_out(folder, registered, name)
            if name not in registered:
                answer = flwr(
                    folder / "server" / "home", "supernode", "register", str(key_path)
                )
                brought["node"] = str(answer["node-id"])
            # Whose key is the same keeps the node id that Flower gave it.
            registered[name] = registered.get(name, {}) | brought
            _publish(folder, registered)  # after each: what fails later forgets nobody
        except REFUSED as error:
            failures.append(f"{name}: {error}")
    if failures:
        raise RuntimeError("\n".join(failures))


def _brought(folder: Path) -> dict[str, Any]:
    """What a client has brought, read and written anew; its client id and samples."""
    public_key = serialization.load_ssh_public_key((folder / "node.pub").read_bytes())
    certificate = x509.load_pem_x509_certificate((folder / "client.pem").read_bytes())
    openssh = serialization.PublicFormat.OpenSSH
    return json.loads((folder / "client.json").read_text()) | {
        "key": public_key.public_bytes(serialization.Encoding.OpenSSH, openssh).decode(),
        "certificate": certificate.public_bytes(serialization.Encoding.PEM).decode(),
    }


def remove(folder: Path, name: str) -> None:
    """Shut a client out; others keep their ids, and it counts as missing."""
    registered = _registered(folder)
    if name not in registered:
        raise ValueError(
            f"name: expected one of {', '.join(sorted(registered))}, got {name}"
        )
    # Else the next `register` would find the key and let the client in again.
    (folder / name / "node.pub").unlink(missing_ok=True)
    _shut_out(folder, registered, name)


def _shut_out(folder: Path, registered: dict[str, Any], name: str) -> None:
    """Take a client from the door first, then from Flower's own list."""
    removed = registered.pop(name)
    _publish(folder, registered)
    flwr(folder / "server" / "home", "supernode", "unregister", removed["node"])


def _registered(folder: Path) -> dict[str, Any]:
    """Who is registered: {name: node id, client id, samples, key and certificate}."""
    return _read(folder / "server" / "registered.json")


def _read(path: Path) -> dict[str, Any]:
    """What a file of JSON holds; nothing if there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def _publish(folder: Path, registered: Mapping[str, Any]) -> None:
    """Write down who is registered, for the app and for nginx as well."""
    server_folder = folder / "server"
    # The app needs those, too, that have been there and have gone: ids stay as they are.
    nodes = _read(server_folder / "nodes.json")
    for host in registered.values():
        nodes = {
            node: entry
            for node, entry in nodes.items()
            if entry["client"] != host["client"]
        }
        nodes[host["node"]] = {field: host[field] for field in ("client", "samples")}
    # nginx wants one certificate at least; the authority's own opens nothing.
    authority = [(server_folder / "tls" / "ca.pem").read_text()]
    file_texts = {
        "registered.json": json.dumps(registered, indent=1),
        "nodes.json": json.dumps(nodes, indent=1),
        "registered.map": "".join(map(map_line, registered.values())),
        "clients.pem": "".join(
            authority + [host["certificate"] for host in registered.values()]
        ),
    }
    # All are written, or none.
    with readable_by_owner(), contextlib.ExitStack() as open_files:
        for file_name, content in file_texts.items():
            open_files.enter_context(whole_file(server_folder / file_name)).write_text(
                content
            )
    _reload(server_folder)


def _reload(server: Path) -> None:
    """Have nginx read its files anew, if it runs."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(int((server / "nginx.pid").read_text()), signal.SIGHUP)


def renew(server: Path) -> None:
    """Renew the door's certificate where it ends within 30 days."""
    certificate = x509.load_pem_x509_certificate(
        (server / "tls" / "server.pem").read_bytes()
    )
    host_names = certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    ).value
    if certificates(server / "tls", [str(host_name.value) for host_name in host_names]):
        _reload(server)


def flwr(home: Path, *command: str) -> dict[str, Any]:
    """What Flower's command line answers; RuntimeError with its words where it fails."""
    arguments = [str(PROGRAMS / "flwr"), *command, "--format", "json"]
    search_path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
    environment = os.environ | QUIET | {"FLWR_HOME": str(home), "PATH": search_path}
    result = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=120
    )
    try:
        answer = json.loads(result.stdout[result.stdout.index("{") :])
    except ValueError:
        raise RuntimeError(
            f"{' '.join(command)}: {result.stdout}{result.stderr}"
        ) from None
    # A failure is JSON, too, where Flower itself has noticed it.
    if not answer.get("success", True):
        raise RuntimeError(f"{' '.join(command)}: {answer}")
    return answer


def add_to(commands: Any) -> None:
    """The commands, to the parser of all; each sets ``run``, which returns the exit status."""
    command = commands.add_parser(
        "plan", help="files for each machine, and what to do where"
    )
    command.add_argument("hosts", type=home)
    command.add_argument("--folder", type=home, default=Path("fleet"))
    command.set_defaults(run=lambda options: print(plan(options.hosts, options.folder)))
    command = commands.add_parser("key", help="on a client: its keys")
    command.add_argument("folder", type=home)
    command.add_argument(
        "--new", action="store_true", help="in place of those that are there"
    )
    command.set_defaults(run=lambda options: keys(options.folder, options.new))
    command = commands.add_parser(
        "register", help="on the server: clients that brought their keys"
    )
    command.add_argument("folder", type=home)
    command.set_defaults(run=lambda options: register(options.folder))
    command = commands.add_parser("remove", help="on the server: shut a client out")
    command.add_argument("folder", type=home)
    command.add_argument("name")
    command.set_defaults(run=lambda options: remove(options.folder, options.name))
    command = commands.add_parser(
        "renew", help="on the server: certificates that end soon"
    )
    command.add_argument("folder", type=home)
    command.set_defaults(run=lambda options: renew(options.folder))
    command = commands.add_parser("check", help="from outside: what a stranger can reach")
    command.add_argument("address", help="HOST:PORT")
    command.add_argument(
        "--ca", type=home, required=True, help="ca.pem, as clients get it"
    )
    command.set_defaults(
        run=lambda options: 0 if check(options.address, options.ca) else 1
    )
