"""What relays told, durable before anybody sees it. Used by one thread."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from harvest.v1.stream_pb2 import RelayResponse
from harvest_aggregator import sqlite
from harvest_aggregator.clients import Clients
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.published import RelayStatus
from harvest_aggregator.relays import incoming
from harvest_aggregator.relays.pictures import Picture
from harvest_site.model import Site

_SILENT_PERIODS: Final = 3

_log = structlog.get_logger()


class Relayed:
    """The nodes that other sites' aggregators tell of."""

    def __init__(self, site: Site, ledger: Ledger, clients: Clients) -> None:
        self._site = site
        self._ledger = ledger
        self._clients = clients
        self._held: dict[str, incoming.Held] = {}
        self._statuses: dict[str, RelayStatus] = {}

    def load(self) -> None:
        """Bring back the totals; rates are of a tick, and come with the next picture."""
        try:
            self._held = {filesystem: incoming.load(payload) for filesystem, payload in self._ledger.relayed()}
        except (ValueError, TypeError) as error:
            raise LedgerError(sqlite.damaged(self._ledger.path, f"what relays told: {error}")) from error

    def change_site(self, site: Site) -> None:
        """Go on with another site."""
        self._site = site

    @property
    def accepted(self) -> dict[str, str]:
        """The file systems that are taken in, each with its relay."""
        return {name: one.name for one in self._site.spec.accepts for name in one.filesystems}

    def statuses(self) -> tuple[RelayStatus, ...]:
        """Return what was told last of each file system."""
        accepted = self.accepted
        return tuple(one for name, one in sorted(self._statuses.items()) if accepted.get(name) == one.relay)

    def take(self, relay: str, picture: Picture, now_seconds: float) -> RelayResponse:
        """Take in what the site lets a relay tell; return what was taken, and why the rest was not."""
        verdict = incoming.judged(picture, relay, self._site)
        if verdict.taken is not None:
            self._take(relay, verdict.taken, now_seconds)
        return RelayResponse(nodes=len(verdict.taken.nids) if verdict.taken else 0, refusals=verdict.refusals)

    def _take(self, relay: str, picture: Picture, now_seconds: float) -> None:
        head = picture.head
        before = self._held.get(head.filesystem, {})
        after = incoming.merged(before, picture)
        if after.held != before:
            self._ledger.write_relayed(head.filesystem, incoming.dump(after.held))
            self._held[head.filesystem] = after.held
        status = self._statuses.get(head.filesystem)
        if after.lower and not (status and status.lower_nodes):
            _log.warning(
                "totals of a relay are lower than before, and held until they are passed: was its ledger restored?",
                relay=relay,
                filesystem=head.filesystem,
                nodes=after.lower,
            )
        if incoming.is_present(head, now_seconds):
            tables = incoming.tables(picture, after.totals)
            self._clients.take_relayed(head.filesystem, tables, head.period_seconds)
        self._statuses[head.filesystem] = RelayStatus(
            relay=relay,
            filesystem=head.filesystem,
            tick_seconds=head.tick_seconds,
            period_seconds=head.period_seconds,
            complete=head.complete,
            nodes=len(picture.nids),
            lower_nodes=after.lower,
        )


def relay_troubles(site: Site, told: Sequence[RelayStatus], now_seconds: float) -> Iterator[tuple[str, str]]:
    """Return what somebody should know of the relays that a site takes in: names, and what is wrong.

    In words that stay the same while nothing changes: they stand in a site's status.
    """
    found = {(one.relay, one.filesystem): one for one in told}
    for accept in site.spec.accepts:
        for name in accept.filesystems:
            one = found.get((accept.name, name))
            if one is None:
                yield accept.name, f"nothing was told of {name} yet"
            elif now_seconds - one.tick_seconds > _SILENT_PERIODS * one.period_seconds:
                last = datetime.fromtimestamp(one.tick_seconds, UTC)
                yield accept.name, f"nothing was told of {name} since {last:%Y-%m-%d %H:%M:%S} UTC"
            elif one.lower_nodes:
                lower = f"{one.lower_nodes} nodes of {name} have lower totals than before"
                yield accept.name, f"{lower}, which are held until they are passed: was its ledger restored?"
