"""What agents and relays ask for, and what of it is understood."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import new_key
from harvest_pki.requests import new_request, requested

KEY = new_key()
URI = "harvest:example:server:oss1"


def identity(name: str, site: str = "example") -> Identity:
    return Identity(site=site, kind=Kind.SERVER, name=name)


def request(*names: tuple[x509.ObjectIdentifier, str], extensions: tuple[x509.ExtensionType, ...] = ()) -> bytes:
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in names or [(NameOID.COMMON_NAME, "oss1")]])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for one in extensions:
        builder = builder.add_extension(one, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def names(*texts: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(text) for text in texts])


@pytest.mark.parametrize("name", ["oss1", "oss1.example.org", "OSS_1", f"{'long.' * 40}example"])
def test_what_was_asked_for_is_understood(name: str) -> None:
    assert requested(new_request(identity(name), KEY), "example") == (identity(name), KEY.public_key())


def test_a_relay_says_what_it_is() -> None:
    relay = Identity(site="example", kind=Kind.RELAY, name="alkindi")
    assert requested(new_request(relay, KEY), "example") == (relay, KEY.public_key())


def test_the_subject_alone_is_enough_for_a_server() -> None:
    """As other programs make requests."""
    assert requested(request(), "example") == (identity("oss1"), KEY.public_key())


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (request((NameOID.COMMON_NAME, "oss1"), (NameOID.ORGANIZATION_NAME, "system:masters")), "and no more"),
        (request((NameOID.COMMON_NAME, "oss1"), (NameOID.COMMON_NAME, "oss2")), "must be CN=oss1 and no more"),
        (request((NameOID.ORGANIZATION_NAME, "oss1")), "'' cannot be a server's name"),
        (request((NameOID.COMMON_NAME, "oss 1")), "'oss 1' cannot be a server's name"),
        (request((NameOID.COMMON_NAME, "oss2"), extensions=(names(URI),)), "'CN=oss2': it must be CN=oss1"),
        (request(extensions=(names(URI, "harvest:example:server:oss2"),)), "asks for more than its name"),
        (request(extensions=(names("harvest:example:relay:oss2"),)), "'CN=oss1': it must be CN=oss2"),
        (request(extensions=(names("harvest:example:aggregator:oss1"),)), "asks for more than its name"),
        (request(extensions=(names("harvest:example:ca"),)), "asks for more than its name"),
        (request(extensions=(names(URI, "harvest:example:relay:oss1"),)), "asks for more than its name"),
        (request(extensions=(names("harvest:other:relay:oss1"),)), "asks for more than its name"),
        (request(extensions=(names("harvest:other:server:oss1"),)), "asks for more than its name"),
        (request(extensions=(x509.SubjectAlternativeName([x509.DNSName("oss1")]),)), "asks for more than its name"),
        (request(extensions=(x509.BasicConstraints(ca=True, path_length=None),)), "asks for more than its name"),
        (request(extensions=(names(URI), x509.BasicConstraints(ca=False, path_length=None))), "asks for more"),
    ],
)
def test_whoever_asks_for_more_or_for_another_name_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(PkiError, match=complaint):
        requested(data, "example")


def test_weak_keys_are_refused_here_too() -> None:
    with pytest.raises(PkiError, match="ECDSA on secp224r1"):
        requested(new_request(identity("oss1"), ec.generate_private_key(ec.SECP224R1())), "example")
