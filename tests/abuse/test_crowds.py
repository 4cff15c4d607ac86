"""Thousands of connections that say nothing, beside five hundred agents that work."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from harvest_aggregator.limits import allow_open_files
from harvest_pki.certificates import bundle_pem
from harvest_pki.folders import CaFolder, Tls
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import key_pem, new_key
from support.processes import Running, running
from support.uplinks import Agent, hello, sweep

AGENTS = 500
IDLE = 2000
SWEEPS = 4  # the crowd is there all the time: it is cut after 10 s
PERIOD_SECONDS = 2.0
NAMES = [f"oss{number:03}" for number in range(1, AGENTS + 1)]


@contextlib.contextmanager
def idle_connections(address: str) -> Iterator[list[socket.socket]]:
    host, port = address.split(":")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(IDLE)]


def files_of_all(made: CaFolder) -> Iterator[Tls]:
    """Give everybody a certificate for one key: to make five hundred would take its time."""
    key, trusted, now = new_key(), bundle_pem(made.bundle()), datetime.now(UTC)
    authority = made.load()
    for serial, name in enumerate(NAMES, start=1):
        holder = Identity(site="demo", kind=Kind.SERVER, name=name)
        certificate = authority.issue(holder, key.public_key(), serial=serial, now=now, lifetime=None)
        yield Tls(certificate=bundle_pem([certificate]), key=key_pem(key), ca=trusted)


async def lateness(agent: Agent, number: int, seq: int) -> float:
    """Send a sweep and return how long its acknowledgement took."""
    begun = time.monotonic()
    await agent.say(*sweep(seq, f"home-OST{number:04x}", boot_id=f"boot-{number}"))
    assert await agent.acknowledged() == seq
    return time.monotonic() - begun


async def live(here: Running) -> tuple[float, int]:
    """Let all agents come, then a crowd; then let the agents sweep together a few times.

    Returns the latest acknowledgement, and how many of the crowd were there until the end.
    """
    agents = [Agent(here.address, tls) for tls in files_of_all(here.ca)]
    for number, (name, agent) in enumerate(zip(NAMES, agents, strict=True)):
        await agent.begin(hello(name, f"home-OST{number:04x}", boot_id=f"boot-{number}"))
    latest = 0.0
    with idle_connections(here.address) as crowd:
        for seq in range(1, SWEEPS + 1):
            begun = time.monotonic()
            late = await asyncio.gather(*(lateness(agent, number, seq) for number, agent in enumerate(agents)))
            latest = max(latest, *late)
            await asyncio.sleep(max(0.0, PERIOD_SECONDS - (time.monotonic() - begun)))
        there = sum(map(is_open, crowd))
    await asyncio.gather(*(agent.close() for agent in agents))
    return latest, there


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)  # noqa: FBT003 - the standard library's
    with contextlib.suppress(BlockingIOError):
        return bool(connection.recv(1))
    return True


def test_agents_are_served_in_time_beside_a_crowd_that_says_nothing(tmp_path: Path) -> None:
    allow_open_files()
    with running(
        tmp_path, site=f'interval: 2s\nfilesystems: [{{name: home, servers: ["oss[001-{AGENTS}]"]}}]\n'
    ) as here:
        alone_bytes = here.resident_bytes()
        latest, there = asyncio.run(live(here))
        resident = here.resident_bytes()
        print(f"latest acknowledgement {latest:.3f} s, {resident >> 20} MiB resident ({alone_bytes >> 20} at first)")
        assert there == IDLE
        assert latest <= 1.0
        assert resident < 512 << 20
        assert not here.events("read left out")
        assert "Traceback" not in here.log.read_text()
        assert here.stop() == 0
