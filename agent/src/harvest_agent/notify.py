"""Telling systemd how the agent is doing, without its library; nothing happens where nobody listens."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Self


class Notifier:
    """The service manager's socket, and how often it wants to hear that the agent is alive."""

    def __init__(self, address: str | None, *, watchdog_seconds: float | None) -> None:
        self._address = address
        self.watchdog_seconds = watchdog_seconds
        """After so long without a word the agent is taken for dead; none where nobody asked."""

    @classmethod
    def of(cls, environment: Mapping[str, str], *, pid: int) -> Self:
        """Read what systemd put into the environment."""
        address = environment.get("NOTIFY_SOCKET", "")
        microseconds = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        return cls(
            address if address.startswith(("/", "@")) else None,
            watchdog_seconds=int(microseconds) / 1e6 if is_ours and microseconds.isdecimal() else None,
        )

    def ready(self) -> None:
        """Say that the agent runs."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Say that the agent is about to end."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Say in one line how things are."""
        self._send(f"STATUS={' '.join(text.split())}")

    def alive(self) -> None:
        """Say that sweeps go on."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        # a manager that does not listen, or not now, must not stop the agent
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)  # noqa: FBT003 - the standard library's own
            sender.sendto(message.encode(), address)
