"""When a real agent sweeps: on the wall clock's multiples of the interval, whatever happened in between."""

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

from alive.agents import AgentProcess
from alive.receiver import Receiver, make_ca, serve, wait_for
from demo.processes import free_port
from harvest.v1.stream_pb2 import Batch


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
        wait_for(lambda: any(problems(sweep) for sweep in receiver.sweeps()), "the aggregator to hear of it")
        wait_for(lambda: not problems(receiver.sweeps()[-1]), "sweeps without a gap")

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

        def ticks() -> list[int]:
            return [batch.tick_seconds for batch in receiver.sweeps()[seen:]]

        wait_for(lambda: any(after - before == 1 for before, after in pairwise(ticks())), "sweeps at every second")
    finally:
        agent.kill()
        server.stop(0).wait(10)


def problems(sweep: Batch) -> list[str]:
    """Return what a sweep says of those that were skipped."""
    return [text for text in sweep.end.health.problems if "sweeps were skipped" in text]
