"""``harvest top`` on a terminal: the screen, the keys, and asking meanwhile."""

import contextlib
import os
import queue
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from harvest_cli.keys import pressed_keys
from harvest_cli.printing import screenful
from harvest_cli.top import KEYS, Shown, View, pressed, sheet

_CHROME_LINES: Final = 3
_RESIZED: Final = b"w"
_STOPPED: Final = b"z"
_ANSWERED: Final = b"a"


def can_fill_screen(console: Console) -> bool:
    """Tell whether there is a terminal on both sides that can do more than print."""
    return console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty()


class _Asking:
    """Asks in a thread of its own, so that keys work while an aggregator hangs. It dies with the program."""

    def __init__(self, look: Callable[[View], Shown], wake: Callable[[bytes], None]) -> None:
        self._look = look
        self._wake = wake
        self._views: queue.SimpleQueue[View] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[Shown | BaseException] = queue.SimpleQueue()
        self.is_busy = False
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, view: View) -> None:
        self.is_busy = True
        self._views.put(view)

    def found(self) -> Shown:
        """Return what was found, or complain as asking did."""
        self.is_busy = False
        found = self._found.get_nowait()
        if isinstance(found, BaseException):
            raise found
        return found

    def _run(self) -> None:
        while True:
            view = self._views.get()
            try:
                self._found.put(self._look(view))
            except BaseException as error:  # noqa: BLE001 - told in the thread that shows it
                self._found.put(error)
            self._wake(_ANSWERED)


class _Watch:
    """What is shown, what is wanted, and when to look again."""

    def __init__(self, view: View, look: Callable[[View], Shown], interval_seconds: float) -> None:
        self.view = view
        self.last: Shown | None = None
        self.events, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._interval_seconds = interval_seconds
        self._asking = _Asking(look, self.tell)
        self._next_at = time.monotonic()
        self._begun_key = ""

    def tell(self, event: bytes) -> None:
        """Wake whoever waits; from any thread, and from a signal's handler."""
        with contextlib.suppress(BlockingIOError):  # full: there is enough to do anyway
            os.write(self._wake, event)

    def ask_if_due(self) -> float | None:
        """Look again if it is time to; return how long nothing will happen by itself."""
        if not self._asking.is_busy and time.monotonic() >= self._next_at:
            self._asking.ask(self.view)
        return None if self._asking.is_busy else max(self._next_at - time.monotonic(), 0)

    def answered(self) -> None:
        """Take what was found; if meanwhile something else is wanted, that is asked for at once."""
        self.last = self._asking.found()
        is_other = replace(self.last.view, limit=self.view.limit) != self.view
        self._next_at = time.monotonic() + (0 if is_other else self._interval_seconds)

    def typed(self, text: str) -> None:
        """Do what keys say."""
        keys, self._begun_key = pressed_keys(self._begun_key, text)
        for key in keys:
            self.view = pressed(self.view, key)
        if keys:
            self._next_at = time.monotonic()


def watch(console: Console, view: View, look: Callable[[View], Shown], *, interval_seconds: float, fills: bool) -> None:
    """Show a view until somebody has seen enough; ``fills``: as many lines as there is room for."""
    seen = _Watch(view, look, interval_seconds)
    handlers: Mapping[signal.Signals, Callable[[int, object], None]] = {
        signal.SIGWINCH: lambda *_: seen.tell(_RESIZED),
        signal.SIGTSTP: lambda *_: seen.tell(_STOPPED),
        signal.SIGTERM: _leave,
        signal.SIGHUP: _leave,
    }
    with (
        _signals(handlers),
        _keys_at_once() as keyboard,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while not seen.view.is_over:
            width, height = console.size
            if fills:
                seen.view = replace(seen.view, limit=max(height - _CHROME_LINES, 1))
            wait_seconds = seen.ask_if_due()
            troubles = seen.last.troubles if seen.last else ()
            shown = sheet(seen.view, seen.last)
            page = screenful(shown, width=width, height=height, warnings=troubles, foot=KEYS)
            live.update(page, refresh=True)
            ready, _, _ = select.select([sys.stdin, seen.events], [], [], wait_seconds)
            event = os.read(seen.events, 1) if seen.events in ready else b""
            if event == _ANSWERED:
                seen.answered()
            if event == _STOPPED:
                _stop(live, keyboard)
            if sys.stdin in ready:
                seen.typed(_read_keys())


def _read_keys() -> str:
    data = os.read(sys.stdin.fileno(), 1024)
    return data.decode("latin-1") if data else "q"  # the terminal is gone


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _stop(live: Live, keyboard: list[Any]) -> None:
    """Give the terminal back while the shell has it."""
    live.stop()
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, keyboard)
    os.kill(os.getpid(), signal.SIGSTOP)
    tty.setcbreak(sys.stdin.fileno())
    live.start()


@contextlib.contextmanager
def _signals(handlers: Mapping[signal.Signals, Callable[[int, object], None]]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _keys_at_once() -> Iterator[list[Any]]:
    """Get keys when they are pressed, without showing them; tell how the keyboard was before."""
    before = termios.tcgetattr(sys.stdin.fileno())
    tty.setcbreak(sys.stdin.fileno())
    try:
        yield before
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
