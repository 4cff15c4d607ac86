"""The running aggregator and a real InfluxDB; and `influx-check`, which says what is wrong with one."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from demo.processes import free_port
from harvest_aggregator.__main__ import main
from harvest_aggregator.sinks.influx_answers import KEPT, Code
from sinks.influx_scenes import described, secret
from sinks.test_program import numbers
from support.deliveries import INTERVAL, Writer
from support.influx import BUCKET, Fault, Influxd, Point, Wire, influxd
from support.kubernetes.credentials import Credentials
from support.processes import Running, running, wait_for
from support.uplinks import hello

ANY = "any-token"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    with influxd(tmp_path_factory.mktemp("influx") / "influxd") as here:
        yield here


@pytest.fixture
def wire(server: Influxd) -> Iterator[Wire]:
    made = Wire(server.port)
    yield made
    made.close()


def warnings(here: Running) -> list[str]:
    status, said = here.get("readyz")
    assert status == 200
    return [warning for warning in said["warnings"] if warning.startswith("sink ")]


def test_a_wrong_token_is_named_and_when_it_is_mended_everything_is_written(tmp_path: Path, server: Influxd) -> None:
    secrets = secret(tmp_path, "no-such-token")
    with running(tmp_path, "--secrets", str(secrets), site=described(server.url)) as here:
        tick = int(time.time()) // INTERVAL * INTERVAL - INTERVAL
        agent_says = Writer(name="oss1", start_seconds=tick - 5)

        async def sweeps() -> None:
            agent = here.agent("oss1")
            greeting = hello("oss1", "home-OST0000", boot_id=agent_says.boot_id)
            greeting.incarnations[0].id = agent_says.incarnation
            await agent.begin(greeting)
            for number in (1, 2):
                delivery = agent_says.sweep({b"77": number, b"78": 5}, tick=tick + (number - 1) * INTERVAL)
                await agent.say(*(message for _, message in delivery.batches))
                assert await agent.acknowledged() == number
            await agent.close()

        asyncio.run(sweeps())
        wait_for(lambda: warnings(here), "the warning")
        assert warnings(here) == [f"sink influx: {server.url} answers 401: unauthorized access: {KEPT[401]}"]
        wait_for(lambda: numbers(here)['harvest_sink_queued_sweeps{sink="influx"}'] >= 1, "what waits")
        assert numbers(here)['harvest_sink_accepted_total{sink="influx"}'] == 0
        secret(tmp_path, server.add_token("write"))
        wait_for(lambda: not warnings(here), "the mended token")
        wait_for(lambda: numbers(here)['harvest_sink_queued_sweeps{sink="influx"}'] == 0, "all sweeps")
        assert numbers(here)['harvest_sink_dropped_total{sink="influx"}'] == 0
        found = [point for point in server.points() if point.field == "write_bytes"]
        tags = {job: (("fs", "home"), ("job", job), ("server", "oss")) for job in ("77", "78")}
        assert sorted(found) == sorted(
            [
                Point("lustre", tags["77"], tick, "write_bytes", 1 << 20),
                Point("lustre", tags["77"], tick + INTERVAL, "write_bytes", 2 << 20),
                Point("lustre", tags["78"], tick, "write_bytes", 5 << 20),
            ]
        )
        assert "no-such-token" not in here.log.read_text()
        assert here.stop() == 0


# --- influx-check ---


class Checked:
    """Runs the command."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def __call__(self, site: str, *more: str, token: str | None = None) -> tuple[int, str, str]:
        """Return how it ended, and what it said to whom."""
        file = self._folder / "site.yaml"
        file.write_text(site)
        secrets = () if token is None else ("--secrets", str(secret(self._folder, token)))
        code = main(["influx-check", "--site", str(file), *secrets, *more])
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checked:
    return Checked(tmp_path, capsys)


def test_a_good_one_is_written_to_read_and_left_as_it_was(server: Influxd, checked: Checked) -> None:
    server.add_bucket("checked")
    token = server.add_token("read", "write", bucket="checked")
    code, said, wrong = checked(described(server.url, bucket="checked"), token=token)
    assert (code, wrong) == (Code.GOOD, "")
    assert said.splitlines() == [
        f"sink influx: {server.url}, org hpc, bucket checked: a point was written",
        "sink influx: it was read back",
        "sink influx: it was removed",
    ]
    assert server.points("checked") == []


def test_a_token_that_may_only_write_is_good_enough(server: Influxd, checked: Checked) -> None:
    server.add_bucket("written")
    code, said, _ = checked(described(server.url, bucket="written"), token=server.add_token("write", bucket="written"))
    assert code == Code.GOOD
    assert "it could not be read back, which the sink does not need: " in said


def test_nobody_there(checked: Checked) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    code, said, wrong = checked(described(url), token=ANY)
    assert (code, said) == (Code.UNREACHABLE, "")
    assert f"{url}, org hpc, bucket {BUCKET} cannot be asked: Connection refused" in wrong
    code, _, wrong = checked(described("http://nobody.invalid:8086"), token=ANY)
    assert (code, "Name or service not known" in wrong) == (Code.UNREACHABLE, True)


def test_a_certificate_that_nobody_trusts(tmp_path: Path, checked: Checked) -> None:
    credentials = Credentials(tmp_path / "ca")
    pair = credentials.issue("influx", names=("127.0.0.1",))
    with influxd(tmp_path / "influxd", tls=(pair.certificate, pair.key), ca=credentials.ca.certificate) as server:
        token = server.add_token("read", "write")
        code, _, wrong = checked(described(server.url), token=token)
        assert (code, "certificate verify failed" in wrong) == (Code.TLS, True)
        secret(tmp_path, credentials.ca.certificate.read_text(), "influx-ca/ca.crt")
        site = described(server.url, more="caSecretRef: {name: influx-ca},")
        assert checked(site, token=token)[0] == Code.GOOD
        code, _, wrong = checked(site.replace("127.0.0.1", "localhost"), token=token)
        assert (code, "Hostname mismatch" in wrong) == (Code.TLS, True)


def test_a_server_without_tls(server: Influxd, checked: Checked) -> None:
    assert checked(described(server.url.replace("http", "https")), token=ANY)[0] == Code.TLS


@pytest.mark.parametrize("rights", ["", "read"], ids=["unknown", "read only"])
def test_a_token_that_will_not_do(server: Influxd, checked: Checked, rights: str) -> None:
    token = server.add_token(rights) if rights else "no-such-token"
    code, said, wrong = checked(described(server.url), token=token)
    assert (code, said) == (Code.TOKEN, "")
    assert token not in wrong


def test_no_such_organisation_and_no_such_bucket(server: Influxd, checked: Checked) -> None:
    token = server.add_token("write")
    assert checked(described(server.url, org="nobody"), token=token)[0] == Code.ORG
    assert checked(described(server.url, bucket="nothing"), token=token)[0] == Code.BUCKET


def test_clocks_that_differ(server: Influxd, wire: Wire, checked: Checked) -> None:
    token = server.add_token("read", "write")
    for minutes, side in ((-5, "behind"), (5, "ahead of")):
        wire.date = format_datetime(datetime.now(UTC) + timedelta(minutes=minutes), usegmt=True)
        code, _, wrong = checked(described(wire.url), token=token)
        assert code == Code.TIME
        assert f"s {side} ours" in wrong
    wire.date = "nonsense"
    assert checked(described(wire.url), token=token)[0] == Code.GOOD


def test_what_is_taken_and_not_there(
    server: Influxd, wire: Wire, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harvest_aggregator.influx_check._READ_SECONDS", 0.5)
    wire.always = Fault(204)
    code, _, wrong = checked(described(wire.url), token=server.add_token("read", "write"))
    assert (code, "it was taken, and is not there" in wrong) == (Code.TIME, True)


def test_anything_else_is_shown(server: Influxd, wire: Wire, checked: Checked) -> None:
    wire.always = Fault(500, body=b'{"code":"internal error","message":"the disk is full"}')
    code, _, wrong = checked(described(wire.url), token=server.add_token("write"))
    assert (code, "answers 500: the disk is full" in wrong) == (Code.OTHER, True)


def test_what_is_wrong_with_the_question(server: Influxd, checked: Checked, tmp_path: Path) -> None:
    site = described(server.url)
    assert checked(site)[0] == Code.USAGE
    code, _, wrong = checked(site, "--sink", "other", token=ANY)
    assert (code, wrong) == (Code.USAGE, "harvest-aggregator: the site has no influxdb sink other; it has: influx\n")
    none = site.partition("sinks:")[0]
    code, _, wrong = checked(none, token=ANY)
    assert (code, wrong) == (Code.USAGE, "harvest-aggregator: the site has no influxdb sink; it has: none\n")
    code, _, wrong = checked(site, "--secrets", str(tmp_path / "nowhere"))
    assert (code, wrong) == (Code.USAGE, f"harvest-aggregator: there is no folder {tmp_path}/nowhere\n")


def test_of_several_each_is_checked_and_the_first_that_fails_is_told(server: Influxd, checked: Checked) -> None:
    one = described(server.url, org="nobody").partition("sinks: [")[2].rpartition("]")[0]
    other = described(server.url).partition("sinks: [")[2].rpartition("]")[0].replace("name: influx,", "name: well,", 1)
    site = described(server.url).partition("sinks:")[0] + f"sinks: [{one}, {other}]\n"
    code, said, wrong = checked(site, token=server.add_token("read", "write"))
    assert code == Code.ORG
    assert (said.count("sink well: "), wrong.count("sink influx: ")) == (3, 1)
    assert checked(site, "--sink", "well", token=server.add_token("read", "write"))[0] == Code.GOOD
