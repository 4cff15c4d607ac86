"""Gathers what speaks for a record's life going on, or for another one having begun."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting.lives import Evidence
from harvest_core.accounting.mounts import NSECS, Integers, MountState
from harvest_core.accounting.order import follow_order, open_order
from harvest_core.accounting.versions import in_creation_order, never_cleans
from harvest_core.facts import Facts

_DEFAULT_INTERVAL_SECONDS = 600
_FOR_EVER_SECONDS = 4_000_000_000
"""Longer than any idle time: nothing is ever evicted; twice as much in nanoseconds still fits 64 bits."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Read:
    """One read, its slots and codes turned into rows and columns of the state."""

    facts: Facts
    rows: Integers
    """Per moved record."""
    record: Integers
    """Per counter: the position of its record."""
    column: Integers
    """Per counter."""
    old_samples: Integers
    """Per counter: as the state has it; 0 where another life begins."""
    old_sums: Integers
    samples: Integers
    """Per counter: as it was read; what was not read is as before."""
    sums: Integers
    order: Integers
    """All rows shown, in file order."""
    gone: Integers
    """Rows that the last whole read showed, or one that was cut short since, and this one did not."""
    known: Flags
    """Per moved record: it was seen before."""
    early_seconds: Integers | None = None
    """Per row, of clients that were read in an earlier period than the sweep ends: how long before it theirs did."""

    def ticks(self, rows: Integers) -> Integers | int:
        """Return the tick by which each row was read."""
        tick = self.facts.tick_seconds
        return tick if self.early_seconds is None else tick - self.early_seconds[rows]


def interval_seconds(facts: Facts) -> int:
    """Return after how many seconds of idleness a record may be evicted."""
    interval = facts.cleanup_interval_seconds
    if interval is None:
        return _DEFAULT_INTERVAL_SECONDS
    return _FOR_EVER_SECONDS if never_cleans(facts.lustre_version, interval) else interval


def undisturbed(state: MountState, read: Read) -> bool:
    """Tell that nothing at all speaks for another life of any record: almost every read of almost every target."""
    facts, rows = read.facts, read.rows
    watched = facts.complete and state.last_was_complete
    if not watched or len(read.gone) or len(facts.order) or len(state.twins) or state.ended:
        return False
    odd = _idle(state, read) | (state.absent[rows] > 0) | state.surely_absent[rows] | state.in_doubt[rows]
    return not (odd.any() or _lower(state, read).any())


def gather(state: MountState, read: Read) -> Evidence:
    """Return the evidence for each moved record."""
    facts, rows, known = read.facts, read.rows, read.known
    count = len(rows)
    lower = _lower(state, read)
    idle = _idle(state, read)
    unmoved = _unmoved(state, read)
    ordered = facts.complete and in_creation_order(facts.lustre_version)
    renewed = lower & (state.start[rows] == 0)

    def order_with(sure: Flags) -> tuple[Flags, Flags, Flags]:
        found = follow_order(state, read.order, rows, sure=sure, renewed=renewed) if ordered else open_order(count)
        return found.recreated, found.kept, found.displaced

    recreated, kept, displaced = order_with(unmoved | (known & ~idle & ~lower))
    surely_absent = state.surely_absent[rows]
    if nothing_removed(state, read, (recreated | lower | idle) & known):
        surely_absent |= state.absent[rows] > 0
    signs = (lower | recreated | surely_absent | displaced) & known
    cleared = (signs & ~idle).any() or _vanished_without_idling(state, read)
    in_doubt = state.in_doubt[rows]
    if cleared and not facts.complete:
        state.in_doubt[: len(state.jobs)] = True
    if cleared or in_doubt.any():  # whoever seemed too busy to be evicted may have been cleared
        recreated, kept, displaced = order_with(unmoved)
    incarnation, last_seq = state.last_seq
    skipped = incarnation != facts.incarnation or _was_skipped(state, facts, last_seq)
    missed = (~state.unplaced[rows] & (not state.last_was_complete)) | skipped
    absent = state.absent[rows] > 0
    is_cut = not facts.complete and facts.clients is None  # each client has a file of its own, which was read whole
    twin = _changed_twins(state, read)
    if incarnation != facts.incarnation:
        twin |= known & ~unmoved & _may_have_equals(state, read)
    return Evidence(
        start_known=state.start[rows] != 0,
        lower=lower | (twin & _any_fell(read)),
        recreated=recreated,
        kept=kept | unmoved,
        ended=np.isin(rows, list(state.ended)),
        certain=_certain(state, read),
        surely_absent=surely_absent,
        twin=twin,
        suspect=idle | absent | displaced | in_doubt | cleared | is_cut | _behind_idle(state, read, idle),
        unwatched=absent | missed,
    )


def _was_skipped(state: MountState, facts: Facts, last_seq: int) -> bool:
    """Tell whether a read before this one is missing; clients are not told in every sweep, but once in a period."""
    if facts.clients is None:
        return facts.seq != last_seq + 1
    return facts.tick_seconds - state.last_tick >= 2 * facts.period_seconds


def nothing_removed(state: MountState, read: Read, reset: Flags) -> bool:
    """Tell that no record shown by the read before was removed since: so that one skipped none.

    Who was absent from it was not there. A record is skipped only if another, before it, is removed meanwhile; of
    records that print alike nobody can tell whether they were.
    """
    ordered = read.facts.complete and in_creation_order(read.facts.lustre_version)
    watched = ordered and state.last_was_complete and not len(read.gone)
    was_shown = state.absent[read.rows] == 0
    return watched and not ((reset & was_shown) | state.is_twin[read.rows]).any()


def _lower(state: MountState, read: Read) -> Flags:
    """Tell where a number fell: samples, sums of bytes, or a counter that is not there any more."""
    count = len(read.rows)
    fallen = read.samples < read.old_samples
    lower_sums = read.sums < read.old_sums
    if lower_sums.any():
        fallen |= lower_sums & state.in_bytes[read.column]
    still_used = read.old_samples > 0
    if not fallen.any() and np.count_nonzero(still_used) == state.used[read.rows].sum():
        return np.zeros(count, np.bool_)
    partial = np.zeros(count, np.bool_)
    partial[read.facts.moved.partial] = True
    lost = np.bincount(read.record, still_used, count) < state.used[read.rows]
    lower: Flags = (np.bincount(read.record, fallen, count) > 0) | (lost & ~partial)
    return lower


def _any_fell(read: Read) -> Flags:
    """Tell where any number fell, sums of times too: of records that print alike, it is another one then."""
    fell = (read.samples < read.old_samples) | (read.sums < read.old_sums)
    fallen: Flags = np.bincount(read.record, fell, len(read.rows)) > 0
    return fallen


def _idle(state: MountState, read: Read) -> Flags:
    """Tell which records may have been idle long enough to be evicted since their last value.

    A clock that was set back hides idle time, so what it was set back by counts as idle.
    """
    interval = np.minimum(state.least_interval[read.rows], interval_seconds(read.facts))
    back = state.clock_back - state.back_steps[read.rows]
    gap = read.facts.moved.snapshot - state.snapshot[read.rows] + back
    idle: Flags = (gap >= (interval - 1) * NSECS) | (gap < 0)
    return idle


def _behind_idle(state: MountState, read: Read, idle: Flags) -> Flags:
    """Tell which records that a cut read showed stand behind one that may have been re-created since.

    Whether that one stood there then, nobody said.
    """
    rows = read.rows
    behind = np.zeros(len(state.jobs), np.bool_)
    if state.unplaced[rows].any() and read.facts.complete:
        behind[read.order] = np.cumsum(np.isin(read.order, rows[idle & read.known])) > 0
    flags: Flags = behind[rows] & state.unplaced[rows]
    return flags


def _unmoved(state: MountState, read: Read) -> Flags:
    """Tell which records are sent only because the agent is new: nothing about them changed.

    Clients' counters do not say when they last did: those of one that was away may have come to the same numbers.
    """
    count = len(read.rows)
    if read.facts.complete and not read.facts.order_is_full:
        return np.zeros(count, np.bool_)
    changed = (read.samples != read.old_samples) | (read.sums != read.old_sums)
    steady = np.bincount(read.record, changed, count) == 0
    unmoved: Flags = read.known & steady & (read.facts.moved.snapshot == state.snapshot[read.rows])
    return unmoved if read.facts.clients is None else unmoved & ~state.surely_absent[read.rows]


def _certain(state: MountState, read: Read) -> Flags:
    """Tell which records the agent followed without a break since the value that we have."""
    since = read.facts.moved.continuous
    if len(since) == 0 or state.last_seq[0] != read.facts.incarnation:
        return np.zeros(len(read.rows), np.bool_)
    certain: Flags = (since > 0) & (state.value_seq[read.rows] >= since)
    return certain


def _vanished_without_idling(state: MountState, read: Read) -> bool:
    """Tell whether a record is gone that cannot have been idle so long: it was cleared, or the read skipped it."""
    gone = read.gone
    interval = np.minimum(state.least_interval[gone], interval_seconds(read.facts))
    back = state.clock_back - state.back_steps[gone]
    return bool((read.facts.read_at - state.snapshot[gone] + back < interval * NSECS).any())


def _changed_twins(state: MountState, read: Read) -> Flags:
    """Tell which records belong to an id whose equals changed together: which is which is anybody's guess."""
    changed = np.zeros(len(state.jobs), np.bool_)
    if state.twins:
        members, together, _ = _equals(state, read)
        changed[members] = together
    flags: Flags = changed[read.rows]
    return flags


def _may_have_equals(state: MountState, read: Read) -> Flags:
    """Tell whose id may stand for others too: those may have come and gone between what two agents saw."""
    return np.fromiter((b"?" in state.jobs[row] for row in read.rows), np.bool_, len(read.rows))


def gone_twins(state: MountState, read: Read) -> list[int]:
    """Return equals that are away while others of them changed: a life may go on under another rank."""
    if not state.twins:
        return []
    members, together, away = _equals(state, read)
    return [int(row) for row in members[away & together]]


def _equals(state: MountState, read: Read) -> tuple[Integers, Flags, Flags]:
    """Return all records that have equals; which of them changed together with another; and which are away.

    Away are those that were shown before and are not now, and were not taken as ended before.
    """
    groups = state.twins.values()
    members = np.array([row for group in groups for row in group])
    group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    count = len(state.jobs)
    moved, away = np.zeros((2, count), np.bool_)
    moved[read.rows] = True
    away[read.gone] = True
    away |= (state.absent[:count] > 0) | state.unplaced[:count]
    away[list(state.ended)] = False
    away[read.order] = False
    away &= ~moved
    if not read.facts.complete:  # what a cut read showed before may be behind the cut of this one
        away &= ~state.unplaced[:count]
    changed = moved | away | state.unplaced[:count]  # those too that a cut read showed since the last whole one
    together = np.bincount(group_of, changed[members])[group_of] > 1
    return members, together, away[members]
