from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from harvest_pki.authorities import Authority
from harvest_pki.certificates import serial_text
from harvest_pki.checks import RENEWAL_GRACE, days_left, renewal_due, why_refused
from harvest_pki.identities import Kind
from unit.pki.making import DAY, KEY, NOW, authority, certificate

CA = authority()
LISTED = {Kind.SERVER: {"oss1", "mds1"}, Kind.RELAY: {"xe"}}
OSS1 = certificate(CA)
END = NOW + 90 * DAY


def reason(
    one: x509.Certificate,
    *,
    issuers: tuple[Authority, ...] = (CA,),
    denied: tuple[int, ...] = (),
    after: timedelta = DAY,
    grace: timedelta = 0 * DAY,
) -> str | None:
    return why_refused(
        one,
        site="example",
        issuers=[issuer.certificate for issuer in issuers],
        listed=LISTED,
        denied_serials=denied,
        now=NOW + after,
        grace=grace,
    )


def test_a_listed_server_may_come_in() -> None:
    assert reason(OSS1) is None
    assert reason(certificate(CA, "xe", kind=Kind.RELAY)) is None


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("oss9", Kind.SERVER, "server oss9 is not listed in site example: add it to the `servers` of a file system"),
        ("xe", Kind.SERVER, "server xe is not listed"),
        ("oss1", Kind.RELAY, "relay oss1 is not listed in site example: add it to `accepts`"),
        ("main", Kind.AGGREGATOR, "aggregator main is not listed in site example: agents and relays need certificates"),
    ],
)
def test_who_is_not_listed_is_told_where_to_list_it(name: str, kind: Kind, why: str) -> None:
    assert (reason(certificate(CA, name, kind=kind)) or "").startswith(why)


def test_another_sites_server_is_told_so() -> None:
    other = authority("other")
    why = "server oss1 belongs to site other; this is site example"
    assert reason(certificate(other), issuers=(CA, other)) == why


def test_a_ca_that_is_trusted_for_relays_cannot_speak_for_the_site() -> None:
    """TLS trusts the CAs of accepted relays too; their certificates may carry any name."""
    impostor = authority("example")
    why = "the certificate of server oss1 is not from a CA of site example that is in use"
    assert reason(certificate(impostor)) == why


def test_a_ca_that_ended_or_was_dropped_opens_nothing() -> None:
    short = authority(lifetime=DAY)
    one = certificate(short)
    assert reason(one, issuers=(short, CA), after=DAY / 2) is None
    assert "is not from a CA of site example" in (reason(one, issuers=(short, CA), after=DAY) or "")
    assert "is not from a CA of site example" in (reason(one, issuers=(CA,), after=DAY / 2) or "")


def test_both_authorities_of_a_rotation_are_taken() -> None:
    new = authority()
    assert reason(certificate(new), issuers=(new, CA)) is None
    assert reason(OSS1, issuers=(new, CA)) is None


def test_an_expired_certificate_is_refused_from_its_end_on() -> None:
    assert reason(OSS1, after=90 * DAY - timedelta(seconds=1)) is None
    why = "the certificate of server oss1 expired on 2026-05-30 12:00 UTC: issue a new one"
    assert reason(OSS1, after=90 * DAY) == why


def test_an_expired_certificate_may_be_renewed_for_some_days() -> None:
    assert reason(OSS1, after=90 * DAY + RENEWAL_GRACE - timedelta(seconds=1), grace=RENEWAL_GRACE) is None
    assert "expired on 2026-05-30" in (reason(OSS1, after=90 * DAY + RENEWAL_GRACE, grace=RENEWAL_GRACE) or "")
    unlisted = certificate(CA, "oss9")
    assert "is not listed" in (reason(unlisted, after=91 * DAY, grace=RENEWAL_GRACE) or "")


def test_a_certificate_of_the_future_asks_for_the_clock() -> None:
    why = (
        "the certificate of server oss1 is valid from 2026-02-28 12:00 UTC on, "
        "and here it is 2026-02-27 12:00 UTC: is a clock wrong?"
    )
    assert reason(OSS1, after=-2 * DAY) == why


def test_one_certificate_can_be_denied_by_its_serial() -> None:
    again = certificate(CA)
    why = f"the certificate of server oss1 with serial {serial_text(OSS1.serial_number)} is denied by `denySerials`"
    assert reason(OSS1, denied=(OSS1.serial_number,)) == why
    assert reason(again, denied=(OSS1.serial_number,)) is None


def test_a_certificate_without_a_name_is_refused_with_the_reason() -> None:
    name = x509.Name([])
    nameless = x509.CertificateBuilder(name, name, KEY.public_key(), 1, NOW, END).sign(KEY, hashes.SHA256())
    assert (reason(nameless) or "").startswith("the certificate has no Harvest name")


def test_the_ca_itself_may_not_come_in() -> None:
    assert "is no agent's" in (reason(CA.certificate) or "")


def test_days_left_are_whole_days() -> None:
    assert days_left(END, NOW) == 90
    assert days_left(END, NOW + timedelta(seconds=1)) == 89
    assert days_left(END, END) == 0
    assert days_left(END, END + timedelta(seconds=1)) == -1


def test_renewal_is_due_after_two_thirds_and_spread_over_a_tenth() -> None:
    assert renewal_due(OSS1, jitter=0) == NOW + 60 * DAY
    assert renewal_due(OSS1, jitter=0.5) == NOW + 64.5 * DAY
    assert renewal_due(OSS1, jitter=1) == NOW + 69 * DAY


def test_short_lifetimes_are_counted_from_their_making() -> None:
    short = certificate(CA, lifetime=timedelta(minutes=3))
    assert renewal_due(short, jitter=0) == NOW + timedelta(minutes=2)


def test_a_foreign_certificate_of_hours_is_not_renewed_after_its_end() -> None:
    name = x509.Name([])
    end = NOW + timedelta(hours=3)
    foreign = x509.CertificateBuilder(name, name, KEY.public_key(), 1, NOW, end).sign(KEY, hashes.SHA256())
    assert renewal_due(foreign, jitter=0) == NOW + timedelta(hours=2)
