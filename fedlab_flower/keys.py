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
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

Key = Any  # one of KEY_TYPES
KEY_TYPES = (Ed25519PrivateKey, ec.EllipticCurvePrivateKey)
PEM, DER = serialization.Encoding.PEM, serialization.Encoding.DER
PKCS8, NO_PASSWORD = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def load(path: Path, *, make: bool = False) -> Key:
    """The private key in a file, PEM or OpenSSH; ``make``: a new one, 0600, if there is none.

    raises  ValueError if the file holds no EC or Ed25519 key, or one under a password
    """
    if make:
        create(path, Ed25519PrivateKey.generate)
    file_bytes = path.read_bytes()
    is_openssh = b"BEGIN OPENSSH" in file_bytes
    # TLS keys are PEM, the keys of Flower's nodes OpenSSH's: two formats, two parsers.
    parse_key = (
        serialization.load_ssh_private_key
        if is_openssh
        else serialization.load_pem_private_key
    )
    error_text = f"key: expected a private EC or Ed25519 key without a password in {path}"
    try:
        key = parse_key(file_bytes, None)
    # TypeError is the parsers' word for a key under a password.
    except (ValueError, TypeError) as error:
        raise ValueError(f"{error_text} ({error})") from None
    if not isinstance(key, KEY_TYPES):
        raise ValueError(error_text)
    return key


def create(
    path: Path, make: Callable[[], Key], form: serialization.PrivateFormat = PKCS8
) -> None:
    """A new key's file, 0600, whole or not at all; one that is there stays."""
    if path.exists():
        return
    descriptor, partial_path = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with open(descriptor, "wb") as key_file:
            key_file.write(make().private_bytes(PEM, form, NO_PASSWORD))
            key_file.flush()
            # On the disk before it has its name: a power cut leaves no empty key behind.
            os.fsync(key_file.fileno())
        # A link, since a rename would silently replace a key that another process has made.
        with contextlib.suppress(FileExistsError):
            os.link(partial_path, path)
    finally:
        os.unlink(partial_path)


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
        # ECDSA signs a hash, whose kind has to be named; Ed25519 brings its own.
        signature = key.sign(content, ec.ECDSA(hashes.SHA256()))
    return base64.b64encode(signature).decode()


def signed(public_key: str, signature: Any, content: bytes) -> bool:
    """Whether the owner of the key has signed this content; no for whatever is no key."""
    try:
        verifying_key = serialization.load_der_public_key(base64.b64decode(public_key))
        signature_bytes = base64.b64decode(signature, validate=True)
        # Other letters may stand for the same bytes: one spelling only, or a changed bit of the
        # ledger would go unnoticed.
        if base64.b64encode(signature_bytes).decode() != signature:
            return False
        if isinstance(verifying_key, Ed25519PublicKey):
            verifying_key.verify(signature_bytes, content)
        elif isinstance(verifying_key, ec.EllipticCurvePublicKey):
            verifying_key.verify(signature_bytes, content, ec.ECDSA(hashes.SHA256()))
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True
