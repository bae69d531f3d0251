"""Keys: what a server signs a ledger with, and how anybody checks it. Above: ledger."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Key = Any  # one of KEYS
KEYS = (Ed25519PrivateKey, ec.EllipticCurvePrivateKey)
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER
PKCS8, OPEN = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def load(path: Path, *, make: bool = False) -> Key:
    """The private key in a file, PEM or OpenSSH; ``make``: a new one, 0600, if there is none.

    raises  ValueError if the file holds no EC or Ed25519 key, or one under a password
    """
    if make:
        create(path, Ed25519PrivateKey.generate)
    data = path.read_bytes()
    openssh = b"BEGIN OPENSSH" in data
    parse = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    message = f"key: expected a private EC or Ed25519 key without a password in {path}"
    try:
        key = parse(data, None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{message} ({error})") from None
    if not isinstance(key, KEYS):
        raise ValueError(message)
    return key


def create(path: Path, make: Callable[[], Key], form: serialization.PrivateFormat = PKCS8) -> None:
    """A new key's file, 0600, whole or not at all; one that is there stays."""
    if path.exists():
        return
    descriptor, partial = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(make().private_bytes(PEM, form, OPEN))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(partial, path)
    finally:
        os.unlink(partial)


def public(key: Key) -> str:
    """The public key as text, for a ledger's first line."""
    return base64.b64encode(key.public_key().public_bytes(DER, SPKI)).decode()


def fingerprint(public_key: str) -> str:
    """SHA-256 of a public key: short enough to be compared by telephone."""
    return hashlib.sha256(public_key.encode()).hexdigest()


def sign(key: Key, content: bytes) -> str:
    """A signature of the content, as text."""
    if isinstance(key, Ed25519PrivateKey):
        signature = key.sign(content)
    else:
        signature = key.sign(content, ec.ECDSA(hashes.SHA256()))
    return base64.b64encode(signature).decode()


def signed(public_key: str, signature: Any, content: bytes) -> bool:
    """Whether the owner of the key has signed this content; no for whatever is no key."""
    try:
        key = serialization.load_der_public_key(base64.b64decode(public_key))
        made = base64.b64decode(signature, validate=True)
        if base64.b64encode(made).decode() != signature:  # other letters may stand for these bytes
            return False
        if isinstance(key, Ed25519PublicKey):
            key.verify(made, content)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(made, content, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True
