"""A site-wide file system with real agents, and heads of clusters: real aggregators with CAs of their own."""

import json
import sqlite3
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from demo.play import Play, installed, settings
from demo.processes import Program, free_port
from harvest_aggregator.relays.incoming import load
from harvest_aggregator.relays.pictures import KINDS, MEASURES
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_core.facts import MDT, OST
from harvest_sim.lives import Subject
from harvest_sim.ops import Kind
from support.processes import LIMIT_SECONDS, wait_for
from support.uplinks import ca

SENDER = "demo"
FILESYSTEM = "scratch"
RANGES = {"vu": "10.1.0.[1-4]@o2ib", "xe": "10.1.0.[5-8]@o2ib"}
NODES = {"vu": range(1, 5), "xe": range(5, 9)}
Done = dict[tuple[str, str, str], int]
"""By NID, measure and kind of target."""


@dataclass
class Head:
    """The aggregator of one cluster, with a CA of its own, and no file system unless it is given one."""

    folder: Path
    name: str
    port: int = field(default_factory=free_port)
    http_port: int = field(default_factory=free_port)
    gmond: str | None = None
    accepts: list[dict[str, object]] = field(default_factory=list)
    more: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.data = self.folder / "data"
        self.accepts = self.accepts or [{"name": SENDER, "filesystems": [FILESYSTEM], "lnets": ["o2ib"]}]
        self.describe()
        self.ca = ca(self.data / "ca", self.name)
        self.ca.write_server(self.data / "tls", "main", now=datetime.now(UTC))
        options = ["--site", str(self.folder / "site.yaml"), "--data", str(self.data)]
        options += ["--grpc", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http_port}"]
        options += ["--secrets", str(self.folder)]
        self.program = Program(self.name, ["harvest-aggregator", "run", *options], self.folder / "log")

    def describe(self) -> None:
        """Write the site."""
        pattern = {"nid": r"10\.1\.0\.(\d)@o2ib", "host": rf"{self.name}\1", "address": r"10.2.0.\1"}
        cluster = {"name": self.name, "nids": [RANGES[self.name]], "hosts": [{"pattern": pattern}]}
        sinks: list[dict[str, object]] = [{"name": "prom", "prometheus": {"perClient": "all"}}]
        if self.gmond is not None:
            sinks.append({"name": "gmond", "ganglia": {"address": self.gmond}})
        spec = {"interval": "1s", "clusters": [cluster], "accepts": self.accepts, "sinks": sinks, **self.more}
        site = {
            "apiVersion": "lustreharvest.dev/v1alpha1",
            "kind": "HarvestSite",
            "metadata": {"name": self.name},
            "spec": spec,
        }
        draft = self.folder / "draft"
        draft.write_text(json.dumps(site))
        draft.replace(self.folder / "site.yaml")

    def issue(self, out: Path, name: str = SENDER) -> None:
        """Give a relay the files with which it may come."""
        self.ca.write_relay(out, name, now=datetime.now(UTC))

    def start(self) -> None:
        self.program.start()
        wait_for(self.is_ready, f"the head of {self.name}")

    def is_ready(self) -> bool:
        self.program.check()
        try:
            return bool(self.get("/readyz")["ready"])
        except (OSError, ValueError):
            return False

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever the API says
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=LIMIT_SECONDS) as answer:
            return json.load(answer)

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=LIMIT_SECONDS) as answer:
            return str(answer.read().decode())

    def rates(self) -> dict[str, dict[str, float]]:
        """Return what every node does now on the site-wide file system, by NID."""
        return {
            one["nid"]: one["filesystems"][FILESYSTEM]
            for one in self.get("/api/v1/clients")["clients"]
            if FILESYSTEM in one["filesystems"]
        }

    def totals(self) -> Done:
        """Return what its ledger holds of every node."""
        with closing(sqlite3.connect(f"file:{self.data / 'ledger.db'}?mode=ro", uri=True)) as ledger:
            rows = ledger.execute("SELECT payload FROM relayed WHERE filesystem = ?", (FILESYSTEM,)).fetchall()
        return {
            (nid, measure, kind): total
            for (payload,) in rows
            for nid, totals in load(payload).held.items()
            for (kind, measure), total in zip(product(KINDS, MEASURES), totals, strict=True)
            if total > 0
        }

    def counters(self) -> dict[str, int]:
        """Return what its prometheus sink shows of the bytes that every node wrote."""
        return {
            sample.labels["nid"]: round(sample.value)
            for family in text_string_to_metric_families(self.text("/metrics/prom"))
            if family.name == "harvest_client_write_bytes"
            for sample in family.samples
            if sample.value and sample.labels["nid"]
        }

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one name in its log, of all its processes."""
        return events(self.folder / "log", name)


def events(log: Path, name: str) -> list[dict[str, Any]]:
    """Return the events of one name in a log."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in lines if line["event"] == name]


class Tree:
    """A site whose aggregator relays to heads, through ports that may be others'."""

    def __init__(
        self, folder: Path, heads: dict[str, Head], ports: dict[str, int], *, seconds: float, interval: int = 1
    ) -> None:
        """``interval`` is in seconds."""
        simulated = settings(event_seconds=1e6)  # nothing befalls Lustre: then what was shown is what was done
        self.here = installed(folder / "site", simulated)
        self.secrets = folder / "site" / "secrets"
        self.secrets.mkdir()
        self.ports = ports
        self._interval = interval
        self.heads = heads
        self.describe()
        for name, head in heads.items():
            head.issue(self.secrets / f"relay-{name}")
        options = [*self.here.run_options(), "--secrets", str(self.secrets)]
        self.here.aggregator = self.here.program("aggregator", ["harvest-aggregator", "run", *options])
        self.play = Play(self.here, simulated, for_seconds=seconds)

    def describe(self, **more: object) -> None:
        """Write the site."""
        clusters = [{"name": name, "nids": [nids], "filesystems": [FILESYSTEM]} for name, nids in RANGES.items()]
        relays = [
            {
                "cluster": name,
                "filesystems": [FILESYSTEM],
                "endpoint": f"127.0.0.1:{port}",
                "tlsSecretRef": {"name": f"relay-{name}"},
            }
            for name, port in self.ports.items()
        ]
        self.here.write_site(
            {FILESYSTEM: (FILESYSTEM, self.here.servers)},
            self._interval,
            **{"clusters": clusters, "relays": relays, **more},
        )

    def warnings(self) -> list[str]:
        """Return what the sender's aggregator warns of."""
        return list(self.here.get("/readyz")["warnings"])

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one name in the sender's log."""
        return events(self.here.aggregator.log, name)

    def truth(self, cluster: str) -> Done:
        """Return what was shown of the nodes of a cluster, and counts."""
        nids = {f"10.1.0.{number}@o2ib" for number in NODES[cluster]}
        found: Done = Counter()
        for row in self.play.live.site.truth.rows(Subject.EXPORT):
            nid, counter = row.life.key.decode(), (row.op.name, row.op.unit)
            component = OST if row.life.scope.kind is Kind.OST else MDT
            if nid in nids and row.op.name != "ping":
                if counts_read_bytes(counter):
                    found[nid, "read_bytes", component] += row.shown_sum
                elif counts_written_bytes(counter):
                    found[nid, "write_bytes", component] += row.shown_sum
                elif counts_operations(counter):
                    found[nid, "operations", component] += row.shown_samples
        return {key: value for key, value in found.items() if value}

    def wait_for_truth(self, *clusters: str) -> None:
        """Wait, while the site is idle, until heads show exactly what their nodes did."""
        for name in clusters:
            head = self.heads[name]

            def is_so(head: Head = head, name: str = name) -> bool:
                self.play.step()
                return bool(self.truth(name)) and head.totals() == self.truth(name)

            try:
                wait_for(is_so, f"the truth at the head of {name}", seconds=180)
            except AssertionError as error:
                differs = set(head.totals().items()) ^ set(self.truth(name).items())
                raise AssertionError(f"{error}: {sorted(differs)[:6]}, {self.warnings()}") from error

    def step_until(self, condition: Callable[[], object], what: str) -> None:
        """Let the simulated site go on until something is so."""

        def is_so() -> bool:
            self.play.step()
            try:
                return bool(condition())
            except (urllib.error.URLError, OSError):
                return False

        wait_for(is_so, what, seconds=180)

    def close(self) -> None:
        self.here.stop()
        self.play.live.face.close()
        for head in self.heads.values():
            head.program.stop()
