"""What only the simulator knows of clients: which decisions were wrong, and which clears left no trace."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from campaign.book import Book, Flag, Place, StayKey, Totals, amounts_of
from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import Integers, MountState
from harvest_core.facts import MDT, OST
from harvest_sim.lives import Shown
from harvest_sim.machines import is_server_uuid

if TYPE_CHECKING:
    from campaign.agents import Applied


@dataclass(slots=True)
class Seen:
    """The file of one client, as a pass has read it."""

    life: int
    """The true one."""
    start: int
    read_ns: int
    """The true time."""
    shown: list[Shown] = field(default_factory=list)
    """What was in it; it counts as shown when an aggregator has it."""
    hidden: tuple[int, bool, bool] | None = None
    """The operation of which the samples, the sum, or both could not be read."""
    uuids: tuple[bytes, ...] | None = None
    """Who was connected there; None if nobody asked."""


@dataclass(slots=True)
class _Row:
    """What was last shown of a client on one mount."""

    life: int
    """The true life that its value was taken for."""
    behind: int
    """The true life that showed it last: another one, if it came to the very same value."""
    value: Integers
    passed: int
    """In which pass its file was read."""
    has_ended: bool = False
    """That pass showed that it had been cleared: whatever others show in it, this one has behind it."""


@dataclass(slots=True)
class _Pages:
    """The passes through the clients of one mount."""

    rows: dict[int, _Row] = field(default_factory=dict)
    present: set[int] = field(default_factory=set)
    passed: int = 0
    sign: int = 0
    """The last pass that betrayed a clear."""
    unmounted: int = 0
    """The last pass before which the target was seen unmounted."""
    untraced: int = 0
    """The last pass in which somebody's clear left no trace."""


@dataclass(slots=True)
class ClientBook(Book):
    """The true lives behind the rows of the aggregator's state."""

    mounts: dict[Place, _Pages] = field(default_factory=dict)
    late_traces: int = 0
    """Clears without a trace in the pass that showed their first clients, but in the next one."""
    marks: list[str] = field(default_factory=list)
    """Clients that were told to be live, or servers, and were not, or the other way round."""

    def note_pass(self, done: "Applied", stay: Stay, seen: dict[bytes, Seen], *, is_baseless: bool) -> None:
        """Write down the flags of one pass, and whose values it brought.

        A clear left no trace of a client if all that was shown is possible without one: in no pass from the one
        that read this client's file before the clear to the one that read it afterwards did any client's number
        fall, or a line or directory go or come back; nor this client's own, just before a second clear.
        A pass without a base need not say who is live.
        """
        self.applied += 1
        place = (done.key, len(stay.mounts) - 1)
        state = stay.mounts[-1][1]
        pages = self.mounts.setdefault(place, _Pages())
        pages.passed += 1
        kind = done.facts.kind
        for flag in done.work.ambiguities:
            amounts = amounts_of(kind, state, flag.row, flag.amount)
            life = pages.rows[flag.row].life
            self.flags.append(Flag(life=life, at=self.applied, was_new=flag.was_new, amounts=amounts))
        rows = {state.rows[nid, one.start, 0]: one for nid, one in seen.items()}
        if done.facts.directory_gone:  # before the first file of this pass was read
            pages.sign = pages.passed - 1
            pages.unmounted = pages.passed
        if self._betrayed(pages, state, rows):
            self.late_traces += pages.untraced == pages.passed - 1 > 0
            pages.sign = pages.passed
        known = set(done.work.resets) | {flag.row for flag in done.work.ambiguities}
        ended = set(done.work.resets) - {flag.row for flag in done.work.ambiguities}
        for row, one in rows.items():
            self.life_last[one.life] = self.applied
            self._note_row(kind, pages, state, row, one.life, is_known=row in known)
            pages.rows[row].has_ended = row in ended
        pages.present = set(state.order.tolist()) | (set() if done.facts.complete else pages.present | rows.keys())
        for nid, one in seen.items() if not is_baseless else ():
            self._check_marks(state, nid, one)

    def _betrayed(self, pages: _Pages, state: MountState, rows: dict[int, Seen]) -> bool:
        """Tell whether a pass shows that somebody was cleared."""
        present = set(state.order.tolist())
        came_back = any(row in pages.rows and row not in pages.present for row in rows)
        fell = any(row in pages.rows and _fell(pages.rows[row].value, state.value(row), state) for row in rows)
        return fell or came_back or not pages.present <= present

    def _note_row(self, kind: str, pages: _Pages, state: MountState, row: int, life: int, *, is_known: bool) -> None:
        value = state.value(row)
        before = pages.rows.get(row)
        if before is None:
            pages.rows[row] = _Row(life, life, value, pages.passed)
            return
        self.decisions += 1
        lost = np.minimum(before.value, value[: len(before.value)])
        if before.behind not in {before.life, life}:  # it came to the same value several times: nobody can see that
            self._lose(amounts_of(kind, state, row, before.value))
        is_equal = np.array_equal(before.value, value[: len(before.value)]) and not value[len(lost) :].any()
        was_away = before.passed < pages.unmounted or row not in pages.present
        if not is_known and is_equal and not was_away:
            pages.rows[row] = _Row(before.life, life, value, pages.passed)
            return
        is_untraced = pages.sign < before.passed + before.has_ended
        if life != before.life and not is_known and is_untraced:
            pages.untraced = pages.passed
            self._lose(amounts_of(kind, state, row, lost))
        pages.rows[row] = _Row(life, life, value, pages.passed)

    def _check_marks(self, state: MountState, nid: bytes, one: Seen) -> None:
        row = state.rows[nid, one.start, 0]
        is_live, is_server = bool(state.is_live[row]), bool(state.is_server[row])
        if is_live != (one.uuids is None or bool(one.uuids)):
            self.marks.append(f"{nid!r} live: {is_live}, but connected: {one.uuids}")
        servers = nid == b"0@lo" or all(is_server_uuid(uuid.decode()) for uuid in one.uuids or ())
        if (one.uuids or nid == b"0@lo") and is_server != servers:
            self.marks.append(f"{nid!r} a server: {is_server}, but connected: {one.uuids}")

    def note_the_unmoved(self, stays: dict[StayKey, Stay]) -> None:
        """Note what clients lost who were cleared, came to the very same value, and did no more since."""
        for (key, number), pages in self.mounts.items():
            state = stays[key].mounts[number][1]
            kind = OST if OST in key[0] else MDT
            for row, last in pages.rows.items():
                if last.behind != last.life:
                    self._lose(amounts_of(kind, state, row, last.value))

    def _lose(self, amounts: Totals) -> None:
        if amounts:
            self.invisible.append(amounts)


def _fell(before: Integers, now: Integers, state: MountState) -> bool:
    """Tell whether a number is lower that never is within a life."""
    new = now[: len(before)]
    return bool(((new[:, 0] < before[:, 0]) | (state.in_bytes[: len(before)] & (new[:, 1] < before[:, 1]))).any())
