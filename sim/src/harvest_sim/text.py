"""The text of Lustre's statistics files: pure functions from values to bytes."""

from collections.abc import Iterable, Mapping
from functools import cache

from harvest_sim.counters import Counter
from harvest_sim.ids import job_id_text
from harvest_sim.ops import Kind, Op, op_list
from harvest_sim.versions import TimeStyle, Traits, Version, traits

JOB_STATS_HEADER = b"job_stats:\n"
NSECS = 1_000_000_000
_WRAP = 1 << 64
_LARGEST = (1 << 63) - 1
_NOTHING = Counter()


def seconds_text(nanoseconds: int) -> bytes:
    """Return ``S.NNNNNNNNN secs.nsecs`` (§1.1)."""
    return b"%d.%09d secs.nsecs" % divmod(nanoseconds, NSECS)


def op_line(features: Traits, op: Op, counter: Counter) -> bytes:
    """Return one operation of a job record (§1.1); widths are minimum widths."""
    head = b"  %-16s { samples:%12d, unit:%6s" % (op.name.encode() + b":", counter.samples, op.unit.encode())
    if not op.has_values:
        return head + b" }\n"
    total, sumsq = _shown_sums(features, counter)
    # §1.1: up to 2.14.50 no blank, so that an 8-digit value glues: max:16777216
    blank = b" " if features.has_blank_before_numbers else b""
    line = head + b", min:%s%8d, max:%s%8d, sum:%s%16d" % (
        *(blank, counter.minimum),
        *(blank, counter.maximum),
        *(blank, total % _WRAP),  # §2.7: job_stats prints unsigned
    )
    if features.has_sumsq:
        line += b", sumsq: %18d" % (sumsq % _WRAP)
    if op.has_hist:
        line += b", hist: { %s }" % _hist_text(counter.hist)
    return line + b" }\n"


@cache
def empty_op_lines(version: Version, kind: Kind) -> tuple[bytes, ...]:
    """Return the lines of a record that has counted nothing: every op is in every record (§1.1)."""
    return tuple(op_line(traits(version), op, _NOTHING) for op in op_list(version, kind))


def record_head(
    features: Traits, id_text: bytes, *, snapshot_ns: int, start_ns: int, stats_header: bool = True
) -> bytes:
    """Return the id and times of a job record (§1.1, §1.5)."""
    first = b"- job_id:          %s\n" % id_text
    if features.time_style is TimeStyle.INTEGER:
        return first + b"  snapshot_time:   %d\n" % (snapshot_ns // NSECS)
    times = [(b"snapshot_time", snapshot_ns)]
    if stats_header or not features.has_stats_header_switch:
        times += [(b"start_time", start_ns), (b"elapsed_time", snapshot_ns - start_ns)]
    if features.time_style is TimeStyle.ODD:
        # §1.1: at column 0, a blank before the colon
        return first + b"".join(b"%-16s: %s\n" % (name, seconds_text(at)) for name, at in times)
    return first + b"".join(b"  %-16s %s\n" % (name + b":", seconds_text(at)) for name, at in times)


def record_text(
    version: Version,
    kind: Kind,
    job_id: bytes,
    counters: Mapping[str, Counter],
    *,
    snapshot_ns: int,
    start_ns: int = 0,
    stats_header: bool = True,
) -> bytes:
    """Return a whole job record; ops that ``counters`` leaves out have counted nothing."""
    features = traits(version)
    head = record_head(
        features,
        job_id_text(version, job_id),
        snapshot_ns=snapshot_ns,
        start_ns=start_ns,
        stats_header=stats_header,
    )
    ops = op_list(version, kind)
    return head + b"".join(op_line(features, op, counters.get(op.name, _NOTHING)) for op in ops)


def job_stats_text(version: Version, records: Iterable[bytes]) -> bytes:
    """Return a whole job_stats file."""
    body = b"".join(records)
    # §1.1: from 2.16.51 no header without a job
    return body if traits(version).header_needs_job and not body else JOB_STATS_HEADER + body


def stats_text(features: Traits, lines: Iterable[tuple[Op, Counter]], *, snapshot_ns: int, start_ns: int) -> bytes:
    """Return a ``stats`` or ``md_stats`` file (§3): only counters that are not zero."""
    width = features.stats_name_width
    if not features.stats_nsecs:
        seconds, rest = divmod(snapshot_ns, NSECS)
        # §3: up to 2.9.54 the microseconds are not padded
        text = [b"%-*s %d.%d secs.usecs\n" % (width, b"snapshot_time", seconds, rest // 1000)]
    else:
        text = [b"%-*s %s\n" % (width, b"snapshot_time", seconds_text(snapshot_ns))]
    if features.stats_has_start:
        # §3: 2.15.0/1 count from boot and say that they started at 0
        start_ns = 0 if features.uses_boot_clock else start_ns
        text.append(b"%-*s %s\n" % (width, b"start_time", seconds_text(start_ns)))
        text.append(b"%-*s %s\n" % (width, b"elapsed_time", seconds_text(snapshot_ns - start_ns)))
    text += [_stats_line(features, op, counter) for op, counter in lines if counter.samples]
    return b"".join(text)


def uuid_text(uuids: Iterable[str]) -> bytes:
    """Return an export's ``uuid`` file: one line per live export, empty without one (§2.5)."""
    return b"".join(b"%s\n" % uuid.encode() for uuid in uuids)


def lctl_text(version: Version, parameters: Iterable[tuple[str, bytes]]) -> bytes:
    """Return what ``lctl get_param`` prints for (name, value) pairs (§3.1)."""
    return b"".join(_lctl_parameter(version, name.encode(), value) for name, value in parameters)


def _lctl_parameter(version: Version, name: bytes, value: bytes) -> bytes:
    if not value:
        return b"%s=\n" % name if version.numbers >= (2, 17, 0) else b""
    value = value.removesuffix(b"\n")
    long = version.numbers < (2, 15, 50) and len(name) + len(value) >= 80
    return b"%s=%s%s\n" % (name, b"\n" if b"\n" in value or long else b"", value)


def _stats_line(features: Traits, op: Op, counter: Counter) -> bytes:
    line = b"%-*s %d samples [%s]" % (
        *(features.stats_name_width, op.name.encode()),
        *(counter.samples, op.unit.encode()),
    )
    if op.has_values:
        total, sumsq = _shown_sums(features, counter)
        line += b" %d %d %d" % (counter.minimum, counter.maximum, _signed(total))
        if features.has_sumsq:
            line += b" %d" % _signed(sumsq)
    return line + b"\n"


def _shown_sums(features: Traits, counter: Counter) -> tuple[int, int]:
    # §2.7: from 2.16.54 a sum that overflows is shown as 2^63-1
    if features.saturates_sums:
        return min(counter.total, _LARGEST), min(counter.sumsq, _LARGEST)
    return counter.total, counter.sumsq


def _signed(number: int) -> int:
    # §2.7: stats files print sums as signed 64 bits
    return (number + _LARGEST + 1) % _WRAP - _LARGEST - 1


def _hist_text(hist: Mapping[int, int]) -> bytes:
    # §1.4: only buckets that are not zero, each labelled with its upper bound
    return b", ".join(b"%s: %d" % (_hist_label(place), hist[place]) for place in sorted(hist))


def _hist_label(place: int) -> bytes:
    return b"%d%s" % (1 << place % 10, (b"", b"K", b"M", b"G")[place // 10])
