"""What somebody may try who wants to be a server of the site, or wants nobody to be one."""

import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import pytest
from cryptography import x509

from harvest_agent.joining import client
from harvest_agent.joining.client import Address, AwayError, RefusedError, join, renew, trusted_now
from harvest_pki import serving as pki_serving
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, fingerprint
from harvest_pki.desks import Desk
from harvest_pki.folders import CaFolder, read_tls
from harvest_pki.identities import joining_name
from harvest_pki.joining import CA_PATH, JOIN_PATH, JoinRequest
from harvest_pki.joining_folders import FolderSite, tokens_of
from harvest_pki.keys import key_pem, load_key, new_key, new_secret, new_serial
from harvest_pki.rates import PEER_BURST
from harvest_pki.serving import JoiningServer, server_context
from harvest_pki.tokens import TOKEN_LIFETIME, Entry, Token
from support.joining import SITE, server, serving, started, written
from support.processes import running, wait_for
from unit.pki.test_desks import Scene, asking, asking_more
from unit.pki.test_desks import server as server_identity


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class Open:
    """A port in this process, and what was said there."""

    server: JoiningServer
    said: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.server.port)


@contextmanager
def opened(site: FolderSite) -> Iterator[Open]:
    """Let servers join at a port of this process."""
    said: list[tuple[str, dict[str, object]]] = []

    def say(event: str, **facts: object) -> None:
        said.append((event, facts))

    desk = Desk(clock=now, monotonic=time.monotonic, say=say)
    here = Open(JoiningServer(socket.create_server(("127.0.0.1", 0)), site, desk, say), said)
    thread = threading.Thread(target=here.server.serve)
    thread.start()
    try:
        yield here
    finally:
        here.server.stop()
        thread.join(60)


def new_site(folder: Path) -> FolderSite:
    """Make a site called example with servers oss1 and oss2."""
    scene = Scene()
    ca = CaFolder(folder / "ca")
    ca.create(Authority.create("example", key=new_key(), serial=new_serial(), now=now()))
    return FolderSite(ca, lambda site, trusted: replace(scene.doors, site=site, trusted=trusted), clock=now)


def token_of(folder: Path, name: str = "oss1") -> Token:
    ca = CaFolder(folder / "ca")
    token = Token(site="example", server=name, secret=new_secret(), ca=fingerprint(ca.load().certificate))
    tokens_of(ca).add([Entry.of(token, now=now(), lifetime=TOKEN_LIFETIME)], now=now())
    return token


def test_a_ca_that_is_swapped_in_transit_never_sees_the_token(tmp_path: Path) -> None:
    true, rogue = tmp_path / "true", tmp_path / "rogue"
    new_site(true)
    with opened(new_site(rogue)) as here:
        with pytest.raises(RefusedError, match="another CA than the one that the token names"):
            join(here.address, token_of(true), new_key())
        assert here.said == []


def test_somebody_in_between_who_shows_the_true_ca_never_sees_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CA's certificate is no secret, so whoever is in between has it; its key he has not."""
    true, rogue = tmp_path / "true", tmp_path / "rogue"
    site, token = new_site(true), None
    site.prepare()
    token = token_of(true)
    key = new_key()
    forger = Authority.create("example", key=new_key(), serial=new_serial(), now=now())
    made = forger.issue_for_joining(key.public_key(), serial=new_serial(), now=now())
    monkeypatch.setattr(site, "context", lambda _name: server_context(bundle_pem([made]), key_pem(key)))
    with opened(site) as here:
        with pytest.raises(AwayError, match="is not vouched for by the site's CA"):
            join(here.address, token, new_key())
        tls = rogue / "agent"
        CaFolder(true / "ca").write_agent(tls, "oss1", now=now())
        own = read_tls(tls)
        with pytest.raises(AwayError, match="is not vouched for"):
            renew(here.address, own.certificate, load_key(own.key), new_key(), CaFolder(true / "ca").bundle())
        assert here.said == []


def test_a_certificate_of_the_same_ca_that_was_made_for_something_else_is_no_ca_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even an aggregator, whose machine somebody may have broken into, can take tokens."""
    site, token = new_site(tmp_path), token_of(tmp_path)
    CaFolder(tmp_path / "ca").write_server(tmp_path / "tls", "main", now=now())
    tls = read_tls(tmp_path / "tls")
    monkeypatch.setattr(site, "context", lambda _name: server_context(tls.certificate, tls.key))
    with opened(site) as here:
        with pytest.raises(AwayError, match="is not vouched for"):
            join(here.address, token, new_key())
        assert here.said == []


def test_a_stolen_certificate_is_of_no_use_without_its_key_nor_once_it_is_denied(tmp_path: Path) -> None:
    site = new_site(tmp_path)
    with opened(site) as here:
        key = new_key()
        certificate, answer = join(here.address, token_of(tmp_path), key)
        trusted = CaFolder(tmp_path / "ca").bundle()
        with pytest.raises(RefusedError, match="is not signed with the key"):
            renew(here.address, answer.certificate, new_key(), new_key(), trusted)
        _, again = renew(here.address, answer.certificate, key, key, trusted)
        denied = Scene().doors
        site._read_door = lambda _site, cas: replace(  # noqa: SLF001 - as if the site's file had been changed
            denied, trusted=cas, denied_serials={certificate.serial_number}
        )
        with pytest.raises(RefusedError, match="is denied by `denySerials`"):
            renew(here.address, answer.certificate, key, key, trusted)
        renew(here.address, again.certificate, key, key, trusted)  # each serial is denied by itself


def test_who_asks_for_another_name_or_for_more_than_his_own_gets_no_certificate_and_spoils_no_token(
    tmp_path: Path,
) -> None:
    """With a good token, over the wire: nothing is issued, as the index says, and the token's server joins with it."""
    site, token = new_site(tmp_path), token_of(tmp_path)
    ca = CaFolder(tmp_path / "ca")
    with opened(site) as here:
        for request in (
            asking("oss2"),
            asking_more("oss1", server_identity("oss2").alternative_name),
            asking_more("oss1", x509.DNSName("main.example.harvest")),
            asking_more("oss1", x509.IPAddress(ipaddress.ip_address("127.0.0.1"))),
        ):
            body = JoinRequest(secret=token.secret, request=request).body()
            head = f"POST {JOIN_PATH} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            with raw(here.address, token) as connection:
                connection.sendall(head + body)
                assert int(connection.recv(64).split()[1]) in {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN}
        assert [event for event, _ in here.said] == ["joining was refused"] * 4
        assert ca.issued() == ()
        made, _ = join(here.address, token, KEY)
        assert [one.serial for one in ca.issued()] == [made.serial_number]
        assert [str(name.value) for name in alternative_names(made)] == ["harvest:example:server:oss1"]


def alternative_names(certificate: x509.Certificate) -> list[x509.UniformResourceIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)


def test_clients_that_know_an_earlier_ca_are_still_answered(tmp_path: Path) -> None:
    site, ca = new_site(tmp_path), CaFolder(tmp_path / "ca")
    with opened(site) as here:
        old = ca.bundle()
        assert trusted_now(here.address, "example", old) == old
        ca.rotate(Authority.create("example", key=new_key(), serial=new_serial(), now=now()), now=now())
        both = trusted_now(here.address, "example", old)
        assert both == ca.bundle()
        assert len(both) == 2
        join(here.address, token_of(tmp_path), new_key())
        assert trusted_now(here.address, "example", both) == both
        stranger = Authority.create("example", key=new_key(), serial=new_serial(), now=now())
        with pytest.raises(AwayError, match="is not vouched for"):
            trusted_now(here.address, "example", [stranger.certificate])


def test_whoever_is_slow_silent_or_sends_too_much_keeps_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pki_serving, "LIMIT_SECONDS", 5.0)
    monkeypatch.setattr(client, "_LIMIT_SECONDS", 60.0)
    site, token = new_site(tmp_path), token_of(tmp_path)
    site.prepare()
    with opened(site) as here:
        slow = raw(here.address, token)
        slow.sendall(b"POST /v1/join HTTP/1.1\r\nX: ")
        silent = [socket.create_connection(("127.0.0.1", here.address.port)) for _ in range(200)]

        def drip() -> bool:
            try:
                slow.sendall(b"x")
                slow.settimeout(0.05)
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_for(drip, "the slow one to be cut off")

        def joins() -> bool:
            try:
                join(here.address, token, KEY)
            except AwayError:
                return False
            return True

        wait_for(joins, "a server that is heard beside those who are silent")
        for sent, status in (
            (b"POST /v1/join HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
            (b"POST /v1/join HTTP/1.1\r\n\r\n", 411),
            (b"GET /v1/join HTTP/1.1\r\n\r\n", 404),
            (b"DELETE / HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
            (b"\x00" * 10_000 + b"\r\n\r\n", 400),
        ):
            with raw(here.address, token) as connection:
                connection.sendall(sent)
                assert int(connection.recv(64).split()[1]) == status
        for one in [*silent, slow]:
            one.close()


KEY = new_key()


def raw(address: Address, token: Token) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((address.host, address.port), timeout=60)
    return context.wrap_socket(plain, server_hostname=joining_name(token.site, token.ca))


def test_a_thousand_bad_joins_leave_a_live_stream_alone(tmp_path: Path) -> None:
    """And so do a thousand who only ask for the CA: that is answered to everybody, as often as he asks."""
    body = JoinRequest(secret="x" * 32, request=asking()).body()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    seen = threading.Event()

    def asked(port: int, method: str, path: str, sent: bytes | None) -> tuple[str, int]:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        try:
            connection.request(method, path, sent)
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == HTTPStatus.OK or json.loads(said)["error"]
            return path, answer.status
        finally:
            connection.close()

    def flood(port: int) -> Counter[tuple[str, int]]:
        """Ask 250 times, and on until what the job wrote meanwhile was seen."""
        answers: Counter[tuple[str, int]] = Counter()
        while answers.total() < 2 * 250 or not seen.is_set():
            answers[asked(port, "POST", JOIN_PATH, body)] += 1
            answers[asked(port, "GET", CA_PATH, None)] += 1
        return answers

    with running(tmp_path, site=SITE) as site, serving(site) as joining, started(tmp_path, joining) as here:
        wait_for(lambda: server(site, "oss1")["connected"], "the server to be connected")
        cost = -site.cpu_seconds()
        with ThreadPoolExecutor(4) as pool:
            floods = [pool.submit(flood, joining.port) for _ in range(4)]
            try:
                here.show(a=9)
                wait_for(lambda: written(site) == 9, "what the job writes while others flood the port")
            finally:
                seen.set()
        cost += site.cpu_seconds()
        answers = sum((one.result() for one in floods), Counter[tuple[str, int]]())
        refused, limited = answers[JOIN_PATH, HTTPStatus.FORBIDDEN], answers[JOIN_PATH, HTTPStatus.TOO_MANY_REQUESTS]
        assert refused + limited == answers[CA_PATH, HTTPStatus.OK] == answers.total() // 2 >= 1000
        assert refused == len(joining.events("joining was refused")) >= PEER_BURST
        assert len(joining.events("joining is limited")) < 200
        assert here.said().count("uplink.connected") == 1
        assert "uplink.trouble" not in here.said()
        (token,) = joining.tokens("oss2")
        assert joining.process.poll() is None
        print(f"{refused} bad joins refused, {limited} not listened to, {cost:.2f} s of the aggregator's time")
        wait_for(lambda: joined_after(joining.port, token), "another server to be heard afterwards")


def joined_after(port: int, token: str) -> bool:
    try:
        join(Address("127.0.0.1", port), Token.parse(token), KEY)
    except AwayError:
        return False
    return True
