"""How often somebody may fail. Pure: the clock is an argument."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

PEER_BURST: Final = 10
PEER_SECONDS: Final = 6.0
"""After so long a peer may fail once more."""
RENEWALS_BURST: Final = 10
RENEWALS: Final = 20
"""Of one server in one lifetime, after the first ones: a thief must not make more serials than can be denied."""
ALL_BURST: Final = 200
ALL_SECONDS: Final = 0.2
_PEERS_MAX: Final = 4096


@dataclass(slots=True)
class _Bucket:
    """Failures that are left, refilled with time."""

    left: float
    at: float

    def refill(self, now: float, *, burst: int, seconds: float) -> None:
        self.left = min(float(burst), self.left + max(now - self.at, 0.0) / seconds)
        self.at = now


class Renewals:
    """Counts what was renewed, per server."""

    def __init__(self) -> None:
        self._servers: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, server: str, now: float, *, lifetime_seconds: float) -> float:
        """Return for how long a server must wait; 0 if it may renew."""
        bucket = self._servers.get(server)
        if bucket is None:
            return 0.0
        seconds = lifetime_seconds / RENEWALS
        bucket.refill(now, burst=RENEWALS_BURST, seconds=seconds)
        return max(0.0, (1 - bucket.left) * seconds)

    def renewed(self, server: str, now: float) -> None:
        """Note that a server has another certificate."""
        self._servers.setdefault(server, _Bucket(float(RENEWALS_BURST), now)).left -= 1
        self._servers.move_to_end(server)
        while len(self._servers) > _PEERS_MAX:
            self._servers.popitem(last=False)


class Failures:
    """Counts what failed, per peer and over all; whoever failed too often is not listened to for a while."""

    def __init__(self) -> None:
        self._all = _Bucket(float(ALL_BURST), 0.0)
        self._peers: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, peer: str, now: float) -> float:
        """Return for how long a peer must wait; 0 if it is listened to."""
        self._all.refill(now, burst=ALL_BURST, seconds=ALL_SECONDS)
        waits = [(1 - self._all.left) * ALL_SECONDS]
        bucket = self._peers.get(peer)
        if bucket is not None:
            bucket.refill(now, burst=PEER_BURST, seconds=PEER_SECONDS)
            waits.append((1 - bucket.left) * PEER_SECONDS)
        return max(0.0, *waits)

    def failed(self, peer: str, now: float) -> None:
        """Note that a peer failed; of very many peers the one that failed longest ago is forgotten."""
        self.wait_seconds(peer, now)
        bucket = self._peers.setdefault(peer, _Bucket(float(PEER_BURST), now))
        self._peers.move_to_end(peer)
        while len(self._peers) > _PEERS_MAX:
            self._peers.popitem(last=False)
        bucket.left -= 1
        self._all.left -= 1
