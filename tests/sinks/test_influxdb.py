"""What a real InfluxDB answers, and what goes wrong on the way to it: everything is there once, or is told of."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from harvest_aggregator.sinks import influxdb
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome
from harvest_aggregator.sinks.table import plans
from harvest_site.loading import load
from sinks.influx_scenes import Scene, described, numbered, scene, secret, sink, sweep
from support.influx import BUCKET, Fault, Influxd, influxd
from support.kubernetes.credentials import Credentials
from unit.aggregator.publishing import TICK


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    with influxd(tmp_path_factory.mktemp("influx") / "influxd") as here:
        yield here


@pytest.fixture
def here(server: Influxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(influxdb, "BATCH_POINTS", 10)
    with scene(server, tmp_path) as made:
        yield made


def everything(count: int) -> dict[str, list[int]]:
    return {str(number): [number] for number in range(1, count + 1)}


def test_a_sweep_is_written_packed_and_in_batches(here: Scene) -> None:
    assert here.write(numbered(25)) == ACCEPTED
    assert [len(batch) for batch in here.wire.written] == [10, 10, 5]
    assert here.read() == everything(25)


def test_ids_of_any_bytes_are_written_and_told_apart(here: Scene) -> None:
    names = {
        b"plain": "plain",
        b"a b,c=d": "a b,c=d",
        b"back\\slash\\": "back\\x5cslash\\x5c",
        b"line\nfeed\t\x00": "line\\x0afeed\\x09\\x00",
        b"\xff\xfe": "\\udcff\\udcfe",
        "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n".encode(): "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n",
        b'"quoted"': '"quoted"',
        b"": "unknown",
    }
    assert here.write(sweep(*names)) == ACCEPTED
    assert here.read() == {name: [number] for number, name in enumerate(names.values(), 1)}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(500),
        Fault(502, body=b"<html>Bad Gateway</html>"),
        Fault(503, (("Retry-After", "1"),)),
        Fault(504),
        Fault(429, (("Retry-After", "1"),)),
        Fault(408),
        Fault(400, body=b"<html>The plain HTTP request was sent to HTTPS port</html>"),
        Fault(302, (("Location", "https://elsewhere.example"),)),
        Fault(None),
        Fault(500, body=b"\xff\xfe no text"),
    ],
    ids=["500", "502", "503", "504", "429", "408", "400 of a proxy", "302", "cut", "garbage"],
)
def test_what_passes_by_is_kept_and_then_everything_is_there_once(here: Scene, fault: Fault) -> None:
    waiting = here.sink.needed(numbered(25))
    here.wire.faults = [Fault(204, passed_on=True), fault, fault]
    for _ in range(2):
        kept = here.sink.write(waiting, lambda _: True)
        assert kept.outcome is Outcome.KEPT
        assert here.wire.url in kept.reason
    assert here.sink.write(waiting, lambda _: True) == ACCEPTED
    assert here.wire.tried == 5
    assert [len(batch) for batch in here.wire.written] == [10, 10, 5]
    assert len({line for batch in here.wire.written for line in batch}) == 25
    assert here.read() == everything(25)


def test_an_answer_that_is_lost_doubles_nothing(here: Scene) -> None:
    waiting = here.sink.needed(numbered(25))
    here.wire.faults = [Fault(204, passed_on=True), Fault(None, passed_on=True)]
    assert here.sink.write(waiting, lambda _: True).outcome is Outcome.KEPT
    assert here.sink.write(waiting, lambda _: True) == ACCEPTED
    assert [len(batch) for batch in here.wire.written] == [10, 10, 10, 5]
    assert here.wire.written[1] == here.wire.written[2]
    assert here.read() == everything(25)


@pytest.mark.parametrize(
    ("told", "at_least", "at_most"),
    [
        ("7", 7, 7),
        (timedelta(minutes=30), 1200, 1800),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0),
        ("soon", 0, 0),
    ],
    ids=["seconds", "date", "past", "nonsense"],
)
@pytest.mark.parametrize("status", [429, 503])
def test_who_asks_to_wait_is_left_alone_so_long(
    here: Scene, status: int, told: str | timedelta, at_least: float, at_most: float
) -> None:
    header = told if isinstance(told, str) else format_datetime(datetime.now(UTC) + told, usegmt=True)
    here.wire.faults = [Fault(status, (("Retry-After", header),))]
    kept = here.write(numbered(1))
    assert kept.outcome is Outcome.KEPT
    assert at_least <= kept.wait_seconds <= at_most


def test_what_is_too_large_is_sent_in_parts(here: Scene) -> None:
    here.wire.bytes_most = 250  # three points
    assert here.write(numbered(25)) == ACCEPTED
    assert max(len(batch) for batch in here.wire.written) == 3
    assert here.read() == everything(25)


def test_one_point_that_is_too_large_is_refused_and_told_of_and_the_rest_is_there(here: Scene) -> None:
    here.wire.bytes_most = 250
    told = here.write(sweep(b"1", b"2" * 200, b"3"))
    assert told.outcome is Outcome.REJECTED
    assert told.reason.startswith(
        f"1 of 3 points were in batches that were not taken whole: {here.wire.url} answers 413"
    )
    assert here.read() == {"1": [1], "3": [3]}


def test_what_the_server_cannot_take_is_refused_and_told_of_and_the_rest_is_there(here: Scene) -> None:
    here.server.write(f"lustre,fs=home,job=7,server=oss write_bytes=1.5 {TICK - 1}", here.bucket)  # of another type
    told = here.write(numbered(25))
    assert told.outcome is Outcome.REJECTED
    assert "field type conflict" in told.reason
    assert told.reason.startswith(
        f"25 of 25 points were in batches that were not taken whole: {here.wire.url} answers 422"
    )
    assert "garbage" not in here.read()


def test_a_bucket_that_keeps_nothing_so_old_refuses_and_says_so(server: Influxd, tmp_path: Path) -> None:
    server.add_bucket("short", keeps_seconds=3600)
    secrets = secret(tmp_path, server.add_token("write", bucket="short"))
    made = sink(described(server.url, bucket="short"), secrets)
    told = made.write(made.needed(numbered(1)), lambda _: True)  # which is of 2023
    assert told.outcome is Outcome.REJECTED
    assert "outside retention policy" in told.reason


@pytest.mark.parametrize(
    ("org", "bucket", "rights", "said"),
    [
        (
            "nobody",
            BUCKET,
            "write",
            'answers 404: organization name "nobody" not found: are `url`, `org` and `bucket` right?',
        ),
        ("hpc", "nothing", "write", 'answers 404: bucket "nothing" not found: are `url`, `org` and `bucket` right?'),
        (
            "hpc",
            BUCKET,
            "read",
            "answers 403: insufficient permissions for write: the token may not write to this bucket",
        ),
        ("hpc", BUCKET, "", "answers 401: unauthorized access: is the token of `tokenSecretRef` the right one?"),
    ],
    ids=["org", "bucket", "rights", "token"],
)
def test_what_somebody_must_mend_is_kept_and_named(
    server: Influxd, tmp_path: Path, org: str, bucket: str, rights: str, said: str
) -> None:
    token = server.add_token(rights) if rights else "no-such-token"
    made = sink(described(server.url, org=org, bucket=bucket), secret(tmp_path, token))
    kept = made.write(made.needed(numbered(1)), lambda _: True)
    assert (kept.outcome, kept.reason) == (Outcome.KEPT, f"{server.url} {said}")
    assert token not in kept.reason


def test_a_token_that_was_changed_is_used_for_the_next_write(here: Scene) -> None:
    first = (here.folder / "secrets/influx/token").read_text()
    secret(here.folder, "no-such-token\n")
    waiting = here.sink.needed(numbered(15))
    assert here.sink.write(waiting, lambda _: True).outcome is Outcome.KEPT
    second = here.server.add_token("write", bucket=here.bucket)
    secret(here.folder, f"{second}\n")
    assert here.sink.write(waiting, lambda _: True) == ACCEPTED
    assert here.wire.tokens == ["no-such-token", second, second]
    assert first not in here.wire.tokens
    assert here.read() == everything(15)


def test_a_token_that_changes_while_it_is_refused_is_tried_at_once(here: Scene) -> None:
    token = here.folder / "secrets/influx/token"
    good = token.read_text()
    bad = "x" * len(good)
    secret(here.folder, bad)
    waiting = here.sink.needed(numbered(1))
    assert here.sink.write(waiting, lambda _: True).outcome is Outcome.KEPT
    status = token.stat()
    token.write_text(good)  # in place, and so quickly that nothing about the file tells of it
    os.utime(token, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert here.sink.write(waiting, lambda _: True) == ACCEPTED
    assert here.wire.tokens == [bad, bad, good]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read {file}: No such file or directory"),
        ("", "{file} is no token: one line of printable ASCII characters without blanks"),
        ("two\nlines\n", "{file} is no token: one line of printable ASCII characters without blanks"),
    ],
    ids=["missing", "empty", "two lines"],
)
def test_a_token_that_is_none_is_told_of(here: Scene, content: str | None, said: str) -> None:
    file = here.folder / "secrets/influx/token"
    if content is None:
        file.unlink()
    else:
        secret(here.folder, content)
    kept = here.write(numbered(1))
    assert (kept.outcome, kept.reason) == (Outcome.KEPT, said.format(file=file))


def test_a_token_that_others_can_read_is_refused(here: Scene) -> None:
    file = here.folder / "secrets/influx/token"
    file.chmod(0o644)
    kept = here.write(numbered(1))
    assert (kept.outcome, kept.reason) == (Outcome.KEPT, f"others can read the key {file}: chmod 600 {file}")


def test_without_a_folder_of_secrets_nothing_is_sent(server: Influxd) -> None:
    [plan] = plans(load(described(server.url)), None).values()
    made = plan.build()
    kept = made.write(made.needed(numbered(1)), lambda _: True)
    assert "--secrets DIR" in kept.reason


def test_a_server_of_ones_own_ca_is_trusted_if_it_is_named(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path / "ca")
    pair = credentials.issue("influx", names=("127.0.0.1",))
    other = Credentials(tmp_path / "other")
    with influxd(tmp_path / "influxd", tls=(pair.certificate, pair.key), ca=credentials.ca.certificate) as server:
        secrets = secret(tmp_path, server.add_token("write"))
        secret(tmp_path, other.ca.certificate.read_text(), "influx-ca/ca.crt")
        made = sink(described(server.url, more="caSecretRef: {name: influx-ca},"), secrets)
        waiting = made.needed(numbered(3))
        kept = made.write(waiting, lambda _: True)
        assert kept.outcome is Outcome.KEPT
        assert kept.reason.startswith(f"{server.url} cannot be asked: ")
        assert "certificate verify failed" in kept.reason
        secret(tmp_path, "no certificate", "influx-ca/ca.crt")
        assert made.write(waiting, lambda _: True).reason == f"{secrets}/influx-ca/ca.crt holds no certificate (PEM)"
        secret(tmp_path, credentials.ca.certificate.read_text(), "influx-ca/ca.crt")
        assert made.write(waiting, lambda _: True) == ACCEPTED
        assert len(server.points()) == 9
        plain = sink(described(server.url), secrets)
        assert "certificate verify failed" in plain.write(plain.needed(numbered(1)), lambda _: True).reason
        wrong = sink(described(server.url.replace("https", "http")), secrets)
        kept = wrong.write(wrong.needed(numbered(1)), lambda _: True)
        assert (kept.outcome, "HTTP request to an HTTPS server" in kept.reason) == (Outcome.KEPT, True)
