"""``influx-check``: can the site's InfluxDB be written to? A point is written, read back and removed."""

import secrets
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from harvest_aggregator.checking import CheckError
from harvest_aggregator.sinks.influx_answers import NO_ANSWER, NO_TLS, Answer, Code, SecretError
from harvest_aggregator.sinks.influx_server import Server, asked
from harvest_aggregator.sinks.influxdb import address
from harvest_site.model import Site
from harvest_site.sinks import Sink

MEASUREMENT: Final = "harvest_check"
_CLOCKS_SECONDS: Final = 60
_READ_SECONDS: Final = 10.0
"""Some servers show what was written a moment later."""


class InfluxCheckError(Exception):
    """What is wrong, for a person."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def chosen(site: Site, name: str | None) -> list[Sink]:
    """Return the sinks that are to be checked."""
    found = [sink for sink in site.spec.sinks if sink.influxdb is not None and name in {None, sink.name}]
    if not found:
        known = ", ".join(sink.name for sink in site.spec.sinks if sink.influxdb is not None) or "none"
        which = "influxdb sink" if name is None else f"influxdb sink {name}"
        raise CheckError(f"the site has no {which}; it has: {known}")
    return found


def check(sink: Sink, folder: Path | None, *, now: Callable[[], float] = time.time) -> Iterator[str]:
    """Yield what is well; raises InfluxCheckError."""
    assert sink.influxdb is not None  # noqa: S101 - only such are chosen
    server = Server(address(sink.influxdb, folder))
    where = f"{server.address.url}, org {server.address.org}, bucket {server.address.bucket}"
    mark, seconds = secrets.token_hex(8), int(now())
    try:
        answer = server.write(f"{MEASUREMENT},check={mark} value=1i {seconds}".encode())
    except SecretError as error:
        raise InfluxCheckError(Code.USAGE, str(error)) from error
    if answer.status != 204:
        raise InfluxCheckError(code_of(answer), answer.told(where))
    yield f"{where}: a point was written"
    _compare_clocks(server, now())
    yield from _read_back(server, mark, seconds)
    yield from _removed(server, mark)


def code_of(answer: Answer) -> Code:
    """Return what is wrong when a write was not accepted."""
    by_status = {NO_ANSWER: Code.UNREACHABLE, NO_TLS: Code.TLS, 401: Code.TOKEN, 403: Code.TOKEN}
    if answer.status == 404:
        missing = {"organization": Code.ORG, "bucket": Code.BUCKET, "database": Code.BUCKET}
        return next((code for word, code in missing.items() if word in answer.said.lower()), Code.OTHER)
    return by_status.get(answer.status, Code.OTHER)


def _compare_clocks(server: Server, now_seconds: float) -> None:
    told = server.client().api_client.last_response.getheader("Date")
    try:
        ahead_seconds = parsedate_to_datetime(told or "").timestamp() - now_seconds
    except ValueError:
        return  # nothing is known
    if abs(ahead_seconds) > _CLOCKS_SECONDS:
        side = "ahead of" if ahead_seconds > 0 else "behind"
        raise InfluxCheckError(
            Code.TIME,
            f"the server's clock is {abs(ahead_seconds):.0f} s {side} ours: points would lie where nobody looks",
        )


def _found(server: Server, query: str) -> tuple[Answer, list[tuple[int, datetime]]]:
    found: list[tuple[int, datetime]] = []

    def ask() -> None:
        for table in server.client().query_api().query(query):
            found.extend((record.values["_value"], record.values["_time"]) for record in table.records)

    return asked(ask), found


def _read_back(server: Server, mark: str, seconds: int) -> Iterator[str]:
    query = (
        f"from(bucket: {_flux(server.address.bucket)}) |> range(start: {seconds - 1}, stop: {seconds + 1})"
        f' |> filter(fn: (r) => r._measurement == "{MEASUREMENT}" and r.check == "{mark}")'
    )
    until = time.monotonic() + _READ_SECONDS
    answer, found = _found(server, query)
    while answer.status == 204 and not found and time.monotonic() < until:
        time.sleep(0.2)
        answer, found = _found(server, query)
    if answer.status != 204:
        yield f"it could not be read back, which the sink does not need: {answer.said}"
        return
    if not found:
        raise InfluxCheckError(Code.TIME, "it was taken, and is not there: does the bucket keep what is of now?")
    if found != [(1, datetime.fromtimestamp(seconds, UTC))]:
        raise InfluxCheckError(Code.OTHER, f"what was read back is not what was written: {found}")
    yield "it was read back"


def _removed(server: Server, mark: str) -> Iterator[str]:
    where = {"bucket": server.address.bucket, "org": server.address.org}
    everything = ("1970-01-01T00:00:00Z", "2200-01-01T00:00:00Z")
    which = f'_measurement="{MEASUREMENT}" AND check="{mark}"'
    answer = asked(lambda: server.client().delete_api().delete(*everything, which, **where))
    if answer.status == 204:
        yield "it was removed"
    else:
        yield f"it could not be removed, and stays in measurement {MEASUREMENT}: {answer.said}"


def _flux(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return f'"{escaped}"'
