"""Keys, and the requests that carry public ones. All randomness of this package comes from here."""

import secrets
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from harvest_pki.errors import PkiError

PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

_CURVES: Final = {"secp256r1", "secp384r1"}  # what gRPC's TLS takes by itself
_RSA_BITS: Final = range(2048, 8193)  # more bits would only cost the aggregator time
_REQUEST_BYTES_MAX: Final = 16384


def new_key() -> ec.EllipticCurvePrivateKey:
    """Make a key as every certificate here has one: ECDSA on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def new_serial() -> int:
    """Make a serial number of 159 random bits: nobody guesses it, and it never comes again."""
    return x509.random_serial_number()


def new_secret() -> str:
    """Make a secret of 192 random bits: nobody guesses it."""
    return secrets.token_urlsafe(24)


def key_pem(key: PrivateKey) -> bytes:
    """Return a key as a PEM file (PKCS #8) without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_key(pem: bytes) -> PrivateKey:
    """Read a private key; nothing of it may get into a message."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise PkiError("the key has a password; take it off, file modes protect it") from error
    except (ValueError, UnsupportedAlgorithm):
        raise PkiError("this is no private key (PEM is expected)") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise PkiError("the key must be ECDSA or RSA")
    return key


def public_key_of_request(data: bytes) -> PublicKey:
    """Return the public key of a certificate request (CSR, PEM or DER) that its sender proved to own.

    Nothing else of the request is used: who the sender is was found out in another way.
    """
    return strong(load_request(data).public_key())


def load_request(data: bytes) -> x509.CertificateSigningRequest:
    """Read a certificate request whose sender proved to own its key."""
    if len(data) > _REQUEST_BYTES_MAX:
        raise PkiError(f"the certificate request is longer than {_REQUEST_BYTES_MAX} bytes")
    try:
        pem = b"-----BEGIN" in data
        request = x509.load_pem_x509_csr(data) if pem else x509.load_der_x509_csr(data)
        request.public_key()
        signed = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise PkiError("the certificate request cannot be read (PEM or DER is expected)") from error
    if not signed:
        raise PkiError("the certificate request is not signed with its own key")
    return request


def strong(key: object) -> PublicKey:
    """Return a public key if it may get a certificate; refuse weak and unusual ones."""
    match key:
        case ec.EllipticCurvePublicKey() if key.curve.name in _CURVES:
            return key
        case rsa.RSAPublicKey() if key.key_size in _RSA_BITS and key.public_numbers().e == 65537:
            return key
        case ec.EllipticCurvePublicKey():
            what = f"ECDSA on {key.curve.name}"
        case rsa.RSAPublicKey():
            what = f"RSA with {key.key_size} bits, exponent {min(key.public_numbers().e, 1 << 32)}"
        case _:
            what = "neither ECDSA nor RSA"
    raise PkiError(f"the key is refused: {what}. Use ECDSA on P-256 or P-384, or RSA with 2048 to 8192 bits")
