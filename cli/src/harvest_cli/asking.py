"""Asks aggregators over HTTP, all at once. The only module that opens connections."""

import contextlib
import json
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from typing import Any, Final
from urllib.parse import urlsplit

from harvest_cli.config import Aggregator, ConfigError
from harvest_cli.replies import Reply

_SECONDS: Final = 10.0
"""An aggregator answers within a fifth of a second; one that says nothing for so long is not there."""
_AT_ONCE: Final = 8
"""So many questions one aggregator gets at a time."""
_MOST_BYTES: Final = 1 << 30
_PORTS: Final = {"http": 80, "https": 443}
_NAME_MISMATCHES: Final = (62, 64)
"""OpenSSL's words for a name and for an address that the certificate does not have."""


class Asker:
    """Asks the aggregators that are configured; their tokens and certificates are read once."""

    def __init__(self, aggregators: Iterable[Aggregator], *, seconds: float = _SECONDS) -> None:
        self._lines = {one.url: _Line(one, seconds) for one in aggregators}
        self.urls = tuple(self._lines)

    def __call__(self, questions: Iterable[tuple[str, str]]) -> list[Reply]:
        """Ask (address, path) all at once, and return the answers in the same order.

        The threads are daemons: whoever presses ctrl-c does not wait for an aggregator that hangs.
        """
        asked = list(questions)
        replies: list[Reply | None] = [None] * len(asked)
        failed: list[BaseException] = []

        def work(url: str, places: list[int]) -> None:
            try:
                with self._lines[url].open() as line:
                    for place in places:
                        replies[place] = line.reply(asked[place][1])
            except BaseException as error:  # noqa: BLE001 - told in the thread that asked
                failed.append(error)

        threads = []
        for url in dict.fromkeys(url for url, _ in asked):
            places = [place for place, question in enumerate(asked) if question[0] == url]
            shares = [places[start::_AT_ONCE] for start in range(min(_AT_ONCE, len(places)))]
            threads += [threading.Thread(target=work, args=(url, share), daemon=True) for share in shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return [reply for reply in replies if reply is not None]


class _Line:
    """How one aggregator is reached."""

    def __init__(self, aggregator: Aggregator, seconds: float) -> None:
        self.url = aggregator.url
        self.seconds = seconds
        token = aggregator.token()
        self.headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        parts = urlsplit(aggregator.url)
        self.host = parts.hostname or ""
        self.port = parts.port or _PORTS[parts.scheme]
        self.prefix = parts.path
        self.server_name = aggregator.server_name or self.host
        self.tls = _trust(aggregator.ca) if parts.scheme == "https" else None

    @contextlib.contextmanager
    def open(self) -> Iterator["_Conversation"]:
        """Talk over one connection."""
        conversation = _Conversation(self)
        try:
            yield conversation
        finally:
            conversation.close()


def _trust(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except ssl.SSLError as error:
        raise ConfigError(f"the CA file {ca} holds no certificate: {error.reason}") from error
    except OSError as error:
        raise ConfigError(f"cannot read the CA file {ca}: {error.strerror}") from error


class _Conversation:
    """One connection, made when it is needed; after trouble the rest of its questions get the same answer."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._connection: HTTPConnection | None = None
        self._trouble = ""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def reply(self, path: str) -> Reply:
        url = self._line.url
        if self._trouble:
            return Reply(url=url, path=path, trouble=self._trouble)
        try:
            response, body = self._get(path)
            content = json.loads(body)
        except (OSError, HTTPException, ValueError) as error:
            self._trouble = _told(error, self._line)
            self.close()
            return Reply(url=url, path=path, trouble=self._trouble)
        mapping = content if isinstance(content, Mapping) else {}
        return Reply(url=url, path=path, status=response.status, content=mapping, date_seconds=_date(response))

    def _get(self, path: str) -> tuple[HTTPResponse, bytes]:
        connection = self._connection or self._connect()
        self._connection = connection
        connection.request("GET", self._line.prefix + path, headers=self._line.headers)
        response = connection.getresponse()
        body = response.read(_MOST_BYTES)
        if response.length:  # what was announced and did not come
            raise IncompleteRead(body, response.length)
        if response.will_close:
            self.close()
        return response, body

    def _connect(self) -> HTTPConnection:
        """Connect without any proxy: aggregators are near, and proxies of a site are for what is not."""
        connection = HTTPConnection(self._line.host, self._line.port, timeout=self._line.seconds)
        connection.connect()
        if self._line.tls is not None:
            connection.sock = self._line.tls.wrap_socket(connection.sock, server_hostname=self._line.server_name)
        return connection


def _date(response: HTTPResponse) -> float | None:
    try:
        return parsedate_to_datetime(response.headers["Date"]).timestamp()
    except (TypeError, ValueError):
        return None


def _told(error: Exception, line: _Line) -> str:  # noqa: PLR0911 - one for each kind of trouble
    """Say what went wrong, and what to do about it."""
    if isinstance(error, ssl.SSLError):
        return _told_of_tls(error, line)
    match error:
        case ConnectionRefusedError():
            where = f"{line.host}:{line.port}"
            return f"nobody listens on {where}: is the aggregator running, and is this its HTTP address (--url)?"
        case TimeoutError():
            return f"no answer within {line.seconds:g} s"
        case IncompleteRead():
            return "its answer broke off"
        case ConnectionResetError() | HTTPException() if line.tls is None:
            return f"{_text(error)}: if it speaks HTTPS there, write https://"
        case json.JSONDecodeError() | UnicodeDecodeError():
            return "its answer is no JSON: is this the HTTP address of an aggregator?"
        case _:
            return _text(error)


def _told_of_tls(error: ssl.SSLError, line: _Line) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"it does not speak HTTPS there ({error.reason}): on loopback write http://"
    if error.verify_code in _NAME_MISMATCHES:
        return (
            f"its certificate is not of {line.server_name}: name the one that it has with --server-name, "
            "such as main.SITE.harvest"
        )
    return f"its certificate is not trusted here ({error.verify_message}): give the site's ca.crt with --ca"


def _text(error: Any) -> str:  # noqa: ANN401 - any error
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
