"""apply(state, facts) -> work: what one read of a target adds to what was known.

Pure, no clock: the same function live, in recovery and in tests. The state is changed in place; applying facts
again changes nothing.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harvest_core.accounting.evidence import (
    Read,
    gather,
    gone_twins,
    interval_seconds,
    nothing_removed,
    undisturbed,
)
from harvest_core.accounting.lives import NEW, NEW_FLAGGED, SAME, SAME_FLAGGED, verdicts
from harvest_core.accounting.mounts import NEVER, NSECS, Integers, MountState, UnnamedError
from harvest_core.accounting.order import restamp
from harvest_core.accounting.versions import can_skip, counts_from_boot
from harvest_core.facts import ClientMarks, Facts


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
    period_seconds: int = 0
    """How often the target is read."""
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

    def mount(self, facts: Facts) -> MountState:
        """Return the state of the mount that facts are about.

        Facts of one stay come in order, so another instance is another mount, also where a number comes back
        because somebody deleted last_rcvd. An instance that could not be read is not another one.
        """
        mount = facts.mount
        if self.mounts:
            instance, state = self.mounts[-1]
            if mount.instance is None or instance is None or instance == mount.instance:
                self.mounts[-1] = (mount.instance if instance is None else instance, state)
                return state
            state.watch_clock(facts.read_at, facts.uptime)  # the next one is measured from its last tick
        state = MountState()
        self.mounts.append((mount.instance, state))
        return state

    def forget_slots(self, incarnation: bytes) -> None:
        """Drop what slots stood for in former mounts, and in other incarnations: no facts of those come any more."""
        for _, former in self.mounts[-2:-1]:
            former.slots, former.codes = {}, {}
        state = self.mounts[-1][1]
        if len(state.slots) > 1:
            state.slots, state.codes = {incarnation: state.slots[incarnation]}, {incarnation: state.codes[incarnation]}


def apply(stay: Stay, facts: Facts) -> Work:
    """Take in one read of a target; facts that were applied before give no work.

    Facts about records that were never named raise UnnamedError, and are not applied.
    """
    if facts.seq <= stay.applied.get(facts.incarnation, 0):
        return Work()
    if facts.incarnation in stay.applied and facts.incarnation != next(reversed(stay.applied)):
        raise OutOfOrderError("a newer incarnation of the agent was applied already")
    state = stay.mount(facts)
    try:
        state.learn(facts.incarnation, facts.names, facts.counters, facts.again)
        read, flat = _resolved(state, facts)
        marks = facts.clients or ClientMarks()
        marked = state.rows_of(facts.incarnation, np.asarray(marks.slot, np.int64))
    except UnnamedError:
        if state.last_tick == NEVER:
            stay.mounts.pop()
        raise
    stay.applied[facts.incarnation] = facts.seq
    if state.last_seq[0] != facts.incarnation:  # whose seqs those were says nothing about this one's
        state.value_seq[:] = 0
    state.watch_clock(facts.read_at, facts.uptime)
    work = _values(state, read, flat)
    if len(marked):
        state.is_live[marked], state.is_server[marked] = marks.live != 0, marks.server != 0
    _unseen(work, state, read)
    state.last_seq = (facts.incarnation, facts.seq)
    state.last_tick = facts.tick_seconds
    if state.first_tick == NEVER:
        state.first_tick = facts.tick_seconds
    stay.forget_slots(facts.incarnation)
    state.last_was_complete = facts.complete
    if facts.complete:
        state.whole_tick = facts.tick_seconds
        state.last_interval = interval_seconds(facts)
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
    if resets and not read.facts.complete:  # what ended those may have ended others, which it did not reach
        state.in_doubt[: len(state.jobs)] = True
    _remember(state, read, is_order_new=bool(resets))
    if read.facts.clients is not None and (resets or len(read.gone)):
        # files are read one by one: what ended those may have come after the others had been read
        state.in_doubt[: len(state.jobs)] = True
        state.in_doubt[read.rows[verdict == NEW]] = False
    _extremes(state, read, flat)
    worked = (samples | sums) != 0
    is_all = bool(worked.all())
    did: Any = slice(None) if is_all else worked  # of all, no copy is made
    row = read.rows[read.record][did]
    state.work_tick[read.rows if is_all else row] = read.facts.tick_seconds
    return Work(
        mount=state,
        tick_seconds=read.facts.tick_seconds,
        period_seconds=read.facts.period_seconds,
        row=row,
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
    order, gone = _presence(state, facts, rows)
    known = state.value_tick[rows] != NEVER  # one may be there of which no value was told: those reads are lost
    early = _early_seconds(state, facts)
    return Read(facts, rows, record, column, old_samples, old_sums, samples, sums, order, gone, known, early), flat


def _early_seconds(state: MountState, facts: Facts) -> Integers | None:
    if facts.clients is None or not len(facts.clients.early_slot):
        return None
    early = np.zeros(len(state.jobs), np.int64)
    early[state.rows_of(facts.incarnation, facts.clients.early_slot)] = facts.clients.early_seconds
    return early


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
        if is_new:
            _forget_unread(read, mine)
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
            if verdict[position] == NEW or not read.facts.complete:
                state.stamp[row] = NEVER  # it stands where it was re-created
    return resets


def _forget_unread(read: Read, mine: slice) -> None:
    """Take what was not read as 0 in a life that begins: what stood there before is the former life's."""
    moved = read.facts.moved
    for values, told in ((read.samples, moved.samples), (read.sums, moved.sum)):
        unread = told[mine] < 0
        if unread.any():  # so they are a copy of what was told
            values[mine][unread] = 0


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


def _presence(state: MountState, facts: Facts, moved: Integers) -> tuple[Integers, Integers]:
    """Return the rows in their new file order, and those that are gone; as before where a read was cut short.

    Whoever moved is there, also where the reads that told of it are lost, to a ledger that was restored: created since
    the last one that we have, so behind all that this one showed.
    """
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
        kept = state.order[stays[state.order]]
        stays[tail] = True
        order = np.concatenate([kept, moved[~stays[moved]], tail])
    there |= state.unplaced[: len(there)]  # a cut read showed it since: it is gone as well if this one does not
    there[order] = False
    return order, np.flatnonzero(there)


def _windows(state: MountState, read: Read) -> Integers:
    """Return in how many seconds each record did its work, in whole sweeps.

    A record seen before: since then. One never seen: since it began, where the server says when that was.
    """
    facts = read.facts
    start, tick = state.start[read.rows], read.ticks(read.rows)
    clock = facts.uptime if counts_from_boot(facts.lustre_version) else facts.read_at
    age = clock + state.clock_back - start - (facts.tick_seconds - tick) * NSECS
    period = max(facts.period_seconds, 1)
    # one that begins later than now did so before the clock was set back: how long ago, nobody knows
    lived = np.where((start != 0) & (age >= 0), -(-np.maximum(age, 1) // (period * NSECS)) * period, 0)
    since = state.seen_tick[read.rows]
    if len(facts.moved.continuous):  # the values of the sweeps between were merged into this one
        since = np.where(facts.moved.continuous > 0, state.value_tick[read.rows], since)
    window = np.where(read.known, np.maximum(tick - since, 0), lived)
    window[state.is_twin[read.rows] | state.spoilt[read.rows]] = 0  # whose work it was is not known for certain
    return window


def _remember(state: MountState, read: Read, *, is_order_new: bool) -> None:
    """Note presence, order and times for the next read."""
    facts, rows = read.facts, read.rows
    interval = interval_seconds(facts)
    count = len(state.jobs)
    state.snapshot[rows] = facts.moved.snapshot
    _remember_unread(state, read)
    state.value_seq[rows] = facts.seq
    state.value_tick[rows] = read.ticks(rows)
    state.back_steps[rows] = state.clock_back
    np.minimum(state.least_interval[:count], interval, out=state.least_interval[:count])
    state.least_interval[rows] = interval
    state.seen_tick[rows] = read.ticks(rows)
    state.in_doubt[rows] = False
    if not facts.complete:
        state.absent[rows] = 0
        state.surely_absent[rows] = False
        state.unplaced[rows] = True
        return
    state.unplaced[:count] = False
    if is_order_new or len(facts.order) or len(read.gone) or not state.last_was_complete:
        restamp(state, read.order)
    state.order = read.order
    state.absent[:count] += 1
    state.absent[read.order] = 0
    state.surely_absent[read.order] = False
    if facts.clients is None or len(rows):  # if no client moved, their files may not have been read
        state.in_doubt[read.order] = False
    state.last_could_skip = can_skip(facts.lustre_version) and not facts.in_one_piece
    if not state.last_could_skip:
        state.surely_absent[:count] |= state.absent[:count] > 0
    state.seen_tick[read.order] = read.ticks(read.order)


def _remember_unread(state: MountState, read: Read) -> None:
    """Note of which records not every number could be read; servers print no sum where only operations count."""
    moved, rows = read.facts.moved, read.rows
    state.spoilt[rows] = False
    state.spoilt[rows[moved.partial]] = True
    if len(moved.sum) and (moved.samples.min() < 0 or moved.sum.min() < 0):
        unread = (moved.samples < 0) | ((moved.sum < 0) & state.has_sum[read.column])
        state.spoilt[rows[read.record[unread]]] = True


def _extremes(state: MountState, read: Read, flat: Integers) -> None:
    """Keep minimum and maximum of all lives, and histograms per life."""
    moved, rows, record, column = read.facts.moved, read.rows, read.record, read.column
    if len(moved.extreme_row):
        places = flat[moved.extreme_row]
        least = state.least.reshape(-1).view(np.uint64)  # in which NEVER is larger than any number
        np.minimum.at(least, places, moved.minimum.astype(np.uint64))
        np.maximum.at(state.most.reshape(-1), places, moved.maximum)
    if len(moved.hist_row):
        at = moved.hist_row
        state.count_values(rows[record[at]], column[at], moved.hist_power, moved.hist_count)


def _unseen(work: Work, state: MountState, read: Read) -> None:
    """Count the time in which a record may have come and gone between two reads of a mount, and name who was there.

    Whoever was there before or is there afterwards: of those that came and went meanwhile nobody knows.
    """
    facts = read.facts
    if facts.complete and state.whole_tick != NEVER:
        gap = facts.tick_seconds - state.whole_tick
        interval = min(interval_seconds(facts), state.last_interval)
        if interval <= 2 * facts.period_seconds:  # forgotten before it was read for certain, at any time
            work.unseen_seconds = gap
        elif gap > interval:  # time enough to be born, go idle and be evicted
            work.unseen_seconds = gap - interval
    if work.unseen_seconds > 0:
        there = {state.jobs[row] for row in np.concatenate([read.order, read.gone, read.rows])}
        work.incomplete_jobs = sorted(there)
