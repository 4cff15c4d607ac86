"""The job records of one mounted target: creation, counting, eviction, clearing."""

from collections.abc import Callable, Iterator

from harvest_sim.clock import NSECS, ServerClock
from harvest_sim.ids import cut_id, id_from_command, job_id_text
from harvest_sim.lives import EndReason, Life, Picture, Scope, Subject
from harvest_sim.ops import op_list
from harvest_sim.text import empty_op_lines, job_stats_text, op_line, record_head
from harvest_sim.truth import Truth
from harvest_sim.versions import ScanRule, Traits, traits


class Record:
    """One job's record: its life, its times by the server's clock, and its text until it changes."""

    __slots__ = ("_changed", "_lines", "_text", "id_text", "life", "place", "started_ns", "updated_ns")

    def __init__(self, life: Life, *, place: int, started_ns: int) -> None:
        scope = life.scope
        self.life = life
        self.place = place
        """The creation number within the mount (§1.6)."""
        self.started_ns = started_ns
        self.updated_ns = started_ns
        self.id_text = job_id_text(scope.version, life.key)
        self._lines = list(empty_op_lines(scope.version, scope.kind))
        self._changed: set[int] = set()
        self._text: bytes | None = None

    def count(self, index: int, amount: int, count: int, *, stamp_ns: int, now_ns: int) -> None:
        """Count operations; ``stamp_ns`` is the server's clock, ``now_ns`` the true time."""
        self.life.count(index, amount, count, now_ns)
        self.touch(index, stamp_ns)

    def touch(self, index: int, stamp_ns: int) -> None:
        """Note that one op has changed."""
        self.updated_ns = stamp_ns  # §1.5: snapshot_time is the time of the last counted operation
        self._changed.add(index)
        self._text = None

    def forget_text(self) -> None:
        """Print it anew next time."""
        self._text = None

    def text(self, features: Traits, *, stats_header: bool) -> bytes:
        """Return the record as Lustre prints it."""
        if self._text is None:
            life = self.life
            for index in self._changed:
                self._lines[index] = op_line(features, life.ops[index], life.counters[index])
            self._changed.clear()
            head = record_head(
                features,
                self.id_text,
                snapshot_ns=self.updated_ns,
                start_ns=self.started_ns,
                stats_header=stats_header,
            )
            self._text = head + b"".join(self._lines)
        return self._text


class JobStats:
    """The ``job_stats`` of one mounted target."""

    def __init__(
        self,
        *,
        scope: Scope,
        clock: ServerClock,
        truth: Truth,
        cleanup_interval_seconds: int = 600,
        stats_header: bool = True,
    ) -> None:
        self.features = traits(scope.version)
        self.records: dict[bytes, Record] = {}
        """In the order of the file: by creation, or from 2.16.51 by last update (§2.4, §2.1)."""
        self.ended_ns: dict[bytes, int] = {}
        """When the last record ended of each job that has none now."""
        self.is_header_due = False
        """From 2.16.51: whether the next record shown to anybody gets the header (§1.6)."""
        self.is_gone = False
        self.truth = truth
        self.time = clock.time
        self._scope = scope
        self._ops = op_list(scope.version, scope.kind)
        # §1.5, §2.1: one clock for what is printed and for eviction; since boot in 2.14.56-2.15.1
        self._stamp = clock.boot_ns if self.features.uses_boot_clock else clock.wall_ns
        self._scans_on_any_op = self.features.scan_rule is ScanRule.ANY_OPERATION
        self._next_place = 0
        self._last_scan_ns = self._stamp()
        self._stats_header = stats_header
        self.cleanup_interval_seconds = self._kept_interval(cleanup_interval_seconds)

    def count(self, job_id: bytes, index: int, amount: int, count: int) -> None:
        """Count operations of a job; an empty id is never logged (§1.2)."""
        job_id = cut_id(job_id)
        if job_id:
            record = self._found(job_id)
            record.count(index, amount, count, stamp_ns=self._stamp(), now_ns=self.time.now_ns)

    def begin(self, job_id: bytes, index: int, amount: int) -> Callable[[], None]:
        """Count an operation of which a reader may see the sample before the sum (§1.6); return its end."""
        record = self._found(cut_id(job_id))
        record.life.begin(index, amount, self.time.now_ns)
        record.touch(index, self._stamp())

        def finish() -> None:
            record.life.finish(index, amount, self.time.now_ns)
            record.touch(index, record.updated_ns)

        return finish

    def reader_closed(self) -> None:
        """Scan after a reader's output: up to 2.7.56 reading drops nothing (§2.1 (b))."""
        if not self._scans_on_any_op:
            self._scan_if_due()

    def set_cleanup_interval(self, seconds: int) -> None:
        """Do what writing job_cleanup_interval does."""
        self.cleanup_interval_seconds = self._kept_interval(seconds)
        if not self._scans_on_any_op:
            self._scan_if_due()  # §2.1 (c)

    def write(self, command: bytes) -> None:
        """Do what writing to job_stats does: ``clear``, or one id (§1.2, §2.3)."""
        if command.removesuffix(b"\n") == b"clear":
            self.truth.events["clear"] += 1
            # §2.3: 2.14.56-2.15.5 `clear` used the eviction age; where that is "never", it removes none
            spares_busy = self.features.clear_spares_busy
            doomed = self._idle() if spares_busy else list(self.records)
            if len(doomed) < len(self.records):
                self.truth.events["clear spared busy jobs"] += 1
            self._drop(doomed, EndReason.CLEARED)
            return
        job_id = id_from_command(self._scope.version, command)
        if job_id in self.records:
            self.truth.events["clear of one job"] += 1
            self._drop([job_id], EndReason.CLEARED)

    def end(self, reason: EndReason) -> None:
        """Free everything: unmount or crash (§2.4)."""
        self._drop(list(self.records), reason)
        self.is_gone = True

    def set_stats_header(self, *, enabled: bool) -> None:
        """Do what writing enable_stats_header does (§1.1): from now on records print with or without their start."""
        self._stats_header = enabled
        for record in self.records.values():
            record.forget_text()

    def record_text(self, record: Record) -> bytes:
        """Return one record as it is printed now."""
        return record.text(self.features, stats_header=self._stats_header)

    def picture(self) -> Picture:
        """Return the whole file as one reader without interruption sees it, and what it shows."""
        now_ns = self.time.now_ns
        records = self.records.values()
        text = job_stats_text(self._scope.version, map(self.record_text, records))
        showings = (record.life.showing(now_ns) for record in records)
        return text, [showing for showing in showings if showing is not None]

    def lives(self) -> Iterator[Life]:
        """Yield the lives of the present records."""
        return (record.life for record in self.records.values())

    def _found(self, job_id: bytes) -> Record:
        if self._scans_on_any_op:
            # §2.1: up to 2.7.56 on any operation; in these sources the scan comes before the job is looked up (which
            # the text does not say), so that a job that returns late loses its own record
            self._scan_if_due()
        record = self.records.get(job_id)
        if record is None:
            if not self._scans_on_any_op:
                self._scan_if_due()  # §2.1 (a): the first op of an id that is not in the table
            record = self._create(job_id)
        elif not self.features.keeps_creation_order:
            # §2.1: from 2.16.51 an LRU list; only that it is not creation order is promised
            self.records[job_id] = self.records.pop(job_id)
        return record

    def _kept_interval(self, seconds: int) -> int:
        # §2.1: 2.14.56+ keeps integer(value/2), so 1 becomes 0 = never
        return seconds // 2 * 2 if self.features.halves_interval else seconds

    def _create(self, job_id: bytes) -> Record:
        self.time.pass_a_moment()
        life = self.truth.born(
            subject=Subject.JOB,
            scope=self._scope,
            key=job_id,
            ops=self._ops,
            created_ns=self.time.now_ns,
        )
        record = Record(life, place=self._next_place, started_ns=self._stamp())
        self._next_place += 1
        self.records[job_id] = record
        self.ended_ns.pop(job_id, None)
        return record

    def _scan_if_due(self) -> None:
        interval_ns = self.cleanup_interval_seconds * NSECS
        if interval_ns == 0:
            return  # §2.1: 0 = never
        # §2.1: at most once per interval, from 2.7.57 at most every interval/2
        pause_ns = interval_ns if self._scans_on_any_op else interval_ns // 2
        now_ns = self._stamp()
        if now_ns - self._last_scan_ns < pause_ns:
            return
        self._last_scan_ns = now_ns
        self._drop(self._idle(), EndReason.EVICTED)

    def _idle(self) -> list[bytes]:
        # §2.1: by last update, never by access
        if self.cleanup_interval_seconds == 0:
            return []
        oldest_ns = self._stamp() - self.cleanup_interval_seconds * NSECS
        return [job_id for job_id, record in self.records.items() if record.updated_ns < oldest_ns]

    def _drop(self, job_ids: list[bytes], reason: EndReason) -> None:
        now_ns = self.time.now_ns
        for job_id in job_ids:
            self.records.pop(job_id).life.end(reason, now_ns)
            self.ended_ns[job_id] = now_ns
        if job_ids:
            self.truth.events[reason.value] += len(job_ids)
