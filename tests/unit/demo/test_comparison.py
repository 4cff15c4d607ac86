"""What the comparison with the simulator's truth lets pass as flagged, and what not."""

from random import Random
from typing import Any

import pytest

from demo.comparison import differences
from harvest_sim.site import Site
from harvest_sim.truth import Truth


def truth() -> Truth:
    """Return that job 1 has written 3 times 100 bytes and punched twice, and that all of it was shown."""
    site = Site(Random(1))
    site.add_server("oss1", "2.15.4")
    site.add_target("fs-OST0000", ["oss1"])
    target = site.mounted("fs-OST0000")
    target.bulk(b"1", "write", 100, usecs=10, count=3)
    target.do(b"1", "punch", 10, count=2)
    for life in site.truth.select():
        showing = life.showing(site.now_ns)
        assert showing is not None
        life.show(showing[1])
    return site.truth


def job(*, flagged: tuple[int, int], **told: tuple[int, int]) -> dict[str, Any]:
    """Return a job as the API tells of it; flagged are samples and bytes."""
    right = {"write_bytes": (3, 300), "write": (3, 30), "punch": (2, 20)}
    ops = {op: {"samples": samples, "sum": total} for op, (samples, total) in {**right, **told}.items()}
    return {
        "job": "1",
        "ambiguous_samples": flagged[0],
        "ambiguous_bytes": flagged[1],
        "filesystems": {"fs": {"ost": {"ops": ops}, "mdt": {"ops": {}}}},
    }


def test_equal_totals_do_not_differ() -> None:
    assert differences(truth(), [job(flagged=(0, 0))]) == []


@pytest.mark.parametrize(
    ("told", "flagged", "is_flagged"),
    [
        pytest.param({"write_bytes": (4, 400), "write": (4, 40)}, (2, 100), True, id="just as much as was flagged"),
        pytest.param({"write_bytes": (2, 200), "write": (2, 20)}, (2, 100), True, id="too little, likewise"),
        pytest.param({"write_bytes": (4, 400), "write": (4, 40)}, (1, 100), False, id="more samples in all"),
        pytest.param({"write_bytes": (4, 401)}, (9, 100), False, id="more bytes"),
        pytest.param({"punch": (3, 99)}, (1, 0), True, id="a sum of times goes with samples"),
        pytest.param({"punch": (2, 99)}, (9, 0), False, id="a sum of times alone"),
        pytest.param({"write_bytes": (4, 400)}, (0, 0), False, id="nothing was flagged"),
    ],
)
def test_a_difference_is_excused_up_to_what_was_flagged(
    told: dict[str, tuple[int, int]], flagged: tuple[int, int], *, is_flagged: bool
) -> None:
    found = differences(truth(), [job(flagged=flagged, **told)])
    assert {one.where[3] for one in found} == told.keys()
    assert {one.is_flagged for one in found} == {is_flagged}


def test_a_job_that_nobody_tells_of_is_excused_by_nothing() -> None:
    assert {one.is_flagged for one in differences(truth(), [])} == {False}
