import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from harvest_pki.authorities import CA_LIFETIME, LIFETIMES, Authority, rotated
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind, hosts_of, identity_of
from harvest_pki.keys import key_pem, load_key, new_key, new_serial, public_key_of_request
from unit.pki.making import DAY, KEY, NOW, authority, certificate

CA = authority()
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
OSS1 = Identity(site="example", kind=Kind.SERVER, name="oss1")
AnyKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | dsa.DSAPrivateKey


def request(key: AnyKey, *, name: str = "oss1", extra: tuple[x509.GeneralName, ...] = ()) -> bytes:
    """Make a certificate request as a stranger could."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if extra:
        builder = builder.add_extension(x509.SubjectAlternativeName(extra), critical=True)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    hashed = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, hashed).public_bytes(serialization.Encoding.DER)


def test_a_ca_may_sign_certificates_but_make_no_other_ca() -> None:
    constraints = CA.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = CA.certificate.extensions.get_extension_for_class(x509.KeyUsage)

    assert (constraints.critical, constraints.value) == (True, x509.BasicConstraints(ca=True, path_length=0))
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)
    CA.certificate.verify_directly_issued_by(CA.certificate)


def test_a_ca_lives_ten_years_and_is_backdated_a_day() -> None:
    ca = Authority.create("example", key=KEY, serial=new_serial(), now=NOW).certificate
    assert CA_LIFETIME == 3650 * DAY
    assert (ca.not_valid_before_utc, ca.not_valid_after_utc) == (NOW - DAY, NOW + 3650 * DAY)


@pytest.mark.parametrize(
    ("kind", "days", "purposes"),
    [(Kind.SERVER, 90, [CLIENT]), (Kind.RELAY, 90, [CLIENT]), (Kind.AGGREGATOR, 365, [SERVER, CLIENT])],
)
def test_what_a_certificate_is_good_for_and_how_long(
    kind: Kind, days: int, purposes: list[x509.ObjectIdentifier]
) -> None:
    issued = certificate(CA, "main", kind=kind)

    assert LIFETIMES[kind] == days * DAY
    assert (issued.not_valid_before_utc, issued.not_valid_after_utc) == (NOW - DAY, NOW + days * DAY)
    assert list(issued.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == purposes
    assert not issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not issued.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    issued.verify_directly_issued_by(CA.certificate)


def test_equal_arguments_give_equal_certificates_but_for_the_signature() -> None:
    one, two = (CA.issue(OSS1, KEY.public_key(), serial=7, now=NOW) for _ in range(2))
    assert one.tbs_certificate_bytes == two.tbs_certificate_bytes


def test_no_certificate_outlives_its_ca() -> None:
    ca = authority(lifetime=30 * DAY)
    assert certificate(ca).not_valid_after_utc == NOW + 30 * DAY
    with pytest.raises(PkiError, match=r"expired on 2026-03-31: make a new one with `ca rotate`"):
        certificate(ca, now=NOW + 30 * DAY)


def test_a_lifetime_of_nothing_is_refused() -> None:
    with pytest.raises(PkiError, match="a second at least"):
        certificate(CA, lifetime=0 * DAY)


def test_a_ca_speaks_for_its_own_site_only() -> None:
    other = Identity(site="other", kind=Kind.SERVER, name="oss1")
    with pytest.raises(PkiError, match="site example cannot speak for site other"):
        CA.issue(other, KEY.public_key(), serial=1, now=NOW)


def test_a_name_that_is_too_long_for_a_subject_gets_a_certificate() -> None:
    name = ".".join(["x" * 62] * 4)
    assert identity_of(certificate(CA, name)).name == name


def test_a_key_finds_its_ca_in_a_bundle() -> None:
    new = authority()
    bundle = rotated([CA.certificate], new, now=NOW)

    assert bundle == (new.certificate, CA.certificate)
    assert Authority.of(bundle, CA.key) == CA
    assert Authority.of(bundle, new.key) == new
    with pytest.raises(PkiError, match="no CA certificate belongs to the CA's key"):
        Authority.of(bundle, KEY)


def test_rotating_drops_what_is_over_and_repeats_nothing() -> None:
    short, new = authority(lifetime=DAY), authority()
    assert rotated([CA.certificate, short.certificate], new, now=NOW + DAY) == (new.certificate, CA.certificate)
    assert rotated([CA.certificate], CA, now=NOW) == (CA.certificate,)


def test_a_site_may_bring_a_ca_of_its_own() -> None:
    """RSA, and without an identifier of its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Institute")])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, NOW, NOW + 100 * DAY)
    own = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    ca = Authority(site="example", certificate=own.sign(key, hashes.SHA256()), key=key)

    certificate(ca).verify_directly_issued_by(ca.certificate)


def test_only_the_public_key_of_a_request_is_used() -> None:
    key = new_key()
    extra = (x509.UniformResourceIdentifier("harvest:example:server:mds1"), x509.DNSName("main.example.harvest"))

    issued = CA.issue(OSS1, public_key_of_request(request(key, name="root", extra=extra)), serial=1, now=NOW)

    assert issued.public_key() == key.public_key()
    assert identity_of(issued) == OSS1
    assert issued.subject.rfc4514_string() == "CN=oss1"
    assert not issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_requests_may_be_pem() -> None:
    pem = x509.load_der_x509_csr(request(KEY)).public_bytes(serialization.Encoding.PEM)
    assert public_key_of_request(pem) == KEY.public_key()


@pytest.mark.parametrize(
    "key",
    [ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(public_exponent=65537, key_size=2048)],
    ids=["P-384", "RSA 2048"],
)
def test_other_strong_keys_are_taken(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    assert public_key_of_request(request(key)) == key.public_key()


WEAK: list[tuple[AnyKey, str]] = [
    (ec.generate_private_key(ec.SECP224R1()), "ECDSA on secp224r1"),
    (ec.generate_private_key(ec.SECP256K1()), "ECDSA on secp256k1"),
    (rsa.generate_private_key(public_exponent=65537, key_size=1024), "RSA with 1024 bits"),  # noqa: S505  that is the point
    (rsa.generate_private_key(public_exponent=3, key_size=2048), "RSA with 2048 bits, exponent 3"),
    (ed25519.Ed25519PrivateKey.generate(), "neither ECDSA nor RSA"),
]


@pytest.mark.parametrize(("key", "what"), WEAK, ids=[what for _, what in WEAK])
def test_weak_and_unusual_keys_are_refused(key: AnyKey, what: str) -> None:
    with pytest.raises(PkiError, match=rf"{what}.* Use ECDSA on P-256"):
        public_key_of_request(request(key))


def test_no_weak_key_gets_a_certificate_by_another_way() -> None:
    weak = ec.generate_private_key(ec.SECP224R1())
    with pytest.raises(PkiError, match="ECDSA on secp224r1"):
        CA.issue(OSS1, weak.public_key(), serial=1, now=NOW)
    with pytest.raises(PkiError, match="ECDSA on secp224r1"):
        Authority.create("example", key=weak, serial=1, now=NOW)


def test_a_request_for_somebody_elses_key_is_refused() -> None:
    mine, other = request(KEY), new_key().public_key()
    encoding, form = serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    swapped = mine.replace(KEY.public_key().public_bytes(encoding, form), other.public_bytes(encoding, form))
    assert swapped != mine
    with pytest.raises(PkiError, match="not signed with its own key"):
        public_key_of_request(swapped)


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN CERTIFICATE REQUEST-----\n", b"\0" * 20000])
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(PkiError, match="the certificate request"):
        public_key_of_request(data)


def test_damaged_requests_give_no_key() -> None:
    good = request(KEY)
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= 0x21
        with pytest.raises(PkiError):
            public_key_of_request(bytes(damaged))


def test_keys_are_read_as_written() -> None:
    assert load_key(key_pem(KEY)).public_key() == KEY.public_key()


def test_what_is_no_key_is_refused_without_a_word_of_it() -> None:
    secret = key_pem(KEY)[:-60]
    with pytest.raises(PkiError, match="no private key") as refused:
        load_key(secret)
    assert refused.value.__cause__ is None
    locked = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    with pytest.raises(PkiError, match="has a password"):
        load_key(locked)
    odd = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(PkiError, match="must be ECDSA or RSA"):
        load_key(odd)


def test_hosts_stand_beside_the_name_and_change_nothing_about_who_it_is() -> None:
    main = Identity(site="example", kind=Kind.AGGREGATOR, name="main")
    hosts = ["harvest.example", "192.0.2.7", "2001:db8::7"]
    issued = CA.issue(main, KEY.public_key(), serial=new_serial(), now=NOW, hosts=hosts)
    assert identity_of(issued) == main
    assert hosts_of(issued) == set(hosts)
    assert hosts_of(certificate(CA, "main", kind=Kind.AGGREGATOR)) == set()


@pytest.mark.parametrize("host", ["other.example.harvest", "Main.Example.HARVEST", "two words", ""])
def test_a_host_that_looks_like_one_of_our_names_is_refused(host: str) -> None:
    with pytest.raises(PkiError, match="cannot stand in a certificate"):
        CA.issue(OSS1, KEY.public_key(), serial=new_serial(), now=NOW, hosts=[host])
