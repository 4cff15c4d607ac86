"""Thousands of connections that say nothing, beside five hundred agents that work."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

from bench.stream_senders import Sender, certificates
from harvest_aggregator.limits import allow_open_files
from support.processes import Running, running

AGENTS = 500
RECORDS = 20  # of each agent
IDLE = 2000
SWEEPS = 5
SPOOLED = 20
LATE_SECONDS = 1.0
CUT_SECONDS = 10.0
"""Not before that is somebody cut who says nothing; on a machine that is slow it may be before the end of a sweep."""


@contextlib.contextmanager
def idle_connections(address: str) -> Iterator[list[socket.socket]]:
    host, port = address.split(":")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(IDLE)]


async def lateness(agent: Sender, requests: list[bytes], seq: int) -> float:
    """Send sweeps up to this one and return how long its acknowledgement took."""
    begun = time.monotonic()
    await agent.send(requests, seq)
    return time.monotonic() - begun


async def latest(agents: Sequence[Sender], seqs: range) -> float:
    """Let all agents send these sweeps at once; return how long the last acknowledgement took."""
    tick = int(time.time())
    said = [[request for seq in seqs for request in agent.sweep(seq, tick + seq)] for agent in agents]
    return max(await asyncio.gather(*(lateness(agent, one, seqs[-1]) for agent, one in zip(agents, said, strict=True))))


@dataclass(slots=True)
class Seen:
    """How long the last acknowledgement of each sweep took, and what the aggregator computed for it."""

    alone_seconds: list[float] = field(default_factory=list)
    late_seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    cut_after_seconds: list[float] = field(default_factory=list)
    """Where not all of the crowd were there to the end of a sweep: how long after the first of them had come."""


async def live(here: Running) -> Seen:
    """Let all agents come and sweep together, by turns alone and beside a crowd; then let them empty their spools."""
    agents = [Sender(number, range(number - 1, number), RECORDS) for number in range(1, AGENTS + 1)]
    for agent, tls in zip(agents, certificates(here.ca, agents), strict=True):
        await agent.come(here.address, tls)
    seen = Seen()
    seqs = count(1)

    async def one() -> float:
        seq = next(seqs)
        return await latest(agents, range(seq, seq + 1))

    await one()  # all names are new
    for _ in range(SWEEPS):
        seen.alone_seconds.append(await one())
        begun = time.monotonic()
        with idle_connections(here.address) as crowd:  # a new one each time: it is cut after 10 s
            before = here.cpu_seconds()
            seen.late_seconds.append(await one())
            seen.cpu_seconds.append(here.cpu_seconds() - before)
            if not all(map(is_open, crowd)):
                seen.cut_after_seconds.append(time.monotonic() - begun)
    first = next(seqs)
    await latest(agents, range(first, first + SPOOLED))
    await asyncio.gather(*(agent.leave() for agent in agents))
    return seen


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)  # noqa: FBT003 - the standard library's
    with contextlib.suppress(BlockingIOError):
        return bool(connection.recv(1))
    return True


def test_agents_are_served_in_time_beside_a_crowd_that_says_nothing(tmp_path: Path) -> None:
    allow_open_files()
    with running(
        tmp_path, site=f'interval: 2s\nfilesystems: [{{name: bench, servers: ["oss[1-{AGENTS}]"]}}]\n'
    ) as here:
        alone_bytes = here.resident_bytes()
        seen = asyncio.run(live(here))
        most = here.most_resident_bytes()
        alone, late = median(seen.alone_seconds), median(seen.late_seconds)
        print(
            f"latest acknowledgement {late:.3f} s ({alone:.3f} s without the crowd), "
            f"{max(seen.cpu_seconds):.2f} s of CPU, {most >> 20} MiB resident at most ({alone_bytes >> 20} at first)"
        )
        assert [seconds for seconds in seen.cut_after_seconds if seconds < CUT_SECONDS] == []
        assert max(seen.cpu_seconds) <= LATE_SECONDS
        assert late <= max(LATE_SECONDS, 2 * alone)  # others may keep all of us waiting
        assert most < 512 << 20
        assert not here.events("read left out")
        assert "Traceback" not in here.log.read_text()
        assert here.stop() == 0
