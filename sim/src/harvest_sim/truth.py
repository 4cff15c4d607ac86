"""The truth: every life that was ever lived, what was done in it and what of it was ever shown."""

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from harvest_sim.lives import Life, Scope, Subject
from harvest_sim.ops import Kind, Op

_NSECS = 1_000_000_000


class Row(NamedTuple):
    """One op of one life."""

    life: Life
    op: Op
    done_samples: int
    done_sum: int
    shown_samples: int
    shown_sum: int


class TotalKey(NamedTuple):
    """Whose total: the key is a job id, or a NID."""

    fs: str
    kind: Kind
    key: bytes
    op: str
    unit: str


class Amount(NamedTuple):
    """Samples and sum."""

    samples: int
    total: int


class Truth:
    """All lives of a site, by the simulator's own numbers."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.events: Tally[str] = Tally()
        """How often each thing happened that an accounting must survive."""

    def born(self, *, subject: Subject, scope: Scope, key: bytes, ops: tuple[Op, ...], created_ns: int) -> Life:
        """Return a new life."""
        life = Life(number=len(self.lives), subject=subject, scope=scope, key=key, ops=ops, created_ns=created_ns)
        self.lives.append(life)
        return life

    def select(
        self,
        subject: Subject = Subject.JOB,
        *,
        fs: str | None = None,
        target: str | None = None,
        mount: int | None = None,
        key: bytes | None = None,
    ) -> Iterator[Life]:
        """Yield the lives asked for, in order of birth."""
        for life in self.lives:
            scope = life.scope
            if (
                life.subject is subject
                and (fs is None or scope.fs == fs)
                and (target is None or scope.target == target)
                and (mount is None or scope.mount == mount)
                and (key is None or life.key == key)
            ):
                yield life

    def rows(self, subject: Subject = Subject.JOB) -> Iterator[Row]:
        """Yield every op of every life that counted anything."""
        for life in self.select(subject):
            shown = _last_shown(life)
            for index, (samples, total) in life.done().items():
                yield Row(life, life.ops[index], samples, total, *shown.get(index, (0, 0)))

    def done(self, subject: Subject = Subject.JOB, *, readable: bool = False) -> dict[TotalKey, Amount]:
        """Return what was done; ``readable``: by the keys that a reader gets to know."""
        return _totals(
            (_total_key(row, readable=readable), row.done_samples, row.done_sum) for row in self.rows(subject)
        )

    def shown(self, subject: Subject = Subject.JOB, *, readable: bool = False) -> dict[TotalKey, Amount]:
        """Return the sums of the last values shown of each life; what was never shown is left out."""
        return _totals(
            (_total_key(row, readable=readable), row.shown_samples, row.shown_sum)
            for row in self.rows(subject)
            if row.shown_samples
        )

    def unshown(self, subject: Subject = Subject.JOB) -> list[Life]:
        """Return the lives that did more than was ever shown of them."""
        return [life for life in self.select(subject) if not life.shown or life.shown[-1].revision < life.revision]

    def successions(self, subject: Subject = Subject.JOB) -> Iterator[tuple[Life, Life]]:
        """Yield (life, next life) of keys that came back on the same mount."""
        last: dict[tuple[str, int, bytes], Life] = {}
        for life in self.select(subject):
            place = (life.scope.target, life.scope.mount, life.key)
            if place in last:
                yield last[place], life
            last[place] = life

    def work_between(self, since_ns: int, until_ns: int, subject: Subject = Subject.JOB) -> dict[TotalKey, Amount]:
        """Return what was done after ``since_ns``, until and with ``until_ns``."""
        return _totals(
            (_key(life, life.ops[work.op_index]), work.samples, work.total)
            for life in self.select(subject)
            for work in life.journal
            if since_ns < work.at_ns <= until_ns
        )

    def work_per_tick(self, ticks_ns: Sequence[int], subject: Subject = Subject.JOB) -> list[dict[TotalKey, Amount]]:
        """Return what was done between each two ticks: the one before excluded, the one at the end included."""
        parts: list[list[tuple[TotalKey, int, int]]] = [[] for _ in ticks_ns]
        for life in self.select(subject):
            for work in life.journal:
                tick = bisect_left(ticks_ns, work.at_ns)
                if 0 < tick < len(ticks_ns):
                    parts[tick].append((_key(life, life.ops[work.op_index]), work.samples, work.total))
        return [_totals(part) for part in parts[1:]]

    def highest_rates(
        self, since_ns: int, until_ns: int, *, window_ns: int, subject: Subject = Subject.JOB
    ) -> dict[TotalKey, tuple[float, float]]:
        """Return per key the most samples/s and the largest sum/s in any window within the two times."""
        journals: dict[TotalKey, list[tuple[int, int, int]]] = defaultdict(list)
        for life in self.select(subject):
            for work in life.journal:
                if since_ns < work.at_ns <= until_ns:
                    journals[_key(life, life.ops[work.op_index])].append((work.at_ns, work.samples, work.total))
        return {key: _highest_rate(sorted(journal), window_ns) for key, journal in journals.items()}


def _last_shown(life: Life) -> dict[int, tuple[int, int]]:
    values = life.shown[-1].values if life.shown else ()
    return {index: (samples, total) for index, samples, total in values}


def _total_key(row: Row, *, readable: bool) -> TotalKey:
    return _key(row.life, row.op)._replace(key=row.life.readable_key) if readable else _key(row.life, row.op)


def _key(life: Life, op: Op) -> TotalKey:
    return TotalKey(life.scope.fs, life.scope.kind, life.key, op.name, op.unit)


def _totals(parts: Iterable[tuple[TotalKey, int, int]]) -> dict[TotalKey, Amount]:
    totals: dict[TotalKey, Amount] = {}
    for key, samples, total in parts:
        before = totals.get(key)
        totals[key] = (
            Amount(samples, total) if before is None else Amount(before.samples + samples, before.total + total)
        )
    return totals


def _highest_rate(journal: list[tuple[int, int, int]], window_ns: int) -> tuple[float, float]:
    samples = total = most_samples = most_total = 0
    first = 0
    for at_ns, more_samples, more_total in journal:
        samples += more_samples
        total += more_total
        while at_ns - journal[first][0] >= window_ns:
            samples -= journal[first][1]
            total -= journal[first][2]
            first += 1
        most_samples = max(most_samples, samples)
        most_total = max(most_total, total)
    return most_samples * _NSECS / window_ns, most_total * _NSECS / window_ns
