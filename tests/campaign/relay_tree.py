"""What a tree of relays is made of: the product's own aggregators with their ledgers, at senders and at heads."""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from campaign.plan import EPOCH, PERIOD
from campaign.relay_plan import ACCEPTS, FILESYSTEMS, HEADS, RELAYS
from campaign.relay_truth import Totals, highest
from harvest.v1.stream_pb2 import RelayRequest, RelayResponse
from harvest_aggregator import backups
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.clients import Clients
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.relays.earlier import Held
from harvest_aggregator.relays.incoming import load
from harvest_aggregator.relays.pictures import Picture, put_together
from harvest_aggregator.relays.taking import Relayed
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_site import loading
from harvest_site.model import Site
from support.uplinks import ca

SHOWN_PERIODS = 3
"""After so many nothing is shown that was told, nor is it if it is so late."""


def site_of(name: str, interval_seconds: int) -> Site:
    """Return a site: one that relays, a head, or a head that has servers, too."""
    filesystems = (
        f"{{name: {one}, servers: [s0, s1], clients: {{interval: {interval_seconds}s}}}}"
        for one in FILESYSTEMS.get(name, ())
    )
    mine = {name: HEADS[name]} if name in HEADS else HEADS
    accepted = (one for some in ACCEPTS.get(name, {}).values() for one in some)
    mounted = tuple(dict.fromkeys((*FILESYSTEMS.get(name, ()), *accepted)))
    clusters = (
        f"{{name: {head}, lnets: [{lnet}], filesystems: [{', '.join(mounted)}]}}" for head, lnet in mine.items()
    )
    secret = f"tlsSecretRef: {{name: {name}}}"
    relays = (
        f'{{cluster: {head}, filesystems: [{", ".join(some)}], endpoint: "{head}:8023", {secret}}}'
        for head, some in RELAYS.get(name, {}).items()
    )
    accepts = (
        f"{{name: {sender}, filesystems: [{', '.join(some)}], lnets: [{HEADS[name]}]}}"
        for sender, some in ACCEPTS.get(name, {}).items()
    )
    lists = {"filesystems": filesystems, "clusters": clusters, "relays": relays, "accepts": accepts}
    return loading.load(f"interval: {PERIOD}s\n" + "".join(f"{key}: [{', '.join(of)}]\n" for key, of in lists.items()))


def write_certificate(folder: Path, sender: str) -> None:
    """Write the files without which no relay calls anybody."""
    now = datetime.fromtimestamp(EPOCH, UTC)
    ca(folder / f"ca of {sender}", "head", now=now).write_relay(folder / sender, sender, now=now)


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


class Aggregator:
    """An aggregator, as far as nodes go; all that it keeps is in its ledger."""

    def __init__(self, name: str, folder: Path, interval_seconds: int) -> None:
        self.name = name
        self._path = folder / f"ledger of {name}" / "ledger.db"
        self._backup = folder / f"{name}.backup"
        self.site = site_of(name, interval_seconds)
        self._periods = dict.fromkeys(FILESYSTEMS.get(name, ()), interval_seconds)
        make_ledger(self._path)
        make_ledger(self._backup)
        self.down_until = 0
        """A tick."""
        self.now = float(EPOCH)
        self.on_start: Callable[[], None] = lambda: None
        self.start()

    def start(self) -> None:
        """Begin with what the ledger has."""
        self.ledger = Ledger(self._path)
        self.ledger.open()
        self.clients = Clients()
        self.accounts = Accounts(self.ledger, self.site)
        self.relayed = Relayed(self.site, self.ledger, self.clients, self.accounts.clients_then)
        self.relayed.load()
        self.accounts.load(self.now)
        self.closed_at = self.now
        self.on_start()

    def stop(self) -> None:
        """End; nothing is written at the end, so that it is as good as a kill."""
        self.ledger.close()

    def keep_backup(self) -> None:
        """Make a backup while it runs. SQLite's locks may be lost by that; nobody else wants them here."""
        backups.backup(self._path, self._backup, overwrite=True)

    def restore(self) -> None:
        """Put the backup in the place of the ledger."""
        self.stop()
        backups.restore(self._backup, self._path)
        self.start()

    def accept(self, deliveries: list[Delivery]) -> None:
        """Take in what an agent delivers."""
        for read in self.accounts.accept(deliveries, self.now):
            self.relayed.note_read(read)

    def close(self) -> list[ClosedSweep]:
        """Publish what is to be published now."""
        closed = self.accounts.close(self.now, frozenset())
        for sweep in closed:
            self.clients.take(sweep, self.accounts.connections, self.relayed.lessened)
            self.closed_at = self.now
        self.clients.forget(self.now, self._periods, self.relayed.accepted)
        return closed


class Told(NamedTuple):
    """A call."""

    sender: str
    picture: Picture
    messages: list[bytes]
    truth: Totals
    """Of the nodes of the cluster, when the picture was made."""

    @property
    def filesystem(self) -> str:
        """What it is about."""
        return self.picture.head.filesystem


class Head(Aggregator):
    """The aggregator of one cluster; also, what it must have and show, by the calls that came."""

    def __init__(self, name: str, folder: Path, interval_seconds: int) -> None:
        self.must_hold: dict[str, Totals] = {}
        """By file system."""
        self._backed_up: dict[str, Totals] = {}
        super().__init__(name, folder, interval_seconds)

    @override
    def start(self) -> None:
        super().start()
        self.must_show: dict[str, Told] = {}
        """With the totals that it had then: by what comes behind it those that are held rise, not those shown."""
        self.must_count: dict[str, Totals] = {}
        """What was held then of all, also of those who are not told of any more."""

    @override
    def keep_backup(self) -> None:
        super().keep_backup()
        self._backed_up = dict(self.must_hold)

    @override
    def restore(self) -> None:
        super().restore()
        self.must_hold = dict(self._backed_up)

    def take(self, told: Told, now_seconds: float) -> RelayResponse:
        """Take in a call, if it is of one whom this head listens to."""
        answer = self.relayed.take(
            told.sender, put_together(list(map(RelayRequest.FromString, told.messages))), now_seconds
        )
        name, tick = told.filesystem, told.picture.head.tick_seconds
        if name in ACCEPTS[self.name].get(told.sender, ()):
            self.must_hold[name] = highest(self.must_hold.get(name, {}), told.truth)
            shown = self.must_show.get(name)
            is_fresh = abs(now_seconds - tick) <= SHOWN_PERIODS * told.picture.head.period_seconds
            if is_fresh and (shown is None or shown.picture.head.tick_seconds <= tick):
                held = self.must_hold[name]
                self.must_show[name] = told._replace(truth={nid: held[nid] for nid in told.picture.nids if nid in held})
                self.must_count[name] = held
        return answer

    def held(self) -> dict[str, Totals]:
        """Return what is durable of all who ever did anything."""
        return {name: counted(load(payload).held) for name, payload in self.ledger.relayed()}


def counted(held: Held) -> Totals:
    """Return the totals of all who ever did anything."""
    known = {nid: tuple(max(number, 0) for number in totals) for nid, totals in held.items()}
    return {nid: totals for nid, totals in known.items() if any(totals)}


def totals_of(picture: Picture) -> Totals:
    """Return what a picture says that nodes did in all."""
    return counted(dict(zip(picture.nids, map(tuple, picture.totals.tolist()), strict=True)))
