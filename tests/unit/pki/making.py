"""Authorities, certificates and handshakes, made in a line; the commands as a program mounts them."""

import argparse
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from harvest_pki.authorities import Authority
from harvest_pki.commands import add_commands
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import new_key, new_serial

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
KEY = new_key()
"""A key for certificates that nobody uses: making one takes time."""


def authority(site: str = "example", *, now: datetime = NOW, lifetime: timedelta = 3650 * DAY) -> Authority:
    return Authority.create(site, key=new_key(), serial=new_serial(), now=now, lifetime=lifetime)


def certificate(
    ca: Authority,
    name: str = "oss1",
    *,
    kind: Kind = Kind.SERVER,
    now: datetime = NOW,
    lifetime: timedelta | None = None,
) -> x509.Certificate:
    holder = Identity(site=ca.site, kind=kind, name=name)
    return ca.issue(holder, KEY.public_key(), serial=new_serial(), now=now, lifetime=lifetime)


def shake_hands(server: Path, agent: Path, *, host: str) -> tuple[bytes, bytes]:
    """Let two ends with tls.crt, tls.key and ca.crt meet in memory; return what each sees as the other's certificate.

    Raises ssl.SSLError where either refuses the other.
    """
    ends = (_end(server, ssl.PROTOCOL_TLS_SERVER), _end(agent, ssl.PROTOCOL_TLS_CLIENT))
    to_server, to_agent = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = ends[0].wrap_bio(to_server, to_agent, server_side=True)
    at_agent = ends[1].wrap_bio(to_agent, to_server, server_hostname=host)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for end in (at_agent, at_server):
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    at_server.write(b"x")  # TLS 1.3: a client learns here whether it was refused
    assert at_agent.read(1) == b"x"
    seen = (at_server.getpeercert(binary_form=True), at_agent.getpeercert(binary_form=True))
    assert seen[0] is not None
    assert seen[1] is not None
    return seen[0], seen[1]


def parser(clock: Callable[[], datetime] = lambda: NOW) -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="harvest-aggregator")
    add_commands(whole.add_subparsers(required=True), clock=clock)
    return whole


def _end(folder: Path, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.load_verify_locations(folder / "ca.crt")
    return context
