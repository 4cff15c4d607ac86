"""What relays told, durable before anybody sees it. Used by one thread."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from harvest.v1.stream_pb2 import RelayHead, RelayResponse
from harvest_aggregator import sqlite
from harvest_aggregator.accounts import ClientRead
from harvest_aggregator.clients import Clients, ClientTables
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.published import RelayStatus
from harvest_aggregator.relays import incoming
from harvest_aggregator.relays.earlier import Held, Reach, less_forgotten, moved, of_read, of_strangers, plus, reach_of
from harvest_aggregator.relays.outgoing import totals_of
from harvest_aggregator.relays.pictures import Picture
from harvest_site.model import Site

_SILENT_PERIODS: Final = 3
_NOTHING_KEPT: Final = incoming.Kept({}, 0)

_log = structlog.get_logger()


class Relayed:
    """The nodes that other sites' aggregators tell of."""

    def __init__(self, site: Site, ledger: Ledger, clients: Clients, own: Callable[[str], ClientTables]) -> None:
        """``own`` returns what agents of this site itself told of a file system's nodes, while it was the site's."""
        self._site = site
        self._own = own
        self._ledger = ledger
        self._clients = clients
        self._kept: dict[str, incoming.Kept] = {}
        """By file system; the ledger may have an earlier tick, with the same totals."""
        self._statuses: dict[str, RelayStatus] = {}
        self._first_reads: dict[str, list[tuple[int, Held]]] = {}
        """Of targets since a relay told of the file system: what nodes had done by then, until a sweep has shown it.
        By file system, each with the tick of that sweep."""

    def load(self) -> None:
        """Bring back the totals; rates are of a tick, and come with the next picture."""
        try:
            self._kept = {filesystem: incoming.load(payload) for filesystem, payload in self._ledger.relayed()}
        except (ValueError, TypeError) as error:
            raise LedgerError(sqlite.damaged(self._ledger.path, f"what relays told: {error}")) from error
        own = [one.name for one in self._site.spec.filesystems]
        for name in self._kept.keys() & own:
            kept = self._kept[name]
            is_of_old = not kept.reach.accepted and not kept.is_local  # nobody wrote down then that agents read it
            if is_of_old and self._own(name).tick_seconds > kept.tick_seconds:
                self._keep(name, kept._replace(is_local=True))

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
        kept = incoming.Kept(
            after.held,
            before.tick_seconds if is_overtaken else head.tick_seconds,
            before.reach if is_overtaken else self._reach(relay, head),
            self._earlier(before, after.held, picture),
        )
        if kept._replace(tick_seconds=before.tick_seconds) != before:
            self._ledger.write_relayed(head.filesystem, incoming.dump(kept))
        self._kept[head.filesystem] = kept
        if incoming.is_present(head, now_seconds):
            tables = incoming.tables(picture, after.totals, kept)
            self._clients.take_relayed(head.filesystem, tables, head.period_seconds)
        if not is_overtaken:  # of an earlier tick nobody would expect more
            is_ahead = head.tick_seconds > now_seconds and not incoming.is_present(head, now_seconds)
            self._note(relay, picture, after.lower, is_ahead=is_ahead)

    def _reach(self, relay: str, head: RelayHead) -> Reach:
        accept = incoming.accepting(head.filesystem, relay, self._site)
        return reach_of(head, () if accept is None else accept.lnets)

    def _earlier(self, before: incoming.Kept, held: Held, picture: Picture) -> Held:
        """Return what no counter shows of totals from now on."""
        name = picture.head.filesystem
        if name in self._kept and not before.is_local:
            found = {**before.earlier, **of_strangers(before.held, before.reach, picture)}
            return less_forgotten(found, before.held, held)
        own = totals_of(self._own(name))
        earlier = plus(before.earlier, (had for _, had in self._first_reads.pop(name, [])))
        if not own and not earlier:
            return {}  # nothing was shown of it here: counters begin where its totals are
        _log.info("counters of nodes go on from what agents of this site had told of them", filesystem=name)
        return moved(own, earlier, held)

    def note_read(self, read: ClientRead) -> None:
        """Note what nodes did on a target since before a relay told of them last; it is in a later sweep."""
        name = read.place.filesystem
        if name in self._kept and read.before_tick < self._kept[name].tick_seconds:
            had = of_read(read.place.kind, read.work)
            self._first_reads.setdefault(name, []).append((read.shown_tick, had))

    def lessened(self, filesystem: str, told: ClientTables) -> ClientTables:
        """Return what agents of this site told of nodes, to go on from what a relay told before, if one did."""
        kept = self._kept.get(filesystem)
        if kept is None:
            return told
        waiting = self._first_reads.get(filesystem, [])
        if not kept.is_local:
            kept = kept._replace(
                tick_seconds=min(kept.tick_seconds, told.tick_seconds),  # by a clock that was ahead all was before it
                earlier=moved(kept.held, kept.earlier, totals_of(told)),
                is_local=True,
            )
            _log.info("counters of nodes go on from what a relay had told of them", filesystem=filesystem)
        elif shown := [had for tick_seconds, had in waiting if tick_seconds <= told.tick_seconds]:
            kept = kept._replace(earlier=plus(kept.earlier, shown))
        if kept is not self._kept[filesystem]:
            self._keep(filesystem, kept)
        self._first_reads[filesystem] = [one for one in waiting if one[0] > told.tick_seconds]
        return told._replace(earlier={nid.encode(): numbers for nid, numbers in kept.earlier.items()})

    def _keep(self, filesystem: str, kept: incoming.Kept) -> None:
        self._ledger.write_relayed(filesystem, incoming.dump(kept))
        self._kept[filesystem] = kept

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
