"""Commands as child processes: one at a time, with limits of time and size, and nothing left behind."""

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from harvest_agent.slurm.sources import OUTPUT_MOST, SlurmError, TooSlowError
from harvest_agent.tables import shown

_PIECE_BYTES: Final = 1 << 18
_COMPLAINT_MOST: Final = 4096
_QUOTED_MOST: Final = 240
_REAP_SECONDS: Final = 5.0


class Children:
    """Runs commands for one thread; another one may stop it."""

    def __init__(self, environment: Mapping[str, str], limit_seconds: float) -> None:
        self._environment = environment
        self._limit_seconds = limit_seconds
        self._waker, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_stopped = threading.Event()
        self._left: subprocess.Popen[bytes] | None = None
        """Killed, and not dead: it hangs in the kernel."""

    def stop(self) -> None:
        """End what runs, and run nothing more."""
        self._is_stopped.set()
        with suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def output(self, command: Sequence[str]) -> Generator[bytes]:
        """Yield what a command prints; raise if it fails, takes too long or prints too much."""
        self._check()
        name = os.path.basename(command[0])
        try:
            child = subprocess.Popen(  # noqa: S603 - what the configuration says
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # its own group, which is killed as a whole
            )
        except OSError as error:
            raise SlurmError(f"{shown(command[0])} cannot be run: {error.strerror}") from error
        complaint = bytearray()
        try:
            yield from self._pieces(child, name, complaint)
            self._await_end(child, name)
        finally:
            self._kill(child)
        if child.returncode:
            raise SlurmError(f"{name} failed with code {child.returncode}{_quoted(complaint)}")

    def _check(self) -> None:
        if self._is_stopped.is_set():
            raise SlurmError("the agent ends")
        if self._left is not None:
            if self._left.poll() is None:
                raise SlurmError(f"process {self._left.pid} was killed and does not die: no other is started")
            self._left = None

    def _pieces(self, child: "subprocess.Popen[bytes]", name: str, complaint: bytearray) -> Iterator[bytes]:
        assert child.stdout is not None  # noqa: S101 - they are pipes
        assert child.stderr is not None  # noqa: S101
        self._deadline = time.monotonic() + self._limit_seconds
        out, err = child.stdout.fileno(), child.stderr.fileno()
        open_pipes = {out, err}
        size = 0
        while open_pipes:
            ready, _, _ = select.select([*open_pipes, self._waker], [], [], max(self._deadline - time.monotonic(), 0))
            self._check()
            if not ready:
                raise TooSlowError(f"{name} did not answer in {self._limit_seconds:g} s{_quoted(complaint)}")
            for pipe in open_pipes.intersection(ready):
                piece = os.read(pipe, _PIECE_BYTES)
                if not piece:
                    open_pipes.remove(pipe)
                elif pipe == err:
                    complaint += piece[: _COMPLAINT_MOST - len(complaint)]
                else:
                    size += len(piece)
                    if size > OUTPUT_MOST:
                        raise SlurmError(f"{name} printed more than {OUTPUT_MOST} bytes")
                    yield piece

    def _await_end(self, child: "subprocess.Popen[bytes]", name: str) -> None:
        """Wait until it is dead, and leave it as it is: while it is a zombie no other process can have its number."""
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > self._deadline:
                raise SlurmError(f"{name} did not end in {self._limit_seconds:g} s")
            select.select([self._waker], [], [], 0.01)
            self._check()

    def _kill(self, child: "subprocess.Popen[bytes]") -> None:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        with suppress(ProcessLookupError):  # also what it has started and left behind
            os.killpg(child.pid, signal.SIGKILL)
        try:
            child.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self._left = child


def _quoted(complaint: bytearray) -> str:
    """Return what a command had to say, on one line."""
    words = " ".join(complaint.decode("utf-8", "replace").split())
    return f": {words[:_QUOTED_MOST]}" if words else ""
