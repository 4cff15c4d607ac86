"""Clients of a simulated site in virtual time: agents' own collectors, the real accounting, what sinks would get."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from harvest.v1.stream_pb2 import StreamRequest
from harvest_agent.clocks import ServerClocks
from harvest_agent.collecting import Collector
from harvest_agent.tree import Tree
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.clients import Clients
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.hosts import Hosts
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.published import Published
from harvest_aggregator.resolver import Resolver
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_sim.disk import DiskFace
from harvest_sim.lives import Subject
from harvest_sim.ops import Kind
from harvest_sim.site import Site
from harvest_site.model import Site as Described
from unit.agent.spooling import Bench

EPOCH_SECONDS = 1_760_000_000
PERIOD = 20
STEPS = 20
NSECS = 10**9

Done = dict[str, tuple[int, int, int, int]]
"""By NID: bytes read and written, operations on OSTs and on MDTs."""


class VirtualClients:
    """One file system ``fs``, each target on a server of its own."""

    def __init__(self, folder: Path, described: Described, versions: dict[str, str]) -> None:
        self.site = Site(Random(1), epoch_seconds=EPOCH_SECONDS)
        for target, version in versions.items():
            self.site.add_server(_server(target), version)
            self.site.add_target(target, [_server(target)])
        self._now = 0.0
        self.face = DiskFace(self.site, folder / "lustre", Random(2))
        self.face.publish()
        self.ledger = Ledger(folder / "ledger.db")
        self.ledger.open()
        self.accounts = Accounts(self.ledger, described)
        self.accounts.load(EPOCH_SECONDS)
        self._clients = Clients()
        self._hosts = Hosts(described, Resolver())
        self._agents = {_server(target): self._agent(folder, _server(target)) for target in versions}

    def _agent(self, folder: Path, server: str) -> tuple[Collector, Bench, dict[bytes, int]]:
        root = str(folder / "lustre" / server)
        bench = Bench(folder / "spools" / server, max_bytes=1 << 26)
        clocks = ServerClocks(root, wall=self._wall, since_boot=lambda: round(self._now * NSECS))
        collector = Collector(
            Tree(root), (), name=server, spool=bench.spool, clocks=clocks, wall=self._wall, elapsed=lambda: self._now
        )
        collector.want_clients({"fs": PERIOD})
        return collector, bench, {}

    def _wall(self) -> int:
        return round((EPOCH_SECONDS + self._now) * NSECS)

    def pass_by(self, *, silent: str = "") -> Published:
        """Let a period pass in which all but a silent agent read clients; return what is published at its end."""
        self.face.publish()
        for _ in range(STEPS):
            self._now += PERIOD / STEPS
            self.site.advance(PERIOD / STEPS)
            for server, (collector, *_) in self._agents.items():
                if server != silent:
                    collector.read_clients()
        self.face.poll()
        self.face.publish()  # the server's clocks
        tick = EPOCH_SECONDS + round(self._now)
        deliveries = [one for name in self._agents if name != silent for one in self._swept(name, tick)]
        self.accounts.accept(deliveries, tick + 1.0)
        (closed,) = self.accounts.close(tick + 1.0, frozenset())
        self._clients.take(closed, self.accounts.connections)
        told = self._clients.told(self._hosts.host)
        return Published(tick_seconds=tick, closed=closed, clients=told.clients, nodes=told.nodes)

    def _swept(self, server: str, tick: int) -> Iterator[Delivery]:
        collector, bench, sent = self._agents[server]
        collector.sweep(tick, PERIOD)
        while (sweep := bench.shelf.sweep_after(sent)) is not None:
            sent[sweep.incarnation] = sweep.seq
            batches = [StreamRequest.FromString(record.payload).batch for record in sweep.records()]
            raw = tuple((batch.SerializeToString(), batch) for batch in batches)
            yield Delivery(agent=server, incarnation=sweep.incarnation, seq=sweep.seq, batches=raw)

    def shown(self) -> Done:
        """Return what was ever shown of each client."""
        return shown(self.site)

    def in_doubt(self) -> dict[str, int]:
        """Return of each target how often nobody could know whether a client's counters began again."""
        return {one.target: one.clients.ambiguous_resets for one in self.accounts.statuses(EPOCH_SECONDS)}

    def close(self) -> None:
        """Stop watching."""
        self.face.close()
        self.ledger.close()


def _server(target: str) -> str:
    return "s" + target[-7:].lower()


def shown(site: Site) -> Done:
    """Return what was ever shown of each client of a site with one file system."""
    done: Done = {}
    for row in site.truth.rows(Subject.EXPORT):
        counter = (row.op.name, row.op.unit)
        old = list(done.get(row.life.key.decode(), (0, 0, 0, 0)))
        if counts_read_bytes(counter):
            old[0] += row.shown_sum
        elif counts_written_bytes(counter):
            old[1] += row.shown_sum
        elif counts_operations(counter) and row.op.name != "ping":
            old[2 if row.life.scope.kind is Kind.OST else 3] += row.shown_samples
        done[row.life.key.decode()] = (old[0], old[1], old[2], old[3])
    return done
