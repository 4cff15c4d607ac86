"""A sink of a site, a real InfluxDB, and between them a wire on which things go wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harvest_aggregator.published import Published
from harvest_aggregator.sinks.contract import Written
from harvest_aggregator.sinks.influxdb import Influxdb, InfluxdbPlan
from harvest_aggregator.sinks.table import plans
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_site.loading import load
from support.influx import BUCKET, ORG, Influxd, Wire
from unit.aggregator.publishing import TICK, WRITE, table

SITE = """
interval: 20s
filesystems: [{{name: home, servers: [oss1, oss2, oss3, oss4, mds1]}}]
sinks: [{{name: influx, influxdb: {{url: "{url}", org: {org}, bucket: {bucket}, {more}
  tokenSecretRef: {{name: influx, key: token}}}}}}]
"""


def described(url: str, *, org: str = ORG, bucket: str = BUCKET, more: str = "") -> str:
    """Return a site with one sink."""
    return SITE.format(url=url, org=org, bucket=bucket, more=more)


def secret(folder: Path, text: str, name: str = "influx/token") -> Path:
    """Write a secret, all of it at once; return the folder of all."""
    path = folder / "secrets" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)
    return folder / "secrets"


def sink(site: str, secrets: Path) -> Influxdb:
    [plan] = plans(load(site), secrets).values()
    assert isinstance(plan, InfluxdbPlan)
    return plan.build()


def sweep(*jobs: bytes) -> Published:
    """Return a first sweep in which each job wrote one byte more than the one before."""
    made = table({job: {WRITE: (1, number)} for number, job in enumerate(jobs, 1)}, TICK)
    closed = ClosedSweep(tick_seconds=TICK, missing=frozenset(), tables={("home", "OST"): made}, work={})
    return Published(tick_seconds=TICK, closed=closed)


def numbered(count: int) -> Published:
    """Return one of so many jobs."""
    return sweep(*(b"%d" % number for number in range(1, count + 1)))


@dataclass
class Scene:
    """One sink with a bucket of its own."""

    server: Influxd
    wire: Wire
    bucket: str
    folder: Path
    sink: Influxdb

    def write(self, published: Published) -> Written:
        return self.sink.write(self.sink.needed(published), lambda _: True)

    def read(self) -> dict[str, list[int]]:
        """Return what InfluxDB has of the bytes that each job wrote: every point there is."""
        found: dict[str, list[int]] = {}
        for point in self.server.points(self.bucket):
            if point.field == "write_bytes":
                found.setdefault(dict(point.tags)["job"], []).append(int(point.value))
        return found


@contextmanager
def scene(server: Influxd, folder: Path, *, more: str = "") -> Iterator[Scene]:
    """Return a sink that writes over the wire."""
    bucket = folder.name
    server.add_bucket(bucket)
    secrets = secret(folder, server.add_token("write", bucket=bucket))
    wire = Wire(server.port)
    try:
        yield Scene(server, wire, bucket, folder, sink(described(wire.url, bucket=bucket, more=more), secrets))
    finally:
        wire.close()
