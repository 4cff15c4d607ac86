"""A head's counters for Prometheus show what its nodes did since it knows of them, and go on whoever tells of them."""

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from demo.installation import Installation
from demo.processes import run as command
from harvest_aggregator.accounts import Accounts
from harvest_aggregator.relays.outgoing import totals_of
from harvest_site.loading import load
from relays.site_wide import FILESYSTEM, INTERVAL, MEASURES, SENDER, Lustre, servers
from support.processes import LIMIT_SECONDS, wait_for
from support.virtual_clients import EPOCH_SECONDS, VirtualClients

NODES = [f"10.1.0.{number}@o2ib" for number in (1, 2, 3)]
NEW = "10.1.0.4@o2ib"
SINKS = [{"name": "prom", "prometheus": {"perClient": "all"}}]
GDATA = {FILESYSTEM: (FILESYSTEM, servers(FILESYSTEM))}
METRICS = {
    ("harvest_client_read_bytes", ""): "read_bytes",
    ("harvest_client_write_bytes", ""): "write_bytes",
    ("harvest_client_operations", "ost"): "oss_ops",
    ("harvest_client_operations", "mdt"): "mds_ops",
}
Counters = dict[tuple[str, str], int]
"""By NID, or "" of all others, and measure; without zeros."""


class Pair:
    """A site with a file system, and the head of the cluster that mounts it, which may have agents there, too."""

    def __init__(self, folder: Path) -> None:
        self.sender = Installation(folder / SENDER, filesystems=GDATA, name=SENDER)
        self.lustre = Lustre(FILESYSTEM, self.sender.trees, list(NODES))
        (folder / "vu").mkdir()
        (folder / "vu" / "lustre").symlink_to(self.sender.trees)
        self.head = Installation(folder / "vu", filesystems=GDATA, name="vu")
        secrets = folder / SENDER / "secrets"
        out = ("--out", str(secrets / "relay-vu"))
        command("harvest-aggregator", "ca", "issue-relay", SENDER, "--data", str(self.head.data), *out)
        options = [*self.sender.run_options(), "--secrets", str(secrets)]
        self.sender.aggregator = self.sender.program("aggregator", ["harvest-aggregator", "run", *options])
        self.tell("10.1.0.*@o2ib")
        self.listen()

    def tell(self, nids: str) -> None:
        """Let the sender tell these nodes."""
        relay = {
            "cluster": "vu",
            "filesystems": [FILESYSTEM],
            "endpoint": f"127.0.0.1:{self.head.grpc_port}",
            "tlsSecretRef": {"name": "relay-vu"},
        }
        clusters = [{"name": "vu", "nids": [nids], "filesystems": [FILESYSTEM]}]
        self.sender.write_site(GDATA, INTERVAL, clusters=clusters, relays=[relay], sinks=SINKS)

    def listen(self, *, to_agents: bool = False) -> None:
        """Let the head hear of nodes from the sender, or from agents of its own."""
        accepts = [] if to_agents else [{"name": SENDER, "filesystems": [FILESYSTEM], "lnets": ["o2ib"]}]
        self.head.write_site(
            GDATA if to_agents else {},
            INTERVAL,
            accepts=accepts,
            sinks=SINKS,
        )

    def counters(self, here: Installation | None = None) -> Counters:
        """Return what the head shows, or another."""
        where = f"http://127.0.0.1:{(here or self.head).http_port}/metrics/prom"
        with urllib.request.urlopen(where, timeout=LIMIT_SECONDS) as answer:
            page = answer.read().decode()
        return {
            (sample.labels["nid"], METRICS[family.name, sample.labels.get("component", "")]): round(sample.value)
            for family in text_string_to_metric_families(page)
            if family.name.startswith("harvest_client_")
            for sample in family.samples
            if sample.value
        }

    def heard(self) -> set[str]:
        """Return the nodes of which the head knows what they do, on both kinds of target."""
        clients = self.head.get("/api/v1/clients")["clients"]
        return {one["nid"] for one in clients if None not in one["filesystems"].get(FILESYSTEM, {"": None}).values()}

    def step_until(self, condition: Callable[[], object], what: str) -> None:
        """Let the time go on until something is so."""

        def is_so() -> bool:
            self.lustre.step()
            try:
                return bool(condition())
            except (OSError, ValueError):  # it is not ready yet
                return False

        wait_for(is_so, what, seconds=180)

    def wait_for(self, must: Counters, what: str) -> None:
        """Wait until the head shows exactly this."""
        try:
            self.step_until(lambda: self.counters() == must, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {sorted(set(self.counters().items()) ^ set(must.items()))}") from error

    def work(self) -> Counters:
        """Let all nodes do something, and return what, once agents have seen it."""
        before = self.lustre.shown()
        self.lustre.work()
        names = [*self.lustre.nids]

        def done() -> Counters:
            now = self.lustre.shown()
            return {
                (nid, measure): number - old
                for nid in names
                for measure, number, old in zip(MEASURES, now.get(nid, ()), before.get(nid, (0, 0, 0, 0)), strict=False)
                if number > old
            }

        self.step_until(lambda: len(done()) == len(names) * len(MEASURES), "agents to see it all")
        return done()

    def done(self) -> Counters:
        """Return all that agents ever saw."""
        return {
            (nid, measure): number
            for nid, numbers in self.lustre.shown().items()
            for measure, number in zip(MEASURES, numbers, strict=True)
            if nid in self.lustre.nids
        }

    def stop(self) -> None:
        """Stop everything."""
        for here in (self.sender, self.head):
            here.stop()
        self.lustre.close()


def plus(some: Counters, more: Counters) -> Counters:
    return {key: some.get(key, 0) + more.get(key, 0) for key in some | more}


def of(counters: Counters, *nids: str) -> Counters:
    return {key: value for key, value in counters.items() if key[0] in nids}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    try:
        yield pair
    finally:
        pair.stop()


def test_a_node_that_comes_into_reach_begins_there_and_a_new_one_with_its_first_byte(pair: Pair) -> None:
    pair.tell("10.1.0.[1-2]@o2ib")
    pair.sender.start()
    pair.head.aggregator.start()
    first = pair.work()
    two = of(first, *NODES[:2])
    pair.wait_for(two, "two nodes")
    pair.tell("10.1.0.*@o2ib")
    pair.step_until(lambda: pair.heard() == set(NODES), "the third node")
    more = pair.work()
    must = plus(two, more)
    pair.wait_for(must, "what all three did since")
    assert of(first, NODES[2]) != {}, "the third had done as much before, which is in no counter"
    pair.lustre.site.connect(FILESYSTEM, NEW)
    pair.lustre.nids.append(NEW)
    last = pair.work()
    assert len(of(last, NEW)) == len(MEASURES)
    pair.wait_for(plus(must, last), "all that the new one did")


def test_counters_go_on_when_a_file_system_becomes_the_heads_own_and_back(pair: Pair) -> None:
    pair.sender.start()
    pair.head.aggregator.start()
    shown = plus(pair.work(), {})
    pair.wait_for(shown, "what a relay told")
    for target in ("OST0000", "MDT0000"):
        pair.lustre.site.remount(f"{FILESYSTEM}-{target}")  # so that who begins to look now has seen less
    shown = plus(shown, pair.work())
    shown = plus(shown, pair.work())
    pair.wait_for(shown, "what a relay told since")

    pair.head.aggregator.kill()
    pair.listen(to_agents=True)
    pair.head.start()
    pair.step_until(lambda: pair.heard() == set(NODES), "what agents of the head tell")
    for _ in range(2):
        pair.wait_for(shown, "what was shown before")
        shown = plus(shown, pair.work())
        pair.wait_for(shown, "as much more as was done")

    pair.head.stop()
    pair.listen()
    pair.work()  # which nobody at the head can know, once the sender knows it
    pair.step_until(lambda: pair.counters(pair.sender) == pair.done(), "the sender to know it")
    pair.head.aggregator.start()
    pair.step_until(lambda: pair.heard() == set(NODES), "what a relay tells again")
    for _ in range(2):
        pair.wait_for(shown, "what was shown before")
        shown = plus(shown, pair.work())
        pair.wait_for(shown, "as much more as was done")


def test_what_own_agents_counted_is_known_when_the_file_system_is_not_the_sites_any_more(tmp_path: Path) -> None:
    here = load("filesystems: [{name: fs, servers: [sost0000, smdt0000], clients: {interval: 20s}}]")
    virtual = VirtualClients(tmp_path, here, {"fs-OST0000": "2.16.1", "fs-MDT0000": "2.15.8"})
    try:
        for nid in NODES:
            virtual.site.connect("fs", nid)
        for passes in range(1, 4):
            for number, nid in enumerate(NODES, passes):
                virtual.site.mounted("fs-OST0000").bulk(b"4711", "write", 1 << 20, count=number, nid=nid)
                virtual.site.mounted("fs-OST0000").bulk(b"4711", "read", 1 << 16, count=1 + number, nid=nid)
                virtual.site.mounted("fs-MDT0000").do(b"4711", "open", 9, count=2 + number, nid=nid)
            virtual.pass_by()
            if passes == 1:
                virtual.accounts.fold_all()  # what comes later is in no snapshot
        there = Accounts(virtual.ledger, load("accepts: [{name: alkindi, filesystems: [fs], lnets: [o2ib]}]"))
        there.load(EPOCH_SECONDS)
        known = {
            nid: (read + more_read, written + more_written, operations, more_operations)
            for nid, totals in totals_of(there.clients_then("fs")).items()
            for read, written, operations, more_read, more_written, more_operations in [[max(one, 0) for one in totals]]
        }
        assert known == {nid: done for nid, done in virtual.shown().items() if nid in NODES}
        assert known.keys() == set(NODES), "and no server"
        assert not totals_of(there.clients_then("another"))
    finally:
        virtual.close()
