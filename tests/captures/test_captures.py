"""Every counter of every capture equals its truth table, which was made by other means."""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harvest_core.lustre.counters import Counter, normal_unit, printable
from harvest_core.lustre.job_stats import JobRecord, parse_job_stats
from harvest_core.lustre.lctl import parse_lctl
from harvest_core.lustre.names import parse_uuids
from harvest_core.lustre.stats import Stats, parse_stats

CAPTURES = Path(os.environ["HARVEST_CAPTURES"])
SETS = sorted(path.parent for path in CAPTURES.rglob("truth.json"))
Row = dict[str, Any]
Part = tuple[str, str, str, str | None]
"""What a truth row is about: file, source, target, NID."""


def test_the_captures_folder_is_there_and_holds_truth() -> None:
    assert CAPTURES.is_dir()
    assert SETS


def truth(folder: Path, table: str) -> dict[Part, list[Row]]:
    rows: dict[Part, list[Row]] = defaultdict(list)
    for row in json.loads((folder / "truth.json").read_bytes())[table]:
        rows[row["file"], row["kind"], row["target"], row.get("nid")].append(row)
    return rows


def part_text(folder: Path, part: Part, file_names: Sequence[str | None]) -> bytes:
    """Return the text a truth row is about: a whole file, or one parameter of a dump."""
    file, *wanted = part
    text = (folder / file).read_bytes()
    parameters, head = parse_lctl(text)
    if not parameters:
        return text
    for parameter in parameters:
        parts = parameter.parts
        if parts is None:
            continue
        *its, its_file = (None if p is None else printable(p) for p in parts)
        if its == wanted and its_file in file_names:
            return parameter.value
    return head


def expected(row: Row) -> tuple[object, ...]:
    return (normal_unit(row["unit"].encode()), *(row[k] for k in ("samples", "min", "max", "sum", "sumsq")))


def actual(counter: Counter) -> tuple[object, ...]:
    return (counter.unit, counter.samples, counter.minimum, counter.maximum, counter.sum, counter.sumsq)


def same_id(record: JobRecord, row: Row) -> bool:
    """Compare ids; the truth was made line by line, so of an id with a newline it has the first line only."""
    job = printable(record.job)
    return job == row["job_id"] or ("\n" in job and job.partition("\n")[0] == row["job_id"])


def labels(counter: Counter) -> dict[str, int] | None:
    names = ["", "K", "M", "G"]
    return {f"{1 << p % 10}{names[p // 10]}": n for p, n in counter.histogram} or None


@pytest.mark.parametrize("folder", SETS, ids=lambda folder: folder.name)
def test_every_job_counter_equals_the_truth(folder: Path) -> None:
    compared = 0
    jobs = truth(folder, "jobs")
    ops = truth(folder, "job_ops")
    for part, job_rows in jobs.items():
        parsed = parse_job_stats(part_text(folder, part, ["job_stats"]))
        assert len(parsed.records) == len(job_rows), part
        remaining = iter(ops[part])
        for record, job_row in zip(parsed.records, job_rows, strict=True):
            assert same_id(record, job_row), part
            assert record.snapshot_time == job_row.get("snapshot_time")
            assert record.start_time == job_row.get("start_time")
            assert (record.unread, record.doubtful) == ((), ()), part
            for counter in record.counters:
                row = next(remaining)
                assert same_id(record, row)
                assert (counter.name, *actual(counter)) == (row["op"], *expected(row)), part
                assert labels(counter) == (row["hist"] or None), part
                compared += 1
    print(f"\n{folder.name}: {compared} job counters equal the truth")
    assert compared == sum(len(rows) for rows in ops.values()) > 0


def stats_of(folder: Path, table: str) -> Iterator[tuple[Part, list[Row], Stats]]:
    by_kind: dict[tuple[Part, str], list[Row]] = defaultdict(list)
    for part, rows in truth(folder, table).items():
        for row in rows:
            by_kind[part, row["file_kind"]].append(row)
    for (part, kind), rows in by_kind.items():
        yield part, rows, parse_stats(part_text(folder, part, [kind]))


def test_every_stats_counter_equals_the_truth() -> None:
    compared = times = 0
    for part, rows, parsed in stats_of(CAPTURES, "stats"):
        assert len(parsed.counters) == len(rows), part
        for counter, row in zip(parsed.counters, rows, strict=True):
            assert (counter.name, *actual(counter)) == (row["name"], *expected(row)), part
            compared += 1
    for part, rows, parsed in stats_of(CAPTURES, "stat_times"):
        first: dict[str, str] = {}
        for row in reversed(rows):  # notes may hold several pastes: the first time counts
            seconds, _, fraction = row["value"].partition(".")
            if row["unit"] == "secs.usecs":  # printed without the leading zeros of the microseconds
                fraction = fraction.rjust(6, "0")
            first[row["what"]] = f"{seconds}.{fraction}"
        assert parsed.snapshot_time == first.get("snapshot_time"), part
        assert parsed.start_time == first.get("start_time"), part
        times += len(rows)
    print(f"\n{compared} stats counters and {times} times equal the truth")
    assert compared == len(json.loads((CAPTURES / "truth.json").read_bytes())["stats"]) > 0


def test_every_uuid_equals_the_truth() -> None:
    compared = 0
    for part, rows in truth(CAPTURES, "uuids").items():
        for row in rows:
            uuids = parse_uuids(part_text(CAPTURES, part, ["uuid"]))
            assert [uuid.decode() for uuid in uuids] == row["uuids"], part
            compared += 1
    print(f"\n{compared} uuid files equal the truth")
    assert compared > 0
