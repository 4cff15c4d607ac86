"""One mounted target: it counts every operation where Lustre does."""

from harvest_sim.clock import ServerClock
from harvest_sim.exports import Exports, Stats
from harvest_sim.jobstats import JobStats
from harvest_sim.lives import EndReason, Scope, Subject
from harvest_sim.ops import bulk_ops, op_indexes
from harvest_sim.truth import Truth


class MountedTarget:
    """A target from mount to unmount; all its counters start at 0 and die with it (§2.4)."""

    def __init__(
        self,
        *,
        scope: Scope,
        clock: ServerClock,
        truth: Truth,
        cleanup_interval_seconds: int = 600,
        stats_header: bool = True,
    ) -> None:
        self.scope = scope
        self.jobs = JobStats(
            scope=scope,
            clock=clock,
            truth=truth,
            cleanup_interval_seconds=cleanup_interval_seconds,
            stats_header=stats_header,
        )
        self.exports = Exports(scope=scope, clock=clock, truth=truth)
        self.stats = Stats(subject=Subject.TARGET, key=b"", scope=scope, clock=clock, truth=truth)
        self._indexes = op_indexes(scope.version, scope.kind)

    def do(self, job_id: bytes, op: str, amount: int = 0, *, count: int = 1, nid: str | None = None) -> None:
        """Count ``count`` operations in job_stats, in the target's stats and in the NID's export.

        ``amount`` is in the unit of the op: bytes, or microseconds; ops that only count samples ignore it.
        """
        index = self._indexes.get(op)
        if index is None:
            raise ValueError(f"{self.scope.version.text} does not count {op!r} on {self.scope.target}")
        self.jobs.count(job_id, index, amount, count)
        self.stats.count(index, amount, count)
        if op == "statfs":
            self.stats.count_generic(op, count)  # §3: two different counters of one name
        if nid is not None:
            self.exports.stats[nid].count(index, amount, count)

    def bulk(
        self,
        job_id: bytes,
        direction: str,
        size_bytes: int,
        *,
        usecs: int = 500,
        count: int = 1,
        nid: str | None = None,
    ) -> None:
        """Do ``count`` RPCs that read or write ``size_bytes`` each, counted as the version does (§1.3)."""
        names = bulk_ops(self.scope.version, self.scope.kind, direction)
        for name, amount in zip(names, (size_bytes, usecs), strict=False):
            self.do(job_id, name, amount, count=count, nid=nid)
        for name in ("preprw", "commitrw"):
            self.stats.count_generic(name, count)
            if nid is not None:
                self.exports.stats[nid].count_generic(name, count)

    def counts(self, op: str) -> bool:
        """Return whether this version counts ``op``."""
        return op in self._indexes

    def end(self, reason: EndReason) -> None:
        """Free everything: unmount or crash (§2.4)."""
        self.jobs.end(reason)
        self.exports.end(reason)
        self.stats.end(reason)
