"""The series of one kind of subject, such as jobs: who has any, and what each counter says. Pure (ADR 0015).

A counter says how much more its total is than when it was first shown. All who have no series of their own are `other`:
what all did together, less what is, or was, in others' series. So nothing is lost or doubled, whoever comes and goes.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, Protocol

import numpy as np

from harvest_aggregator.showing import ROWS_AT_ONCE, Column, Since
from harvest_aggregator.sinks.prometheus_cells import BITS, COLUMN, Cells, Flags, Integers, Moment
from harvest_aggregator.sinks.scrapes import HOLD_SECONDS

Subject = Hashable

OTHER: Final[Subject] = ()
ALL, TOP = "all", "top"
"""Whether everybody has series, so that who is new was never in `other`; or only some have."""
_NOTHING: Final = Since(0, released=False)
_LEFT_MOST: Final = 100_000
_NOBODY: Final = 1 << 40
"""A number that no subject gets."""


@dataclass(slots=True)
class Entry:
    """What is written of a subject."""

    cells: dict[Column, Since]
    labels: tuple[str, ...] = ()
    """What it is called; of `other`, whether everybody else is shown, how all are called, and all scopes."""
    left_seconds: int = 0
    """When it left, if it did: then each base is how far its counter came, below zero."""


Done = Mapping[Subject, Mapping[Column, int]]
"""What each subject did since ever."""


class Book(Protocol):
    """Where it is written who is shown."""

    def former(self, subjects: Sequence[Subject]) -> Mapping[Subject, Entry]:
        """Return what was written of those of these subjects that left."""

    def keep(self, entries: Mapping[Subject, Entry]) -> None:
        """Make it durable."""


class Totals(NamedTuple):
    """What was done since ever, in any order: every subject's number, the column's number, and how much."""

    subject: Integers
    column: Integers
    total: Integers


NO_TOTALS: Final = Totals(*np.zeros((3, 0), np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that is known of a kind of subject at one moment."""

    totals: Callable[["Series"], Totals]
    """Of those who have numbers."""
    everybody: Mapping[Column, int]
    """What all did together."""
    new: Iterable[Subject]
    """Who could be shown: the busiest first; where everybody is to be, all."""
    is_over: Callable[[Subject], bool]
    begin: Callable[[Sequence[Subject]], Done]
    """Returns what subjects have done until now; from now on that is known at every moment."""
    scopes: frozenset[str]
    """Where anything could be done, such as targets: of one that is new nobody knows when its work was done."""
    scope: Callable[[Column], str]
    labels: Callable[[Subject], tuple[str, ...]] = lambda _: ()
    waits: bool = False
    """Whether who has series in a scope that is not there waits for it, as what it does there goes on unseen."""
    nameless: Sequence[Subject] = ()
    """Who could be shown once it has a name, where everybody is to be: until then it is counted among the others."""
    naming: str = ""
    """How subjects are called: if otherwise than in the last picture, what they did is not to be compared with that."""
    renamed: Callable[["Series"], tuple[Totals, Totals]] = lambda _: (NO_TOTALS, NO_TOTALS)
    """Returns what those who have numbers had done when that was changed: by the former names, and by the new ones."""


def _cells_of(totals: Totals) -> tuple[Integers, Integers]:
    return (totals.subject << BITS) | totals.column, totals.total


class Shown(NamedTuple):
    """What is shown: every series, and what it says."""

    subject: Integers
    column: Integers
    value: Integers


class Series:
    """One kind of subject. Used by one thread; after an error another one is to be loaded from what was written."""

    def __init__(self, *, mode: str, limit: int, begins_at_once: bool = False) -> None:
        """``begins_at_once``: of who is new nobody knows when its work was done."""
        self._mode = mode
        self._limit = limit
        self._begins_at_once = begins_at_once
        self.columns: list[Column] = []
        self._column: dict[Column, int] = {}
        self.subjects: dict[int, Subject] = {}
        self.labels: dict[int, tuple[str, ...]] = {}
        self._number: dict[Subject, int] = {}
        self._numbers_used = 0
        self._number_of(OTHER, ())
        self._known_mode: str | None = None
        """As it was written last; nothing if nothing ever was."""
        self._naming: str | None = None
        self._scopes: frozenset[str] = frozenset()
        self._left: set[Subject] = set()
        """Some of those who left."""
        self.away: set[int] = set()
        """Who is over, but cannot leave: nobody knows how far it came on a file system that is not there."""
        self._cells = Cells()

    def load(self, entries: Mapping[Subject, Entry], moment: Moment) -> None:
        """Bring back what was written."""
        found = {}
        for subject, entry in entries.items():
            labels = entry.labels
            if subject == OTHER:
                self._known_mode, self._naming, *scopes = labels
                self._scopes, labels = frozenset(scopes), ()
            found[self._number_of(subject, labels)] = entry.cells
        self._add(found, moment._replace(rendering=moment.rendering - 1))

    def column(self, column: Column) -> int:
        """Return the number of a column."""
        number = self._column.setdefault(column, len(self.columns))
        if number == len(self.columns):
            self.columns.append(column)
        return number

    def number(self, subject: Subject) -> int:
        """Return the number of a subject; -1 if it is not shown."""
        return self._number.get(subject, -1)

    def step(self, picture: Picture, book: Book, moment: Moment) -> Shown:
        """Return what is shown from now on; whatever must last is written before."""
        is_renamed = self._naming not in {None, picture.naming}
        lost, changed = self._rename(picture, moment) if is_renamed else (set(), set())
        if self._naming != picture.naming:
            self._naming = picture.naming
            changed.add(0)
        written = self._leave(picture, lost, moment)
        changed = (changed & self.subjects.keys()) | ({0} if written else set())
        first = self._numbers_used if self._begins_at_once else _NOBODY
        back, loose = self._enter(picture, book, moment, written, is_renamed=is_renamed)
        changed |= back
        self._put_with_others(picture, book, moment)
        loose |= self._release(moment)
        unseen = picture.scopes - self._scopes
        if unseen:
            self._scopes |= unseen
            changed.add(0)
        loose.update(range(first, self._numbers_used))
        more, value, is_known = self._count(picture, unseen, first, moment)
        loose |= more
        if is_renamed:
            changed |= loose
        self._keep(book, loose - changed)
        written |= {self.subjects[number]: self._entry(number) for number in changed}
        if written:
            book.keep(written)
        return self._say(value, is_known, moment)

    def _keep(self, book: Book, numbers: Iterable[int]) -> None:
        """Write of subjects what holds of each alone, before all that must be written at once; of many not at once."""
        some = iter(numbers)
        while entries := {self.subjects[number]: self._entry(number) for number in islice(some, ROWS_AT_ONCE)}:
            book.keep(entries)

    # --- who is shown ---

    def _rename(self, picture: Picture, moment: Moment) -> tuple[set[int], set[int]]:
        """Let every series go on where it is, though by other names its total is another one, or nobody has any.

        Return those of whom nothing is left by their names, and those whose series count from another total on.
        """
        then, now = (_cells_of(totals) for totals in picture.renamed(self))
        cells = self._cells
        is_new = ~cells.find(now[0])[1]
        cells.add(now[0][is_new], now[1][is_new], np.zeros(is_new.sum(), np.bool_), moment)
        before, was_known = self._more(*then)
        after, is_known = self._more(*now)
        came = np.where(cells.said < 0, np.where(cells.released, np.maximum(before, 0), 0), cells.said)
        lost, moved = was_known & ~is_known, was_known & is_known & (after != before)
        cells.base[moved] += (after - before)[moved]
        cells.base[lost] = -came[lost]
        cells.said[lost] = came[lost]
        cells.lost |= lost
        changed = set((np.append(cells.cell[lost | moved], now[0][is_new]) >> BITS).tolist())
        gone = set((cells.cell[lost] >> BITS).tolist()) - set((now[0] >> BITS).tolist())
        cells.drop(lost & (came == 0))
        return gone, changed

    def _leave(self, picture: Picture, lost: set[int], moment: Moment) -> dict[Subject, Entry]:
        """Let those go who are lost, or over with numbers that everybody has seen; return what is to be written."""
        left: dict[Subject, Entry] = {}
        cells = self._cells
        is_away = np.array([picture.scope(column) not in picture.scopes for column in self.columns], np.bool_)
        held = cells.released & (cells.said < 0)  # another process showed it, and now nobody knows its total
        of_away = is_away[cells.cell & COLUMN]
        held_away = held & of_away
        moving = (cells.since > moment.now - HOLD_SECONDS) | (held & ~held_away)
        stay = {0, *(cells.cell[moving] >> BITS).tolist()}
        rest = [number for number in self.subjects if number not in stay]
        over = {number for number in rest if picture.is_over(self.subjects[number])}
        waiting = cells.cell[of_away if picture.waits else held_away]
        self.away = over.intersection((waiting >> BITS).tolist()) - lost
        for number in (over - self.away) | lost:
            entry = self._entry(number)
            came = dict(zip(entry.cells, np.maximum(cells.said[cells.of(number)], 0).tolist(), strict=True))
            entry.cells = {column: Since(-came[column], since.released) for column, since in entry.cells.items()}
            entry.left_seconds = moment.wall_seconds
            self._add_to_other(came, moment)
            subject = self.subjects.pop(number)
            left[subject] = entry
            self._left.add(subject)
            del self._number[subject], self.labels[number]
        if left:
            self._cells.drop(~np.isin(self._cells.cell >> BITS, list(self.subjects)))
        return left

    def _enter(
        self, picture: Picture, book: Book, moment: Moment, left: Container[Subject], *, is_renamed: bool
    ) -> tuple[set[int], set[int]]:
        """Let others in, as many as there is room for.

        Return those of whom something is to be written: at once, as others are concerned; and those who are not.
        Where everybody is shown, who is new was never in any series; not so when names are others now.
        """
        is_exact = self._mode == ALL and self._known_mode in {None, ALL} and not is_renamed
        fresh, is_full = self._fresh(picture, left)
        former = book.former(fresh) if fresh and self._known_mode is not None else {}
        asleep = {subject for subject in former if picture.is_over(subject)}
        self._left = asleep | (self._left if len(self._left) < _LEFT_MOST else set())
        fresh = [subject for subject in fresh if subject not in asleep]
        asked = [subject for subject in fresh if not is_exact or subject in former]
        done = picture.begin(asked) if asked else {}
        entered: dict[int, Mapping[Column, Since]] = {}
        back: dict[int, dict[Column, int]] = {}
        for subject in fresh:
            known = former[subject].labels if subject in former else ()
            number = self._number_of(subject, known or picture.labels(subject))
            cells = {column: Since(total, released=False) for column, total in done.get(subject, {}).items()}
            if subject in former:
                came = {column: since.base for column, since in former[subject].cells.items()}
                cells |= {
                    column: Since(
                        base + cells.get(column, _NOTHING).base,
                        former[subject].cells[column].released,
                        lost=column not in cells,
                    )
                    for column, base in came.items()
                }
                self._add_to_other(came, moment)
                self._left.discard(subject)
                back[number] = came
            entered[number] = cells
        self._add(entered, moment)
        for number, came in back.items():
            self._say_again(number, came)
        changed = {0, *back} if back else set()
        mode = ALL if self._mode == ALL and not is_full else TOP
        if mode != self._known_mode:
            self._known_mode = mode
            changed.add(0)
        # later, nobody would ask; of the others, all is written when more than their first 0 is shown
        return changed, set(entered) if self._mode == ALL and not is_exact else set()

    def _fresh(self, picture: Picture, left: Container[Subject]) -> tuple[list[Subject], bool]:
        """Return who is to be shown from now on, and whether there were more than there is room for.

        Who has left just now can come back only when that is written.
        """
        room = self._limit + 1 - len(self.subjects) + len(self.away)
        fresh: list[Subject] = []
        for subject in picture.new:
            if subject in self._number or subject in left or (subject in self._left and picture.is_over(subject)):
                continue
            if len(fresh) >= room:
                return fresh, True
            fresh.append(subject)
        return fresh, False

    def _put_with_others(self, picture: Picture, book: Book, moment: Moment) -> None:
        """Write of those who have no name yet that they are in `other`: once they have one, they begin from there."""
        new = [subject for subject in picture.nameless if subject not in self._number and subject not in self._left]
        former = book.former(new) if new else {}
        some = iter(subject for subject in new if subject not in former)
        while entries := {one: Entry({}, left_seconds=moment.wall_seconds) for one in islice(some, ROWS_AT_ONCE)}:
            book.keep(entries)
        self._left.update(new)

    def _release(self, moment: Moment) -> set[int]:
        """Let those series count whose 0 everybody has seen; return whose they are."""
        cells = self._cells
        age = moment.now - cells.since
        is_seen = (age >= moment.gap_seconds) & (cells.first <= moment.seen_by_all)
        free = ~cells.released & (cells.said >= 0) & (is_seen | (age >= HOLD_SECONDS))
        cells.released |= free
        return set((cells.cell[free] >> BITS).tolist())

    # --- what each counter says ---

    def _count(
        self, picture: Picture, unseen: frozenset[str], first: int, moment: Moment
    ) -> tuple[set[int], Integers, Flags]:
        """Take in totals, also of series that are new.

        Return whose series count at once, as nobody knows when that was done which is there; and how much more every
        total is than at its base, and whether anybody knows.
        """
        cell, total = _cells_of(picture.totals(self))
        columns = [self.column(column) for column in picture.everybody]
        everybody = np.full(len(self.columns), -1, np.int64)
        everybody[columns] = list(picture.everybody.values())
        is_unseen = np.array([picture.scope(some) in unseen for some in self.columns], np.bool_)
        new = cell[total > 0]
        changed = self._find_again(cell, total) | self._add_new(
            new, is_unseen[new & COLUMN] | (new >> BITS >= first), moment
        )
        value, is_known = self._more(cell, total)
        of_some = np.zeros(len(self.columns), np.int64)
        here = self._cells.cell >= 1 << BITS
        said = np.where(is_known, value, self._cells.said)[here]  # of whom nothing is known now, what it said last
        np.add.at(of_some, self._cells.cell[here] & COLUMN, np.maximum(said, 0))
        rest = everybody - of_some
        is_there = everybody >= 0
        new = np.flatnonzero(is_there & (rest > 0))
        changed |= self._add_new(new, is_unseen[new], moment)
        value, is_known = self._more(
            np.concatenate([cell, np.flatnonzero(is_there)]), np.concatenate([total, rest[is_there]])
        )
        return changed, value, is_known

    def _find_again(self, cell: Integers, total: Integers) -> set[int]:
        """Let series that were lost go on where they were; return whose these are."""
        more, is_known = self._more(cell, total)
        cells = self._cells
        found = cells.lost & is_known
        cells.base[found] += (more + cells.base)[found]
        cells.lost &= ~found
        return set((cells.cell[found] >> BITS).tolist())

    def _add_new(self, cell: Integers, released: Flags, moment: Moment) -> set[int]:
        """Add those series that are not there; return whose of them count at once."""
        is_new = ~self._cells.find(cell)[1]
        cell, released = cell[is_new], released[is_new]
        self._cells.add(cell, np.zeros(len(cell), np.int64), released, moment)
        return set((cell[released] >> BITS).tolist())

    def _more(self, cell: Integers, total: Integers) -> tuple[Integers, Flags]:
        place, is_there = self._cells.find(cell)
        value = np.zeros(len(self._cells.cell), np.int64)
        is_known = np.zeros(len(value), np.bool_)
        value[place[is_there]] = total[is_there] - self._cells.base[place[is_there]]
        is_known[place[is_there]] = True
        return value, is_known

    def _say(self, value: Integers, is_known: Flags, moment: Moment) -> Shown:
        cells = self._cells
        shown = np.flatnonzero(is_known | (cells.first == moment.rendering))
        said = np.maximum(np.where(cells.released[shown], value[shown], 0), np.maximum(cells.said[shown], 0))
        cells.first[shown[cells.said[shown] < 0]] = moment.rendering
        cells.since[shown[cells.said[shown] != said]] = moment.now
        cells.said[shown] = said
        return Shown(cells.cell[shown] >> BITS, cells.cell[shown] & COLUMN, said)

    # --- what is written ---

    def _entry(self, number: int) -> Entry:
        mine = self._cells.of(number)
        columns = [self.columns[column] for column in (self._cells.cell[mine] & COLUMN).tolist()]
        since = (of[mine].tolist() for of in (self._cells.base, self._cells.released, self._cells.lost))
        labels = self.labels[number]
        if not number:
            labels = self._known_mode or TOP, self._naming or "", *sorted(self._scopes)
        return Entry(dict(zip(columns, map(Since, *since), strict=True)), labels)

    def _number_of(self, subject: Subject, labels: tuple[str, ...]) -> int:
        if subject not in self._number:
            self._number[subject] = self._numbers_used
            self.subjects[self._numbers_used] = subject
            self.labels[self._numbers_used] = labels
            self._numbers_used += 1
        return self._number[subject]

    def _add(self, subjects: Mapping[int, Mapping[Column, Since]], moment: Moment) -> None:
        pairs = [(number, column) for number, cells in subjects.items() for column in cells]
        cell = np.array([(number << BITS) | self.column(column) for number, column in pairs], np.int64)
        since = [one for cells in subjects.values() for one in cells.values()]
        base = np.array([one.base for one in since], np.int64)
        released = np.array([one.released for one in since], np.bool_)
        lost = np.array([one.lost for one in since], np.bool_)
        self._cells.add(cell, base, released, moment, lost)

    def _say_again(self, number: int, came: Mapping[Column, int]) -> None:
        """Let a subject that is back say what it said when it left: its total may be known only with the next sweep."""
        columns = np.array([self.column(column) for column in came], np.int64)
        place, _ = self._cells.find((number << BITS) | columns)
        self._cells.said[place] = -np.array(list(came.values()), np.int64)

    def _add_to_other(self, came: Mapping[Column, int], moment: Moment) -> None:
        """Count what a subject's series came to as shown; less than zero: as shown by the subject itself again."""
        columns = np.array([self.column(column) for column in came], np.int64)
        self._add_new(columns, np.zeros(len(columns), np.bool_), moment)
        self._cells.base[self._cells.find(columns)[0]] += np.array(list(came.values()), np.int64)
