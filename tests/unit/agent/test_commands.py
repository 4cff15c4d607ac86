"""The commands as a person or a script uses them."""

import io
import json
import re
import tarfile
from pathlib import Path

import pytest

from harvest_agent.__main__ import main
from harvest_agent.dump import masked
from support.records import job_stats, put, record

OST = "proc/fs/lustre/obdfilter/fs-OST0000"
STATS = (
    "snapshot_time             1700000000.000000001 secs.nsecs\n"
    "write_bytes               5 samples [bytes] 4096 4096 20480 83886080\n"
    "ping                      9 samples [reqs]\n"
)


def server(root: Path, *, text: bytes | None = None) -> Path:
    """Make the tree of a small OSS and return its root."""
    put(root, f"{OST}/job_stats", job_stats(record("4711", written=2), record("cp.1000")) if text is None else text)
    put(root, f"{OST}/instance", "12\n")
    put(root, f"{OST}/exports/10.0.0.1@tcp/stats", STATS)
    put(root, f"{OST}/exports/10.0.0.1@tcp/uuid", "0212161f-2187-4f09-9fa2-16f46da653d9\n")
    put(root, f"{OST}/exports/10.0.0.2@tcp/uuid", "")
    put(root, f"{OST}/exports/0@lo/uuid", "fs-MDT0000-mdtlov_UUID\n")
    put(root, "sys/fs/lustre/version", "2.15.8\n")
    put(root, "sys/fs/lustre/jobid_var", "SLURM_JOB_ID\n")
    put(root, "sys/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval", "600\n")
    return root


def json_rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["sample", "--json", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_sample_prints_one_object_per_counter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json_rows(capsys, "--root", str(server(tmp_path)))

    assert rows[1] == {
        "kind": "job",
        "source": "obdfilter",
        "target": "fs-OST0000",
        "job": "4711",
        "op": "write_bytes",
        "unit": "bytes",
        "samples": 2,
        "min": 1048576,
        "max": 1048576,
        "sum": 2097152,
        "snapshot_time": "1699990002.000000005",
        "start_time": "1699990000.000000007",
    }
    assert rows[-2] == {
        "kind": "export",
        "source": "obdfilter",
        "target": "fs-OST0000",
        "nid": "10.0.0.1@tcp",
        "op": "write_bytes",
        "unit": "bytes",
        "samples": 5,
        "sum": 20480,
    }
    assert len(rows) == 2 * 3 + 2


def test_one_negative_sum_loses_exactly_that_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = job_stats(record("1", written=2), record("2", written=3), record("3"))
    before = json_rows(capsys, "--root", str(server(tmp_path / "good", text=good)))
    bad = re.sub(rb"sum: +3145728", b"sum: -5", good)

    after = json_rows(capsys, "--root", str(server(tmp_path / "bad", text=bad)))

    unread = [row for row in after if row["kind"] == "unread"]
    lost = [{**old, "sum": None} for old in before if (old.get("job"), old["op"]) == ("2", "write_bytes")]
    assert [row for row in after if row["kind"] != "unread"] == [
        {**row, "sum": None} if {**row, "sum": None} in lost else row for row in before
    ]
    assert len(unread) == 1
    assert unread[0]["file"] == f"/{OST}/job_stats"
    assert "sum: -5" in str(unread[0]["line"])


def test_bytes_that_are_no_utf8_survive_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = job_stats(record("X").replace(b"X", b"caf\xe9"))

    rows = json_rows(capsys, "--root", str(server(tmp_path, text=text)))

    assert rows[0]["job"] == "caf\udce9"


def test_a_forbidden_file_becomes_a_row_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server(tmp_path)
    (tmp_path / "proc/fs/lustre/mdt/fs-MDT0000/job_stats").mkdir(parents=True)

    rows = json_rows(capsys, "--root", str(tmp_path))

    assert rows[0] == {
        "kind": "unread",
        "file": "/proc/fs/lustre/mdt/fs-MDT0000/job_stats",
        "line": "Is a directory",
    }
    assert len(rows) == 9


def test_sample_for_people_adds_up_and_sorts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "--root", str(server(tmp_path))]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["FS", "JOB", "TARGETS", "READ", "WRITTEN", "OPERATIONS"]
    assert lines[1].split() == ["fs", "4711", "1", "0", "B", "2.0", "MiB", "0"]
    assert lines[5].split() == ["fs", "10.0.0.1@tcp", "1", "0", "B", "20.0", "KiB", "0"]


def test_sample_reads_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = put(
        tmp_path,
        "lctl.txt",
        b"memused=5\nobdfilter.fs-OST0000.job_stats=\n"
        + job_stats(record("1"))
        + b"obdfilter.fs2-OST0000.job_stats=job_stats:\n"
        b"obdfilter.fs-OST0000.exports.10.0.0.1@tcp.stats=\n" + STATS.encode() + b"version=2.15.8\n",
    )

    assert len(json_rows(capsys, "--lctl", str(dump))) == 3 + 2
    assert json_rows(capsys, "--lctl", str(dump), "--filesystem", "fs2") == []


def test_a_dump_without_names_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = put(tmp_path, "values.txt", job_stats(record("1")))

    assert main(["sample", "--lctl", str(dump)]) == 2
    assert "Leave out the -n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sample", "--root", "/no/such"], "there is no folder /no/such"),
        (["sample", "--lctl", "/no/such"], "cannot read /no/such: No such file"),
        (["sample", "--lctl", "x", "--root", "."], "give either --root or --lctl"),
        (["dump", "--output", "/no/such/file"], "cannot write /no/such/file"),
    ],
)
def test_bad_input_gets_a_clear_error(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def doctor(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["doctor", "--root", str(root)])
    return code, capsys.readouterr().out


def test_the_doctor_describes_a_healthy_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = doctor(server(tmp_path), capsys)

    assert code == 0
    assert re.search(r"^role +OSS$", text, re.MULTILINE)
    assert re.search(r"^version +2\.15\.8$", text, re.MULTILINE)
    assert re.search(r"^fs-OST0000 +12 +600 s +2 +1 \(2 listed\) +0 ", text, re.MULTILINE)
    assert "No problems found." in text


@pytest.mark.parametrize(
    ("path", "content", "what", "mend"),
    [
        ("sys/fs/lustre/jobid_var", "disable\n", "jobid_var is disabled", "lctl set_param -P jobid_var="),
        (
            "sys/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval",
            "30\n",
            "job_cleanup_interval is 30 s",
            "lctl set_param obdfilter.fs-OST0000.job_cleanup_interval=600",
        ),
        ("sys/fs/lustre/enable_stats_header", "0\n", "enable_stats_header is 0", "enable_stats_header=1"),
        (
            f"{OST}/job_stats",
            "job_stats:\n???\n",
            "1 lines were not understood, for example '???'",
            "harvest-agent dump",
        ),
    ],
)
def test_the_doctor_names_a_problem_and_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, content: str, what: str, mend: str
) -> None:
    put(server(tmp_path), path, content)

    code, text = doctor(tmp_path, capsys)

    assert code == 1
    assert what in text
    assert mend in text


@pytest.mark.parametrize(("version", "problems"), [("2.12.9", 1), ("2.15.8", 0)])
def test_a_cleanup_interval_of_one_means_never_on_newer_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, problems: int
) -> None:
    server(tmp_path)
    put(tmp_path, "sys/fs/lustre/version", version)
    put(tmp_path, "sys/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval", "1\n")

    assert doctor(tmp_path, capsys)[1].count("PROBLEM") == problems


def test_the_doctor_knows_a_client_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no Lustre target is mounted here\n" in doctor(tmp_path, capsys)[1]
    put(tmp_path, "sys/kernel/debug/lustre/llite/fs-ffff0000/stats", "")

    assert "no Lustre target is mounted here, only a client" in doctor(tmp_path, capsys)[1]


def unpacked(root: Path, *options: str) -> dict[str, bytes]:
    file = root / "dump.tar.gz"
    assert main(["dump", "--root", str(root), "--output", str(file), *options]) == 0
    assert file.stat().st_mode & 0o077 == 0
    with tarfile.open(fileobj=io.BytesIO(file.read_bytes())) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_a_dump_holds_what_the_agent_reads_with_ids_masked(tmp_path: Path) -> None:
    files = unpacked(
        server(tmp_path, text=job_stats(record("4711.secret"), b"  4711.secret ?\n", record("4711.secret")))
    )

    text = files[f"harvest-dump/{OST}/job_stats"]
    assert b"secret" not in b"".join(files.values())
    assert b"4711" not in text
    ids = re.findall(rb"- job_id: +(\d{4}\.[a-z]{6})\n", text)
    assert len(ids) == 2
    assert ids[0] == ids[1]
    assert text.count(b"\n  write_bytes:     { samples:           1, unit: bytes") == 2
    assert f"harvest-dump/{OST}/exports/10.0.0.1@tcp/stats" in files
    assert b"fs-OST0000" in files["harvest-dump/doctor.txt"]


def test_ids_are_shown_in_a_dump_when_asked(tmp_path: Path) -> None:
    files = unpacked(server(tmp_path), "--show-job-ids")

    assert b"4711" in files[f"harvest-dump/{OST}/job_stats"]


def test_masking_keeps_the_shape_that_a_bug_may_hang_on() -> None:
    text = b'- job_id:          "Caf\xc3\\xA9\\x20b/1:2"\n  snapshot_time:   1.000000001 secs.nsecs\n'

    hidden = masked(text, b"key")

    first, second, end = hidden.split(b"\n")
    assert re.fullmatch(rb'- job_id:          "[A-Z][a-z]{2}[\xc0-\xff]\\x[AB][0-9A-F]\\x20[a-z]/\d:\d"', first)
    assert (second, end) == (b"  snapshot_time:   1.000000001 secs.nsecs", b"")
