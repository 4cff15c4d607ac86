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
_NOTHING_KEPT: Final = incoming.Kept({}, 0)

_log = structlog.get_logger()


class Relayed:
    """The nodes that other sites' aggregators tell of."""

    def __init__(self, site: Site, ledger: Ledger, clients: Clients) -> None:
        self._site = site
        self._ledger = ledger
        self._clients = clients
        self._kept: dict[str, incoming.Kept] = {}
        """By file system; the ledger may have an earlier tick, with the same totals."""
        self._statuses: dict[str, RelayStatus] = {}

    def load(self) -> None:
        """Bring back the totals; rates are of a tick, and come with the next picture."""
        try:
            self._kept = {filesystem: incoming.load(payload) for filesystem, payload in self._ledger.relayed()}
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
        before = self._kept.get(head.filesystem, _NOTHING_KEPT)
        after = incoming.merged(before.held, picture)
        is_overtaken = incoming.is_overtaken(head, before.tick_seconds, now_seconds)
        kept = incoming.Kept(after.held, before.tick_seconds if is_overtaken else head.tick_seconds)
        if after.held != before.held:
            self._ledger.write_relayed(head.filesystem, incoming.dump(kept))
        self._kept[head.filesystem] = kept
        if incoming.is_present(head, now_seconds):
            tables = incoming.tables(picture, after.totals)
            self._clients.take_relayed(head.filesystem, tables, head.period_seconds)
        if not is_overtaken:  # of an earlier tick nobody would expect more
            is_ahead = head.tick_seconds > now_seconds and not incoming.is_present(head, now_seconds)
            self._note(relay, picture, after.lower, is_ahead=is_ahead)

    def _note(self, relay: str, picture: Picture, lower_nodes: int, *, is_ahead: bool) -> None:
        head = picture.head
        status = self._statuses.get(head.filesystem)
        if lower_nodes and not (status and status.lower_nodes):
            _log.warning(
                "totals of a relay are lower than before, and held until they are passed: was its ledger restored?",
                relay=relay,
                filesystem=head.filesystem,
                nodes=lower_nodes,
            )
        self._statuses[head.filesystem] = RelayStatus(
            relay=relay,
            filesystem=head.filesystem,
            tick_seconds=head.tick_seconds,
            period_seconds=head.period_seconds,
            complete=head.complete,
            nodes=len(picture.nids),
            lower_nodes=lower_nodes,
            is_ahead=is_ahead,
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
            elif one.is_ahead:
                ahead = f"what is told of {name} is of a time to come, so that no rates are shown"
                yield accept.name, f"{ahead}: is the clock of its aggregator ahead, or this one's behind?"
            elif one.lower_nodes:
                lower = f"{one.lower_nodes} nodes of {name} have lower totals than before"
                yield accept.name, f"{lower}, which are held until they are passed: was its ledger restored?"
