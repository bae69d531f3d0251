"""Door: who may pass to a federation's server, and what a stranger can reach. Above: fleet."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

# ports that only a machine itself reaches
INNER = {"server": 9440, "client": 9441, "runtime": 9442}
FLEET = ("activate-node", "pull-messages", "push-messages", "get-fab")
CLOSED = (  # what no stranger may reach, as (method, path)
    *(("POST", f"/v1/control/{name}") for name in (
        "start-run", "list-runs", "stop-run", "stream-logs", "list-nodes", "register-node",
        "unregister-node", "pull-artifacts")),
    *(("POST", f"/v1/runtime/{name}") for name in ("acquire-task", "push-messages", "get-nodes")),
    *(("POST", f"/v1/fleet/{name}") for name in (*FLEET, "register-node", "unregister-node")),
    *(("GET", path) for path in ("/health", "/docs", "/openapi.json", "/v1/fleet/pull-messages")),
    ("POST", "/v1/fleet/../control/list-nodes"),
    ("POST", "/v1/fleet/%2e%2e/control/list-nodes"),
    ("POST", "//v1/control/list-nodes"),
)  # fmt: skip


def map_line(about: Mapping[str, str]) -> str:
    """The line of nginx's map that binds a client's certificate to its key."""
    certificate = x509.load_pem_x509_certificate(about["certificate"].encode())
    der = certificate.public_bytes(serialization.Encoding.DER)
    sha1 = hashlib.sha1(der, usedforsecurity=False).hexdigest()  # nginx knows no other
    key = serialization.load_ssh_public_key(about["key"].encode())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = base64.b64encode(key.public_bytes(serialization.Encoding.PEM, form)).decode()
    return f'"{sha1}:{public}" 1;\n'


def check(address: str, ca: Path) -> bool:
    """Try what a stranger with the authority's certificate can; prints it, True if all is shut."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    trust = ssl.create_default_context(cafile=str(ca))
    trust.check_hostname = False  # a machine may be called by another address than clients do
    opened, answers = [], 0
    for method, path in CLOSED:
        status, server = _asked(host, int(port), trust, method, path)
        # A SuperLink that is reached refuses some of these, too, and that is no door.
        shut = status is None or (status in (400, 401, 404) and server == "nginx")
        print(
            f"{'shut' if shut else 'OPEN'}  {method:5} {path:40} {status or 'no answer'} {server}"
        )
        opened += [] if shut else [path]
        answers += status is not None
    for inner in INNER.values():
        with contextlib.suppress(OSError), socket.create_connection((host, inner), timeout=3):
            print(f"OPEN  port  {inner}")
            opened.append(str(inner))
    if not answers:
        raise RuntimeError(f"{address}: no answer from nginx; wrong address or ca.pem?")
    return not opened


def _asked(
    host: str, port: int, trust: ssl.SSLContext, method: str, path: str
) -> tuple[int | None, str]:
    """The status that a request without a client certificate gets, or None; and from whom."""
    connection = http.client.HTTPSConnection(host, port, timeout=10, context=trust)
    try:
        connection.request(method, path, b"", {"Content-Type": "application/x-protobuf"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("server") or ""
    except ssl.SSLCertVerificationError:  # somebody else's door
        raise
    except (OSError, http.client.HTTPException):
        return None, ""
    finally:
        connection.close()
