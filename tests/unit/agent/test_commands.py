"""The commands as a person or a script uses them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harvest_agent.__main__ import main
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
    put(root, f"{OST}/exports/10.0.0.1@tcp/stats", STATS)
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


def test_what_is_no_file_becomes_a_row_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server(tmp_path)
    (tmp_path / "proc/fs/lustre/mdt/fs-MDT0000/job_stats").mkdir(parents=True)

    rows = json_rows(capsys, "--root", str(tmp_path))

    assert rows[0] == {
        "kind": "unread",
        "file": "/proc/fs/lustre/mdt/fs-MDT0000/job_stats",
        "line": "not a regular file",
    }
    assert len(rows) == 9


def test_sample_for_people_adds_up_and_sorts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "--root", str(server(tmp_path))]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["FS", "JOB", "TARGETS", "READ", "WRITTEN", "OPERATIONS"]
    assert lines[1].split() == ["fs", "4711", "1", "0", "B", "2.0", "MiB", "0"]
    assert lines[5].split() == ["fs", "10.0.0.1@tcp", "1", "0", "B", "20.0", "KiB", "0"]


def test_sample_for_people_puts_who_moved_most_first_reads_and_writes_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = record("reader", written=5).replace(b"write_bytes", b"x").replace(b"read_bytes", b"write_bytes")
    reader = reader.replace(b"  x:", b"  read_bytes:")
    server(tmp_path, text=job_stats(record("little", written=2), reader, record("writer", written=4)))

    assert main(["sample", "--root", str(tmp_path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["reader", "writer", "little"]
    assert lines[1].split()[3:7] == ["5.0", "MiB", "0", "B"]


def test_parts_of_a_rename_and_keepalives_are_no_further_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operations = ("rename", "samedir_rename", "crossdir_rename", "parallel_rename_file", "rename_trylocks", "ping")
    text = "job_stats:\n- job_id:          mover\n  snapshot_time:   1700000000\n" + "".join(
        f"  {name + ':':16} {{ samples:           7, unit:  reqs }}\n" for name in operations
    )
    server(tmp_path, text=text.encode())

    assert main(["sample", "--root", str(tmp_path)]) == 0

    assert capsys.readouterr().out.splitlines()[1].split() == ["fs", "mover", "1", "0", "B", "0", "B", "7"]


def test_names_are_shown_so_that_no_terminal_obeys_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "proc/fs/lustre/obdfilter/\x1b[2J\udce9-OST0000/job_stats", job_stats(record("\x1b[1m")))
    put(tmp_path, "proc/fs/lustre/obdfilter/\x1b[2J\udce9-OST0000/exports/\x1b\udcff@tcp/stats", STATS)

    assert main(["sample", "--root", str(tmp_path)]) == 0

    text = capsys.readouterr().out
    assert r"\x1b[2J\udce9" in text
    assert r"\x1b\udcff@tcp" in text
    assert text.replace("\n", "").isprintable()
    assert text.isascii()


def test_sample_for_people_tells_briefly_what_was_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server(tmp_path)
    for number in range(1, 30):
        put(tmp_path, f"{OST}/exports/10.0.1.{number}@tcp/stats", "?\n?\n")

    assert main(["sample", "--root", str(tmp_path)]) == 0

    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"58 lines could not be read, of /{OST}/exports/10.0.1.10@tcp/stats, ")
    assert "… and 9 more" in last


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


def command(*arguments: str, encoding: str = "utf-8") -> list[str]:
    return [
        "env",
        "--unset=PYTHONUNBUFFERED",
        f"PYTHONIOENCODING={encoding}",
        sys.executable,
        "-m",
        "harvest_agent",
        *arguments,
    ]


def test_a_full_disk_is_told_and_is_no_success(tmp_path: Path) -> None:
    server(tmp_path)
    for option in ([], ["--json"]):
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(
                command("sample", "--root", str(tmp_path), *option), stdout=full, stderr=subprocess.PIPE, check=False
            )

        assert ran.returncode == 2
        assert ran.stderr == b"harvest-agent: cannot write: No space left on device\n"


def test_a_reader_that_had_enough_is_no_trouble(tmp_path: Path) -> None:
    server(tmp_path, text=job_stats(*(record(str(number)) for number in range(2000))))

    with subprocess.Popen(
        command("sample", "--json", "--root", str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        assert ran.stdout.readline().startswith(b"{")
        ran.stdout.close()
        assert ran.stderr.read() == b""
        assert ran.wait() == 0


def test_a_terminal_that_cannot_show_a_character_gets_its_number(tmp_path: Path) -> None:
    server(tmp_path, text=job_stats(*(record(str(number)) for number in range(25))))

    ran = subprocess.run(
        command("sample", "--root", str(tmp_path), encoding="latin-1"), capture_output=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert rb"\u2026 and 5 more" in ran.stdout


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server(tmp_path)
    os.mkfifo(tmp_path / OST / "instance")
    (tmp_path / OST / "job_stats").unlink()
    os.mkfifo(tmp_path / OST / "job_stats")
    (tmp_path / OST / "exports/10.0.0.1@tcp/stats").unlink()
    os.mkfifo(tmp_path / OST / "exports/10.0.0.1@tcp/stats")

    rows = json_rows(capsys, "--root", str(tmp_path))
    assert main(["doctor", "--root", str(tmp_path)]) == 1
    assert main(["dump", "--root", str(tmp_path), "--output", str(tmp_path / "dump.tar.gz")]) == 0

    assert {row["line"] for row in rows} == {"not a regular file"}
    assert f"not a regular file: /{OST}/exports/10.0.0.1@tcp/stats" in capsys.readouterr().out
