"""The columns of a mount's state."""

import numpy as np
import pytest

from harvest_core.accounting.mounts import MountState
from unit.accounting.builder import Target
from unit.accounting.printed import job

MANY = 150


def columns_by_row(state: MountState) -> dict[str, int]:
    """Return the columns that have a place for every row, with their length."""
    fresh = MountState()
    room = len(fresh.start)
    return {
        name: len(getattr(state, name))
        for name, numbers in vars(fresh).items()
        if isinstance(numbers, np.ndarray) and numbers.shape[:1] == (room,)
    }


def test_all_columns_grow_alike() -> None:
    state = MountState()
    state.learn(b"one", [(n, b"job %d" % n, 0, 0) for n in range(MANY)], [(0, "open", "reqs")])

    lengths = columns_by_row(state)
    assert {"start", "snapshot", "stamp", "absent", "seen_tick"} <= lengths.keys()
    assert len(set(lengths.values())) == 1
    assert lengths["start"] >= MANY


def test_new_rows_are_as_blank_as_the_first() -> None:
    state, fresh = MountState(), MountState()
    state.learn(b"one", [(n, b"job %d" % n, 0, 0) for n in range(MANY)], ())

    for name in columns_by_row(state):
        assert (getattr(state, name)[-1] == getattr(fresh, name)[-1]).all(), name


def test_growing_changes_no_value() -> None:
    target = Target("2.12.9")
    target.read(20, *[job(f"j{n}", n + 1, 10 * n, 10) for n in range(60)])
    target.read(40, *[job(f"j{n}", n + 1, 10 * n, 10) for n in range(MANY)])
    target.read(60, *[job(f"j{n}", n + 2, 10 * n + 1, 50, punch=n) for n in range(MANY)])

    assert [target.total(f"j{n}") for n in range(MANY)] == [(n + 2, 10 * n + 1) for n in range(MANY)]
    assert target.total("j7", "punch") == (7, 0)
    assert target.flags == []


def test_a_new_counter_changes_no_value_of_lives_that_are_over() -> None:
    def foreign(text: bytes) -> bytes:
        return text + b"  quantum_leap:    { samples:           3, unit:  reqs }\n"

    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10))
    target.read(40, job("a", 2, 200, 30))
    target.read(60, job("a", 3, 300, 50, edited=foreign))
    target.read(80, job("a", 1, 100, 70))

    assert target.total("a") == (9, 900)
    assert target.total("a", "quantum_leap") == (3, 0)


def test_rows_are_one_per_id_start_and_rank_whatever_the_incarnation() -> None:
    state = MountState()
    names = [(0, b"a", 0, 0), (1, b"c", 7, 0), (2, b"b", 0, 0), (3, b"b", 0, 1)]
    for incarnation in (b"one", b"two"):
        state.learn(incarnation, names, ())

    one, two = (state.rows_of(incarnation, np.arange(4)).tolist() for incarnation in (b"one", b"two"))
    assert one == two
    assert len(state.jobs) == len(set(one))
    assert state.twins == {b"b": one[2:]}


def test_slots_of_incarnations_and_mounts_that_are_over_are_forgotten_and_their_reads_still_known() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    [first] = target.spool
    target.deliver()
    target.restart_agent()
    target.read(40, job("a", 2, 2, 30))
    assert list(target.aggregator.state().slots) == list(target.aggregator.state().codes) == [target.incarnation]
    target.remount()
    target.read(60, job("a", 3, 3, 50))

    [stay] = target.aggregator.stays()
    assert [list(state.slots) for _, state in stay.mounts] == [[], [target.incarnation]]
    assert target.aggregator.take(first).mount is None
    assert target.total("a") == (5, 5)


def test_buckets_grow_within_a_life_and_go_to_the_job_at_its_end() -> None:
    state = MountState()
    state.learn(b"one", [(0, b"a", 0, 0), (1, b"b", 0, 0)], [(0, "open", "reqs"), (1, "close", "reqs")])
    for count in (5, 3):  # the second read is of an earlier moment
        rows, columns, powers = np.array([1, 0, 1]), np.array([1, 0, 0]), np.array([31, 7, 0])
        state.count_values(rows, columns, powers, np.array([count, 1, 2]))
    state.count_values(np.array([0]), np.array([1]), np.array([3]), np.array([4]))
    assert (state.histogram(0), state.histogram(1)) == ({(0, 7): 1, (1, 3): 4}, {(0, 0): 2, (1, 31): 5})

    state.end_life(1)

    assert (state.histogram(0), state.histogram(1)) == ({(0, 7): 1, (1, 3): 4}, {})
    assert state.closed_histograms == {(b"b", 0, 0): 2, (b"b", 1, 31): 5}


def test_a_total_never_falls() -> None:
    rng = np.random.default_rng(1)
    target = Target("2.14.0")
    before = dict.fromkeys(("data", "punch"), (0, 0))
    for tick in range(20, 4000, 20):
        samples, amount, usecs = (int(n) for n in rng.integers(1, 1000, 3))
        target.read(tick, job("a", samples, amount, tick - 5, punch=(samples, usecs)), cut=bool(rng.integers(2)))
        for counter, old in before.items():
            total = target.total("a", counter)
            assert total[0] >= old[0]
            assert total[1] >= old[1]
            before[counter] = total


def test_what_the_clock_was_set_back_by_adds_up() -> None:
    state = MountState()
    for wall, uptime in ((100, 10), (120, 30), (90, 50), (170, 70), (185, 90)):
        state.watch_clock(wall, uptime)

    assert state.clock_back == 50 + 5


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("last", [b"job 3", b"other"])
def test_names_that_come_together_get_the_rows_that_they_get_one_by_one(start: int, last: bytes) -> None:
    names = [*((9 - n, b"job %d" % n, start and start + n, 0) for n in range(9)), (0, last, start, 0)]
    together, one_by_one = MountState(), MountState()
    together.learn(b"one", names, ())
    for name in names:
        one_by_one.learn(b"one", [name], ())

    assert (together.rows, together.jobs) == (one_by_one.rows, one_by_one.jobs)
    assert together.start[: len(together.jobs)].tolist() == one_by_one.start[: len(one_by_one.jobs)].tolist()
    assert together.slots[b"one"].tolist() == one_by_one.slots[b"one"].tolist()
