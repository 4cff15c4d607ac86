"""The prometheus sink as text: what it shows of sweeps, in which form, and where it goes on after a restart."""

from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parsed

from harvest_aggregator.clients import Client
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.showing import Raw, Row, Showing, loaded, noted, subject_text
from harvest_aggregator.sinks.contract import Outcome
from harvest_aggregator.sinks.prometheus_families import FAMILIES
from harvest_aggregator.sinks.scrapes import HOLD_SECONDS
from harvest_core.accounting.parking import SURE_READS
from harvest_core.accounting.sweeps import Place
from harvest_core.jobs.identity import JobName
from harvest_core.jobs.life import FORGOTTEN_SECONDS
from harvest_site.loading import load
from support.deliveries import START
from unit.aggregator.houses import MIB, House
from unit.aggregator.scenes import ALL, SITE, Scene


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_nothing_is_shown_before_the_first_sweep(path: Path) -> None:
    assert Scene(path).sink.scrape("a", accept="", encodings="") is None


def test_both_forms_say_the_same_and_every_family_is_described(path: Path) -> None:
    scene = Scene(path)
    scene.house.slurm(7, "RUNNING")
    scene.sweep(j7=5)
    scene.sweep(**{"j7": 6, "jcp.1000": 2})
    families = {family.name: family for family in FAMILIES}
    plain, openly = scene.text(), scene.text(accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert openly.endswith("# EOF\n")
    told = {}
    for form, parse in ((plain, parsed), (openly, parsed_openmetrics)):
        found = list(parse(form))
        for family in found:
            of = families[family.samples[0].name]
            assert (family.documentation, family.type) == (of.meaning, of.type)
            assert all(set(sample.labels) <= set(of.labels) for sample in family.samples)
        told[parse] = [
            (sample.name, sample.labels, sample.value, sample.timestamp and float(sample.timestamp))
            for family in found
            for sample in family.samples
        ]
    assert told[parsed] == told[parsed_openmetrics]
    assert {tick for name, *_, tick in told[parsed] if name.endswith("_total")} == {scene.tick}
    assert {tick for name, *_, tick in told[parsed] if not name.endswith("_total")} == {None}


def test_what_jobs_targets_and_users_did(path: Path) -> None:
    scene = Scene(path)
    scene.house.slurm(7, "RUNNING")
    scene.sweep(j7=5, j8=1)
    scene.sweep(j7=6, j9=2)
    written = {job: total / MIB for (job,), total in scene.shown("lustre_job_write_bytes_total", "jobid").items()}
    assert written == {"7": 6, "8": 1, "9": 0}
    assert scene.shown("harvest_target_write_bytes_total", "target") == {("home-OST0000",): 9 * MIB}
    assert scene.shown("harvest_filesystem_write_bytes_total", "fs", "component") == {("home", "ost"): 9 * MIB}
    assert scene.shown("harvest_filesystem_ops_total", "operation") == {("write_bytes",): 9}
    assert scene.shown("harvest_user_write_bytes_total", "cluster", "account", "user") == {
        ("vu", "dark", "jane"): 6 * MIB
    }
    assert scene.shown("harvest_job_info", "cluster", "jobid", "user", "account") == {
        ("vu", "7", "jane", "dark"): 1,
        ("vu", "8", "", ""): 1,
        ("vu", "9", "", ""): 1,
    }
    assert scene.shown("harvest_target_info", "target", "server") == {("home-OST0000", "oss1"): 1}
    assert scene.shown("cluster_job_write_throughput_bytes", "account", "user") == {("dark", "jane"): MIB / 20}


def test_after_a_restart_counters_go_on_where_they_were(path: Path) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    scene.sweep(j7=6, j8=3)
    scene.text()
    scene.text()
    scene.sweep(j8=4)
    assert scene.shown("lustre_job_write_bytes_total", "jobid") == {("7",): 6 * MIB, ("8",): 4 * MIB}
    scene.sweep(j9=2)
    scene.restart()
    scene.sweep(j7=7)
    assert scene.shown("lustre_job_write_bytes_total", "jobid") == {("7",): 7 * MIB, ("8",): 4 * MIB, ("9",): 0}
    for _ in range(int(HOLD_SECONDS // 20)):
        scene.sweep(j9=2)
    assert scene.shown("lustre_job_write_bytes_total", "jobid") == {("7",): 7 * MIB, ("8",): 4 * MIB, ("9",): 2 * MIB}


def test_the_busiest_have_series_and_all_others_are_one(path: Path) -> None:
    scene = Scene(path, "perJob: top, topK: 1, perUser: none, perProcess: none")
    scene.sweep(j7=5, j8=1)
    scene.sweep(j7=6, j8=9)
    scene.sweep(j7=8, j8=10)
    scene.now += HOLD_SECONDS
    scene.sweep(j7=8, j8=10)
    written = scene.shown("lustre_job_write_bytes_total", "cluster", "jobid")
    assert written == {("vu", "7"): 3 * MIB, ("", "other"): 15 * MIB}
    assert "harvest_user" not in scene.text()
    assert "cluster_job" not in scene.text()


def test_hostile_ids_are_shown_as_they_are(path: Path) -> None:
    scene = Scene(path)
    evil = ['a"b', "a\\b", "a\nb", "a{b}", "\udcff", "\\xff", "other", "é", " ", "a=b,c"]
    written = {job.encode("utf-8", "surrogateescape"): 1 for job in evil}
    scene.house.accounts.accept([scene.agent.sweep(written, tick=START + 20)], START + 21.0)
    scene.house.accounts.close(START + 30.0, frozenset())
    scene.tick = START + 20
    scene.sweep(j7=1)
    jobs = {job for (job,) in scene.shown("lustre_job_write_bytes_total", "jobid")}
    assert jobs == {'a"b', "a\\\\b", "a\nb", "a{b}", "\\xff", "\\\\xff", "other", "é", " ", "a=b,c", "7"}
    assert 'jobid="a\\nb"' in scene.text(accept="application/openmetrics-text")


def test_gzip_is_for_those_who_take_it(path: Path) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    for encodings, encoding in (("gzip", "gzip"), ("br, gzip;q=0.5", "gzip"), ("gzip;q=0", None), ("", None)):
        answer = scene.sink.scrape("a", accept="", encodings=encodings)
        assert answer is not None
        assert answer.encoding == encoding
    first, second = (scene.sink.scrape("a", accept="", encodings="gzip") for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.body is second.body, "made once, for all"


def test_an_old_sweep_says_nothing_of_the_present(path: Path) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    assert scene.shown("cluster_exporter_scrape_ok") == {(): 0}, "Slurm has not said anything"
    scene.house.slurm(7, "RUNNING")
    scene.sweep(j7=6)
    assert scene.shown("cluster_exporter_scrape_ok") == {(): 1}
    scene.now += 66
    names = {family.name for family in parsed(scene.text())}
    assert names == {"harvest_target_info", "cluster_exporter_scrape_ok"}
    assert scene.shown("cluster_exporter_scrape_ok") == {(): 0}


def test_who_got_an_old_sweep_has_not_seen_the_first_0(path: Path) -> None:
    scene = Scene(path, "perJob: all, perUser: none, perProcess: none")
    for moved in range(1, 10):
        scene.sweep(j8=moved)
        scene.text()
    scene.sweep(j9=50)
    scene.now += 80
    assert "jobid" not in scene.text()
    scene.sweep(j9=60)
    assert scene.shown("lustre_job_write_bytes_total", "jobid")[("9",)] == 0
    scene.sweep(j9=70)
    assert scene.shown("lustre_job_write_bytes_total", "jobid")[("9",)] == 70 * MIB


def test_while_nothing_can_be_written_the_last_text_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    before = scene.text()

    def fails(*_: object) -> None:
        raise LedgerError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Showing, "keep", fails)
        assert scene.sweep(j8=5) is Outcome.ACCEPTED
        scene.text()
        scene.text()
        assert scene.sweep(j8=6) is Outcome.KEPT, "its series is to say more than 0 now"
        assert scene.shown("lustre_job_write_bytes_total", "jobid") == {("7",): 5 * MIB, ("8",): 0}
    assert scene.sweep(j8=7) is Outcome.ACCEPTED
    assert scene.shown("lustre_job_write_bytes_total", "jobid") == {("7",): 5 * MIB, ("8",): 0}
    assert before != scene.text()


def test_one_that_was_begun_anew_is_heard_no_more(path: Path) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    turn = scene.showing.attach("prom", ["job"])
    with pytest.raises(LedgerError, match="begun anew"):
        scene.showing.keep("prom", turn - 1, noted([]), 0.0)
    scene.showing.keep("prom", turn, noted([]), 0.0)


def test_after_a_day_it_is_forgotten_of_jobs_alone_how_far_they_came(path: Path) -> None:
    scene = Scene(path)
    subjects = {"job": ("vu", "7"), "client": ("10.0.0.7@o2ib",), "user": ("dark", "jane")}
    turn = scene.showing.attach("prom", list(subjects))
    rows = [Row(kind, subject, {}, left_seconds=START) for kind, subject in subjects.items()]
    scene.showing.keep("prom", turn, noted(rows), START)

    def remembered() -> list[str]:
        return [kind for kind, who in subjects.items() if scene.showing.former("prom", kind, [subject_text(who)])]

    assert remembered() == ["job", "client", "user"]
    scene.showing.keep("prom", turn, noted([]), START + 100_000.0)
    assert remembered() == ["client", "user"]


def test_a_sink_that_is_no_more_is_forgotten(path: Path) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    assert scene.showing.rows("prom", None) != []
    scene.site = load(SITE.format(settings=ALL).replace("name: prom", "name: other"))
    scene.restart()
    assert scene.showing.rows("prom", None) == []
    assert Place("home", "OST", "home-OST0000") in scene.house.accounts.by_target(None)


def test_a_job_that_comes_back_into_the_first_goes_on_where_it_was(path: Path) -> None:
    scene = Scene(path, "perJob: top, topK: 1, perUser: none, perProcess: none")
    said: list[float] = []

    def sweep(written: int) -> None:
        scene.sweep(j7=written)
        shown = scene.shown("lustre_job_write_bytes_total", "jobid").get(("7",))
        said.extend([] if shown is None else [shown / MIB])

    scene.house.slurm(7, "RUNNING")
    for written in (5, 6, 7, 8, 9, 10, *[10] * 9):
        sweep(written)
    scene.house.slurm(7, "COMPLETED", end=scene.tick)
    for _ in range(9):
        sweep(10)
    gone = len(said)
    scene.house.slurm(7, "RUNNING", start=scene.tick + 1)
    for written in (11, 12, 13, 14):
        sweep(written)
    assert gone < len(said) < 6 + 9 + 9 + 4, "it left, and came back"
    assert said == sorted(said)
    assert said[-1] > said[gone - 1]
    assert sum(scene.shown("lustre_job_write_bytes_total", "jobid").values()) == 14 * MIB


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("mode", ["all", "top"])
def test_a_user_who_comes_back_after_days_goes_on_where_it_was(path: Path, mode: str, *, is_killed: bool) -> None:
    scene = Scene(path, f"perUser: {mode}, perProcess: none")
    said: dict[str, list[int]] = {}

    def sweep(**written: int) -> None:
        scene.sweep(**written)
        for (user,), value in scene.shown("harvest_user_write_bytes_total", "user").items():
            said.setdefault(user, []).append(int(value) // MIB)

    scene.house.slurm(8, "RUNNING", account="light")
    for _ in range(8):
        sweep(j8=1)
    scene.house.slurm(7, "RUNNING", user="jim")
    for moved in (1, 2, *[10] * 8):
        sweep(j7=moved)
    scene.house.slurm(7, "COMPLETED", user="jim", end=scene.tick)
    for seconds in (2000, *[0] * 10, 100_000):
        sweep(j8=1)
        scene.tick += seconds
        scene.now += seconds
    assert ("jim",) not in scene.shown("harvest_user_write_bytes_total", "user")
    scene.house.slurm(9, "RUNNING", user="eve")
    for _ in range(8):
        sweep(j9=1)  # what is old is forgotten
    if is_killed:
        scene.restart()
    scene.house.slurm(10, "RUNNING", user="jim", start=scene.tick)
    for moved in (1, 2, *[5] * 8):
        sweep(j10=moved)
    assert all(values == sorted(values) for values in said.values())
    assert sum(values[-1] - values[0] for values in said.values()) == 10 + 1 + 5


@pytest.mark.parametrize("is_back", [False, True])
def test_what_a_job_did_that_left_does_not_come_back_with_a_process_that_was_killed(
    path: Path, *, is_back: bool
) -> None:
    scene = Scene(path, "perJob: all, perUser: none, perProcess: none")
    said: dict[str, list[int]] = {}

    def sweep(**written: int) -> None:
        scene.sweep(**written)
        for (job,), value in scene.shown("lustre_job_write_bytes_total", "jobid").items():
            said.setdefault(job, []).append(int(value) // MIB)

    for _ in range(8):
        sweep(j8=1)
    for moved in (1, 2, *[10] * 8):
        sweep(**{"jcp.1000": moved, "j8": 1})
    for seconds in (FORGOTTEN_SECONDS + 700, *[0] * 10):
        scene.tick += seconds
        scene.now += seconds
        scene.house.slurm(8, "RUNNING")
        sweep(j8=1)
    assert ("cp.1000",) not in scene.shown("lustre_job_write_bytes_total", "jobid")
    scene.restart()  # before a snapshot was written
    scene.house.slurm(8, "RUNNING")
    for seconds in (0, 100_000, *[0] * 8):
        scene.tick += seconds
        scene.now += seconds
        sweep(j9=1)  # what is old is forgotten
    scene.restart()
    scene.house.slurm(8, "RUNNING")
    for moved in (11, *[15] * 9):
        sweep(**({"jcp.1000": moved} if is_back else {"j9": 1}))
    grown = [
        now - before if now >= before else now  # after more than a day it begins anew
        for values in said.values()
        for before, now in pairwise(values)
    ]
    assert sum(grown) == 10 + 1 + 5 * is_back


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("perJob: all", "perJob: none"),
        ("name: prom, prometheus: {perJob: all", "name: x, prometheus: {perJob: top"),
        ("sinks: ", "x-sinks: "),
    ],
    ids=["without jobs", "renamed", "removed"],
)
def test_what_is_kept_of_jobs_for_a_sink_is_not_kept_without_it(path: Path, before: str, after: str) -> None:
    scene = Scene(path, "perJob: all, perUser: none, perProcess: none")
    scene.house.slurm(7, "RUNNING")
    for _ in range(8):
        scene.sweep(j7=5, j8=1)
    scene.tick += 20
    scene.house.accounts.accept([scene.agent.sweep({}, tick=scene.tick, gone=[b"7"])], scene.tick + 1.0)
    scene.house.accounts.close(scene.tick + 10.0, frozenset())
    for _ in range(SURE_READS + 1):
        scene.sweep(j8=2)
    scene.house.accounts.fold_all()
    assert left_by(scene.house) == {JobName("vu", b"7")}
    text = SITE.format(settings=scene.settings).replace(before, after)
    scene.site = load("".join(line for line in text.splitlines(keepends=True) if not line.startswith("x-")))
    scene.house.change_site(scene.site, scene.tick + 2.0)
    scene.showing.change_site(scene.site, scene.house.following.identities)
    if scene.site.spec.sinks:
        scene.sink = scene.new_sink()
        scene.sweep(j8=3)
    assert left_by(scene.house) == set()
    scene.house.accounts.fold_all()
    scene.house.ledger.close()
    again = House(path, scene.site)
    assert left_by(again) == set(), "that is durable"
    again.ledger.close()


def left_by(house: House) -> set[JobName]:
    """Return of whom is kept what left targets."""
    return {name for _, kept in house.accounts._of_jobs() for name in kept.tally.left_by}  # noqa: SLF001


def test_the_six_stages_of_the_cluster_exporter_have_their_times(path: Path) -> None:
    scene = Scene(path)
    scene.house.slurm(7, "RUNNING")
    scene.sweep(j7=1)
    scene.sweep(j7=2)
    stages = scene.shown("cluster_exporter_stage_execution_seconds", "name")
    assert {name for (name,) in stages} == {
        "retrieve_running_jobs",
        "retrieve_user_name_info",
        "retrieve_group_name_info",
        "build_metadata_metrics",
        "build_read_throughput_metrics",
        "build_write_throughput_metrics",
    }
    assert all(seconds >= 0 for seconds in stages.values())


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize(
    ("settings", "first"), [(ALL, 6), ("perJob: top, topK: 3, perUser: all, perProcess: none", 1)], ids=["all", "top"]
)
def test_jobs_that_are_called_otherwise_count_on_under_their_new_names_only(
    path: Path, settings: str, first: int, *, is_down: bool
) -> None:
    scene = Scene(path, settings)
    said: list[float] = []

    def sweep(**written: int) -> dict[tuple[str, ...], float]:
        scene.sweep(**written)
        said.append(scene.shown("harvest_user_write_bytes_total", "cluster")[("vu",)] / MIB)
        return {
            series: value / MIB
            for series, value in scene.shown("lustre_job_write_bytes_total", "cluster", "jobid").items()
        }

    scene.house.slurm(7, "RUNNING")
    sweep(j7=5)
    shown = [sweep(j7=6) for _ in range(8)][-1]
    assert shown[("vu", "7")] == first
    others = shown.get(("", "other"), 0)
    scene.rename("name: vu", "name: vv", is_down=is_down)
    shown = sweep(j7=8)
    assert set(shown) == {("vv", "7"), ("", "other")}
    assert shown[("vv", "7")] == 0
    shown = [sweep(j7=9) for _ in range(8)][-1]
    assert shown == {("vv", "7"): 1, ("", "other"): others + 2}, "what was done meanwhile is somebody's, and once"
    scene.restart()
    shown = sweep(j7=11)
    assert shown == {("vv", "7"): 3, ("", "other"): others + 2}
    scene.rename("name: vu", "name: vu", is_down=is_down)
    shown = sweep(j7=12)
    assert shown == {("vu", "7"): first, ("", "other"): others + 3}, "it is back, and goes on"
    assert said == sorted(said)
    assert said[-1] - said[0] == 7, "of a run that is under way, whatever its cluster is called"


def test_whatever_an_id_is_made_of_it_goes_on_after_a_restart(path: Path) -> None:
    scene = Scene(path)
    ids = [b"\xff", b"\\xff", b"a\nb", "é".encode(), b'a"b']
    for moved in (1, 2, 2, 2, 2, 2, 2, 2):
        scene.tick += 20
        scene.house.accounts.accept([scene.agent.sweep(dict.fromkeys(ids, moved), tick=scene.tick)], scene.tick + 1.0)
        scene.house.accounts.close(scene.tick + 10.0, frozenset())
        scene.sweep(j7=1)
    before = scene.shown("lustre_job_write_bytes_total", "jobid")
    assert len(before) == len(ids) + 1
    scene.restart()
    scene.sweep(j7=1)
    assert scene.shown("lustre_job_write_bytes_total", "jobid") == before


def test_what_was_shown_is_read_in_pieces_and_all_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harvest_aggregator.showing.ROWS_AT_ONCE", 2)
    monkeypatch.setattr("harvest_aggregator.sinks.prometheus.ROWS_AT_ONCE", 2)
    monkeypatch.setattr("harvest_aggregator.sinks.prometheus_series.ROWS_AT_ONCE", 2)
    scene = Scene(path)
    jobs = {f"j{number}": number for number in range(1, 8)}
    scene.sweep(**jobs)
    before = scene.shown("lustre_job_write_bytes_total", "jobid")
    assert before == {(str(number),): number * MIB for number in range(1, 8)}
    scene.restart()
    scene.sweep(j1=1)
    assert scene.shown("lustre_job_write_bytes_total", "jobid") == before


def test_a_row_that_is_damaged_stops_the_start_with_advice(path: Path) -> None:
    scene = Scene(path)
    scene.sweep(j7=5)
    with scene.house.ledger.transaction() as connection:
        connection.exec_driver_sql("UPDATE shown SET payload = '{' WHERE kind = 'job' AND subject = '[]'")
    with pytest.raises(LedgerError, match=r"how jobs were called: .*restore"):
        scene.restart()


def test_a_row_that_is_damaged_is_named() -> None:
    with pytest.raises(LedgerError, match=r"what was shown of \[\] is damaged in the ledger"):
        loaded(Raw("job", "[]", "{}", 0))


def test_a_sink_that_begins_anew_does_not_watch_for_ever_of_whom_nothing_was_written(path: Path) -> None:
    scene = Scene(path, "perJob: top, topK: 1, perUser: none, perProcess: none")
    watched = scene.house.accounts.watch
    scene.sweep(j7=5)
    scene.sweep(j7=6)
    assert watched.of("prom") == {JobName("vu", b"7")}
    scene.sink = scene.new_sink()
    scene.sweep(j8=1)
    scene.sweep(j8=2)
    assert watched.of("prom") == {JobName("vu", b"8")}
    for _ in range(int(HOLD_SECONDS // 20) + 1):
        scene.sweep(j8=3)
    scene.sink = scene.new_sink()
    scene.sweep(j9=1)
    assert watched.of("prom") == {JobName("vu", b"8")}, "that is written"


def test_clients_without_a_name_are_forgotten_with_the_clients(path: Path) -> None:
    scene = Scene(path, "perClient: all, perUser: none, perProcess: none")
    for number in range(5):
        scene.clients = (Client(nid=f"10.0.0.{number}@o2ib", host=None, cluster=None, is_live=True, filesystems={}),)
        scene.sweep(j7=1)
    assert list(scene.sink._unnamed) == ["10.0.0.4@o2ib"]  # noqa: SLF001
    scene.clients = (Client(nid="10.0.0.4@o2ib", host="n4", cluster=None, is_live=True, filesystems={}),)
    scene.sweep(j7=1)
    assert scene.sink._unnamed == {}  # noqa: SLF001
