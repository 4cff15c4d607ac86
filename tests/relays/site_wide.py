"""lustreHarvest's own example: ``gdata`` of ``alkindi``, which the clusters vu, xe and dcc mount, and their heads."""

import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from prometheus_client.parser import text_string_to_metric_families

from demo.installation import Installation
from demo.processes import run as command
from harvest_sim.clock import NSECS
from harvest_sim.disk import DiskFace
from harvest_sim.site import Site
from support.ganglia import Gmond
from support.processes import LIMIT_SECONDS
from support.virtual_clients import Done, shown

SENDER = "alkindi"
FILESYSTEM = "gdata"
LNETS = {"vu": "o2ib", "xe": "o2ib2", "dcc": "tcp102"}
NODES = {"vu": 3, "xe": 2, "dcc": 2}
LOCAL = {"vu": "home", "xe": "short"}
"""The file system that a cluster has for itself."""
NOBODYS = "10.9.0.1@tcp"
"""A node that no cluster owns."""
INTERVAL = 1
PERIOD = 2 * INTERVAL
"""Of clients, in seconds."""
MEASURES = ("read_bytes", "write_bytes", "oss_ops", "mds_ops")


def nids(cluster: str) -> dict[str, str]:
    """Return the nodes of a cluster, each with its host name."""
    subnet = list(LNETS).index(cluster) + 1
    return {f"10.{subnet}.0.{n}@{LNETS[cluster]}": f"{cluster}{n}" for n in range(1, NODES[cluster] + 1)}


class Lustre:
    """A simulated file system on an OSS and an MDS, on disk; its nodes work only when they are told to."""

    def __init__(self, name: str, root: Path, nids: list[str]) -> None:
        self.name = name
        self.nids = nids
        self.site = Site(Random(1), epoch_seconds=int(time.time()))
        self._began = time.monotonic()
        for server, target, version in zip(servers(name), ("OST0000", "MDT0000"), ("2.16.1", "2.15.8"), strict=True):
            self.site.add_server(server, version)
            self.site.add_target(f"{name}-{target}", [server])
        for nid in nids:
            self.site.connect(name, nid)
        self._face = DiskFace(self.site, root, Random(2))
        self._face.publish()

    def step(self) -> None:
        """Let its time go on."""
        self._face.poll()
        self.site.time.advance_to(round((time.monotonic() - self._began) * NSECS))
        self._face.publish()

    def work(self) -> None:
        """Let every node do something, each as much as no other does, and the same each time."""
        ost, mdt = (self.site.mounted(f"{self.name}-{target}") for target in ("OST0000", "MDT0000"))
        for number, nid in enumerate(self.nids, len(self.name)):
            ost.bulk(b"4711", "write", 1 << 20, count=41 + 2 * number, nid=nid)
            ost.bulk(b"4711", "read", 1 << 16, count=23 + 2 * number, nid=nid)
            ost.do(b"4711", "setattr", 7, count=101 + 6 * number, nid=nid)
            mdt.do(b"4711", "open", 9, count=301 + 10 * number, nid=nid)
        self._face.publish()

    def shown(self) -> Done:
        """Return what agents have seen of every node."""
        self._face.poll()
        return shown(self.site)

    def close(self) -> None:
        """Stop watching."""
        self._face.close()


def servers(filesystem: str) -> tuple[str, str]:
    """Return the OSS and the MDS of a file system."""
    return f"{filesystem}-oss1", f"{filesystem}-mds1"


@dataclass
class Head:
    """The aggregator of one cluster, with the agents of its own file system if it has one, and its gmond."""

    folder: Path
    name: str
    gmond: Gmond = field(init=False)
    here: Installation = field(init=False)
    lustre: Lustre | None = None

    def __post_init__(self) -> None:
        self.gmond = Gmond(self.folder / "gmond", self.name)
        local = {LOCAL[self.name]: (LOCAL[self.name], servers(LOCAL[self.name]))} if self.name in LOCAL else {}
        self.here = Installation(self.folder, filesystems=local, name=self.name)
        lnet, subnet = LNETS[self.name], list(LNETS).index(self.name) + 1
        pattern = {
            "nid": rf"10\.{subnet}\.0\.(\d+)@{lnet}",
            "host": rf"{self.name}\1",
            "address": rf"10.20.{subnet}.\1",
        }
        self.here.write_site(
            local,
            INTERVAL,
            clusters=[{"name": self.name, "lnets": [lnet], "hosts": [{"pattern": pattern}]}],
            accepts=[{"name": SENDER, "filesystems": [FILESYSTEM], "lnets": [lnet]}],
            sinks=[
                {"name": "gmond", "ganglia": {"address": self.gmond.address}},
                {"name": "prom", "prometheus": {"perClient": "all"}},
            ],
        )
        if self.name in LOCAL:
            self.lustre = Lustre(LOCAL[self.name], self.here.trees, list(nids(self.name)))

    def counters(self) -> dict[tuple[str, str], int]:
        """Return how many bytes it says that each node wrote, by file system and NID."""
        where = f"http://127.0.0.1:{self.here.http_port}/metrics/prom"
        with urllib.request.urlopen(where, timeout=LIMIT_SECONDS) as answer:
            page = answer.read().decode()
        return {
            (sample.labels["fs"], sample.labels["nid"]): round(sample.value)
            for family in text_string_to_metric_families(page)
            if family.name == "harvest_client_write_bytes"
            for sample in family.samples
            if sample.value and sample.labels["nid"]
        }

    @property
    def hosts(self) -> list[tuple[str, str]]:
        """Name and address of each node."""
        subnet = list(LNETS).index(self.name) + 1
        return [(f"{self.name}{n}", f"10.20.{subnet}.{n}") for n in range(1, NODES[self.name] + 1)]


class SiteWide:
    """The site with the file system, and the three heads; each with a CA of its own."""

    def __init__(self, folder: Path) -> None:
        gdata = {FILESYSTEM: (FILESYSTEM, servers(FILESYSTEM))}
        self.here = Installation(folder / SENDER, filesystems=gdata, name=SENDER)
        secrets = self.here.folder / "secrets"
        options = [*self.here.run_options(), "--secrets", str(secrets)]
        self.here.aggregator = self.here.program("aggregator", ["harvest-aggregator", "run", *options])
        everybody = [nid for cluster in LNETS for nid in nids(cluster)]
        self.lustre = Lustre(FILESYSTEM, self.here.trees, [*everybody, NOBODYS])
        self.heads = {name: Head(folder / name, name) for name in LNETS}
        self.here.write_site(
            gdata,
            INTERVAL,
            clusters=[{"name": name, "lnets": [lnet], "filesystems": [FILESYSTEM]} for name, lnet in LNETS.items()],
            relays=[
                {
                    "cluster": name,
                    "filesystems": [FILESYSTEM],
                    "endpoint": f"127.0.0.1:{head.here.grpc_port}",
                    "tlsSecretRef": {"name": f"relay-{name}"},
                }
                for name, head in self.heads.items()
            ],
        )

        def issue(name: str) -> None:
            """Do as the head's admin does, who then hands over the folder."""
            data, out = str(self.heads[name].here.data), str(secrets / f"relay-{name}")
            command("harvest-aggregator", "ca", "issue-relay", SENDER, "--data", data, "--out", out)

        with ThreadPoolExecutor() as pool:
            list(pool.map(issue, self.heads))

    @property
    def installations(self) -> list[Installation]:
        """All sites."""
        return [self.here, *(head.here for head in self.heads.values())]

    @property
    def lustres(self) -> list[Lustre]:
        """All simulated file systems."""
        return [self.lustre, *(head.lustre for head in self.heads.values() if head.lustre is not None)]

    def start(self) -> None:
        """Start everything."""
        for head in self.heads.values():
            head.gmond.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Installation.start, self.installations))

    def step(self) -> None:
        """Let a moment pass."""
        for lustre in self.lustres:
            lustre.step()
        for here in self.installations:
            here.check()

    def stop(self) -> None:
        """Stop everything."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Installation.stop, self.installations))
        for head in self.heads.values():
            head.gmond.stop()
        for lustre in self.lustres:
            lustre.close()
