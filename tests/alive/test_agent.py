"""A real agent against a small aggregator: real processes, sockets and mTLS."""

import os
import signal
import socket
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from alive.agents import AgentProcess
from alive.receiver import LIMIT_SECONDS, Receiver, make_ca, serve, wait_for
from demo.processes import free_port
from harvest.v1.stream_pb2 import REFUSAL_REASON_NOT_READY, Batch, StreamResponse
from harvest_core.accounting.apply import Stay, apply
from harvest_core.accounting.totals import job_totals
from harvest_core.accounting.wire import joined, read
from harvest_core.facts import Facts
from harvest_pki.folders import CaFolder


@pytest.fixture
def running() -> Iterator[list[AgentProcess]]:
    """Agents that are ended with the test, whatever happens."""
    agents: list[AgentProcess] = []
    yield agents
    for agent in agents:
        if agent.process.poll() is None:
            agent.kill()


def totals(batches: list[Batch]) -> dict[bytes, int]:
    """Return how often every job wrote, as the accounting adds it up; what came twice counts once."""
    stays: dict[tuple[str, str, str], Stay] = {}
    parts: list[Facts] = []
    for batch in batches:
        if batch.last_of_sweep:
            continue
        facts = read(batch)
        if facts.part == 0:  # a sweep that was cut comes again from its beginning
            parts = []
        parts.append(facts)
        if facts.is_last_part:
            apply(stays.setdefault((facts.target, facts.mount.server, facts.mount.boot_id), Stay()), joined(parts))
    return {job: work.write_bytes >> 20 for job, work in job_totals(stays.values()).items()}


def test_sweeps_arrive_and_sigterm_sends_one_more(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver()
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: len(receiver.sweeps()) >= 2, "sweeps")

    agent.show(a=5)
    assert agent.stop() == 0

    assert receiver.identities == ["harvest:example:server:oss1"]
    assert [(hello.agent, hello.protocol) for hello in receiver.hellos] == [("oss1", 1)]
    assert totals(receiver.batches) == {b"a": 5}
    ticks = [batch.tick_seconds for batch in receiver.sweeps()]
    assert ticks == sorted(ticks)
    assert [batch.seq for batch in receiver.sweeps()] == list(range(1, len(ticks) + 1))
    assert "agent.end waiting=0" in agent.said()
    server.stop(0).wait(10)


def test_an_agent_that_was_killed_goes_on_with_what_it_had_spooled(tmp_path: Path, running: list[AgentProcess]) -> None:
    port = free_port()
    tls = make_tls(tmp_path)
    agent = start(running, tmp_path, port)
    wait_for(lambda: "problem text=" in agent.said(), "a sweep in the spool, and a word that nobody listens", 120)
    agent.kill()
    agent.show(a=3, b=1)
    agent.start()

    receiver = Receiver()
    server, _ = serve(receiver, tls, port=port)
    wait_for(lambda: len({batch.incarnation for batch in receiver.sweeps()}) == 2, "both incarnations")

    assert [len(hello.incarnations) for hello in receiver.hellos] == [2]
    assert totals(receiver.batches) == {b"a": 3, b"b": 1}
    old, new = [each.id for each in receiver.hellos[0].incarnations]
    order = [batch.incarnation for batch in receiver.sweeps()]
    assert order == sorted(order, key=[old, new].index)
    assert agent.stop() == 0
    server.stop(0).wait(10)


def test_what_a_cut_stream_had_on_its_way_comes_again(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver(cut_after=3)
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: receiver.streams >= 2 and len(receiver.sweeps()) >= 3, "another stream")

    agent.show(a=9)
    agent.stop()

    seqs = [batch.seq for batch in receiver.batches if not batch.last_of_sweep]
    assert seqs[:3] == [1, 2, 2], "the second sweep was cut, and came again"
    assert totals(receiver.batches) == {b"a": 9}
    server.stop(0).wait(10)


def test_an_aggregator_that_was_restored_gets_again_what_it_lost(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver()
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: len(receiver.sweeps()) >= 3, "sweeps")
    server.stop(0).wait(10)

    restored = Receiver()
    server, _ = serve(restored, tmp_path / "tls", port=port)
    wait_for(lambda: len(restored.sweeps()) >= 4, "all of it")
    agent.stop()

    assert [batch.seq for batch in restored.sweeps()][:3] == [1, 2, 3]
    assert len({batch.incarnation for batch in restored.batches}) == 1
    server.stop(0).wait(10)


def test_a_full_picture_is_another_incarnation_on_another_stream(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver()
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: len(receiver.sweeps()) >= 2, "sweeps")

    receiver.full_picture = True
    receiver.say(receiver.welcome())
    receiver.full_picture = False
    wait_for(lambda: len(receiver.hellos) == 2, "another stream")
    second = receiver.hellos[1].incarnations[-1].id
    wait_for(lambda: receiver.sweeps()[-1].incarnation == second, "another incarnation")
    agent.stop()

    pictures = [batch for batch in receiver.batches if batch.incarnation == second and not batch.last_of_sweep]
    assert pictures[0].order.full
    assert totals(receiver.batches) == {b"a": 1}
    server.stop(0).wait(10)


def test_the_interval_can_change_at_any_time(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver(interval_seconds=1)
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: len(receiver.sweeps()) >= 2, "sweeps")

    receiver.interval_seconds = 2
    receiver.say(receiver.welcome())
    wait_for(lambda: receiver.sweeps()[-1].period_seconds == 2, "the new interval")
    wait_for(lambda: sum(batch.period_seconds == 2 for batch in receiver.sweeps()) >= 3, "more sweeps")
    agent.stop()

    ticks = [batch.tick_seconds for batch in receiver.sweeps() if batch.period_seconds == 2]
    assert all(tick % 2 == 0 for tick in ticks)
    server.stop(0).wait(10)


def test_a_refusal_is_told_and_asked_again_when_it_says(tmp_path: Path, running: list[AgentProcess]) -> None:
    refusal = StreamResponse()
    refusal.refusal.reason = REFUSAL_REASON_NOT_READY
    refusal.refusal.message, refusal.refusal.retry_after_seconds = "no durable place for data", 1
    receiver = Receiver(refusal=refusal)
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: receiver.streams >= 2, "another attempt")
    receiver.refusal = None
    wait_for(lambda: len(receiver.sweeps()) >= 1, "sweeps")
    agent.stop()

    assert 'reason="refused: no durable place for data"' in agent.said()
    server.stop(0).wait(10)


def test_new_tls_files_are_used_without_a_restart(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver()
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: len(receiver.sweeps()) >= 1, "sweeps")

    (agent.tls / "tls.key").write_text("broken")
    wait_for(lambda: "the new TLS files cannot be used" in agent.said(), "a word about it")
    wait_for(lambda: any("TLS files" in text for text in health_problems(receiver)), "a word upstream")
    agent.issue()
    wait_for(lambda: receiver.streams >= 2, "another stream")
    seen = len(receiver.sweeps())
    wait_for(lambda: len(receiver.sweeps()) > seen, "sweeps go on")
    agent.stop()

    assert not health_problems(receiver)[-1:] or "TLS" not in health_problems(receiver)[-1]
    server.stop(0).wait(10)


def test_sighup_looks_at_the_tls_files_now(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver(interval_seconds=3600)
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: "uplink.connected" in agent.said(), "a stream")

    agent.issue()
    agent.process.send_signal(signal.SIGHUP)
    wait_for(lambda: receiver.streams >= 2, "another stream, though no sweep is near")
    assert agent.stop() == 0
    server.stop(0).wait(10)


def test_a_configuration_that_is_followed_makes_the_agent_begin_anew_and_a_broken_one_does_not(
    tmp_path: Path, running: list[AgentProcess]
) -> None:
    receivers, tls = [Receiver(), Receiver()], make_tls(tmp_path)
    (first, port), (second, other) = (serve(receiver, tls) for receiver in receivers)
    running.append(AgentProcess(tmp_path, CaFolder(tmp_path / "ca"), (port,), options=("--follow",)))
    agent = running[-1]
    wait_for(lambda: len(receivers[0].sweeps()) >= 1, "sweeps")

    good = agent.config.read_text()
    agent.config.write_text(f"{good}[nonsense]\n")
    wait_for(lambda: any("nonsense" in text for text in health_problems(receivers[0])), "a word upstream")
    agent.show(a=3)
    agent.config.write_text(f"{agent.uplink(other)}{good}")
    wait_for(lambda: len(receivers[1].sweeps()) >= 1, "sweeps for the aggregator that is new")
    agent.show(a=7)
    assert agent.stop() == 0

    assert agent.said().count("agent.anew") == 1
    assert [totals(receiver.batches) for receiver in receivers] == [{b"a": 7}, {b"a": 7}]
    for server in (first, second):
        server.stop(0).wait(10)


def test_an_aggregator_of_another_ca_is_not_spoken_to(tmp_path: Path, running: list[AgentProcess]) -> None:
    (tmp_path / "other").mkdir()
    make_ca(tmp_path / "other")
    receiver = Receiver()
    server, port = serve(receiver, tmp_path / "other" / "tls")
    make_tls(tmp_path)
    agent = start(running, tmp_path, port)
    wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in agent.said(), "the reason")
    agent.stop()

    assert receiver.hellos == []
    assert "uplink.trouble" in agent.said()
    assert "PRIVATE KEY" not in agent.said()
    server.stop(0).wait(10)


def test_two_aggregators_get_everything_each_at_its_own_pace(tmp_path: Path, running: list[AgentProcess]) -> None:
    tls = make_tls(tmp_path)
    here = Receiver()
    server, port = serve(here, tls)
    late_port = free_port()
    agent = start(running, tmp_path, port, late_port)
    wait_for(lambda: len(here.sweeps()) >= 3, "sweeps at the one that is there")
    there = Receiver(filesystems=("other",))
    late, _ = serve(there, tls, port=late_port)
    wait_for(lambda: len(there.sweeps()) >= 4, "sweeps at the one that came late")
    agent.stop()

    assert [batch.seq for batch in there.sweeps()][:4] == [1, 2, 3, 4]
    assert all(batch.last_of_sweep for batch in there.batches), "it wants no file system that is here"
    assert totals(here.batches) == {b"a": 1}
    for one in (server, late):
        one.stop(0).wait(10)


def test_a_spool_that_cannot_be_read_for_a_while_loses_nothing(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver()
    server, port = serve(receiver, make_tls(tmp_path))
    agent = start(running, tmp_path, port)
    wait_for(lambda: len(receiver.sweeps()) >= 1, "sweeps")

    (segment,) = (tmp_path / "spool").glob("*.spool")
    kept = segment.rename(tmp_path / "kept")
    segment.symlink_to(segment.name)  # which nobody can open
    agent.show(a=4)
    wait_for(lambda: "nothing is sent while the spool cannot be read" in agent.said(), "a word about it")
    kept.replace(segment)
    seen = len(receiver.sweeps())
    wait_for(lambda: len(receiver.sweeps()) > seen + 1, "sweeps go on")
    agent.stop()

    assert [batch.seq for batch in receiver.sweeps()] == list(range(1, len(receiver.sweeps()) + 1))
    assert any("cannot be read" in text for batch in receiver.sweeps() for text in batch.end.health.problems)
    assert totals(receiver.batches) == {b"a": 4}
    server.stop(0).wait(10)


def test_systemd_hears_how_it_goes(tmp_path: Path, running: list[AgentProcess]) -> None:
    receiver = Receiver()
    server, port = serve(receiver, make_tls(tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(LIMIT_SECONDS)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1500000"}
        agent = start(running, tmp_path, port, environment=environment)
        heard = [""]
        while not heard[-1].startswith("STATUS=1 targets, 1 jobs; 1 of 1 aggregators"):
            heard.append(manager.recv(4096).decode())
        agent.process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in heard:
            heard.append(manager.recv(4096).decode())
        assert agent.process.wait(LIMIT_SECONDS) == 0

    assert heard[1] == "READY=1"
    assert "WATCHDOG=1" in heard
    server.stop(0).wait(10)


def test_what_cannot_be_used_is_refused_at_the_start(tmp_path: Path, running: list[AgentProcess]) -> None:
    make_tls(tmp_path)
    agent = start(running, tmp_path, free_port())
    wait_for(lambda: "agent.start" in agent.said(), "the first one")
    again = copy(agent)
    again.start()
    running.append(again)
    assert again.process.wait(LIMIT_SECONDS) == 2
    assert "another agent uses the spool folder" in agent.said()
    agent.kill()

    (agent.tls / "tls.key").chmod(0o644)
    agent.start()
    assert agent.process.wait(LIMIT_SECONDS) == 2
    assert "others can read the key" in agent.said()


def make_tls(folder: Path) -> Path:
    make_ca(folder)
    return folder / "tls"


def start(
    running: list[AgentProcess], folder: Path, *ports: int, environment: dict[str, str] | None = None
) -> AgentProcess:
    running.append(AgentProcess(folder, CaFolder(folder / "ca"), ports, environment))
    return running[-1]


def health_problems(receiver: Receiver) -> list[str]:
    return [problem for batch in receiver.sweeps()[-1:] for problem in batch.end.health.problems]
