"""One agent's stream after its Hello: batches become whole sweeps, sweeps are kept, and the agent hears of it."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

import structlog
from cryptography import x509

from harvest.v1.stream_pb2 import Ack, Batch, Hello, JobTable, MountedTarget, StreamResponse
from harvest_aggregator.conversations import Conversation
from harvest_aggregator.deliveries import Delivery, Keeping
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.gathering import Gathering, Sweep
from harvest_aggregator.limits import PENDING_BYTES, STALL_SECONDS
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.presence import Presence, StayKey, Visit
from harvest_aggregator.refusals import NonsenseError, not_ready
from harvest_aggregator.requests import read_request
from harvest_aggregator.room import Room
from harvest_aggregator.welcomes import has_gap, stays, welcome
from harvest_core.accounting.wire import WireError
from harvest_site.model import Site
from harvest_site.views import filesystem_of, slurm_cluster_of

_IGNORED_MAX: Final = 1000


@dataclass(slots=True)
class House:
    """What all streams share."""

    site: Site
    keeper: Keeping
    metrics: Metrics
    presence: Presence
    room: Room


class Session:
    """One stream; the others know it by its ``visit``."""

    def __init__(
        self, house: House, visit: Visit, hello: Hello, *, certificate: x509.Certificate, conversation: Conversation
    ) -> None:
        self.visit: Final = visit
        self.certificate: Final = certificate
        self._house = house
        self._conversation = conversation
        self._incarnations = tuple(hello.incarnations)
        self._spooled = {one.id: one.last_seq for one in hello.incarnations}
        self._targets: Sequence[MountedTarget] = hello.targets
        self._ignored: set[str] = set()
        self._gathering = Gathering()
        self._held_bytes = 0
        self._pending: deque[Sweep] = deque()
        self._pending_bytes = 0
        self._handed_over = 0
        self._over = False
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._welcomed = False
        self._asked_in = b""
        self._log = structlog.get_logger().bind(agent=visit.agent, peer=conversation.peer)

    @property
    def queued_sweeps(self) -> int:
        """How many came that are not durable yet."""
        return len(self._pending) + self._handed_over

    def end(self, reason: Exception) -> None:
        """Cut the stream: ``run`` raises the reason."""
        self._conversation.fall_silent()  # told that nothing of it is wanted, it would keep nothing
        if not self._ended.done():
            self._ended.set_exception(reason)

    async def run(self) -> None:
        """Serve the stream until its agent ends it; raises whatever else ends it."""
        delivering = asyncio.ensure_future(self._deliver())
        tasks: tuple[asyncio.Future[Any], ...] = (self._ended, delivering, asyncio.ensure_future(self._read()))
        running = set(tasks)
        try:
            while delivering in running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._house.room.leave(self, self._held_bytes)

    async def change_site(self, before: Site) -> None:
        """Tell the agent what changed for it; for what was not wanted before, a full picture is needed."""
        if not self._welcomed:
            return
        agent, site = self.visit.agent, self._house.site
        full_picture = bool(stays(site, agent, self._targets) - stays(before, agent, self._targets))
        again = welcome(site, agent, durable={}, full_picture=full_picture)
        if again != welcome(before, agent, durable={}, full_picture=False):
            await self._conversation.say(StreamResponse(welcome=again))
        self._report()

    async def _welcome(self) -> None:
        agent, keeper = self.visit.agent, self._house.keeper
        try:
            durable = await asyncio.wrap_future(keeper.resume(agent, [one.id for one in self._incarnations]))
        except LedgerError as error:
            raise not_ready(error) from error
        full_picture = has_gap(self._incarnations, durable) or keeper.needs_full_picture(agent)
        self._report()
        self._welcomed = True
        said = welcome(self._house.site, agent, durable=durable, full_picture=full_picture)
        await self._conversation.say(StreamResponse(welcome=said))

    async def _read(self) -> None:
        await self._welcome()
        while await self._take_next():
            pass
        self._over = True
        self._changed.set()

    async def _take_next(self) -> bool:
        """Take one message; tell whether there was one. What it holds of a sweep is let go of when it returns."""
        data = await self._next()
        if data is None:
            return False
        await self._house.room.turn(self)  # all streams may have got a message at once: read, it takes twice the memory
        said = read_request(data)
        if isinstance(said, JobTable):
            await self._learn_jobs(said)
            return True
        raw, batch = said
        self._house.metrics.batches.inc()
        self._house.metrics.received_bytes.inc(len(raw))
        self.visit.heard_seconds = asyncio.get_running_loop().time()
        wanted = batch.last_of_sweep or self._takes_in(batch)
        sweep = self._gathering.add(raw, batch, wanted=wanted)
        if wanted:
            self._held_bytes += len(raw)
            self._house.room.take(self, len(raw), whole=sweep is not None)
        if sweep is not None:
            self._note_targets(sweep)
            self._pending.append(sweep)
            self._pending_bytes += sweep.size_bytes
            self._changed.set()
        return True

    async def _learn_jobs(self, table: JobTable) -> None:
        """Hand a part of a job table over; the next one is read when this one was taken in."""
        cluster = slurm_cluster_of(self._house.site, self.visit.agent)
        if cluster is not None:  # else the site was changed meanwhile
            await asyncio.wrap_future(self._house.keeper.learn_jobs(cluster, table))
            await self._ask_about_jobs()

    async def _ask_about_jobs(self) -> None:
        question = self._house.keeper.job_question(self.visit.agent)
        if question is not None:
            await self._conversation.say(StreamResponse(job_question=question))

    async def _next(self) -> bytes | None:
        """Return the next message, once there is room for it; nothing when the agent has ended the stream."""
        while self._pending_bytes > PENDING_BYTES:
            await self._change()
        await self._house.room.turn(self)
        try:
            async with asyncio.timeout(STALL_SECONDS if self._gathering.begun else None):
                data = await self._conversation.hear()
        except TimeoutError as error:
            raise NonsenseError(f"a sweep was begun, and {STALL_SECONDS:.0f} s later not gone on with") from error
        # one who must go is not listened to: by a changed site its batches would look unwanted, and be acknowledged
        return None if self._ended.done() else data

    def _takes_in(self, batch: Batch) -> bool:
        """Tell whether a read is of the site; what another agent reports is refused."""
        if (filesystem := self._filesystem(batch.target.name)) is None:
            return False
        stay = StayKey(filesystem, batch.target.name, batch.mount.boot_id)
        self._house.presence.bring(self.visit, stay, batch.mount.server)
        return True

    def _filesystem(self, target: str) -> str | None:
        filesystem = filesystem_of(self._house.site, self.visit.agent, target)
        if filesystem is None and target not in self._ignored and len(self._ignored) < _IGNORED_MAX:
            self._ignored.add(target)
            self._log.warning("target ignored: the site has no such file system with this server", target=target)
        return None if filesystem is None else filesystem.name

    def _note_targets(self, sweep: Sweep) -> None:
        """Remember what the agent sees, unless this was in its spool when it came: that may be long ago."""
        last = sweep.batches[-1][1]
        self.visit.period_seconds = last.period_seconds
        if sweep.seq > self._spooled.get(sweep.incarnation, 0) and last.end.targets != self._targets:
            self._targets = last.end.targets
            self._report()

    def _report(self) -> None:
        self._house.presence.report(self.visit, stays(self._house.site, self.visit.agent, self._targets))
        for one in self._targets:
            self._filesystem(one.target.name)

    async def _deliver(self) -> None:
        """Hand over what has come, one delivery at a time: after one that failed no later one may become durable."""
        while self._pending or not self._over:
            if self._pending:
                await self._deliver_next()
            else:
                await self._change()

    async def _deliver_next(self) -> None:
        delivery, size_bytes = self._next_delivery()
        kept = asyncio.wrap_future(self._house.keeper.accept(delivery))
        kept.add_done_callback(partial(self._let_go, size_bytes))
        try:
            await asyncio.shield(kept)
        except LedgerError as error:
            raise not_ready(error) from error
        except WireError as error:
            raise NonsenseError(f"sweep {delivery.seq} cannot be kept: {error}") from error
        self._handed_over = 0
        await self._conversation.say(StreamResponse(ack=Ack(incarnation=delivery.incarnation, seq=delivery.seq)))
        await self._ask_anew(delivery.incarnation)
        await self._ask_about_jobs()

    async def _ask_anew(self, incarnation: bytes) -> None:
        """Ask for a full picture if the keeper found that it lacks names; once, until another incarnation speaks."""
        agent = self.visit.agent
        if self._asked_in != incarnation and self._house.keeper.needs_full_picture(agent):
            self._asked_in = incarnation
            said = welcome(self._house.site, agent, durable={}, full_picture=True)
            await self._conversation.say(StreamResponse(welcome=said))

    def _next_delivery(self) -> tuple[Delivery, int]:
        sweeps = [self._pending.popleft()]
        while self._pending and self._pending[0].incarnation == sweeps[0].incarnation:
            sweeps.append(self._pending.popleft())
        size_bytes = sum(sweep.size_bytes for sweep in sweeps)
        self._pending_bytes -= size_bytes
        self._held_bytes -= size_bytes  # from here on it is the keeper who holds it
        self._changed.set()
        self._handed_over = len(sweeps)
        batches = tuple(batch for sweep in sweeps for batch in sweep.batches)
        return Delivery(self.visit.agent, sweeps[0].incarnation, sweeps[-1].seq, batches), size_bytes

    def _let_go(self, size_bytes: int, done: asyncio.Future[None]) -> None:
        """Give room back when the keeper has let go, which may be after the stream's end."""
        if not done.cancelled():
            done.exception()  # seen here even if nobody waits any more
        self._house.room.free(size_bytes)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
