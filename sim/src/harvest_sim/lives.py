"""A life: what a record, export or stats file counted from its creation to its end, and what of it was shown."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from harvest_sim.counters import Counter
from harvest_sim.ids import readable_id
from harvest_sim.ops import Kind, Op
from harvest_sim.versions import Version


class Subject(Enum):
    """What lives."""

    JOB = "job"
    EXPORT = "export"
    TARGET = "target"


class EndReason(Enum):
    """Why a life ended."""

    EVICTED = "evicted"
    CLEARED = "cleared"
    UNMOUNTED = "unmounted"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a life was lived: one mount of one target."""

    fs: str
    target: str
    kind: Kind
    mount: int
    """The simulator's own number of the mount: unlike ``instance`` it never repeats."""
    instance: int
    server: str
    version: Version


class Shown(NamedTuple):
    """What a reader got to see of a life."""

    at_ns: int
    revision: int
    values: tuple[tuple[int, int, int], ...]
    """(index of the op, samples, sum) of every op that had counted something."""


class Work(NamedTuple):
    """One entry of a life's journal."""

    at_ns: int
    op_index: int
    samples: int
    total: int


class Life:
    """What one key (a job id, a NID) did on one mount until its counters were lost."""

    __slots__ = (
        *("counters", "created_ns", "end_reason", "ended_ns", "journal"),
        *("key", "number", "ops", "revision", "scope", "shown", "subject"),
    )

    def __init__(
        self, *, number: int, subject: Subject, scope: Scope, key: bytes, ops: tuple[Op, ...], created_ns: int
    ) -> None:
        self.number = number
        self.subject = subject
        self.scope = scope
        self.key = key
        self.ops = ops
        self.created_ns = created_ns
        self.ended_ns: int | None = None
        self.end_reason: EndReason | None = None
        self.counters: dict[int, Counter] = {}
        self.journal: list[Work] = []
        self.revision = 0
        self.shown: list[Shown] = []

    @property
    def readable_key(self) -> bytes:
        """The key as a perfect reader knows it."""
        return readable_id(self.scope.version, self.key) if self.subject is Subject.JOB else self.key

    @property
    def is_over(self) -> bool:
        """Whether Lustre has freed it."""
        return self.ended_ns is not None

    def count(self, index: int, amount: int, count: int, now_ns: int) -> None:
        """Count ``count`` operations of ``amount`` each."""
        op = self.ops[index]
        if not op.has_values:
            amount = 0
        counter = self.counters.get(index)
        if counter is None:
            counter = self.counters[index] = Counter()
        counter.add(amount, count=count, with_hist=op.has_hist)
        self.journal.append(Work(now_ns, index, count, amount * count))
        self.revision += 1

    def begin(self, index: int, amount: int, now_ns: int) -> None:
        """Count an operation whose sum is still on its way (§1.6); it must have values."""
        op = self.ops[index]
        counter = self.counters.setdefault(index, Counter())
        counter.add_samples(amount, count=1, with_hist=op.has_hist)
        self.journal.append(Work(now_ns, index, 1, 0))
        self.revision += 1

    def finish(self, index: int, amount: int, now_ns: int) -> None:
        """Count the sum of an operation that was begun."""
        self.counters[index].add_sums(amount, count=1)
        self.journal.append(Work(now_ns, index, 0, amount))
        self.revision += 1

    def done(self) -> dict[int, tuple[int, int]]:
        """Return samples and sum by op index."""
        return {index: (counter.samples, counter.total) for index, counter in self.counters.items()}

    def showing(self, now_ns: int) -> "Showing | None":
        """Return what a reader that is served now will see; None if that was shown before."""
        if self.shown and self.shown[-1].revision == self.revision:
            return None
        values = tuple((index, counter.samples, counter.total) for index, counter in self.counters.items())
        return self, Shown(now_ns, self.revision, values)

    def show(self, shown: Shown) -> None:
        """Remember that a reader has received ``shown``; an older picture says nothing new."""
        if not self.shown or shown.revision > self.shown[-1].revision:
            self.shown.append(shown)

    def end(self, reason: EndReason, now_ns: int) -> None:
        """Free it."""
        self.ended_ns = now_ns
        self.end_reason = reason


Showing = tuple[Life, Shown]
Picture = tuple[bytes, list[Showing]]
"""A text, and what it shows that was not shown before."""
