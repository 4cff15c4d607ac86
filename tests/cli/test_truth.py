"""The last of the tests here: it lets time go on."""

import time

from cli.scene import Scene
from demo.comparison import differences


def test_totals_of_two_aggregators_are_the_truth(site: Scene) -> None:
    site.is_frozen = False
    site.play.live.stop()
    deadline = time.monotonic() + 90
    while not site.play.live.is_over:
        assert time.monotonic() < deadline
        site.play.step()
    site.play.settle()
    tick = site.scratch.get("/api/v1/servers")["tick_seconds"]

    def has_all() -> bool:
        answer = site.home.get("/api/v1/servers")
        ticks = [answer["tick_seconds"], *(server["last_tick_seconds"] for server in answer["servers"])]
        return all(known >= tick for known in ticks)

    site.home.wait_for(has_all, "the second aggregator to have it all", meanwhile=site.play.step)

    jobs = site.json("jobs", "--limit", "0")["jobs"]

    assert differences(site.play.live.site.truth, jobs) == []
    assert any(len(job["filesystems"]) > 1 for job in jobs)
