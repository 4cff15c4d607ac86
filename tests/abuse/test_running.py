"""The aggregator as a process: started, told of changes, stopped."""

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import grpc

from harvest.v1.stream_pb2 import RefusalReason
from support.processes import LIMIT_SECONDS, running, wait_for
from support.uplinks import SITE, hello, sweep


def test_it_serves_keeps_and_stops_in_good_order(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        assert here.get("readyz") == (
            200,
            {
                "ready": True,
                "reasons": [],
                "warnings": [],
            },
        )

        async def sweeps() -> None:
            agent = here.agent("oss1")
            await agent.begin(hello("oss1", "home-OST0000"))
            for seq in (1, 2):
                await agent.say(*sweep(seq))
                assert await agent.acknowledged() == seq
            await agent.close()

        asyncio.run(sweeps())
        assert here.stop() == 0
        here.start()

        async def again() -> None:
            agent = here.agent("oss1")
            welcome = await agent.begin(hello("oss1", "home-OST0000", last_seq=2))
            assert [ack.seq for ack in welcome.resume] == [2]
            assert not welcome.full_picture
            here.process.send_signal(signal.SIGINT)
            assert "is being stopped" in (await agent.refused()).message
            await agent.close()

        asyncio.run(again())
        assert here.process.wait(LIMIT_SECONDS) == 0
        assert here.events("stopped")
        assert "Traceback" not in here.log.read_text()


def test_a_changed_site_is_used_and_a_bad_one_refused(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        here.change(SITE.replace("oss[1-4]", "oss[1-2"))
        wait_for(lambda: here.events("changed files refused, the old ones stay in use"), "the refusal")
        status, said = here.get("readyz")
        assert status == 200
        assert "filesystems[0].servers[0]" in said["warnings"][0]

        async def cut() -> None:
            agent = here.agent("oss3")
            await agent.begin(hello("oss3"))
            here.change(SITE.replace("oss[1-4]", "oss[1-2]"))
            code, details = await agent.ended()
            assert code is grpc.StatusCode.PERMISSION_DENIED
            assert "oss3 is not listed" in details
            await agent.close()

        asyncio.run(cut())
        wait_for(lambda: here.events("changed files are in use"), "the changed site")
        assert here.events("agent denied")[-1]["agent"] == "oss3"
        assert here.get("readyz")[1]["warnings"] == []
        here.process.send_signal(signal.SIGHUP)
        wait_for(lambda: len(here.events("changed files are in use")) == 2, "SIGHUP")


def test_who_is_listed_no_more_goes_although_the_ledger_cannot_be_read_and_the_rest_follows(tmp_path: Path) -> None:
    with running(tmp_path) as here:

        async def scenario() -> None:
            gone, stays = here.agent("oss3"), here.agent("oss1")
            await gone.begin(hello("oss3"))
            await stays.begin(hello("oss1"))
            with contextlib.closing(sqlite3.connect(here.data / "ledger.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")  # whoever else wants to use the ledger waits, in vain
                here.change(SITE.replace("oss[1-4]", "oss[1-2]") + "  - {name: more, servers: [oss1, x1]}\n")
                assert (await gone.ended())[0] is grpc.StatusCode.PERMISSION_DENIED
                comes = here.agent("x1")
                assert (await comes.refused()).reason == RefusalReason.REFUSAL_REASON_NOT_READY
                await asyncio.to_thread(
                    wait_for, lambda: "waits for the ledger" in str(here.get("readyz")[1]["warnings"]), "the warning"
                )
                log = here.log.read_text()
                assert log.index("agent denied") < log.index("a changed site waits for the ledger")
                assert not here.events("changed files are in use")
            assert [one.fsname for one in (await stays.hear()).welcome.filesystems] == ["home", "scratch", "more"]
            assert here.get("readyz")[1]["warnings"] == []
            for agent in (gone, stays, comes):
                await agent.close()

        asyncio.run(asyncio.wait_for(scenario(), 4 * LIMIT_SECONDS))


def test_new_certificates_are_used_without_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        before = here.data / "tls/tls.crt"
        shown = before.read_bytes()
        here.ca.write_server(here.data / "tls", "main", now=datetime.now(UTC))
        wait_for(lambda: here.events("changed files are in use"), "the new certificate")
        presented = subprocess.run(
            ["openssl", "s_client", "-connect", here.address],
            input=b"",
            capture_output=True,
            check=False,
        ).stdout
        assert before.read_bytes() != shown
        assert before.read_bytes().strip() in presented


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        second = [sys.executable, "-m", "harvest_aggregator", "run", "--site", str(here.site), "--data", str(here.data)]
        ran = subprocess.run([*second, "--http", "127.0.0.1:0"], capture_output=True, check=False, timeout=60)
        assert ran.returncode == 2
        assert b"stop that one first" in ran.stderr.splitlines()[-1]
        elsewhere = [*second[:-1], str(tmp_path / "other"), "--tls", str(here.data / "tls"), "--http", "127.0.0.1:0"]
        ran = subprocess.run([*elsewhere, "--grpc", here.address], capture_output=True, check=False, timeout=60)
        assert ran.returncode == 2
        assert b"cannot listen on" in ran.stderr.splitlines()[-1]
