"""The processes of a test's Slurm: each has a log, a limit and an end."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.processes import LIMIT_SECONDS, wait_for

_NAMED = ("unshare", "--uts", "sh", "-c", 'hostname localhost && exec "$0" "$@"')
_GUARD = """
import sys
sys.stdin.buffer.read()
from pathlib import Path
from shutil import rmtree
from support.slurm_processes import kill_strays
kill_strays(Path(sys.argv[1]), sys.argv[2])
rmtree(sys.argv[1])
"""


@dataclass
class Daemon:
    """One of them, in the foreground, on a host called localhost."""

    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str]

    def __post_init__(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_NAMED, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self.env,
                start_new_session=True,  # an interrupt is for the tests, which stop it in good order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, condition: Callable[[], object], *, seconds: float) -> None:
        """Wait until it is ready; say what it logged if it ends or takes too long."""
        with self._told():
            wait_for(lambda: condition() or not self.alive(), f"{self.name} to be ready", seconds=seconds)
            assert self.alive(), f"{self.name} ended with {self._process.returncode}"

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def stop(self) -> None:
        self.send(signal.SIGTERM)
        with self._told():
            try:
                self._process.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(LIMIT_SECONDS)
                raise AssertionError(f"{self.name} did not stop") from None

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            tail = self.log.read_text(errors="replace").splitlines()[-20:]
            raise AssertionError("\n".join([str(error), f"--- the end of {self.log}:", *tail])) from None


class Guard:
    """Clears up where the tests are killed before they can: ends what is left, and removes the folder."""

    def __init__(self, folder: Path, conf: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _GUARD, folder, conf],
            stdin=subprocess.PIPE,  # it ends with us, whatever ends us
            env={"PYTHONPATH": str(Path(__file__).parents[1])},
            start_new_session=True,
        )

    def dismiss(self) -> None:
        self._process.kill()
        self._process.communicate()


def kill_strays(folder: Path, conf: str) -> None:
    """End what outlives daemons, such as steps of jobs: whoever was told of slurm.conf or has a file of the folder."""
    told = f"SLURM_CONF={conf}\0".encode()

    def are_gone() -> bool:
        strays = [
            process
            for process in Path("/proc").glob("[1-9]*")
            if told in _environment(process) or any(file.is_relative_to(folder) for file in _files(process))
        ]
        for process in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)
        return not strays

    wait_for(are_gone, f"nothing left of {folder}")


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it is gone
        return b""


def _files(process: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for file in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                yield file.readlink()
