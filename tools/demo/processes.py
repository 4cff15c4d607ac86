"""Harvest's own programs as processes of this one; each has a log, and is stopped by its pid."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

_STOP_SECONDS = 60
_FIRST_PORT = 10_000
_CHANCE_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
BIN = Path(sys.executable).parent


class ProcessError(Exception):
    """A program of ours ended, or did not do what it was asked for; the message has the end of its log."""


def free_port() -> int:
    """Return a port of the loopback that nobody has, neither of TCP nor of UDP, and that this never returned before.

    It is below those that the system gives to whoever asks for any: nobody gets it by chance before it is used, nor
    while a program that listens there is started again.
    """
    return next(port for port in _ports() if _is_free(port))


@cache
def _ports() -> Iterator[int]:
    lowest_by_chance = int(_CHANCE_PORTS.read_text().split()[0])
    return iter(random.sample(range(_FIRST_PORT, lowest_by_chance), 1000))


def _is_free(port: int) -> bool:
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        try:
            for probe in (stream, datagrams):
                probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def run(*command: str) -> str:
    """Run a program of ours to its end, and return what it printed."""
    done = subprocess.run([BIN / command[0], *command[1:]], capture_output=True, text=True, check=False)  # noqa: S603 our own
    if done.returncode:
        raise ProcessError(f"{' '.join(command)} failed:\n{done.stderr or done.stdout}")
    return done.stdout


class Program:
    """A program that runs until it is stopped; it can be started again."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [str(BIN / command[0]), *command[1:]]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The pid of the running process."""
        if self._process is None:
            raise ProcessError(f"{self.name} was not started")
        return self._process.pid

    def start(self, **environment: str) -> None:
        """Start it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 our own
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
            )

    def check(self) -> None:
        """Complain if it has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._process = None
            raise ProcessError(f"{self.name} ended with code {code}:\n{self.tail()}")

    def kill(self) -> None:
        """End it without a warning, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """Ask it to end, and return its exit code; none if it did not run."""
        return self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stop its time."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 15) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, number: int) -> int | None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return None if process is None else process.returncode
        process.send_signal(number)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ProcessError(f"{self.name} did not stop within {_STOP_SECONDS} s:\n{self.tail()}") from None
