"""apply(state, facts) -> work: what one read of a target adds to what was known.

Pure, no clock: the same function live, in recovery and in tests. The state is changed in place; applying facts
again changes nothing.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from harvest_core.accounting.evidence import (
    NSECS,
    Read,
    gather,
    gone_twins,
    interval_seconds,
    nothing_removed,
    undisturbed,
)
from harvest_core.accounting.lives import NEW, NEW_FLAGGED, SAME, SAME_FLAGGED, verdicts
from harvest_core.accounting.mounts import NEVER, Integers, MountState, UnnamedError
from harvest_core.accounting.order import restamp
from harvest_core.accounting.versions import can_skip, counts_from_boot
from harvest_core.facts import Facts, Mount


@dataclass(slots=True)
class Ambiguity:
    """A decision that could not be known: the last value before is in the total twice, or once, or not at all."""

    mount: MountState
    row: int
    amount: Integers
    """(samples, sum) by column: by how much the other answer would differ."""
    was_new: bool
    """It was decided that another life began; for a record that is gone: that its life ended."""


@dataclass(slots=True)
class Work:
    """What a read added to the totals of one mount."""

    mount: MountState | None = None
    tick_seconds: int = 0
    row: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    column: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    samples: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    sum: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    window_seconds: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """In how many seconds this was done; 0 where nobody can say, so that no rate is made of it."""
    surplus_samples: Integers | None = None
    """The part that may not be new: in totals, but in no rate."""
    surplus_sum: Integers | None = None
    resets: list[int] = field(default_factory=list)
    """Rows of which another life began."""
    ambiguities: list[Ambiguity] = field(default_factory=list)
    unseen_seconds: int = 0
    """Time in which records may have come and gone without being shown."""
    incomplete_jobs: list[bytes] = field(default_factory=list)
    """Jobs that may have done more than was ever shown."""


class OutOfOrderError(Exception):
    """Facts of an earlier start of the agent that come after those of a later one: nothing they say can be placed."""


class Stay:
    """A target on one boot of one server: its mounts there, in order, and what was applied of each incarnation."""

    def __init__(self) -> None:
        self.applied: dict[bytes, int] = {}
        """The last seq per incarnation; whatever is at or below it was taken already."""
        self.mounts: list[tuple[int | None, MountState]] = []

    def mount(self, mount: Mount) -> tuple[MountState, MountState | None]:
        """Return the state of the mount that facts are about, and the one that it follows, if that is over now.

        Facts of one stay come in order, so another instance is another mount, also where a number comes back
        because somebody deleted last_rcvd. An instance that could not be read is not another one.
        """
        if self.mounts:
            instance, state = self.mounts[-1]
            if mount.instance is None or instance is None or instance == mount.instance:
                self.mounts[-1] = (mount.instance if instance is None else instance, state)
                return state, None
        before = self.mounts[-1][1] if self.mounts else None
        state = MountState()
        self.mounts.append((mount.instance, state))
        return state, before


def apply(stay: Stay, facts: Facts) -> Work:
    """Take in one read of a target; facts that were applied before give no work.

    Facts about records that were never named raise UnnamedError, and are not applied.
    """
    if facts.seq <= stay.applied.get(facts.incarnation, 0):
        return Work()
    if facts.incarnation in stay.applied and facts.incarnation != next(reversed(stay.applied)):
        raise OutOfOrderError("a newer incarnation of the agent was applied already")
    state, before = stay.mount(facts.mount)
    try:
        state.learn(facts.incarnation, facts.names, facts.counters)
        read, flat = _resolved(state, facts)
    except UnnamedError:
        if state.last_tick == NEVER:
            stay.mounts.pop()
        raise
    stay.applied[facts.incarnation] = facts.seq
    state.watch_clock(facts.read_at, facts.uptime)
    work = _values(state, read, flat)
    _unseen(work, state, before, facts)
    state.last_seq = (facts.incarnation, facts.seq)
    state.last_tick = facts.tick_seconds
    state.last_was_complete = facts.complete
    if facts.complete:
        state.last_read_at = facts.read_at
    return work


def _values(state: MountState, read: Read, flat: Integers) -> Work:
    """Decide what each moved record's value means, and keep it."""
    if read.facts.directory_gone:  # of all records, also of those that this read does not show
        state.surely_absent[: len(state.jobs)] = True
    verdict = np.zeros(len(read.rows), np.int64)
    ambiguities: list[Ambiguity] = []
    if read.known.any() and not state.start[read.rows].all() and not undisturbed(state, read):
        verdict = np.where(read.known, verdicts(gather(state, read)), 0)
        state.ended.difference_update(read.rows.tolist() if state.ended else ())
    if nothing_removed(state, read, verdict != SAME):
        state.surely_absent |= state.absent > 0
    for row in gone_twins(state, read):
        state.ended.add(row)
        ambiguities.append(Ambiguity(state, row, state.value(row), was_new=True))
    surplus = np.zeros((2, len(flat)), np.int64) if verdict.any() else None
    resets = _begin_again(state, read, verdict, ambiguities, surplus) if surplus is not None else []
    samples, sums = read.samples - read.old_samples, read.sums - read.old_sums
    if len(flat) and (samples.min() < 0 or sums.min() < 0):
        read = _never_fall(state, read, samples, sums)
    state.samples.reshape(-1)[flat] = read.samples
    state.sums.reshape(-1)[flat] = read.sums
    began = read.old_samples == 0
    if began.any():
        state.used[read.rows] += np.bincount(read.record, began & (read.samples > 0), len(read.rows)).astype(np.int16)
    window = _windows(state, read)
    _remember(state, read)
    _extremes(state, read)
    did = (samples | sums) != 0
    return Work(
        mount=state,
        tick_seconds=read.facts.tick_seconds,
        row=read.rows[read.record][did],
        column=read.column[did],
        samples=samples[did],
        sum=sums[did],
        window_seconds=window[read.record][did],
        surplus_samples=None if surplus is None else surplus[0][did],
        surplus_sum=None if surplus is None else surplus[1][did],
        resets=resets,
        ambiguities=ambiguities,
    )


def _resolved(state: MountState, facts: Facts) -> tuple[Read, Integers]:
    """Turn slots and codes into rows and columns; also return where in the flat state each counter is."""
    moved = facts.moved
    rows = state.rows_of(facts.incarnation, moved.slot)
    record = np.repeat(np.arange(len(rows)), moved.rows)
    column = state.columns_of(facts.incarnation, moved.code)
    flat = rows[record] * len(state.counters) + column
    old_samples, old_sums = state.samples.reshape(-1)[flat], state.sums.reshape(-1)[flat]
    samples, sums = moved.samples, moved.sum
    if len(flat) and (samples.min() < 0 or sums.min() < 0):  # not read: as before
        samples, sums = np.where(samples < 0, old_samples, samples), np.where(sums < 0, old_sums, sums)
    order, gone = _presence(state, facts)
    known = state.seen_tick[rows] != NEVER
    return Read(facts, rows, record, column, old_samples, old_sums, samples, sums, order, gone, known), flat


def _begin_again(
    state: MountState, read: Read, verdict: Integers, ambiguities: list[Ambiguity], surplus: Integers
) -> list[int]:
    """End the lives that are over and flag what could not be known; return the rows that began again.

    The surplus is the part of what is added that may not be new.
    """
    resets: list[int] = []
    ends = np.cumsum(read.facts.moved.rows)
    for position in np.flatnonzero(verdict):
        row = int(read.rows[position])
        is_new = verdict[position] in {NEW, NEW_FLAGGED}
        mine = slice(ends[position] - read.facts.moved.rows[position], ends[position])
        both = np.minimum([read.old_samples[mine], read.old_sums[mine]], [read.samples[mine], read.sums[mine]])
        if verdict[position] in {SAME_FLAGGED, NEW_FLAGGED}:
            amount = state.value(row)
            if not is_new:  # of sums of times, which may fall, only what the larger one covers is in doubt
                amount[read.column[mine]] = both.T
            ambiguities.append(Ambiguity(state, row, amount, was_new=is_new))
        if is_new:
            if verdict[position] == NEW_FLAGGED:
                surplus[:, mine] = both
            read.old_samples[mine] = read.old_sums[mine] = 0
            state.end_life(row)
            resets.append(row)
            if not read.facts.complete:
                state.stamp[row] = NEVER  # it stands where it was re-created; a whole read will tell where that is
    return resets


def _never_fall(state: MountState, read: Read, samples: Integers, sums: Integers) -> Read:
    """Keep totals from falling where a number fell within what was decided to be one life.

    Where a start names the life the larger value is the later one. Elsewhere, a sum of times that fell goes on from
    where it was.
    """
    read = replace(read, samples=read.samples.copy(), sums=read.sums.copy())
    for at in np.flatnonzero((samples < 0) | (sums < 0)):
        row = int(read.rows[read.record[at]])
        if state.start[row]:
            read.samples[at] = max(read.samples[at], read.old_samples[at])
            read.sums[at] = max(read.sums[at], read.old_sums[at])
        else:
            state.carry(row, int(read.column[at]), -min(int(samples[at]), 0), -min(int(sums[at]), 0))
    np.maximum(samples, 0, out=samples)
    np.maximum(sums, 0, out=sums)
    return read


def _presence(state: MountState, facts: Facts) -> tuple[Integers, Integers]:
    """Return the rows in their new file order, and those that are gone; as before where a read was cut short."""
    if not facts.complete:
        return state.order, np.zeros(0, np.int64)
    tail = state.rows_of(facts.incarnation, facts.order)
    there = np.zeros(len(state.jobs), np.bool_)
    there[state.order] = True
    if facts.order_is_full:
        order = tail
    else:
        stays = there.copy()
        stays[state.rows_of(facts.incarnation, facts.gone)] = False
        stays[tail] = False
        order = np.concatenate([state.order[stays[state.order]], tail])
    there[order] = False
    return order, np.flatnonzero(there)


def _windows(state: MountState, read: Read) -> Integers:
    """Return in how many seconds each record did its work, in whole sweeps.

    A record seen before: since then. One never seen: since it began, where the server says when that was.
    """
    facts = read.facts
    start = state.start[read.rows]
    clock = facts.uptime if counts_from_boot(facts.lustre_version) else facts.read_at
    age = np.maximum(clock + state.clock_back - start, 1)
    period = max(facts.period_seconds, 1)
    lived = np.where(start != 0, -(-age // (period * NSECS)) * period, 0)
    since = state.seen_tick[read.rows]
    if len(facts.moved.continuous):  # the values of the sweeps between were merged into this one
        since = np.where(facts.moved.continuous > 0, state.value_tick[read.rows], since)
    window = np.where(read.known, np.maximum(facts.tick_seconds - since, 0), lived)
    for group in state.twins.values():  # whose work it was is not known for certain
        window[np.isin(read.rows, group)] = 0
    return window


def _remember(state: MountState, read: Read) -> None:
    """Note presence, order and times for the next read."""
    facts, rows = read.facts, read.rows
    interval = interval_seconds(facts)
    count = len(state.jobs)
    state.snapshot[rows] = facts.moved.snapshot
    state.value_seq[rows] = facts.seq
    state.value_tick[rows] = facts.tick_seconds
    state.back_steps[rows] = state.clock_back
    np.minimum(state.least_interval[:count], interval, out=state.least_interval[:count])
    np.maximum(state.most_interval[:count], interval, out=state.most_interval[:count])
    state.least_interval[rows] = state.most_interval[rows] = interval
    state.seen_tick[rows] = facts.tick_seconds
    state.in_doubt[rows] = False
    if not facts.complete:
        state.absent[rows] = 0
        state.surely_absent[rows] = False
        return
    if len(facts.order) or len(read.gone):
        restamp(state, read.order)
    state.order = read.order
    state.absent[:count] += 1
    state.absent[read.order] = 0
    state.surely_absent[read.order] = False
    state.in_doubt[read.order] = False
    state.last_could_skip = can_skip(facts.lustre_version) and not facts.in_one_piece
    if not state.last_could_skip:
        state.surely_absent[:count] |= state.absent[:count] > 0
    state.seen_tick[read.order] = facts.tick_seconds


def _extremes(state: MountState, read: Read) -> None:
    """Keep minimum and maximum per job, and histograms per life."""
    moved, rows, record, column = read.facts.moved, read.rows, read.record, read.column
    for at, low, high in zip(moved.extreme_row, moved.minimum, moved.maximum, strict=True):
        key = (state.jobs[rows[record[at]]], int(column[at]))
        least, most = state.extremes.get(key, (low, high))
        state.extremes[key] = (min(least, int(low)), max(most, int(high)))
    for at, power, number in zip(moved.hist_row, moved.hist_power, moved.hist_count, strict=True):
        place = (int(rows[record[at]]), int(column[at]), int(power))
        state.histograms[place] = max(state.histograms.get(place, 0), int(number))


def _unseen(work: Work, state: MountState, before: MountState | None, facts: Facts) -> None:
    """Count the time in which work may have been done that no read showed."""
    if before is not None:
        work.unseen_seconds, work.incomplete_jobs = _never_read(before, facts.tick_seconds)
    elif state.last_tick != NEVER:
        gap = facts.tick_seconds - state.last_tick
        interval = interval_seconds(facts)
        if interval <= 2 * facts.period_seconds:  # forgotten before it was read for certain, at any time
            work.unseen_seconds = gap
        elif gap > interval:  # time enough to be born, go idle and be evicted
            work.unseen_seconds = gap - interval


def superseded(stay: Stay, tick_seconds: int) -> tuple[int, list[bytes]]:
    """Return what is lost of a stay when its target shows up elsewhere: seconds, and the jobs that were there."""
    return _never_read(stay.mounts[-1][1], tick_seconds) if stay.mounts else (0, [])


def _never_read(state: MountState, tick_seconds: int) -> tuple[int, list[bytes]]:
    """Return the time between the last read of a mount and the first of the next, and who may have worked in it."""
    return max(tick_seconds - state.last_tick, 0), [state.jobs[row] for row in state.order]
