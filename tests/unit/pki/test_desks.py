"""Who gets a certificate by joining and renewing, and who does not."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from harvest_pki import tokens
from harvest_pki.authorities import Authority, subject
from harvest_pki.certificates import belongs, bundle_pem, load_bundle, load_certificate
from harvest_pki.checks import RENEWAL_GRACE, issued_by
from harvest_pki.desks import Desk, Reply
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.joining import CA_PATH, JOIN_PATH, RENEW_PATH, Answer, Door, JoinRequest, RenewRequest, Uplink
from harvest_pki.keys import PrivateKey, PublicKey, new_key, new_secret, new_serial
from harvest_pki.rates import ALL_BURST, PEER_BURST, PEER_SECONDS, RENEWALS, RENEWALS_BURST, Failures
from harvest_pki.requests import new_request
from unit.pki.making import DAY, NOW, authority

KEY, OTHER = new_key(), new_key()
LIFETIME = 90 * DAY
UPLINK = Uplink(server_name="main.example.harvest", address="harvest:8023")


@dataclass
class Tokens:
    """Tokens in memory."""

    entries: dict[str, tokens.Entry] = field(default_factory=dict)

    def find(self, digest: str) -> tokens.Entry | None:
        return self.entries.get(digest)

    def use(self, entry: tokens.Entry, by: str) -> bool:
        self.entries[entry.digest] = entry.used(by)
        return True


@dataclass
class Scene:
    """A site with servers oss1 and oss2, and somebody who asks."""

    ca: Authority = field(default_factory=authority)
    now: datetime = NOW
    seconds: float = 0.0
    said: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    tokens: Tokens = field(default_factory=Tokens)
    trouble: str = ""
    name: str = "hpc/example"

    def __post_init__(self) -> None:
        self.desk = Desk(clock=lambda: self.now, monotonic=lambda: self.seconds, say=self._say)
        self.doors = Door(
            site="example",
            trusted=(self.ca.certificate,),
            servers=frozenset({"oss1", "oss2"}),
            denied_serials=frozenset(),
            lifetime=LIFETIME,
            uplinks={"": (UPLINK,), "oss2": ()},
        )

    def _say(self, event: str, **facts: object) -> None:
        self.said.append((event, facts))

    def door(self) -> Door:
        if self.trouble:
            raise PkiError(self.trouble)
        return self.doors

    def issue(self, identity: Identity, key: PublicKey, door: Door, now: datetime) -> x509.Certificate:
        return self.ca.issue(identity, key, serial=new_serial(), now=now, lifetime=door.lifetime)

    def token(self, server: str = "oss1") -> str:
        made = tokens.Token(site="example", server=server, secret=new_secret(), ca="ab" * 32)
        entry = tokens.Entry.of(made, now=self.now, lifetime=timedelta(hours=1))
        self.tokens.entries[entry.digest] = entry
        return made.secret

    def join(self, secret: str, request: bytes, peer: str = "10.0.0.1") -> Reply:
        return self.desk.post(self, JOIN_PATH, JoinRequest(secret=secret, request=request).body(), peer)

    def renew(self, old: bytes, key: PrivateKey, request: bytes, peer: str = "10.0.0.1") -> Reply:
        return self.desk.post(self, RENEW_PATH, RenewRequest.signed(old, key, request).body(), peer)

    def joined(self, server: str = "oss1") -> bytes:
        return Answer.parse(self.join(self.token(server), asking(server)).body).certificate


@pytest.fixture
def scene() -> Scene:
    return Scene()


def server(name: str, site: str = "example") -> Identity:
    return Identity(site=site, kind=Kind.SERVER, name=name)


def asking(name: str = "oss1", key: PrivateKey = KEY) -> bytes:
    return new_request(server(name), key)


def asking_more(name: str, *names: x509.GeneralName) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject(name))
    extension = x509.SubjectAlternativeName([server(name).alternative_name, *names])
    signed = builder.add_extension(extension, critical=False).sign(KEY, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def reason(reply: Reply) -> str:
    return str(json.loads(reply.body)["error"])


def test_a_server_with_a_token_gets_a_certificate_for_its_name_and_key_and_no_more(scene: Scene) -> None:
    reply = scene.join(scene.token(), asking())
    assert reply.status is HTTPStatus.OK
    answer = Answer.parse(reply.body)
    certificate = load_certificate(answer.certificate)
    assert identity_of(certificate) == server("oss1")
    assert belongs(KEY, certificate)
    assert issued_by(certificate, scene.ca.certificate)
    assert certificate.not_valid_after_utc == NOW + LIFETIME
    assert load_bundle(answer.ca) == (scene.ca.certificate,)
    assert answer.uplinks == (UPLINK,)
    assert [event for event, _ in scene.said] == ["a server joined"]
    assert Answer.parse(scene.join(scene.token("oss2"), asking("oss2")).body).uplinks == ()


def test_a_token_is_good_once(scene: Scene) -> None:
    secret = scene.token()
    assert scene.join(secret, asking()).status is HTTPStatus.OK
    again = scene.join(secret, asking(key=OTHER))
    assert (again.status, "used already" in reason(again)) == (HTTPStatus.FORBIDDEN, True)
    assert scene.join(secret, asking()).status is HTTPStatus.OK  # the first answer may have been lost


def test_a_token_that_somebody_uses_at_the_same_moment_is_good_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.tokens, "use", lambda _entry, _by: False)
    assert scene.join(scene.token(), asking()).status is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    ("request_pem", "why"),
    [
        (asking("oss2"), "is for server oss1, not for oss2"),
        (asking("oss9"), "oss9 is not listed"),
        (asking_more("oss1", server("oss2").alternative_name), "asks for more than its name"),
        (asking_more("oss1", x509.DNSName("main.example.harvest")), "asks for more than its name"),
        (asking_more("oss1", x509.DNSName("www.example.org")), "asks for more than its name"),
        (new_request(server("oss1", "other"), KEY), "asks for more than its name"),
        (new_request(Identity(site="example", kind=Kind.RELAY, name="oss1"), KEY), "is no server: only servers join"),
        (new_request(server("oss1"), ec.generate_private_key(ec.SECP521R1())), "the key is refused"),
        (b"nothing", "cannot be read"),
    ],
)
def test_whoever_asks_for_something_else_gets_nothing_and_the_token_stays_good(
    scene: Scene, request_pem: bytes, why: str
) -> None:
    secret = scene.token()
    reply = scene.join(secret, request_pem)
    assert reply.status in {HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST}
    assert why in reason(reply)
    assert [(event, why in facts["reason"]) for event, facts in scene.said] == [("joining was refused", True)]
    assert scene.join(secret, asking()).status is HTTPStatus.OK


def test_a_token_that_is_wrong_or_expired_is_refused(scene: Scene) -> None:
    assert "not known" in reason(scene.join(new_secret(), asking()))
    secret = scene.token()
    scene.now += timedelta(hours=1)
    assert "expired" in reason(scene.join(secret, asking()))


def test_a_certificate_is_renewed_with_its_key_for_another(scene: Scene) -> None:
    old = scene.joined()
    scene.now += 60 * DAY
    reply = scene.renew(old, KEY, asking(key=OTHER))
    certificate = load_certificate(Answer.parse(reply.body).certificate)
    assert belongs(OTHER, certificate)
    assert certificate.not_valid_after_utc == scene.now + LIFETIME
    event, facts = scene.said[-1]
    assert (event, facts["server"], facts["was"] != facts["serial"]) == ("a certificate was renewed", "oss1", True)


def test_who_renews_again_and_again_must_wait_and_others_need_not(scene: Scene) -> None:
    """Else a thief could have more certificates than a site can deny."""
    old, other = scene.joined(), scene.joined("oss2")
    statuses = [scene.renew(old, KEY, asking()).status for _ in range(RENEWALS_BURST + 5)]
    assert statuses == [HTTPStatus.OK] * RENEWALS_BURST + [HTTPStatus.TOO_MANY_REQUESTS] * 5
    assert scene.renew(other, KEY, asking("oss2")).status is HTTPStatus.OK
    waiting = scene.renew(old, KEY, asking())
    assert waiting.retry_seconds == pytest.approx(LIFETIME.total_seconds() / RENEWALS)
    assert "is its clock right?" in reason(waiting)


def test_an_rsa_key_renews_too(scene: Scene) -> None:
    key = rsa.generate_private_key(65537, 2048)
    old = Answer.parse(scene.join(scene.token(), asking(key=key)).body).certificate
    assert scene.renew(old, key, asking()).status is HTTPStatus.OK
    assert scene.renew(old, rsa.generate_private_key(65537, 2048), asking()).status is HTTPStatus.FORBIDDEN


def test_a_certificate_is_renewed_some_days_after_its_end_and_not_later(scene: Scene) -> None:
    old = scene.joined()
    scene.now = NOW + LIFETIME + RENEWAL_GRACE - timedelta(seconds=1)
    assert scene.renew(old, KEY, asking()).status is HTTPStatus.OK
    scene.now += timedelta(seconds=1)
    assert "expired" in reason(scene.renew(old, KEY, asking()))


def test_a_stolen_certificate_without_its_key_renews_nothing(scene: Scene) -> None:
    reply = scene.renew(scene.joined(), OTHER, asking(key=OTHER))
    assert (reply.status, "not signed with the key" in reason(reply)) == (HTTPStatus.FORBIDDEN, True)


def test_a_signature_is_good_for_one_request_only(scene: Scene) -> None:
    old = scene.joined()
    signed = RenewRequest.signed(old, KEY, asking())
    other = replace(signed, request=asking(key=OTHER)).body()
    assert scene.desk.post(scene, RENEW_PATH, other, "10.0.0.1").status is HTTPStatus.FORBIDDEN


def test_nobody_renews_in_anothers_name(scene: Scene) -> None:
    assert "the certificate is not" in reason(scene.renew(scene.joined(), KEY, asking("oss2")))


def test_who_was_taken_out_or_denied_renews_no_more(scene: Scene) -> None:
    old = scene.joined()
    scene.doors = replace(scene.doors, denied_serials={load_certificate(old).serial_number})
    assert "denied by `denySerials`" in reason(scene.renew(old, KEY, asking()))
    scene.doors = replace(scene.doors, denied_serials=(), servers=frozenset({"oss2"}))
    assert "not listed" in reason(scene.renew(old, KEY, asking()))
    assert "not listed" in reason(scene.join(scene.token(), asking()))


def test_a_rotation_is_survived_while_the_old_ca_is_trusted(scene: Scene) -> None:
    old, first, new = scene.joined(), scene.ca, authority()
    scene.ca = new
    scene.doors = replace(scene.doors, trusted=(new.certificate, first.certificate))
    answer = Answer.parse(scene.renew(old, KEY, asking()).body)
    assert issued_by(load_certificate(answer.certificate), new.certificate)
    assert load_bundle(answer.ca) == (new.certificate, first.certificate)
    scene.doors = replace(scene.doors, trusted=(new.certificate,))
    assert "not from a CA" in reason(scene.renew(old, KEY, asking()))


def test_the_cas_are_no_secret(scene: Scene) -> None:
    reply = scene.desk.get(scene, CA_PATH)
    assert (reply.status, reply.body) == (HTTPStatus.OK, bundle_pem([scene.ca.certificate]))
    assert scene.desk.get(scene, "/").status is HTTPStatus.NOT_FOUND
    assert scene.desk.post(scene, "/", b"", "10.0.0.1").status is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 60000,
        b'{"secret": 1, "request": "x"}',
        b'{"certificate": "x", "request": "x"}',
        b"\xff",
    ],
)
@pytest.mark.parametrize("path", [JOIN_PATH, RENEW_PATH])
def test_nonsense_is_refused(scene: Scene, path: str, body: bytes) -> None:
    assert scene.desk.post(scene, path, body, "10.0.0.1").status is HTTPStatus.BAD_REQUEST


def test_trouble_of_ours_is_told_to_us_and_counts_against_nobody(scene: Scene) -> None:
    scene.trouble = "the disk is full"
    replies = [scene.join(scene.token(), asking()) for _ in range(PEER_BURST + 1)]
    assert {reply.status for reply in replies} == {HTTPStatus.SERVICE_UNAVAILABLE}
    assert "disk" not in reason(replies[0])
    assert scene.said == [
        ("joining is in trouble", {"site": "hpc/example", "path": JOIN_PATH, "reason": "the disk is full"})
    ]
    assert scene.desk.get(scene, CA_PATH).status is HTTPStatus.SERVICE_UNAVAILABLE


def test_trouble_of_ours_is_told_once_until_it_is_mended_however_often_somebody_asks(scene: Scene) -> None:
    def told(trouble: str) -> int:
        before, scene.trouble = len(scene.said), trouble
        for _ in range(1000):
            scene.desk.get(scene, CA_PATH)
        scene.join(secret, asking())
        return len([event for event, _ in scene.said[before:] if event == "joining is in trouble"])

    secret = scene.token()
    assert [told(trouble) for trouble in ("one", "one", "two", "", "two")] == [2, 0, 2, 0, 2]  # of both paths


def test_that_another_site_is_well_does_not_have_it_told_again(scene: Scene) -> None:
    other = Scene(name="hpc/other")
    scene.trouble = "its CA is gone"
    for _ in range(3):
        scene.desk.get(scene, CA_PATH)
        assert scene.desk.get(other, CA_PATH).status is HTTPStatus.OK
    assert len(scene.said) == 1


def guess(scene: Scene, count: int, peer: Callable[[int], str]) -> list[HTTPStatus]:
    return [scene.join(new_secret(), asking(), peer(number)).status for number in range(count)]


def test_whoever_guesses_is_not_listened_to_for_a_while_and_others_are(scene: Scene) -> None:
    statuses = guess(scene, 1000, lambda _: "10.6.6.6")
    assert statuses.count(HTTPStatus.FORBIDDEN) == PEER_BURST
    assert statuses.count(HTTPStatus.TOO_MANY_REQUESTS) == 1000 - PEER_BURST
    assert [event for event, _ in scene.said].count("joining is limited") == 1
    assert len(scene.said) == PEER_BURST + 1
    reply = scene.join(scene.token(), asking(), "10.6.6.6")  # even a good token, or it would tell which are
    assert (reply.status, reply.retry_seconds) == (HTTPStatus.TOO_MANY_REQUESTS, PEER_SECONDS)
    old = scene.joined()
    assert scene.renew(old, KEY, asking(), "10.6.6.6").status is HTTPStatus.OK
    scene.seconds += PEER_SECONDS
    assert scene.join(scene.token(), asking(), "10.6.6.6").status is HTTPStatus.OK


def test_many_who_guess_together_are_stopped_too(scene: Scene) -> None:
    statuses = guess(scene, 2 * ALL_BURST, lambda number: f"10.6.{number % 256}.{number // 256}")
    assert statuses.count(HTTPStatus.FORBIDDEN) == ALL_BURST


def test_failures_of_very_many_peers_cost_bounded_memory() -> None:
    failures = Failures()
    for number in range(10_000):
        failures.failed(str(number), now=float(number))
    assert len(failures._peers) == 4096  # noqa: SLF001 - nobody else can tell
    assert failures.wait_seconds("1", now=10_000.0) == 0.0
