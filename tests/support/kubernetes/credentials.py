"""Who is who in a cluster of tests: a CA, certificates, and kubeconfig files. Nothing is checked for what is stored."""

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


@dataclass
class Credentials:
    """A CA in a folder, and all that it gave out."""

    folder: Path
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = _name("harvest-test-ca")
        self._certificate = (
            _builder(name, self.key)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        self.ca = self._written("ca", self._certificate, self.key)

    def issue(self, user: str, *, group: str | None = None, names: tuple[str, ...] = ()) -> Pair:
        """Give a user, or a server of these names and addresses, a certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(_name(user, group), key)
            .issuer_name(self._certificate.subject)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_san, names))), critical=False)
        return self._written(user.replace(":", "-"), builder.sign(self.key, hashes.SHA256()), key)

    def signing_key(self) -> Pair:
        """Make the pair that ServiceAccounts' tokens are signed and checked with: the certificate is a public key."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return Pair(self._file("accounts.pub", public), self._file("accounts.key", _key_pem(key)))

    def kubeconfig(self, server: str, user: str, *, group: str | None = None) -> Path:
        """Write how a user with a certificate reaches the API server."""
        pair = self.issue(user, group=group)
        return self.written_kubeconfig(
            user,
            server,
            {
                "client-certificate-data": _base64(pair.certificate.read_bytes()),
                "client-key-data": _base64(pair.key.read_bytes()),
            },
        )

    def written_kubeconfig(self, name: str, server: str, user: dict[str, str]) -> Path:
        """Write a kubeconfig file; JSON is YAML."""
        cluster = {"server": server, "certificate-authority-data": _base64(self.ca.certificate.read_bytes())}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
            "current-context": "tests",
        }
        return self._file(f"{name.replace(':', '-')}.kubeconfig", json.dumps(config, indent=1).encode())

    def _written(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return Pair(self._file(f"{name}.crt", pem), self._file(f"{name}.key", _key_pem(key)))

    def _file(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path


def _name(user: str, group: str | None = None) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
