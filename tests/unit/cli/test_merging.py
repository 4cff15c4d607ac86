from harvest_cli.merging import (
    added,
    merged_clients,
    merged_filesystems,
    merged_jobs,
    merged_rows,
    merged_users,
    tick,
)
from harvest_cli.replies import Json
from harvest_cli.work import amount, process, sorted_jobs, weight
from unit.cli.telling import job, work


def test_numbers_add_wherever_they_stand_and_nothing_is_not_zero() -> None:
    assert added({"a": 1, "b": {"c": None, "d": 2}}, {"b": {"c": 3, "d": 4}, "e": None}) == {
        "a": 1,
        "b": {"c": 3, "d": 6},
        "e": None,
    }


def test_a_job_on_two_aggregators_is_one_with_both_totals() -> None:
    here = job(
        "7", "vu", ost=work(100, iops=5, open=5), user="ada", state="running", ambiguous_bytes=3, last_tick_seconds=10
    )
    there = job("7", "vu", fs="data", ost=work(20), complete=False, ambiguous_bytes=4, last_tick_seconds=20)

    (one,) = merged_jobs([[here], [there]])

    assert sorted(one["filesystems"]) == ["data", "home"]
    assert (amount(one, "read_bytes"), one["user"], one["state"]) == (120, "ada", "running")
    assert (one["complete"], one["ambiguous_bytes"], one["last_tick_seconds"]) == (False, 7, 20)


def test_the_same_file_system_on_two_aggregators_adds_up_operation_by_operation() -> None:
    (one,) = merged_jobs([[job("7", ost=work(1, open=2, close=1))], [job("7", ost=work(2, open=3))]])
    assert one["filesystems"]["home"]["ost"]["ops"]["open"]["samples"] == 5
    assert one["filesystems"]["home"]["ost"]["ops"]["close"]["samples"] == 1


def test_what_merging_gives_does_not_depend_on_who_is_asked_first() -> None:
    one = job("7", "vu", ost=work(1, rate=2), user="ada", state="quiet", start=5)
    other = job("7", "vu", ost=work(2), account="phys", state="running", last_tick_seconds=None)
    assert merged_jobs([[one], [other]]) == merged_jobs([[other], [one]])


def test_a_job_is_as_alive_as_whoever_sees_it_most_alive() -> None:
    (one,) = merged_jobs([[job("7", state="final")], [job("7", state=None)], [job("7", state="quiet")]])
    assert one["state"] == "quiet"


def test_one_number_of_two_clusters_or_of_two_times_is_two_jobs() -> None:
    jobs = [job("7", "vu"), job("7", "xe"), job("7", "vu", start=1), job("7", "vu", start=2)]
    assert len(merged_jobs([jobs])) == 3  # who does not know the start means the last one
    (last,) = merged_jobs([[job("7", ost=work(1))], [job("7", ost=work(2), start=9)]])
    assert (last["start"], amount(last, "read_bytes")) == (9, 3)


def test_jobs_are_sorted_as_the_api_does() -> None:
    jobs = [job("b", ost=work(1, 9, rate=5)), job("a", ost=work(3, 3)), job("c", ost=work(2, 3, rate=5))]
    assert [one["job"] for one in sorted_jobs(jobs, "job")] == ["a", "b", "c"]
    assert [one["job"] for one in sorted_jobs(jobs, "bytes")] == ["b", "a", "c"]
    assert [one["job"] for one in sorted_jobs(jobs, "rates.read_bytes")] == ["b", "c", "a"]


def test_on_places_that_were_asked_for_rates_are_those_there() -> None:
    placed = job("7", ost=work(5, rate=100), here={"read_bytes": 1.0, "write_bytes": 2.0, "iops": 3.0, "ops": {}})
    assert (weight(placed, "rates.bytes"), weight(placed, "read_bytes")) == (3.0, 5)


def test_nodes_are_merged_by_nid() -> None:
    known: Json = {
        "nid": "n@o2ib",
        "host": "vu1",
        "cluster": "vu",
        "live": False,
        "filesystems": {"a": {"read_bytes": 1.0}},
    }
    other: Json = {
        "nid": "n@o2ib",
        "host": None,
        "cluster": "-",
        "live": True,
        "filesystems": {"b": {"read_bytes": None}},
    }
    for lists in ([[known], [other]], [[other], [known]]):
        (one,) = merged_clients(lists)
        assert (one["host"], one["cluster"], one["live"]) == ("vu1", "vu", True)
        assert one["filesystems"] == {"a": {"read_bytes": 1.0}, "b": {"read_bytes": None}}


def test_file_systems_are_merged_by_name() -> None:
    one = {"name": "home", "fsname": None, "servers": ["b"], "targets": 1, "jobs": 5, "ost": work(1), "mdt": work(2)}
    other = {"name": "home", "fsname": "h", "servers": ["a"], "targets": 2, "jobs": 7, "ost": work(3), "mdt": work(4)}
    (merged,) = merged_filesystems([[one], [other]])
    assert (merged["fsname"], merged["servers"], merged["targets"], merged["jobs"]) == ("h", ["a", "b"], 3, 7)
    assert (merged["ost"]["read_bytes"], merged["mdt"]["read_bytes"]) == (4, 6)


def test_users_of_several_aggregators_are_one() -> None:
    one = {
        "user": "ada",
        "accounts": ["b"],
        "totals": {"read_bytes": 1},
        "rates": {"read_bytes": 1.0},
        "jobs": [job("1")],
    }
    other = {
        "user": "ada",
        "accounts": ["a", "b"],
        "totals": {"read_bytes": 2},
        "rates": {},
        "jobs": [job("1"), job("2")],
    }
    merged = merged_users([one, other])
    assert (merged["accounts"], merged["totals"]["read_bytes"], len(merged["jobs"])) == (["a", "b"], 3, 2)


def test_rows_are_merged_by_name_and_processes_also_by_whose_they_are() -> None:
    rows = [
        {"name": "cp", "user": "ada", "jobs": 2, "read_bytes": 1, "rates": {"iops": 1.0}},
        {"name": "cp", "user": "bob", "jobs": 3, "read_bytes": 2, "rates": {"iops": 2.0}},
    ]
    (one,) = merged_rows([[rows[0]], [rows[1]]], "user")
    assert (one["read_bytes"], one["rates"]["iops"], one["jobs"]) == (3, 3.0, 3)
    assert len(merged_rows([[rows[0]], [rows[1]]], "process")) == 2


def test_an_answer_is_as_old_as_its_oldest_part() -> None:
    assert tick([{"tick_seconds": 5}, {"tick_seconds": None}, {"tick_seconds": 3}]) == 3
    assert tick([{"tick_seconds": None}]) is None


def test_a_process_is_named_by_the_api_or_by_the_id() -> None:
    assert process(job("cp.1000")) == "cp"
    assert process(job("a.b.1000")) == "a.b"
    assert process(job("4711")) is None
    assert process(job("x", process="tar")) == "tar"
