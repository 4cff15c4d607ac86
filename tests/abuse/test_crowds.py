"""Thousands of connections that say nothing, beside five hundred agents that work."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.stream_senders import Sender, certificates
from harvest_aggregator.limits import allow_open_files
from support.processes import Running, running

AGENTS = 500
RECORDS = 20  # of each agent
IDLE = 2000
SWEEPS = 4  # the crowd is there all the time: it is cut after 10 s
SPOOLED = 20
PERIOD_SECONDS = 2.0


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


async def live(here: Running) -> tuple[float, int]:
    """Let all agents come, then a crowd; then let the agents sweep together a few times, and empty their spools.

    Returns the latest acknowledgement of a sweep, and how many of the crowd were there until the end of those.
    """
    agents = [Sender(number, range(number - 1, number), RECORDS) for number in range(1, AGENTS + 1)]
    for agent, tls in zip(agents, certificates(here.ca, agents), strict=True):
        await agent.come(here.address, tls)
    late = 0.0
    await latest(agents, range(1, 2))  # all names are new
    with idle_connections(here.address) as crowd:
        for seq in range(2, SWEEPS + 2):
            begun = time.monotonic()
            late = max(late, await latest(agents, range(seq, seq + 1)))
            await asyncio.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - begun)))
        there = sum(map(is_open, crowd))
    await latest(agents, range(SWEEPS + 2, SWEEPS + 2 + SPOOLED))
    await asyncio.gather(*(agent.leave() for agent in agents))
    return late, there


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
        late, there = asyncio.run(live(here))
        most = here.most_resident_bytes()
        print(f"latest acknowledgement {late:.3f} s, {most >> 20} MiB resident at most ({alone_bytes >> 20} at first)")
        assert there == IDLE
        assert late <= 1.0
        assert most < 512 << 20
        assert not here.events("read left out")
        assert "Traceback" not in here.log.read_text()
        assert here.stop() == 0
