"""The truth: every life that was ever lived, what was done in it and what of it was ever shown."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from harvest_sim.lives import Life, Scope, Showing, Subject
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
        self.doubtful: list[Showing] = []
        """What a reader saw that died before anybody could know whether it had it safe, or passed it on."""

    def born(self, *, subject: Subject, scope: Scope, key: bytes, ops: tuple[Op, ...], created_ns: int) -> Life:
        """Return a new life."""
        life = Life(number=len(self.lives), subject=subject, scope=scope, key=key, ops=ops, created_ns=created_ns)
        self.lives.append(life)
        return life

    def doubt(self, server: str, *, since_ns: int) -> None:
        """Take back what was shown of a server's jobs since then: nobody knows who still has it."""
        for life in self.select():
            if life.scope.server == server:
                self.doubtful += [(life, shown) for shown in life.shown if shown.at_ns >= since_ns]
                life.shown = [shown for shown in life.shown if shown.at_ns < since_ns]

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

    def possible(self, *, readable: bool = False) -> dict[TotalKey, list[list[Amount]]]:
        """Return, for jobs' lives of which doubtful values were never shown again, what else each may have shown.

        For each key, a list per such life: by how much its last value may be higher than the last that is certain.
        """
        found: dict[TotalKey, list[list[Amount]]] = {}
        values: dict[int, list[Showing]] = {}
        for life, shown in self.doubtful:
            if life.subject is Subject.JOB and (not life.shown or shown.revision > life.shown[-1].revision):
                values.setdefault(life.number, []).append((life, shown))
        for showings in values.values():
            life = showings[0][0]
            certain = _last_shown(life)
            more: dict[TotalKey, list[Amount]] = {}
            for _, shown in showings:
                for index, samples, total in shown.values:
                    key = _key(life, life.ops[index])
                    key = key._replace(key=life.readable_key) if readable else key
                    before = certain.get(index, (0, 0))
                    more.setdefault(key, []).append(Amount(samples - before[0], total - before[1]))
            for key, amounts in more.items():
                found.setdefault(key, []).append(amounts)
        return found

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
