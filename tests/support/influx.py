"""A real InfluxDB on a free port of the loopback, and a wire to it on which things go wrong."""

import gzip
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, NamedTuple

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from typing_extensions import override

from demo.processes import free_port
from support.processes import LIMIT_SECONDS, wait_for

ORG: Final = "hpc"
BUCKET: Final = "lustre"
ADMIN: Final = "the-token-of-an-admin"
_TOOL: Final = Path(__file__).parents[2] / "tools/influxd.sh"


def _program() -> Path:
    found = re.search(r"^influx_version=(\S+)$", _TOOL.read_text(), re.MULTILINE)
    assert found is not None
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    program = Path(os.environ.get("HARVEST_CACHE") or Path(home) / "harvest") / f"influxd-{found[1]}"
    assert program.exists(), f"{program} is missing: `make test` builds it"
    return program


class Point(NamedTuple):
    """One number that somebody reads back."""

    measurement: str
    tags: tuple[tuple[str, str], ...]
    seconds: int
    field: str
    value: float


@dataclass
class Influxd:
    """Its files stay in the folder while it is stopped and started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    tls: tuple[Path, Path] | None = None
    """Certificate and key."""
    ca: Path | None = None
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; the first time, give it an organisation, a bucket and a token."""
        is_new = not (self.folder / "influxd.bolt").exists()
        self.folder.mkdir(exist_ok=True)
        options = {
            "http-bind-address": f"127.0.0.1:{self.port}",
            "bolt-path": self.folder / "influxd.bolt",
            "sqlite-path": self.folder / "influxd.sqlite",
            "engine-path": self.folder / "engine",
            "log-level": "error",
        }
        if self.tls is not None:
            options |= {"tls-cert": self.tls[0], "tls-key": self.tls[1]}
        switches = ("reporting-disabled", "ui-disabled", "no-tasks", "pprof-disabled", "metrics-disabled")
        command = [str(_program()), "run", *(f"--{name}={value}" for name, value in options.items())]
        command += [f"--{name}" for name in switches]
        environment = {"HOME": str(self.folder), "INFLUXD_CONFIG_PATH": str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environment)
        wait_for(lambda: self.process.poll() is not None or self._is_up(), "InfluxDB")
        assert self.process.poll() is None, (self.folder / "log").read_text()
        if is_new:
            new = {"username": "admin", "password": "only-for-tests", "org": ORG, "bucket": BUCKET, "token": ADMIN}
            self.ask("/api/v2/setup", new)

    def stop(self) -> None:
        """Stop it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_SECONDS)

    def ask(self, path: str, content: object = None) -> Any:  # noqa: ANN401 - JSON
        """Ask with all rights."""
        headers = {"Authorization": f"Token {ADMIN}", "Content-Type": "application/json"}
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=LIMIT_SECONDS, context=self._context()) as answer:  # noqa: S310
            return json.load(answer)

    def add_bucket(self, name: str, *, keeps_seconds: int = 0) -> str:
        """Make a bucket, and return its id."""
        rules = [{"type": "expire", "everySeconds": keeps_seconds}] if keeps_seconds else []
        content = {"name": name, "orgID": self._org(), "retentionRules": rules}
        return str(self.ask("/api/v2/buckets", content)["id"])

    def add_token(self, *actions: str, bucket: str = BUCKET) -> str:
        """Return a new token that may do so much with a bucket: read, write."""
        [found] = self.ask(f"/api/v2/buckets?name={bucket}")["buckets"]
        what = {"type": "buckets", "id": found["id"], "orgID": self._org()}
        permissions = [{"action": action, "resource": what} for action in actions]
        made = self.ask("/api/v2/authorizations", {"orgID": self._org(), "permissions": permissions})
        return str(made["token"])

    def write(self, lines: str, bucket: str = BUCKET) -> None:
        """Write points as somebody else would."""
        with InfluxDBClient(self.url, ADMIN, org=ORG, ssl_context=self._context()) as client:
            client.write_api(write_options=SYNCHRONOUS).write(bucket, ORG, lines, write_precision="s")

    def points(self, bucket: str = BUCKET) -> list[Point]:
        """Return everything that is in a bucket, as its own client reads it."""
        query = f'from(bucket: "{bucket}") |> range(start: 0, stop: 2200-01-01T00:00:00Z)'
        with InfluxDBClient(self.url, ADMIN, org=ORG, ssl_context=self._context(), timeout=60_000) as client:
            return [_point(record.values) for table in client.query_api().query(query) for record in table.records]

    def _org(self) -> str:
        return str(self.ask(f"/api/v2/orgs?org={ORG}")["orgs"][0]["id"])

    def _context(self) -> ssl.SSLContext | None:
        return None if self.ca is None else ssl.create_default_context(cafile=str(self.ca))

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5, context=self._context()):  # noqa: S310
                return True
        except (urllib.error.URLError, OSError):
            return False


_OWN: Final = {"result", "table", "_start", "_stop", "_time", "_value", "_field", "_measurement"}


def _point(values: dict[str, Any]) -> Point:
    tags = tuple(sorted((name, str(value)) for name, value in values.items() if name not in _OWN))
    seconds = values["_time"].timestamp()
    assert seconds == int(seconds)
    return Point(values["_measurement"], tags, int(seconds), values["_field"], values["_value"])


@contextmanager
def influxd(folder: Path, **how: Any) -> Iterator[Influxd]:  # noqa: ANN401
    """Run one; it is gone afterwards."""
    here = Influxd(folder, **how)
    here.start()
    try:
        yield here
    finally:
        if here.process.poll() is None:
            here.process.kill()
            here.process.wait(LIMIT_SECONDS)


Headers = tuple[tuple[str, str], ...]


class Fault(NamedTuple):
    """What comes back instead of InfluxDB's answer."""

    status: int | None = None
    """Nothing: the connection is cut."""
    headers: Headers = ()
    body: bytes = b'{"code":"made up","message":"made up"}'
    passed_on: bool = False
    """Whether InfluxDB got it all the same: only the answer is lost."""


class Wire:
    """Passes requests on to InfluxDB, and keeps what was written; writes meet the faults that wait for them."""

    def __init__(self, to_port: int) -> None:
        self.faults: list[Fault] = []
        """For the next writes, one each."""
        self.always: Fault | None = None
        self.bytes_most: int | None = None
        """Larger writes, before they were packed, are too large."""
        self.date: str | None = None
        """Instead of the server's own."""
        self.written: list[list[str]] = []
        """The points of each write that InfluxDB took."""
        self.tokens: list[str] = []
        self.tried = 0
        self.to_port = to_port
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.wire = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="wire", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fault(self, body: bytes) -> Fault | None:
        """Return what becomes of a write."""
        self.tried += 1
        if self.bytes_most is not None and len(body) > self.bytes_most:
            return Fault(413, body=b"<html><h1>413 Request Entity Too Large</h1></html>")
        return self.faults.pop(0) if self.faults else self.always


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    wire: Wire


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    @property
    def wire(self) -> Wire:
        assert isinstance(self.server, _Listener)
        return self.server.wire

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if not self.path.startswith("/api/v2/write"):
            self._answer(*self._asked(sent))
            return
        assert self.headers["Content-Encoding"] == "gzip"
        text = gzip.decompress(sent)
        self.wire.tokens.append(self.headers["Authorization"].removeprefix("Token "))
        fault = self.wire.fault(text)
        own = self._asked(sent) if fault is None or fault.passed_on else None
        if own is not None and own[0] == 204:
            self.wire.written.append(text.decode().splitlines())
        if fault is None:
            assert own is not None
            self._answer(*own)
        elif fault.status is None:
            self.close_connection = True
        else:
            self._answer(fault.status, fault.headers, fault.body)

    def _asked(self, sent: bytes) -> tuple[int, Headers, bytes]:
        far = http.client.HTTPConnection("127.0.0.1", self.wire.to_port, timeout=LIMIT_SECONDS)
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        try:
            far.request("POST", self.path, sent, headers)
            answer = far.getresponse()
            kept = tuple(one for one in answer.getheaders() if one[0] in {"Content-Type", "X-Influxdb-Version"})
            return answer.status, kept, answer.read()
        except OSError:
            return 502, (), b"<html>Bad Gateway</html>"
        finally:
            far.close()

    def _answer(self, status: int, headers: Headers, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Date", self.wire.date or self.date_time_string())
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        pass
