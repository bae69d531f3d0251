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
FLEET_CALLS = ("activate-node", "pull-messages", "push-messages", "get-fab")
CLOSED = (  # what no stranger may reach, as (method, path)
    *(
        ("POST", f"/v1/control/{call}")
        for call in (
            "start-run",
            "list-runs",
            "stop-run",
            "stream-logs",
            "list-nodes",
            "register-node",
            "unregister-node",
            "pull-artifacts",
        )
    ),
    *(
        ("POST", f"/v1/runtime/{call}")
        for call in ("acquire-task", "push-messages", "get-nodes")
    ),
    *(
        ("POST", f"/v1/fleet/{call}")
        for call in (*FLEET_CALLS, "register-node", "unregister-node")
    ),
    *(
        ("GET", path)
        for path in ("/health", "/docs", "/openapi.json", "/v1/fleet/pull-messages")
    ),
    # Paths that nginx and what stands behind it may read in two ways: dots, and two slashes.
    ("POST", "/v1/fleet/../control/list-nodes"),
    ("POST", "/v1/fleet/%2e%2e/control/list-nodes"),
    ("POST", "//v1/control/list-nodes"),
)


def map_line(about: Mapping[str, str]) -> str:
    """The line of nginx's map that binds a client's certificate to its key."""
    certificate = x509.load_pem_x509_certificate(about["certificate"].encode())
    certificate_bytes = certificate.public_bytes(serialization.Encoding.DER)
    # SHA-1, since nginx's variable `$ssl_client_fingerprint` knows no other hash.
    certificate_hash = hashlib.sha1(certificate_bytes, usedforsecurity=False).hexdigest()
    client_key = serialization.load_ssh_public_key(about["key"].encode())
    # As Flower sends it with every request of a node: PEM, and base64 around that.
    key_format = serialization.PublicFormat.SubjectPublicKeyInfo
    encoded_key = base64.b64encode(
        client_key.public_bytes(serialization.Encoding.PEM, key_format)
    ).decode()
    return f'"{certificate_hash}:{encoded_key}" 1;\n'


def check(address: str, ca: Path) -> bool:
    """Try what a stranger with the authority's certificate can; prints it, True if all is shut."""
    host, _, port_text = address.rpartition(":")
    # An IPv6 address stands in brackets, which sockets do not take.
    host = host.strip("[]")
    tls_context = ssl.create_default_context(cafile=str(ca))
    # a machine may be called by another address than clients do
    tls_context.check_hostname = False
    open_targets, answer_count = [], 0
    for method, path in CLOSED:
        status, server = _asked(host, int(port_text), tls_context, method, path)
        # A SuperLink that is reached refuses some of these, too, and that is no door.
        closed = status is None or (status in (400, 401, 404) and server == "nginx")
        print(
            f"{'shut' if closed else 'OPEN'}  {method:5} {path:40} {status or 'no answer'} {server}"
        )
        open_targets += [] if closed else [path]
        answer_count += status is not None
    # nginx is to be the only door: a connection to what stands behind it is too much already.
    for inner_port in INNER.values():
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, inner_port), timeout=3),
        ):
            print(f"OPEN  port  {inner_port}")
            open_targets.append(str(inner_port))
    # Silence alone proves nothing: with a wrong address everything would look shut.
    if not answer_count:
        raise RuntimeError(f"{address}: no answer from nginx; wrong address or ca.pem?")
    return not open_targets


def _asked(
    host: str, port: int, tls_context: ssl.SSLContext, method: str, path: str
) -> tuple[int | None, str]:
    """The status that a request without a client certificate gets, or None; and from whom."""
    connection = http.client.HTTPSConnection(host, port, timeout=10, context=tls_context)
    try:
        connection.request(method, path, b"", {"Content-Type": "application/x-protobuf"})
        response = connection.getresponse()
        return response.status, response.getheader("server") or ""
    # Before OSError, of which it is a kind: somebody else's door says nothing about this one.
    except ssl.SSLCertVerificationError:
        raise
    except (OSError, http.client.HTTPException):
        return None, ""
    finally:
        connection.close()
