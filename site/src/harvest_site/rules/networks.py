"""Networks and names: whose a node is must never depend on the order of the file."""

import itertools
import re
from collections.abc import Iterator
from typing import Final

from harvest_site.clusters import Cluster, HostPattern
from harvest_site.fields import shown
from harvest_site.model import Spec
from harvest_site.rules.rule import Finding, Rule


def _pairs(spec: Spec) -> Iterator[tuple[tuple[int, Cluster], tuple[int, Cluster]]]:
    return itertools.combinations(enumerate(spec.clusters), 2)


def _lnets(spec: Spec) -> Iterator[Finding]:
    for (_, first), (index, second) in _pairs(spec):
        for place, lnet in enumerate(second.lnets):
            if lnet in first.lnets:
                yield ("clusters", index, "lnets", place), f"the cluster {shown(first.name)} has {lnet}, too"


def _ranges_of_owned_lnets(spec: Spec) -> Iterator[Finding]:
    owners = {lnet: cluster.name for cluster in spec.clusters for lnet in cluster.lnets}
    for index, cluster in enumerate(spec.clusters):
        for place, nids in enumerate(cluster.nid_ranges):
            if nids.network in owners:
                yield (
                    ("clusters", index, "nids", place),
                    f"the cluster {shown(owners[nids.network])} has all of {nids.network}",
                )


def _ranges(spec: Spec) -> Iterator[Finding]:
    for (_, first), (index, second) in _pairs(spec):
        for place, nids in enumerate(second.nid_ranges):
            for text, other in zip(first.nids, first.nid_ranges, strict=True):
                if nids.overlaps(other):
                    yield (
                        ("clusters", index, "nids", place),
                        f"{second.nids[place]} overlaps {text} of the cluster {shown(first.name)}",
                    )


def _host_rules(spec: Spec) -> Iterator[Finding]:
    for index, cluster in enumerate(spec.clusters):
        for place, rule in enumerate(cluster.hosts):
            if [rule.dns, rule.pattern, rule.table].count(None) != 2:
                yield ("clusters", index, "hosts", place), "a rule is one of three kinds"


def _missing_groups(pattern: HostPattern) -> Iterator[tuple[str, str]]:
    groups = re.compile(pattern.nid).groups
    for key, template in (("host", pattern.host), ("address", pattern.address or "")):
        for number in re.findall(r"\\([1-9])", template):
            if int(number) > groups:
                yield key, f"the expression has no group {number}"


def _groups(spec: Spec) -> Iterator[Finding]:
    for index, cluster in enumerate(spec.clusters):
        for place, rule in enumerate(cluster.hosts):
            if rule.pattern is not None:
                for key, what in _missing_groups(rule.pattern):
                    yield ("clusters", index, "hosts", place, "pattern", key), what


def _kept(number: int) -> str:
    groups = f"self.nid.matches('{'.*'.join(['[(]'] * number)}')"
    host, address = (f"self.{key}.contains('\\\\{number}')" for key in ("host", "address"))
    return f"({groups} || !({host} || has(self.address) && {address}))"


RULES: Final = (
    Rule(
        id="lnets-apart",
        at=("",),
        reads=("clusters",),
        check=_lnets,
        cel="self.clusters.all(a, self.clusters.all(b, a.name >= b.name || !a.lnets.exists(n, n in b.lnets)))",
        message="give the network to one cluster, or share it by nids",
    ),
    Rule(
        id="nids-outside-lnets",
        at=("",),
        reads=("clusters",),
        check=_ranges_of_owned_lnets,
        cel="self.clusters.all(a, a.nids.all(r, !self.clusters.exists(b, r.split('@')[1] in b.lnets)))",
        message="write either lnets or nids for a network, in all clusters",
    ),
    Rule(
        id="nids-apart",
        at=("",),
        reads=("clusters",),
        check=_ranges,
        # only ranges that are written alike: comparing all costs the API server more than it grants
        cel="self.clusters.all(a, self.clusters.all(b, a.name >= b.name || !a.nids.exists(r, r in b.nids)))",
        message="write ranges that have no node in common",
    ),
    Rule(
        id="host-rule-kind",
        at=("clusters[].hosts[]",),
        reads=("clusters",),
        check=_host_rules,
        cel="[has(self.dns), has(self.pattern), has(self.table)].exists_one(given, given)",
        message="write exactly one of dns, pattern and table",
    ),
    Rule(
        id="host-pattern-groups",
        at=("clusters[].hosts[].pattern",),
        reads=("clusters",),
        check=_groups,
        cel=" && ".join(map(_kept, (1, 2, 3))),
        message="write a group in parentheses in nid for each \\1 to \\9",
    ),
)
