"""A hundred thousand jobs, and what it costs to show the busiest of them: time, memory and series are bounded."""

import asyncio
import gzip
import time
import urllib.request
from collections import Counter
from itertools import islice
from pathlib import Path

from harvest.v1.stream_pb2 import Hello, JobTable, SlurmHealth, SlurmJob
from support.feeding import Server
from support.processes import LIMIT_SECONDS, Running, running
from support.uplinks import BOOT, hello

JOBS, USERS, TOP = 100_000, 1009, 200
TARGETS = ("home-OST0000", "home-OST0001")
OPERATIONS = 4
SITE = """
interval: 20s
deadline: 15s
filesystems: [{name: home, servers: [oss1, oss2], clients: {enabled: false}}]
clusters: [{name: vu, filesystems: [home], slurm: {server: slurm1}}]
"""
SINK = f"sinks: [{{name: prom, prometheus: {{perJob: top, topK: {TOP}}}}}]\n"
SWEEPS = 3
SWEEP_CPU_SECONDS = 1.0
"""What it may cost more to show a sweep."""
SCRAPE_CPU_SECONDS = 0.02
MEMORY_BYTES = 100 << 20
_PAST_SWEEPS = 11
"""After so many, no more of them are remembered."""
_MOVES = 5
"""Each sweep another one of so many jobs does something."""


def test_the_busiest_of_a_hundred_thousand_jobs_cost_little_time_memory_and_few_series(tmp_path: Path) -> None:
    with running(tmp_path, site=SITE) as here:
        asyncio.run(scene(here))
        assert here.stop() == 0


async def scene(here: Running) -> None:
    servers = [Server(f"oss{at + 1}", target) for at, target in enumerate(TARGETS)]
    for at, server in enumerate(servers):
        for number in range(at + 1, JOBS + 1, len(servers)):
            server.does(b"%d" % number, read_bytes=number, write_bytes=number, punch=1, setattr=1)
        await server.connect(here)
    slurm = here.agent("slurm1")
    await slurm.begin(Hello(protocol=1, agent="slurm1", boot_id=BOOT, incarnations=hello("slurm1").incarnations))
    for first in range(1, JOBS + 1, 20_000):
        rows = [
            SlurmJob(id=number, user=f"user{number % USERS}", account="all", state="RUNNING", start_seconds=1)
            for number in range(first, first + 20_000)
        ]
        last = first + 20_000 > JOBS
        health = SlurmHealth(answered_seconds=int(time.time())) if last else None
        await slurm.say(JobTable(full=True, last=last, jobs=rows, health=health))
    for _ in range(_PAST_SWEEPS):
        await sweep(here, servers)
    before = [await sweep(here, servers) for _ in range(SWEEPS)]
    memory = here.resident_bytes()
    here.change(SITE + SINK)
    await until(lambda: here.events("changed files are in use"))
    for _ in range(2):  # what is found out once
        await sweep(here, servers, shown=True)
    after = [await sweep(here, servers, shown=True) for _ in range(SWEEPS)]
    more_memory = here.resident_bytes() - memory
    check_series(fetched(here))
    began = here.cpu_seconds()
    for _ in range(100):
        fetched(here)
    scrape = (here.cpu_seconds() - began) / 100
    more = min(after) - min(before)
    print(
        f"\n{JOBS} jobs: {more:.2f} s of CPU more to show a sweep ({min(before):.2f} s without), "
        f"{scrape * 1000:.1f} ms a scrape, {more_memory >> 20} MiB more"
    )
    assert more < SWEEP_CPU_SECONDS
    assert scrape < SCRAPE_CPU_SECONDS
    assert more_memory < MEMORY_BYTES
    await asyncio.gather(slurm.close(), *(server.agent.close() for server in servers if server.agent is not None))


async def sweep(here: Running, servers: list[Server], *, shown: bool = False) -> float:
    """Let one job of five do something; return what that cost the aggregator."""
    for server in servers:
        for job in islice(server.done, server.seq % _MOVES, None, _MOVES):
            server.does(job, read_bytes=int(job), punch=1)
    tick = int(time.time())
    while tick == server_tick(here):  # a sweep of this second was closed
        await asyncio.sleep(0.05)
        tick = int(time.time())
    began = here.cpu_seconds()
    await asyncio.gather(*(server.sweep(tick) for server in servers))
    await until(lambda: server_tick(here) == tick)
    if shown:
        await until(lambda: f" {tick}000\n".encode() in fetched(here, note=False))
    await asyncio.sleep(0.5)  # whatever is still done beside it
    return here.cpu_seconds() - began


def server_tick(here: Running) -> int:
    tick: int = here.get("api/v1/servers")[1]["tick_seconds"]
    return tick


async def until(condition: object) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    assert callable(condition)
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.2)


def fetched(here: Running, *, note: bool = True) -> bytes:
    """Scrape as Prometheus does."""
    asked = urllib.request.Request(f"{here.url}metrics/prom", headers={"Accept-Encoding": "gzip" if note else ""})  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=LIMIT_SECONDS) as answer:  # noqa: S310
            body: bytes = answer.read()
            return gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body
    except urllib.error.HTTPError:
        return b""


def check_series(text: bytes) -> None:
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    series = Counter(line.partition("{")[0] for line in lines)
    per_job = 2 + OPERATIONS - 2
    print(f"\n{len(lines)} series, {len(text) / 1e6:.1f} MB: {dict(series)}")
    assert series["harvest_job_info"] == TOP
    jobs = sum(count for name, count in series.items() if name.startswith("lustre_job"))
    assert TOP * per_job <= jobs <= (TOP + len(TARGETS)) * per_job
    assert series["harvest_user_read_bytes_total"] == TOP + 1
    assert series["cluster_job_read_throughput_bytes"] == TOP + 1
    assert len(lines) < 10 * TOP + 200
