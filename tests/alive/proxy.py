"""A wire that can be cut: TCP on the loopback, passed on to another port."""

import selectors
import socket
import threading

_CHUNK = 1 << 16


class Proxy:
    """Passes connections on until it is cut; connections that were there then are silent, as behind a dead switch."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._partner: dict[socket.socket, socket.socket] = {}
        self._is_cut = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Let nothing through any more, in either direction."""
        self._is_cut = True

    def mend(self) -> None:
        """Let everything through again; what was there before the cut is dropped."""
        self._is_cut = False

    def close(self) -> None:
        """Stop."""
        self._is_closed = True
        self._thread.join()
        for end in (*self._partner, self._listener):
            end.close()

    def _run(self) -> None:
        was_cut = False
        while not self._is_closed:
            if was_cut and not self._is_cut:
                for end in list(self._partner):
                    self._drop(end)
            was_cut = self._is_cut
            for key, _ in self._selector.select(timeout=0.05):
                if self._is_cut:
                    threading.Event().wait(0.05)
                    break
                assert isinstance(key.fileobj, socket.socket)
                if key.fileobj is self._listener:
                    self._connect()
                else:
                    self._pass_on(key.fileobj)

    def _connect(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._to_port), timeout=5)
        except OSError:
            near.close()
            return
        for end, other in ((near, far), (far, near)):
            self._partner[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        if end not in self._partner:
            return
        try:
            data = end.recv(_CHUNK)
            self._partner[end].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        for side in (end, self._partner.get(end)):
            if side is not None and side in self._partner:
                self._selector.unregister(side)
                del self._partner[side]
                side.close()
