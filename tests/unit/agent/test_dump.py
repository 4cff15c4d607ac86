"""The bundle for a bug report: all that the agent reads, and no job's name."""

import io
import random
import re
import tarfile
from pathlib import Path

import pytest

from harvest_agent.__main__ import main
from harvest_agent.dump import FILE_LIMIT, Mask, masked
from support.records import job_stats, put, record

OST = "proc/fs/lustre/obdfilter/fs-OST0000"
JOB_STATS = f"harvest-dump/{OST}/job_stats"


@pytest.fixture(autouse=True)
def chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run mask alike: by chance one id's mask may have the name in it that is looked for in another's."""
    same = random.Random(1)
    monkeypatch.setattr("secrets.SystemRandom", lambda: same)


def unpacked(root: Path, text: bytes, *options: str) -> dict[str, bytes]:
    """Make a small server, dump it, and return what the bundle holds."""
    put(root, f"{OST}/job_stats", text)
    put(root, f"{OST}/exports/10.0.0.1@tcp/stats", "ping                      9 samples [reqs]\n")
    file = root / "dump.tar.gz"
    assert main(["dump", "--root", str(root), "--output", str(file), *options]) == 0
    with tarfile.open(fileobj=io.BytesIO(file.read_bytes())) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_a_dump_holds_what_the_agent_reads_with_ids_masked(tmp_path: Path) -> None:
    files = unpacked(tmp_path, job_stats(record("4711.secret"), b"  4711.secret ?\n", record("4711.secret")))

    text = files[JOB_STATS]
    assert b"secret" not in b"".join(files.values())
    assert b"4711" not in text
    ids = re.findall(rb"- job_id: +(\d{4}\.[a-z]{6})\n", text)
    assert len(ids) == 2
    assert ids[0] == ids[1]
    assert text.count(b"\n  write_bytes:     { samples:           1, unit: bytes") == 2
    assert f"harvest-dump/{OST}/exports/10.0.0.1@tcp/stats" in files
    assert b"fs-OST0000" in files["harvest-dump/doctor.txt"]


def test_ids_are_shown_in_a_dump_when_asked(tmp_path: Path) -> None:
    put(tmp_path, "sys/fs/lustre/jobid_name", "mysecret\n")

    files = unpacked(tmp_path, job_stats(record("4711")), "--show-job-ids")

    assert b"4711" in files[JOB_STATS]
    assert files["harvest-dump/settings/jobid_name"] == b"mysecret\n"


def old_record(job: bytes) -> bytes:
    """Return a record of a server up to 2.7, which prints an id as it is."""
    return b"- job_id:          " + job + b"\n  snapshot_time:   1700000000\n" + OPERATION


OPERATION = b"  setattr:         { samples:           3, unit:  reqs }\n"


@pytest.mark.parametrize(
    "job",
    [
        b"wolf\nbear",
        b"wolf\n  bear: lion",
        b"wolf\nbear:{samples:1,unit:b}",
        b"wolf\nbear: { samples: 1, unit: b }",
        b"wolf\n- job_id: bear",
        b"wolf\nsnapshot_time: 777888",
        b"wolf\n\njob_stats:\nbear",
        b"wolf bear",
        b"wolf\xc3\xa9bear",
        rb'"wolf\xC3\xA9\x20bear"',
        rb"wolf\x77\x6F\x6C\x66",
        b'"wolf\xc3\\xA9bear"',
    ],
    ids=ascii,
)
def test_no_part_of_an_id_is_left_in_the_bundle(tmp_path: Path, job: bytes) -> None:
    files = unpacked(tmp_path, job_stats(old_record(b"1"), old_record(job), old_record(b"2")))

    for part in (b"wolf", b"bear", b"lion", b"777888", "é".encode(), rb"\xA9", rb"\x77\x6F\x6C\x66"):
        assert not any(part in text for text in files.values()), part
    assert files[JOB_STATS].count(OPERATION) == 3


@pytest.mark.parametrize(
    "damage", [b"wolf:{samples:1,unit:b}", b"  wolf: { samples: 1, unit: b }", b"wolf 1", b"  wolf: {" + b" " * 40]
)
def test_an_irregular_line_keeps_the_formats_own_words_only(tmp_path: Path, damage: bytes) -> None:
    """It may be part of an id whose record lost its time."""
    files = unpacked(tmp_path, b"job_stats:\n- job_id:          x\n" + damage + b"\n" + OPERATION)

    assert not any(b"wolf" in text for text in files.values())
    assert (b"samples" in damage) == (b"samples:" in files[JOB_STATS].split(b"\n")[2])
    assert files[JOB_STATS].endswith(OPERATION)


def test_a_value_that_makes_no_sense_is_not_masked() -> None:
    text = (
        b"  read_bytes:      { samples:          -5, unit: bytes, min:    4096, max:16777216, sum: "
        b"9223372036854775807, sumsq: 5, hist: { 32K: 1, 1M: 13 } }\n"
    )

    assert masked(text, Mask()) == text


def test_masking_keeps_the_shape_that_a_bug_may_hang_on() -> None:
    text = b'- job_id:          "Caf\xc3\\xA9\\x20b/1:2"\n  snapshot_time:   1.000000001 secs.nsecs\n'

    hidden = masked(text, Mask())

    first, second, end = hidden.split(b"\n")
    assert re.fullmatch(rb'- job_id:          "[A-Z][a-z]{2}[\xc0-\xff]\\x[AB][0-9A-F]\\x20[a-z]/\d:\d"', first)
    assert (second, end) == (b"  snapshot_time:   1.000000001 secs.nsecs", b"")


def test_different_ids_stay_different_and_none_stays_itself() -> None:
    mask = Mask()
    ids = [b"%04d" % number for number in range(10_000)] + [bytes([byte]) for byte in range(0x80, 0x100)]

    hidden = [mask.line(job) for job in ids]

    assert len(set(hidden)) == len(ids)
    assert not any(before == after for before, after in zip(ids, hidden, strict=True))
    assert all(re.fullmatch(rb"\d{4}", after) for after in hidden[:10_000])


def test_letters_are_masked_by_what_servers_print_as_letters() -> None:
    letters = bytes(byte for byte in range(0xC0, 0x100) if byte not in {0xD7, 0xF7})

    hidden = Mask().line(letters)

    assert set(hidden) <= set(letters)


@pytest.mark.parametrize(("name", "is_masked"), [("wolf-4711", True), ("wolf:%j:%u", False)])
def test_a_jobid_name_that_is_an_id_is_masked(tmp_path: Path, name: str, is_masked: bool) -> None:  # noqa: FBT001
    """With jobid_var=nodelocal it is the id of every process of this node."""
    put(tmp_path, "sys/fs/lustre/jobid_var", "nodelocal\n")
    put(tmp_path, "sys/fs/lustre/jobid_name", name)

    files = unpacked(tmp_path, job_stats(record(name)))

    assert (b"wolf" not in files["harvest-dump/settings/jobid_name"]) == is_masked
    assert (b"wolf" not in files["harvest-dump/doctor.txt"]) == is_masked
    assert b"wolf" not in files[JOB_STATS]


def test_a_large_file_is_cut(tmp_path: Path) -> None:
    one = record("4711")

    files = unpacked(tmp_path, job_stats(one * (FILE_LIMIT // len(one) + 2)), "--show-job-ids")

    assert len(files[JOB_STATS]) == FILE_LIMIT


def test_names_that_are_no_utf8_are_packed_as_they_are(tmp_path: Path) -> None:
    put(tmp_path, "proc/fs/lustre/obdfilter/f\udce9-OST0000/job_stats", "?\n")

    files = unpacked(tmp_path, job_stats())

    assert "harvest-dump/proc/fs/lustre/obdfilter/f\udce9-OST0000/job_stats" in files


def test_the_bundle_is_for_its_owner_also_where_a_file_was(tmp_path: Path) -> None:
    old = put(tmp_path, "dump.tar.gz", "old")
    old.chmod(0o666)

    unpacked(tmp_path, job_stats())

    assert old.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["dump.tar.gz"]


def test_a_link_where_the_bundle_should_be_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = put(tmp_path, "precious", "data")
    (tmp_path / "link").symlink_to(precious)

    assert main(["dump", "--root", str(tmp_path), "--output", str(tmp_path / "link")]) == 2

    assert "not a regular file" in capsys.readouterr().err
    assert precious.read_text() == "data"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "precious"]


def test_a_bundle_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    assert main(["dump", "--root", str(tmp_path), "--output", str(tmp_path / ("x" * 300))]) == 2

    assert list(tmp_path.iterdir()) == []
