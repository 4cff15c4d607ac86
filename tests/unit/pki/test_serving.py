"""The port where servers join, as far as it needs no socket."""

import socket
import ssl
import threading
from typing import cast

import pytest

from harvest_pki.desks import Desk, Place
from harvest_pki.serving import JoiningServer, _peer


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_whoever_has_a_network_is_one_peer(address: str, peer: str) -> None:
    assert _peer(address) == peer


class Nowhere:
    """No site."""

    def context(self, server_name: str | None) -> ssl.SSLContext | None:
        """Answer nobody."""
        raise AssertionError(server_name)

    def place(self, server_name: str | None) -> Place | None:
        """Know nobody."""
        raise AssertionError(server_name)


class Connection:
    """Somebody who came."""

    is_closed = False

    def settimeout(self, _seconds: float) -> None:
        """Wait no longer."""

    def close(self) -> None:
        """Go."""
        self.is_closed = True


def test_a_thread_that_cannot_be_started_costs_one_connection_and_not_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    listener = cast("socket.socket", object())
    server = JoiningServer(listener, Nowhere(), cast("Desk", object()), lambda event, **_: said.append(event))

    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    connections = [Connection() for _ in range(100)]
    for one in connections:
        server._take(cast("socket.socket", one), "10.0.0.1")  # noqa: SLF001 - what the accepting thread does
    assert all(one.is_closed for one in connections)
    assert said == ["joining is in trouble"] * len(connections)
