import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, fingerprint, load_certificate, parse_serial, serial_text
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind, identity_of, site_of_ca
from unit.pki.making import DAY, KEY, NOW, authority, certificate

CA = authority()


def foreign(*names: x509.GeneralName) -> x509.Certificate:
    """Make a certificate as some other PKI could."""
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([]),
        subject_name=x509.Name([]),
        public_key=KEY.public_key(),
        serial_number=1,
        not_valid_before=NOW,
        not_valid_after=NOW + DAY,
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256())


def uri(text: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(text)


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (Kind.SERVER, "oss1.example.org", "harvest:example:server:oss1.example.org"),
        (Kind.RELAY, "xe", "harvest:example:relay:xe"),
        (Kind.AGGREGATOR, "main", "main.example.harvest"),
    ],
)
def test_a_certificate_says_whose_it_is(kind: Kind, name: str, text: str) -> None:
    issued = certificate(CA, name, kind=kind)

    assert identity_of(issued) == Identity(site="example", kind=kind, name=name)
    assert identity_of(issued).text == text


def test_pem_der_and_the_first_of_a_chain_are_read_alike() -> None:
    issued = certificate(CA)
    der = load_certificate(issued.public_bytes(serialization.Encoding.DER))
    assert der == load_certificate(bundle_pem([issued, CA.certificate])) == issued


@pytest.mark.parametrize("name", ["a", "oss-1", "0", "x" * 63, "OSS_1", "oss1.example.org", ".".join(["x" * 62] * 4)])
def test_host_names_are_names_of_servers(name: str) -> None:
    assert Identity(site="example", kind=Kind.SERVER, name=name).name == name


BAD = ["", "-a", "_a", "a b", "a\n", "a/b", "..", "a..b", ".a", "a.", "a.-b", "ä", "x" * 64, "a:b", "a\0"]


@pytest.mark.parametrize("name", [*BAD, ".".join(["x" * 63] * 4)])
def test_what_is_no_host_name_is_no_server(name: str) -> None:
    with pytest.raises(PkiError, match="cannot be a server's name"):
        Identity(site="example", kind=Kind.SERVER, name=name)


@pytest.mark.parametrize("name", [*BAD, "a.b", "a-", "a_b", "Main"])
def test_sites_and_aggregators_have_names_without_dots(name: str) -> None:
    with pytest.raises(PkiError, match="cannot be an aggregator's name"):
        Identity(site="example", kind=Kind.AGGREGATOR, name=name)
    with pytest.raises(PkiError, match="cannot be a site's name"):
        Identity(site=name, kind=Kind.SERVER, name="oss1")
    with pytest.raises(PkiError, match="cannot be a site's name"):
        authority(name)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([], "no Harvest name"),
        ([x509.DNSName("www.example.org"), uri("https://example.org")], "no Harvest name"),
        ([uri("harvest:example:server:oss1"), uri("harvest:example:server:oss2")], "several Harvest names"),
        ([uri("harvest:example:server:oss1"), x509.DNSName("main.example.harvest")], "several Harvest names"),
        ([uri("harvest:example:ca")], "no agent's, relay's or aggregator's"),
        ([uri("harvest:example:aggregator:main")], "no agent's"),
        ([uri("harvest:example:server:oss1:x")], "no agent's"),
        ([uri("harvest:Example:server:oss1")], "cannot be a site's name"),
        ([uri("harvest:example:server:../x")], "cannot be a server's name"),
        ([x509.DNSName("harvest:example:server:oss1.harvest")], "no agent's"),
        ([x509.DNSName("harvest:example:server:oss1")], "no Harvest name"),
        ([x509.DNSName("a.b.c.harvest")], "no agent's"),
        ([uri("harvest:example:server:" + "\x1b[2J" * 99)], r"\\x1b\[2J.*…' cannot be"),
    ],
)
def test_other_names_are_refused_with_the_reason(names: list[x509.GeneralName], why: str) -> None:
    with pytest.raises(PkiError, match=why) as refused:
        identity_of(foreign(*names))
    assert str(refused.value).replace("…", "").isascii()
    assert len(str(refused.value)) < 400


def test_names_of_other_worlds_beside_ours_do_no_harm() -> None:
    ours = x509.DNSName("main.example.harvest")
    assert identity_of(foreign(x509.DNSName("harvest.example.org"), ours)).name == "main"


def test_a_ca_says_whose_it_is_even_if_the_name_is_too_long_for_its_subject() -> None:
    ca = authority("s" * 63)

    assert site_of_ca(ca.certificate) == "s" * 63
    assert ca.certificate.subject.rfc4514_string() == "CN=Harvest CA " + "s" * 53
    assert CA.certificate.subject.rfc4514_string() == "CN=Harvest CA example"


def test_another_ca_says_no_site() -> None:
    with pytest.raises(PkiError, match="does not say which site"):
        site_of_ca(foreign())
    with pytest.raises(PkiError, match="is no CA certificate"):
        Authority.of([foreign(uri("harvest:example:ca"))], KEY)


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(PkiError, match="no certificate"):
        load_certificate(data)


@pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive")  # the library's next release refuses
def test_damaged_certificates_give_an_answer_or_a_clear_error() -> None:
    good = certificate(CA).public_bytes(serialization.Encoding.DER)
    answers: set[Kind | None] = set()
    for place in range(len(good)):
        for bit in (0x01, 0x20, 0x80):
            damaged = bytearray(good)
            damaged[place] ^= bit
            try:
                answers.add(identity_of(load_certificate(bytes(damaged))).kind)
            except PkiError:
                answers.add(None)
    assert answers == {Kind.SERVER, None}


def test_serials_are_long_and_written_as_openssl_does() -> None:
    serials = {certificate(CA).serial_number for _ in range(100)}
    assert len(serials) == 100
    assert min(serials) > 2**64
    assert max(serials) < 2**159
    assert serial_text(0xABC) == "0abc"
    assert parse_serial("0A:bc") == parse_serial(" abc ") == 0xABC


@pytest.mark.parametrize("text", ["", "xyz", "1 2", "-1", "0x12", "1" * 41])
def test_what_is_no_serial_is_refused(text: str) -> None:
    with pytest.raises(PkiError, match="is no serial number"):
        parse_serial(text)


def test_a_fingerprint_is_the_sha256_of_the_whole_certificate() -> None:
    der = CA.certificate.public_bytes(serialization.Encoding.DER)
    assert fingerprint(CA.certificate) == hashlib.sha256(der).hexdigest()
