"""Making room in a full spool: values go whose successor is certainly a later one of the same life.

Totals stay exact, time resolution is lost. Of each stretch that is certainly one life the first and the last
value stay: the first because what came before the stretch is compared with it. A start names a life, so that whatever
happens to others, all values under it are one stretch. Without one, a stretch ends wherever a record may have been
reset, be it another one: a fall may be a clear, of which others came back higher. Clients' files are read one after
the other, so that a clear may show in some of them only, and in the rest a read later: a stretch begins after that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from harvest_core.facts import Facts, Moved

_NSECS = 1_000_000_000


@dataclass(slots=True)
class _Value:
    """One record's value in one read."""

    read: int
    position: int
    snapshot: int
    counters: dict[int, tuple[int, int]]
    is_partial: bool
    since: int = 0
    """The seq of the first value of its stretch, if it is not that itself."""
    extremes: dict[int, tuple[int, int]] = field(default_factory=dict)


def merged(reads: Sequence[Facts]) -> list[Facts]:
    """Return the same reads, in order, without the values that nobody needs."""
    values = [_values(number, facts) for number, facts in enumerate(reads)]
    kept: list[list[_Value]] = [[] for _ in reads]
    last: dict[int, _Value] = {}
    startless, alike = _without_start(reads)
    started: set[int] = set()
    of_clients = any(facts.clients is not None for facts in reads)
    calm_from = int(of_clients)
    for number, facts in enumerate(reads):
        # a slot that is named is another record's from now on
        _settle([last.pop(name[0]) for name in facts.names if name[0] in last], kept)
        # beside records without a start none is taken by its start: what becomes of it may be evidence about them
        started.update(name[0] for name in (*facts.names, *facts.again) if not startless)
        if number and not _nothing_reset(reads[number - 1], facts, values[number], last):
            calm_from = number + of_clients
        for slot, value in values[number].items():
            before = last.get(slot)
            last[slot] = value
            if before is None:
                continue
            if slot in started:
                is_one_life = not _fell(before, value)
            else:
                is_calm = before.read >= calm_from and slot not in alike
                is_one_life = is_calm and (of_clients or _same_life(before, value, reads[before.read : number + 1]))
            if is_one_life:
                value.since = before.since or reads[before.read].seq
            if is_one_life and before.since:  # neither the first nor the last of its stretch: it can go
                value.extremes = {**before.extremes, **value.extremes}
            else:
                kept[before.read].append(before)
    _settle(last.values(), kept)
    return [_rebuilt(facts, sorted(rest, key=lambda v: v.position)) for facts, rest in zip(reads, kept, strict=True)]


def _settle(values: Iterable[_Value], kept: list[list[_Value]]) -> None:
    for value in values:
        kept[value.read].append(value)


def _without_start(reads: Sequence[Facts]) -> tuple[bool, set[int]]:
    """Tell whether any record is named without a start, and which of these print alike: what moved tells of others."""
    names = [name for facts in reads for name in (*facts.names, *facts.again) if not name[2]]
    ids = {job for _, job, _, rank in names if rank}
    return bool(names), {slot for slot, job, _, _ in names if job in ids}


def _values(number: int, facts: Facts) -> dict[int, _Value]:
    moved = facts.moved
    found: dict[int, _Value] = {}
    owner = []
    partial = set(moved.partial)
    row = 0
    for position, slot in enumerate(moved.slot):
        end = row + moved.rows[position]
        value = _Value(
            read=number,
            position=position,
            snapshot=int(moved.snapshot[position]),
            counters={int(moved.code[at]): (int(moved.samples[at]), int(moved.sum[at])) for at in range(row, end)},
            is_partial=position in partial,
            since=int(moved.continuous[position]) if len(moved.continuous) else 0,
        )
        found[int(slot)] = value
        owner += [value] * (end - row)
        row = end
    for at, low, high in zip(moved.extreme_row, moved.minimum, moved.maximum, strict=True):
        owner[at].extremes[int(moved.code[at])] = (int(low), int(high))
    return found


def _nothing_reset(before: Facts, facts: Facts, values: dict[int, _Value], last: dict[int, _Value]) -> bool:
    """Tell whether between two reads of one mount nothing was evicted, cleared, re-created or left unread."""
    set_back = (facts.read_at - before.read_at) < (facts.uptime - before.uptime)
    watched = facts.complete and before.complete and facts.mount == before.mount
    known = {name[0] for name in facts.names}
    moved_back = any(int(slot) not in known for slot in facts.order)
    if facts.clients is None:
        watched = watched and facts.seq == before.seq + 1
    else:  # they are not told in every sweep, and their order says nothing
        moved_back = False
    # what a record had before these reads is not known here: it may have fallen
    fell = any(_fell(last[slot], value) if slot in last else slot not in known for slot, value in values.items())
    plain = not (facts.order_is_full or facts.directory_gone or len(facts.gone) or len(facts.moved.partial))
    return watched and plain and not (set_back or moved_back or fell)


def _fell(before: _Value, value: _Value) -> bool:
    """Tell whether any number fell, or may have: sums of times too, they do not in a life that nothing disturbed.

    A number that was not read may hide a fall, unless it is never there: most operations have no sum.
    """
    return (before.is_partial or value.is_partial) or any(
        new < old or old < 0 <= new
        for code, numbers in before.counters.items()
        for old, new in zip(numbers, value.counters.get(code, (0, 0)), strict=True)
    )


def _same_life(before: _Value, value: _Value, reads: Sequence[Facts]) -> bool:
    """Tell whether the record cannot have been idle long enough to be evicted, by any interval since."""
    intervals = [facts.cleanup_interval_seconds for facts in reads]
    least = min((1 if interval is None else max(interval, 1) for interval in intervals), default=1)
    return 0 <= value.snapshot - before.snapshot < (least - 1) * _NSECS


def _rebuilt(facts: Facts, values: list[_Value]) -> Facts:
    """Return a read with only these values in it."""
    if len(values) == len(facts.moved.slot) and not any(value.since for value in values):
        return facts
    old = facts.moved
    moved = Moved()
    for value in values:
        if value.is_partial:
            moved.partial.append(len(moved.slot))
        moved.slot.append(int(old.slot[value.position]))
        moved.snapshot.append(value.snapshot)
        moved.continuous.append(value.since)
        moved.rows.append(len(value.counters))
        for code, (samples, total) in value.counters.items():
            if code in value.extremes:
                moved.extreme_row.append(len(moved.code))
                moved.minimum.append(value.extremes[code][0])
                moved.maximum.append(value.extremes[code][1])
            moved.code.append(code)
            moved.samples.append(samples)
            moved.sum.append(total)
    _copy_histograms(old, moved, values)
    return replace(facts, moved=moved)


def _copy_histograms(old: Moved, moved: Moved, values: list[_Value]) -> None:
    first_row, row = [], 0
    for rows in old.rows:
        first_row.append(row)
        row += int(rows)
    new_place = {}
    row = 0
    for value in values:
        for at in range(len(value.counters)):
            new_place[first_row[value.position] + at] = row + at
        row += len(value.counters)
    for at, power, count in zip(old.hist_row, old.hist_power, old.hist_count, strict=True):
        if int(at) in new_place:
            moved.hist_row.append(new_place[int(at)])
            moved.hist_power.append(int(power))
            moved.hist_count.append(int(count))
