"""What every client node does, by NID: the rates of its last tick."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
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


class _Known(NamedTuple):
    """The clients of one file system."""

    tick_seconds: int
    rates: Mapping[bytes, Rates]
    live: AbstractSet[bytes]


class Clients:
    """The clients of all file systems. Each has a period of its own: what was said last holds until the next time."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._told: Told | None = None

    def take(self, sweep: ClosedSweep, connections: Connections) -> None:
        """Take in what a closed sweep says of clients."""
        names = {filesystem for filesystem, _ in sweep.clients}
        for name in names:
            live, servers = connections(name)
            rates = _rates(sweep.clients.get((name, OST)), sweep.clients.get((name, MDT)))
            clients = {nid: rate for nid, rate in rates.items() if nid not in servers}
            self._known[name] = _Known(sweep.tick_seconds, clients, live)
            self._told = None

    def forget(self, now_seconds: float, periods: Mapping[str, int]) -> None:
        """Drop file systems whose clients nobody wants any more, or of which nothing was heard for long."""
        for name, known in list(self._known.items()):
            if name not in periods or now_seconds - known.tick_seconds > _PERIODS * periods[name]:
                del self._known[name]
                self._told = None

    def told(self, host_of: Callable[[str], Host | None]) -> Told:
        """Return every client; names are looked up once for every news."""
        if self._told is None:
            self._told = self._named(host_of)
        return self._told

    def renamed(self) -> None:
        """Look all names up again: the site was changed."""
        self._told = None

    def _named(self, host_of: Callable[[str], Host | None]) -> Told:
        if not self._known:
            return Told()
        found: dict[str, dict[str, Rates]] = {}
        live: set[str] = set()
        for filesystem, known in sorted(self._known.items()):
            live.update(map(_text, known.live))
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
        tick_seconds = max(known.tick_seconds for known in self._known.values())
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
