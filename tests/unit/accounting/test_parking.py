"""Rows leave when nothing of them can come back, and take what they added up to along."""

import numpy as np
import pytest

from harvest_core.accounting.mounts import NEVER, MountState, UnnamedError
from harvest_core.accounting.parking import JobSum, hand_over, merge, over, park
from harvest_core.accounting.snapshots import dump, load
from unit.accounting.builder import Target
from unit.accounting.printed import Printed, job


def jobs(target: Target) -> list[bytes]:
    return target.aggregator.state().jobs


def test_a_record_that_is_gone_for_good_leaves_and_what_it_did_stays() -> None:
    target = Target("2.17.0")
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 100, 10, start=5))
    target.read(40, job("b", 1, 100, 10, start=5))
    target.aggregator.park(sure_reads=2)
    assert jobs(target) == [b"a", b"b"]
    target.read(60, job("b", 2, 200, 50, start=5))
    target.aggregator.park(sure_reads=2)

    assert jobs(target) == [b"b"]
    assert (target.total("a"), target.total("b")) == ((5, 500), (2, 200))
    target.read(80, job("b", 3, 300, 70, start=5), job("c", 4, 400, 70, start=65))
    assert (target.total("b"), target.total("c")) == ((3, 300), (4, 400))


@pytest.mark.parametrize("version", ["2.17.0", "2.16.1"])
@pytest.mark.parametrize("header", [True, False])
def test_one_that_comes_back_is_another_life(version: str, *, header: bool) -> None:
    target = Target(version, header=header)
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 1, 10, start=5))
    target.read(40, job("b", 1, 1, 10, start=5))
    target.aggregator.park()
    target.read(1060, job("b", 1, 1, 10, start=5), job("a", 7, 700, 1050, start=1045))

    assert target.total("a") == (12, 1200)
    assert target.flags == []


@pytest.mark.parametrize("start", [0.0, 5.0])
def test_one_that_a_read_may_have_skipped_stays_until_that_is_out_of_the_question(start: float) -> None:
    target = Target("2.15.8" if start else "2.12.9")

    def shown(*names: str) -> list[Printed]:
        return [job(name, 5, 500, 10, start=start) for name in names]

    target.read(20, *shown("a", "b", "c"))
    target.read(40, *shown("a", "b"))  # one before it was removed while this was read?
    target.aggregator.park(unsure_reads=3)
    target.read(60, *shown("b"))
    target.aggregator.park(unsure_reads=3)
    assert jobs(target) == [b"a", b"b", b"c"]
    target.read(80)

    target.aggregator.park(unsure_reads=3)
    assert jobs(target) == [b"a", b"b"]
    assert target.total("c") == (5, 500)


def test_one_that_was_skipped_is_counted_once_when_it_shows_again() -> None:
    target = Target("2.15.8")
    target.read(20, job("a", 1, 1, 10, start=5), job("b", 5, 500, 10, start=5))
    target.read(40, job("a", 1, 1, 10, start=5))
    target.aggregator.park()
    target.read(60, job("b", 5, 500, 10, start=5))

    assert target.total("b") == (5, 500)


def test_behind_the_cut_of_a_read_nobody_is_gone() -> None:
    target = Target("2.17.0")
    target.read(20, job("a", 1, 1, 10, start=5), job("b", 5, 500, 10, start=5))
    for tick in range(40, 200, 20):
        target.read(tick, job("a", tick, tick, tick - 10, start=5), cut=True)
        target.aggregator.park()
    target.read(200, job("a", 200, 200, 190, start=5), job("b", 6, 600, 190, start=5))

    assert target.total("b") == (6, 600)


def test_records_that_print_alike_stay() -> None:
    target = Target("2.12.9")
    target.read(20, job("a?b", 1, 100, 10), job("a?b", 2, 200, 10))
    for tick in range(40, 200, 20):
        target.read(tick, in_one_piece=True)
    target.aggregator.park()

    assert jobs(target) == [b"a?b", b"a?b"]


def test_nothing_is_left_of_a_mount_that_another_followed_on_the_same_boot() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10), job("b", 1, 100, 10))
    target.remount()
    target.read(40, job("a", 2, 200, 30))
    target.aggregator.park()

    [stay] = target.aggregator.stays()
    assert [state.jobs for _, state in stay.mounts] == [[], [b"a"]]
    assert (target.total("a"), target.total("b")) == ((7, 700), (1, 100))
    target.read(60, job("a", 3, 300, 50))
    assert target.total("a") == (8, 800)


def test_what_is_on_another_boot_stays_late_reads_of_it_go_on() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10))
    target.hold(40, job("a", 6, 600, 30))
    partner = target.on("oss2")
    partner.read(60, job("a", 1, 100, 50))
    target.aggregator.park()
    target.deliver()

    assert target.total("a") == (7, 700)


def test_who_was_there_when_a_target_was_first_seen_is_named_when_an_earlier_mount_turns_up() -> None:
    target = Target("2.17.0")
    target.hold(20, job("b", 1, 100, 10, start=5))
    partner = target.on("oss2")
    partner.read(60, job("a", 1, 100, 50, start=45))
    partner.read(80)
    partner.read(100, job("later", 1, 100, 90, start=85))
    partner.read(120)
    target.aggregator.park()
    assert target.aggregator.incomplete_jobs == set()
    target.deliver()

    assert target.aggregator.incomplete_jobs == {"a", "b"}


def test_a_slot_that_left_is_nobodys_and_the_others_are_whose_they_were() -> None:
    state = MountState()
    state.learn(b"one", [(slot, b"%d" % slot, 7, 0) for slot in range(6)], [(0, "open", "reqs")])
    state.drop(np.array([1, 2, 4]))

    assert state.jobs == [b"0", b"3", b"5"]
    assert state.rows_of(b"one", np.array([5, 0, 3])).tolist() == [2, 0, 1]
    for unknown in (1, 4, 6):
        with pytest.raises(UnnamedError):
            state.rows_of(b"one", np.array([0, unknown]))
    state.learn(b"one", [(6, b"6", 7, 0), (3, b"other", 7, 0)], (), [(5, b"5", 7, 0), (1, b"1", 7, 0)])
    found = state.rows_of(b"one", np.array([0, 1, 3, 5, 6])).tolist()
    assert [state.jobs[row] for row in found] == [b"0", b"1", b"other", b"5", b"6"]


def test_slots_of_records_that_left_take_no_room() -> None:
    target = Target("2.17.0")
    for tick in range(20, 2020, 20):
        target.read(tick, job("stays", 1, 1, 10, start=5), job(f"j{tick}", 1, 1, tick - 5, start=tick - 8))
        target.aggregator.park()

    state = target.aggregator.state()
    assert [sizes.shape for sizes in state.slots.values()] == [(2, 2)]
    assert (len(state.jobs), len(state.start), len(state.rows)) == (2, 2, 2)


def busy(state: MountState) -> None:
    """Fill a state of three rows, the second of which had a life before."""
    state.learn(b"one", [(slot, name, 0, 0) for slot, name in enumerate((b"a", b"b", b"c"))], [(0, "punch", "usecs")])
    state.samples[:3, 0], state.sums[:3, 0], state.work_tick[:3] = (1, 2, 3), (10, 20, 30), (20, 40, 60)
    state.count_values(np.array([0, 1, 2]), np.zeros(3, np.int64), np.array([3, 3, 3]), np.array([1, 2, 3]))
    state.least[:3, 0], state.most[:3, 0] = (5, 6, 7), (8, 9, 10)
    state.end_life(1)
    state.samples[1, 0], state.sums[1, 0] = 4, 40
    state.count_values(np.array([1]), np.array([0]), np.array([5]), np.array([4]))
    state.order = np.array([2, 0])
    state.absent[1], state.surely_absent[1] = 1, True


PUNCH = ("punch", "usecs")
OF_B = JobSum(
    counters={PUNCH: (6, 60)}, extremes={PUNCH: (6, 9)}, histograms={(*PUNCH, 3): 2, (*PUNCH, 5): 4}, last_tick=40
)


def test_everything_that_is_kept_of_a_row_leaves_with_it() -> None:
    target = Target("2.17.0")
    target.read(20)
    [stay] = target.aggregator.stays()
    state = stay.mounts[-1][1]
    busy(state)

    assert park(stay, sure_reads=1, unsure_reads=9) == {b"b": OF_B}
    assert (state.jobs, state.rows) == ([b"a", b"c"], {(b"a", 0, 0): 0, (b"c", 0, 0): 1})
    assert (state.closed, state.closed_histograms, state.order.tolist()) == ({}, {}, [1, 0])
    assert (state.histogram(0), state.histogram(1)) == ({(0, 3): 1}, {(0, 3): 3})
    assert (state.samples[:, 0].tolist(), state.most[:, 0].tolist()) == ([1, 3], [8, 10])
    again = load(dump(stay)).mounts[-1][1]
    assert (again.jobs, again.rows, again.drops) == (state.jobs, state.rows, 1)


def test_what_is_handed_over_is_counted_no_more_and_what_comes_later_is() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10), job("b", 1, 100, 10))
    target.read(40, job("a", 2, 200, 30), job("b", 1, 100, 10))
    state = target.aggregator.state()

    given = hand_over(state, np.array([0]))

    assert given[b"a"].counters == {("write_bytes", "bytes"): (7, 700)}
    assert given[b"a"].last_tick == 40
    assert (target.total("a"), target.total("b")) == ((0, 0), (1, 100))
    target.read(60, job("a", 3, 300, 50), job("b", 1, 100, 10))
    assert target.total("a") == (1, 100)
    target.read(80, job("a", 1, 50, 70), job("b", 1, 100, 10))
    assert target.total("a") == (2, 150)


def test_histograms_that_are_handed_over_are_counted_no_more() -> None:
    state = MountState()
    busy(state)
    assert hand_over(state, np.array([1])) == {b"b": OF_B}
    assert hand_over(state, np.array([1])) == {b"b": JobSum(histograms={(*PUNCH, 5): 0})}
    state.count_values(np.array([1]), np.array([0]), np.array([5]), np.array([7]))

    assert hand_over(state, np.array([1]))[b"b"].histograms[*PUNCH, 5] == 3


def test_sums_of_one_job_add_up() -> None:
    one = JobSum(counters={PUNCH: (1, 2)}, extremes={PUNCH: (3, 9)}, histograms={(*PUNCH, 3): 1}, last_tick=7)
    sums = {b"a": JobSum()}
    for more in (one, JobSum(counters={PUNCH: (1, 1)}, extremes={PUNCH: (1, 4)}, last_tick=NEVER), one):
        merge(sums, {b"a": more})

    assert sums[b"a"] == JobSum(
        counters={PUNCH: (3, 5)}, extremes={PUNCH: (1, 9)}, histograms={(*PUNCH, 3): 2}, last_tick=7
    )
    assert one.counters == {PUNCH: (1, 2)}


def test_who_is_there_is_not_over() -> None:
    state = MountState()
    busy(state)

    assert over(state, sure_reads=1, unsure_reads=1).tolist() == [1]
    assert over(state, sure_reads=2, unsure_reads=2).tolist() == []
