"""What nodes are called."""

import pytest

from harvest_aggregator.hosts import Host, Hosts
from harvest_aggregator.resolver import Resolver
from harvest_site.loading import load

SITE = r"""
filesystems: [{name: home, servers: [oss1]}]
clusters:
  - {name: plain, lnets: [tcp]}
  - name: vu
    lnets: [o2ib, kfi]
    hosts:
      - {table: [{nid: 10.1.0.1@o2ib0, host: login1, address: 10.2.0.1}, {nid: 10.1.0.2@o2ib, host: login2}]}
      - {pattern: {nid: "10[.]1[.]0[.](\\d+)@o2ib", host: "vu\\10", address: "10.2.0.\\1"}}
      - {pattern: {nid: "10[.]1[.](\\d+)[.](\\d+)@o2ib", host: "r\\1n\\2"}}
      - {pattern: {nid: "10[.]7[.]0[.](0)?\\d*@o2ib", host: "\\1"}}
      - {dns: {}}
  - name: xe
    nids: ["10.1.[0-3].*@o2ib2", "fd00:1::/64@o2ib2"]
    hosts: [{dns: {}}, {pattern: {nid: "10[.]1[.]0[.](\\d+)@o2ib2", host: "xe\\1", address: "10.8.0.\\1"}}]
"""


class Dns:
    def __init__(self, **names: str | None) -> None:
        self.names: dict[str, str | None] = names
        self.asked: list[str] = []
        self.resolver = Resolver(lookup=self.lookup, elapsed_seconds=lambda: 0.0)

    def lookup(self, address: str) -> str | None:
        self.asked.append(address)
        return self.names.get(address)


def answered(hosts: Hosts, dns: Dns, nid: str) -> Host | None:
    """Return what a NID is called when DNS has said all it knows."""
    assert hosts.host(nid) is None
    dns.resolver.answer_one()
    return hosts.host(nid)


@pytest.fixture
def dns() -> Dns:
    return Dns()


@pytest.fixture
def hosts(dns: Dns) -> Hosts:
    return Hosts(load(SITE), dns.resolver)


@pytest.mark.parametrize(
    ("nid", "host"),
    [
        ("10.1.0.1@o2ib", Host("login1", "10.2.0.1", "vu")),
        ("10.1.0.2@o2ib", Host("login2", "10.1.0.2", "vu")),
        ("10.1.0.7@o2ib", Host("vu70", "10.2.0.7", "vu")),
        ("10.1.2.7@o2ib", Host("r2n7", "10.1.2.7", "vu")),
        ("10.3.0.9@tcp", Host("10.3.0.9@tcp", "10.3.0.9", "plain")),
        ("fd00:3::9@tcp", Host("fd00:3::9@tcp", "fd00:3::9", "plain")),
    ],
)
def test_the_first_rule_that_knows_a_node_names_it_without_asking_dns(
    hosts: Hosts, dns: Dns, nid: str, host: Host
) -> None:
    assert hosts.host(nid) == hosts.host(nid) == host
    dns.resolver.stop()
    assert not dns.resolver.answer_one()
    assert not dns.asked


@pytest.mark.parametrize(
    ("nid", "host"),
    [
        ("10.1.9.9@o2ib2", Host("10.1.9.9@o2ib2", "10.1.9.9", None)),
        ("10.1.0.7@tcp5", Host("10.1.0.7@tcp5", "10.1.0.7", None)),
        ("1f@<20:3>", Host("1f@<20:3>", "1f", None)),
        ("nonsense", Host("nonsense", "nonsense", None)),
    ],
)
def test_a_node_of_no_cluster_is_shown_by_its_nid(hosts: Hosts, nid: str, host: Host) -> None:
    assert hosts.host(nid) == host


@pytest.mark.parametrize(
    ("nid", "address"),
    [("10.1.3.4@o2ib2", "10.1.3.4"), ("fd00:1::4@o2ib2", "fd00:1::4"), ("fd00:1:0:0::4@o2ib2", "fd00:1::4")],
)
def test_dns_names_the_address_of_the_nid(hosts: Hosts, dns: Dns, nid: str, address: str) -> None:
    dns.names[address] = "xe4.example"
    assert answered(hosts, dns, nid) == Host("xe4.example", nid.partition("@")[0], "xe")
    assert dns.asked == [address]


def test_a_later_rule_waits_until_dns_has_said_that_it_knows_nothing(hosts: Hosts, dns: Dns) -> None:
    dns.names["10.1.0.5"] = "xe5.example"
    assert answered(hosts, dns, "10.1.0.5@o2ib2") == Host("xe5.example", "10.1.0.5", "xe")
    assert answered(hosts, dns, "10.1.0.6@o2ib2") == Host("xe6", "10.8.0.6", "xe")


@pytest.mark.parametrize("nid", ["10.1.3.9@o2ib2", "10.9.0.1@o2ib", "10.7.0.5@o2ib"])
def test_a_node_that_no_rule_knows_has_no_host(hosts: Hosts, dns: Dns, nid: str) -> None:
    assert answered(hosts, dns, nid) is None
    assert dns.asked == [nid.partition("@")[0]]


def test_dns_is_not_asked_for_networks_that_number_their_nodes(hosts: Hosts, dns: Dns) -> None:
    assert hosts.host("123@kfi") is None
    dns.resolver.stop()
    assert not dns.resolver.answer_one()
    assert not dns.asked


def test_a_changed_site_keeps_what_dns_said(hosts: Hosts, dns: Dns) -> None:
    dns.names["10.1.3.4"] = "xe4"
    answered(hosts, dns, "10.1.3.4@o2ib2")
    changed = Hosts(load(SITE.replace("name: xe\n", "name: new\n")), dns.resolver)
    assert changed.host("10.1.3.4@o2ib2") == Host("xe4", "10.1.3.4", "new")
