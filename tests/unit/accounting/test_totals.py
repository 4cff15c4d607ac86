"""From records to jobs: sums over lives, mounts and targets, and what counts as what."""

import pytest

from harvest_core.accounting.totals import JobWork, job_totals
from unit.accounting.aggregator import Aggregator
from unit.accounting.builder import Target
from unit.accounting.printed import job


def test_a_total_is_the_sum_over_lives_mounts_and_targets() -> None:
    aggregator = Aggregator()
    for number in range(3):
        target = Target("2.12.9", name=f"fs-OST000{number}", aggregator=aggregator)
        target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 11))
        target.read(40, job("a", 2, 200, 30), job("b", 1, 10, 11))
        target.remount()
        target.read(60, job("a", 4, 400, 50))

    assert aggregator.total("a") == (3 * 11, 3 * 1100)
    assert aggregator.total("b") == (3, 30)
    assert job_totals([]) == {}


@pytest.mark.parametrize(
    ("counters", "iops"),
    [
        ({("write_bytes", "bytes"): (7, 7000), ("read_bytes", "bytes"): (5, 50)}, 0),
        ({("write", "usecs"): (7, 90), ("read", "usecs"): (5, 90)}, 0),
        ({("write", "bytes"): (7, 7000), ("read", "bytes"): (5, 50)}, 0),
        ({("read_bytes", "reqs"): (7, 0), ("write_bytes", "reqs"): (7, 0)}, 0),
        ({("open", "usecs"): (3, 90), ("close", "usecs"): (2, 90), ("punch", "reqs"): (1, 0)}, 6),
        ({("rename", "usecs"): (9, 90), ("samedir_rename", "usecs"): (5, 0), ("crossdir_rename", "usecs"): (4, 0)}, 9),
        ({("rename", "usecs"): (2, 9), ("parallel_rename_file", "usecs"): (1, 0)}, 2),
        (
            {
                ("rename", "usecs"): (2, 9),
                ("parallel_rename_dir", "usecs"): (1, 0),
                ("rename_trylocks", "reqs"): (8, 0),
            },
            2,
        ),
        ({("quantum_leap", "reqs"): (4, 0)}, 4),
    ],
)
def test_iops_are_samples_of_all_but_data_its_rpcs_and_the_parts_of_renames(
    counters: dict[tuple[str, str], tuple[int, int]], iops: int
) -> None:
    assert JobWork(counters=counters).iops == iops


def test_bytes_on_mdts_count() -> None:
    target = Target("2.15.8", name="fs-MDT0000")
    target.read(
        20, job("a", 5, 500, 10, start=5, read_bytes=(2, 70), open=(3, 30), rename=(2, 9), samedir_rename=(2, 0))
    )

    done = target.aggregator.job("a")

    assert (done.write_bytes, done.read_bytes, done.iops) == (500, 70, 5)


def test_bytes_under_the_old_names_count_and_latencies_do_not() -> None:
    old = Target("2.5.0")
    old.read(20, job("a", 5, 500, 10, read=(2, 70), punch=3))
    new = Target("2.14.0")
    new.read(20, job("a", 5, 500, 10, read_bytes=(2, 70), write=(5, 12345), read=(2, 999), punch=(3, 9)))

    for target in (old, new):
        done = target.aggregator.job("a")
        assert (done.write_bytes, done.read_bytes, done.iops) == (500, 70, 3)


def test_bytes_of_a_2_12_mdt_are_no_bytes() -> None:
    """It prints them with the unit reqs, and never counts them."""
    work = JobWork(counters={("write_bytes", "reqs"): (3, 30)})

    assert (work.write_bytes, work.iops) == (0, 0)
