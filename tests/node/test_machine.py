"""The machine that a node runs in keeps to itself."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.kubernetes.machine import Machine
from support.processes import wait_for

SETTING = Path("/proc/sys/kernel/panic")
START = """
import signal, sys
from pathlib import Path
from support.kubernetes.machine import Machine
machine = Machine(Path(sys.argv[1]))
machine.start()
machine.start_program("sleep", "sleep", "1000")
print(machine.name, flush=True)
signal.pause()
"""


def sleepers(folder: Path) -> list[int]:
    """Return the processes that came out of a folder's machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # many end just now
            if os.fsencode(folder) in path.joinpath("cmdline").read_bytes():
                found.append(int(path.name))
    return found


def test_what_is_done_inside_is_not_seen_outside(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    before = SETTING.read_text()
    machine.start()
    try:
        machine.run("mkdir", f"/var/lib/{machine.name}", f"/run/{machine.name}")
        assert machine.run("cat", str(SETTING)) == "10\n"
        assert machine.run("ip", "-brief", "address", "show", "dev", "eth0").split()[2] == f"{machine.inside}/30"
        assert machine.seen(f"/var/lib/{machine.name}").exists()
        assert not Path("/var/lib", machine.name).exists()
        assert not Path("/run", machine.name).exists()
        assert SETTING.read_text() == before
        assert list(machine.state.iterdir()) == []
    finally:
        machine.stop()
    assert not Path("/sys/class/net", machine.name).exists()


def test_a_program_inside_can_be_ended_and_one_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.start()
    try:
        machine.start_program("sleep", "sleep", "1000")
        machine.check()
        machine.end_program("sleep", signal.SIGKILL)
        machine.start_program("sleep", "bash", "-c", "echo had enough; exit 1")
        with pytest.raises(AssertionError, match="sleep ended:\nhad enough"):
            wait_for(machine.check, "nothing")
    finally:
        machine.stop()


def test_it_goes_with_whoever_started_it_even_if_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starter = subprocess.Popen(
        [sys.executable, "-c", START, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert starter.stdout is not None
    with starter.stdout:
        name = starter.stdout.readline().strip()
    assert Path("/sys/class/net", name).exists()
    starter.kill()
    starter.wait()
    wait_for(lambda: not Path("/sys/class/net", name).exists(), "the end of its network")
    wait_for(lambda: not sleepers(tmp_path), "the end of its processes")
