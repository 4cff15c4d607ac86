"""The connection to one InfluxDB. Only who has such a sink imports it: the client takes 50 MB."""

import json
import re
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.domain.write_precision import WritePrecision
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError

from harvest_aggregator.sinks.influx_answers import NO_ANSWER, NO_TLS, NO_TOKEN, Address, Answer, SecretError
from harvest_pki.errors import PkiError
from harvest_pki.files import read, read_key

_TIMEOUT_MILLISECONDS: Final = (5_000, 30_000)
"""To connect, and to answer."""
_SAID_MOST: Final = 300


class Server:
    """A connection that is made when it is needed, and anew when token or CA were changed. Used by one thread."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client: InfluxDBClient | None = None
        self._token = ""
        self._stamp: tuple[object, ...] = ()

    def write(self, lines: bytes) -> Answer:
        """Write points with times in seconds; raises SecretError."""
        answer = self._written(lines)
        if answer.status == NO_TOKEN and self._token != _token(self.address):  # it was changed within a clock's tick
            self._stamp = ()
            answer = self._written(lines)
        return answer

    def client(self) -> InfluxDBClient:
        """Return what speaks to it; raises SecretError."""
        stamp = tuple(_stamp(file) for file in (self.address.token_file, self.address.ca_file))
        if self._client is None or stamp != self._stamp:
            self._token = _token(self.address)
            context = _context(self.address)
            if self._client is not None:
                self._client.close()  # type: ignore[no-untyped-call]
            self._client = InfluxDBClient(
                self.address.url,
                self._token,
                org=self.address.org,
                timeout=_TIMEOUT_MILLISECONDS,
                enable_gzip=True,
                ssl_context=context,
            )
            self._stamp = stamp
        return self._client

    def _written(self, lines: bytes) -> Answer:
        writing = self.client().write_api(write_options=SYNCHRONOUS)  # no threads and no queue of its own
        place = (self.address.bucket, self.address.org)
        return asked(lambda: writing.write(*place, lines, write_precision=WritePrecision.S))  # type: ignore[arg-type]


def asked(ask: Callable[[], Any]) -> Answer:
    """Ask, and return what came of it, whatever that is."""
    try:
        ask()
    except ApiException as error:
        if not error.status:
            return Answer(NO_TLS, _cause(error))
        said, is_its_own = _said(error.body or "")
        return Answer(error.status, said or str(error.reason), _wait_seconds(error.retry_after), is_its_own)
    except (HTTPError, OSError, ValueError) as error:  # the last: what is no text
        return Answer(NO_ANSWER, _cause(error))
    return Answer(204)


def _said(body: str) -> tuple[str, bool]:
    """Return what InfluxDB said, or somebody else in its place."""
    try:
        answer = json.loads(body)
        said = str(answer.get("message") or answer["error"])
    except (ValueError, AttributeError, KeyError):
        return " ".join(re.sub("<[^>]*>", " ", body).split())[:_SAID_MOST], False
    return said[:_SAID_MOST], True


def _wait_seconds(retry_after: str | None) -> float:
    """Return how long it asks to wait: in seconds, or until a time."""
    if retry_after is None:
        return 0.0
    try:
        return max(float(retry_after), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0


def _cause(error: BaseException) -> str:
    """Return what is at the bottom of an error."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return said[:_SAID_MOST]


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """Return what differs once a file was changed or replaced."""
    try:
        status = file.stat() if file is not None else None
    except OSError:
        return None
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _token(address: Address) -> str:
    if address.token_file is None:
        raise SecretError("the token of `tokenSecretRef` is in a folder of secrets: give it by --secrets DIR")
    try:
        token = read_key(address.token_file).decode("ascii", "replace").strip()
    except PkiError as error:
        raise SecretError(str(error)) from error
    if not re.fullmatch("[!-~]+", token):
        raise SecretError(f"{address.token_file} is no token: one line of printable ASCII characters without blanks")
    return token


def _context(address: Address) -> ssl.SSLContext | None:
    """Return whom to trust: who is named, or else the system's own."""
    if not address.url.startswith("https:"):
        return None
    if address.ca_file is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=read(address.ca_file).decode("ascii"))
    except PkiError as error:
        raise SecretError(str(error)) from error
    except (ValueError, ssl.SSLError) as error:
        raise SecretError(f"{address.ca_file} holds no certificate (PEM)") from error
