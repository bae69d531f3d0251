"""Certificates: an authority of one's own, certificates that are renewed, keys of nodes and tasks.

Chapter 11 says who has which. Private keys are their owner's alone. Below: private. Above: fleet.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..engine.checkpoint import whole_file
from .keys import PEM, PKCS8, SPKI, create, load
from .private import readable_by_owner

SSH = serialization.PrivateFormat.OpenSSH
YEAR = datetime.timedelta(days=365)
LONG = 10 * YEAR  # an authority, and what only a machine itself meets: nobody renews it
RENEWED_BEFORE = datetime.timedelta(days=30)  # a certificate ends


def private_key(path: Path, form: serialization.PrivateFormat = PKCS8, make: Any = None) -> Any:
    """The key in a file, made where there is none: on curve P-384, unless ``make`` is given."""
    with readable_by_owner():
        path.parent.mkdir(parents=True, exist_ok=True)
    create(path, make or (lambda: ec.generate_private_key(ec.SECP384R1())), form)
    return load(path)


def node_key(path: Path) -> Path:
    """A client's key; ``path.pub`` is what the server's operator registers."""
    public = private_key(path, SSH).public_key()
    ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    _write(path.with_suffix(".pub"), public.public_bytes(*ssh))
    return path


def task_key(path: Path) -> Path:
    """The server's key for tasks; ``path.pub`` is what clients check signatures with."""
    public = private_key(path, make=Ed25519PrivateKey.generate).public_key()
    _write(path.with_suffix(".pub"), public.public_bytes(PEM, SPKI))
    return path


def _write(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""
    with whole_file(path) as partial:
        partial.write_bytes(content)


def certificates(folder: Path, hosts: Sequence[str], lifetime: datetime.timedelta = YEAR) -> bool:
    """``ca.pem``, which every node needs, and ``server.pem`` for the hosts that nodes call.

    The authority lasts ten years, the server's certificate ``lifetime``. Called again it is renewed
    when it has 30 days left or other hosts are given; nodes, which know ``ca.pem``, notice nothing.
    returns  whether anything is new
    """
    ca, server = private_key(folder / "ca.key"), private_key(folder / "server.key")
    named = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    fresh = not (folder / "ca.pem").exists()
    if fresh:
        _write(folder / "ca.pem", _signed("authority", ca, "authority", ca, [], LONG))
    if not fresh and _lasts(folder / "server.pem", named):
        return False
    certificate = _signed(hosts[0], server, "authority", ca, [(named, False)], lifetime)
    _write(folder / "server.pem", certificate)
    return True


def client_certificate(folder: Path, name: str) -> Path:
    """``client.pem``, which vouches for itself and which the server's proxy knows by its hash."""
    key = private_key(folder / "client.key")
    if not (folder / "client.pem").exists():
        _write(folder / "client.pem", _signed(name, key, name, key, [], LONG))
    return folder / "client.pem"


def _lasts(path: Path, named: x509.SubjectAlternativeName) -> bool:
    """Is there a certificate for these hosts that does not end soon?"""
    if not path.exists():
        return False
    found = x509.load_pem_x509_certificate(path.read_bytes())
    hosts = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    soon = datetime.datetime.now(datetime.UTC) + RENEWED_BEFORE
    return hosts == named and found.not_valid_after_utc > soon


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    name: str, key: Any, issuer: str, issuer_key: Any, extensions: list, lifetime: Any
) -> bytes:
    """A certificate in PEM; an authority's where a key signs itself."""
    own = key is issuer_key
    now = datetime.datetime.now(datetime.UTC)
    subject, by = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)])
                   for n in (name, issuer))  # fmt: skip
    made = x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(minutes=5))
    made = made.not_valid_after(now + lifetime)
    usage = x509.KeyUsage(True, False, False, False, False, own, own, False, False)
    constraints = x509.BasicConstraints(own, 0 if own else None)
    subject_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    extensions = [*extensions, (constraints, True), (usage, True), (subject_id, False)]
    for extension, critical in [*extensions, (issuer_id, False)]:
        made = made.add_extension(extension, critical)
    return made.sign(issuer_key, hashes.SHA256()).public_bytes(PEM)
