"""Names of addresses by DNS, without ever waiting for it."""

import re
import socket
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, NamedTuple

_ADDRESSES_MAX: Final = 100_000
"""Kept, and likewise waiting: more than a large site's nodes have."""
_WORKERS: Final = 8
"""How many questions a DNS server that does not answer can hold up at once."""
_NAME_SECONDS: Final = 3600.0
_NO_NAME_SECONDS: Final = 600.0
_NO_ANSWER_SECONDS: Final = 60.0
_PATIENCE_SECONDS: Final = 300.0
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")


def reverse_lookup(address: str) -> str | None:
    """Ask the system for the name of an IP address: nothing if there is none, OSError if nobody answers."""
    try:
        return socket.getnameinfo((address, 0), socket.NI_NAMEREQD | socket.NI_NUMERICSERV)[0]
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            return None
        raise


class _Answer(NamedTuple):
    name: str
    until_seconds: float
    """When it is asked for anew."""


class Resolver:
    """What DNS said lately; questions wait for a few threads, and nobody waits for them."""

    def __init__(
        self,
        *,
        lookup: Callable[[str], str | None] = reverse_lookup,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._elapsed_seconds = elapsed_seconds
        self._lock = threading.Lock()
        self._answers: dict[str, _Answer] = {}
        """The oldest first."""
        self._waiting: dict[str, float] = {}
        """Since when: no address waits twice."""
        self._questions: SimpleQueue[str | None] = SimpleQueue()
        self._has_stopped = False

    def start(self) -> None:
        """Begin to answer."""
        for number in range(_WORKERS):
            threading.Thread(target=self._work, name=f"resolver {number}", daemon=True).start()

    def stop(self) -> None:
        """Ask no more. A question that hangs is left to itself: there is nothing to save."""
        self._has_stopped = True
        for _ in range(_WORKERS):
            self._questions.put(None)

    def name(self, address: str) -> str | None:
        """Return the name of an IP address as DNS gives it: empty where it knows none, nothing while that is open.

        What was known stays in use while it is asked for anew. Who has waited for long may take it for unknown.
        """
        now = self._elapsed_seconds()
        with self._lock:
            answer = self._answers.get(address)
            if answer is not None and now < answer.until_seconds:
                return answer.name
            since = self._waiting.get(address)
            if since is None and len(self._waiting) < _ADDRESSES_MAX:
                self._waiting[address] = now
                self._questions.put(address)
        if answer is not None:
            return answer.name
        return "" if since is not None and now - since >= _PATIENCE_SECONDS else None

    def answer_one(self) -> bool:
        """Wait for a question and answer it; tell whether to go on."""
        address = self._questions.get()
        if address is None or self._has_stopped:
            return False
        try:
            found = self._lookup(address)
        except (OSError, UnicodeError):
            self._keep(address, None, _NO_ANSWER_SECONDS)
        else:
            name = (found or "").removesuffix(".")
            if _NAME.fullmatch(name):
                self._keep(address, name, _NAME_SECONDS)
            else:  # whoever owns the zone may write anything there
                self._keep(address, "", _NO_NAME_SECONDS)
        return True

    def _keep(self, address: str, name: str | None, life_seconds: float) -> None:
        """Note an answer; without one, what was known before goes on."""
        with self._lock:
            before = self._answers.pop(address, None)
            if name is None:
                name = "" if before is None else before.name
            if len(self._answers) >= _ADDRESSES_MAX:
                del self._answers[next(iter(self._answers))]
            self._answers[address] = _Answer(name, self._elapsed_seconds() + life_seconds)
            del self._waiting[address]

    def _work(self) -> None:
        while self.answer_one():
            pass
