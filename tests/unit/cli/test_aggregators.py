"""Several aggregators answer as one: exactly as one that knew everything would."""

import random

import pytest

from harvest_cli.aggregators import Aggregators, NotKnownError, TooOldError, UnreachableError, WrongQuestionError
from harvest_cli.merging import merged_jobs
from harvest_cli.replies import Json, Reply, at
from harvest_cli.work import SORTS, sorted_jobs, weight
from unit.cli.telling import TICK, A, B, Telling, job, silent, work

NO_FILTER: dict[str, str | None] = {}


def many(seed: int) -> dict[str, list[Json]]:
    """Return jobs on two aggregators; many are on both."""
    rng = random.Random(seed)
    return {
        url: [
            job(
                str(number),
                fs=fs,
                ost=work(rng.randrange(100), rng.randrange(9), rng.randrange(9), rate=rng.randrange(9)),
            )
            for number in rng.sample(range(120), 80)
        ]
        for url, fs in ((A, "home"), (B, "data"))
    }


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(("limit", "offset"), [(1, 0), (10, 0), (10, 15), (0, 0), (500, 0)])
def test_a_page_of_two_aggregators_is_that_of_one_that_knew_all(sort: str, limit: int, offset: int) -> None:
    for seed in range(5):
        jobs = many(seed)
        whole = sorted_jobs(merged_jobs(jobs.values()), sort)
        page = whole[offset : offset + limit] if limit else whole

        answer = Telling(jobs).aggregators.jobs(sort=sort, limit=limit, offset=offset, filters=NO_FILTER)

        by_name = {one["job"]: one for one in whole}
        assert [by_name[one["job"]]["filesystems"] for one in answer["jobs"]] == [
            one["filesystems"] for one in answer["jobs"]
        ]
        if sort == "job":
            assert [one["job"] for one in answer["jobs"]] == [one["job"] for one in page]
        else:  # equals may be in any order
            assert [weight(one, sort) for one in answer["jobs"]] == [weight(one, sort) for one in page]


def test_a_job_that_leads_nowhere_but_in_the_sum_is_found() -> None:
    lead_a = [job(f"a{number}", ost=work(100)) for number in range(20)]
    lead_b = [job(f"b{number}", fs="data", ost=work(100)) for number in range(20)]
    telling = Telling({A: [*lead_a, job("both", ost=work(99))], B: [*lead_b, job("both", fs="data", ost=work(99))]})

    answer = telling.aggregators.jobs(sort="read_bytes", limit=1, filters=NO_FILTER)

    assert [one["job"] for one in answer["jobs"]] == ["both"]


def test_who_does_not_know_when_a_job_started_is_asked_without() -> None:
    telling = Telling(
        {
            A: [job("7", start=5, ost=work(100)), job("8", ost=work(1))],
            B: [*(job(f"x{number}", fs="data", ost=work(9)) for number in range(3)), job("7", fs="data", ost=work(1))],
        }
    )
    answer = telling.aggregators.jobs(sort="read_bytes", limit=1, filters=NO_FILTER)
    assert sorted(answer["jobs"][0]["filesystems"]) == ["data", "home"]


def test_one_aggregator_is_asked_for_the_page_itself() -> None:
    telling = Telling({A: [job("1"), job("2")]})
    answer = telling.aggregators.jobs(sort="job", limit=1, offset=1, filters={"fs": "home", "user": None})
    assert telling.asked == [(A, "/api/v1/jobs?fs=home&sort=job&limit=1&offset=1")]
    assert (answer["matched"], answer["jobs"][0]["job"]) == (2, "2")


def test_on_a_server_every_job_is_asked_for_as_it_cannot_be_filled_in() -> None:
    telling = Telling(many(1))
    telling.aggregators.jobs(sort="rates.iops", limit=5, filters={"server": "mds1"})
    assert telling.asked == [(url, "/api/v1/jobs?server=mds1&sort=rates.iops&limit=0") for url in (A, B)]


def test_one_that_does_not_answer_is_named_and_the_rest_is_shown() -> None:
    path = at("jobs", sort="job", limit=5)
    aggregators = Telling({A: [job("1")]}, {(B, path): silent(B, path)}).aggregators
    assert len(aggregators.jobs(sort="job", limit=5, filters=NO_FILTER)["jobs"]) == 1
    assert aggregators.unanswered() == [{"url": B, "error": "nobody listens there"}]


def test_if_nobody_answers_each_is_told_of() -> None:
    path = at("filesystems")
    other = {(A, path): silent(A, path), (B, path): Reply(url=B, path=path, status=401, content={"error": "token"})}
    with pytest.raises(UnreachableError) as caught:
        Telling({}, other).aggregators.filesystems()
    assert f"{A}: nobody listens there" in str(caught.value)
    assert "--token-file or HARVEST_TOKEN_FILE" in str(caught.value)


def test_a_file_system_that_only_one_knows_is_no_error() -> None:
    path = at("clients", fs="home")
    told = {"tick_seconds": TICK, "clients": []}
    wrong = Reply(url=B, path=path, status=400, content={"error": "`fs` must be a file system of the site: data"})
    aggregators = Telling({}, {(A, path): told, (B, path): wrong}).aggregators
    assert aggregators.clients(fs="home")["clients"] == []
    assert aggregators.troubles == {}
    with pytest.raises(WrongQuestionError, match="`fs` must be a file system of the site: data"):
        Aggregators((B,), Telling({}, {(B, path): wrong})).clients(fs="home")


def test_a_job_is_looked_for_in_every_cluster_that_anybody_knows() -> None:
    clients = {"tick_seconds": TICK, "clients": [{"cluster": "xe"}]}
    telling = Telling(
        {A: [job("1", "vu"), job("7", "vu", ost=work(1))], B: [job("7", "xe"), job("7", "vu", fs="data", ost=work(2))]},
        {(A, at("clients")): clients, (B, at("clients")): clients},
    )
    found = telling.aggregators.job("7", cluster=None, start=None)
    assert sorted((one["cluster"], len(one["filesystems"])) for one in found) == [("vu", 2), ("xe", 1)]
    assert telling.aggregators.job("8", cluster="vu", start=None) == []


def test_ids_and_clusters_are_percent_encoded_byte_by_byte() -> None:
    assert at("jobs", "-", "a/b.\udcff é", start=5) == "/api/v1/jobs/-/a%2Fb%2E%FF%20%C3%A9?start=5"


def test_an_old_aggregator_is_told_apart_from_one_that_does_not_know() -> None:
    path = at("users", "ada")
    old = Reply(url=A, path=path, status=404, content={"error": "Not Found"})
    unknown = Reply(url=B, path=path, status=404, content={"error": "no user 'ada' is known"})
    with pytest.raises(TooOldError, match=r"older than this command \(there is no /api/v1/users/ada\): update"):
        Telling({}, {(A, path): old}).aggregators.user("ada")
    aggregators = Telling({}, {(A, path): old, (B, path): unknown}).aggregators
    with pytest.raises(NotKnownError, match="no user 'ada' is known"):
        aggregators.user("ada")
    assert list(aggregators.troubles) == [A]


def test_what_an_old_aggregator_does_not_add_up_is_added_up_of_jobs() -> None:
    jobs = [
        job("1", user="ada", account="p", ost=work(5, rate=1)),
        job("2", user="ada", account="p", ost=work(6, rate=2)),
        job("cp.7", ost=work(7, rate=4)),
    ]
    users = Telling({A: jobs}).aggregators.attribution("user", NO_FILTER)["rows"]
    assert [(row["name"], row["jobs"], row["read_bytes"], row["rates"]["read_bytes"]) for row in users] == [
        (None, 1, 7, 4),
        ("ada", 2, 11, 3),
    ]
    processes = Telling({A: jobs}).aggregators.attribution("process", NO_FILTER)["rows"]
    assert [row["name"] for row in processes] == ["cp"]


def test_if_not_all_jobs_can_be_added_up_that_is_said() -> None:
    aggregators = Telling({A: [job(str(number)) for number in range(1001)]}).aggregators
    aggregators.attribution("user", NO_FILTER)
    assert aggregators.notes == ["of the 1000 busiest of 1001 jobs: the aggregator is too old to add up"]


def test_servers_and_targets_say_who_speaks_of_them() -> None:
    path = at("servers")
    told = {"tick_seconds": TICK, "servers": [{"name": "oss1"}]}
    listed = Telling({}, {(A, path): told, (B, path): told}).aggregators.listed("servers")
    assert [one["aggregator"] for one in listed["servers"]] == [A, B]


def test_who_did_not_answer_is_not_waited_for_again() -> None:
    path = at("clients")
    telling = Telling({A: [job("7")]}, {(B, path): silent(B, path), (A, path): {"tick_seconds": TICK, "clients": []}})
    aggregators = telling.aggregators
    aggregators.clients()
    telling.asked.clear()
    aggregators.jobs(sort="job", limit=5, filters=NO_FILTER)
    assert {url for url, _ in telling.asked} == {A}
    assert list(aggregators.troubles) == [B]
