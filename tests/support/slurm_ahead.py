"""A real Slurm followed in a time that somebody makes pass: a job's record is final only after a quarter of an hour.

The agent's own collector asks Slurm, and the keeper accounts what simulated servers show. Between them is no network.
Their clock is a little behind Slurm's at first, and goes on when it is told to.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from campaign.agents import SimAgent
from campaign.plan import PERIOD
from harvest.v1.stream_pb2 import Batch, MountedTarget, StreamRequest
from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.collector import SlurmCollector
from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.records import Records
from harvest_core.facts import MDT, OST
from harvest_core.jobs.identity import JobName
from harvest_core.wire import KINDS
from harvest_sim.site import Site
from harvest_site.loading import load
from support.processes import LIMIT_SECONDS, wait_for
from support.slurm import SlurmCluster
from support.slurm_site import CLUSTER, SLURM_HOST, TARGETS, VERSIONS
from unit.aggregator.publishing import client

_SITE = f"""
interval: {PERIOD}s
filesystems: [{{name: home, servers: [{", ".join(VERSIONS)}]}}]
clusters: [{{name: {CLUSTER}, filesystems: [home], slurm: {{server: {SLURM_HOST}}}}}]
"""


_BEHIND_SECONDS = 200
"""So that some sweeps can be before a job's second start."""


class SlurmAhead:
    """What a site knows of a Slurm's jobs; time passes when somebody says so."""

    def __init__(self, folder: Path, slurm: SlurmCluster) -> None:
        self._epoch = int(time.time() - _BEHIND_SECONDS) // PERIOD * PERIOD
        self.lustre = Site(Random(1))
        for name, version in VERSIONS.items():
            self.lustre.add_server(name, version).clock.wall_offset_ns = self._epoch * 10**9
        for target, server in TARGETS.items():
            self.lustre.add_target(target, [server])
        self._agents = [SimAgent(self.lustre, one, Random(name), 1000) for name, one in self.lustre.servers.items()]
        self._site = load(_SITE)
        self._records = Records(folder / "ledger.db")
        self._keeper = Keeper(Ledger(folder / "ledger.db"), self._site, now=self._now)
        settings = SlurmSettings(slurm_conf=f"{slurm.folder}/slurm.conf", period_seconds=3)
        self._collector = SlurmCollector(settings, lambda: None)
        self._feed = self._collector.feed()

    def start(self) -> None:
        self._keeper.start()
        for agent in self._agents:
            self._keeper.connected(agent.server.name, _mounted(self.lustre, agent))
        self._keeper.connected(SLURM_HOST, ())
        self._collector.start()
        self.pass_time(PERIOD)

    def stop(self) -> None:
        self._collector.stop(LIMIT_SECONDS)
        self._keeper.stop()

    def _now(self) -> float:
        return self._epoch + self.lustre.now_ns / 1e9 + 1.0

    def work(self, job: int, size: int) -> None:
        """Let a job write on both OSTs, and open files."""
        for target, amount in (("home-OST0000", size), ("home-OST0001", 3 * size)):
            self.lustre.mounted(target).bulk(b"%d" % job, "write", amount)
        self.lustre.mounted("home-MDT0000").do(b"%d" % job, "open", 10, count=size)

    def pass_time(self, seconds: int) -> None:
        """Let time pass, with a sweep in every period."""
        for _ in range(seconds // PERIOD):
            self.lustre.advance(PERIOD)
            for agent in self._agents:
                agent.sweep(lambda _: None, cut=set(), bad=set(), is_running=True)
            kept = [self._keeper.accept(_delivery(self.lustre, agent)) for agent in self._agents]
            for one in kept:
                one.result(LIMIT_SECONDS)
            tick = self._epoch + self.lustre.now_ns // 10**9
            wait_for(lambda tick=tick: self._keeper.published.tick_seconds == tick, "the sweep")  # type: ignore[misc]
            self._listen()

    def catch_up(self) -> None:
        """Let time pass until it is later than for Slurm."""
        while self._now() <= time.time() + PERIOD:
            self.pass_time(PERIOD)

    def hear(self, condition: Callable[[], object], what: str) -> None:
        """Listen to Slurm until something is known."""

        def is_known() -> object:
            self._listen()
            return condition()

        wait_for(is_known, what)

    def _listen(self) -> None:
        while (said := self._feed.next()) is not None:
            self._keeper.learn_jobs(CLUSTER, StreamRequest.FromString(said).job_table).result(LIMIT_SECONDS)
        question = self._keeper.job_question(SLURM_HOST)
        if question is not None:
            self._feed.ask(question.jobs, question.uids)

    def records(self) -> set[bytes]:
        """Return the jobs of which Lustre has a record."""
        return {job for target in TARGETS for job in self.lustre.mounted(target).jobs.records}

    # --- what it says

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        answer = client(self._keeper.published, site=self._site, records=self._records).get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def job(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"jobs/{CLUSTER}/{number}")
        return found

    def states(self, number: int) -> tuple[str, str]:
        """Return what Slurm and Harvest call a job's state."""
        job = self.job(number)
        return job["slurm_state"], job["state"]

    def finals(self, number: int) -> list[dict[str, Any]]:
        """Return a job's records, those of later runs first."""
        return self._records.of(JobName(CLUSTER, b"%d" % number))


def _mounted(lustre: Site, agent: SimAgent) -> list[MountedTarget]:
    found = []
    for name in lustre.targets_on(agent.server.name):
        one = MountedTarget()
        one.target.kind = KINDS[OST if "OST" in name else MDT]  # type: ignore[assignment]
        one.target.name = name
        found.append(one)
    return found


def _delivery(lustre: Site, agent: SimAgent) -> Delivery:
    """Take out of an agent's spool the sweep that it made last; it is known to be shown from now on."""
    sweeps, agent.spool = agent.spool, []
    for life, what in (showing for sweep in sweeps for showing in sweep.shown):
        life.show(what)
    messages = [(message, Batch.FromString(message)) for sweep in sweeps for message in sweep.messages]
    tick = messages[-1][1].tick_seconds
    end = Batch(incarnation=agent.incarnation, seq=agent.seq, tick_seconds=tick, period_seconds=PERIOD)
    end.last_of_sweep = True
    end.end.targets.extend(_mounted(lustre, agent))
    end.end.health.clock_nanoseconds = tick * 10**9
    batches = (*messages, (end.SerializeToString(), end))
    return Delivery(agent=agent.server.name, incarnation=agent.incarnation, seq=agent.seq, batches=batches)


def accounted(slurm: SlurmCluster, *jobs: int) -> list[Mapping[str, str]]:
    """Return what sacct prints of every run of some jobs, times in seconds since 1970."""
    columns = (
        *("JobIDRaw", "JobID", "User", "Account", "Partition", "State", "Submit", "Start", "End"),
        *("NNodes", "ExitCode", "JobName"),
    )
    said = slurm.run(
        *("env", "SLURM_TIME_FORMAT=%s", "sacct", "-D", "-X", "-n", "-P"),
        *("-j", ",".join(map(str, jobs)), "-o", ",".join(columns)),
    )
    return [dict(zip(columns, line.split("|"), strict=True)) for line in said.splitlines()]
