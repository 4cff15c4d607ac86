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
    """It stands behind a record that used to follow it, or that was created since: proof."""
    kept: Flags
    """It stands before a former follower that was there all the time: proof of the contrary."""
    displaced: Flags
    """One of these two was re-created, or missed by a read: it, or one in front of it."""


def open_order(count: int) -> OrderEvidence:
    """Return that nothing is known."""
    return OrderEvidence(*(np.zeros(count, np.bool_) for _ in range(3)))


def follow_order(state: MountState, order: Integers, rows: Integers, *, sure: Flags, renewed: Flags) -> OrderEvidence:
    """Compare the new file order with the creation order known so far.

    ``sure`` are the moved records that cannot have been re-created, ``renewed`` those that certainly were, by other
    evidence; one that did not move at all never was. Whatever
    stands behind a record that was created since the last whole read was created since, too; of one that a cut
    read has shown meanwhile nobody knows whether that was before or after.
    """
    count = len(state.jobs)
    stamps = _stamps(state, order)
    plain = ~state.is_twin[order]
    unplaced = state.unplaced[order]
    was_shown = _marked(count, state.order)[order]
    inverted = (stamps != NEVER) & (_highest_before(stamps) > stamps)
    # of one that the last whole read did not show nobody knows whether it was skipped, unless none can be
    created = np.where(was_shown, inverted | _marked(count, rows[renewed])[order], not state.last_could_skip)
    recreated = (inverted | _any_before(created & plain)) & plain
    steady = ~state.unplaced[:count]
    steady[rows] &= sure
    pillars = np.where(steady[order] & ~recreated, stamps, NEVER)
    kept = (stamps != NEVER) & ~recreated & (_highest_before(pillars[::-1])[::-1] > stamps)
    for at in np.flatnonzero(kept & (state.absent[order] > 0)):
        # only who was there when it was last seen can have followed it then
        behind = pillars[at + 1 :]
        kept[at] = bool(((behind > stamps[at]) & (behind < state.horizon[order[at]])).any())
    arrived = (~was_shown | (stamps == NEVER)) & plain
    displaced = (recreated | _any_before(arrived)) & (was_shown | unplaced) & plain & ~kept
    place = np.full(count, NEVER, np.int64)
    place[order] = np.arange(len(order))
    shown = place[rows] != NEVER
    at = place[rows[shown]]
    evidence = open_order(len(rows))
    evidence.recreated[shown] = (recreated & ~unplaced)[at]
    evidence.kept[shown] = kept[at]
    evidence.displaced[shown] = displaced[at]
    return evidence


def _marked(count: int, rows: Integers) -> Flags:
    marked = np.zeros(count, np.bool_)
    marked[rows] = True
    return marked


def _highest_before(numbers: Integers) -> Integers:
    """Return by place the highest number in front of it."""
    return np.concatenate([[NEVER], np.maximum.accumulate(numbers)[:-1]]) if len(numbers) else numbers


def _any_before(flags: Flags) -> Flags:
    """Tell by place whether any in front of it is set."""
    return np.concatenate([[False], np.logical_or.accumulate(flags)[:-1]]) if len(flags) else flags


def restamp(state: MountState, order: Integers) -> None:
    """Write the new order into the stamps: what stayed keeps its own, what was created since gets younger ones.

    So does whatever stands behind that. Where it may have stayed, and the one in front of it was missed before,
    nobody knows any more how old it is compared with those that are away: then nothing is said of their places.
    """
    stamps = _stamps(state, order)
    before = _highest_before(stamps)
    created = ((stamps == NEVER) | (stamps < before)) & ~state.is_twin[order]
    end = int(np.argmax(created)) if created.any() else len(order)
    was_shown = _marked(len(state.jobs), state.order)[order[end : end + 1]]
    is_sure = not state.last_could_skip or (was_shown & (stamps[end : end + 1] != NEVER)).any()
    if not is_sure and end < len(order) and stamps[end:].max() > before[end]:
        state.stamp[: len(state.jobs)][~_marked(len(state.jobs), order)] = NEVER
    state.stamp[order[end:]] = state.next_stamp + np.arange(len(order) - end)
    state.next_stamp += len(order) - end + 1
    state.horizon[order] = state.next_stamp


def _stamps(state: MountState, order: Integers) -> Integers:
    """Return the stamps by place; those of records that print alike say nothing, they may have changed places."""
    return np.where(state.is_twin[order], NEVER, state.stamp[order])
