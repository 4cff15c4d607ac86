"""Which flagged decisions were wrong: known to the simulator alone."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harvest_core.accounting.apply import Stay

if TYPE_CHECKING:
    from campaign.agents import Applied

Totals = dict[tuple[str, bytes, str, str], tuple[int, int]]
"""(kind, job, counter, unit) -> (samples, sum)."""
StayKey = tuple[str, str, str]
"""(target, server, boot id)."""


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
    flags: list[Flag] = field(default_factory=list)
    life_last: dict[int, int] = field(default_factory=dict)
    """When each life was last shown, in applied reads."""
    applied: int = 0
    decisions: int = 0

    def note(self, done: "Applied", stay: Stay, lives: dict[int, int]) -> None:
        """Write down the flags of one read, and whose values it brought."""
        self.applied += 1
        mount = len(stay.mounts) - 1
        state = stay.mounts[-1][1]
        for flag in done.work.ambiguities:
            self.flags.append(
                Flag(
                    life=self.row_life[done.key, mount, flag.row],
                    at=self.applied,
                    was_new=flag.was_new,
                    amounts={
                        (done.facts.kind, state.jobs[flag.row], *name): (int(samples), int(total))
                        for name, (samples, total) in zip(state.counters, flag.amount, strict=False)
                        if samples or total
                    },
                )
            )
        slots = state.slots[done.facts.incarnation]
        for slot in done.facts.moved.slot:
            self.decisions += 1
            self.row_life[done.key, mount, int(slots[slot])] = lives[int(slot)]
        for life in lives.values():
            self.life_last[life] = self.applied

    def explained(self) -> Totals:
        """Return what the wrong ones among the flagged decisions account for: truth less total."""
        totals: Totals = {}
        for flag in self.flags:
            goes_on = self.life_last.get(flag.life, -1) >= flag.at
            if goes_on == flag.was_new:
                sign = -1 if flag.was_new else 1
                for key, (samples, amount) in flag.amounts.items():
                    before = totals.get(key, (0, 0))
                    totals[key] = (before[0] + sign * samples, before[1] + sign * amount)
        return {key: amount for key, amount in totals.items() if amount != (0, 0)}
