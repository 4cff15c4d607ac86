"""The demo's site in virtual time, read by agents' own collectors and accounted at once: as slowly as one likes."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from demo.comparison import Difference, differences
from demo.play import settings
from harvest.v1.stream_pb2 import StreamRequest
from harvest_agent.clocks import ServerClocks
from harvest_agent.collecting import Collector
from harvest_agent.tree import Tree
from harvest_core.accounting.apply import Stay
from harvest_core.accounting.targets import TargetAccount
from harvest_core.accounting.totals import job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import Facts
from harvest_sim.live import Live, World
from unit.agent.spooling import Bench

_EPOCH_SECONDS = 1_760_000_000
_NSECS = 10**9
_STEP_SECONDS = 0.1


class SlowReading:
    """A site, and on each server a reader that comes at random moments."""

    def __init__(self, folder: Path, *, seconds: float, period_seconds: tuple[float, float], seed: int) -> None:
        self._now = 0.0
        self._period_seconds = period_seconds
        self._rng = Random(seed)
        self._trees = folder / "lustre"
        self.live = Live(
            replace(settings(seed=seed), publish_seconds=2 * _STEP_SECONDS),
            root=self._trees,
            for_seconds=seconds,
            world=World(
                seconds=lambda: self._now,
                epoch_seconds=_EPOCH_SECONDS,
                sleep=lambda _: None,
                say=lambda _: None,
                is_stopped=lambda: False,
                is_report_wanted=lambda: False,
            ),
        )
        self._boots = self._boot_ids()
        self._benches = {server: Bench(folder / "spools" / server, max_bytes=1 << 26) for server in self._boots}
        self._collectors = {server: self._collector(server) for server in self._boots}
        self._sent: dict[str, dict[bytes, int]] = {server: {} for server in self._boots}
        self._accounts: defaultdict[str, TargetAccount] = defaultdict(TargetAccount)

    def run(self) -> list[Difference]:
        """Let it go on to its end; return the totals that differ from the truth."""
        due = dict.fromkeys(self._boots, 0.0)
        while not self.live.is_over:
            self.live.step()
            boots = self._boot_ids()
            for server in [server for server in boots if boots[server] != self._boots[server]]:
                self.live.face.reader_died(server)
                self._collectors[server] = self._collector(server)
            self._boots = boots
            for server in [server for server in due if due[server] <= self._now]:
                due[server] = self._now + self._rng.uniform(*self._period_seconds)
                self._sweep(server)
            self._now += _STEP_SECONDS
        for server in [*self._boots, *self._boots]:
            self._sweep(server)
        self.live.face.poll()
        return differences(self.live.site.truth, self._jobs())

    def close(self) -> None:
        """Stop watching."""
        self.live.face.close()

    def _boot_ids(self) -> dict[str, str]:
        return {name: server.boot_id for name, server in self.live.site.servers.items()}

    def _collector(self, server: str) -> Collector:
        root = str(self._trees / server)

        def wall() -> int:
            return round((_EPOCH_SECONDS + self._now) * _NSECS)

        clocks = ServerClocks(root, wall=wall, since_boot=lambda: round(self._now * _NSECS))
        spool = self._benches[server].spool
        return Collector(Tree(root), (), name=server, spool=spool, clocks=clocks, wall=wall)

    def _sweep(self, server: str) -> None:
        self._collectors[server].sweep(int(_EPOCH_SECONDS + self._now), 1)
        while (sweep := self._benches[server].shelf.sweep_after(self._sent[server])) is not None:
            self._sent[server][sweep.incarnation] = sweep.seq
            parts: dict[str, list[Facts]] = {}
            for record in sweep.records():
                batch = StreamRequest.FromString(record.payload).batch
                if not batch.last_of_sweep:
                    parts.setdefault(batch.target.name, []).append(read(batch))
            for target, facts in parts.items():
                self._accounts[target].apply(joined(facts))

    def _jobs(self) -> Iterable[dict[str, Any]]:
        """Return jobs as the API does, as far as they are compared; none is excused by a flag."""
        stays: defaultdict[tuple[str, str], list[Stay]] = defaultdict(list)
        for target, account in self._accounts.items():
            filesystem, _, index = target.rpartition("-")
            stays[filesystem, index[:3].lower()] += account.stays.values()
        for (filesystem, kind), mine in stays.items():
            for job, work in job_totals(mine).items():
                ops = {
                    name: {"samples": samples, "sum": 0 if unit == "reqs" else total}
                    for (name, unit), (samples, total) in work.counters.items()
                }
                done = {"ost": {"ops": {}}, "mdt": {"ops": {}}, kind: {"ops": ops}}
                name = job.decode(errors="surrogateescape")
                yield {"job": name, "ambiguous_samples": 0, "ambiguous_bytes": 0, "filesystems": {filesystem: done}}
