"""Final records: written, found, and added to."""

from pathlib import Path
from typing import Any

import pytest

from harvest_aggregator import records, sqlite
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.records import Records
from harvest_core.jobs.identity import JobName

NOTHING: dict[str, Any] = {"read_bytes": 0, "write_bytes": 0, "iops": 0, "ops": {}}


def record(number: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    work = {
        "read_bytes": number,
        "write_bytes": 0,
        "iops": 2,
        "ops": {"read_bytes": {"samples": 1, "sum": number}, "open": {"samples": 2, "sum": 9}},
    }
    return {
        "job": str(number),
        "cluster": "vu",
        "start": 101,
        "start_seconds": 101,
        "end_seconds": 1000 + number,
        "last_tick_seconds": 990,
        "user": "jane" if number % 2 else "bob",
        "account": "dark",
        "name": "sim",
        "complete": True,
        "late": False,
        "ambiguous_resets": 1,
        "ambiguous_bytes": 10,
        "ambiguous_samples": 100,
        "filesystems": {"home": {"ost": work, "mdt": NOTHING}},
        **more,
    }


def written(folder: Path, *all_: dict[str, Any]) -> Records:
    path = folder / "ledger.db"
    if not path.exists():
        sqlite.make(path)
    connection = sqlite.connect(path)
    with connection.begin():
        records.write(connection, all_, 1000)
    sqlite.disconnect(connection)
    return Records(path)


def test_a_record_is_found_as_it_was_written(tmp_path: Path) -> None:
    here = written(tmp_path, record(7), record(8))
    assert here.of(JobName("vu", b"7")) == [record(7)]
    assert here.of(JobName("xe", b"7")) == []


def test_ids_that_are_no_text_are_found(tmp_path: Path) -> None:
    odd = record(7, job="\udcff'; --")
    assert written(tmp_path, odd).of(JobName("vu", b"\xff'; --")) == [odd]


def test_a_number_that_was_used_again_has_several_records(tmp_path: Path) -> None:
    here = written(tmp_path, record(7), record(7, start_seconds=5000, name="other"))
    assert [one["name"] for one in here.of(JobName("vu", b"7"))] == ["other", "sim"]


def test_a_record_is_replaced_by_a_later_one(tmp_path: Path) -> None:
    written(tmp_path, record(7))
    assert written(tmp_path, record(7, name="later")).of(JobName("vu", b"7")) == [record(7, name="later")]


def test_records_are_asked_for_by_whose_they_are_in_pages(tmp_path: Path) -> None:
    here = written(tmp_path, *(record(number) for number in range(10)))
    matched = here.matching({"user": "jane"})
    page = list(here.each({"user": "jane"}, sort="rates.bytes", limit=2, offset=0))
    assert (matched, [one["job"] for one in page]) == (5, ["9", "7"])
    assert [one["job"] for one in here.each({"user": "jane"}, sort="", limit=2, offset=4)] == ["1"]
    assert [one["job"] for one in here.each({"cluster": "vu", "account": "dark"}, sort="job", limit=3, offset=0)] == [
        "0",
        "1",
        "2",
    ]
    assert (here.matching({"user": "eve"}), here.matching({})) == (0, 10)
    assert len(list(here.each({}, sort="read_bytes", limit=10, offset=0))) == 10


def test_what_a_user_did_is_added_up(tmp_path: Path) -> None:
    here = written(tmp_path, *(record(number) for number in range(10)))
    assert here.sums("jane") == {"jobs": 5, "read_bytes": 25, "write_bytes": 0, "iops": 10}
    assert here.sums("eve") == {"jobs": 0, "read_bytes": 0, "write_bytes": 0, "iops": 0}


def test_late_work_is_added_and_marked() -> None:
    more = {"read_bytes": 5, "write_bytes": 3, "iops": 0, "ops": {"write_bytes": {"samples": 1, "sum": 3}}}
    late = record(7, name=None, user=None, filesystems={"home": {"ost": more}, "work": {"ost": more}}, complete=False)
    both = records.merged(record(7), late)
    assert (both["name"], both["user"], both["late"], both["complete"], both["ambiguous_bytes"]) == (
        "sim",
        "jane",
        True,
        False,
        20,
    )
    home = both["filesystems"]["home"]["ost"]
    assert (home["read_bytes"], home["write_bytes"], home["iops"]) == (12, 3, 2)
    assert home["ops"] == {
        "read_bytes": {"samples": 1, "sum": 7},
        "open": {"samples": 2, "sum": 9},
        "write_bytes": {"samples": 1, "sum": 3},
    }
    assert both["filesystems"]["work"]["ost"] == more
    assert both["filesystems"]["home"]["mdt"] == NOTHING


def test_a_damaged_record_is_not_told(tmp_path: Path) -> None:
    here = written(tmp_path, record(7))
    connection = sqlite.connect(tmp_path / "ledger.db")
    with connection.begin():
        connection.exec_driver_sql("UPDATE job SET payload = x'00'")
    sqlite.disconnect(connection)
    with pytest.raises(LedgerError, match="not what was written"):
        here.of(JobName("vu", b"7"))
