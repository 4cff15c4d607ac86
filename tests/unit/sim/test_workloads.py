from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from harvest_sim import workloads
from harvest_sim.player import Player
from harvest_sim.workloads import Operation, Stage
from unit.sim.building import OST, partners, text_of

MDT = "fs-MDT0000"


def stage(seed: int = 1) -> Stage:
    return Stage(rng=Random(seed), osts=[OST], mdts=[MDT], nids=["1@tcp"], cleanup_seconds=600)


def all_of(stage: Stage) -> list[Iterator[Operation]]:
    return [
        workloads.checkpointing(stage, b"1", start=0, end=5000),
        workloads.metadata_storm(stage, b"2", start=0, end=50),
        workloads.quiet_then_active(stage, b"3", start=0, end=5000),
        workloads.equal_returns(stage, b"4", start=0, end=5000),
        workloads.ever_larger(stage, b"5", start=0, end=100),
        workloads.login_processes(stage, start=0, end=100),
        workloads.short_jobs(stage, start=0, end=100),
    ]


@pytest.mark.parametrize("which", range(7))
def test_operations_come_in_order_of_time_and_equal_seeds_repeat(which: int) -> None:
    operations = list(all_of(stage())[which])
    assert operations == sorted(operations, key=lambda operation: operation.at_ns)
    assert operations == list(all_of(stage())[which])
    assert len(operations) > 5


def test_4_write_back_comes_after_the_jobs_end() -> None:
    operations = list(workloads.checkpointing(stage(), b"1", start=0, end=100))
    assert operations[-1].op == "write"
    assert operations[-1].at_ns > 100 * 10**9


def test_2_1_quiet_times_are_1_to_1_1_intervals() -> None:
    times = [operation.at_ns / 10**9 for operation in workloads.quiet_then_active(stage(), b"1", start=0, end=9000)]
    gaps = [after - before for before, after in pairwise(times) if after - before > 100]
    assert len(gaps) > 10
    assert all(600 <= gap <= 660 for gap in gaps)


def test_2_2_equal_returns_come_back_with_equal_counters_after_eviction() -> None:
    site = partners("2.12.9")
    site.add_target(MDT, ["oss2"])
    player = Player(site, workloads.equal_returns(stage(), b"4", start=0, end=10_000))
    while not player.is_done:
        player.play_until(site.now_ns + 60 * 10**9)
        text_of(site, "oss1", "job_stats")
    lives = list(site.truth.select(target=OST))
    assert len(lives) > 5
    assert len({tuple(life.done().items()) for life in lives}) == 1


def test_ever_larger_does_each_time_more_than_all_before() -> None:
    bursts = [op.times for op in workloads.ever_larger(stage(), b"5", start=0, end=60) if op.op == "write"]
    assert all(times > sum(bursts[:place]) for place, times in enumerate(bursts))


def test_a_client_waits_for_a_target_that_is_away() -> None:
    site = partners("2.12.9")
    player = Player(site, iter([Operation(10**9, OST, b"1", "write", 7, 5, 2, "1@tcp")]))
    site.unmount(OST)
    player.play_until(2 * 10**9)
    assert not player.is_done
    site.mount(OST, "oss2")
    player.play_until(3 * 10**9)
    assert player.is_done
    [life] = site.truth.select()
    assert life.created_ns > 2 * 10**9
    assert list(life.done().values()) == [(2, 14)]


def test_a_frozen_target_keeps_clients_waiting() -> None:
    site = partners("2.12.9")
    player = Player(site, iter([Operation(1, OST, b"1", "write", 7, 5, 2, "1@tcp")]))
    site.targets[OST].is_frozen = True
    player.play_until(10**9)
    assert list(site.truth.select()) == []


def test_a_job_that_may_not_work_keeps_its_order_and_holds_up_nobody_else() -> None:
    site = partners("2.12.9")
    held = {b"1"}
    plan = [Operation(at, OST, job, "write", size, 5, 1, "1@tcp") for at, job, size in ((1, b"1", 7), (2, b"2", 8))]
    player = Player(
        site, iter([*plan, plan[0]._replace(at_ns=3, size_bytes=9)]), may_work=lambda _, job: job not in held
    )
    player.play_until(10**9)
    assert [life.key for life in site.truth.select()] == [b"2"]
    held.clear()
    player.play_until(2 * 10**9)
    assert player.is_done
    assert [work.total for life in site.truth.select(key=b"1") for work in life.journal] == [7, 9]


def test_operations_that_a_version_does_not_count_leave_no_trace() -> None:
    site = partners("2.12.9")
    player = Player(site, iter([Operation(1, OST, b"1", "prealloc", 0, 5, 1, "1@tcp")]))
    player.play_until(10**9)
    assert list(site.truth.select()) == []
