"""A look at the site's CA by a short-lived child: what it needs would stay in the agent's memory for ever.

The child gets on its standard input where to ask and where the files are, does what is due, and says JSON.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from harvest_agent.enrol.renewal import SETTLE, renewal_time
from harvest_agent.joining.client import Address, JoinError, RefusedError, renew, trusted_now
from harvest_agent.joining.folders import TlsLink
from harvest_pki import files
from harvest_pki.certificates import bundle_pem, load_bundle, load_certificate, serial_text
from harvest_pki.checks import issued_at
from harvest_pki.errors import PkiError
from harvest_pki.folders import Tls, read_tls
from harvest_pki.identities import identity_of
from harvest_pki.keys import load_key, new_key

LOOK: Final = timedelta(hours=1)
"""How often the CAs are looked at; more often where certificates live for hours only."""
_LOOKS: Final = 10
"""In one lifetime at least."""
_SETTLES: Final = 20
"""In one lifetime at least: a short one leaves little time for aggregators to learn of a new CA."""
Said = dict[str, Any]


def look(address: Address, link: TlsLink, *, now: datetime, chance: float) -> Said:
    """Follow the site's CAs and renew what is due; say what happened, and in how many seconds to look again."""
    link.check()
    tls = read_tls(link.path)
    own, trusted = load_certificate(tls.certificate), load_bundle(tls.ca)
    said: Said = {"events": []}
    try:
        fresh = trusted_now(address, identity_of(own).site, trusted)
        if fresh != trusted:
            link.write_ca(bundle_pem(fresh))
            said["events"].append({"event": "join.trusts", "cas": len(fresh)})
        if now >= _due(own, fresh, link, now):
            own = _renewed(address, link, tls, fresh)
            until, serial = own.not_valid_after_utc.isoformat(), serial_text(own.serial_number)
            said["events"].append({"event": "join.renewed", "until": until, "serial": serial})
        if not own.not_valid_before_utc <= now < own.not_valid_after_utc:
            valid = f"{own.not_valid_before_utc:%Y-%m-%d} to {own.not_valid_after_utc:%Y-%m-%d}"
            said["problem"] = (
                f"by the clock of this server the certificate, from {valid}, is not valid now: set the clock"
            )
        due = _due(own, fresh, link, now)
    except (JoinError, PkiError) as error:
        kind = "is refused" if isinstance(error, RefusedError) else "fails"
        said["problem"] = f"renewing the certificate {kind}: {error}. {_left(own, now)}"
        due = now
    said["wait_seconds"] = _wait(_every(own), due, now, chance).total_seconds()
    return said


def _renewed(address: Address, link: TlsLink, tls: Tls, trusted: Sequence[x509.Certificate]) -> x509.Certificate:
    key = new_key()
    try:
        draft = link.draft(key)
        certificate, answer = renew(address, tls.certificate, load_key(tls.key), key, trusted)
        link.take(draft, answer.certificate, answer.ca)
    finally:
        link.tidy()
    return certificate


def _due(own: x509.Certificate, trusted: Sequence[x509.Certificate], link: TlsLink, now: datetime) -> datetime:
    # the clock may have been ahead when they were written
    since = min(now, datetime.fromtimestamp(link.ca_since_seconds(), UTC)) if link.has_new_ca() else None
    return renewal_time(own, trusted, trusted_since=since, settle=min(SETTLE, _lifetime(own) / _SETTLES))


def _wait(every: timedelta, due: datetime, now: datetime, chance: float) -> timedelta:
    """Return how long to wait: until it is due if that is earlier; what is due and failed is not asked for at once."""
    usual = every * (0.5 + chance / 2)
    return min(usual, due - now) if due > now else usual


def _every(own: x509.Certificate) -> timedelta:
    return min(LOOK, _lifetime(own) / _LOOKS)


def _lifetime(own: x509.Certificate) -> timedelta:
    return own.not_valid_after_utc - issued_at(own)


def _left(own: x509.Certificate, now: datetime) -> str:
    end = own.not_valid_after_utc
    if now >= end:
        return f"It expired on {end:%Y-%m-%d %H:%M} UTC"
    days = (end - now).days
    return f"It is valid for {days} days more" if days else f"It ends at {end:%Y-%m-%d %H:%M} UTC"


def main() -> None:
    """Look once, for the agent that started us."""
    asked: Mapping[str, str] = json.load(sys.stdin)
    folder = Path(asked["folder"])
    try:
        with files.locked(folder.parent):
            now, chance = datetime.now(UTC), random.random()  # noqa: S311 - only spreads agents
            said = look(Address.parse(asked["address"]), TlsLink(folder), now=now, chance=chance)
    except (JoinError, PkiError) as error:
        said = {"events": [], "problem": f"the certificate cannot be renewed: {error}"}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
