"""The one thread that owns the accounting and the ledger; everything else asks it."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from harvest.v1.stream_pb2 import JobQuestion, JobTable, MountedTarget, RelayResponse
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.attendance import Attendance
from harvest_aggregator.clients import Clients
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.following import Following
from harvest_aggregator.hosts import Hosts
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.published import Published
from harvest_aggregator.relays.pictures import Picture
from harvest_aggregator.relays.taking import Relayed
from harvest_aggregator.resolver import Resolver
from harvest_aggregator.showing import Showing
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_core.accounting.wire import WireError
from harvest_site.model import Site

_GATHER_SECONDS: Final = 0.05
"""Deliveries that come within this time share a transaction, and with it a wait for the disk."""
_GATHER_BYTES: Final = 16 << 20
_TURN_SECONDS: Final = 0.1
"""How often deadlines are looked at while nothing comes."""
_PROBE_SECONDS: Final = 2.0
"""How often it is tried to write while that fails; agents are told to wait meanwhile, and would not notice."""
_EXPIRE_SECONDS: Final = 600.0
"""How often it is looked whether final records are too old, and how long that waits while there is much to do."""
_SEQ_MAX: Final = (1 << 63) - 1
_PART_MAX: Final = (1 << 31) - 1

_log = structlog.get_logger()

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class _Arrival:
    delivery: Delivery
    done: Future[None]


@dataclass(slots=True)
class _Errand:
    run: Callable[[], Any]
    done: Future[Any]
    changes: bool
    """Whether others may see something else after it."""


class Keeper:
    """Keeps what agents deliver. Its methods may be called from any thread.

    A stream waits for its delivery before it hands over another: that bounds the queue.

    ``on_close`` is called in its thread for every closed sweep, in order; several may close at once, and only the last
    of those is published: ``on_publish`` gets that one. ``on_kept`` hears how long each transaction took.
    """

    def __init__(
        self,
        ledger: Ledger,
        site: Site,
        *,
        now: Callable[[], float] = time.time,
        resolver: Resolver | None = None,
        on_close: Callable[[ClosedSweep, float], None] = lambda _sweep, _now: None,
        on_publish: Callable[[Published], None] = lambda _published: None,
        on_kept: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._ledger = ledger
        self._now = now
        self._on_close = on_close
        self._on_publish = on_publish
        self._on_kept = on_kept
        self._accounts = Accounts(ledger, site)
        self._attendance = Attendance(self._accounts.place)
        self._clients = Clients()
        self._client_periods = _client_periods(site)
        self._relayed = Relayed(site, ledger, self._clients, self._accounts.clients_then)
        self._resolver = resolver or Resolver()
        self._hosts = Hosts(site, self._resolver)
        self._jobs = Following(site, ledger)
        self._retention_seconds = site.spec.ledger.retention_seconds
        self._expire_at = now()
        self._showing = Showing(ledger, self._accounts, site)
        self._queue: queue.SimpleQueue[_Arrival | _Errand | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._has_stopped = False
        self._is_stale = False
        self._probe_at = 0.0
        self.published = Published()
        """Replaced as a whole; take it once and read that."""
        self.problem: str | None = None
        """Why nothing can be made durable now."""

    def start(self) -> None:
        """Recover what is durable, then take work."""
        self._ledger.open()
        try:
            self._accounts.load(self._now())
            self._jobs.load()
            self._relayed.load()
            self._showing.begin(self._jobs.identities)
        except BaseException:
            self._ledger.close()
            raise
        self._resolver.start()
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, leave snapshots so that the next start is quick, and close the ledger."""
        self._queue.put(None)
        self._thread.join()
        self._resolver.stop()

    def accept(self, delivery: Delivery) -> Future[None]:
        """Keep a delivery: done when it is durable and applied."""
        done: Future[None] = Future()
        if not delivery.batches or not all(
            0 < message.seq <= _SEQ_MAX and message.part <= _PART_MAX for _, message in delivery.batches
        ):
            done.set_exception(WireError("a sweep without a number that makes sense"))
        else:
            self._put(_Arrival(delivery, done))
        return done

    def resume(self, agent: str, incarnations: Sequence[bytes]) -> Future[dict[bytes, int]]:
        """Return the last durable sweep of each incarnation, 0 where there is none; an agent has no others."""
        return self._errand(partial(self._resumed, agent, incarnations))

    def change_site(self, site: Site) -> Future[None]:
        """Go on with another site."""
        return self._errand(partial(self._site_changed, site))

    def connected(self, agent: str, targets: Sequence[MountedTarget]) -> None:
        """Note that an agent is here, and what it has mounted."""
        self._errand(partial(self._attendance.connected, agent, targets))

    def disconnected(self, agent: str) -> None:
        """Note that an agent's stream has ended."""
        self._errand(partial(self._attendance.disconnected, agent))

    def needs_full_picture(self, agent: str) -> bool:
        """Tell whether an agent spoke of records that it never named to us."""
        return agent in self._accounts.unnamed

    def learn_jobs(self, cluster: str, table: JobTable) -> Future[None]:
        """Take in what a cluster's Slurm says; what must last of it is written with the next sweep."""
        return self._errand(partial(self._jobs.take_table, cluster, table))

    def take_relayed(self, relay: str, picture: Picture) -> Future[RelayResponse]:
        """Take in what a relay tells, as far as the site lets it; done when that is durable."""
        return self._errand(lambda: self._relayed.take(relay, picture, self._now()))

    def ask_showing(self, run: Callable[[Showing], _Answer]) -> Future[_Answer]:
        """Ask, or tell, what sinks show that counts."""
        return self._errand(partial(run, self._showing), changes=False)

    def job_question(self, agent: str) -> JobQuestion | None:
        """Return what an agent's Slurm should be asked; whoever gets it asks."""
        return self._jobs.question(agent)

    # --- the thread ---

    def _errand(self, run: Callable[[], Any], *, changes: bool = True) -> Future[Any]:
        done: Future[Any] = Future()
        self._put(_Errand(run, done, changes))
        return done

    def _put(self, item: _Arrival | _Errand) -> None:
        self._queue.put(item)
        if self._has_stopped:  # nobody will look there again
            item.done.cancel()

    def _run(self) -> None:
        while self._round():
            pass
        try:
            self._accounts.fold_all()
        except LedgerError as error:  # what is durable already is enough, and takes longer at the next start
            _log.warning("stopped without snapshots", reason=str(error))
        self._ledger.close()
        self._has_stopped = True
        while not self._queue.empty():
            if (item := self._queue.get()) is not None:
                item.done.cancel()

    def _round(self) -> bool:
        """Do what is asked for and what is due; tell whether to go on. What came is let go of when it returns."""
        arrivals, errand, goes_on = self._gathered()
        if arrivals:
            deliveries = [arrival.delivery for arrival in arrivals]
            _settle([arrival.done for arrival in arrivals], partial(self._keep, deliveries))
        if errand is not None:
            _settle([errand.done], errand.run)
            self._is_stale |= errand.changes
        try:
            self._turn(busy=bool(arrivals))
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread goes on and says so
            self._failed(error)
        return goes_on

    def _gathered(self) -> tuple[list[_Arrival], _Errand | None, bool]:
        """Take what came, until it is enough for a transaction, or something else is asked for."""
        arrivals: list[_Arrival] = []
        size = 0
        wait, until = _TURN_SECONDS, 0.0
        while size < _GATHER_BYTES:
            try:
                item = self._queue.get(timeout=wait)
            except queue.Empty:
                break
            if not isinstance(item, _Arrival):
                return arrivals, item, item is not None
            until = until or time.monotonic() + _GATHER_SECONDS
            wait = max(until - time.monotonic(), 0.0)
            arrivals.append(item)
            size += sum(len(payload) for payload, _ in item.delivery.batches)
        return arrivals, None, True

    def _keep(self, deliveries: Sequence[Delivery]) -> None:
        now, began = self._now(), time.monotonic()
        try:
            reads = self._accounts.accept(deliveries, now)
        except Exception as error:
            self._failed(error)
            raise
        self.problem = None
        self._on_kept(time.monotonic() - began)
        for read in reads:
            self._relayed.note_read(read)
        for delivery in deliveries:
            self._attendance.swept(delivery.agent, delivery.batches[-1][1], now)

    def _turn(self, *, busy: bool) -> None:
        """Do what is due apart from what others ask for."""
        now = self._now()
        closed = self._accounts.close(now, self._attendance.expected(now))
        for sweep in closed:
            _tell(
                partial(self._clients.take, sweep, self._accounts.connections, self._relayed.lessened),
                sweep.tick_seconds,
            )
            _tell(partial(self._on_close, sweep, now), sweep.tick_seconds)
            _tell(partial(self._jobs.take_sweep, sweep, now), sweep.tick_seconds)
        if closed:
            self._showing.look()
            self._publish(closed[-1], now)
            _tell(partial(self._on_publish, self.published), closed[-1].tick_seconds)
        elif self._is_stale and self._queue.empty():
            self._publish(self.published.closed, now)
        if self.problem is not None:
            if time.monotonic() < self._probe_at:
                return
            self._ledger.probe()
            self.problem = None
        if closed and self._jobs.settle(closed[-1], self._accounts, now):
            self._publish(closed[-1], now)
        self._accounts.fold_some(busy=busy)
        if now >= self._expire_at + (_EXPIRE_SECONDS if busy else 0.0):
            self._expire(now)
        if not busy:
            self._ledger.settle()

    def _expire(self, now_seconds: float) -> None:
        """Take out a few final records that are too old, if there are any."""
        if not self._ledger.expire(now_seconds - self._retention_seconds):
            self._expire_at = now_seconds + _EXPIRE_SECONDS

    def _publish(self, closed: ClosedSweep | None, now_seconds: float) -> None:
        flagged, incomplete = self._accounts.marks()
        self._clients.forget(now_seconds, self._client_periods, self._relayed.accepted)
        told = self._clients.told(self._hosts.host)
        starts, earlier, owners = self._jobs.told()
        self._is_stale = False
        self.published = Published(
            tick_seconds=None if closed is None else closed.tick_seconds,
            closed=closed,
            targets=self._accounts.statuses(now_seconds),
            agents=self._attendance.statuses(self._accounts.unnamed),
            flagged=flagged,
            incomplete=incomplete,
            clients=told.clients,
            nodes=told.nodes,
            identities=self._jobs.identities,
            clusters=self._jobs.facts(),
            earlier=earlier,
            starts=starts,
            first_tick=self._jobs.first_tick,
            before=self._jobs.before,
            over=self._jobs.over,
            let_go=self._jobs.let_go,
            owners=owners,
            owned=self._jobs.owned,
            finished=self._jobs.finished,
            by_target=self._showing.by_target,
            client_tables=self._clients.tables(),
            relayed=self._relayed.statuses(),
        )

    def _failed(self, error: Exception) -> None:
        was_well = self.problem is None
        self.problem = str(error) or type(error).__name__
        if was_well:
            with suppress(OSError):  # the log's disk may be full, too
                _log.error(
                    "nothing can be made durable", reason=self.problem, exc_info=not isinstance(error, LedgerError)
                )
        self._probe_at = time.monotonic() + _PROBE_SECONDS

    def _resumed(self, agent: str, incarnations: Sequence[bytes]) -> dict[bytes, int]:
        self._ledger.forget(agent, incarnations)
        self._jobs.begin_table(agent)
        return {incarnation: self._ledger.acked(agent, incarnation) for incarnation in incarnations}

    def _site_changed(self, site: Site) -> None:
        self._accounts.change_site(site, self._now())
        self._client_periods = _client_periods(site)
        self._relayed.change_site(site)
        self._retention_seconds = site.spec.ledger.retention_seconds
        self._expire_at = self._now()
        self._hosts = Hosts(site, self._resolver)
        self._jobs.change_site(site)
        self._showing.change_site(site, self._jobs.identities)
        self._clients.renamed()
        self._attendance.site_changed()


def _client_periods(site: Site) -> dict[str, int]:
    """Return how often clients are read, in seconds, of the file systems where they are."""
    return {one.name: one.clients.interval_seconds for one in site.spec.filesystems if one.clients.enabled}


def _tell(tell: Callable[[], None], tick_seconds: int) -> None:
    try:
        tell()
    except Exception:  # noqa: BLE001 - the other sweeps, and those who read, still get theirs
        _log.exception("a closed sweep was not taken", tick=tick_seconds)


def _settle(futures: Sequence[Future[Any]], run: Callable[[], Any]) -> None:
    """Run something and give those who still wait what came of it."""
    waiting = [future for future in futures if future.set_running_or_notify_cancel()]
    try:
        result = run()
    except Exception as error:  # noqa: BLE001 - it belongs to those who asked; the thread goes on
        for future in waiting:
            future.set_exception(error)
    else:
        for future in waiting:
            future.set_result(result)
