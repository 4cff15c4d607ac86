"""A real terminal: tmux on a socket of its own, with one program in it."""

import contextlib
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from support.processes import LIMIT_SECONDS, wait_for

_NUMBERS = itertools.count()


class Terminal:
    """What somebody sees, and a keyboard."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *command: str, **environment: str) -> str:
        """Run a command of tmux."""
        return subprocess.run(
            ["tmux", "-u", "-S", str(self._socket), "-f", "/dev/null", *command],
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT_SECONDS,
        ).stdout

    def press(self, *keys: str) -> None:
        """Press keys, each a letter or one of tmux's names."""
        self.tmux("send-keys", *keys)

    def type(self, line: str) -> None:
        """Type a line."""
        self.tmux("send-keys", "-l", line)
        self.press("Enter")

    def resize(self, width: int, height: int) -> None:
        """Make the window smaller or larger."""
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def lines(self) -> list[str]:
        """Return what is on the screen, without blanks at the ends."""
        return self.tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def wait_for(self, is_there: Callable[[list[str]], object], what: str) -> list[str]:
        """Wait until something is on the screen, and return all of it."""
        seen: list[str] = []

        def look() -> object:
            seen[:] = self.lines()
            return is_there(seen)

        try:
            wait_for(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen shows:\n" + "\n".join(seen)) from error
        return seen


@contextlib.contextmanager
def terminal(
    folder: Path, command: str, *, width: int = 100, height: int = 24, **environment: str
) -> Iterator[Terminal]:
    """Open a terminal that runs a command of the shell; it is gone afterwards, with whatever runs in it."""
    made = Terminal(folder / f"tmux{next(_NUMBERS)}")  # a server that is told to end may still be on the last one
    made.tmux("new-session", "-d", "-x", str(width), "-y", str(height), command, **environment)
    try:
        yield made
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # the program ended, and the terminal with it
            made.tmux("kill-server")
