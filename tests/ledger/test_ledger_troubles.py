"""Real processes on one ledger, and a disk without room."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from ledger.histories import SITE
from ledger.keeper_process import LIMIT_SECONDS, KeeperProcess, Sent
from support.deliveries import Writer


def sweep(agent: Writer, written: int) -> Sent:
    made = agent.sweep({b"7": written, b"8" * 1000: written})
    return made.agent, made.incarnation, made.seq, [bytes(payload) for payload, _ in made.batches]


def writer() -> Writer:
    return Writer(name="s0", targets=("fs-OST0000",))


def test_a_second_aggregator_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    with KeeperProcess(tmp_path / "ledger.db", SITE) as first:
        assert first.started
        with KeeperProcess(tmp_path / "ledger.db", SITE) as second:
            assert not second.started
            assert f"process {first.pid} has the ledger" in second.refusal
            assert "stop that one first" in second.refusal
    with KeeperProcess(tmp_path / "ledger.db", SITE) as third:
        assert third.started


def test_without_room_nothing_is_acknowledged_and_all_is_well_when_there_is(tmp_path: Path) -> None:
    agent = writer()
    with KeeperProcess(tmp_path / "ledger.db", SITE) as keeper:
        keeper.deliver([sweep(agent, 1)])
        assert keeper.answer()[1] is None
        keeper.ask("limit", 1000)  # no file may grow beyond this
        refused = sweep(agent, 2)
        keeper.deliver([refused])
        assert "LedgerError" in keeper.answer()[1]
        assert "cannot be used now" in keeper.ask("problem")
        assert keeper.ask("resume", ("s0", [agent.incarnation])) == {agent.incarnation: 1}

        keeper.ask("limit", -1)
        until = time.monotonic() + LIMIT_SECONDS
        while keeper.ask("problem") is not None:
            assert time.monotonic() < until
            time.sleep(0.05)
        keeper.deliver([refused])
        assert keeper.answer()[1] is None
        assert keeper.ask("totals")["done"]["OST"][b"7"].write_bytes == 2 << 20


def test_a_backup_of_a_ledger_that_is_being_written_is_one_moment_of_it(tmp_path: Path) -> None:
    agent = writer()
    backup = "import sys, pathlib, harvest_aggregator.backups as b; b.backup(*map(pathlib.Path, sys.argv[1:]))"
    with KeeperProcess(tmp_path / "ledger.db", SITE) as keeper:
        sent = [sweep(agent, count) for count in range(1, 301)]
        keeper.deliver(sent)
        assert keeper.answer()[1] is None
        subprocess.run(
            [sys.executable, "-c", backup, str(tmp_path / "ledger.db"), str(tmp_path / "copy.db")],
            check=True,
            timeout=LIMIT_SECONDS,
        )
        for _ in sent[1:]:
            assert keeper.answer()[1] is None
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        (acked,) = copy.execute("SELECT acked_seq FROM stream").fetchone()
    with KeeperProcess(tmp_path / "copy.db", SITE) as restored:
        assert restored.ask("totals")["done"]["OST"][b"7"].write_bytes == acked << 20
