"""What InfluxDB is told: which points there are of a sweep, their names, numbers and times."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harvest.v1.stream_pb2 import SlurmHealth, SlurmJob, UserName
from harvest_aggregator.nodes import Nodes, Rates
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.changes import OLDEST_SECONDS, ChangeLog
from harvest_aggregator.sinks.influx_lines import Lines
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.accounting.sweeps import Place, Sweeps
from harvest_core.job_ids import JobIdFormat
from harvest_core.jobs.identity import NOBODYS, ClusterIds, Identities, JobName
from support.nodes import node
from unit.accounting.builder import EPOCH_SECONDS as T
from unit.accounting.builder import Target
from unit.accounting.printed import Printed, job
from unit.aggregator.publishing import CREATE, OPEN, PLACED, READ, TICK, WRITE, Did, published
from unit.aggregator.test_records import record

Facts = dict[str, ClusterFacts]
WROTE: Did = {WRITE: (1, 1000)}
HERE, OTHER = Place("home", "OST", "home-OST0000"), Place("home", "OST", "home-OST0001")


def identities(text: str = "%j", cluster: str = "vu") -> Identities:
    """Return how ids of one cluster look."""
    return Identities([ClusterIds(cluster=cluster, filesystems=frozenset({"home"}), format=JobIdFormat.compile(text))])


def slurm(*jobs: SlurmJob, unknown: tuple[int, ...] = ()) -> Facts:
    """Return what Slurm says of the cluster."""
    return {
        "vu": ClusterFacts(
            agent="slurm1",
            jobs={one.id: one for one in jobs},
            users={1000: UserName(uid=1000, name="bob")},
            unknown=frozenset(unknown),
            health=SlurmHealth(answered_seconds=T),
        )
    }


class Told:
    """One sink's points, sweep after sweep."""

    def __init__(self, *detail: str, with_cluster: bool = False) -> None:
        self._log = ChangeLog(20, operations="op" in detail, targets="target" in detail, clients="client" in detail)
        self._lines = Lines(detail, clusters=with_cluster)

    def of(self, source: Published, since: int | None = None) -> list[str]:
        return list(self._lines.of(self._log.changes(source, since), source.clusters))


def lines(
    jobs: Mapping[bytes, Did],
    *detail: str,
    kind: str = "OST",
    facts: Facts | None = None,
    ids: Identities = NOBODYS,
    with_cluster: bool = False,
) -> list[str]:
    """Return the points of a first sweep, in which all jobs were at work a second before."""
    source = published({("home", kind): jobs}, last_work=TICK, clusters=facts or {}, identities=ids)
    return Told(*detail, with_cluster=with_cluster).of(source)


def tags(line: str) -> str:
    return line.split(" iops=", maxsplit=1)[0].removeprefix("lustre,")


def test_a_point_is_what_jobharvest_wrote() -> None:
    did: Did = {READ: (2, 1000), WRITE: (1, 500), CREATE: (3, 0)}
    [line] = lines({b"99": did})
    assert line == f"lustre,fs=home,job=99,server=oss iops=3i,read_bytes=1000i,write_bytes=500i {TICK - 1}"


def test_of_mdts_there_are_bytes_only_where_there_is_data() -> None:
    assert lines({b"1": {OPEN: (4, 40)}, b"2": {OPEN: (4, 40), READ: (1, 9)}}, kind="MDT") == [
        f"lustre,fs=home,job=1,server=mds iops=4i {TICK - 1}",
        f"lustre,fs=home,job=2,server=mds iops=4i,read_bytes=9i {TICK - 1}",
    ]


def test_a_task_is_called_after_its_array() -> None:
    facts = slurm(SlurmJob(id=12, array_id=99, array_task=4, state="RUNNING"), SlurmJob(id=13, state="RUNNING"))
    found = lines({b"12": WROTE, b"13": WROTE}, facts=facts, ids=identities())
    assert [tags(line) for line in found] == ["fs=home,job=99_4,server=oss", "fs=home,job=13,server=oss"]


def test_all_ids_of_a_job_are_one_point_whichever_moved() -> None:
    told = Told()
    site = _Site(ids=identities("%j.%H"))
    told.of(site.sweep(20, job("7.n1", 1, 10, 15), job("7.n2", 5, 500, 15)))
    [line] = told.of(site.sweep(40, job("7.n1", 2, 30, 35), job("7.n2", 5, 500, 15)))
    assert line == f"lustre,fs=home,job=7,server=oss iops=0i,read_bytes=0i,write_bytes=530i {T + 35}"


class _Site:
    """Two targets of one file system, and the sweeps that are closed of them."""

    def __init__(self, *, ids: Identities = NOBODYS, facts: Facts | None = None) -> None:
        self.sweeps = Sweeps(deadline_seconds=5)
        self.first, self.second = Target(), Target(name=OTHER.target)
        self.ids = ids
        self.facts = facts or {}
        self.first_tick: int | None = None

    def restart(self) -> None:
        """Go on with what is durable, as after a restart or a change of the site."""
        self.sweeps, self.first_tick = Sweeps(deadline_seconds=5), None
        for place, target in ((HERE, self.first), (OTHER, self.second)):
            for stay in target.aggregator.stays():
                self.sweeps.restore(place, stay, until_tick=T + 10_000)

    def sweep(
        self, seconds: int, *first: Printed, second: tuple[Printed, ...] = (), late: int | None = None
    ) -> Published:
        """Read both targets, the second one for an earlier tick if it is late; times are from the same beginning."""
        if late is not None:
            self.sweeps.report(OTHER, self.second.read(T + late, *second))
        self.sweeps.report(HERE, self.first.read(T + seconds, *first))
        if late is None:
            self.sweeps.report(OTHER, self.second.read(T + seconds, *second))
        closed = self.sweeps.close(T + seconds + 6, frozenset({HERE, OTHER}))[-1]
        self.first_tick = self.first_tick or closed.tick_seconds
        return Published(
            tick_seconds=closed.tick_seconds,
            closed=closed,
            identities=self.ids,
            clusters=self.facts,
            first_tick=self.first_tick,
        )


def times(found: list[str]) -> dict[str, tuple[int, int]]:
    """Return what was written by each job, and when it was last at work."""
    numbers = {}
    for line in found:
        names, fields, seconds = line.split(" ")
        name = dict(tag.split("=") for tag in names.split(",")[1:])["job"]
        written = dict(one.split("=") for one in fields.split(","))["write_bytes"]
        assert name not in numbers, "one point for each job"
        numbers[name] = (int(written.rstrip("i")), int(seconds) - T)
    return numbers


def test_what_did_not_move_is_not_written_again() -> None:
    told, site = Told(), _Site()
    assert times(told.of(site.sweep(20, job("1", 1, 10, 12), job("2", 1, 10, 13)))) == {"1": (10, 12), "2": (10, 13)}
    assert times(told.of(site.sweep(40, job("1", 2, 20, 33), job("2", 1, 10, 13)))) == {"1": (20, 33)}
    assert told.of(site.sweep(60, job("1", 2, 20, 33), job("2", 1, 10, 13))) == []


def test_the_time_is_the_newest_that_any_target_gave() -> None:
    told, site = Told(), _Site()
    told.of(site.sweep(20, job("1", 1, 10, 12), second=(job("1", 1, 10, 18),)))
    found = told.of(site.sweep(40, job("1", 2, 20, 39), second=(job("1", 2, 20, 33),)))
    assert times(found) == {"1": (40, 39)}
    found = told.of(site.sweep(60, job("1", 2, 20, 39), second=(job("1", 3, 30, 51),)))
    assert times(found) == {"1": (50, 51)}


@pytest.mark.parametrize(
    "wrong", [35, 20, 3, 70, 5000], ids=["late", "the sweep before", "behind", "ahead", "far ahead"]
)
def test_a_time_that_cannot_be_is_the_tick(wrong: int) -> None:
    told, site = Told(), _Site()
    told.of(site.sweep(20, job("1", 1, 10, 12)))
    told.of(site.sweep(40, job("1", 2, 20, 34)))
    assert times(told.of(site.sweep(60, job("1", 3, 30, wrong)))) == {"1": (30, 60)}


def test_the_first_that_is_seen_of_a_job_is_of_the_time_that_its_server_tells() -> None:
    told, site = Told(), _Site()
    assert times(told.of(site.sweep(4000, job("1", 1, 10, 450)))) == {"1": (10, 450)}
    found = told.of(site.sweep(4020, job("1", 1, 10, 450), second=(job("2", 1, 10, 480), job("3", 1, 10, 419))))
    assert times(found) == {"2": (10, 480)}  # the third is older than an hour


def test_what_comes_late_is_written_with_the_sweep_that_shows_it() -> None:
    told, site = Told(), _Site()
    told.of(site.sweep(20, job("1", 1, 10, 12)))
    told.of(site.sweep(40, job("1", 2, 20, 34)))
    found = told.of(site.sweep(60, job("1", 2, 20, 34), second=(job("1", 7, 700, 28), job("2", 1, 1, 28)), late=40))
    assert times(found) == {"1": (720, 60), "2": (1, 28)}  # of the second nothing was written before


def test_what_was_closed_and_not_published_is_not_lost() -> None:
    told, site = Told(), _Site()
    told.of(site.sweep(20, job("1", 1, 10, 12), job("2", 1, 10, 12)))
    site.sweep(40, job("1", 2, 20, 33), job("2", 1, 10, 12))
    found = told.of(site.sweep(60, job("1", 2, 20, 33), job("2", 2, 20, 52)))
    assert times(found) == {"1": (20, 33), "2": (20, 52)}


def test_what_was_dropped_is_made_up_for_with_the_times_that_it_had() -> None:
    told, site = Told(), _Site()
    records = [job("1", 1, 10, 12), job("2", 1, 10, 5), job("3", 1, 10, 10)]
    told.of(site.sweep(20, *records))
    for tick, number, at in ((40, 0, 33), (60, 1, 60), (80, 2, 77)):
        records[number] = job(str(number + 1), 2, 20, at)
        told.of(site.sweep(tick, *records))
    made_up = told.of(site.sweep(100, *records), since=T + 20)
    assert times(made_up) == {"1": (20, 33), "2": (20, 60), "3": (20, 77)}
    much_later = told.of(site.sweep(60 + OLDEST_SECONDS, *records), since=T + 20)
    assert times(much_later) == {"1": (20, 60 + OLDEST_SECONDS), "2": (20, 60 + OLDEST_SECONDS), "3": (20, 77)}


def test_after_a_start_all_is_written_again_as_it_was_but_for_what_is_an_hour_old() -> None:
    site = _Site()
    old = job("3", 1, 10, 20)
    before = Told()
    before.of(site.sweep(20, old))
    was = times(before.of(site.sweep(OLDEST_SECONDS, old, job("1", 1, 10, 3595), job("2", 1, 10, 30))))
    assert was == {"1": (10, 3595), "2": (10, 30)}
    again = Told()
    found = again.of(site.sweep(OLDEST_SECONDS + 20, old, job("1", 1, 10, 3595), job("2", 1, 10, 30)))
    assert times(found) == {"1": (10, 3595), "2": (10, 30)}
    assert times(Told().of(site.sweep(OLDEST_SECONDS + 40, old, job("1", 1, 10, 3595), job("2", 1, 10, 30)))) == {
        "1": (10, 3595)
    }


@pytest.mark.parametrize("is_told", [True, False], ids=["the site was changed", "the aggregator was restarted"])
def test_what_is_restored_is_written_again_as_it_was_and_what_moved_as_ever(*, is_told: bool) -> None:
    told, site = Told(), _Site()
    told.of(site.sweep(20, job("1", 1, 10, 12), job("2", 1, 10, 12), job("3", 1, 10, 12)))
    was = told.of(site.sweep(40, job("1", 2, 20, 33), job("2", 2, 20, 20), job("3", 2, 20, 39)))
    assert times(was) == {"1": (20, 33), "2": (20, 40), "3": (20, 39)}  # the second within the second of the tick
    site.restart()
    told = told if is_told else Told()
    again = told.of(site.sweep(60, job("1", 2, 20, 33), job("2", 2, 20, 20), job("3", 3, 30, 40), job("4", 1, 10, 11)))
    assert times(again) == {"1": (20, 33), "2": (20, 40), "3": (30, 60), "4": (10, 11)}
    after = told.of(site.sweep(80, job("1", 2, 20, 33), job("2", 3, 30, 71), job("3", 3, 30, 40), job("4", 1, 10, 11)))
    assert times(after) == {"2": (30, 71)}


def test_a_total_is_the_present_runs_with_what_its_record_holds() -> None:
    other = JobName("vu", b"8")
    did: Did = {READ: (5, 500), WRITE: (1, 40), OPEN: (9, 90)}
    source = published(
        {("home", "OST"): {b"7": did, b"8": did}},
        last_work=TICK,
        identities=identities(),
        earlier={("home", b"7"): {("home", "OST"): {READ: (3, 300), OPEN: (2, 20)}}},
        before={other: [record(8), record(9)]},
        starts={JobName("vu", b"7"): TICK - 100},
    )
    found = Told("op").of(source)
    assert found[0] == f"lustre,fs=home,job=7,server=oss iops=7i,read_bytes=200i,write_bytes=40i {TICK - 1}"
    assert found[4] == f"lustre,fs=home,job=8,server=oss iops=11i,read_bytes=508i,write_bytes=40i {TICK - 1}"
    assert {line.partition(" ")[0].split("op=")[1].split(",")[0]: line.split(" ")[1] for line in found[1:4]} == {
        "read_bytes": "samples=2i,sum=200i",
        "write_bytes": "samples=1i,sum=40i",
        "open": "samples=7i,sum=70i",
    }
    assert {line.partition(" ")[0].split("op=")[1].split(",")[0]: line.split(" ")[1] for line in found[5:]} == {
        "read_bytes": "samples=6i,sum=508i",
        "write_bytes": "samples=1i,sum=40i",
        "open": "samples=11i,sum=99i",
    }


def test_earlier_runs_under_any_id_of_a_job_are_left_out() -> None:
    source = published(
        {("home", "OST"): {b"7.n1": {WRITE: (5, 500)}, b"7.n2": {WRITE: (4, 40)}}},
        last_work=TICK,
        identities=identities("%j.%H"),
        earlier={
            ("home", name): {("home", "OST"): {WRITE: (1, amount)}} for name, amount in ((b"7.n1", 100), (b"7.n2", 7))
        },
    )
    [line] = Told().of(source)
    assert line == f"lustre,fs=home,job=7,server=oss iops=0i,read_bytes=0i,write_bytes=433i {TICK - 1}"


# --- whose ---


def test_what_is_run_outside_jobs_is_written_only_if_asked_for() -> None:
    jobs = {b"11": WROTE, b"cp.1000": WROTE}
    assert [tags(line) for line in lines(jobs)] == ["fs=home,job=11,server=oss"]
    assert [tags(line) for line in lines(jobs, "process")] == [
        "fs=home,job=11,server=oss",
        "fs=home,job=cp.1000,server=oss",
    ]


def test_a_job_that_nobody_knows_is_not_written() -> None:
    jobs = {b"11": WROTE, b"12": WROTE}
    facts = slurm(SlurmJob(id=11, state="RUNNING"), unknown=(12,))
    assert [tags(line) for line in lines(jobs, facts=facts, ids=identities())] == ["fs=home,job=11,server=oss"]


def test_a_job_waits_for_its_name_and_is_written_with_its_own_times() -> None:
    told, site = Told(), _Site(ids=identities(), facts=slurm())
    assert told.of(site.sweep(20, job("12", 1, 10, 12))) == []
    assert told.of(site.sweep(40, job("12", 2, 20, 33))) == []
    assert told.of(site.sweep(60, job("12", 2, 20, 33))) == []
    site.facts = slurm(SlurmJob(id=12, array_id=99, array_task=4, state="RUNNING"))
    found = told.of(site.sweep(80, job("12", 3, 30, 71)))
    assert [line.split(" ", 1)[1] for line in found] == [
        f"iops=0i,read_bytes=0i,write_bytes={written}i {T + at}" for written, at in ((10, 12), (20, 33), (30, 71))
    ]
    assert {tags(line) for line in found} == {"fs=home,job=99_4,server=oss"}
    assert told.of(site.sweep(100, job("12", 3, 30, 71))) == []


def test_nobody_waits_for_a_name_for_ever() -> None:
    told, site = Told(), _Site(ids=identities(), facts=slurm())
    told.of(site.sweep(20, job("12", 1, 10, 12)))
    told.of(site.sweep(OLDEST_SECONDS + 20, job("12", 1, 10, 12)))
    site.facts = slurm(SlurmJob(id=12, state="RUNNING"))
    assert told.of(site.sweep(OLDEST_SECONDS + 40, job("12", 1, 10, 12))) == []
    site.facts = slurm()
    told.of(site.sweep(OLDEST_SECONDS + 60, job("12", 1, 10, 12), job("13", 1, 10, OLDEST_SECONDS + 55)))
    site.facts = slurm(unknown=(13,))
    assert told.of(site.sweep(OLDEST_SECONDS + 80, job("12", 1, 10, 12))) == []


def test_so_many_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvest_aggregator.sinks.influx_lines._HELD_MOST", 2)
    told, site = Told(), _Site(ids=identities(), facts=slurm())
    told.of(site.sweep(20, job("11", 1, 10, 12), job("12", 1, 10, 12), job("13", 1, 10, 12)))
    site.facts = slurm(*(SlurmJob(id=number, state="RUNNING") for number in (11, 12, 13)))
    assert times(told.of(site.sweep(40))).keys() == {"12", "13"}


def test_users_and_accounts_are_tags_by_choice() -> None:
    facts = slurm(
        SlurmJob(id=11, user="jane", account="dark", state="RUNNING"), SlurmJob(id=12, user="al", state="RUNNING")
    )
    jobs = {b"11": WROTE, b"12": WROTE, b"dd.1000": WROTE, b"dd.77": WROTE}
    assert [tags(line) for line in lines(jobs, "user", "process", facts=facts, ids=identities())] == [
        "account=dark,fs=home,job=11,server=oss,user=jane",
        "fs=home,job=12,server=oss,user=al",
        "fs=home,job=dd.1000,server=oss,user=bob",
        "fs=home,job=dd.77,server=oss,user=77",
    ]


def test_jobs_of_several_clusters_are_told_apart() -> None:
    ids = Identities(
        [
            ClusterIds(cluster=name, filesystems=frozenset({"home"}), format=JobIdFormat.compile(f"{name}.%j"))
            for name in ("vu", "xe")
        ]
    )
    jobs = {b"vu.11": WROTE, b"xe.11": WROTE, b"what": WROTE}
    assert [tags(line) for line in lines(jobs, ids=ids, with_cluster=True)] == [
        "cluster=vu,fs=home,job=11,server=oss",
        "cluster=xe,fs=home,job=11,server=oss",
        "cluster=-,fs=home,job=what,server=oss",
    ]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (b"a b,c=d", r"a\ b\,c\=d"),
        (b"new\nline\ttab\x00", r"new\x0aline\x09tab\x00"),
        (b"back\\slash\\", r"back\x5cslash\x5c"),
        (b"", "unknown"),
        ("gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n".encode(), "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"),
    ],
)
def test_signs_that_mean_something_in_a_line_are_escaped(name: bytes, written: str) -> None:
    [line] = lines({name: WROTE})
    assert line == f"lustre,fs=home,job={written},server=oss iops=0i,read_bytes=0i,write_bytes=1000i {TICK - 1}"


# --- detail ---


def test_operations_are_points_of_their_own() -> None:
    found = lines({b"1": {READ: (2, 1000), OPEN: (4, 40), CREATE: (3, 0)}}, "op")
    assert found[1:] == [
        f"lustre_op,fs=home,job=1,op=read_bytes,server=oss samples=2i,sum=1000i {TICK - 1}",
        f"lustre_op,fs=home,job=1,op=open,server=oss samples=4i,sum=40i {TICK - 1}",
        f"lustre_op,fs=home,job=1,op=create,server=oss samples=3i,sum=0i {TICK - 1}",
    ]


def test_targets_have_rates_of_those_who_are_at_work_there() -> None:
    found = [line for line in Told("target").of(PLACED) if line.startswith("lustre_target")]
    fields = "iops_per_second={},read_bytes_per_second={},write_bytes_per_second={}"
    assert found == [
        f"lustre_target,fs={fs},job={name},server={server},target={target} {fields.format(*rates)} {TICK}"
        for fs, name, server, target, rates in (
            ("home", "11", "oss", "home-OST0000", (0.5, 100.0, 0.0)),
            ("home", "11", "mds", "home-MDT0000", (2.0, 1.0, 0.0)),
            ("home", "22", "mds", "home-MDT0000", (4.0, 0.0, 0.0)),
            ("scratch", "33", "oss", "scr-OST0000", (0.0, 0.0, 750.0)),
            ("scratch", "33", "oss", "scr-OST0001", (0.0, 0.0, 250.0)),
            ("scratch", "11", "oss", "scr-OST0001", (0.25, 0.0, 50.0)),
        )
    ]


def test_nodes_that_live_have_rates_once_for_every_read() -> None:
    told = Told("client")
    nodes = Nodes(
        tick_seconds=TICK - 20,
        nodes=(
            node(1, Rates(1.5, 2.0, None, 0.25)),
            node(2, live=False),
            node(3, Rates(None, None, None, None)),
            node(4, Rates(0.0, 0.0, 0.0, float("nan")), cluster=None),
        ),
    )
    first = Published(tick_seconds=TICK, nodes=nodes)
    assert told.of(first) == [
        (
            "lustre_client,cluster=vu,fs=home,host=vu1 "
            f"mds_ops_per_second=0.25,read_bytes_per_second=1.5,write_bytes_per_second=2.0 {TICK - 20}"
        ),
        (
            "lustre_client,fs=home,host=n4 "
            f"oss_ops_per_second=0.0,read_bytes_per_second=0.0,write_bytes_per_second=0.0 {TICK - 20}"
        ),
    ]
    assert told.of(replace(first, tick_seconds=TICK + 20)) == []
    newer = replace(nodes, tick_seconds=TICK + 40)
    assert len(told.of(replace(first, tick_seconds=TICK + 40, nodes=newer))) == 2
    assert Told().of(first) == []
