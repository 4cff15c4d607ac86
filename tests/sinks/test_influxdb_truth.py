"""A simulated site, the real keeper and sink, a real InfluxDB: what is read back is what was done, tick by tick."""

from collections import Counter as Sums
from collections.abc import Iterator
from pathlib import Path

import pytest

from harvest.v1.stream_pb2 import SlurmJob
from harvest_sim.lives import EndReason
from support.influx import ORG, Influxd, Point, influxd
from support.virtual_site import TARGETS, Series, Told, VirtualSite

SITE = """
interval: {interval}
filesystems:
  - {{name: home, servers: [s0, s1], clients: {{interval: 10m}}}}
  - {{name: data, servers: [s0, s1], clients: {{interval: 10m}}}}
{more}
sinks: [{{name: influx, influxdb: {{url: "{url}", org: {org}, bucket: {bucket},
  tokenSecretRef: {{name: influx, key: token}}}}}}]
"""
SLURM = "clusters: [{name: vu, filesystems: [home, data], jobIds: {format: '%j'}, slurm: {server: s0}}]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Influxd]:
    with influxd(tmp_path_factory.mktemp("influx") / "influxd") as here:
        yield here


def site(folder: Path, server: Influxd, bucket: str, *, interval: int = 20, more: str = "") -> VirtualSite:
    """Return a site whose sink writes to a bucket of its own."""
    server.add_bucket(bucket)
    token = folder / "secrets/influx/token"
    token.parent.mkdir(parents=True)
    token.write_text(server.add_token("write", bucket=bucket))
    token.chmod(0o600)
    text = SITE.format(interval=f"{interval}s", url=server.url, org=ORG, bucket=bucket, more=more)
    return VirtualSite(folder, text, folder / "secrets", ticks_seconds=interval)


def series(points: list[Point]) -> dict[Series, dict[int, dict[str, float]]]:
    """Return the fields of every point, by series and time."""
    found: dict[Series, dict[int, dict[str, float]]] = {}
    for point in points:
        tags = dict(point.tags)
        assert point.measurement == "lustre"
        assert tags.keys() == {"job", "fs", "server"}
        assert isinstance(point.value, int)
        key = (tags["job"], tags["fs"], tags["server"])
        found.setdefault(key, {}).setdefault(point.seconds, {})[point.field] = point.value
    return found


def at(points: dict[int, dict[str, float]], tick: int) -> dict[str, float]:
    """Return the last value of every field until a tick."""
    values: dict[str, float] = {}
    for seconds in sorted(points):
        if seconds <= tick:
            values |= points[seconds]
    return values


def differences(
    server: Influxd, bucket: str, expected: dict[int, Told], names: dict[str, str] | None = None
) -> list[str]:
    """Return everything that is not as it must be at any of some ticks: numbers, and when points are."""
    found = series(server.points(bucket))
    wrong = []
    ticks = sorted(expected)
    for before, tick in zip([0, *ticks], ticks, strict=False):
        for (job, fs, kind), did in expected[tick].items():
            points = found.get(((names or {}).get(job, job), fs, kind), {})
            told = {name: value for name, value in at(points, tick).items() if value}
            if told != dict(did):
                wrong.append(f"{job} on {fs} {kind} at {tick}: {told} and not {dict(did)}")
            moved = expected.get(before, {}).get((job, fs, kind), Sums()) != did
            if moved != any(before < seconds <= tick for seconds in points):
                wrong.append(f"{job} on {fs} {kind}: moved until {tick}: {moved}; points: {sorted(points)}")
    known = {((names or {}).get(job, job), fs, kind) for told in expected.values() for job, fs, kind in told}
    return wrong + [f"nobody did {one}" for one in found.keys() - known]


def test_what_is_read_back_is_what_every_job_did_at_every_tick(tmp_path: Path, server: Influxd) -> None:
    here = site(tmp_path, server, "truth")
    here.begin()
    for number in range(60):
        jobs = [
            b"%d" % (100 + job) for job in range(12) if (number + job) % 7 < 3 and not (20 <= number < 28 and job < 6)
        ]
        here.work(jobs)
        here.sweep()
        if number in {12, 33}:  # counters begin again, all of them read
            here.site.remount("home-OST0000")
            here.site.fail_over("home-OST0001", "s0" if number == 12 else "s1")
            here.site.clear("data-OST0000")
        if number == 43:
            here.cut.add("s1")
        if number == 48:
            here.cut.clear()
        if number in {25, 45}:
            here.agents["s0"].restart()
        if number in {30, 40}:  # the aggregator
            here.settle()
            here.end()
            here.begin()
    health = here.settle()
    here.end()
    assert (health.rejected, health.dropped, health.trouble) == (0, 0, None)
    reasons = {life.end_reason for life in here.site.truth.select()}
    assert reasons >= {EndReason.UNMOUNTED, EndReason.CLEARED, EndReason.EVICTED}
    assert differences(server, "truth", here.expected) == []


def test_jobs_have_their_names_however_late_slurm_tells_them(tmp_path: Path, server: Influxd) -> None:
    here = site(tmp_path, server, "named", more=SLURM)
    here.begin()
    for number in range(12):
        here.work([b"100", b"101", b"102", b"cp.1000"] if number < 5 else [b"100", b"102"])
        here.sweep()
        if number == 6:
            here.tell(SlurmJob(id=100, state="RUNNING"), SlurmJob(id=101, array_id=99, array_task=4, state="COMPLETED"))
    here.settle()
    here.end()
    told = {
        tick: {series: did for series, did in jobs.items() if series[0] in {"100", "101"}}
        for tick, jobs in here.expected.items()
    }
    assert differences(server, "named", told, {"101": "99_4"}) == []


def test_an_influxdb_that_is_away_gets_everything_once_it_is_back(tmp_path: Path, server: Influxd) -> None:
    here = site(tmp_path, server, "away")
    here.begin()
    jobs = [b"100", b"101", b"102"]
    for number in range(30):
        here.work(jobs)
        here.sweep()
        if number == 5:
            here.settle()
            server.stop()
        if number == 20:  # five minutes later
            assert here.health().queued >= 14
            assert "Connection refused" in str(here.health().trouble)
            server.start()
    health = here.settle()
    here.end()
    assert (health.accepted, health.rejected, health.dropped, health.trouble) == (30, 0, 0, None)
    assert differences(server, "away", here.expected) == []


def test_what_waits_too_long_is_dropped_and_counted_and_the_rest_is_right(tmp_path: Path, server: Influxd) -> None:
    here = site(tmp_path, server, "bound", interval=600, more=SLURM)  # so that six may wait
    for target in TARGETS:
        here.site.set_cleanup_interval(target, 100_000)
    here.begin()
    here.tell(*(SlurmJob(id=job, state="RUNNING") for job in (100, 101, 102)))  # else who rests is let go
    for number in range(15):
        here.work([b"100", b"101", b"102"] if number == 4 else [b"100", b"101"])  # one only in a sweep that is dropped
        here.sweep()
        if number == 2:
            here.settle()
            server.stop()
    assert here.health().queued <= 6
    server.start()
    here.settle()
    here.sweep()  # which makes up for what was dropped, though nobody did anything
    health = here.settle()
    here.end()
    assert (health.accepted + health.dropped, health.rejected) == (16, 0)
    assert 5 <= health.dropped <= 6  # one may have been taken for a try
    found = series(server.points("bound"))
    ticks = sorted(here.expected)
    for number, tick in enumerate(ticks):
        was_dropped = 3 <= number < 3 + health.dropped
        before = here.expected[ticks[number - 1]] if number else {}
        for one, did in here.expected[tick].items():
            if tick == ticks[-1] or (did != before.get(one) and not was_dropped):
                assert {name: value for name, value in at(found[one], tick).items() if value} == dict(did)
