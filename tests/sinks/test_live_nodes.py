"""Simulated servers, real agents, aggregator and gmond: every node is where it belongs, and a dead one looks dead."""

from functools import partial
from pathlib import Path

from alive.scenes import closed, run
from demo.play import Play, installed, settings
from support.ganglia import Gmond
from support.processes import wait_for

METRICS = {f"scratch_{name}" for name in ("read_bytes", "write_bytes", "oss_ops", "mds_ops")}


def described(gmonds: dict[str, Gmond]) -> dict[str, object]:
    """Return two clusters of four nodes each, and a sink for each."""
    ranges = {"vu": "[1-4]", "xe": "[5-8]"}
    return {
        "clusters": [
            {
                "name": name,
                "nids": [f"10.1.0.{numbers}@o2ib"],
                "hosts": [{"pattern": {"nid": r"10\.1\.0\.(\d)@o2ib", "host": rf"{name}\1", "address": r"10.2.0.\1"}}],
            }
            for name, numbers in ranges.items()
        ],
        "sinks": [{"name": name, "ganglia": {"address": gmonds[name].address, "clusters": [name]}} for name in gmonds],
    }


def lose(play: Play, nid: str) -> None:
    """Let a node die: its connections end, its folders stay."""
    for target in play.live.site.targets.values():
        if target.mounted is not None:
            for uuid in list(target.mounted.exports.uuids.get(nid, ())):
                target.mounted.exports.disconnect(nid, uuid)


def age_seconds(gmond: Gmond, host: str) -> int:
    """Return for how long gmond has heard nothing of a host."""
    return min(int(metric["TN"]) for metric in gmond.metrics()[host].values())


def has_all(play: Play, gmond: Gmond, hosts: int) -> bool:
    """Let a moment pass; tell whether gmond has heard of so many hosts, and of all that they do."""
    play.step()
    return [len(metrics) for metrics in gmond.values().values()] == [len(METRICS)] * hosts


def test_every_node_is_in_the_gmond_of_its_cluster_and_a_dead_one_goes_stale(tmp_path: Path) -> None:
    gmonds = {name: Gmond(tmp_path / name, name) for name in ("vu", "xe")}
    for gmond in gmonds.values():
        gmond.start()
    simulated = settings(event_seconds=3.0)
    here = installed(tmp_path, simulated)
    here.write_site({"scratch": ("scratch", here.servers)}, 1, **described(gmonds))
    play = Play(here, simulated, for_seconds=12)
    play.start()
    try:
        run(play)
        play.settle()
        vus = [(f"vu{number}", f"10.2.0.{number}") for number in range(1, 5)]
        xes = [(f"xe{number}", f"10.2.0.{number}") for number in range(5, 9)]
        for gmond, hosts in ((gmonds["vu"], vus), (gmonds["xe"], xes)):
            wait_for(partial(has_all, play, gmond, len(hosts)), "all metrics of all nodes")
            assert gmond.hosts() == hosts
            assert {name for metrics in gmond.values().values() for name in metrics} == METRICS
        answer = here.get("/api/v1/clients?cluster=vu")
        assert {one["host"] for one in answer["clients"]} == {f"vu{number}" for number in range(1, 5)}

        lose(play, "10.1.0.1@o2ib")

        def is_stale() -> bool:
            play.step()
            return age_seconds(gmonds["vu"], "vu1") >= 6 > age_seconds(gmonds["vu"], "vu2")

        wait_for(is_stale, "gmond to hear nothing more of a dead node, and of a live one", seconds=180)
    finally:
        closed(play)
        for gmond in gmonds.values():
            gmond.stop()
