"""What /api/v1 answers."""

import json
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvest_aggregator.published import InDoubt, Published
from harvest_core.accounting.mounts import NEVER
from unit.aggregator.publishing import BUSY, CREATE, PLACED, READ, TICK, WRITE, client, published


def names(query: str) -> list[str]:
    answer = client().get(f"/api/v1/jobs{query}")
    assert answer.status_code == 200
    return [job["job"] for job in answer.json()["jobs"]]


def test_a_job_is_shown_with_all_that_it_did_and_does() -> None:
    answer = client().get("/api/v1/jobs/-/11").json()
    assert answer == {
        "tick_seconds": TICK,
        "job": "11",
        "cluster": "-",
        "start": None,
        "name": None,
        "state": "running",
        "slurm_state": None,
        "user": None,
        "group": None,
        "account": None,
        "partition": None,
        "process": None,
        "array": None,
        "submit_seconds": None,
        "start_seconds": None,
        "end_seconds": None,
        "nodes": None,
        "exit_code": None,
        "complete": True,
        "late": False,
        "ambiguous_resets": 0,
        "ambiguous_bytes": 0,
        "ambiguous_samples": 0,
        "last_tick_seconds": TICK,
        "filesystems": {
            "home": {
                "ost": {
                    "read_bytes": 2000,
                    "write_bytes": 500,
                    "iops": 7,
                    "rates": {"read_bytes": 100.0, "write_bytes": 0.0, "iops": 0.5},
                    "ops": {
                        "read_bytes": {"samples": 2, "sum": 2000},
                        "write_bytes": {"samples": 1, "sum": 500},
                        "create": {"samples": 7, "sum": 0},
                    },
                },
                "mdt": {
                    "read_bytes": 30,
                    "write_bytes": 0,
                    "iops": 40,
                    "rates": {"read_bytes": 1.0, "write_bytes": 0.0, "iops": 2.0},
                    "ops": {"open": {"samples": 40, "sum": 800}, "read_bytes": {"samples": 3, "sum": 30}},
                },
            },
            "scratch": {
                "ost": {
                    "read_bytes": 0,
                    "write_bytes": 600,
                    "iops": 1,
                    "rates": {"read_bytes": 0.0, "write_bytes": 50.0, "iops": 0.25},
                    "ops": {"write_bytes": {"samples": 6, "sum": 600}, "create": {"samples": 1, "sum": 0}},
                },
                "mdt": {
                    "read_bytes": 0,
                    "write_bytes": 0,
                    "iops": 0,
                    "rates": {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 0.0},
                    "ops": {},
                },
            },
        },
    }


def test_a_list_of_jobs_says_of_which_sweep_it_is_and_how_many_there_are() -> None:
    answer = client().get("/api/v1/jobs?limit=2").json()
    assert (answer["tick_seconds"], answer["matched"], answer["shown"]) == (TICK, 3, 2)
    alone = client().get("/api/v1/jobs/-/11").json()
    assert answer["jobs"][1] == {name: value for name, value in alone.items() if name != "tick_seconds"}


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("job", ["11", "22", "33"]),
        ("read_bytes", ["22", "11", "33"]),
        ("write_bytes", ["33", "11", "22"]),
        ("bytes", ["22", "33", "11"]),
        ("iops", ["11", "22", "33"]),
        ("mdt_iops", ["11", "22", "33"]),
        ("rates.read_bytes", ["11", "22", "33"]),
        ("rates.write_bytes", ["33", "11", "22"]),
        ("rates.bytes", ["33", "11", "22"]),
        ("rates.iops", ["11", "22", "33"]),
        ("rates.mdt_iops", ["11", "22", "33"]),
    ],
)
def test_jobs_are_sorted_by_what_is_asked_for(sort: str, expected: list[str]) -> None:
    assert names(f"?sort={sort}") == expected
    assert names(f"?sort={sort}&limit=1") == expected[:1]


def test_the_busiest_come_first_unless_told_otherwise() -> None:
    assert names("") == names("?sort=rates.bytes")


def test_a_file_system_restricts_jobs_order_and_what_is_shown() -> None:
    assert names("?fs=scratch&sort=bytes") == ["33", "11"]
    shown = client().get("/api/v1/jobs?fs=scratch").json()["jobs"]
    assert all(list(job["filesystems"]) == ["scratch"] for job in shown)


@pytest.mark.parametrize("query", ["?user=jane", "?account=physics", "?state=ended", "?cluster=ambiguous"])
def test_where_nobody_follows_jobs_nothing_is_known_of_them(query: str) -> None:
    assert names(query) == []


def test_the_unknown_cluster_has_all_jobs() -> None:
    assert names("?cluster=-") == names("")


@pytest.mark.parametrize(
    ("path", "status", "parameter", "said"),
    [
        ("jobs?limit=-1", 400, "limit", "whole number"),
        ("jobs?limit=many", 400, "limit", "whole number"),
        ("jobs?limit=1&limit=2", 400, "limit", "once"),
        ("jobs?sort=size", 400, "sort", "rates.read_bytes"),
        ("jobs?fs=hime", 400, "fs", "home, scratch"),
        ("jobs?colour=red", 400, "colour", "`state`"),
        ("jobs/-/11?start=noon", 400, "start", "whole number"),
        ("jobs/-/11?sort=job", 400, "sort", "`start`"),
        ("views/totals?user=jane", 400, "user", "`fs`"),
        ("filesystems?fs=home", 400, "fs", "none"),
        ("jobs?target=home-OST0009", 400, "target", "must be a target that was seen: home-MDT0000, home-OST0000"),
        ("jobs?server=oss9", 400, "server", "must be a server of the site: mds1, oss1, oss2, sc1, sc2"),
        ("views/rates?server=oss9", 400, "server", "must be a server of the site"),
        ("views/filesystems?server=oss1", 400, "server", "none"),
    ],
)
def test_what_cannot_be_answered_is_told_with_what_can(path: str, status: int, parameter: str, said: str) -> None:
    answer = client(PLACED).get(f"/api/v1/{path}")
    assert answer.status_code == status
    assert answer.json()["parameter"] == parameter
    assert said in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["jobs/-/404", "jobs/vu/11", "jobs/11", "jobs/-/1/1", "jobs/-/11?start=5", "jobs/", "targets/", ""]
)
def test_what_is_not_there_is_not_found(path: str) -> None:
    answer = client().get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]


def test_nothing_can_be_changed() -> None:
    answer = client().post("/api/v1/jobs")
    assert answer.status_code == 405
    assert answer.json() == {"error": "Method Not Allowed"}


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=31))
def test_every_id_can_be_asked_for_and_comes_back(job: bytes) -> None:
    asked = client(published({("home", "OST"): {b"1": {READ: (1, 1)}, job: {READ: (2, 5)}}}))
    answer = asked.get(f"/api/v1/jobs/-/{quote_from_bytes(job, safe='').replace('.', '%2E')}")
    assert answer.status_code == 200
    assert answer.json()["job"].encode("utf-8", "surrogateescape") == job
    assert answer.json()["filesystems"]["home"]["ost"]["read_bytes"] == 5
    assert answer.content.isascii()


def test_what_is_doubtful_about_a_job_is_said() -> None:
    source = published(
        {("home", "OST"): {b"1": {READ: (1, 1)}}, ("scratch", "OST"): {b"1": {READ: (1, 1)}, b"2": {READ: (1, 1)}}},
        flagged={("home", b"1"): InDoubt(2, 700, 5), ("scratch", b"1"): InDoubt(1, 40, 6)},
        incomplete=frozenset({("scratch", b"2")}),
    )
    first, second = (client(source).get(f"/api/v1/jobs/-/{job}").json() for job in "12")
    said = ("ambiguous_resets", "ambiguous_bytes", "ambiguous_samples", "complete")
    assert [first[name] for name in said] == [3, 740, 11, True]
    assert [second[name] for name in said] == [0, 0, 0, False]


def test_an_operation_counted_in_two_units_is_one() -> None:
    source = published(
        {
            ("home", "OST"): {
                b"1": {("read", "bytes"): (4, 400), READ: (1, 50), ("read", "usecs"): (9, 90), CREATE: (2, 2)},
                b"2": {("create", "usecs"): (3, 300), CREATE: (2, 2)},
            }
        }
    )
    first, second = (
        client(source).get(f"/api/v1/jobs/-/{job}").json()["filesystems"]["home"]["ost"]["ops"] for job in "12"
    )
    assert first["read_bytes"] == {"samples": 5, "sum": 450}
    assert first["read"] == {"samples": 9, "sum": 90}
    assert second == {"create": {"samples": 5, "sum": 300}}


# --- who does something there, now? ---


def there(query: str) -> dict[str, dict[str, object]]:
    answer = client(PLACED).get(f"/api/v1/jobs?{query}").json()
    assert answer["matched"] == answer["shown"] == len(answer["jobs"])
    return {job["job"]: job["here"] for job in answer["jobs"]}


def test_a_target_shows_who_did_something_there_at_the_tick_and_how_much() -> None:
    assert there("target=home-OST0000") == {
        "11": {"read_bytes": 100.0, "write_bytes": 0.0, "iops": 0.5, "ops": {"read_bytes": 0.1, "create": 0.5}}
    }
    assert there("target=scr-OST0001") == {
        "33": {"read_bytes": 0.0, "write_bytes": 250.0, "iops": 0.0, "ops": {"write_bytes": 0.25}},
        "11": {"read_bytes": 0.0, "write_bytes": 50.0, "iops": 0.25, "ops": {"write_bytes": 0.5, "create": 0.25}},
    }


def test_a_server_shows_all_its_targets_together() -> None:
    assert there("server=sc1") == {
        "33": {"read_bytes": 0.0, "write_bytes": 1000.0, "iops": 0.0, "ops": {"write_bytes": 1.0}},
        "11": {"read_bytes": 0.0, "write_bytes": 50.0, "iops": 0.25, "ops": {"write_bytes": 0.5, "create": 0.25}},
    }
    assert there("server=oss1") == {
        "11": {
            "read_bytes": 101.0,
            "write_bytes": 0.0,
            "iops": 2.5,
            "ops": {"read_bytes": 0.1, "create": 0.5, "open": 2.0},
        },
        "22": {"read_bytes": 0.0, "write_bytes": 0.0, "iops": 4.0, "ops": {"open": 4.0}},
    }


def test_those_who_do_most_there_come_first() -> None:
    assert list(there("target=home-MDT0000")) == ["22", "11"]  # by operations: an MDT has hardly any bytes
    assert list(there("target=home-MDT0000&sort=rates.bytes")) == ["11", "22"]
    assert list(there("server=oss1")) == ["11", "22"]
    assert list(there("server=oss1&sort=rates.mdt_iops")) == ["22", "11"]
    assert list(there("target=scr-OST0001&sort=job")) == ["11", "33"]
    assert list(there("target=scr-OST0001&sort=bytes")) == ["33", "11"]
    assert list(there("target=scr-OST0001&sort=iops")) == ["11", "33"]


def test_what_a_job_does_there_stands_beside_all_that_it_did() -> None:
    (shown,) = client(PLACED).get("/api/v1/jobs?target=home-OST0000").json()["jobs"]
    alone = client(PLACED).get("/api/v1/jobs/-/11").json()
    del alone["tick_seconds"], shown["here"]
    assert shown == alone
    (only,) = client(PLACED).get("/api/v1/jobs?target=home-OST0000&fs=home").json()["jobs"]
    assert list(only["filesystems"]) == ["home"]


@pytest.mark.parametrize(
    "query",
    ["server=oss2", "server=sc1&fs=home", "server=oss1&target=scr-OST0001", "target=home-OST0000&user=jane"],
)
def test_where_nobody_does_anything_there_is_nobody(query: str) -> None:
    assert there(query) == {}


def test_a_job_says_when_it_last_did_anything() -> None:
    last = {job["job"]: job["last_tick_seconds"] for job in client().get("/api/v1/jobs").json()["jobs"]}
    assert last == {"33": TICK, "11": TICK, "22": TICK - 60}
    at_home = client().get("/api/v1/jobs?fs=home&sort=job").json()["jobs"]
    assert [job["last_tick_seconds"] for job in at_home] == [TICK, TICK - 60]


def test_nobody_may_know_when_a_job_last_did_anything() -> None:
    source = published({("home", "OST"): {b"1": {READ: (1, 1)}}}, last_work=NEVER)
    assert client(source).get("/api/v1/jobs/-/1").json()["last_tick_seconds"] is None
    assert client(source).get("/api/v1/views/totals").json()["1"]["home"]["oss"]["snapshot_time"] is None


def test_before_the_first_sweep_there_is_nothing_and_no_error() -> None:
    asked = client(Published())
    assert asked.get("/api/v1/jobs").json() == {"tick_seconds": None, "matched": 0, "shown": 0, "jobs": []}
    assert asked.get("/api/v1/jobs/-/11").status_code == 404
    assert asked.get("/api/v1/views/totals").json() == {}
    assert asked.get("/api/v1/targets").json() == {"tick_seconds": None, "targets": []}
    assert [one["jobs"] for one in asked.get("/api/v1/filesystems").json()["filesystems"]] == [0, 0]


def test_all_jobs_come_in_pieces_that_are_one_answer() -> None:
    many = published({("home", "OST"): {b"%d" % job: {WRITE: (1, job)} for job in range(2500)}})
    answer = client(many).get("/api/v1/jobs?limit=0&sort=bytes").json()
    assert [job["job"] for job in answer["jobs"]] == [str(job) for job in reversed(range(2500))]
    view = client(many).get("/api/v1/views/totals?limit=0").json()
    assert len(view) == 2500
    assert len(client(many).get("/api/v1/jobs").json()["jobs"]) == 200


def test_file_systems_are_shown_with_what_all_jobs_did() -> None:
    answer = client().get("/api/v1/filesystems").json()
    assert answer["tick_seconds"] == TICK
    home, scratch = answer["filesystems"]
    assert home == {
        "name": "home",
        "fsname": "home",
        "alias": "home",
        "servers": ["mds1", "oss1", "oss2"],
        "targets": 0,
        "jobs": 2,
        "ost": {
            "read_bytes": 11000,
            "write_bytes": 500,
            "iops": 7,
            "rates": {"read_bytes": 100.0, "write_bytes": 0.0, "iops": 0.5},
        },
        "mdt": {
            "read_bytes": 30,
            "write_bytes": 0,
            "iops": 40,
            "rates": {"read_bytes": 1.0, "write_bytes": 0.0, "iops": 2.0},
        },
    }
    assert (scratch["fsname"], scratch["jobs"], scratch["ost"]["write_bytes"]) == ("scr", 2, 5600)


def test_answers_are_json_whatever_was_asked() -> None:
    for path in ("/", "/api/v1/jobs", "/api/v1/jobs?x=1", "/api/v1/views/none"):
        answer = client(BUSY).get(path)
        assert answer.headers["content-type"] == "application/json"
        json.loads(answer.text)
