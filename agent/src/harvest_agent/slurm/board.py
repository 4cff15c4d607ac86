"""What is known of a cluster's jobs, for every aggregator that wants it: each has a feed of its own."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Final, TypeVar

from harvest.v1.stream_pb2 import JobTable, StreamRequest
from harvest_core.slurm.jobs import SlurmJob, is_job_number
from harvest_core.slurm.table import SlurmTable

_PART_BYTES: Final = 1 << 20
"""Small beside what an aggregator takes: between two parts a sweep may go."""
_ENTRY_BYTES: Final = 8
_WANTED_MOST: Final = 20_000
_SETTLED_MOST: Final = 4096
_UNKNOWN_MOST: Final = 65_536
_PENDING_MOST: Final = 250_000
"""Changes that wait for a slow aggregator; beyond them it is told everything again instead."""
_USERS_MOST: Final = 5000
"""In one message."""
_TRIES: Final = 3

_Value = TypeVar("_Value")


@dataclass(slots=True)
class Health:
    """How asking Slurm goes; as on the wire."""

    source: str = ""
    answered_seconds: int = 0
    problem: str = ""
    queries: int = 0
    failed_queries: int = 0
    query_microseconds: int = 0


@dataclass(eq=False)
class Feed:
    """What one stream is still to be told: all of it once, then what changes."""

    board: "JobBoard"
    is_full_due: bool = True
    full: Iterator[SlurmJob] | None = None
    pending: dict[tuple[int, int], SlurmJob] = field(default_factory=dict)
    unknown: dict[int, None] = field(default_factory=dict)
    users: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    is_health_due: bool = True

    def next(self) -> bytes | None:
        """Return the next message, if there is anything to say."""
        return self.board.part(self)

    def ask(self, jobs: Iterable[int], uids: Iterable[int]) -> None:
        """Take in what the aggregator cannot place."""
        self.board.question(self, jobs, uids)

    def close(self) -> None:
        """Want nothing more."""
        self.board.forget(self)


class JobBoard:
    """Filled by the collector's thread, read by those of the uplinks."""

    def __init__(self, source: str) -> None:
        self.health = Health(source=source)
        self.on_news: Callable[[], None] = lambda: None
        self.on_uid: Callable[[int], None] = lambda _: None
        self._lock = threading.Lock()
        self._table = SlurmTable()
        self._is_answered = False
        self._settled: OrderedDict[int, tuple[SlurmJob, ...]] = OrderedDict()
        """What accounting said, for streams that begin later."""
        self._unknown: OrderedDict[int, None] = OrderedDict()
        self._wanted: OrderedDict[int, int] = OrderedDict()
        """What accounting is to be asked for, and how often it was."""
        self._feeds: list[Feed] = []

    def feed(self) -> Feed:
        """Begin to tell one more aggregator."""
        feed = Feed(self)
        with self._lock:
            self._feeds.append(feed)
        return feed

    def forget(self, feed: Feed) -> None:
        """Tell one aggregator nothing more."""
        with self._lock:
            if feed in self._feeds:
                self._feeds.remove(feed)

    def __len__(self) -> int:
        return len(self._table)

    def take(self, jobs: Iterable[SlurmJob]) -> None:
        """Take in a piece of slurmctld's answer."""
        with self._lock:
            self._table.take(jobs)

    def answered(self, *, is_whole: bool) -> None:
        """Tell what the answer changed; runs that it forgot before their end are to be looked up."""
        with self._lock:
            changes = self._table.end(is_whole=is_whole)
            self._is_answered |= is_whole
            for number, _ in changes.lost:
                self._unknown.pop(number, None)
                self._settled.pop(number, None)
                self._want(number)
            for job in changes.changed:
                self._unknown.pop(job.id, None)  # accounting was late: when slurmctld forgets it, it will know
            self._tell(changes.changed)

    def to_ask(self, most: int) -> list[int]:
        """Return the numbers that accounting is to be asked for now."""
        with self._lock:
            return list(islice(self._wanted, most))

    def accounted(self, asked: Sequence[int], jobs: Iterable[SlurmJob]) -> None:
        """Take in accounting's answer. What it does not know is not asked again."""
        runs: dict[int, dict[tuple[int, int], SlurmJob]] = {number: {} for number in asked}
        for job in jobs:
            if job.id in runs:
                runs[job.id][job.run] = job
        with self._lock:
            for number, found in runs.items():
                tries = self._wanted.pop(number, 0) + 1
                others = self._others(number, found.values())
                if tries < _TRIES and not all(job.is_ended and job.partition for job in others):
                    self._wanted[number] = tries  # it is late, and of a brief job knows only the end at first
                    others = [job for job in others if job.partition]
                if others:
                    _put(self._settled, number, tuple(others), _SETTLED_MOST)
                    self._tell(others)
                elif number not in self._wanted and self._table.get(number) is None:
                    _put(self._unknown, number, None, _UNKNOWN_MOST)
                    for feed in self._feeds:
                        feed.unknown[number] = None

    def question(self, feed: Feed, jobs: Iterable[int], uids: Iterable[int]) -> None:
        """Answer from what is known, and look up the rest."""
        with self._lock:
            for number in jobs:
                shown = self._table.get(number)
                known = [*self._settled.get(number, ()), *([shown] if shown is not None else [])]
                if known:
                    self._tell(known, [feed])
                elif number in self._unknown or not is_job_number(number):
                    feed.unknown[number] = None
                else:
                    self._want(number)
        for uid in uids:
            self.on_uid(uid)

    def named(self, uid: int, user: tuple[str, int, str]) -> None:
        """Tell who a uid is."""
        with self._lock:
            for feed in self._feeds:
                feed.users[uid] = user
        self.on_news()

    def told(self) -> None:
        """Tell how asking goes, and that there is news."""
        with self._lock:
            for feed in self._feeds:
                feed.is_health_due = True
        self.on_news()

    def part(self, feed: Feed) -> bytes | None:
        """Return a feed's next message."""
        with self._lock:
            if feed.is_full_due and self._is_answered and feed.full is None:
                feed.is_full_due = False
                feed.pending.clear()
                others = (job for number, found in self._settled.items() for job in self._others(number, found))
                feed.full = iter([*others, *self._table.jobs()])
            is_news = feed.full is not None or feed.pending or feed.unknown or feed.users
            if not is_news and not feed.is_health_due:
                return None
            request = StreamRequest()
            table = request.job_table
            if feed.full is not None:
                table.full = True
                table.last = _fill(table, feed.full)
                feed.full = None if table.last else feed.full
            else:
                table.last = _fill(table, _drained(feed.pending))
            if table.last:
                self._finish(table, feed)
            return request.SerializeToString()

    def _want(self, number: int) -> None:
        if number in self._wanted or len(self._wanted) < _WANTED_MOST:
            self._wanted.setdefault(number, 0)

    def _others(self, number: int, runs: Iterable[SlurmJob]) -> list[SlurmJob]:
        """Leave out the run that slurmctld shows: it knows better."""
        shown = self._table.get(number)
        return [job for job in runs if shown is None or job.run != shown.run]

    def _tell(self, jobs: Iterable[SlurmJob], feeds: Iterable[Feed] | None = None) -> None:
        jobs = list(jobs)
        for feed in self._feeds if feeds is None else feeds:
            if feed.is_full_due:
                continue
            for job in jobs:
                feed.pending.pop(job.run, None)  # later than all that was said of others under this number
                feed.pending[job.run] = job
            if len(feed.pending) > _PENDING_MOST:
                feed.pending.clear()
                feed.full, feed.is_full_due = None, True

    def _finish(self, table: JobTable, feed: Feed) -> None:
        """Add what goes with the last part."""
        table.unknown_jobs.extend(feed.unknown)
        feed.unknown.clear()
        while feed.users and len(table.users) < _USERS_MOST:
            uid, (name, gid, group) = feed.users.popitem()
            table.users.add(uid=uid, name=name, gid=gid, group=group)
        for name, value in asdict(self.health).items():
            setattr(table.health, name, value)
        feed.is_health_due = False


def _fill(table: JobTable, jobs: Iterator[SlurmJob]) -> bool:
    """Add jobs until the part is large enough; True: those were all."""
    size = 0
    for job in jobs:
        message = table.jobs.add()
        job.write(message)
        size += message.ByteSize() + _ENTRY_BYTES
        if size >= _PART_BYTES:
            return False
    return True


def _drained(jobs: dict[tuple[int, int], SlurmJob]) -> Iterator[SlurmJob]:
    """Take jobs away, the oldest news first."""
    for run in list(jobs):
        yield jobs.pop(run)


def _put(known: "OrderedDict[int, _Value]", number: int, value: _Value, most: int) -> None:
    known[number] = value
    known.move_to_end(number)
    while len(known) > most:
        known.popitem(last=False)
