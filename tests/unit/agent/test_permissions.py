"""The agent as a user who may not read everything: it says so, whatever it is that hides."""

import io
import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from harvest_agent.__main__ import main
from support.records import job_stats, put, record

OST = "proc/fs/lustre/obdfilter/fs-OST0000"
DEBUG_OST = "sys/kernel/debug/lustre/obdfilter/fs-OST0000"
NOBODY = 65534


@pytest.fixture
def root() -> Iterator[Path]:
    """Make a 2.17 server's tree in a folder that others may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    put(folder, f"{OST}/job_stats", job_stats(record("4711")))
    put(folder, "sys/fs/lustre/version", "2.17.0\n")
    for number in range(20):
        put(folder, f"{DEBUG_OST}/exports/10.0.0.{number}@tcp/stats", "ping                      9 samples [reqs]\n")
    yield folder
    for path, folders, files in os.walk(folder):  # from the top: what was closed is opened before it is entered
        for name in (*folders, *files):
            if not Path(path, name).is_symlink():
                Path(path, name).chmod(0o755)
    shutil.rmtree(folder)


def as_nobody(*arguments: str) -> tuple[int, str]:
    """Run a command as somebody who is not root: in a fork, for root's own Python may be closed to others."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        code, text = 99, ""
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            with redirect_stdout(io.StringIO()) as said:
                code = main(list(arguments))
            text = said.getvalue()
        except BaseException:  # noqa: BLE001 - nothing may get out of the fork and into pytest
            text = traceback.format_exc()
        finally:
            with os.fdopen(send, "w") as pipe:
                pipe.write(text)
            os._exit(code)
    os.close(send)
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def unread(root: Path) -> dict[str, str]:
    code, text = as_nobody("sample", "--json", "--root", str(root))
    assert code == 0, text
    rows = [json.loads(line) for line in text.splitlines()]
    return {row["file"]: row["line"] for row in rows if row["kind"] == "unread"}


def test_what_may_be_read_is_no_problem(root: Path) -> None:
    code, text = as_nobody("doctor", "--root", str(root))

    assert (code, "No problems found." in text) == (0, True), text
    assert unread(root) == {}


HIDDEN = [
    "proc",
    "proc/fs/lustre",
    "proc/fs/lustre/obdfilter",
    OST,
    f"{OST}/job_stats",
    "sys/kernel/debug",
    "sys/kernel/debug/lustre",
    "sys/kernel/debug/lustre/obdfilter",
    DEBUG_OST,
    f"{DEBUG_OST}/exports",
    f"{DEBUG_OST}/exports/10.0.0.7@tcp",
    f"{DEBUG_OST}/exports/10.0.0.7@tcp/stats",
]


@pytest.mark.parametrize("path", HIDDEN)
def test_the_doctor_tells_what_may_not_be_read_and_how_to(root: Path, path: str) -> None:
    (root / path).chmod(0)

    code, text = as_nobody("doctor", "--root", str(root))

    assert code == 1
    shown = "fs-OST0000: job_stats could not be read" if path.endswith("job_stats") else f"Permission denied: /{path}\n"
    assert shown in text
    assert "run as root, or give the agent CAP_DAC_READ_SEARCH" in text
    assert "mounted here\n" not in text
    assert "No problems" not in text


@pytest.mark.parametrize("path", HIDDEN)
def test_sample_has_a_row_for_what_may_not_be_read(root: Path, path: str) -> None:
    (root / path).chmod(0)

    assert unread(root) == {f"/{path}": "Permission denied"}


def test_many_forbidden_files_are_told_briefly(root: Path) -> None:
    for stats in root.glob(f"{DEBUG_OST}/exports/*/stats"):
        stats.chmod(0)

    _, text = as_nobody("doctor", "--root", str(root))

    assert "exports/10.0.0.13@tcp/stats … and 15 more\n" in text
    assert text.count("PROBLEM") == 1


def test_a_link_to_where_we_may_not_go_costs_that_link_only(root: Path) -> None:
    put(root, "closed/fs-OST0001/job_stats", "")
    (root / "closed").chmod(0)
    (root / "proc/fs/lustre/obdfilter/fs-OST0001").symlink_to("../../../../closed/fs-OST0001")

    _, text = as_nobody("doctor", "--root", str(root))

    assert "Permission denied: /proc/fs/lustre/obdfilter/fs-OST0001\n" in text
    assert "\nfs-OST0000 " in text
