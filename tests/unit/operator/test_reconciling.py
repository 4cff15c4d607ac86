import asyncio
import copy
import itertools
from datetime import datetime, timedelta

import pytest
import structlog
from typing_extensions import override

from harvest_operator.agenda import Agenda
from harvest_operator.cluster import ConflictError, ForbiddenError, RefusedError, UnavailableError
from harvest_operator.minting import Mint
from harvest_operator.names import ROTATE_CA
from harvest_operator.plan import Verb
from harvest_operator.reconciling import RESYNC_SECONDS, Reconciler, work
from harvest_operator.reports import Report
from harvest_operator.signing import Agents
from harvest_site.model import KIND
from support.sites_in_kubernetes import NOW, OPTIONS, body_of, given, stored
from unit.operator.asking import AGENTS, APPROVED, asking
from unit.operator.fakes import FakeAggregators, FakeCluster

SITE = "harvest", "example"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def standing(case: str = "example") -> tuple[FakeCluster, FakeAggregators, Reconciler]:
    cluster = FakeCluster.holding(body_of(case), *given(case))
    aggregators = FakeAggregators()
    return cluster, aggregators, made(cluster, aggregators)


def made(cluster: FakeCluster, aggregators: FakeAggregators, clock: Clock | None = None) -> Reconciler:
    return Reconciler(cluster=cluster, aggregators=aggregators, options=OPTIONS, mint=Mint(), now=clock or Clock())


def look(reconciler: Reconciler, site: tuple[str, str] = SITE) -> float | None:
    return asyncio.run(reconciler.reconcile(site))


def test_the_second_look_writes_nothing() -> None:
    cluster, aggregators, reconciler = standing()
    look(reconciler)
    assert len(cluster.written) == 8
    look(reconciler)
    before = copy.deepcopy((cluster.written, cluster.statuses, cluster.events))
    assert look(reconciler) == RESYNC_SECONDS
    assert look(made(cluster, aggregators)) == RESYNC_SECONDS  # another operator, or one that was restarted
    assert (cluster.written, cluster.statuses, cluster.events) == before


def test_killed_between_any_two_writes_the_end_is_the_same() -> None:
    cluster, _, reconciler = standing("sidecars")
    look(reconciler, ("harvest", "many"))
    whole = [key for _, key in cluster.written]

    class Killed(BaseException):
        pass

    for number, key in enumerate(whole):
        cluster, _, reconciler = standing("sidecars")
        cluster.failing[key] = Killed()  # type: ignore[assignment]
        with pytest.raises(Killed):
            look(reconciler, ("harvest", "many"))
        assert [name for _, name in cluster.written] == whole[:number]
        cluster.failing.clear()
        look(made(cluster, FakeAggregators()), ("harvest", "many"))
        assert [name for _, name in cluster.written] == whole


def test_two_operators_make_one_ca() -> None:
    cluster, aggregators, first = standing()
    second = made(cluster, aggregators)
    cluster.meanwhile = lambda: first.reconcile(SITE)
    with pytest.raises(ConflictError):
        look(second)
    ca = copy.deepcopy(cluster.objects["Secret", "harvest-example-ca"])
    look(second)
    assert cluster.objects["Secret", "harvest-example-ca"] == ca
    assert cluster.written.count((Verb.CREATE, ("Secret", "harvest-example-ca"))) == 1


def test_two_operators_begin_one_rotation() -> None:
    cluster, aggregators, first = standing()
    look(first)
    cluster.objects[KIND, "example"]["metadata"]["annotations"][ROTATE_CA] = "one"
    second = made(cluster, aggregators)
    cluster.meanwhile = lambda: first.reconcile(SITE)
    with pytest.raises(ConflictError):
        look(second)
    before = list(cluster.written)
    look(second)
    assert cluster.written == before


def test_what_is_refused_is_told_and_the_rest_is_done() -> None:
    cluster, _, reconciler = standing()
    cluster.failing["Service", "harvest-example-main"] = RefusedError("provided port is already allocated")
    assert look(reconciler) == 60.0
    ready = cluster.statuses[-1]["conditions"][0]
    assert (ready["status"], ready["reason"]) == ("False", "Refused")
    assert "service/harvest-example-main: provided port is already allocated" in ready["message"]
    assert (Verb.APPLY, ("Deployment", "harvest-example-main")) in cluster.written
    assert [event.reason for event in cluster.events if event.warning] == ["Refused"]
    cluster.failing.clear()
    look(reconciler)
    look(reconciler)
    assert cluster.statuses[-1]["conditions"][0]["reason"] == "NotReady"


def test_nothing_is_built_on_a_secret_that_could_not_be_written() -> None:
    cluster, _, reconciler = standing()
    cluster.failing["Secret", "harvest-example-ca"] = RefusedError("forbidden")
    look(reconciler)
    assert cluster.written == []
    assert cluster.statuses[-1]["conditions"][0]["reason"] == "Refused"


def test_a_right_to_see_that_is_missing_is_told_once_and_nothing_is_made_blindly() -> None:
    cluster, _, reconciler = standing()

    async def forbidden() -> None:
        raise ForbiddenError('cannot list resource "deployments"')

    for _ in range(2):
        cluster.meanwhile = forbidden
        with pytest.raises(UnavailableError):
            look(reconciler)
    assert cluster.written == []
    (status,) = cluster.statuses
    assert [(one["reason"], one["message"]) for one in status["conditions"]] == [
        ("Refused", 'cannot list resource "deployments"')
    ]
    look(reconciler)
    assert len(cluster.written) == 8
    assert cluster.statuses[-1]["conditions"][0]["reason"] == "NotReady"


def test_a_site_that_breaks_a_rule_leaves_all_as_it_is() -> None:
    cluster, _, reconciler = standing()
    look(reconciler)
    look(reconciler)
    before = len(cluster.written)
    site = cluster.objects[KIND, "example"]
    site["spec"]["filesystems"][0]["servers"] = ["oss[2-1]"]
    site["metadata"]["generation"] = 2
    look(reconciler)
    assert len(cluster.written) == before
    status = cluster.statuses[-1]
    assert status["conditions"][0]["reason"] == "InvalidSite"
    assert status["observedGeneration"] == 2
    assert status["aggregators"]
    told = len(cluster.statuses)
    look(reconciler)
    assert len(cluster.statuses) == told


def test_a_site_that_is_gone_or_going_is_left_alone() -> None:
    cluster, aggregators, reconciler = standing()
    look(reconciler)
    look(reconciler)
    assert aggregators.targets[SITE]
    before = len(cluster.written)
    cluster.objects[KIND, "example"]["metadata"]["deletionTimestamp"] = "2026-11-16T12:00:00Z"
    assert look(reconciler) is None
    del cluster.objects[KIND, "example"]
    assert look(reconciler) is None
    assert (len(cluster.written), aggregators.targets) == (before, {})


def test_what_aggregators_say_is_in_the_status() -> None:
    cluster, aggregators, reconciler = standing()
    look(reconciler)
    aggregators.said["main"] = Report(connected=8, expected=9, missing=("mds2",), last_sweep=NOW)
    look(reconciler)
    status = cluster.statuses[-1]
    assert status["aggregators"][0] == {
        "name": "main",
        "endpoint": "harvest.example:30023",
        "agents": "8/9",
        "lastSweep": "2026-11-16T12:00:00Z",
    }


def test_a_certificate_that_is_due_is_looked_at_in_time() -> None:
    cluster, aggregators, _ = standing()
    clock = Clock()
    reconciler = made(cluster, aggregators, clock)
    look(reconciler)
    clock.now = NOW + timedelta(days=365)
    cluster.written.clear()
    look(reconciler)
    assert cluster.written == [(Verb.REPLACE, ("Secret", "harvest-example-main-tls"))]


def test_an_event_that_cannot_be_posted_stops_nothing() -> None:
    cluster, _, reconciler = standing()
    cluster.failing["Event", ""] = RefusedError("forbidden")
    look(reconciler)
    assert len(cluster.written) == 8


def test_which_sites_an_object_concerns() -> None:
    cluster, _, reconciler = standing()
    site = cluster.objects[KIND, "example"]
    assert reconciler.concerned(None, site) == reconciler.concerned(None, site) == [SITE]
    assert reconciler.concerned("MODIFIED", site) == []  # only its status was written
    assert reconciler.concerned("MODIFIED", {**site, "metadata": {**site["metadata"], "generation": 2}}) == [SITE]
    assert reconciler.concerned("DELETED", site) == [SITE]
    look(reconciler)
    deployment = cluster.objects["Deployment", "harvest-example-main"]
    assert SITE in reconciler.concerned("MODIFIED", deployment)
    influx = cluster.objects["Secret", "influx"]
    assert reconciler.concerned("DELETED", influx) == [SITE]
    elsewhere = {**influx, "metadata": {**influx["metadata"], "namespace": "other"}}
    assert reconciler.concerned("MODIFIED", elsewhere) == []
    unlabelled = stored({"kind": "Secret", "metadata": {"name": "harvest-example-main-tls", "namespace": "harvest"}})
    assert reconciler.concerned("MODIFIED", unlabelled) == [SITE]


@pytest.mark.parametrize(
    "error", [UnavailableError("away"), RefusedError("no"), ConflictError("first"), ValueError("a mistake")]
)
def test_whatever_goes_wrong_is_tried_again(error: Exception) -> None:
    """In virtual time: the loop's clock is stepped to whatever it waits for."""
    structlog.configure(processors=[lambda *_: ""], logger_factory=structlog.ReturnLoggerFactory())
    looks: list[float] = []

    class Failing(Reconciler):
        @override
        async def reconcile(self, _: tuple[str, str]) -> float | None:
            looks.append(asyncio.get_running_loop().time())
            if len(looks) < 4:
                raise error
            return None

    async def run() -> None:
        agenda = Agenda()
        cluster, aggregators, _ = standing()
        worker = asyncio.create_task(
            work(agenda, Failing(cluster=cluster, aggregators=aggregators, options=OPTIONS, mint=Mint()))
        )
        agenda.soon(SITE)
        await asyncio.sleep(1000)
        worker.cancel()

    try:
        with asyncio.Runner(loop_factory=SteppedLoop) as runner:
            runner.run(run())
    finally:
        structlog.reset_defaults()
    waits = [round(after - before) for before, after in itertools.pairwise(looks)]
    assert waits == {"away": [1, 2, 5], "no": [1, 2, 5], "first": [1, 1, 1], "a mistake": [60, 60, 60]}[str(error)]


class SteppedLoop(asyncio.SelectorEventLoop):
    """Time passes when there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self._stepped = 0.0

    @override
    def time(self) -> float:
        return self._stepped

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._stepped = max(self._stepped, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def test_requests_of_agents_are_answered_and_told() -> None:
    cluster, _, reconciler = standing()
    reconciler.agents = Agents(AGENTS, ("harvest", "example"))
    cluster.put(asking("oss01", APPROVED, label="by-hand"))
    cluster.put(asking("oss02", node="oss02", user=AGENTS, label="daemon"))
    cluster.put(asking("oss99", APPROVED, label="unknown"))
    cluster.put(asking("oss03", label="waits"))
    look(reconciler)
    assert cluster.answers == [
        ("daemon", "approval", "AgentRequestApproved"),
        ("unknown", "status", "AgentRequestFailed"),
    ], "the CA was not stored yet"
    cluster.answers.clear()
    look(reconciler)
    assert cluster.answers == [
        ("by-hand", "status", "AgentCertificateIssued"),
        ("daemon", "status", "AgentCertificateIssued"),
    ]
    warned = [(one.reason, one.warning) for one in cluster.events if one.reason.startswith("Agent")]
    assert ("AgentRequestFailed", True) in warned
    assert warned.count(("AgentCertificateIssued", False)) == 2
    before = list(cluster.answers)
    look(reconciler)
    assert cluster.answers == before


def test_a_request_for_a_site_that_is_not_there_fails() -> None:
    cluster, _, reconciler = standing()
    del cluster.objects[KIND, "example"]
    cluster.put(asking("oss01", APPROVED))
    assert look(reconciler) is None
    assert cluster.answers == [("one", "status", "AgentRequestFailed")]


def test_nobody_is_refused_by_a_site_that_was_changed_meanwhile() -> None:
    """Whoever lists a server, or makes the site, and asks at once may come between a look and its end."""
    cluster, _, reconciler = standing()
    look(reconciler)
    site = cluster.objects[KIND, "example"]

    async def listed() -> None:
        site["spec"]["filesystems"][0]["servers"].append("oss99")
        site["metadata"]["generation"] += 1
        cluster.put(asking("oss99", APPROVED))

    cluster.meanwhile = listed
    with pytest.raises(ConflictError, match="may list now whom it did not"):
        look(reconciler)
    assert cluster.answers == []
    look(reconciler)
    assert cluster.answers == [("one", "status", "AgentCertificateIssued")]


@pytest.mark.parametrize("missing", [("CertificateSigningRequest", ""), ("CertificateSigningRequest", "one")])
def test_a_right_to_sign_that_is_missing_is_told_and_stops_nothing_else(missing: tuple[str, str]) -> None:
    cluster, _, reconciler = standing()
    cluster.put(asking("oss99", APPROVED, label="one"))
    cluster.put(asking("oss98", APPROVED, label="two"))
    cluster.failing[missing] = (RefusedError if missing[1] else ForbiddenError)("cannot do that")
    assert look(reconciler) == 60.0
    assert len(cluster.written) == 8
    ready = cluster.statuses[-1]["conditions"][0]
    assert (ready["reason"], "agents' requests: cannot do that" in ready["message"]) == ("Refused", True)
    assert [name for name, _, _ in cluster.answers] == (["two"] if missing[1] else [])


def test_which_sites_a_request_concerns() -> None:
    _, _, reconciler = standing()
    assert reconciler.concerned("ADDED", asking("oss01")) == [SITE]
    assert reconciler.concerned("DELETED", asking("oss01")) == []
    assert reconciler.concerned("MODIFIED", asking("oss01", {"type": "Denied", "status": "True"})) == []
    assert reconciler.concerned(None, asking("oss01", signerName="kubernetes.io/kubelet-serving")) == []
    reconciler.namespaces = ["elsewhere"]
    assert reconciler.concerned("ADDED", asking("oss01")) == []
