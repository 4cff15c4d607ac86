"""HTTPS for joining and renewing, with the standard library alone: few connections, short ones, small bodies."""

import ipaddress
import math
import os
import re
import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from io import BufferedReader
from typing import Final, Protocol

from harvest_pki.desks import Desk, Place, Reply, Say
from harvest_pki.errors import PkiError
from harvest_pki.joining import BODY_MAX

CONNECTIONS_MAX: Final = 64
"""More at once are closed unheard: they come again."""
PEER_CONNECTIONS_MAX: Final = 32
"""Of one address, behind which there may be many servers."""
LIMIT_SECONDS: Final = 15.0
"""For a whole connection, with its handshake: whoever is slower is cut off."""
_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.1
_LINE_MAX: Final = 4096
_LINES_MAX: Final = 64
_REQUEST: Final = re.compile(rb"(GET|POST) (/[!-~]*) HTTP/1\.[01]")
_LENGTH: Final = re.compile(rb"content-length: *([0-9]{1,9})", re.IGNORECASE)


class Sites(Protocol):
    """All sites that somebody can join here."""

    def context(self, server_name: str | None) -> ssl.SSLContext | None:
        """Return with which certificate a client is answered that asks for this name."""

    def place(self, server_name: str | None) -> Place | None:
        """Return the site that it asks for."""


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return what TLS needs of a server; the key is in no file that others could read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    handle = os.memfd_create("harvest-joining")  # OpenSSL takes both by the name of a file only
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(certificate + key)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
    return context


class JoiningServer:
    """A listening port, a thread that accepts, and one per connection."""

    def __init__(self, listener: socket.socket, sites: Sites, desk: Desk, say: Say) -> None:
        self._listener, self._sites, self._desk, self._say = listener, sites, desk, say
        self._open: dict[socket.socket, tuple[str, float]] = {}
        self._lock: Final = threading.Lock()
        self._is_stopped = False
        self._context: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.sni_callback = self._choose
        self._names: dict[ssl.SSLObject | ssl.SSLSocket, str | None] = {}

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def serve(self) -> None:
        """Answer until ``stop`` is called."""
        self._listener.settimeout(_LOOK_SECONDS)
        while not self._is_stopped:
            try:
                connection, address = self._listener.accept()
                self._take(connection, _peer(str(address[0])))
            except TimeoutError:
                pass
            except OSError:  # stopped, or too many files are open: it must not try as fast as it can
                time.sleep(_PAUSE_SECONDS)
            self._cut_slow()

    def stop(self) -> None:
        """Accept nobody any more."""
        self._is_stopped = True
        self._listener.close()

    def _take(self, connection: socket.socket, peer: str) -> None:
        with self._lock:
            peers = Counter(name for name, _ in self._open.values())
            if len(self._open) >= CONNECTIONS_MAX or peers[peer] >= PEER_CONNECTIONS_MAX:
                connection.close()
                return
            self._open[connection] = peer, time.monotonic() + LIMIT_SECONDS
        connection.settimeout(LIMIT_SECONDS)
        thread = threading.Thread(target=self._talk, args=(connection, peer), name=f"joining {peer}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no memory, or no more threads: others are served, and later ones again
            self._say("joining is in trouble", peer=peer, reason=str(error))
            self._let_go(connection)

    def _cut_slow(self) -> None:
        now = time.monotonic()
        with self._lock:
            slow = [connection for connection, (_, end) in self._open.items() if now >= end]
        for connection in slow:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _talk(self, connection: socket.socket, peer: str) -> None:
        try:
            self._answer(connection, peer)
        except OSError:  # strangers, and cut lines: theirs to know
            pass
        except Exception as error:  # noqa: BLE001 - a bug must not end the server
            self._say("joining is in trouble", peer=peer, reason=f"{type(error).__name__}: {error}")
        finally:
            self._let_go(connection)

    def _let_go(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.pop(connection, None)
        connection.close()

    def _answer(self, connection: socket.socket, peer: str) -> None:
        """Speak TLS over a copy of the connection, so that whoever cuts slow ones has the original."""
        copy = connection.dup()
        copy.settimeout(LIMIT_SECONDS)
        with self._context.wrap_socket(copy, server_side=True, do_handshake_on_connect=False) as secured:
            try:
                secured.do_handshake()
            finally:
                name = self._names.pop(secured, None)
            place = self._sites.place(name)
            if place is None:
                return
            with secured.makefile("rb") as stream:
                secured.sendall(_written(_replied(stream, self._desk, place, peer)))
            with suppress(OSError):
                secured.unwrap()

    def _choose(self, secured: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> int | None:
        try:
            context = self._sites.context(name)
        except PkiError as error:
            self._say("joining is in trouble", reason=str(error))
            context = None
        if context is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        secured.context = context
        self._names[secured] = name
        return None


def _peer(address: str) -> str:
    """Return by what somebody is counted: whoever has one address of IPv6 has all of its network."""
    try:
        read = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = read.ipv4_mapped
    return str(ipaddress.IPv6Network((read, 64), strict=False)) if mapped is None else str(mapped)


def _replied(stream: BufferedReader, desk: Desk, place: Place, peer: str) -> Reply:
    """Read one request and have it answered."""
    lines = []
    while line := stream.readline(_LINE_MAX).rstrip(b"\r\n"):
        lines.append(line)
        if len(lines) > _LINES_MAX:
            return Reply(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"")
    request = _REQUEST.fullmatch(lines[0]) if lines else None
    if request is None:
        return Reply(HTTPStatus.BAD_REQUEST, b"")
    method, path = request[1], request[2].decode()
    if method == b"GET":
        return desk.get(place, path)
    length = next((int(found[1]) for line in lines[1:] if (found := _LENGTH.fullmatch(line))), None)
    if length is None:
        return Reply(HTTPStatus.LENGTH_REQUIRED, b"")
    if length > BODY_MAX:
        return Reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b"")
    body = stream.read(length)
    return desk.post(place, path, body, peer) if len(body) == length else Reply(HTTPStatus.BAD_REQUEST, b"")


def _written(reply: Reply) -> bytes:
    retry = f"Retry-After: {math.ceil(reply.retry_seconds)}\r\n" if reply.retry_seconds else ""
    head = (
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\nContent-Type: {reply.kind}\r\n"
        f"Content-Length: {len(reply.body)}\r\n{retry}Connection: close\r\n\r\n"
    )
    return head.encode() + reply.body
