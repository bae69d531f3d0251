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

from fedlab_mini.engine.files import whole_file

from .keys import PEM, PKCS8, SPKI, create, load
from .private import readable_by_owner

OPENSSH = serialization.PrivateFormat.OpenSSH
YEAR = datetime.timedelta(days=365)
LONG = 10 * YEAR  # an authority, and what only a machine itself meets: nobody renews it
RENEWED_BEFORE = datetime.timedelta(days=30)  # a certificate ends


def private_key(
    path: Path, form: serialization.PrivateFormat = PKCS8, make: Any = None
) -> Any:
    """The key in a file, made where there is none: on curve P-384, unless ``make`` is given."""
    with readable_by_owner():
        # The folder too is the owner's alone; `create` makes the file 0600 by itself.
        path.parent.mkdir(parents=True, exist_ok=True)
    create(path, make or (lambda: ec.generate_private_key(ec.SECP384R1())), form)
    # Read back: where another process was first, the file holds its key, not the one made here.
    return load(path)


def node_key(path: Path) -> Path:
    """A client's key; ``path.pub`` is what the server's operator registers."""
    # Flower reads nodes' keys in OpenSSH's format, and takes those on NIST's curves only.
    public_key = private_key(path, OPENSSH).public_key()
    openssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    _write(path.with_suffix(".pub"), public_key.public_bytes(*openssh))
    return path


def task_key(path: Path) -> Path:
    """The server's key for tasks; ``path.pub`` is what clients check signatures with."""
    # `private.signing_key` takes this kind of key only.
    public_key = private_key(path, make=Ed25519PrivateKey.generate).public_key()
    _write(path.with_suffix(".pub"), public_key.public_bytes(PEM, SPKI))
    return path


def _write(path: Path, content: bytes) -> None:
    """A file, whole or not at all."""
    with whole_file(path) as partial_path:
        partial_path.write_bytes(content)


def certificates(
    folder: Path, hosts: Sequence[str], lifetime: datetime.timedelta = YEAR
) -> bool:
    """``ca.pem``, which every node needs, and ``server.pem`` for the hosts that nodes call.

    The authority lasts ten years, the server's certificate ``lifetime``. Called again it is renewed
    when it has 30 days left or other hosts are given; nodes, which know ``ca.pem``, notice nothing.
    returns  whether anything is new
    """
    authority_key, server_key = (
        private_key(folder / "ca.key"),
        private_key(folder / "server.key"),
    )
    host_names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    authority_is_new = not (folder / "ca.pem").exists()
    # Never made anew over an old one: nodes trust the copy of it that they have, and no other.
    if authority_is_new:
        _write(
            folder / "ca.pem",
            _signed("authority", authority_key, "authority", authority_key, [], LONG),
        )
    # Under a new authority the old server's certificate is worth nothing, however long it lasts.
    if not authority_is_new and _lasts(folder / "server.pem", host_names):
        return False
    certificate = _signed(
        hosts[0], server_key, "authority", authority_key, [(host_names, False)], lifetime
    )
    _write(folder / "server.pem", certificate)
    return True


def client_certificate(folder: Path, name: str) -> Path:
    """``client.pem``, which vouches for itself and which the server's proxy knows by its hash."""
    client_key = private_key(folder / "client.key")
    # Made anew it would have another hash, and the client would have to be registered anew.
    if not (folder / "client.pem").exists():
        _write(
            folder / "client.pem", _signed(name, client_key, name, client_key, [], LONG)
        )
    return folder / "client.pem"


def _lasts(path: Path, wanted_names: x509.SubjectAlternativeName) -> bool:
    """Is there a certificate for these hosts that does not end soon?"""
    if not path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    host_names = certificate.extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    ).value
    renewal_time = datetime.datetime.now(datetime.UTC) + RENEWED_BEFORE
    # Other hosts than before: the server has moved, and nodes would refuse it by its new name.
    return host_names == wanted_names and certificate.not_valid_after_utc > renewal_time


def _general_name(host: str) -> x509.GeneralName:
    try:
        # Programs that call an address look for it among the addresses, never among DNS names.
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    name: str, key: Any, issuer: str, issuer_key: Any, extensions: list, lifetime: Any
) -> bytes:
    """A certificate in PEM; an authority's where a key signs itself."""
    self_signed = key is issuer_key
    current_time = datetime.datetime.now(datetime.UTC)
    subject_name, issuer_name = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, owner)])
        for owner in (name, issuer)
    )
    builder = x509.CertificateBuilder(
        issuer_name, subject_name, key.public_key(), x509.random_serial_number()
    )
    # Other machines' clocks may be a little behind: to them it would not be valid yet.
    builder = builder.not_valid_before(current_time - datetime.timedelta(minutes=5))
    builder = builder.not_valid_after(current_time + lifetime)
    # All may sign, as TLS asks; certificates and revocation lists only a key that signs itself.
    key_usage = x509.KeyUsage(
        True, False, False, False, False, self_signed, self_signed, False, False
    )
    # Path length 0: nobody whose certificate it signs becomes an authority by that.
    basic_constraints = x509.BasicConstraints(self_signed, 0 if self_signed else None)
    # Strict verifiers, such as Python's own from 3.13 on, ask for the identifiers of both keys.
    subject_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(
        issuer_key.public_key()
    )
    extensions = [
        *extensions,
        (basic_constraints, True),
        (key_usage, True),
        (subject_id, False),
    ]
    for extension, is_critical in [*extensions, (issuer_id, False)]:
        builder = builder.add_extension(extension, is_critical)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(PEM)
