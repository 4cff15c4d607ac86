"""What only the simulator knows: which decisions were wrong, and which could not be seen at all."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from campaign.details import Details
from campaign.traces import Page, Pages
from campaign.unseen import Unseen
from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import Integers, MountState
from harvest_core.facts import Facts
from harvest_sim.lives import EndReason, Life
from harvest_sim.truth import Truth
from harvest_sim.versions import traits

if TYPE_CHECKING:
    from campaign.agents import Applied

Totals = dict[tuple[str, bytes, str, str], tuple[int, int]]
"""(kind, job, counter, unit) -> (samples, sum)."""
StayKey = tuple[str, str]
"""(target, boot id)."""
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
class Book:
    """The true lives behind the rows of the aggregator's state."""

    row_life: dict[tuple[StayKey, int, int], int] = field(default_factory=dict)
    pages: dict[Place, Pages] = field(default_factory=dict)
    flags: list[Flag] = field(default_factory=list)
    invisible: list[Totals] = field(default_factory=list)
    """What was lost by clears that left no trace: every record back, in the old order, and higher."""
    life_last: dict[int, int] = field(default_factory=dict)
    """When each life was last shown, in applied reads."""
    unseen: Unseen = field(default_factory=Unseen)
    details: dict[int, Details] = field(default_factory=dict)
    """Of each life, as it was last shown."""
    applied: int = 0
    decisions: int = 0

    def note(self, done: "Applied", stay: Stay, lives: dict[int, int], truth: Truth) -> None:
        """Write down the flags of one read, and whose values it brought."""
        self.applied += 1
        place = (done.key, len(stay.mounts) - 1)
        state = stay.mounts[-1][1]
        slots = dict(state.slots[done.facts.incarnation].T.tolist())
        kind = done.facts.kind
        for flag in done.work.ambiguities:
            life = self.row_life[*place, flag.row]
            amounts = amounts_of(kind, state, flag.row, flag.amount)
            self.flags.append(Flag(life=life, at=self.applied, was_new=flag.was_new, amounts=amounts))
        row_lives = {slots[slot]: life for slot, life in lives.items()}
        pages = self.pages.setdefault(place, Pages())
        page = Page.of(row_lives, state, done.facts)
        invisible: set[int] | None = None
        known = set(done.work.resets) | {flag.row for flag in done.work.ambiguities}
        for slot in done.facts.moved.slot:
            row = slots[int(slot)]
            before = self.row_life.get((*place, row))
            life = lives[int(slot)]
            self.decisions += 1
            if before not in {None, life} and row not in known:
                if invisible is None:
                    invisible = self._invisible(place, page, truth, state, done.facts)
                if row in invisible:
                    self.invisible.append(amounts_of(kind, state, row, pages.lost(row, page)))
            self.row_life[*place, row] = life
        pages.add(page, done.facts, ended=done.work.resets)
        for life in lives.values():
            self.life_last[life] = self.applied

    def _invisible(self, place: Place, page: Page, truth: Truth, state: MountState, facts: Facts) -> set[int]:
        """Return the rows of which another life began, and nobody can see it.

        They were cleared without a trace; or evicted before that, and then came back before one that was cleared and
        cannot have been evicted: as that one looks as if it had stayed, so does whoever stands before it.
        """
        pages = self.pages[place]
        is_ordered = any(keeps_order(truth.lives[shown.life]) for shown in page.records.values())
        ended: dict[int, int] = {}
        for row in pages.untraced(page, state, facts, is_ordered=is_ordered):
            before = self.row_life.get((*place, row))
            if before is not None and before != page.records[row].life:
                ended[row] = before
        cleared = {row for row, life in ended.items() if truth.lives[life].end_reason in _ALL_AT_ONCE}
        return cleared | (ended.keys() & pages.held_in_place(cleared, page) if is_ordered else set())

    def renumber(self, place: Place, new_row: dict[int, int]) -> None:
        """Follow rows that have other numbers now; those that left have none."""
        mine = {at: life for at, life in self.row_life.items() if at[:2] == place}
        for at in mine:
            del self.row_life[at]
        self.row_life |= {(*place, new_row[at[2]]): life for at, life in mine.items() if at[2] in new_row}
        if place in self.pages:
            self.pages[place].renumber(new_row)

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


def keeps_order(life: Life) -> bool:
    """Tell whether the files of a life's server are in creation order, as the design trusts them to be."""
    return life.scope.version.numbers >= (2, 5, 3) and traits(life.scope.version).keeps_creation_order


def amounts_of(kind: str, state: MountState, row: int, values: Integers) -> Totals:
    """Return values of a row as an amount of each of its counters."""
    return {
        (kind, state.jobs[row], *name): (int(samples), int(total))
        for name, (samples, total) in zip(state.counters, values, strict=False)
        if samples or total
    }


def _add(totals: Totals, amounts: Totals, sign: int) -> None:
    for key, (samples, amount) in amounts.items():
        before = totals.get(key, (0, 0))
        totals[key] = (before[0] + sign * samples, before[1] + sign * amount)
