"""What the order of a file tells: where it is creation order, a record that was re-created stands at its end."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting.mounts import NEVER, Integers, MountState

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class OrderEvidence:
    """Per moved record."""

    recreated: Flags
    """It stands behind a record that used to follow it: proof."""
    kept: Flags
    """It stands before a former follower that was there all the time: proof of the contrary."""
    behind_new: Flags
    """It stands behind one that is seen for the first time: that was missed before, or this one re-created."""


def open_order(count: int) -> OrderEvidence:
    """Return that nothing is known."""
    return OrderEvidence(*(np.zeros(count, np.bool_) for _ in range(3)))


def follow_order(state: MountState, order: Integers, rows: Integers, *, sure: Flags) -> OrderEvidence:
    """Compare the new file order with the creation order known so far.

    ``sure`` are the moved records that cannot have been re-created; one that did not move at all never was.
    """
    stamps = _stamps(state, order)
    older_before = np.concatenate([[NEVER], np.maximum.accumulate(stamps)[:-1]]) if len(order) else stamps
    recreated = (stamps != NEVER) & (older_before > stamps)
    steady = np.ones(len(state.jobs), np.bool_)
    steady[rows] = sure
    pillars = np.where(steady[order] & ~recreated, stamps, NEVER)
    younger_behind = np.concatenate([np.maximum.accumulate(pillars[::-1])[::-1][1:], [NEVER]]) if len(order) else stamps
    kept = (stamps != NEVER) & ~recreated & (younger_behind > stamps)
    for at in np.flatnonzero(kept & (state.absent[order] > 0)):
        # only who was there when it was last seen can have followed it then
        behind = pillars[at + 1 :]
        kept[at] = bool(((behind > stamps[at]) & (behind < state.horizon[order[at]])).any())
    first_seen = (state.seen_tick[order] == NEVER) & ~state.is_twin[order]
    new = np.maximum.accumulate(first_seen) if len(order) else recreated
    place = np.full(len(state.jobs), NEVER, np.int64)
    place[order] = np.arange(len(order))
    shown = place[rows] != NEVER
    at = place[rows[shown]]
    evidence = open_order(len(rows))
    evidence.recreated[shown] = recreated[at]
    evidence.kept[shown] = kept[at]
    evidence.behind_new[shown] = (new & (stamps != NEVER) & ~kept)[at]
    return evidence


def restamp(state: MountState, order: Integers) -> None:
    """Write the new order into the stamps: what stayed keeps its own, what stands behind it gets younger ones.

    A record seen for the first time in front of one that stayed was missed before: it shares its predecessor's
    stamp, so that nothing is concluded from the order of these two.
    """
    stamps = _stamps(state, order)
    highest = np.maximum.accumulate(stamps)
    stayed = (stamps != NEVER) & (stamps == highest)
    end = int(np.flatnonzero(stayed)[-1]) + 1 if stayed.any() else 0
    state.stamp[order[:end]] = np.maximum(highest[:end], 0)
    state.stamp[order[end:]] = state.next_stamp + np.arange(len(order) - end)
    state.next_stamp += len(order) - end + 1
    state.horizon[order] = state.next_stamp


def _stamps(state: MountState, order: Integers) -> Integers:
    """Return the stamps by place; those of records that print alike say nothing, they may have changed places."""
    return np.where(state.is_twin[order], NEVER, state.stamp[order])
