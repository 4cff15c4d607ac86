"""The source ``slurmrestd``: its REST API, over a Unix socket or TCP."""

import base64
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from typing_extensions import override

from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.sources import OUTPUT_MOST, SlurmError, read
from harvest_agent.tables import shown
from harvest_core.slurm.answers import JsonJobs
from harvest_core.slurm.jobs import Names, SlurmJob
from harvest_pki import files
from harvest_pki.errors import PkiError

_PIECE_BYTES: Final = 1 << 18
_OFFERED: Final = re.compile(rb"\\?/slurm\\?/v(\d+)\.(\d+)\.(\d+)\\?/jobs")
_NOTHING: Final = "Nothing found"


class Slurmrestd:
    """Asks by HTTP. Which versions of the API there are is found out once."""

    asked_most = 20
    """Each is a request of its own."""

    def __init__(self, settings: SlurmSettings, names: Names) -> None:
        self._settings = settings
        self._names = names
        self._version = settings.api_version
        self._is_stopped = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self.unread = 0

    def stop(self) -> None:
        """End what is under way."""
        self._is_stopped.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def jobs(self) -> Iterator[list[SlurmJob]]:
        """Yield all that slurmctld has."""
        self._find_version()
        try:
            yield from self._read(f"/slurm/{self._version}/jobs", self._deadline())
        except SlurmError:
            self._version = self._settings.api_version  # it may be another one now
            raise

    def accounted(self, numbers: Sequence[int]) -> list[SlurmJob]:
        """Return every run of these jobs."""
        self._find_version()
        found: list[SlurmJob] = []
        deadline = self._deadline()
        for number in numbers:
            try:
                found += (
                    job for jobs in self._read(f"/slurmdb/{self._version}/job/{number}", deadline) for job in jobs
                )
            except SlurmError as error:
                if _NOTHING not in str(error):
                    raise
        return found

    def _find_version(self) -> None:
        if not self._version:
            said = b"".join(self._get("/openapi/v3", self._deadline()))
            offered = max(([int(part) for part in parts] for parts in _OFFERED.findall(said)), default=None)
            if offered is None:
                raise SlurmError("slurmrestd offers no jobs: see its option -s (openapi/slurmctld or openapi/v0.0.NN)")
            self._version = "v" + ".".join(map(str, offered))

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.limit_seconds

    def _read(self, path: str, deadline: float) -> Iterator[list[SlurmJob]]:
        reader = JsonJobs(self._names)
        yield from read(self._get(path, deadline), reader)
        self.unread = reader.unread

    def _get(self, path: str, deadline: float) -> Generator[bytes]:
        connection = self._connection = _connection(self._settings.address)
        try:
            self._wait(connection, deadline)
            connection.request("GET", path, headers=self._headers())
            response = connection.getresponse()
            if response.status not in {200, 404, 500}:  # 404 and 500 come with JSON that says more
                raise SlurmError(f"slurmrestd says {response.status} {shown(response.reason)} to {path}")
            size = 0
            while piece := response.read1(_PIECE_BYTES):
                yield piece
                size += len(piece)
                if size > OUTPUT_MOST:
                    raise SlurmError(f"slurmrestd answered with more than {OUTPUT_MOST} bytes")
                self._wait(connection, deadline)
        except TimeoutError as error:
            raise SlurmError(f"slurmrestd did not answer in {self._settings.limit_seconds:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise SlurmError(f"slurmrestd at {shown(self._settings.address)}: {reason}") from error
        finally:
            self._connection = None
            connection.close()

    def _wait(self, connection: http.client.HTTPConnection, deadline: float) -> None:
        """Let the next step take what is left of the time."""
        left = deadline - time.monotonic()
        if self._is_stopped.is_set():
            raise SlurmError("the agent ends")
        if left <= 0:
            raise TimeoutError
        if connection.sock is None:
            connection.timeout = left
            connection.connect()
        if connection.sock is not None:
            connection.sock.settimeout(left)

    def _headers(self) -> dict[str, str]:
        """Return who we are: a token is read for each question, for it is renewed often."""
        if not self._settings.token_file:
            return {}
        try:
            token = files.read_key(Path(self._settings.token_file)).decode("ascii", "replace").strip()
        except PkiError as error:
            raise SlurmError(str(error)) from error
        token = token.removeprefix("SLURM_JWT=")
        return {"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": user_of(token)}


def user_of(token: str) -> str:
    """Return whom a JSON Web Token of Slurm stands for: slurmrestd wants to be told."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        name = claims.get("sun") or claims["username"]
    except (IndexError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise SlurmError("the token file holds no JSON Web Token of Slurm; see `scontrol token`") from error
    return str(name)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    @override
    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(self.timeout)
        try:
            made.connect(self._path)
        except BaseException:
            made.close()
            raise
        self.sock = made


def _connection(address: str) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _UnixConnection(address.removeprefix("unix:"))
    host, _, port = address.rpartition(":")
    return http.client.HTTPConnection(host.strip("[]"), int(port))
