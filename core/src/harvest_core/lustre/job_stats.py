"""``job_stats`` of every server since 2.3: text in, one record per job out.

The files are large and a server may print anything: whatever a line holds costs that line, or that
value, and nothing else. Every line is exactly one of a sample, structure, or unread.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harvest_core.lustre.counters import Counter, counted, counter_name, histogram, integer, is_word, normal_unit
from harvest_core.lustre.job_ids import decoded

RECORD_START = b"- job_id:"
HEADER = b"job_stats:"
ID_COLUMN = 19
"""Where values start: two of indent, sixteen of name, one blank."""
ID_BYTES_MAX = 31

_TIME = re.compile(
    rb" *(snapshot_time|start_time|elapsed_time) *: *([0-9]{1,20}(?:\.[0-9]{1,9})?)(?: secs\.[nu]secs)? *"
)
_OPERATION = re.compile(
    rb" *([^\s:{}]+) *: *\{ *samples: *([0-9]{1,18}), unit: *(\S+?)"
    rb"(?:, min: *([0-9]{1,18}), max: *([0-9]{1,18}), sum: *([0-9]{1,18})"
    rb"(?:, sumsq: *([0-9]{1,40}))?(?:, hist: \{([^{}]*)\})?)? *\} *"
)
_ANY_OPERATION = re.compile(rb" *([^\s:{}]+) *: *\{(.*)\} *", re.DOTALL)
_COUNTER_START = re.compile(rb" *(?!hist)[^\s:{}]+ *: *\{")
_WRAPS_MAX = 8
_NUMBERS = frozenset({b"samples", b"min", b"max", b"sum", b"sumsq"})


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job on one target, as one read showed it."""

    job: bytes
    """The id that the client sent, escapes undone."""
    snapshot_time: str | None
    """When the last operation was counted, as printed."""
    start_time: str | None
    """When the record was created; servers before 2.14.56 do not say."""
    counters: tuple[Counter, ...]
    unread: tuple[bytes, ...]
    """Lines that were not understood at all."""
    doubtful: tuple[bytes, ...]
    """Lines that gave a counter of which some value made no sense and was left out."""
    structure_lines: int
    """Lines that hold no counter: the id, the times, blanks, continuations."""


@dataclass(frozen=True, slots=True)
class JobStats:
    """What a whole file said."""

    records: tuple[JobRecord, ...]
    unread: tuple[bytes, ...]
    """Lines outside any record that were not understood."""
    structure_lines: int
    """Headers and blank lines outside any record."""


def parse_job_stats(text: bytes) -> JobStats:
    """Read every job of a file in one pass."""
    unread: list[bytes] = []
    records = []
    structure = 0
    for piece in split_records(text):
        if piece.startswith(RECORD_START):
            records.append(parse_record(piece))
            continue
        for line in lines_of(piece):
            if not line.strip() or line.rstrip() == HEADER:
                structure += 1
            else:
                unread.append(line)
    return JobStats(records=tuple(records), unread=tuple(unread), structure_lines=structure)


def lines_of(text: bytes) -> list[bytes]:
    """Split at newlines; a final newline ends a line and starts none."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


def split_records(text: bytes) -> Iterator[bytes]:
    """Cut a file in front of each record; what stands before the first one comes first.

    Up to 2.7 an id may contain a newline and so even a line that looks like the next record. What is too short
    to be a record is the first part of such an id.
    """
    start = 0 if text.startswith(RECORD_START) else _next_record(text, 0)
    if start:
        yield text[:start]
    while start < len(text):
        end = _next_record(text, start)
        while end < len(text) and 0 <= text.find(b"\n", end) <= start + ID_COLUMN + ID_BYTES_MAX:
            end = _next_record(text, end)
        yield text[start:end]
        start = end


def _next_record(text: bytes, start: int) -> int:
    found = text.find(b"\n" + RECORD_START, start)
    return len(text) if found < 0 else found + 1


def parse_record(piece: bytes) -> JobRecord:
    """Read one record: its id line and everything up to the next record.

    Of a counter that is there twice, which no server prints, the first is the job's own.
    """
    lines = lines_of(piece)
    position = structure = body = _id_lines(lines)
    times: dict[bytes, str] = {}
    counters: list[Counter] = []
    named: set[tuple[str, str]] = set()
    unread: list[bytes] = []
    doubtful: list[bytes] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        if (match := _OPERATION.fullmatch(line)) is not None and (counter := _counter(match)) is not None:
            if (counter.name, counter.unit) in named:
                unread.append(line)
                continue
            named.add((counter.name, counter.unit))
            counters.append(counter)
        elif (time := _TIME.fullmatch(line)) is not None:
            times.setdefault(time[1], time[2].decode())
            structure += 1
        elif not line.strip() or line.rstrip() == HEADER:
            structure += 1
        else:
            line, more = _unwrapped(lines, position)
            irregular = _irregular_counter(line)
            if irregular is None or (irregular[0].name, irregular[0].unit) in named:
                unread.append(lines[position - 1])
                continue
            position += more
            structure += more
            named.add((irregular[0].name, irregular[0].unit))
            counters.append(irregular[0])
            if irregular[1]:
                doubtful.append(line)
    snapshot = times.get(b"snapshot_time")
    return JobRecord(
        job=_job(lines[:body], lines[body] if body < len(lines) else b"", snapshot),
        snapshot_time=snapshot,
        start_time=times.get(b"start_time"),
        counters=tuple(counters),
        unread=tuple(unread),
        doubtful=tuple(doubtful),
        structure_lines=structure,
    )


def _id_lines(lines: list[bytes]) -> int:
    """Count the lines of the id: one, unless it holds newlines, which servers up to 2.7 print raw.

    The last line that is snapshot_time, within the size of an id, ends it; without one nothing can be told.
    """
    size = len(lines[0]) - ID_COLUMN
    found = 1
    for number, line in enumerate(lines[1:], 1):
        if line.lstrip(b" ").startswith(b"snapshot_time"):
            found = number
        size += 1 + len(line)
        if size > ID_BYTES_MAX:
            break
    return found


def _job(id_lines: list[bytes], next_line: bytes, snapshot: str | None) -> bytes:
    """Return the id; blanks around it count where the line is laid out as servers do it."""
    printed = b"\n".join(id_lines)
    time = _TIME.fullmatch(next_line)
    column = time.start(2) if time is not None and next_line.startswith(b" ") else ID_COLUMN
    if printed[len(RECORD_START) : column].strip(b" ") or len(printed) < column:
        printed = printed[len(RECORD_START) :].lstrip(b" ")
    else:
        printed = printed[column:]
    # whole seconds mean a server that escapes nothing: its quotes are the id's own; times at column 0 one that
    # escapes nothing (2.15.0) or also colons (2.15.51)
    if snapshot is not None and "." not in snapshot:
        return printed
    return decoded(printed, bare_colons=not next_line.startswith(b"snapshot_time"))


def _counter(match: re.Match[bytes]) -> Counter | None:
    name, samples, unit, low, high, total, squares, buckets = match.groups()
    pairs = histogram(buckets) if buckets is not None else ()
    if pairs is None:
        return None
    return Counter(
        name=counter_name(name),
        unit=normal_unit(unit),
        samples=int(samples),
        minimum=None if low is None else int(low),
        maximum=None if high is None else int(high),
        sum=None if total is None else int(total),
        sumsq=None if squares is None else int(squares),
        histogram=pairs,
    )


def _unwrapped(lines: list[bytes], position: int) -> tuple[bytes, int]:
    """Join a counter that a paste has broken over lines until its braces close; also say how many were joined."""
    joined = lines[position - 1]
    for more, line in enumerate(lines[position : position + _WRAPS_MAX], 1):
        if joined.count(b"{") <= joined.count(b"}") or _COUNTER_START.match(line):
            break
        joined += b"\n" + line
        if joined.count(b"{") == joined.count(b"}"):
            return joined, more
    return lines[position - 1], 0


def _irregular_counter(line: bytes) -> tuple[Counter, bool] | None:
    """Read a counter key by key; the flag says that something made no sense and was left out."""
    match = _ANY_OPERATION.fullmatch(line)
    if match is None or not is_word(match[1]):
        return None
    plain, has_histogram, rest = match[2].partition(b"hist:")
    pairs = histogram(rest.strip(b"{} \n")) if has_histogram else ()
    lost = pairs is None
    unit = b""
    numbers: dict[bytes, int] = {}
    for part in plain.split(b","):
        key, colon, value = (text.strip() for text in part.partition(b":"))
        number = integer(value)
        if key == b"unit" and is_word(value):
            unit = value
        elif key in _NUMBERS and number is not None and (key == b"sumsq" or counted(number) is not None):
            numbers[key] = number
        elif key or colon or value:
            lost = True
    if not unit or not numbers:
        return None
    counter = Counter(
        name=counter_name(match[1]),
        unit=normal_unit(unit),
        samples=numbers.get(b"samples"),
        minimum=numbers.get(b"min"),
        maximum=numbers.get(b"max"),
        sum=numbers.get(b"sum"),
        sumsq=numbers.get(b"sumsq"),
        histogram=pairs or (),
    )
    return counter, lost
