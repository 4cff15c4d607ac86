"""Certificates as bytes, text and numbers."""

import re
from collections.abc import Iterable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization

from harvest_pki.errors import PkiError, shown
from harvest_pki.keys import PrivateKey


def load_certificate(data: bytes) -> x509.Certificate:
    """Read one certificate, PEM (the first of a chain) or DER."""
    return load_bundle(data)[0]


def load_bundle(data: bytes) -> tuple[x509.Certificate, ...]:
    """Read all certificates of a file, at least one: PEM, or a single one as DER."""
    try:
        if b"-----BEGIN" in data:
            return tuple(x509.load_pem_x509_certificates(data))
        return (x509.load_der_x509_certificate(data),)
    except (ValueError, x509.InvalidVersion) as error:
        raise PkiError("this is no certificate (neither PEM nor DER)") from error


def bundle_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return certificates as the content of one PEM file."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def belongs(key: PrivateKey, certificate: x509.Certificate) -> bool:
    """Tell whether a certificate was made for a key."""
    try:
        return certificate.public_key() == key.public_key()
    except (ValueError, UnsupportedAlgorithm):  # a kind of key that cannot be this one
        return False


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of the whole certificate, in hexadecimal."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def serial_text(serial: int) -> str:
    """Return a serial number as people and OpenSSL write it, in lower case."""
    text = f"{serial:x}"
    return text.zfill(len(text) + len(text) % 2)


def parse_serial(text: str) -> int:
    """Read a serial number in hexadecimal, with or without colons, in either case."""
    digits = text.strip().replace(":", "")
    if not re.fullmatch(r"[0-9a-fA-F]{1,40}", digits):  # RFC 5280: at most 20 octets
        raise PkiError(f"'{shown(text)}' is no serial number: write its hexadecimal digits, as `ca list` shows them")
    return int(digits, 16)
