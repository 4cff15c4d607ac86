"""What every client node does, by NID: the rates of its last tick."""

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.grouping import grouped
from harvest_aggregator.hosts import Host
from harvest_aggregator.nodes import Nodes, Rates
from harvest_core.accounting.sweeps import ClosedSweep, ClosedTable
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_core.facts import MDT, OST

Connections = Callable[[str], tuple[AbstractSet[bytes], AbstractSet[bytes]]]
"""Returns, of a file system, the NIDs that are connected now, and those that are servers."""

_PERIODS = 3
"""After so many without news rates are none any more."""
_READ, _WRITE, _OSS, _MDS = range(len(Rates._fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One NID, on every file system where it was ever seen."""

    nid: str
    host: str | None
    """By the site's rules; nothing while nobody knows."""
    cluster: str | None
    is_live: bool
    filesystems: Mapping[str, Rates]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """All clients as they were told last, by NID and by host."""

    clients: tuple[Client, ...] = ()
    nodes: Nodes | None = None


class ClientTables(NamedTuple):
    """What the clients of one file system did in all, when they were told last."""

    tables: Mapping[str, ClosedTable]
    """By kind of target; those who are servers are in there, too."""
    servers: AbstractSet[bytes]
    tick_seconds: int
    live: AbstractSet[bytes]
    earlier: Mapping[bytes, tuple[int, ...]] = MappingProxyType({})
    """What no counter shows of their totals: as much is to be taken off; bytes read and written and operations on OSTs,
    then the same on MDTs. Some are in no table, and less than nothing of theirs is earlier: they did it elsewhere."""


Lessened = Callable[[str, ClientTables], ClientTables]
"""Returns the same of a file system, with what is earlier."""


class _Known(NamedTuple):
    """The clients of one file system."""

    rates: Mapping[bytes, Rates]
    tables: ClientTables
    period_seconds: int | None
    """How often they are told, where the site does not say."""


class Clients:
    """The clients of all file systems. Each has a period of its own: what was said last holds until the next time."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._told: Told | None = None

    def take(self, sweep: ClosedSweep, connections: Connections, lessened: Lessened = lambda _, told: told) -> None:
        """Take in what a closed sweep says of clients."""
        names = {filesystem for filesystem, _ in sweep.clients}
        for name in names:
            live, servers = connections(name)
            tables = {kind: table for (filesystem, kind), table in sweep.clients.items() if filesystem == name}
            self._take(name, lessened(name, ClientTables(tables, servers, sweep.tick_seconds, live)), None)

    def take_relayed(self, filesystem: str, told: ClientTables, period_seconds: int) -> None:
        """Take in what a relay says of a file system's clients, which it tells once in a period."""
        known = self._known.get(filesystem)
        if known is None or known.tables.tick_seconds <= told.tick_seconds:  # calls may overtake each other
            self._take(filesystem, told, period_seconds)

    def _take(self, filesystem: str, told: ClientTables, period_seconds: int | None) -> None:
        rates = _rates(told.tables.get(OST), told.tables.get(MDT))
        clients = {nid: rate for nid, rate in rates.items() if nid not in told.servers}
        self._known[filesystem] = _Known(clients, told, period_seconds)
        self._told = None

    def forget(self, now_seconds: float, periods: Mapping[str, int], accepted: Container[str] = ()) -> None:
        """Drop file systems whose clients nobody wants any more, or of which nothing was heard for long.

        ``periods`` are those of the site's own file systems, ``accepted`` those that relays tell.
        """
        for name, known in list(self._known.items()):
            period = known.period_seconds if name in accepted else periods.get(name)
            if period is None or now_seconds - known.tables.tick_seconds > _PERIODS * period:
                del self._known[name]
                self._told = None

    def told(self, host_of: Callable[[str], Host | None]) -> Told:
        """Return every client; names are looked up once for every news."""
        if self._told is None:
            self._told = self._named(host_of)
        return self._told

    def tables(self) -> dict[str, ClientTables]:
        """Return what clients did in all, by file system."""
        return {name: known.tables for name, known in self._known.items()}

    def renamed(self) -> None:
        """Look all names up again: the site was changed."""
        self._told = None

    def _named(self, host_of: Callable[[str], Host | None]) -> Told:
        if not self._known:
            return Told()
        found: dict[str, dict[str, Rates]] = {}
        live: set[str] = set()
        for filesystem, known in sorted(self._known.items()):
            live.update(map(_text, known.tables.live))
            for nid, rates in known.rates.items():
                found.setdefault(_text(nid), {})[filesystem] = rates
        hosts = {nid: host_of(nid) for nid in found}
        clients = tuple(
            Client(
                nid=nid,
                host=host and host.name,
                cluster=host and host.cluster,
                is_live=nid in live,
                filesystems=found[nid],
            )
            for nid, host in sorted(hosts.items())
        )
        counted = {client.nid: (client.is_live, client.filesystems) for client in clients}
        tick_seconds = max(known.tables.tick_seconds for known in self._known.values())
        return Told(clients=clients, nodes=Nodes(tick_seconds=tick_seconds, nodes=grouped(counted, hosts.get).nodes))


def _text(nid: bytes) -> str:
    return nid.decode("utf-8", "replace")


def _rates(osts: ClosedTable | None, mdts: ClosedTable | None) -> dict[bytes, Rates]:
    """Return what each client does on OSTs and MDTs together; nothing where nothing of a kind can be."""
    tables = [(table, ops) for table, ops in ((osts, _OSS), (mdts, _MDS)) if table is not None]
    place = {nid: at for at, nid in enumerate(dict.fromkeys(nid for table, _ in tables for nid in table.jobs))}
    values = np.zeros((len(place), len(Rates._fields)))
    known = np.zeros(values.shape, np.bool_)
    for table, ops in tables:
        rows = np.fromiter((place[nid] for nid in table.jobs), np.int64, len(table.jobs))
        for kind, counts, numbers in (
            (_READ, counts_read_bytes, table.sum_rates),
            (_WRITE, counts_written_bytes, table.sum_rates),
            (ops, counts_operations, table.sample_rates),
        ):
            columns = [at for at, counter in enumerate(table.counters) if counts(counter)]
            values[rows, kind] += _added(numbers, columns)
            # who moved data did no operations, which is known; who did neither was never there
            lines = columns if kind in {_READ, _WRITE} else slice(None)
            known[rows, kind] |= table.samples[:, lines].any(axis=1)
    return {
        nid: Rates(*(value if is_known else None for value, is_known in zip(numbers, flags, strict=True)))
        for nid, numbers, flags in zip(place, values.tolist(), known.tolist(), strict=True)
    }


def _added(numbers: NDArray[np.float64], columns: list[int]) -> NDArray[np.float64]:
    added: NDArray[np.float64] = numbers[:, columns].sum(axis=1)
    return added
