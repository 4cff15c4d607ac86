"""An aggregator's port with a keeper in memory, and agents that say what a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc

from harvest.v1.stream_pb2 import (
    Batch,
    Hello,
    Incarnation,
    JobQuestion,
    JobTable,
    Mount,
    MountedTarget,
    Refusal,
    StreamRequest,
    StreamResponse,
    Target,
    TargetKind,
    Welcome,
)
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.identity import admission
from harvest_aggregator.listening import Port
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.published import Published
from harvest_aggregator.streams import Streams
from harvest_pki.authorities import Authority
from harvest_pki.folders import CaFolder, Tls, read_tls
from harvest_pki.keys import new_key, new_serial
from harvest_site.loading import load
from harvest_site.model import Site

SITE = """
interval: 20s
filesystems:
  - {name: home, servers: ["oss[1-4]", mds1]}
  - {name: old, fsname: scratch, servers: [oss1]}
  - {name: new, fsname: scratch, servers: [oss2]}
"""
INCARNATION = b"i" * 16
BOOT = "boot-1"
METHOD = "/harvest.v1.HarvestService/Stream"


@dataclass
class MemoryKeeper:
    """Keeps deliveries in a list; ``answer`` may do something else with one."""

    durable: dict[tuple[str, bytes], int] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    full_picture: set[str] = field(default_factory=set)
    tables: list[tuple[str, JobTable]] = field(default_factory=list)
    questions: dict[str, JobQuestion] = field(default_factory=dict)
    waiting: list[Future[None]] = field(default_factory=list)
    hold: bool = False
    """Whether deliveries wait."""

    def resume(self, agent: str, incarnations: Sequence[bytes]) -> Future[dict[bytes, int]]:
        done: Future[dict[bytes, int]] = Future()
        done.set_result({one: self.durable.get((agent, one), 0) for one in incarnations})
        return done

    def accept(self, delivery: Delivery) -> Future[None]:
        done: Future[None] = Future()
        self.deliveries.append(delivery)
        self.durable[delivery.agent, delivery.incarnation] = delivery.seq
        if self.hold:
            self.waiting.append(done)
        else:
            done.set_result(None)
        return done

    def needs_full_picture(self, agent: str) -> bool:
        return agent in self.full_picture

    def learn_jobs(self, cluster: str, table: JobTable) -> Future[None]:
        self.tables.append((cluster, table))
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def job_question(self, agent: str) -> JobQuestion | None:
        return self.questions.pop(agent, None)

    def connected(self, agent: str, targets: Sequence[MountedTarget]) -> None:
        assert all(one.target.name for one in targets)
        self.present.append(agent)

    def disconnected(self, agent: str) -> None:
        self.present.remove(agent)


def ca(folder: Path, site: str = "demo", *, now: datetime | None = None) -> CaFolder:
    """Make a CA."""
    made = CaFolder(folder)
    key, serial = new_key(), new_serial()
    now = now or datetime.now(UTC)
    made.create(Authority.create(site, key=key, serial=serial, now=now, lifetime=timedelta(days=99)))
    return made


def issued(made: CaFolder, name: str, *, now: datetime | None = None, lifetime: timedelta | None = None) -> Tls:
    """Return the files of an agent."""
    folder = made.path.parent / f"agent-{name}"
    made.write_agent(folder, name, now=now or datetime.now(UTC), lifetime=lifetime)
    return read_tls(folder)


@dataclass
class Aggregator:
    """A port that is open."""

    ca: CaFolder
    tls: Tls
    keeper: MemoryKeeper
    streams: Streams
    port: Port
    site: Site

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port.number}"

    async def change(self, text: str) -> None:
        """Give it another site."""
        self.site = load(text)
        self.streams.admit(admission(self.site, self.tls, "main"))
        await self.streams.change(self.site)

    def agent(self, name: str) -> "Agent":
        """Connect an agent with a good certificate."""
        return Agent(self.address, issued(self.ca, name))


@contextlib.asynccontextmanager
async def aggregator(
    folder: Path, site: str = SITE, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> AsyncIterator[Aggregator]:
    """Open a port of a site called demo."""
    made = ca(folder / "ca")
    made.write_server(folder / "tls", "main", now=datetime.now(UTC))
    tls = read_tls(folder / "tls")
    keeper = MemoryKeeper()
    metrics = Metrics(Published, version="0", site=lambda: load(site), ledger_bytes=lambda: 0, queued_sweeps=lambda: 0)
    streams = Streams(keeper, load(site), admission(load(site), tls, "main"), metrics=metrics, now=now)
    port = Port((streams.handler,), "127.0.0.1:0", tls)
    await port.open()
    try:
        yield Aggregator(made, tls, keeper, streams, port, load(site))
    finally:
        for waiting in keeper.waiting:
            if not waiting.done():
                waiting.set_result(None)
        await port.close(seconds=0.1)


def served(scenario: Callable[[Aggregator], Awaitable[None]]) -> Callable[[Path], None]:
    """Make a test of what happens at an open port."""

    def test(tmp_path: Path) -> None:
        async def whole() -> None:
            async with asyncio.timeout(120), aggregator(tmp_path) as here:
                await scenario(here)

        asyncio.run(whole())

    return test


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody announces."""
    while not condition():  # noqa: ASYNC110 - what is looked at knows no events
        await asyncio.sleep(0.01)


class Agent:
    """One connection with one stream."""

    def __init__(self, address: str, tls: Tls | bytes) -> None:
        """Connect with files of one's own, or knowing the CA alone."""
        files = (tls,) if isinstance(tls, bytes) else (tls.ca, tls.key, tls.certificate)
        self.channel = grpc.aio.secure_channel(
            address,
            grpc.ssl_channel_credentials(*files),
            options=[("grpc.ssl_target_name_override", "main.demo.harvest"), ("grpc.use_local_subchannel_pool", 1)],
        )
        self.call: grpc.aio.StreamStreamCall[bytes, bytes] = self.channel.stream_stream(METHOD)()

    async def say(self, *messages: Hello | Batch | JobTable) -> None:
        for message in messages:
            match message:
                case Hello():
                    request = StreamRequest(hello=message)
                case Batch():
                    request = StreamRequest(batch=message)
                case _:
                    request = StreamRequest(job_table=message)
            await self.call.write(request.SerializeToString())

    async def hear(self) -> StreamResponse:
        """Return what the aggregator says next; nothing in it when the stream has ended."""
        data: object = await self.call.read()
        return StreamResponse.FromString(data) if isinstance(data, bytes) else StreamResponse()

    async def begin(self, greeting: Hello) -> Welcome:
        """Say Hello and return the Welcome."""
        await self.say(greeting)
        response = await self.hear()
        assert response.HasField("welcome"), response
        return response.welcome

    async def acknowledged(self) -> int:
        """Return the seq of the next acknowledgement."""
        response = await self.hear()
        assert response.HasField("ack"), response
        return response.ack.seq

    async def refused(self) -> Refusal:
        """Return the refusal with which the stream ends."""
        response = await self.hear()
        assert response.HasField("refusal"), response
        assert (await self.ended())[0] is grpc.StatusCode.OK
        return response.refusal

    async def close(self) -> None:
        await self.channel.close()

    async def ended(self) -> tuple[grpc.StatusCode, str]:
        """Return how the stream ended."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            while (await self.hear()).WhichOneof("message") is not None:
                pass
        return await self.call.code(), await self.call.details()


def mounted(*names: str, boot_id: str = BOOT, instance: int | None = 7, server: str = "oss") -> Iterator[MountedTarget]:
    for name in names:
        yield MountedTarget(
            target=Target(kind=TargetKind.TARGET_KIND_OST, name=name),
            mount=Mount(instance=instance, server=server, boot_id=boot_id),
        )


def hello(agent: str, *targets: str, boot_id: str = BOOT, first_seq: int = 1, last_seq: int = 0) -> Hello:
    return Hello(
        protocol=1,
        agent=agent,
        boot_id=boot_id,
        incarnations=[Incarnation(id=INCARNATION, first_seq=first_seq, last_seq=last_seq)],
        targets=mounted(*targets, boot_id=boot_id),
    )


def sweep(
    seq: int,
    *targets: str,
    parts: int = 1,
    boot_id: str = BOOT,
    incarnation: bytes = INCARNATION,
    server: str = "oss",
) -> list[Batch]:
    """Return the batches of a sweep; they say nothing but where they belong."""
    reads = [
        Batch(
            incarnation=incarnation,
            seq=seq,
            tick_seconds=20 * seq,
            period_seconds=20,
            target=one.target,
            mount=one.mount,
            part=part,
            last_of_target=part == parts - 1,
        )
        for one in mounted(*targets, boot_id=boot_id, server=server)
        for part in range(parts)
    ]
    end = Batch(incarnation=incarnation, seq=seq, tick_seconds=20 * seq, period_seconds=20, last_of_sweep=True)
    end.end.targets.extend(mounted(*targets, boot_id=boot_id, server=server))
    return [*reads, end]
