from typing import Any

from harvest_cli.places import filesystems_sheet, servers_sheet, targets_sheet
from harvest_cli.rows import job_sheets, jobs_sheet, node_sheet, user_sheets
from harvest_cli.sheets import Column, Sheet, fitted
from unit.cli.telling import TICK, A, B, job, work


def cell(sheet: Sheet, head: str, row: int = 0) -> str:
    return sheet.rows[row][[column.head for column in sheet.columns].index(head)]


def facts_of(sheet: Sheet) -> dict[str, str]:
    return {row[0]: row[1] for row in sheet.rows}


def listed(*jobs: dict[str, Any], matched: int | None = None) -> dict[str, Any]:
    return {"tick_seconds": TICK, "matched": matched or len(jobs), "shown": len(jobs), "jobs": list(jobs)}


def test_jobs_are_shown_with_totals_and_rates() -> None:
    sheet = jobs_sheet(
        listed(
            job(
                "4711",
                "vu",
                array="4700_11",
                user="ada",
                ost=work(2048, 0, 1500, rate=1024),
                last_tick_seconds=TICK - 5,
            )
        ),
        offset=0,
        now_seconds=TICK,
    )
    assert [cell(sheet, head) for head in ("JOB", "CLUSTER", "USER", "ACCOUNT")] == ["4700_11", "vu", "ada", "-"]
    assert [cell(sheet, head) for head in ("READ", "WRITE", "OPS", "META")] == ["2.0 KiB", "0", "1.5k", "0"]
    assert [cell(sheet, head) for head in ("READING", "WRITING", "OPS/S", "LAST")] == ["1.0 KiB/s", "0", "0", "5 s ago"]


def test_doubtful_totals_are_marked_and_the_marks_explained() -> None:
    jobs = [
        job("1"),
        job("2", ambiguous_resets=1),
        job("3", complete=False),
        job("4", ambiguous_resets=1, complete=False),
    ]
    sheet = jobs_sheet(listed(*jobs), offset=0, now_seconds=TICK)
    assert [row[1] for row in sheet.rows] == ["", "*", "!", "*!"]
    assert [note[:2] for note in sheet.notes] == ["* ", "! ", "4 "]
    assert [note[:2] for note in jobs_sheet(listed(jobs[0]), offset=0, now_seconds=TICK).notes] == ["1 "]


def test_the_next_page_is_told_of_while_there_is_one() -> None:
    assert jobs_sheet(listed(job("1"), matched=9), offset=3, now_seconds=TICK).notes == [
        "1 of 9 jobs; the next: --offset 4"
    ]
    assert jobs_sheet(listed(job("1"), matched=9), offset=8, now_seconds=TICK).notes == ["1 of 9 jobs"]


def test_a_job_is_told_with_what_is_in_doubt() -> None:
    did = work(1 << 20, 0, 3, open=3)
    did["ops"] |= {"read_bytes": {"samples": 4, "sum": 1 << 20}, "close": {"samples": 2, "sum": 3000}}
    one = job(
        "7", "vu", ost=did, ambiguous_resets=2, ambiguous_bytes=4096, ambiguous_samples=9, complete=False, late=True
    )
    facts, where, ops = job_sheets(
        {**one, "tick_seconds": TICK, "slurm_state": "COMPLETED", "state": "final", "nodes": 4}
    )
    assert facts_of(facts)["state"] == "final (Slurm: COMPLETED)"
    assert facts_of(facts)["partition"] == "-, 4 nodes"
    assert facts_of(facts)["job"] == "7 *!"
    assert (where.rows[0][:3], len(where.rows)) == (("home", "ost", "1.0 MiB"), 1)
    assert "at most 4.0 KiB, 9 operations" in where.notes[0]
    assert [note[:4] for note in where.notes] == ["* 2 ", "! it", "work"]
    assert [row[0] for row in ops.rows] == ["read_bytes", "open", "close"]
    assert ops.rows[0][3:] == ("4", "1.0 MiB", "256.0 KiB")
    assert ops.rows[1][3:] == ("3", "-", "-")  # nobody says how long they took
    assert ops.rows[2][3:] == ("2", "3.0 ms", "1.5 ms")


def test_a_user_is_shown_with_accounts_totals_and_jobs() -> None:
    answer = {
        "tick_seconds": TICK,
        "user": "ada",
        "accounts": ["p", "q"],
        "totals": {"read_bytes": 1024, "write_bytes": 0, "iops": 5},
        "rates": {"read_bytes": 2048.0},
        "jobs": [job("1")],
    }
    facts, jobs = user_sheets(answer, TICK)
    assert facts_of(facts) == {
        "user": "ada",
        "accounts": "p, q",
        "read": "1.0 KiB, now 2.0 KiB/s",
        "written": "0, now -",
        "operations": "5, now -",
    }
    assert cell(jobs, "JOB") == "1"


def test_a_node_is_shown_by_nid_and_file_system_and_what_was_never_counted_is_absent() -> None:
    rates = {"read_bytes": None, "write_bytes": 0.0, "oss_ops": 2.0, "mds_ops": None}
    client = {"nid": "n@o2ib", "host": None, "cluster": "-", "live": True, "filesystems": {"home": rates}}
    sheet = node_sheet([client, {**client, "filesystems": {}}], TICK)
    assert sheet.rows[0] == ("-", "n@o2ib", "-", "yes", "home", "-", "0", "2/s", "-")
    assert sheet.rows[1][4:] == ("-", "-", "-", "-", "-")


def test_file_systems_are_shown_with_what_all_jobs_do() -> None:
    one = {
        "name": "home",
        "servers": ["a", "b"],
        "targets": 3,
        "jobs": 12,
        "ost": work(1024, rate=512),
        "mdt": work(0, 0, 7),
    }
    sheet = filesystems_sheet({"tick_seconds": TICK, "filesystems": [one]})
    assert [cell(sheet, head) for head in ("SERVERS", "READ", "EVER READ", "EVER OPS")] == [
        "2",
        "512 B/s",
        "1.0 KiB",
        "7",
    ]


SERVER = {
    "name": "oss1",
    "aggregator": A,
    "listed": True,
    "connected": False,
    "filesystems": ["home"],
    "targets": [],
    "last_tick_seconds": None,
    "clock_offset_seconds": None,
    "late_seconds": None,
    "cpu_seconds": None,
    "resident_bytes": None,
    "spool_bytes": None,
    "spool_limit_bytes": None,
    "spool_sweeps": None,
    "lost_sweeps": None,
    "merged_sweeps": None,
    "needs_full_picture": False,
    "problems": [],
}


def test_a_server_that_was_never_heard_of_has_nothing_but_absences() -> None:
    sheet = servers_sheet([SERVER], TICK)
    assert list(sheet.rows[0]) == ["oss1", "away", "home", "0", *"-------"[:6], "0"]


def test_whose_servers_they_are_is_said_where_there_are_several_aggregators() -> None:
    sheet = servers_sheet([SERVER, {**SERVER, "aggregator": B, "problems": ["x"]}], TICK)
    assert [cell(sheet, "AGGREGATOR", row) for row in (0, 1)] == [A, B]
    assert sheet.notes == ["`harvest doctor` says what is wrong."]


def test_a_target_that_is_missing_says_so() -> None:
    target = {
        "name": "home-OST0000",
        "server": "oss1",
        "mount": None,
        "last_tick_seconds": TICK - 60,
        "missing": True,
        "records": 5,
        "bytes": 100,
        "cpu_seconds": 0.01,
        "unread_lines": 1,
        "unplaced_reads": 2,
        "unseen_seconds": 0,
        "ambiguous_bytes": 0,
    }
    sheet = targets_sheet([target], TICK)
    assert cell(sheet, "TARGET") == "home-OST0000 (missing)"
    assert [cell(sheet, head) for head in ("MOUNT", "LAST READ", "UNREAD", "UNSEEN")] == ["-", "60 s ago", "3", "0"]


WIDE = Sheet(
    columns=(Column("NAME"), Column("X", rank=1), Column("Y", rank=2), Column("NUMBER", right=True)),
    rows=[("a-very-long-name", "xx", "yyy", "123456")],
)


def test_columns_go_by_rank_until_the_rest_fits() -> None:
    assert WIDE.width == 16 + 2 + 2 + 2 + 3 + 2 + 6
    assert fitted(WIDE, WIDE.width) == WIDE
    assert [column.head for column in fitted(WIDE, WIDE.width - 1).columns] == ["NAME", "X", "NUMBER"]
    assert [column.head for column in fitted(WIDE, 24).columns] == ["NAME", "NUMBER"]


def test_then_names_are_shortened_and_numbers_never() -> None:
    assert fitted(WIDE, 20).rows == [["a-very-long…", "123456"]]
    assert fitted(WIDE, 3).rows == [["a-very-…", "123456"]]
