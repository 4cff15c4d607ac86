"""When a real agent sweeps: on the wall clock's multiples of the interval, whatever happened in between."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

from alive.agents import AgentProcess
from alive.receiver import Receiver, make_ca, serve, wait_for
from demo.processes import free_port


def test_sweeps_are_aligned_again_after_a_stop_and_the_gap_is_told(tmp_path: Path) -> None:
    receiver = Receiver(interval_seconds=2)
    ca = make_ca(tmp_path)
    server, port = serve(receiver, tmp_path / "tls")
    agent = AgentProcess(tmp_path, ca, (port,))
    try:
        wait_for(lambda: len(receiver.sweeps()) >= 2, "sweeps")
        os.kill(agent.process.pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(agent.process.pid, signal.SIGCONT)
        wait_for(lambda: "sweeps were skipped for" in agent.said(), "the gap to be told")
        wait_for(lambda: any("skipped" in text for text in problems(receiver)), "the aggregator to hear of it")
        wait_for(lambda: not problems(receiver), "sweeps without a gap")

        assert agent.stop() == 0
        ticks = [batch.tick_seconds for batch in receiver.sweeps() if batch.period_seconds == 2]
        assert not [tick for tick in ticks if tick % 2]
        assert max(after - before for before, after in pairwise(ticks)) >= 4
    finally:
        if agent.process.poll() is None:
            agent.kill()
        server.stop(0).wait(10)


def test_sweeps_stay_aligned_while_nobody_listens_and_after(tmp_path: Path) -> None:
    receiver = Receiver()
    ca = make_ca(tmp_path)
    port = free_port()
    server, _ = serve(receiver, tmp_path / "tls", port=port)
    agent = AgentProcess(tmp_path, ca, (port,))
    try:
        wait_for(lambda: len(receiver.sweeps()) >= 2, "sweeps")
        server.stop(0).wait(10)
        time.sleep(3)
        server, _ = serve(receiver, tmp_path / "tls", port=port)
        wait_for(lambda: len(receiver.hellos) >= 2, "another stream")
        seen = len(receiver.sweeps())
        wait_for(lambda: len(receiver.sweeps()) >= seen + 2, "sweeps again")

        ticks = sorted({batch.tick_seconds for batch in receiver.sweeps()})
        assert ticks[-1] - ticks[-2] == 1
    finally:
        agent.kill()
        server.stop(0).wait(10)


def problems(receiver: Receiver) -> list[str]:
    return list(receiver.sweeps()[-1].end.health.problems)
