"""What only the simulator knows: which decisions were wrong, and which could not be seen at all."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import Integers, MountState
from harvest_sim.lives import EndReason
from harvest_sim.truth import Truth

if TYPE_CHECKING:
    from campaign.agents import Applied

Totals = dict[tuple[str, bytes, str, str], tuple[int, int]]
"""(kind, job, counter, unit) -> (samples, sum)."""
StayKey = tuple[str, str, str]
"""(target, server, boot id)."""
Place = tuple[StayKey, int]
"""One mount of a stay."""
_ALL_AT_ONCE = {EndReason.CLEARED, EndReason.UNMOUNTED}
"""Ends that no idle time announces; an unmount shows by its instance, unless that is the same without last_rcvd."""


@dataclass(slots=True)
class Flag:
    """A decision that could not be known."""

    life: int
    """The true life that the row's last value belonged to."""
    at: int
    """When, in applied reads."""
    was_new: bool
    amounts: Totals


@dataclass(slots=True)
class Page:
    """What one whole read showed, in file order: the true lives, and the values that the state took."""

    lives: dict[int, int]
    """By row."""
    values: dict[int, Integers]


@dataclass(slots=True)
class Book:
    """The true lives behind the rows of the aggregator's state."""

    row_life: dict[tuple[StayKey, int, int], int] = field(default_factory=dict)
    pages: dict[Place, Page] = field(default_factory=dict)
    flags: list[Flag] = field(default_factory=list)
    invisible: list[Totals] = field(default_factory=list)
    """What was lost by clears that left no trace: every record back, in the old order, and higher."""
    life_last: dict[int, int] = field(default_factory=dict)
    """When each life was last shown, in applied reads."""
    applied: int = 0
    decisions: int = 0

    def note(self, done: "Applied", stay: Stay, lives: dict[int, int], truth: Truth) -> None:
        """Write down the flags of one read, and whose values it brought."""
        self.applied += 1
        place = (done.key, len(stay.mounts) - 1)
        state = stay.mounts[-1][1]
        slots = state.slots[done.facts.incarnation]
        kind = done.facts.kind
        for flag in done.work.ambiguities:
            life = self.row_life[*place, flag.row]
            amounts = _amounts(kind, state, flag.row, flag.amount)
            self.flags.append(Flag(life=life, at=self.applied, was_new=flag.was_new, amounts=amounts))
        row_lives = {int(slots[slot]): life for slot, life in lives.items()}
        page = self.pages.get(place)
        known = set(done.work.resets) | {flag.row for flag in done.work.ambiguities}
        for slot in done.facts.moved.slot:
            row = int(slots[slot])
            before = self.row_life.get((*place, row))
            life = lives[int(slot)]
            self.decisions += 1
            if (
                before not in {None, life}
                and row not in known
                and page
                and row in page.lives
                and not state.is_twin[row]
                and truth.lives[page.lives[row]].end_reason in _ALL_AT_ONCE
                and _left_no_trace(page, row_lives, state, done, truth)
            ):
                lost = np.minimum(page.values[row], _padded(state.value(row), page.values[row]))
                self.invisible.append(_amounts(kind, state, row, lost))
            self.row_life[*place, row] = life
        if done.facts.complete or page is None:
            page = self.pages[place] = Page({}, {})
        page.lives |= row_lives  # of a read that was cut short: what it showed
        page.values |= {row: state.value(row) for row in row_lives}
        for life in lives.values():
            self.life_last[life] = self.applied

    def explained(self) -> Totals:
        """Return what invisible clears and the wrong ones among the flagged decisions account for: truth less total."""
        totals: Totals = {}
        for amounts in self.invisible:
            _add(totals, amounts, 1)
        for flag in self.flags:
            goes_on = self.life_last.get(flag.life, -1) >= flag.at
            if goes_on == flag.was_new:
                _add(totals, flag.amounts, -1 if flag.was_new else 1)
        return {key: amount for key, amount in totals.items() if amount != (0, 0)}


def _left_no_trace(page: Page, lives: dict[int, int], state: MountState, done: "Applied", truth: Truth) -> bool:
    """Tell by the truth whether a clear between two whole reads could not be seen by any reader.

    Every record that was there is back, or was idle long enough to be evicted by now; in the old order; and none of
    those that began again shows less than before.
    """
    if not done.facts.complete:
        return False
    for row, life in page.lives.items():
        idle = done.facts.tick_seconds - truth.lives[life].journal[-1].at_ns / 1e9
        if row not in lives and idle < (done.facts.cleanup_interval_seconds or 0):
            return False
        if row in lives and lives[row] != life:
            before = page.values[row]
            after = _padded(state.value(row), before)
            fell = (after[:, 0] < before[:, 0]) | (state.in_bytes[: len(before)] & (after[:, 1] < before[:, 1]))
            if fell.any():
                return False
    stayed = [row for row in page.lives if row in lives]
    return stayed == [row for row in lives if row in page.lives]


def _padded(after: Integers, before: Integers) -> Integers:
    return after[: len(before)]


def _amounts(kind: str, state: MountState, row: int, values: Integers) -> Totals:
    return {
        (kind, state.jobs[row], *name): (int(samples), int(total))
        for name, (samples, total) in zip(state.counters, values, strict=False)
        if samples or total
    }


def _add(totals: Totals, amounts: Totals, sign: int) -> None:
    for key, (samples, amount) in amounts.items():
        before = totals.get(key, (0, 0))
        totals[key] = (before[0] + sign * samples, before[1] + sign * amount)
