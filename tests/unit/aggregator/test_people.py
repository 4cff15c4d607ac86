"""Whose jobs they are: as the API tells it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harvest.v1.stream_pb2 import SlurmHealth, SlurmJob, UserName
from harvest_aggregator.owners import Owner
from harvest_aggregator.records import Records
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.job_ids import JobIdFormat
from harvest_core.jobs.identity import ClusterIds, Identities, JobName
from harvest_site.loading import load
from unit.aggregator.publishing import OPEN, READ, TICK, WRITE, client, published
from unit.aggregator.test_records import record, written

SITE = load("""
filesystems:
  - {name: home, servers: [oss1, mds1]}
clusters:
  - {name: vu, lnets: [o2ib], filesystems: [home], jobIds: {format: "vu.%j:%u:%H"}, slurm: {server: slurm1}}
  - {name: xe, lnets: [tcp], filesystems: [home], jobIds: {format: "xe.%j"}}
""")
VU = ClusterFacts(
    agent="slurm1",
    jobs={
        11: SlurmJob(
            id=11,
            name="sim",
            user="jane",
            uid=1000,
            group="phys",
            account="dark",
            partition="gpu",
            state="RUNNING",
            start_seconds=TICK - 500,
            submit_seconds=TICK - 600,
            nodes=2,
        ),
        12: SlurmJob(id=12, array_id=10, array_task=3, user="jane", account="dark", state="SUSPENDED"),
        13: SlurmJob(
            id=13,
            user="bob",
            account="light",
            state="FAILED",
            end_seconds=TICK - 5,
            start_seconds=TICK - 9,
            exit_code="1:0",
        ),
    },
    users={1000: UserName(uid=1000, name="jane", gid=100, group="phys"), 1001: UserName(uid=1001)},
    health=SlurmHealth(answered_seconds=TICK),
)
SOURCE = published(
    {
        ("home", "OST"): {
            b"vu.11:1000:n1": {READ: (1, 100, 1.0, 10.0)},
            b"vu.11:1000:n2": {READ: (2, 200, 1.0, 20.0), WRITE: (1, 7)},
            b"vu.12:1000:n1": {WRITE: (1, 50)},
            b"vu.13:1001:n9": {WRITE: (1, 3, 0.1, 3.0)},
            b"xe.11": {READ: (1, 9)},
            b"dd.1000": {WRITE: (1, 1_000, 0.5, 500.0)},
            b"dd.1001": {WRITE: (1, 1)},
        },
        ("home", "MDT"): {b"vu.11:1000:n2": {OPEN: (4, 40, 2.0, 4.0)}},
    },
    last_work=TICK - 100,
    identities=Identities(
        [
            ClusterIds(cluster="vu", filesystems=frozenset({"home"}), format=JobIdFormat.compile("vu.%j:%u:%H")),
            ClusterIds(cluster="xe", filesystems=frozenset({"home"}), format=JobIdFormat.compile("xe.%j")),
        ]
    ),
    clusters={"vu": VU},
    starts={JobName("vu", b"11"): TICK - 500, JobName("vu", b"13"): TICK - 9},
)


def asked(path: str) -> Any:  # noqa: ANN401 - JSON
    answer = client(SOURCE, site=SITE).get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def jobs(query: str) -> set[tuple[str, str]]:
    return {(job["cluster"], job["job"]) for job in asked(f"jobs?{query}")["jobs"]}


def test_the_ids_of_one_job_are_one_job_with_all_that_slurm_says() -> None:
    job = asked("jobs/vu/11")
    assert job["filesystems"]["home"]["ost"]["read_bytes"] == 300
    assert job["filesystems"]["home"]["ost"]["rates"]["read_bytes"] == 30.0
    assert job["filesystems"]["home"]["ost"]["write_bytes"] == 7
    assert job["filesystems"]["home"]["mdt"]["iops"] == 4
    told = {"name": "sim", "user": "jane", "group": "phys", "account": "dark", "partition": "gpu", "nodes": 2}
    assert told.items() <= job.items()
    assert (job["state"], job["slurm_state"], job["start_seconds"]) == ("running", "RUNNING", TICK - 500)
    assert job["last_tick_seconds"] == TICK


def test_the_same_number_on_another_cluster_is_another_job() -> None:
    other = asked("jobs/xe/11")
    assert other["filesystems"]["home"]["ost"]["read_bytes"] == 9
    assert (other["user"], other["slurm_state"], other["state"]) == (None, None, "quiet")


def test_a_task_is_called_after_its_array_and_a_suspended_one_is_quiet() -> None:
    task = asked("jobs/vu/12")
    assert (task["array"], task["state"], task["slurm_state"]) == ("10_3", "quiet", "SUSPENDED")
    assert set(asked("views/totals")) == {"11", "10_3", "13", "xe/11", "dd.1000", "dd.1001"}


def test_a_job_that_ended_says_when_and_how() -> None:
    job = asked("jobs/vu/13")
    assert (job["state"], job["end_seconds"], job["exit_code"]) == ("ended", TICK - 5, "1:0")


def test_a_process_is_its_users() -> None:
    known, unknown = asked("jobs/ambiguous/dd.1000"), asked("jobs/ambiguous/dd.1001")
    assert (known["process"], known["user"], known["group"]) == ("dd", "jane", "phys")
    assert (unknown["process"], unknown["user"], unknown["group"]) == ("dd", "1001", None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("user=jane", {("vu", "11"), ("vu", "12"), ("ambiguous", "dd.1000")}),
        ("account=light", {("vu", "13")}),
        ("cluster=xe", {("xe", "11")}),
        ("state=ended", {("vu", "13")}),
        ("state=running", {("vu", "11"), ("ambiguous", "dd.1000")}),
        ("user=jane&state=quiet", {("vu", "12")}),
        ("user=nobody", set()),
    ],
)
def test_jobs_are_found_by_whose_they_are(query: str, expected: set[tuple[str, str]]) -> None:
    assert jobs(query) == expected


def test_pages_follow_one_another() -> None:
    everyone = [(job["cluster"], job["job"]) for job in asked("jobs?sort=job&limit=0")["jobs"]]
    pages = [asked(f"jobs?sort=job&limit=2&offset={offset}") for offset in (0, 2, 4, 6)]
    assert [(job["cluster"], job["job"]) for page in pages for job in page["jobs"]] == everyone
    assert {page["matched"] for page in pages} == {6}


def test_a_job_that_started_at_another_time_is_not_found() -> None:
    assert asked(f"jobs/vu/11?start={TICK - 500}")["job"] == "11"
    assert client(SOURCE, site=SITE).get("/api/v1/jobs/vu/11?start=7").status_code == 404


def test_an_unknown_job_is_told_with_the_clusters_that_have_one() -> None:
    answer = client(SOURCE, site=SITE).get("/api/v1/jobs/-/11")
    assert answer.status_code == 404
    assert "there is one of 'vu', 'xe'" in answer.json()["error"]


def test_work_is_added_up_by_user() -> None:
    rows = asked("attribution?by=user")["rows"]
    assert [(row["user"], row["jobs"], row["read_bytes"], row["write_bytes"]) for row in rows] == [
        ("jane", 3, 300, 1057),
        ("bob", 1, 0, 3),
        ("1001", 1, 0, 1),
    ]
    assert rows[0]["rates"] == {"read_bytes": 30.0, "write_bytes": 500.0, "iops": 2.0, "metadata_ops": 2.0}


def test_and_by_account_and_by_program() -> None:
    assert [(row["account"], row["read_bytes"]) for row in asked("attribution?by=account")["rows"]] == [
        ("dark", 300),
        ("light", 0),
    ]
    programs = asked("attribution?by=process")["rows"]
    assert [(row["process"], row["user"], row["group"], row["write_bytes"]) for row in programs] == [
        ("dd", "jane", "phys", 1000),
        ("dd", "1001", None, 1),
    ]
    both = asked("attribution?by=account,user&account=dark")["rows"]
    assert [(row["account"], row["user"], row["jobs"]) for row in both] == [("dark", "jane", 2)]


FINISHED = {
    Owner("vu", "dark", "jane"): {("home", "OST"): {READ: (3, 1000)}, ("home", "MDT"): {OPEN: (7, 70)}},
    Owner("vu", "light", "eve"): {("home", "OST"): {WRITE: (1, 2_000)}, ("work", "OST"): {WRITE: (1, 500)}},
    Owner("vu", "", "jane", outside=True): {("home", "OST"): {READ: (1, 10)}},
    Owner("xe", "dark", "bob"): {("home", "OST"): {READ: (1, 1)}},
}


def finished(query: str) -> list[tuple[str, int, int, int, int]]:
    """Return rows of attribution where something is over: whose, how many are not, and totals."""
    answer = client(replace(SOURCE, finished=FINISHED), site=SITE).get(f"/api/v1/attribution?{query}").json()
    assert answer["matched"] == len(answer["rows"])
    measures = ("jobs", "read_bytes", "write_bytes", "iops")
    return [(row["name"], *(row[measure] for measure in measures)) for row in answer["rows"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("by=user", [("jane", 3, 1310, 1057, 11), ("bob", 1, 1, 3, 0), ("eve", 0, 0, 2500, 0), ("1001", 1, 0, 1, 0)]),
        ("by=account", [("dark", 2, 1301, 57, 11), ("light", 1, 0, 2503, 0)]),
        ("by=account&fs=home", [("dark", 2, 1301, 57, 11), ("light", 1, 0, 2003, 0)]),
        ("by=account&cluster=vu&user=jane", [("dark", 2, 1300, 57, 11)]),
        ("by=account,user&account=light", [("light", 1, 0, 3, 0), ("light", 0, 0, 2500, 0)]),
        ("by=account&state=running", [("dark", 1, 300, 7, 4)]),
        ("by=account&state=final", [("light", 0, 0, 2500, 0), ("dark", 0, 1001, 0, 7)]),
        ("by=partition", [("gpu", 1, 300, 7, 4)]),
        ("by=process", [("dd", 1, 0, 1000, 0), ("dd", 1, 0, 1, 0)]),
    ],
)
def test_what_is_over_counts_for_its_user_and_account(
    query: str, expected: list[tuple[str, int, int, int, int]]
) -> None:
    assert finished(query) == expected


def test_who_has_nothing_but_what_is_over_has_a_page_too() -> None:
    page = client(replace(SOURCE, finished=FINISHED), site=SITE).get("/api/v1/users/eve").json()
    assert (page["accounts"], page["totals"]["write_bytes"], page["jobs"]) == (["light"], 2500, [])


def test_a_user_has_a_page() -> None:
    page = asked("users/jane")
    assert (page["user"], page["accounts"], page["totals"]["read_bytes"], len(page["jobs"])) == (
        "jane",
        ["dark"],
        300,
        3,
    )
    assert page["final"] == {"jobs": 0, "read_bytes": 0, "write_bytes": 0, "iops": 0}
    assert client(SOURCE, site=SITE).get("/api/v1/users/eve").status_code == 404


def test_what_cannot_be_asked_is_refused_with_what_can() -> None:
    answer = client(SOURCE, site=SITE).get("/api/v1/attribution?by=moon")
    assert answer.status_code == 400
    assert "account,user" in answer.json()["allowed"]
    assert client(SOURCE, site=SITE).get("/api/v1/jobs?cluster=moon").json()["allowed"] == [
        "-",
        "ambiguous",
        "vu",
        "xe",
    ]


def test_jobs_that_are_over_are_found_in_the_ledger(tmp_path: Path) -> None:
    source = replace(SOURCE, finished={Owner("vu", "dark", "jane"): {("home", "OST"): {READ: (3, 27)}}})
    here = client(source, site=SITE, records=written(tmp_path, record(7), record(9), record(11)))
    assert here.get("/api/v1/jobs/vu/7").json() == {"tick_seconds": TICK, **record(7)}
    assert here.get("/api/v1/jobs/vu/7?start=100").status_code == 404
    assert here.get("/api/v1/jobs/vu/11").json()["user"] == "jane"  # it is still there
    listed = here.get("/api/v1/jobs?state=final&user=jane&limit=2").json()
    assert (listed["matched"], [job["job"] for job in listed["jobs"]]) == (3, ["11", "9"])
    both = here.get("/api/v1/users/jane").json()
    assert (both["final"]["read_bytes"], both["totals"]["read_bytes"], both["totals"]["jobs"]) == (27, 327, 6)
    assert here.get("/api/v1/jobs?state=final&fs=home").status_code == 400


def test_a_ledger_that_cannot_be_read_now_is_said(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"rubbish" * 1000)
    answer = client(SOURCE, site=SITE, records=Records(tmp_path / "ledger.db")).get("/api/v1/jobs?state=final")
    assert answer.status_code == 503
    assert "ledger.db" in answer.json()["error"]


def test_a_job_whose_record_was_written_after_the_sweep_is_told_once(tmp_path: Path) -> None:
    finished = {Owner("vu", "dark", "jane"): {("home", "OST"): {READ: (1, 11)}}}
    source = replace(SOURCE, over=frozenset({JobName("vu", b"11")}), finished=finished)
    here = client(source, site=SITE, records=written(tmp_path, record(11)))
    page = here.get("/api/v1/users/jane").json()
    assert (page["totals"]["read_bytes"], page["totals"]["jobs"]) == (11, 3)
    assert here.get("/api/v1/jobs/vu/11").json()["filesystems"]["home"]["ost"]["read_bytes"] == 11
    assert "11" not in {job["job"] for job in here.get("/api/v1/jobs?cluster=vu").json()["jobs"]}
    assert here.get("/api/v1/filesystems").json()["filesystems"][0]["ost"]["read_bytes"] == 309


def test_more_records_than_usual_come_in_pieces(tmp_path: Path) -> None:
    here = client(SOURCE, site=SITE, records=written(tmp_path, *(record(number) for number in range(1, 452))))
    every = here.get("/api/v1/jobs?state=final&limit=0&offset=1&sort=read_bytes")
    assert "content-length" not in every.headers
    listed = every.json()
    assert (listed["matched"], listed["shown"]) == (451, 450)
    assert [job["job"] for job in listed["jobs"]] == [str(number) for number in range(450, 0, -1)]
    beyond = here.get("/api/v1/jobs?state=final&limit=0&offset=451").json()
    assert (beyond["matched"], beyond["shown"], beyond["jobs"]) == (451, 0, [])


def test_the_totals_of_a_job_that_shows_again_are_with_those_of_its_record() -> None:
    records = {JobName("xe", b"11"): [record(11)], JobName("vu", b"13"): [record(13)]}
    here = client(replace(SOURCE, before=records), site=SITE)
    shown = here.get("/api/v1/views/totals?sort=job").json()
    again = shown["xe/11"]["home"]["oss"]
    assert (again["read_bytes"], again["iops"], again["open"]) == (9 + 11, 2, 2)
    assert shown["13"]["home"]["oss"]["read_bytes"] == 0  # that record is of another start
