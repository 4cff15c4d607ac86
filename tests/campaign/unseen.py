"""What was never shown: the simulator knows, and the accounting must have said that it may be so."""

from collections import defaultdict
from dataclasses import dataclass, field

from harvest_core.accounting.apply import Work
from harvest_core.accounting.evidence import interval_seconds
from harvest_core.facts import Facts, Mount
from harvest_sim.lives import EndReason, Life
from harvest_sim.truth import Truth

_NSECS = 10**9
_Job = tuple[str, bytes]
"""(kind of target, id)."""


@dataclass(frozen=True, slots=True)
class WholeRead:
    """A whole read that reached the ledger."""

    read_ns: int
    """The true time."""
    mount: Mount
    lives: frozenset[int]
    interval_seconds: int
    period_seconds: int
    directory_gone: bool


@dataclass(slots=True)
class Unseen:
    """What the accounting said about what it did not see, and the reads by which to judge that."""

    seconds: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By target."""
    incomplete: set[_Job] = field(default_factory=set)
    reads: defaultdict[str, list[WholeRead]] = field(default_factory=lambda: defaultdict(list))

    def note(self, facts: Facts, work: Work, lives: dict[int, int], read_ns: int) -> None:
        """Write down one read."""
        self.seconds[facts.target] += work.unseen_seconds
        self.incomplete.update((facts.kind, job) for job in work.incomplete_jobs)
        if facts.complete:
            self.reads[facts.target].append(
                WholeRead(
                    read_ns,
                    facts.mount,
                    frozenset(lives.values()),
                    interval_seconds(facts),
                    facts.period_seconds,
                    facts.directory_gone,
                )
            )

    def untold(self, truth: Truth) -> list[str]:
        """Return the lives that did more than was shown, for a reason of which the design promises to tell.

        A remount that changes no instance cannot be seen.
        """
        found = []
        for life in truth.unshown():
            if life.ended_ns is None:
                continue
            reads = sorted(self.reads[life.scope.target], key=lambda read: read.read_ns)
            before = [read for read in reads if read.read_ns <= life.ended_ns]
            after = [read for read in reads if read.read_ns > life.ended_ns]
            if not before or not after or not _is_promised(life, before[-1], after[0]):
                continue
            jobs = {truth.lives[number].readable_key for number in before[-1].lives | after[0].lives}
            kind = life.scope.kind.name
            if not self.seconds[life.scope.target]:
                found.append(f"no time of {life.scope.target} was unseen, though {life.readable_key!r} was")
            elif life.readable_key in jobs and (kind, life.readable_key) not in self.incomplete:
                found.append(f"{life.readable_key!r} did more on {life.scope.target} than was shown, and is not marked")
        return found


def _is_promised(life: Life, before: WholeRead, after: WholeRead) -> bool:
    if life.end_reason is EndReason.EVICTED:
        assert life.ended_ns is not None
        interval = min(before.interval_seconds, after.interval_seconds)
        idled = life.ended_ns - life.journal[-1].at_ns >= interval * _NSECS
        long = after.read_ns - before.read_ns > (interval + 1) * _NSECS
        return idled and (long or interval <= 2 * after.period_seconds)
    if life.end_reason is EndReason.CLEARED:
        return False
    return before.mount != after.mount or after.directory_gone
