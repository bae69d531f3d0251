"""A federation on several machines: its files, its door, and who is kept out of it.

The door is tried with nginx and a stand-in for the SuperLink; with all cases also with Flower, on
machines that are network namespaces of this one, and with processes that are killed.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers import with_all_cases

import chapters

pytest.importorskip("flwr", reason="Flower is not installed: make setup WITH=flower")

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedlab_flower import certificates, fleet, keys
from fedlab_flower.__main__ import main
from fedlab_flower.door import CLOSED

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
with_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
HOSTS = """
[server]
address = "{address}"
port = {port}
"""
CLIENT = """
[clients.{name}]
login = "{name}"
folder = "{there}/{name}"
samples = 2000
"""


def planned(folder: Path, address="127.0.0.1", port=9443, names=("north", "south")) -> str:
    """A plan for two hospitals, in ``folder/fleet``; returns the steps."""
    clients = [CLIENT.format(name=name, there=folder / "there") for name in names]
    text = HOSTS.format(address=address, port=port) + "".join(clients)
    (folder / "hosts.toml").write_text(text)
    return fleet.plan(folder / "hosts.toml", folder / "fleet")


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for something, not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "nothing has come of it"
        time.sleep(0.1)


def test_a_plan_has_at_most_eight_steps_and_private_keys_are_their_owners(tmp_path):
    steps = planned(tmp_path)
    assert re.findall(r"^(\d)\.", steps, re.MULTILINE) == list("12345678")
    fleet.keys(tmp_path / "fleet" / "north")
    private = [
        path
        for path in (tmp_path / "fleet").rglob("*")
        if path.is_file() and b"PRIVATE KEY" in path.read_bytes()
    ]
    assert len(private) == 2 + 2 + 1 + 1 + 1 + 2  # door, back, tasks; node, certificate, its door
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    # What travels to a client holds no private key of the server's, nor the other way round.
    given = tmp_path / "fleet" / "south"
    assert not [p for p in given.rglob("*") if p.is_file() and b"PRIVATE" in p.read_bytes()]


def test_every_file_of_a_plan_passes_its_linter(tmp_path):
    """nginx and systemd where they are installed; the shell and YAML everywhere."""
    planned(tmp_path)
    for name in ("server", "north"):
        folder = tmp_path / "fleet" / name
        for script in ("run.sh", "quiet.sh"):
            subprocess.run(["sh", "-n", folder / script], check=True)
        text = (folder / "quiet.sh").read_text() + (folder / "run.sh").read_text()
        for setting in ("TELEMETRY_ENABLED=0", "DISABLE_UPDATE_CHECK=1", "INSTALLATION=1"):
            assert setting in text
        compose = yaml.safe_load((folder / "compose.yml").read_text())
        service = compose["services"]["fedlab"]
        assert service["command"] == ["sh", f"{folder_of(folder)}/run.sh"]
        assert (service["network_mode"], service["cap_drop"]) == ("host", ["ALL"])
        if analyze := shutil.which("systemd-analyze"):
            unit = folder / "fedlab.service"
            done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True)
            assert "fedlab.service:" not in done.stderr, done.stderr


def folder_of(folder: Path) -> Path:
    """Where a machine's files lie in the end."""
    return folder if folder.name == "server" else folder.parents[1] / "there" / folder.name


@with_nginx
def test_nginx_accepts_its_files(tmp_path):
    planned(tmp_path)
    fleet.keys(tmp_path / "fleet" / "north")
    for name in ("server", "north"):
        words = [NGINX, "-t", "-p", tmp_path / "fleet" / name, "-e", "stderr", "-c", "nginx.conf"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


WRONG = {
    "server.address": ('address = "127.0.0.1"', "address = 3"),
    "server.port": ("port = 9443", "port = 94430"),
    "clients.north.login": ('login = "north"\n', ""),
    "clients": ("[clients.south]", "[clients.server]"),
    "clients.south.samples": ("samples = 2000\n", 'samples = "many"\n'),
    "server": ("port = 9443", "port = 9443\nclient = 7"),
    "clients.south": ("samples = 2000", "samples = 2000\nport = 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_a_list_of_hosts_is_named(tmp_path, name):
    planned(tmp_path)
    old, new = WRONG[name]
    begin, _, end = (tmp_path / "hosts.toml").read_text().rpartition(old)
    if "north" in name:
        begin, _, end = (tmp_path / "hosts.toml").read_text().partition(old)
    (tmp_path / "hosts.toml").write_text(begin + new + end)
    with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
        fleet.plan(tmp_path / "hosts.toml", tmp_path / "fleet")


NO_TABLE = {
    "clients": 'clients = 3\n[server]\naddress = "x"',
    "server": 'server = "x"\n[clients.a]\nlogin = "x"',
    "clients.a": '[server]\naddress = "x"\n[clients]\na = 1',
    ".*hosts.toml": '[sever]\naddress = "x"',
}


@pytest.mark.parametrize("name", NO_TABLE)
def test_what_is_no_table_in_a_list_of_hosts_is_named(tmp_path, name):
    (tmp_path / "hosts.toml").write_text(NO_TABLE[name])
    with pytest.raises(ValueError, match=rf"^{name}: expected .*, got "):
        fleet.plan(tmp_path / "hosts.toml", tmp_path / "fleet")
    assert not (tmp_path / "fleet").exists()


def test_a_door_that_is_called_by_ipv6_listens_there(tmp_path):
    """And one that is called otherwise does not: a machine without IPv6 has to start."""
    for address, listen in (("127.0.0.1", "9443"), ("::1", "[::]:9443 ipv6only=off")):
        planned(tmp_path, address=address)
        written = (tmp_path / "fleet" / "server" / "nginx.conf").read_text()
        assert f"listen {listen} ssl;" in written


@with_nginx
def test_a_door_is_reached_by_ipv6_and_by_ipv4(tmp_path):
    try:
        with socket.socket(socket.AF_INET6) as found:
            found.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = free_port()
    planned(tmp_path, address="::1", port=port)
    own = tmp_path / "fleet" / "server"
    words = [NGINX, "-p", own, "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as nginx:
        try:
            until((own / "nginx.pid").exists)
            for host in ("[::1]", "127.0.0.1"):
                assert fleet.check(f"{host}:{port}", own / "tls" / "ca.pem")
        finally:
            nginx.terminate()


class Flower:
    """Stands for Flower's list of nodes, and can be told to fail."""

    def __init__(self):
        self.nodes: dict[str, str] = {}
        self.ids = map(str, itertools.count(1000))
        self.fails = ""

    def __call__(self, home: Path, _: str, what: str, about: str) -> dict:
        """One answer of ``flwr supernode``."""
        if what == self.fails:
            raise RuntimeError(f"{what}: the SuperLink is gone")
        if what == "unregister":
            if about not in self.nodes:
                raise RuntimeError(f"{about}: no such node")
            del self.nodes[about]
            return {}
        key = Path(about).read_text().strip()
        if key in self.nodes.values():
            raise RuntimeError("already registered")
        node = next(self.ids)
        self.nodes[node] = key
        return {"node-id": node}


@pytest.fixture
def flower(monkeypatch) -> Flower:
    """Flower's list, in place of its command line."""
    made = Flower()
    monkeypatch.setattr(fleet, "flwr", made)
    return made


def brought(tmp_path: Path, names: str) -> Path:
    """A plan for clients of these names, who have brought their keys: its folder."""
    planned(tmp_path, names=names)
    for name in names:
        fleet.keys(tmp_path / "fleet" / name)
    return tmp_path / "fleet"


def registered(folder: Path) -> dict[str, int]:
    """The registered clients and their ids, the same in each of the server's files."""
    own = folder / "server"
    known = json.loads((own / "registered.json").read_text())
    nodes = json.loads((own / "nodes.json").read_text())
    assert all(nodes[about["node"]]["client"] == about["client"] for about in known.values())
    assert len((own / "registered.map").read_text().splitlines()) == len(known)
    trusted = x509.load_pem_x509_certificates((own / "clients.pem").read_bytes())
    assert len(trusted) == 1 + len(known)
    return {name: about["client"] for name, about in known.items()}


WRONG_HALVES = {
    "client.pem": (b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    "node.pub": (b"garbage", b"ssh-ed25519 AAAA"),
    "client.json": (b"{",),
}


@pytest.mark.parametrize("part", WRONG_HALVES)
def test_a_client_that_brings_something_broken_is_named_and_hinders_nobody(tmp_path, flower, part):
    folder = brought(tmp_path, "abc")
    good = (folder / "b" / part).read_bytes()
    for wrong in WRONG_HALVES[part]:
        (folder / "b" / part).write_bytes(wrong)
        with pytest.raises(RuntimeError, match=r"\Ab: .*\Z"):
            fleet.register(folder)
        assert registered(folder) == {"a": 0, "c": 2}
    fleet.remove(folder, "a")
    assert registered(folder) == {"c": 2}
    (folder / "b" / part).write_bytes(good)
    fleet.register(folder)
    assert registered(folder) == {"b": 1, "c": 2}
    (folder / "c" / part).write_bytes(wrong)  # one that is registered already stays
    assert main(["register", str(folder)]) == 1
    assert registered(folder) == {"b": 1, "c": 2}
    assert len(flower.nodes) == 2


@pytest.mark.usefixtures("flower")
def test_what_follows_a_certificate_does_not_reach_nginx(tmp_path):
    folder = brought(tmp_path, "ab")
    with (folder / "b" / "client.pem").open("ab") as file:
        file.write(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    fleet.register(folder)
    assert registered(folder) == {"a": 0, "b": 1}
    if NGINX:
        words = [NGINX, "-t", "-p", folder / "server", "-e", "stderr", "-c", "nginx.conf"]
        subprocess.run(words, check=True, capture_output=True)


def test_a_client_whose_certificate_comes_later_is_registered_then(tmp_path, flower):
    folder = brought(tmp_path, "ab")
    (folder / "a" / "client.pem").rename(folder / "a" / "later")
    assert main(["register", str(folder)]) == 1
    assert registered(folder) == {"b": 1}
    (folder / "a" / "later").rename(folder / "a" / "client.pem")
    assert main(["register", str(folder)]) == 0
    assert registered(folder) == {"a": 0, "b": 1}
    assert len(flower.nodes) == 2


@pytest.mark.parametrize("fails", ["register", "unregister"])
def test_new_keys_are_registered_in_the_end_whatever_failed_between(tmp_path, flower, fails):
    folder = brought(tmp_path, "ab")
    fleet.register(folder)
    fleet.keys(folder / "a", new=True)
    flower.fails = fails
    assert main(["register", str(folder)]) == 1
    assert registered(folder) == {"b": 1}  # the old pair is shut out all the same
    flower.fails = ""
    assert main(["register", str(folder)]) == 0
    assert registered(folder) == {"a": 0, "b": 1}


def test_a_key_of_two_clients_is_refused_for_the_second_only(tmp_path, flower, capsys):
    folder = brought(tmp_path, "abcd")
    shutil.copy(folder / "a" / "node.pub", folder / "b")
    shutil.copy(folder / "a" / "node.pub", folder / "c")
    assert main(["register", str(folder)]) == 1
    assert re.findall("^.*: key: .*", capsys.readouterr().err, re.MULTILINE) == [
        f"{name}: key: expected one of its own, got that of a" for name in "bc"
    ]
    assert registered(folder) == {"a": 0, "d": 3}
    assert len(flower.nodes) == 2


def test_a_silent_flower_is_reported(tmp_path, monkeypatch, capsys):
    folder = brought(tmp_path, "ab")

    def slow(*words, **_):
        raise subprocess.TimeoutExpired(words[0], 120)

    monkeypatch.setattr(subprocess, "run", slow)
    assert main(["register", str(folder)]) == 1
    assert re.findall("(.): .* timed out", capsys.readouterr().err) == ["a", "b"]


@pytest.mark.usefixtures("flower")
def test_planning_again_keeps_every_id(tmp_path):
    folder = brought(tmp_path, "abc")
    fleet.register(folder)
    nodes = json.loads((folder / "server" / "nodes.json").read_text())
    steps = planned(tmp_path, names="dbce")
    assert "clients=5" in steps
    for name, client in {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}.items():
        assert json.loads((folder / name / "client.json").read_text())["client"] == client
        assert f"partition-id={client} " in (folder / name / "run.sh").read_text()
    for name in "de":
        fleet.keys(folder / name)
    fleet.register(folder)
    assert registered(folder) == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
    assert nodes.items() <= json.loads((folder / "server" / "nodes.json").read_text()).items()
    # One that is gone keeps its id, too, and one that never came leaves its own.
    fleet.remove(folder, "e")
    shutil.rmtree(folder / "e")
    planned(tmp_path, names="abcdf")
    planned(tmp_path, names="abcdg")
    assert json.loads((folder / "g" / "client.json").read_text())["client"] == 5


def test_certificates_for_a_machine_itself_last_ten_years(tmp_path):
    """Nobody renews them: the server's between nginx and the SuperLink, a client's to its nginx."""
    folder = brought(tmp_path, "a")
    years = {"server/back": 10, "server/tls": 1, "a/tls": 10}
    for name, count in years.items():
        found = x509.load_pem_x509_certificate((folder / name / "server.pem").read_bytes())
        lasts = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
        assert round(lasts / certificates.YEAR, 2) == count


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Meanwhile files end after 40 bytes."""
    resource = pytest.importorskip("resource", reason="a system without limits")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_servers_files_as_they_were(tmp_path, flower):
    folder = brought(tmp_path, "ab")
    fleet.register(folder)
    own = folder / "server"
    before = {path: path.read_bytes() for path in own.iterdir() if path.is_file()}
    with full_disk(), pytest.raises(OSError, match="cannot write"):
        fleet.remove(folder, "a")
    assert {path: path.read_bytes() for path in own.iterdir() if path.is_file()} == before
    fleet.remove(folder, "a")
    assert registered(folder) == {"b": 1}
    assert len(flower.nodes) == 1


def test_a_full_disk_leaves_no_half_key_and_no_half_certificate(tmp_path):
    own = tmp_path / "a"
    own.mkdir()
    for make in (
        lambda: certificates.node_key(own / "node"),
        lambda: keys.load(own / "own", make=True),
        lambda: certificates.certificates(own / "tls", ["localhost"]),
        lambda: certificates.client_certificate(own, "a"),
    ):
        with pytest.raises(OSError, match="File too large"), full_disk():
            make()
        assert not [path for path in own.rglob("*") if path.is_file()]
    for name in ("tls/ca.key", "tls/server.key", "client.key"):
        certificates.private_key(own / name)
    before = sorted(own.rglob("*"))
    for make in (
        lambda: certificates.certificates(own / "tls", ["localhost"]),
        lambda: certificates.client_certificate(own, "a"),
    ):
        with pytest.raises(OSError, match="cannot write"), full_disk():
            make()
    assert sorted(own.rglob("*")) == before
    fleet.keys(own)


def test_a_key_that_another_process_made_meanwhile_stays(tmp_path):
    path, other = tmp_path / "key", certificates.private_key(tmp_path / "other")

    def make():
        shutil.copy(tmp_path / "other", path)
        return Ed25519PrivateKey.generate()

    found = certificates.private_key(path, make=make)
    assert found.private_numbers() == other.private_numbers()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 2


def test_certificates_are_renewed_before_they_end_and_the_authority_stays(tmp_path, monkeypatch):
    planned(tmp_path)
    own = tmp_path / "fleet" / "server"
    files = {name: own / "tls" / f"{name}.pem" for name in ("ca", "server")}
    old = {name: path.read_bytes() for name, path in files.items()}
    fleet.renew(own)
    assert files["server"].read_bytes() == old["server"]  # eleven months are left
    monkeypatch.setattr(certificates, "RENEWED_BEFORE", 2 * certificates.YEAR)
    fleet.renew(own)
    new = {name: path.read_bytes() for name, path in files.items()}
    assert new["ca"] == old["ca"]
    assert new["server"] != old["server"]
    before, after = (x509.load_pem_x509_certificate(each["server"]) for each in (old, new))
    names = x509.SubjectAlternativeName
    assert after.extensions.get_extension_for_class(names) == (
        before.extensions.get_extension_for_class(names)
    )
    monkeypatch.undo()
    planned(tmp_path, address="10.1.2.3")  # the server has moved
    assert files["server"].read_bytes() != new["server"]


class Link(BaseHTTPRequestHandler):
    """Stands for the SuperLink: it answers everything, and remembers what it was asked."""

    def do_POST(self):
        self.server.asked.append(self.path)
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        """Nothing."""


@contextlib.contextmanager
def door(tmp_path: Path, monkeypatch) -> Iterator[tuple[int, list[str]]]:
    """nginx with two registered clients before a stand-in: its port, and what got through."""
    ports = [free_port() for _ in range(4)]
    for name, inner in zip(("server", "client", "runtime"), ports, strict=False):
        monkeypatch.setitem(fleet.INNER, name, inner)
    planned(tmp_path, port=ports[3])
    answers = iter(range(1, 9))
    monkeypatch.setattr(fleet, "flwr", lambda *words: {"node-id": next(answers)})
    for name in ("north", "south"):
        fleet.keys(tmp_path / "fleet" / name)
    fleet.register(tmp_path / "fleet")
    own = tmp_path / "fleet" / "server"
    link = ThreadingHTTPServer(("127.0.0.1", ports[0]), Link)
    link.asked = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "back" / "server.pem", own / "back" / "server.key")
    link.socket = context.wrap_socket(link.socket, server_side=True)
    threading.Thread(target=link.serve_forever, daemon=True).start()
    words = [NGINX, "-p", own, "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off;"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as nginx:
        try:
            until((own / "nginx.pid").exists)
            yield ports[3], link.asked
        finally:
            nginx.terminate()
            link.shutdown()
            link.server_close()


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def asked(folder: Path, port: int, path: str, certificate=None, key=None, body=b"") -> int:
    """The status of a request with a client's certificate and a client's Flower key."""
    trust = ssl.create_default_context(cafile=folder / "server" / "tls" / "ca.pem")
    headers = {}
    if certificate:
        own = folder / certificate
        trust.load_cert_chain(own / "client.pem", own / "client.key")
    if key:
        public = serialization.load_ssh_public_key((folder / key / "node.pub").read_bytes())
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        pem = public.public_bytes(serialization.Encoding.PEM, form)
        headers["flwr-public-key"] = base64.b64encode(pem).decode()
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=trust)
    with contextlib.closing(connection):
        connection.request("POST", path, body, headers)
        return connection.getresponse().status


@with_nginx
def test_only_registered_pairs_get_in_and_only_to_nodes_paths(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "fleet"
    with door(tmp_path, monkeypatch) as (port, passed):
        pull, push = "/v1/fleet/pull-messages", "/v1/fleet/push-object"
        assert fleet.check(f"127.0.0.1:{port}", folder / "server" / "tls" / "ca.pem") is False
        printed = capsys.readouterr().out
        assert re.findall("OPEN .*", printed) == [f"OPEN  port  {fleet.INNER['server']}"]
        assert passed == []
        assert asked(folder, port, pull, "north", "north") == 200
        assert asked(folder, port, push, "north", "north", bytes(6_000_000)) == 200
        assert passed == [pull, push]
        assert asked(folder, port, push, "north", "north", bytes(9_000_000)) == 413
        assert asked(folder, port, pull, "north", "south") == 401
        assert asked(folder, port, pull, "north") == 401
        assert asked(folder, port, pull) == 400
        for path in ("/v1/control/list-nodes", "/v1/runtime/get-nodes", "/v1/fleet/register-node",
                     "/v1/fleet/pull-messages/../../control/list-nodes", "/health",
                     "/v1/fleet/%2e%2e/control/start-run", "//v1/control/list-nodes"):  # fmt: skip
            assert asked(folder, port, path, "north", "north") == 404, path
        assert passed == [pull, push]
        # New keys: the old pair is refused, the new one is not; then the client goes.
        old = shutil.copytree(folder / "north", folder / "old")
        (old / "node.pub").rename(old / "kept.pub")
        fleet.keys(folder / "north", new=True)
        fleet.register(folder)
        (old / "kept.pub").rename(old / "node.pub")
        until(lambda: asked(folder, port, pull, "old", "old") in (400, 401))
        until(lambda: asked(folder, port, pull, "north", "north") == 200)
        fleet.remove(folder, "north")
        until(lambda: asked(folder, port, pull, "south", "south") == 200)
        (folder / "north" / "node.pub").write_bytes((old / "node.pub").read_bytes())
        assert asked(folder, port, pull, "north", "north") in (400, 401)
        fleet.remove(folder, "south")  # the last one goes as well
        until(lambda: asked(folder, port, pull, "south") == 400)
        with pytest.raises(ValueError, match=r"^name: expected one of"):
            fleet.remove(folder, "south")
        log = (folder / "server" / "access.log").read_text()
        assert re.search(rf'"CN=north" POST {pull} 401', log)
    nodes = yaml.safe_load((folder / "server" / "nodes.json").read_text())
    assert sorted(entry["client"] for entry in nodes.values()) == [0, 1]  # ids stay


def test_check_sees_a_superlink_that_has_no_door(tmp_path, monkeypatch, capsys):
    """What answers by itself is open, whatever it answers."""
    planned(tmp_path)
    own = tmp_path / "fleet" / "server"
    link = ThreadingHTTPServer(("127.0.0.1", 0), Link)
    link.asked = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own / "tls" / "server.pem", own / "tls" / "server.key")
    link.socket = context.wrap_socket(link.socket, server_side=True)
    threading.Thread(target=link.serve_forever, daemon=True).start()
    try:
        words = ["check", f"127.0.0.1:{link.server_port}", "--ca", f"{own / 'tls' / 'ca.pem'}"]
        assert main(words) == 1
    finally:
        link.shutdown()
        link.server_close()
    assert capsys.readouterr().out.count("OPEN") >= len(CLOSED)


@pytest.mark.parametrize("ca", ["tls", "back"])
def test_check_that_reaches_no_door_says_so(tmp_path, capsys, ca):
    """Nobody listens there, or it is somebody else's door: neither means that all is shut."""
    planned(tmp_path)
    own = tmp_path / "fleet" / "server"
    words = ["check", f"127.0.0.1:{free_port()}", "--ca", f"{own / 'tls' / 'ca.pem'}"]
    link = None
    if ca == "back":
        link = ThreadingHTTPServer(("127.0.0.1", 0), Link)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own / "back" / "server.pem", own / "back" / "server.key")
        link.socket = context.wrap_socket(link.socket, server_side=True)
        threading.Thread(target=link.serve_forever, daemon=True).start()
        words[1] = f"127.0.0.1:{link.server_port}"
    try:
        assert main(words) == 1
    finally:
        if link:
            link.shutdown()
            link.server_close()
    expected = {
        "tls": "no answer from nginx; wrong address or ca.pem?",
        "back": "CERTIFICATE_VERIFY",
    }
    assert expected[ca] in capsys.readouterr().err


def test_an_empty_list_of_trusted_signers_starts_nothing(tmp_path):
    """Flower 1.41 takes it for leave to run everything."""
    planned(tmp_path)
    folder = tmp_path / "fleet" / "north"
    for text in ("", "{}\n", "# later\n"):
        (folder / "trusted.yaml").write_text(text)
        done = subprocess.run(["sh", folder / "run.sh"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (1, "trusted.yaml names nobody\n")


def test_the_report_to_flower_is_true_of_this_version():
    """Where this fails, Flower compares senders: chapter 11 and the report say otherwise."""
    page = chapters.ROOT / "examples" / "flower" / "REPORT-push-messages.md"
    program = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "['train'] [True]", done.stderr


def with_folder(folder: Path) -> list[int]:
    """Processes that have to do with a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            if os.fsencode(folder) in words and int(path.name) != os.getpid():
                found.append(int(path.name))
    return found


with_processes = pytest.mark.skipif(
    " " in sys.prefix, reason="Flower cannot work below a folder with a space"
)


@with_all_cases("processes of Flower for a minute")
@with_processes
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are counted in Linux' /proc")
def test_who_is_killed_leaves_no_process_and_a_second_start_is_refused(tmp_path):
    script = chapters.ROOT / "examples" / "flower" / "run.py"
    words = [sys.executable, script, "--folder", tmp_path / "made", "--rounds", "2"]
    with subprocess.Popen(words) as first:
        until((tmp_path / "made" / "client-2.log").exists, 200)
        second = subprocess.run(words, capture_output=True, text=True, timeout=100)
        assert second.returncode == 1
        assert "another process works there" in second.stderr
        assert len(with_folder(tmp_path / "made")) >= 5
        first.kill()
    until(lambda: not with_folder(tmp_path / "made"), 60)
    done = subprocess.run(words, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert not with_folder(tmp_path / "made")
    secret = [p for p in (tmp_path / "made").rglob("*") if p.is_file() and p.stat().st_mode & 0o77]
    assert not secret


def namespaces() -> bool:
    """May this user make machines of the network?"""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    made = subprocess.run(["ip", "netns", "add", "fedlab-try"], capture_output=True)
    subprocess.run(["ip", "netns", "del", "fedlab-try"], capture_output=True)
    return made.returncode == 0


ADDRESS = {"server": "10.77.0.1", "north": "10.77.0.2", "south": "10.77.0.3",
           "stranger": "10.77.0.9"}  # fmt: skip


@contextlib.contextmanager
def machines() -> Iterator[Callable[..., list[str]]]:
    """Four machines on one wire; yields what runs a command on one of them."""
    ip = lambda *words: subprocess.run(["ip", *words], check=True)  # noqa: E731
    name = {machine: f"fedlab-{machine}" for machine in ADDRESS}
    try:
        for space in name.values():
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        server = name["server"]
        ip("-n", server, "link", "add", "wire", "type", "bridge")
        ip("-n", server, "address", "add", f"{ADDRESS['server']}/24", "dev", "wire")
        ip("-n", server, "link", "set", "wire", "up")
        for machine in ("north", "south", "stranger"):
            ip("-n", server, "link", "add", machine, "type", "veth", "peer", "name", "wire",
               "netns", name[machine])  # fmt: skip
            ip("-n", server, "link", "set", machine, "master", "wire", "up")
            ip("-n", name[machine], "address", "add", f"{ADDRESS[machine]}/24", "dev", "wire")
            ip("-n", name[machine], "link", "set", "wire", "up")
        yield lambda machine, *words: ["ip", "netns", "exec", name[machine], *map(str, words)]
    finally:
        for space in name.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True)


COPY = """#!/bin/sh
# In place of scp: all machines of this test share their files.
for word; do shift; set -- "$@" "${word#*:}"; done
case $1 in -r) shift; mkdir -p "$(dirname "$2")"; exec cp -r "$1" "$2";; esac
exec cp "$@"
"""


@with_all_cases("a federation on four machines: three minutes")
@with_processes
@with_nginx
@pytest.mark.skipif(not namespaces(), reason="only root makes network namespaces")
def test_the_pasted_steps_train_on_machines_and_a_stranger_stays_outside(tmp_path):
    """The plan's own lines, each on its machine, from an empty folder to scores."""
    steps = planned(tmp_path, address=ADDRESS["server"])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "scp").write_text(COPY)
    (tmp_path / "bin" / "scp").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    env = os.environ | {"PATH": path, "PYTHONPATH": str(chapters.ROOT), "HOME": str(tmp_path)}
    lines = {
        step: [line.strip() for line in text.splitlines()[1:] if line.startswith("   ")]
        for step, text in re.findall(
            r"^(\d)\.(.*?)(?=^\d\.|^From)", steps, re.MULTILINE | re.DOTALL
        )
    }
    started, began = [], time.monotonic()
    with machines() as on:
        run = lambda machine, line: subprocess.run(  # noqa: E731
            on(machine, "sh", "-c", line), env=env, capture_output=True, text=True, timeout=400
        )

        def start(machine, line):
            with (tmp_path / f"{machine}.log").open("wb") as log:
                given = {"stdout": log, "stderr": log, "start_new_session": True, "env": env}
                started.append(subprocess.Popen(on(machine, "sh", "-c", line), **given))

        def done(machine, line):
            answer = run(machine, line)
            assert answer.returncode == 0, (line, answer.stdout[-2000:], answer.stderr[-2000:])
            return answer.stdout

        try:
            for step, machine in (("2", "server"), ("3", "north"), ("4", "server")):
                for line in lines[step]:
                    done(machine, line)
            (line,) = lines["5"]
            start("server", line)
            health = "curl --silent --insecure https://127.0.0.1:9440/health"
            until(lambda: run("server", health).returncode == 0)
            (line,) = lines["6"]
            done("server", line)
            for machine, line in zip(("north", "south"), lines["7"], strict=True):
                start(machine, line)
            (line,) = lines["8"]
            line = line.replace(" APP ", f" {chapters.ROOT / 'examples' / 'flower'} ")
            said = done("server", line.replace("clients=2", "clients=2 rounds=2"))
            assert "round 2 of 2" in said, said
            print(f"from an empty folder to scores: {time.monotonic() - began:.0f} s")
            folder = tmp_path / "fleet"
            table = np.loadtxt(
                folder / "server" / "results" / "scores.csv", delimiter=",", skiprows=1,
                usecols=(0, 1, 3),
            )  # fmt: skip
            assert table.shape == (4, 3)
            assert (table[:, 2] > 0).all()
            # The stranger has the authority's certificate and the address, and nothing else.
            ca, python = folder / "server" / "tls" / "ca.pem", "python -m fedlab_flower"
            outside = run("stranger", f"{python} check {ADDRESS['server']}:9443 --ca {ca}")
            assert outside.returncode == 0, outside.stdout
            assert "OPEN" not in outside.stdout
            # Inside, past the door, the same check finds what Flower leaves open.
            back = folder / "server" / "back" / "ca.pem"
            inside = run("server", f"{python} check 127.0.0.1:9440 --ca {back}")
            assert inside.returncode == 1
            assert "OPEN  POST  /v1/control/list-nodes" in inside.stdout
            # A client's certificate opens the fleet's paths and no others; a removed one nothing.
            north = tmp_path / "there" / "north"
            curl = (
                f"curl --silent --output /dev/null --write-out %{{http_code}} --request POST "
                f"--cacert {ca} --cert {north}/client.pem --key {north}/client.key "
                f"https://{ADDRESS['server']}:9443"
            )
            assert done("north", f"{curl}/v1/control/list-nodes") == "404"
            done("server", f"{python} remove {folder} north")
            assert done("north", f"{curl}/v1/fleet/pull-messages") in ("400", "401")
        finally:
            for process in reversed(started):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            for process in started:
                process.wait(60)
            until(lambda: not with_folder(tmp_path), 60)
