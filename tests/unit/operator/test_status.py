from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harvest_operator.conditions import Reason, Type
from harvest_operator.names import Owner
from harvest_operator.plan import Plan
from harvest_operator.reports import NoAnswer, Report, parsed
from harvest_operator.status import Reports, concluded, endpoint_of, is_told, left_alone, transitions
from harvest_site.loading import SiteError, checked, load
from harvest_site.model import Site
from harvest_site.views import aggregators_of
from support.sites_in_kubernetes import NOW, body_of, decided, given, world

SWEEP = datetime(2026, 11, 16, 11, 59, 40, tzinfo=UTC)
WELL = Report(connected=9, expected=9, last_sweep=SWEEP)


def running(case: str = "example") -> tuple[Site, Owner, Plan, dict[Any, Any]]:
    """Return a site whose Deployments are available."""
    objects: dict[Any, Any] = dict(world(given(case)))
    body = body_of(case)
    _, _, plan = decided(body, objects)
    objects |= world(write.manifest for write in plan.writes)
    for (kind, _), one in objects.items():
        if kind == "Deployment":
            one["metadata"]["generation"] = 1
            one["status"] = {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}
    site, owner, plan = decided(body, objects)
    return site, owner, plan, objects


def told(
    reports: Reports,
    *,
    stored: dict[str, Any] | None = None,
    refused: tuple[str, ...] = (),
    now: datetime = NOW,
    case: str = "example",
    site: Site | None = None,
) -> dict[str, Any]:
    described, owner, plan, objects = running(case)
    site = site or described
    return concluded(site, owner, plan, objects, refused=refused, reports=reports, stored=stored or {}, now=now)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}


def test_a_site_that_runs_says_so() -> None:
    status = told({"main": WELL})
    shown = conditions(status)
    assert list(shown) == [str(one) for one in Type]
    assert {one[0] for one in shown.values()} == {"True"}
    assert shown["Ready"][1] == "Running"
    assert status["agents"] == "9/9"
    assert status["aggregators"] == [
        {
            "name": "main",
            "endpoint": "harvest.example:30023",
            "agents": "9/9",
            "lastSweep": "2026-11-16T11:59:40Z",
        }
    ]


def test_missing_agents_are_counted_and_the_first_are_named() -> None:
    away = Report(connected=2, expected=9, missing=("a", "b", "c", "d", "e", "f", "g"), last_sweep=SWEEP)
    status = told({"main": away})
    assert conditions(status)["AgentsConnected"] == ("False", "SomeMissing", "7 of 9 are missing: a, b, c, d, e, …")
    assert conditions(status)["Ready"][0] == "True"  # the site runs; its servers are another matter
    assert status["agents"] == "2/9"


def test_who_does_not_answer_is_unknown_and_nothing_else() -> None:
    shown = conditions(told({"main": NoAnswer("it sleeps")}))
    for name in ("AgentsConnected", "SlurmReachable", "SinksHealthy"):
        assert shown[name] == ("Unknown", "NoAnswer", "main: it sleeps")
    head = conditions(told({"main": NoAnswer("it sleeps")}, case="cluster-head"))
    assert head["RelaysHeard"] == ("Unknown", "NoAnswer", "main: it sleeps")
    assert conditions(told({}))["AgentsConnected"] == ("Unknown", "NoAnswer", "main: it was not asked yet")


def test_what_was_told_stands_until_everybody_was_asked() -> None:
    """An operator that was started anew knows nothing yet, and that is no news."""
    later = NOW + timedelta(hours=1)
    away = Report(connected=2, expected=3, missing=("a",), slurm=(("vu", "away"),), last_sweep=SWEEP)
    for first in (told({"main": WELL}), told({"main": away}), told({"main": NoAnswer("it sleeps")})):
        assert told({}, stored=first, now=later) == first
    first = told({"home": away, "work": away}, case="split")
    assert told({"home": away}, stored=first, now=later, case="split") == first
    assert (
        conditions(told({"main": NoAnswer("it sleeps")}, stored=told({"main": WELL})))["AgentsConnected"][0]
        == "Unknown"
    )


def test_troubles_are_told_and_a_number_in_them_is_no_news() -> None:
    def troubled(number: int) -> Report:
        return Report(connected=9, expected=9, sinks=(("gmond", f"{number} were dropped"),), slurm=(("vu", "away"),))

    first = told({"main": troubled(3)})
    assert conditions(first)["SinksHealthy"] == ("False", "InTrouble", "gmond: 3 were dropped")
    assert conditions(first)["SlurmReachable"] == ("False", "InTrouble", "vu: away")
    assert told({"main": troubled(5)}, stored=first, now=NOW + timedelta(hours=1)) == first


def test_relays_that_go_elsewhere_are_sinks_and_those_that_come_are_told_apart() -> None:
    sender = Report(connected=9, expected=9, sinks=(("relay xe", "xepbs.example:8023 refused: not listed"),))
    shown = conditions(told({"main": sender}))
    assert shown["SinksHealthy"] == ("False", "InTrouble", "relay xe: xepbs.example:8023 refused: not listed")
    assert shown["RelaysHeard"][:2] == ("True", "NotUsed")
    troubles = (("example", "nothing was told of gdata yet"), ("other", "refused: 4 nodes are elsewhere"))
    shown = conditions(told({"main": Report(connected=0, expected=0, relays=troubles)}, case="cluster-head"))
    told_of = "example: nothing was told of gdata yet; other: refused: 4 nodes are elsewhere"
    assert shown["RelaysHeard"] == ("False", "InTrouble", told_of)
    assert shown["SinksHealthy"][:2] == ("True", "Answers")
    assert shown["Ready"][0] == "True"
    well = conditions(told({"main": Report(connected=0, expected=0)}, case="cluster-head"))
    assert well["RelaysHeard"][:2] == ("True", "Answers")


def test_a_site_that_relays_and_has_no_other_sink_is_asked_about_it() -> None:
    spec = {**body_of("example")["spec"], "sinks": []}
    site = checked({**body_of("example"), "spec": spec})
    report = Report(connected=9, expected=9, sinks=(("relay xe", "away"),))
    shown = conditions(told({"main": report}, site=site))
    assert shown["SinksHealthy"] == ("False", "InTrouble", "relay xe: away")


def test_what_is_not_used_is_well() -> None:
    shown = conditions(told({}, case="minimal"))
    for name in ("SlurmReachable", "SinksHealthy", "RelaysHeard"):
        assert shown[name][:2] == ("True", "NotUsed")


def test_the_last_sweep_is_written_rarely_unless_something_else_is() -> None:
    first = told({"main": WELL})
    later = Report(connected=9, expected=9, last_sweep=SWEEP + timedelta(minutes=8))
    assert told({"main": later}, stored=first, now=NOW + timedelta(minutes=8)) == first
    much_later = Report(connected=9, expected=9, last_sweep=SWEEP + timedelta(minutes=10))
    assert told({"main": much_later}, stored=first)["aggregators"][0]["lastSweep"] == "2026-11-16T12:09:40Z"
    fewer = Report(connected=8, expected=9, missing=("a",), last_sweep=SWEEP + timedelta(seconds=20))
    assert told({"main": fewer}, stored=first)["aggregators"][0]["lastSweep"] == "2026-11-16T12:00:00Z"
    silent = told({"main": NoAnswer("no")}, stored=first)["aggregators"][0]
    assert (silent["agents"], silent["lastSweep"]) == ("?/9", "2026-11-16T11:59:40Z")


def test_what_kubernetes_refused_is_why_a_site_is_not_ready() -> None:
    shown = conditions(told({"main": WELL}, refused=("service/x: port is taken",)))
    assert shown["Ready"] == ("False", "Refused", "service/x: port is taken")


@pytest.mark.parametrize(
    ("status", "generation", "text"),
    [
        (None, 1, "its Deployment is being changed"),
        ({"observedGeneration": 1}, 1, "its Pod is being started"),
        ({"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True"}]}, 2, "is being changed"),
        (
            {
                "observedGeneration": 1,
                "conditions": [
                    {"type": "Available", "status": "False"},
                    {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
                ],
            },
            1,
            "its Pod does not become ready",
        ),
        (
            {"observedGeneration": 1, "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]},
            1,
            "main: quota",
        ),
    ],
)
def test_why_an_aggregator_is_not_available(status: dict[str, Any] | None, generation: int, text: str) -> None:
    site, owner, plan, objects = running()
    objects["Deployment", "harvest-example-main"]["metadata"]["generation"] = generation
    objects["Deployment", "harvest-example-main"]["status"] = status
    found = concluded(site, owner, plan, objects, refused=[], reports={"main": WELL}, stored={}, now=NOW)
    assert conditions(found)["AggregatorsAvailable"][:2] == ("False", "Unavailable")
    assert text in conditions(found)["AggregatorsAvailable"][2]
    assert conditions(found)["Ready"][1] == "NotReady"


GRPC = {"name": "grpc", "nodePort": 31000}
PORTS = {"spec": {"ports": [{"name": "https", "nodePort": 1}, GRPC]}}
INGRESS = {"spec": {}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}


@pytest.mark.parametrize(
    ("service", "found", "endpoint"),
    [
        ("{type: ClusterIP}", {"spec": {}}, "harvest-s-main.harvest.svc:8023"),
        ("{type: ClusterIP, hostnames: [a.example]}", {"spec": {}}, "a.example:8023"),
        ("{}", None, None),
        ("{}", PORTS, "ANY-NODE:31000"),
        ('{addresses: ["2001:db8::7"]}', PORTS, "[2001:db8::7]:31000"),
        ("{type: LoadBalancer}", {"spec": {}, "status": {"loadBalancer": {}}}, None),
        ("{type: LoadBalancer}", INGRESS, "192.0.2.1:8023"),
        ("{type: LoadBalancer, hostnames: [a.example]}", {"spec": {}}, "a.example:8023"),
    ],
)
def test_where_agents_find_an_aggregator(service: str, found: dict[str, Any] | None, endpoint: str | None) -> None:
    site = load(f"filesystems: [{{name: home, servers: [oss1]}}]\nservice: {service}")
    owner = Owner(namespace="harvest", name="s", uid="u", generation=1, annotations={})
    assert endpoint_of(site, owner, aggregators_of(site)[0], found) == endpoint


def test_a_site_that_breaks_a_rule_keeps_what_was_told_before() -> None:
    first = told({"main": WELL})
    with pytest.raises(SiteError) as error:
        checked({**body_of("minimal"), "spec": {"filesystems": [{"name": "home", "servers": ["oss[2-1]"]}]}})
    owner = Owner(namespace="harvest", name="example", uid="u", generation=2, annotations={})
    status = left_alone(owner, Reason.INVALID_SITE, error.value, first, NOW)
    assert conditions(status)["Ready"][:2] == ("False", "InvalidSite")
    assert "spec.filesystems[0].servers[0]: 'oss[2-1]' will not do" in conditions(status)["Ready"][2]
    assert conditions(status) | conditions(first) == conditions(first)
    assert {name: one for name, one in conditions(status).items() if name != "Ready"} == {
        name: one for name, one in conditions(first).items() if name != "Ready"
    }
    assert status["aggregators"] == first["aggregators"]
    assert left_alone(owner, Reason.INVALID_SITE, error.value, {}, NOW)["conditions"][0]["type"] == "Ready"


def test_conditions_of_others_are_theirs() -> None:
    first = told({"main": WELL})
    theirs = {"type": "Theirs", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "…"}
    stored = {**first, "conditions": [theirs, *reversed(first["conditions"])]}
    assert is_told(stored, first)
    assert told({"main": WELL}, stored=stored) == first
    assert not is_told({**stored, "aggregators": []}, first)
    assert not is_told({}, first)


def test_events_tell_what_became_otherwise() -> None:
    well, ill = told({"main": WELL}), told({"main": WELL}, refused=("no",))
    assert [(one.reason, one.warning) for one in transitions(well, ill)] == [("Refused", True)]
    assert [(one.reason, one.warning) for one in transitions(ill, well)] == [("Ready", False)]
    assert list(transitions(well, well)) == []
    assert list(transitions({}, told({}))) == []
    assert [one.reason for one in transitions({}, told({}, refused=("no",)))] == ["Refused"]
    silent = told({"main": NoAnswer("no")})
    assert list(transitions(well, silent)) == []


def test_an_answer_is_read_and_nonsense_is_none() -> None:
    content = {
        "tick_seconds": 1_700_000_000,
        "agents": {"connected": 1, "expected": 2, "missing": ["oss2"]},
        "sinks": [{"name": "gmond", "trouble": None}, {"name": "influx", "trouble": "401"}],
        "slurm": [],
    }
    report = parsed(content)
    assert isinstance(report, Report)
    assert (report.connected, report.expected, report.missing) == (1, 2, ("oss2",))
    assert (report.sinks, report.relays, report.slurm) == ((("influx", "401"),), (), ())
    relays = [{"name": "alkindi", "trouble": "nothing was told of gdata yet"}, {"name": "other", "trouble": None}]
    report = parsed({**content, "relays": relays})
    assert isinstance(report, Report)
    assert report.relays == (("alkindi", "nothing was told of gdata yet"),)
    assert isinstance(parsed({**content, "relays": 3}), NoAnswer)
    assert report.last_sweep == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    nonsense: list[Any] = [
        None,
        [],
        {},
        {**content, "agents": 3},
        {**content, "tick_seconds": 1e300},
        {**content, "tick_seconds": -1},
        {**content, "agents": {"connected": 10**30, "expected": 2, "missing": []}},
        {**content, "agents": {"connected": -1, "expected": 2, "missing": []}},
        {**content, "sinks": [1]},
    ]
    assert all(isinstance(parsed(one), NoAnswer) for one in nonsense)


def test_what_somebody_says_is_bounded_as_the_status_is() -> None:
    """Whatever an aggregator answers, the status that is made of it can be stored, and is not stored anew each time."""
    name = "a\n\ud800" + "b" * 5000

    def content(trouble: str) -> dict[str, Any]:
        return {
            "tick_seconds": None,
            "agents": {"connected": 10**9, "expected": 10**9, "missing": ["x" * 5000] * 5000},
            "sinks": [{"name": f"{number}{name}", "trouble": trouble * 5000} for number in range(5000)],
            "slurm": [],
        }

    report = parsed(content("1 point lost "))
    assert isinstance(report, Report)
    assert (len(report.missing), len(report.missing[0]), len(report.sinks)) == (100, 300, 100)
    assert report.sinks[0] == ("0a??" + "b" * 296, ("1 point lost " * 5000)[:300])
    first = told({"main": report})
    assert all(len(one["message"]) <= 1000 for one in first["conditions"])
    assert len(first["agents"]) <= 32
    assert told({"main": parsed(content("2 point lost "))}, stored=first) == first
