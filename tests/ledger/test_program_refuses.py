"""``harvest-aggregator run`` on a ledger that cannot be used: it says what to do, ends, and changes nothing."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from harvest_aggregator import locking
from harvest_aggregator.__main__ import main
from harvest_aggregator.tables import SCHEMA_VERSION
from support.processes import running
from support.uplinks import hello, sweep

RESTORE = "restore a backup (harvest-aggregator restore), or move the file away"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site's folder with a ledger that a real aggregator filled and left in good order."""
    folder = tmp_path_factory.mktemp("good")
    with running(folder) as here:

        async def fill() -> None:
            agent = here.agent("oss1")
            await agent.begin(hello("oss1", "home-OST0000"))
            await agent.say(*sweep(1))
            assert await agent.acknowledged() == 1
            await agent.close()

        asyncio.run(fill())
        assert here.stop() == 0
    return folder


@pytest.fixture
def folder(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


def options(folder: Path) -> list[str]:
    addresses = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    return ["run", "--site", str(folder / "site.yaml"), "--data", str(folder / "data"), *addresses]


def content(folder: Path) -> Mapping[str, bytes]:
    """Return every file; but the lock, in which whoever has it writes its process id."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in (folder / "data").rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def refused(folder: Path) -> str:
    """Run the program to its end; return what it said last."""
    before = content(folder)
    command = [sys.executable, "-m", "harvest_aggregator", *options(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert content(folder) == before
    return ran.stderr.splitlines()[-1]


def cut_short(ledger: Path) -> None:
    ledger.write_bytes(ledger.read_bytes()[:-16384])


def overwrite_a_page(ledger: Path) -> None:
    whole = bytearray(ledger.read_bytes())
    whole[16384:20480] = b"\xff" * 4096
    ledger.write_bytes(whole)


def replace(ledger: Path) -> None:
    ledger.write_bytes(b"Dear diary, today nothing was read. " * 1000)


def make_newer(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger)) as opened:
        opened.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_short, ("is damaged", RESTORE)),
        (overwrite_a_page, ("is damaged", RESTORE)),
        (replace, ("is not a ledger of Harvest", RESTORE)),
        (make_newer, (f"this aggregator reads version {SCHEMA_VERSION}", "run the aggregator that wrote it")),
    ],
)
def test_a_ledger_that_is_no_good_is_refused(
    folder: Path, damage: Callable[[Path], None], said: tuple[str, ...]
) -> None:
    damage(folder / "data/ledger.db")
    last = refused(folder)
    assert all(part in last for part in (str(folder / "data/ledger.db"), *said)), last


def test_a_second_aggregator_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        last = refused(tmp_path)
        assert f"process {here.process.pid} has the ledger" in last
        assert "stop that one first, or give this one a --data folder of its own" in last
        assert here.get("readyz")[0] == 200


def test_a_ledger_on_a_network_file_system_is_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """In this process, because what the kernel says about mounts is the one thing that is not real here."""
    request.addfinalizer(structlog.reset_defaults)
    monkeypatch.setattr(locking.filesystem_type, "__defaults__", ("1 0 0:50 / / rw - nfs4 filer:/export rw",))
    before = content(folder)
    assert main(options(folder)) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "is on a network file system (nfs4)" in last
    assert "put it on a local disk (--data)" in last
    assert content(folder) == before
