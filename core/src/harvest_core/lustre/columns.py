"""Many job records side by side, one column per kind of number: what a sweep is made of."""

from array import array
from dataclasses import dataclass, field

from harvest_core.lustre.counters import Counter
from harvest_core.lustre.job_stats import JobRecord

ABSENT = -1
"""No counter is negative, so this stands for "not printed, or not believed"."""
_SECONDS_MAX = 9_000_000_000
_TOGETHER_MOST = 1024


def column() -> "array[int]":
    """Return an empty column of 64-bit numbers."""
    return array("q")


@dataclass(slots=True)
class Codes:
    """Numbers for the (name, unit) pairs of counters, in order of first appearance."""

    known: dict[tuple[str, str], int] = field(default_factory=dict)
    _together: "dict[tuple[tuple[str, str], ...], array[int]]" = field(default_factory=dict)

    def of(self, name: str, unit: str) -> int:
        """Return the number of a counter, a new one where it was never seen."""
        return self.known.setdefault((name, unit), len(self.known))

    def of_all(self, keys: tuple[tuple[str, str], ...]) -> "array[int]":
        """Return the numbers of counters that stand together; few combinations are usual, and those are remembered."""
        found = self._together.get(keys)
        if found is None:
            found = array("q", [self.of(*key) for key in keys])
            if len(self._together) < _TOGETHER_MOST:
                self._together[keys] = found
        return found


@dataclass(slots=True)
class JobColumns:
    """Records that moved since the read before."""

    slot: "array[int]" = field(default_factory=column)
    """Which record: the reader's own number for a job on this target."""
    snapshot: "array[int]" = field(default_factory=column)
    """When the last operation was counted, in nanoseconds of the server's clock; 0 = not said."""
    whole: "array[int]" = field(default_factory=column)
    """1 where the server prints whole seconds only."""
    start: "array[int]" = field(default_factory=column)
    """When the record was created, likewise."""
    partial: "array[int]" = field(default_factory=column)
    """Positions of records with lines that were not understood: what they lack is unknown, not 0."""
    rows: "array[int]" = field(default_factory=column)
    """How many of the counters below belong to this record."""

    code: "array[int]" = field(default_factory=column)
    samples: "array[int]" = field(default_factory=column)
    minimum: "array[int]" = field(default_factory=column)
    maximum: "array[int]" = field(default_factory=column)
    sum: "array[int]" = field(default_factory=column)

    hist_row: "array[int]" = field(default_factory=column)
    hist_power: "array[int]" = field(default_factory=column)
    hist_count: "array[int]" = field(default_factory=column)

    def extend(self, other: "JobColumns") -> None:
        """Add the records of another."""
        records, rows = len(self.slot), len(self.code)
        self.partial.extend(array("q", [place + records for place in other.partial]))
        self.hist_row.extend(array("q", [place + rows for place in other.hist_row]))
        for name in self.__dataclass_fields__.keys() - {"partial", "hist_row"}:
            getattr(self, name).extend(getattr(other, name))

    def append(self, slot: int, record: JobRecord, codes: Codes) -> None:
        """Add one record that was read as a value."""
        if record.unread:
            self.partial.append(len(self.slot))
        self.slot.append(slot)
        self.snapshot.append(nanoseconds(record.snapshot_time))
        self.whole.append("." not in (record.snapshot_time or ""))
        self.start.append(nanoseconds(record.start_time))
        self.rows.append(len(record.counters))
        for counter in record.counters:
            self._append_counter(counter, codes)

    def _append_counter(self, counter: Counter, codes: Codes) -> None:
        for power, count in counter.histogram:
            self.hist_row.append(len(self.code))
            self.hist_power.append(power)
            self.hist_count.append(count)
        self.code.append(codes.of(counter.name, counter.unit))
        self.samples.append(_number(counter.samples))
        self.minimum.append(_number(counter.minimum))
        self.maximum.append(_number(counter.maximum))
        self.sum.append(_number(counter.sum))


def nanoseconds(time: str | None) -> int:
    """Return a decimal time as whole nanoseconds; 0 where there is none, or none that makes sense."""
    whole, _, fraction = (time or "").partition(".")
    seconds = int(whole or 0)
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0")) if seconds <= _SECONDS_MAX else 0


def _number(value: int | None) -> int:
    return ABSENT if value is None else value
