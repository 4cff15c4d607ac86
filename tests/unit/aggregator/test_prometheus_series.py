"""Who has series, and what each counter says: over restarts at any moment nothing falls, is lost or doubled."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np
import pytest

from harvest_aggregator.showing import Column, Since
from harvest_aggregator.sinks.prometheus_cells import Moment
from harvest_aggregator.sinks.prometheus_series import ALL, OTHER, TOP, Entry, Picture, Series, Subject, Totals
from harvest_aggregator.sinks.scrapes import HOLD_SECONDS, Scrapes

TICK = 20.0
READ, WRITE, WORK = ("home", "read"), ("home", "write"), ("work", "write")


Names = Mapping[tuple[str, str], str]
"""What jobs are called on file systems, by id."""


class _Died(BaseException):
    """The process ends here."""


class World:
    """Jobs that do something, a book that lasts, and a scraper; the process in between can be killed at any moment.

    A job is called by its id unless something else is said for a file system.
    """

    def __init__(self, *, mode: str, limit: int = 3, seed: int = 0) -> None:
        self.rng = Random(seed)
        self.mode, self.limit = mode, limit
        self.work: dict[str, dict[Column, int]] = {}
        self.names: Names = {}
        self.namings: dict[str, Names] = {"": {}}
        self.over: set[Subject] = set()
        self.written: dict[Subject, Entry] = {}
        self.now = self.scraped_at = 1000.0
        self.dies_after: int | None = None
        self.is_scraped = False
        self.labels: Callable[[Subject], tuple[str, ...]] = lambda _: ()
        self.left: set[Subject] = set()
        self.watched: set[Subject] = set()
        self.scraped: dict[tuple[Subject, Column], list[int]] = {}
        self.start()

    # --- the book, and what is known besides ---

    @property
    def done(self) -> Mapping[Subject, Mapping[Column, int]]:
        return self.called(self.names)

    def called(self, names: "Names") -> dict[Subject, dict[Column, int]]:
        """Return what was done by these names."""
        found: dict[Subject, dict[Column, int]] = {}
        for job, done in self.work.items():
            for column, total in done.items():
                mine = found.setdefault(names.get((job, column[0]), job), {})
                mine[column] = mine.get(column, 0) + total
        return found

    def rename(self, names: "Names") -> None:
        """Call jobs otherwise from now on."""
        self.names = {**self.names, **names}
        self.namings[repr(sorted(self.names.items()))] = self.names
        self.begin_showing()

    def begin_showing(self) -> None:
        """Do what is done when names are changed and when a process begins."""
        self.watched |= {who for who, entry in self.written.items() if not entry.left_seconds}
        former = self.namings[self.written[OTHER].labels[1]] if OTHER in self.written else self.names
        self.renamed = tuple(
            {who: done for who, done in self.called(names).items() if self.mode == ALL or who in self.watched}
            for names in (former, self.names)
        )

    def begin(self, subjects: Sequence[Subject]) -> Mapping[Subject, Mapping[Column, int]]:
        self.watched.update(subjects)
        return {subject: dict(self.done[subject]) for subject in subjects if subject in self.done}

    def former(self, subjects: Sequence[Subject]) -> Mapping[Subject, Entry]:
        found = {subject: self.written[subject] for subject in subjects if subject in self.written}
        return {subject: entry for subject, entry in found.items() if entry.left_seconds}

    def keep(self, entries: Mapping[Subject, Entry]) -> None:
        if self.dies_after == 0:
            raise _Died
        self.written |= entries
        left = {subject for subject, entry in entries.items() if entry.left_seconds}
        self.left |= left
        self.watched = (self.watched | entries.keys()) - left
        if self.dies_after is not None:
            self.dies_after -= 1

    # --- the process ---

    def start(self) -> None:
        self.series = Series(mode=self.mode, limit=self.limit)
        self.scrapes = Scrapes()
        self.rendering = 0
        self.shown: dict[tuple[Subject, Column], int] | None = None
        self.is_loaded = False
        self.watched = set()
        self.begin_showing()

    def sweep(self) -> None:
        """Make a rendering; the scraper never stays away for long."""
        if self.is_scraped and self.now - self.scraped_at > HOLD_SECONDS / 2:
            self.scrape()
        self.now += TICK
        self.rendering += 1
        gap, seen = self.scrapes.gap_seconds(self.now), self.scrapes.seen_by_all(self.now)
        moment = Moment(self.rendering, self.now, int(self.now), gap, seen)
        if not self.is_loaded:
            self.series.load({who: one for who, one in self.written.items() if not one.left_seconds}, moment)
            self.is_loaded = True
        shown = self.series.step(self.picture(), self, moment)
        self.shown = {
            (self.series.subjects[subject], self.series.columns[column]): value
            for subject, column, value in zip(*(numbers.tolist() for numbers in shown), strict=True)
        }

    def picture(self) -> Picture:
        everybody: dict[Column, int] = {}
        all_done = self.done
        for done in all_done.values():
            for column, total in done.items():
                everybody[column] = everybody.get(column, 0) + total
        busiest = sorted(all_done, key=lambda subject: -sum(all_done[subject].values()))
        looked_at = {who: done for who, done in all_done.items() if self.mode == ALL or who in self.watched}
        return Picture(
            totals=lambda series: totals(series, looked_at),
            naming=repr(sorted(self.names.items())) if self.names else "",
            renamed=lambda series: (totals(series, self.renamed[0]), totals(series, self.renamed[1])),
            everybody=everybody,
            new=[subject for subject in busiest if self.mode == ALL or subject not in self.over],
            is_over=self.over.__contains__,
            begin=self.begin,
            scopes=frozenset(column[0] for column in everybody),
            scope=lambda column: column[0],
            labels=self.labels,
        )

    def scrape(self, who: str = "prometheus") -> None:
        if self.shown is None:
            return
        for series, value in self.shown.items():
            values = self.scraped.setdefault(series, [])
            assert not values or value >= values[-1], f"{series} fell from {values[-1]} to {value}"
            values.append(value)
        self.scrapes.note(who, self.rendering, self.now)
        self.scraped_at = self.now

    def works(self, job: str, column: Column = READ, amount: int = 1) -> None:
        done = self.work.setdefault(job, {})
        done[column] = done.get(column, 0) + amount

    def settle(self) -> None:
        """Let time pass until every series says all."""
        for _ in range(10):
            self.sweep()
            self.scrape()

    def grown(self, column: Column = READ) -> int:
        """Return by how much all series of a column grew, as the scraper saw it."""
        return sum(values[-1] - values[0] for (_, of), values in self.scraped.items() if of == column)


def totals(series: Series, done: Mapping[Subject, Mapping[Column, int]]) -> Totals:
    cells = [
        (series.number(subject), series.column(column), total)
        for subject, of in done.items()
        for column, total in of.items()
        if series.number(subject) >= 0
    ]
    return Totals(*np.array(cells, np.int64).reshape(-1, 3).T)


def test_a_new_series_is_at_0_until_everybody_has_seen_it() -> None:
    world = World(mode=ALL)
    world.works("idle")
    world.settle()
    world.works("a", amount=5)
    world.sweep()
    assert world.shown is not None
    assert world.shown["a", READ] == 0
    world.works("a", amount=2)
    world.sweep()
    assert world.shown["a", READ] == 0, "nobody has come since"
    world.scrape()
    world.sweep()
    assert world.shown["a", READ] == 7


def test_what_is_there_when_a_sink_begins_is_shown_as_it_is() -> None:
    world = World(mode=ALL)
    world.works("a", amount=5)
    world.sweep()
    assert world.shown == {("a", READ): 5}


def test_nobody_is_waited_for_who_does_not_come() -> None:
    world = World(mode=ALL)
    world.works("idle")
    world.sweep()
    world.works("a", amount=5)
    waited = 0.0
    world.sweep()
    while world.shown is not None and world.shown["a", READ] == 0:
        world.sweep()
        waited += TICK
    assert waited == HOLD_SECONDS


def test_who_enters_the_first_and_leaves_them_is_in_other_before_and_after() -> None:
    world = World(mode=TOP, limit=1)
    world.works("small")
    world.settle()
    world.works("large", amount=100)  # while the other one is shown
    world.settle()
    assert ("large", READ) not in world.scraped
    assert world.scraped[OTHER, READ][-1] == 101, "what the first one did before it was shown is in here, too"
    world.over.add("small")
    world.settle()
    world.works("large", amount=7)
    world.works("small", amount=3)
    world.settle()
    assert world.scraped["large", READ][0] == 0
    assert world.scraped["large", READ][-1] == 7
    assert world.scraped[OTHER, READ][-1] == 104


def test_who_comes_back_goes_on_where_it_was() -> None:
    world = World(mode=TOP, limit=1)
    world.works("a", amount=5)
    world.settle()
    world.works("a", amount=5)
    world.settle()
    assert world.scraped["a", READ][-1] == 5
    world.over.add("a")
    world.settle()
    assert world.written["a"] == Entry({READ: Since(-5, released=True)}, (), world.written["a"].left_seconds)
    world.works("a", amount=3)
    world.over.clear()
    world.sweep()
    world.start()  # killed as soon as it is back
    world.works("a", amount=2)
    world.settle()
    assert world.scraped["a", READ][-1] == 7
    assert world.grown() == 10, "5 of them before anything was shown"


def test_everybody_up_to_a_limit() -> None:
    world = World(mode=ALL, limit=2)
    world.works("idle")
    world.settle()
    world.works("a", amount=5)
    world.works("b", amount=3)
    world.settle()
    assert world.scraped[OTHER, READ][-1] == 3
    world.over.add("idle")
    world.settle()
    world.works("b", amount=4)
    world.settle()
    assert world.scraped["b", READ][-1] == 4
    assert world.scraped[OTHER, READ][-1] == 3
    assert world.grown() == 12


def test_who_is_over_on_a_file_system_that_is_no_more_takes_nobodys_place() -> None:
    world = World(mode=TOP, limit=1)
    world.works("idle", READ)
    world.works("idle", WORK)
    world.works("a", WORK, 5)
    world.settle()
    world.works("a", WORK, 5)
    world.settle()
    assert world.scraped["a", WORK][-1] == 5
    here = world.work
    world.work = {"idle": {READ: 1}}
    world.over |= {"a", "idle"}
    world.start()
    world.settle()
    world.works("b", READ, 3)
    world.settle()
    world.works("b", READ, 4)
    world.settle()
    assert world.scraped["b", READ][-1] == 4
    assert {world.series.subjects[number] for number in world.series.away} == {"a"}
    world.work = {**world.work, "idle": here["idle"], "a": {WORK: 12}}
    world.settle()
    assert world.scraped["a", WORK][-1] == 7, "it goes on where it was"
    assert world.series.away == set()
    assert ("a" in world.series.subjects.values()) is False, "and leaves"
    assert (world.grown(READ), world.grown(WORK)) == (7, 7)


def test_who_is_back_is_called_as_before() -> None:
    world = World(mode=ALL)
    world.labels = lambda subject: (f"{subject} at {world.now}",)
    world.works("idle")
    world.works("a")
    world.settle()
    [first] = [world.series.labels[number] for number, who in world.series.subjects.items() if who == "a"]
    world.over.add("a")
    world.settle()
    assert "a" not in world.series.subjects.values()
    world.over.clear()
    world.works("a")
    world.settle()
    assert world.series.labels[world.series.number("a")] == first


def test_from_some_to_everybody() -> None:
    world = World(mode=TOP, limit=1)
    world.works("a", amount=5)
    world.works("b", amount=3)
    world.settle()
    world.mode, world.limit = ALL, 100
    world.start()
    world.settle()
    world.works("b", amount=2)
    world.works("c", amount=1)
    world.settle()
    assert (world.scraped["b", READ][-1], world.scraped["c", READ][-1]) == (2, 1)
    assert world.grown() == 3


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("mode", [ALL, TOP])
def test_who_is_called_otherwise_begins_anew_and_nothing_is_doubled(mode: str, *, is_down: bool) -> None:
    world = World(mode=mode, limit=2)
    world.works("idle")
    world.settle()
    world.works("a", amount=5)
    world.settle()
    world.works("a", amount=5)
    world.settle()
    assert world.grown() == 10
    world.rename({("a", "home"): "b"})
    if is_down:
        world.start()
        world.works("a", amount=2)  # agents send what was done meanwhile
    world.settle()
    world.works("a", amount=3)
    world.settle()
    assert world.scraped["b", READ][-1] == 3
    assert world.grown() == (15 if is_down else 13)


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("mode", [ALL, TOP])
def test_who_is_called_otherwise_on_one_file_system_goes_on_on_the_others(mode: str, *, is_down: bool) -> None:
    world = World(mode=mode, limit=3)
    world.works("idle")
    world.works("idle", WORK)
    world.settle()
    world.works("a", READ, 5)
    world.works("a", WORK, 7)
    world.settle()
    world.works("a", READ, 5)
    world.works("a", WORK, 7)
    world.settle()
    before = {column: world.scraped["a", column][-1] for column in (READ, WORK)}
    for name in ("b", "a"):  # and back
        world.rename({("a", "home"): name})
        if is_down:
            world.start()
        world.settle()
        world.works("a", READ, 3)
        world.works("a", WORK, 4)
        world.settle()
    assert world.scraped["b", READ][-1] == 3
    assert world.scraped["a", READ][-1] == before[READ] + 3
    assert world.scraped["a", WORK][-1] == before[WORK] + 8
    assert (world.grown(READ), world.grown(WORK)) == (16, 22)


def test_who_gets_the_name_of_another_one_takes_nothing_along() -> None:
    world = World(mode=ALL)
    world.works("idle")
    world.settle()
    world.works("a", READ, 5)
    world.works("b", READ, 6)
    world.settle()
    world.rename({("b", "home"): "a"})
    world.settle()
    world.works("a", READ, 1)
    world.works("b", READ, 1)
    world.settle()
    assert world.scraped["a", READ][-1] == 7
    assert world.grown() == 13


def test_everybody_is_written_who_does_not_begin_at_its_total() -> None:
    world = World(mode=TOP, limit=1)
    world.works("a", amount=5)
    world.works("b", amount=3)
    world.settle()
    world.mode, world.limit = ALL, 100
    world.start()
    world.sweep()
    world.start()  # killed when it was written that everybody is shown
    world.settle()
    assert world.grown() == 0
    world.rename({("b", "home"): "c"})
    world.sweep()
    world.start()
    world.settle()
    assert world.grown() == 0


@pytest.mark.parametrize("mode", [ALL, TOP])
@pytest.mark.parametrize("seed", range(40))
def test_names_may_change_at_any_moment_also_while_nobody_looks(mode: str, seed: int) -> None:
    world = World(mode=mode, limit=100 if mode == ALL else 3, seed=seed)
    rng = world.rng
    world.is_scraped = True
    columns = (READ, WRITE, WORK)
    for column in columns:
        world.works("idle", column)
    world.settle()
    jobs = [f"job{number}" for number in range(5)]
    for _ in range(120):
        match rng.randrange(14):
            case 0:
                world.start()
            case 1:
                world.sweep()
                world.scrape()  # what it said last was seen by then
                world.rename({(rng.choice(jobs), rng.choice(("home", "work"))): rng.choice([*jobs, "x", "y"])})
                if rng.randrange(2):
                    world.start()
                    world.works(rng.choice(jobs), rng.choice(columns))
                world.sweep()
            case 2:
                world.over.add(rng.choice([*jobs, "x", "y"]))
            case 3 | 4:
                world.sweep()
            case 5 | 6:
                world.scrape()
            case _:
                job, column = rng.choice(jobs), rng.choice(columns)
                world.over.discard(world.names.get((job, column[0]), job))
                world.works(job, column, rng.randrange(1, 1000))
    world.settle()
    for column in columns:
        assert world.grown(column) == sum(done.get(column, 0) for done in world.work.values()) - 1


@pytest.mark.parametrize("mode", [ALL, TOP])
@pytest.mark.parametrize("seed", range(40))
def test_killed_at_any_moment_nothing_falls_is_lost_or_doubled(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harvest_aggregator.sinks.prometheus_series.ROWS_AT_ONCE", 1)
    world = World(mode=mode, limit=100 if mode == ALL else 3, seed=seed)
    rng = world.rng
    world.is_scraped = True
    world.works("idle", READ)
    world.works("idle", WRITE)
    world.settle()
    before = {column: sum(done.get(column, 0) for done in world.done.values()) for column in (READ, WRITE)}
    names = [f"job{number}" for number in range(9)]
    for _ in range(120):
        match rng.randrange(12):
            case 0:
                world.dies_after = rng.randrange(5)
                with contextlib.suppress(_Died):
                    world.sweep()
                world.dies_after = None
                world.start()
            case 1:
                world.start()
            case 2:
                world.over.add(rng.choice(names))
            case 3 | 4:
                world.sweep()
            case 5 | 6:
                world.scrape()
            case _:
                name = rng.choice(names)
                world.over.discard(name)
                world.works(name, rng.choice((READ, WRITE)), rng.randrange(1, 1000))
    world.settle()
    for column in (READ, WRITE):
        total = sum(done.get(column, 0) for done in world.done.values())
        assert world.grown(column) == total - before[column]
    if mode == ALL and not world.left:
        totals = {(who, column): total for who, done in world.done.items() for column, total in done.items()}
        assert {series: values[-1] for series, values in world.scraped.items() if series[0] != OTHER} == totals
