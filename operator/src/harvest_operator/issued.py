"""Which certificates agents and relays of a site were given, so that one that was stolen can be denied.

They are noted in a Secret beside the site before anybody has them. It has no label of a child: a site is not looked at
anew for every certificate.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Protocol

from cryptography import x509

from harvest_operator.cluster import ConflictError
from harvest_operator.minting import content_of, replaced, secret
from harvest_operator.names import SECRET, Key, Object, Owner
from harvest_operator.plan import Verb, Write
from harvest_pki.certificates import serial_text
from harvest_pki.checks import RENEWAL_GRACE
from harvest_pki.identities import identity_of
from harvest_site.model import Site

ISSUED: Final = "issued"
BYTES_MAX: Final = 1_000_000
"""A Secret takes a MiB: of more certificates the first ones are forgotten."""
_ATTEMPTS: Final = 5
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class Kubernetes(Protocol):
    """What is asked of the cluster."""

    async def get(self, namespace: str, key: Key) -> Object | None:
        """Return one object."""

    async def write(self, write: Write) -> None:
        """Write one object."""


def place_of(owner: Owner, site: Site) -> dict[str, Any]:
    """Return the metadata of a site's Secret; it outlives the site where the CA does."""
    own = owner.metadata(owner.issued, kept=site.spec.ledger.reclaim == "Retain")
    return {name: value for name, value in own.items() if name != "labels"}


async def note(cluster: Kubernetes, place: dict[str, Any], certificate: x509.Certificate, now: datetime) -> None:
    """Note a certificate that is about to be given; others may do so at the same time."""
    for left in reversed(range(_ATTEMPTS)):
        found = await cluster.get(place["namespace"], (SECRET, place["name"]))
        try:
            await cluster.write(noted(found, place, certificate, now))
        except ConflictError:
            if not left:
                raise
        else:
            return


def noted(found: Object | None, place: dict[str, Any], certificate: x509.Certificate, now: datetime) -> Write:
    """Return how the Secret is to be written: with one line more, without those that are of no use to a thief."""
    there = {} if found is None else content_of(found)
    lines = [*_of_use(there.get(ISSUED, b""), now), line_of(certificate)]
    content = {**there, ISSUED: _end_of("".join(f"{line}\n" for line in lines).encode())}
    if found is None:
        return Write(Verb.CREATE, secret(place, content))
    return Write(Verb.REPLACE, replaced(found, content, place))


def line_of(certificate: x509.Certificate) -> str:
    """Return the line of a certificate: serial, end, and whose it is."""
    holder, until = identity_of(certificate), f"{certificate.not_valid_after_utc:{_TIME}}"
    return f"{serial_text(certificate.serial_number)} {until} {holder.kind} {holder.name}"


def _end_of(text: bytes) -> bytes:
    """Return as many of the last lines as there is room for."""
    return text if len(text) <= BYTES_MAX else text[text.index(b"\n", len(text) - BYTES_MAX - 1) + 1 :]


def _of_use(text: bytes, now: datetime) -> Iterator[str]:
    """Return the lines of certificates with which somebody may come, or renew; times of one form compare as text."""
    earliest = f"{now - RENEWAL_GRACE:{_TIME}}"
    for line in text.decode(errors="replace").splitlines():
        if line.split(" ")[1:2] > [earliest]:
            yield line
