"""What a tree of relays is made of: the product's own sender, receiver and ledgers, and links that fail."""

import tempfile
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import grpc
from typing_extensions import override

from campaign.plan import EPOCH, PERIOD
from campaign.relay_plan import HEADS
from harvest.v1.stream_pb2 import RelayRequest, RelayResponse
from harvest_aggregator import backups
from harvest_aggregator.clients import Clients, ClientTables
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.nodes import Rates
from harvest_aggregator.published import Published
from harvest_aggregator.relays.earlier import Held
from harvest_aggregator.relays.incoming import load
from harvest_aggregator.relays.outgoing import Needed
from harvest_aggregator.relays.pictures import Picture, parts, put_together
from harvest_aggregator.relays.taking import Relayed
from harvest_aggregator.sinks.backlog import Backlog
from harvest_aggregator.sinks.relay import Receiver, Relay, RelayPlan, relay_plans
from harvest_pki.folders import Tls
from harvest_site import loading
from harvest_site.model import Site
from support.uplinks import ca

FILESYSTEM = "fs"
SENDER = "alkindi"
NEVER_OWN = ClientTables({}, frozenset(), 0, frozenset())
"""What a head's own agents told: it has none."""
_TRIES_SECONDS = PERIOD - 1
"""For so long of each tick it is tried to call."""
_SENDER = """
interval: {period}s
filesystems: [{{name: fs, servers: [s0, s1], clients: {{interval: {interval}s}}}}]
clusters: [{clusters}]
relays: [{relays}]
"""
_HEAD = """
interval: {period}s
clusters: [{{name: {name}, lnets: [{lnet}]}}]
accepts: [{{name: alkindi, filesystems: [fs], lnets: [{lnet}]}}]
"""


def sender_site(interval_seconds: int) -> Site:
    """Return the site that has the file system."""
    clusters = (f"{{name: {name}, lnets: [{lnet}], filesystems: [fs]}}" for name, lnet in HEADS.items())
    relays = (
        f'{{cluster: {name}, filesystems: [fs], endpoint: "{name}:8023", tlsSecretRef: {{name: relay}}}}'
        for name in HEADS
    )
    return loading.load(
        _SENDER.format(period=PERIOD, interval=interval_seconds, clusters=", ".join(clusters), relays=", ".join(relays))
    )


def write_certificate(folder: Path) -> None:
    """Write the files without which no relay calls anybody."""
    now = datetime.fromtimestamp(EPOCH, UTC)
    ca(folder / "ca", "head", now=now).write_relay(folder / "relay", SENDER, now=now)


@cache
def _empty_ledger() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.db")
        ledger.open()
        ledger.close()
        return ledger.path.read_bytes()


def make_ledger(path: Path) -> None:
    """Write an empty ledger: a copy of one that the product made takes a tenth of the time."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(0o600)
    path.write_bytes(_empty_ledger())


class Head:
    """The aggregator of one cluster, as far as relays go; all that it keeps is in its ledger."""

    def __init__(self, name: str, folder: Path) -> None:
        self._path = folder / name / "ledger.db"
        self._backup = folder / f"{name}.backup"
        self._site = loading.load(_HEAD.format(period=PERIOD, name=name, lnet=HEADS[name]))
        make_ledger(self._path)
        self.down_until = 0
        """A tick."""
        self.start()

    def start(self) -> None:
        """Begin with what the ledger has."""
        self.ledger = Ledger(self._path)
        self.ledger.open()
        self.clients = Clients()
        self.relayed = Relayed(self._site, self.ledger, self.clients, lambda _: NEVER_OWN)
        self.relayed.load()

    def stop(self) -> None:
        """End; nothing is written at the end, so that it is as good as a kill."""
        self.ledger.close()

    def keep_backup(self) -> None:
        """Make a backup while it runs. SQLite's locks may be lost by that; nobody else wants them here."""
        backups.backup(self._path, self._backup, overwrite=True)

    def restore(self) -> bool:
        """Put the backup in the place of the ledger, if there is one."""
        if not self._backup.exists():
            return False
        self.stop()
        backups.restore(self._backup, self._path)
        self.start()
        return True

    def take(self, messages: list[bytes], now_seconds: float) -> RelayResponse:
        """Take in a call."""
        picture = put_together([RelayRequest.FromString(message) for message in messages])
        return self.relayed.take(SENDER, picture, now_seconds)

    def held(self) -> Held:
        """Return what is durable."""
        return {nid: totals for _, payload in self.ledger.relayed() for nid, totals in load(payload).held.items()}

    def rates(self, now_seconds: float) -> dict[str, Rates]:
        """Return what its sinks would get with the sweep of this moment."""
        self.clients.forget(now_seconds, {}, self.relayed.accepted)
        return {one.nid: one.filesystems[FILESYSTEM] for one in self.clients.told(lambda _: None).clients}


class Failure(grpc.RpcError):
    """A call that fails, as gRPC says it."""

    @override
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    @override
    def details(self) -> str:
        return "nobody answers"


class Link:
    """The way from the sender to one head: what is told there arrives, or does not, or late, or twice."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.tick = 0
        self.now = 0.0
        self.cut_until = 0
        """A tick."""
        self.next: list[tuple[str, int]] = []
        """What becomes of the next calls; and for a call that is delayed, by how many ticks."""
        self.events: Tally[str] = Tally()
        self.taken_tick = 0
        """Of the latest picture that the head has."""
        self._late: list[tuple[int, list[bytes]]] = []
        self._told: list[bytes] = []

    @contextmanager
    def connect(self, address: str, name: str, tls: Tls) -> Iterator[Receiver]:
        """Open a connection, as the product's own does."""
        del address, name, tls
        yield self

    @property
    def is_down(self) -> bool:
        """Whether the head is away."""
        return self.head.down_until > self.tick

    def tell(self, picture: Picture) -> RelayResponse:
        """Bring a call to the head, and its answer back."""
        messages = [part.SerializeToString() for part in parts(picture)]
        if self.is_down or self.cut_until > self.tick:
            raise Failure
        what, amount = self.next.pop(0) if self.next else ("", 0)
        self.events[what] += 1
        if what == "call delayed":
            self._late.append((self.tick + 1 + amount, messages))
            raise Failure
        if what == "head killed in call" and amount % 2:  # before it was durable
            self._kill()
        answer = self._arrive(messages)
        if what == "head killed in call":
            self._kill()
        if what == "answer lost":
            raise Failure
        self._told = messages
        return RelayResponse.FromString(answer.SerializeToString())

    def _kill(self) -> None:
        self.head.stop()
        self.head.start()
        raise Failure

    def _arrive(self, messages: list[bytes]) -> RelayResponse:
        tick = RelayRequest.FromString(messages[0]).head.tick_seconds
        if tick < self.taken_tick:
            self.events["call overtaken"] += 1
        self.taken_tick = max(self.taken_tick, tick)
        return self.head.take(messages, self.now)

    def bring_late(self) -> None:
        """Let arrive what was delayed, and is due; a head that is away does not get it at all."""
        due = [messages for at, messages in self._late if at <= self.tick]
        self._late = [(at, messages) for at, messages in self._late if at > self.tick]
        for messages in due:
            if not self.is_down:
                self._arrive(messages)

    def repeat(self) -> bool:
        """Let the last call arrive once more."""
        if not self._told or self.is_down:
            return False
        self._arrive(self._told)
        return True


class Sender:
    """The relay to one head, as its thread runs it, in a time that is told."""

    def __init__(self, plan: RelayPlan, link: Link) -> None:
        self.link = link
        self._relay = Relay(plan, connect=link.connect)
        self._backlog = Backlog[Needed](room_sweeps=self._relay.room_sweeps, jitter=lambda: 0.5)

    def offer(self, published: Published) -> None:
        """Give it a closed sweep."""
        self._backlog.offer(self._relay.needed(published))

    def run(self, now_seconds: float) -> None:
        """Let it write, and try again, until the next tick."""
        until, now = now_seconds + _TRIES_SECONDS, now_seconds
        while (wait := self._backlog.wait_seconds(now)) is not None and now + wait <= until:
            now += wait
            self.link.now = now
            sweep = self._backlog.take(now)
            assert sweep is not None
            written = self._relay.write(sweep, lambda _: True)
            self._backlog.settle(sweep, written, now=now, wall_seconds=now, was_cut=False)


def senders(site: Site, secrets: Path, links: dict[str, Link]) -> list[Sender]:
    """Return all relays of a site that has just begun."""
    found = []
    for plan in relay_plans(site, secrets, own_site=SENDER).values():
        assert isinstance(plan, RelayPlan)
        found.append(Sender(plan, links[plan.cluster.name]))
    return found
