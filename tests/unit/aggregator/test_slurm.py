"""What the clusters' Slurm says, and what is asked of it."""

import pytest

from harvest.v1.stream_pb2 import JobTable, SlurmHealth, SlurmJob, UserName
from harvest_aggregator import slurm
from harvest_aggregator.refusals import NonsenseError
from harvest_aggregator.slurm import Clusters, slurm_warnings
from harvest_core.jobs.identity import ClusterIds, Identities
from unit.aggregator.publishing import TICK

VU = Identities([ClusterIds(cluster="vu", filesystems=frozenset({"home"}))])
WELL = SlurmHealth(answered_seconds=TICK, queries=3)


def job(number: int, state: str = "RUNNING", **more: int | str) -> SlurmJob:
    return SlurmJob(id=number, state=state, **more)  # type: ignore[arg-type]


def whole(*jobs: SlurmJob) -> JobTable:
    return JobTable(full=True, last=True, jobs=jobs, health=WELL)


def change(*jobs: SlurmJob, unknown: tuple[int, ...] = (), users: tuple[UserName, ...] = ()) -> JobTable:
    return JobTable(last=True, jobs=jobs, unknown_jobs=unknown, users=users, health=WELL)


def met(clusters: Clusters, *jobs: bytes, now_seconds: float = TICK) -> None:
    for one in jobs:
        clusters.meet(VU.of("home", one))
    clusters.ask(now_seconds)


def followed() -> Clusters:
    return Clusters({"vu": "slurm1"})


def test_a_whole_table_comes_in_parts_and_counts_when_it_is_whole() -> None:
    clusters = followed()
    clusters.take("vu", JobTable(full=True, jobs=[job(1)]))
    assert not clusters.facts()["vu"].jobs
    clusters.take("vu", JobTable(full=True, last=True, jobs=[job(2)], health=WELL))
    assert set(clusters.facts()["vu"].jobs) == {1, 2}
    assert clusters.facts()["vu"].health == WELL


def test_what_was_told_before_stays_as_it_was() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1)))
    before = clusters.facts()["vu"]
    clusters.take("vu", change(job(1, "COMPLETED"), job(2)))
    assert before.jobs[1].state == "RUNNING"
    assert {number: one.state for number, one in clusters.facts()["vu"].jobs.items()} == {1: "COMPLETED", 2: "RUNNING"}


def test_a_job_on_lustre_that_slurm_did_not_name_is_asked_for_once() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1)))
    met(clusters, b"1", b"2")
    assert list(clusters.questions.pop("slurm1").jobs) == [2]
    met(clusters, b"1", b"2", now_seconds=TICK + 20)
    assert not clusters.questions
    clusters.take("vu", change(unknown=(2,)))
    met(clusters, b"1", b"2", b"3", now_seconds=TICK + 40)
    assert list(clusters.questions.pop("slurm1").jobs) == [3]
    assert clusters.facts()["vu"].unknown == {2}


def test_nothing_is_asked_before_slurm_has_answered_at_all() -> None:
    clusters = followed()
    met(clusters, b"1")
    assert not clusters.questions
    clusters.take("vu", JobTable(last=True, full=True, health=SlurmHealth(problem="squeue: Unable to contact")))
    assert not clusters.questions
    clusters.take("vu", whole())
    assert list(clusters.questions["slurm1"].jobs) == [1]


def test_a_running_job_that_is_missing_in_another_whole_table_is_asked_for_again() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1), job(2), job(3, "COMPLETED", end_seconds=TICK)))
    met(clusters, b"1", b"3")
    clusters.take("vu", whole())
    assert list(clusters.questions.pop("slurm1").jobs) == [1]
    assert clusters.facts()["vu"].jobs[1].state == "RUNNING"  # the last known
    clusters.take("vu", change(job(1, "FAILED", end_seconds=TICK)))
    assert clusters.facts()["vu"].jobs[1].state == "FAILED"


def test_users_of_processes_are_asked_for() -> None:
    clusters = followed()
    clusters.take("vu", whole())
    met(clusters, b"cp.1000", b"mv.1000")
    assert list(clusters.questions.pop("slurm1").uids) == [1000]
    clusters.take("vu", change(users=(UserName(uid=1000, name="jane", group="physics"),)))
    assert clusters.facts()["vu"].users[1000].name == "jane"


def test_jobs_that_never_did_anything_are_forgotten_an_hour_after_their_end() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1, "COMPLETED", end_seconds=TICK), job(2, "COMPLETED", end_seconds=TICK), job(3)))
    met(clusters, b"1", now_seconds=TICK + 3600)
    assert set(clusters.facts()["vu"].jobs) == {1, 2, 3}
    met(clusters, b"1", now_seconds=TICK + 3700)
    assert set(clusters.facts()["vu"].jobs) == {1, 3}


def test_the_later_of_two_runs_counts() -> None:
    clusters = followed()
    again = job(1, start_seconds=TICK + 100, submit_seconds=TICK, restarts=1)
    clusters.take("vu", whole(again, job(1, "CANCELLED", start_seconds=TICK, submit_seconds=TICK)))
    assert clusters.facts()["vu"].jobs[1] == again


def test_a_changed_site_keeps_what_is_known_of_clusters_that_stay() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1)))
    clusters.change({"vu": "slurm1", "xe": "slurm2"})
    assert set(clusters.facts()["vu"].jobs) == {1}
    clusters.change({"vu": "slurm9"})
    assert not clusters.facts()["vu"].jobs
    clusters.take("xe", whole(job(7)))  # no longer followed
    assert set(clusters.facts()) == {"vu"}


def test_trouble_is_said_for_a_person() -> None:
    clusters = Clusters({"vu": "slurm1", "xe": "slurm2", "dcc": "slurm3", "nci": "slurm4"})
    clusters.take("vu", whole())
    clusters.take("nci", JobTable(last=True, health=SlurmHealth(answered_seconds=TICK)))
    clusters.take("xe", JobTable(last=True, health=SlurmHealth(answered_seconds=TICK, problem="squeue hung")))
    assert slurm_warnings(clusters.facts(), {"slurm1", "slurm2", "slurm3"}, TICK + 90) == [
        "Slurm of cluster xe (slurm2, last answered 90 s ago): squeue hung",
        "Slurm of cluster dcc: its agent slurm3 has not said anything yet",
        "Slurm of cluster nci (slurm4, last answered 90 s ago): its agent slurm4 is not connected",
    ]


def test_of_one_run_the_last_word_counts_though_accounting_knows_of_no_restarts() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1, start_seconds=TICK, submit_seconds=TICK - 9, restarts=1)))
    clusters.take("vu", change(job(1, "COMPLETED", start_seconds=TICK, submit_seconds=TICK - 9, end_seconds=TICK + 5)))
    assert clusters.facts()["vu"].jobs[1].state == "COMPLETED"


def test_a_job_that_waits_for_its_next_run_is_later_than_what_accounting_says_of_its_first() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1, "PENDING", submit_seconds=TICK, restarts=1)))
    clusters.take("vu", change(job(1, "NODE_FAIL", start_seconds=TICK + 1, submit_seconds=TICK, end_seconds=TICK + 5)))
    assert clusters.facts()["vu"].jobs[1].state == "PENDING"


def test_a_job_that_ran_and_nobody_knows_any_more_runs_no_longer_and_keeps_its_owner() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1, user="jane")))
    met(clusters, b"1")
    clusters.take("vu", change(unknown=(1,)))
    known = clusters.facts()["vu"].jobs[1]
    assert (known.user, known.state) == ("jane", "")
    assert not clusters.questions


def test_a_job_that_never_did_anything_and_is_not_there_any_more_is_forgotten() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1), job(2)))
    met(clusters, b"1")
    clusters.take("vu", whole())
    met(clusters, now_seconds=TICK + 100)
    assert set(clusters.facts()["vu"].jobs) == {1}


def test_half_a_table_of_a_stream_that_ended_is_no_part_of_the_next() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1), job(2)))
    met(clusters, b"1", b"2")
    clusters.take("vu", JobTable(full=True, jobs=[job(1)]))
    clusters.begin("slurm1")
    clusters.take("vu", whole(job(2)))
    assert list(clusters.questions.pop("slurm1").jobs) == [1]


def test_a_table_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "JOBS_MOST", 3)
    clusters = followed()
    clusters.take("vu", JobTable(full=True, jobs=[job(1), job(2)]))
    with pytest.raises(NonsenseError, match="more than 3"):
        clusters.take("vu", JobTable(full=True, jobs=[job(3), job(4)]))
    clusters.begin("slurm1")
    clusters.take("vu", whole(job(1), job(2), job(3)))
    with pytest.raises(NonsenseError):
        clusters.take("vu", change(job(4)))


def test_only_what_is_new_of_jobs_on_lustre_and_of_users_is_for_the_ledger() -> None:
    clusters = followed()
    clusters.take("vu", whole(job(1), job(2)))
    assert clusters.unsaved() == []
    met(clusters, b"1")
    clusters.take("vu", change(users=(UserName(uid=7, name="jane"),)))
    facts = clusters.unsaved()
    assert sorted((fact.kind, fact.number) for fact in facts) == [("job", 1), ("user", 7)]
    clusters.saved(facts)
    clusters.take("vu", whole(job(1), job(2)))
    met(clusters, b"1")
    assert clusters.unsaved() == []
    clusters.take("vu", change(job(1, "COMPLETED", end_seconds=TICK), job(2, "FAILED")))
    assert [SlurmJob.FromString(fact.payload).state for fact in clusters.unsaved()] == ["COMPLETED"]
    clusters.forget_job("vu", 1)
    assert clusters.unsaved() == []


def test_what_was_known_holds_until_slurm_says_something_else() -> None:
    before = followed()
    before.take("vu", whole(job(1, user="jane"), job(2, user="jane"), job(3, user="jane")))
    met(before, b"1", b"2", b"3")
    facts = before.unsaved()

    clusters = followed()
    clusters.take("vu", change(job(3, "FAILED", user="jane")))
    clusters.restore([*facts, *(fact._replace(cluster="gone") for fact in facts)])
    met(clusters, b"1", b"2", b"3")
    known = clusters.facts()["vu"].jobs
    assert {number: (one.user, one.state) for number, one in known.items()} == {
        1: ("jane", "RUNNING"),
        2: ("jane", "RUNNING"),
        3: ("jane", "FAILED"),
    }
    assert [fact.number for fact in clusters.unsaved()] == [3]
    clusters.take("vu", whole(job(1, "COMPLETED", user="jane")))
    clusters.ask(TICK)
    assert clusters.facts()["vu"].jobs[1].state == "COMPLETED"
    assert list(clusters.questions.pop("slurm1").jobs) == [2]  # it ran, and nobody said what became of it
