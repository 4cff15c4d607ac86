"""What the doctor finds, and what it advises."""

import re
from pathlib import Path

import pytest

from harvest_agent.__main__ import main
from support.records import job_stats, put, record

OST = "proc/fs/lustre/obdfilter/fs-OST0000"


def server(root: Path) -> Path:
    """Make the tree of a small and healthy OSS and return its root."""
    put(root, f"{OST}/job_stats", job_stats(record("4711", written=2), record("cp.1000")))
    put(root, f"{OST}/instance", "12\n")
    put(root, f"{OST}/exports/10.0.0.1@tcp/stats", "ping                      9 samples [reqs]\n")
    put(root, f"{OST}/exports/10.0.0.1@tcp/uuid", "0212161f-2187-4f09-9fa2-16f46da653d9\n")
    put(root, f"{OST}/exports/10.0.0.2@tcp/uuid", "")
    put(root, f"{OST}/exports/0@lo/uuid", "fs-MDT0000-mdtlov_UUID\n")
    put(root, "sys/fs/lustre/version", "2.15.8\n")
    put(root, "sys/fs/lustre/jobid_var", "SLURM_JOB_ID\n")
    put(root, "sys/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval", "600\n")
    return root


def doctor(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main(["doctor", "--root", str(root), *options])
    return code, capsys.readouterr().out


def test_a_healthy_server_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = doctor(server(tmp_path), capsys)

    assert code == 0
    assert re.search(r"^role +OSS$", text, re.MULTILINE)
    assert re.search(r"^version +2\.15\.8$", text, re.MULTILINE)
    assert re.search(r"^fs-OST0000 +12 +600 s +2 +1 \(2 listed\) +0 ", text, re.MULTILINE)
    assert "No problems found." in text


@pytest.mark.parametrize(
    ("path", "content", "what", "mend"),
    [
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
        ("proc/fs/lustre/obdfilter/fs-OST0001/instance", "12\n", "fs-OST0001: it has no job_stats", "lctl get_param"),
    ],
)
def test_a_problem_is_named_and_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, content: str, what: str, mend: str
) -> None:
    put(server(tmp_path), path, content)

    code, text = doctor(tmp_path, capsys)

    assert code == 1
    assert text.count("PROBLEM") == 1
    assert what in text
    assert mend in text


def test_a_disabled_jobid_var_is_a_problem_only_where_no_job_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The setting is this node's own: clients decide what they send."""
    put(server(tmp_path), "sys/fs/lustre/jobid_var", "disable\n")

    assert doctor(tmp_path, capsys)[0] == 0
    put(tmp_path, f"{OST}/job_stats", "job_stats:\n")
    code, text = doctor(tmp_path, capsys)

    assert code == 1
    assert "jobid_var is disabled and no target shows a job" in text
    assert "lctl set_param -P jobid_var=" in text


@pytest.mark.parametrize("total", ["-5", "9223372036854775807", "five"])
def test_sums_of_clients_that_are_no_numbers_are_counted_as_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], total: str
) -> None:
    put(server(tmp_path), f"{OST}/exports/10.0.0.1@tcp/stats", f"write_bytes 5 samples [bytes] 1 4096 {total}\n")

    code, text = doctor(tmp_path, capsys)

    assert code == 1
    assert "fs-OST0000: 1 lines were not understood" in text


@pytest.mark.parametrize(("version", "problems"), [("2.12.9", 1), ("2.15.8", 0)])
def test_a_cleanup_interval_of_one_means_never_on_newer_servers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, problems: int
) -> None:
    server(tmp_path)
    put(tmp_path, "sys/fs/lustre/version", version)
    put(tmp_path, "sys/fs/lustre/obdfilter/fs-OST0000/job_cleanup_interval", "1\n")

    assert doctor(tmp_path, capsys)[1].count("PROBLEM") == problems


def test_a_client_is_told_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no Lustre target is mounted here\n" in doctor(tmp_path, capsys)[1]
    put(tmp_path, "sys/kernel/debug/lustre/llite/fs-ffff0000/stats", "")

    assert "no Lustre target is mounted here, only a client" in doctor(tmp_path, capsys)[1]


def test_a_file_system_that_is_not_here_is_told_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server(tmp_path), "proc/fs/lustre/mdt/home-MDT0000/job_stats", "job_stats:\n")

    code, text = doctor(tmp_path, capsys, "--filesystem", "fs", "--filesystem", "hone")

    assert code == 1
    assert "no target of file system hone is mounted here, only of fs, home\n" in text
    assert "no Lustre target" not in text
    assert text.count("PROBLEM") == 1


def test_names_that_are_no_utf8_or_move_the_cursor_are_shown_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server(tmp_path), "proc/fs/lustre/obdfilter/\x1b[2J\udce9/job_stats", "?\n")

    code, text = doctor(tmp_path, capsys)

    assert code == 1
    assert r"\x1b[2J\udce9: its name does not say" in text
    assert text.replace("\n", "").isprintable()
