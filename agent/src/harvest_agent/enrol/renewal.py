"""When a certificate is to be renewed. Pure: the clock is an argument."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from harvest_pki.checks import issued_by, renewal_due

SETTLE: Final = timedelta(minutes=5)
"""For a new CA to become known to all aggregators: Kubernetes takes a minute or two to bring them its Secrets."""
_SHARES: Final = 1000


def renewal_time(
    certificate: x509.Certificate,
    trusted: Sequence[x509.Certificate],
    *,
    trusted_since: datetime | None,
    settle: timedelta = SETTLE,
) -> datetime:
    """Return when to ask for the next certificate: after two thirds of the lifetime, or once another CA has taken over.

    The first CA of ``trusted`` is the one that issues; ``trusted_since`` is nothing where a certificate was asked for
    under these CAs already: asking again would bring nothing else. Serial numbers are random, and so spread the agents.
    """
    jitter = certificate.serial_number % _SHARES / _SHARES
    planned = renewal_due(certificate, jitter=jitter)
    if trusted_since is None or issued_by(certificate, trusted[0]):
        return planned
    if not any(issued_by(certificate, one) for one in trusted):
        return min(planned, trusted_since)  # nobody takes it any more
    return min(planned, trusted_since + settle * (1 + jitter))
