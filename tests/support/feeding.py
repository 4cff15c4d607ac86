"""Agents whose jobs have done exactly what a test says, tick by tick, in a real aggregator."""

import asyncio
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from harvest.v1.stream_pb2 import TARGET_KIND_MDT, TARGET_KIND_OST, Batch, Hello, JobTable, SlurmHealth, SlurmJob
from harvest_core.facts import Facts, Mount, Moved
from harvest_core.wire import write
from support.processes import Running
from support.uplinks import BOOT, INCARNATION, Agent, hello

Counter = tuple[str, str]
Done = dict[bytes, dict[Counter, tuple[int, int]]]
"""By job: (samples, sum) of every counter, since ever."""
_SECOND = 1_000_000_000
_BATCH_JOBS = 10_000


@dataclass
class Server:
    """A server with one target, and what all jobs did there."""

    name: str
    target: str
    done: Done = field(default_factory=dict)
    period_seconds: int = 1
    seq: int = 0
    agent: Agent | None = None
    _moved: dict[bytes, None] = field(default_factory=dict)
    _slots: dict[bytes, int] = field(default_factory=dict)
    _codes: dict[Counter, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "MDT" if "-MDT" in self.target else "OST"

    def does(self, job: bytes, **sums: int) -> None:
        """Let a job do so much more; operations are counted, bytes are added up, each call is one."""
        self._moved[job] = None
        mine = self.done.setdefault(job, {})
        for name, amount in sums.items():
            counter = (name, "bytes" if name.endswith("_bytes") else "usecs")
            samples, total = mine.get(counter, (0, 0))
            more = (1, amount) if counter[1] == "bytes" else (amount, 10 * amount)
            mine[counter] = (samples + more[0], total + more[1])

    async def connect(self, here: Running) -> None:
        """Begin a stream, also again after one was cut."""
        self.agent = here.agent(self.name)
        greeting = hello(self.name, self.target, last_seq=self.seq)
        for mounted in greeting.targets:
            mounted.target.kind = TARGET_KIND_MDT if self.kind == "MDT" else TARGET_KIND_OST
        await self.agent.begin(greeting)

    async def sweep(self, tick: int) -> None:
        """Tell what those have done who did anything since the last time, and wait until that is durable."""
        assert self.agent is not None
        self.seq += 1
        jobs = list(self._moved)
        self._moved.clear()
        parts = [jobs[first : first + _BATCH_JOBS] for first in range(0, len(jobs), _BATCH_JOBS)] or [[]]
        for number, some in enumerate(parts):
            await self.agent.say(self._batch(tick, some, number, is_last=number == len(parts) - 1))
        end = Batch(
            incarnation=INCARNATION,
            seq=self.seq,
            tick_seconds=tick,
            period_seconds=self.period_seconds,
            last_of_sweep=True,
        )
        mounted = end.end.targets.add()
        mounted.target.kind = TARGET_KIND_MDT if self.kind == "MDT" else TARGET_KIND_OST
        mounted.target.name = self.target
        mounted.mount.server, mounted.mount.boot_id, mounted.mount.instance = self.name, BOOT, 7
        end.end.health.clock_nanoseconds = time.time_ns()
        await self.agent.say(end)
        assert await self.agent.acknowledged() == self.seq

    def _batch(self, tick: int, jobs: list[bytes], part: int, *, is_last: bool) -> Batch:
        fresh = [job for job in jobs if job not in self._slots]
        self._slots |= {job: slot for slot, job in enumerate(fresh, len(self._slots))}
        counters = dict.fromkeys(counter for job in jobs for counter in self.done[job])
        new = [counter for counter in counters if counter not in self._codes]
        self._codes |= {counter: code for code, counter in enumerate(new, len(self._codes))}
        rows = [(self._codes[counter], *both) for job in jobs for counter, both in self.done[job].items()]
        facts = Facts(
            incarnation=INCARNATION,
            seq=self.seq,
            tick_seconds=tick,
            period_seconds=self.period_seconds,
            kind=self.kind,
            target=self.target,
            mount=Mount(server=self.name, boot_id=BOOT, instance=7),
            complete=is_last,
            part=part,
            is_last_part=is_last,
            read_at=tick * _SECOND,
            uptime=tick * _SECOND,
            lustre_version=(2, 15, 8),
            cleanup_interval_seconds=600,
            names=[(self._slots[job], job, (tick - 1) * _SECOND, 0) for job in fresh],
            counters=[(self._codes[counter], *counter) for counter in new],
            order=array("q", [self._slots[job] for job in fresh]),
            moved=Moved(
                slot=array("q", [self._slots[job] for job in jobs]),
                snapshot=array("q", [tick * _SECOND] * len(jobs)),
                rows=array("q", [len(self.done[job]) for job in jobs]),
                code=array("q", [row[0] for row in rows]),
                samples=array("q", [row[1] for row in rows]),
                sum=array("q", [row[2] for row in rows]),
            ),
        )
        message = Batch()
        write(message, facts)
        return message


async def told(here: Running, name: str, jobs: Mapping[int, tuple[str, str, str]], *, start: int) -> Agent:
    """Let Slurm say of each job its user, account and state; the stream stays open."""
    agent = here.agent(name)
    await agent.begin(Hello(protocol=1, agent=name, boot_id=BOOT, incarnations=hello(name).incarnations))
    rows = [
        SlurmJob(
            id=number,
            user=user,
            account=account,
            state=state,
            start_seconds=start,
            end_seconds=0 if state == "RUNNING" else int(time.time()),
        )
        for number, (user, account, state) in jobs.items()
    ]
    health = SlurmHealth(answered_seconds=int(time.time()), queries=1)
    await agent.say(JobTable(full=True, last=True, jobs=rows, health=health))
    return agent


async def next_tick() -> int:
    """Wait for the next full second, and return it."""
    now = time.time()
    await asyncio.sleep(1.0 - now % 1.0)
    return int(now) + 1
