from dataclasses import replace

from harvest.v1.stream_pb2 import SlurmHealth
from harvest_aggregator.published import AgentStatus, Published
from harvest_aggregator.slurm import ClusterFacts
from harvest_aggregator.standing import standing
from harvest_site.loading import load
from unit.aggregator.publishing import HEALTH, client

SITE = load(
    """
filesystems: [{name: home, servers: ["oss[1-3]"]}]
clusters:
  - {name: vu, lnets: [tcp], filesystems: [home], slurm: {server: vu-slurm}}
"""
)


def agent(name: str, *, connected: bool) -> AgentStatus:
    return AgentStatus(name=name, connected=connected, last_tick=None, health=None, clock_offset_seconds=None)


def test_agents_of_the_site_are_counted_and_those_that_are_away_are_named() -> None:
    published = Published(
        tick_seconds=60,
        agents=(agent("oss1", connected=True), agent("oss2", connected=False), agent("gone", connected=True)),
    )
    shown = standing(SITE, published, [], [])
    assert shown["tick_seconds"] == 60
    assert shown["agents"] == {"connected": 1, "expected": 4, "missing": ["oss2", "oss3", "vu-slurm"]}


def test_troubles_of_sinks_and_slurm_are_told_in_words_that_stay_the_same() -> None:
    silent = ClusterFacts(agent="vu-slurm")
    down = ClusterFacts(agent="xe-slurm", health=SlurmHealth(problem="squeue hangs", answered_seconds=5))
    well = ClusterFacts(agent="ok-slurm", health=SlurmHealth(answered_seconds=5))
    clusters = {"vu": silent, "xe": down, "ok": well, "nci": replace(well, agent="gone")}
    agents = (agent("xe-slurm", connected=True), agent("ok-slurm", connected=True), agent("gone", connected=False))
    shown = standing(SITE, Published(clusters=clusters, agents=agents), [HEALTH], [])
    assert shown["sinks"] == [{"name": "gmond", "trouble": "it sleeps"}]
    assert shown["slurm"] == [
        {"cluster": "vu", "trouble": "its agent vu-slurm has not said anything yet"},
        {"cluster": "xe", "trouble": "squeue hangs"},
        {"cluster": "ok", "trouble": None},
        {"cluster": "nci", "trouble": "its agent gone is not connected"},
    ]


def test_every_relay_that_is_taken_in_is_there_and_whoever_comes_unbidden() -> None:
    head = load("accepts: [{name: a, filesystems: [x], lnets: [tcp]}, {name: b, filesystems: [y], lnets: [tcp]}]")
    troubles = [("c", "refused: not listed"), ("b", "refused: no"), ("b", "nothing was told of y yet")]
    assert standing(head, Published(), [], troubles)["relays"] == [
        {"name": "a", "trouble": None},
        {"name": "b", "trouble": "refused: no; nothing was told of y yet"},
        {"name": "c", "trouble": "refused: not listed"},
    ]


def test_the_api_answers_it() -> None:
    answer = client().get("/api/v1/status").json()
    assert set(answer) == {"tick_seconds", "agents", "sinks", "relays", "slurm"}
    assert answer["sinks"] == [{"name": "gmond", "trouble": "it sleeps"}]
