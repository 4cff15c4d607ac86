"""Names that point to other parts of the site: they must be there, and be meant."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from harvest_site.fields import shown
from harvest_site.model import Spec
from harvest_site.rules.rule import Finding, Path, Rule


def _local(spec: Spec) -> set[str]:
    return {filesystem.name for filesystem in spec.filesystems}


def _accepted(spec: Spec) -> set[str]:
    return {name for accept in spec.accepts for name in accept.filesystems}


def _missing(path: Path, names: Iterable[str], known: set[str], what: str) -> Iterator[Finding]:
    for index, name in enumerate(names):
        if name not in known:
            yield (*path, index), f"{shown(name)} is no {what} of this site"


def _nothing(spec: Spec) -> Iterator[Finding]:
    if not spec.filesystems and not spec.accepts:
        yield ("filesystems",), "there is nothing to account for"


def _cluster_filesystems(spec: Spec) -> Iterator[Finding]:
    known = _local(spec) | _accepted(spec)
    for index, cluster in enumerate(spec.clusters):
        yield from _missing(("clusters", index, "filesystems"), cluster.filesystems, known, "file system")


def _relay_clusters(spec: Spec) -> Iterator[Finding]:
    clusters = {cluster.name for cluster in spec.clusters}
    for index, relay in enumerate(spec.relays):
        if relay.cluster not in clusters:
            yield ("relays", index, "cluster"), f"{shown(relay.cluster)} is no cluster of this site"


def _relay_filesystems(spec: Spec) -> Iterator[Finding]:
    for index, relay in enumerate(spec.relays):
        yield from _missing(("relays", index, "filesystems"), relay.filesystems, _local(spec), "file system")


def _relay_mounts(spec: Spec) -> Iterator[Finding]:
    mounted = {cluster.name: set(cluster.filesystems) for cluster in spec.clusters}
    for index, relay in enumerate(spec.relays):
        for place, name in enumerate(relay.filesystems):
            if relay.cluster in mounted and name not in mounted[relay.cluster]:
                yield (
                    ("relays", index, "filesystems", place),
                    f"the cluster {shown(relay.cluster)} does not mount {shown(name)}",
                )


def _sink_clusters(spec: Spec) -> Iterator[Finding]:
    clusters = {cluster.name for cluster in spec.clusters}
    for index, sink in enumerate(spec.sinks):
        if sink.ganglia is not None:
            yield from _missing(("sinks", index, "ganglia", "clusters"), sink.ganglia.clusters, clusters, "cluster")


def _local_and_accepted(spec: Spec) -> Iterator[Finding]:
    for index, accept in enumerate(spec.accepts):
        for place, name in enumerate(accept.filesystems):
            if name in _local(spec):
                yield ("accepts", index, "filesystems", place), f"{shown(name)} is a file system of this site itself"


def _accepted_twice(spec: Spec) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, accept in enumerate(spec.accepts):
        for place, name in enumerate(accept.filesystems):
            if name in seen:
                yield ("accepts", index, "filesystems", place), f"another relay brings {shown(name)}"
            seen.add(name)


def _aggregator_filesystems(spec: Spec) -> Iterator[Finding]:
    known = _local(spec) | _accepted(spec)
    for index, aggregator in enumerate(spec.aggregators):
        yield from _missing(("aggregators", index, "filesystems"), aggregator.filesystems, known, "file system")


def _aggregators_share(spec: Spec) -> Iterator[Finding]:
    if not spec.aggregators:
        return
    served = Counter(name for aggregator in spec.aggregators for name in aggregator.filesystems)
    for name in sorted(_local(spec) | _accepted(spec)):
        if served[name] != 1:
            yield ("aggregators",), f"{shown(name)} is in {'no' if not served[name] else 'more than one'} aggregator"


_KNOWN: Final = "(self.filesystems.exists(f, f.name == n) || self.accepts.exists(c, n in c.filesystems))"
_SERVED_ONCE: Final = "self.aggregators.exists_one(a, {} in a.filesystems)"

RULES: Final = (
    Rule(
        id="something-to-account",
        at=("",),
        reads=("filesystems", "accepts"),
        check=_nothing,
        cel="self.filesystems.size() > 0 || self.accepts.size() > 0",
        message="write at least one file system under filesystems, or a relay under accepts",
    ),
    Rule(
        id="cluster-filesystems",
        at=("",),
        reads=("clusters", "filesystems", "accepts"),
        check=_cluster_filesystems,
        cel=f"self.clusters.all(k, k.filesystems.all(n, {_KNOWN}))",
        message="write names of file systems under filesystems or accepts",
    ),
    Rule(
        id="relay-clusters",
        at=("",),
        reads=("relays", "clusters"),
        check=_relay_clusters,
        cel="self.relays.all(r, self.clusters.exists(k, k.name == r.cluster))",
        message="write the name of a cluster under clusters",
    ),
    Rule(
        id="relay-filesystems",
        at=("",),
        reads=("relays", "filesystems"),
        check=_relay_filesystems,
        cel="self.relays.all(r, r.filesystems.all(n, self.filesystems.exists(f, f.name == n)))",
        message="write names of file systems under filesystems: what is taken in is not sent on",
    ),
    Rule(
        id="relay-mounts",
        at=("",),
        reads=("relays", "clusters"),
        check=_relay_mounts,
        cel="self.relays.all(r, self.clusters.all(k, k.name != r.cluster || r.filesystems.all(n, n in k.filesystems)))",
        message="add the file system to the cluster's filesystems, or take it out of the relay",
    ),
    Rule(
        id="sink-clusters",
        at=("",),
        reads=("sinks", "clusters"),
        check=_sink_clusters,
        cel="""
            self.sinks.all(s, !has(s.ganglia) ||
                s.ganglia.clusters.all(n, self.clusters.exists(k, k.name == n)))
        """,
        message="write names of clusters under clusters, or leave the list out for all",
    ),
    Rule(
        id="local-or-accepted",
        at=("",),
        reads=("accepts", "filesystems"),
        check=_local_and_accepted,
        cel="self.accepts.all(c, c.filesystems.all(n, !self.filesystems.exists(f, f.name == n)))",
        message="take it out of accepts, or out of filesystems: it would be counted twice",
    ),
    Rule(
        id="accepted-once",
        at=("",),
        reads=("accepts",),
        check=_accepted_twice,
        cel="self.accepts.all(c, c.filesystems.all(n, self.accepts.exists_one(d, n in d.filesystems)))",
        message="take in each file system from one relay only: it would be counted twice",
    ),
    Rule(
        id="aggregator-filesystems",
        at=("",),
        reads=("aggregators", "filesystems", "accepts"),
        check=_aggregator_filesystems,
        cel=f"self.aggregators.all(a, a.filesystems.all(n, {_KNOWN}))",
        message="write names of file systems that the site has",
    ),
    Rule(
        id="aggregators-share",
        at=("",),
        reads=("aggregators", "filesystems", "accepts"),
        check=_aggregators_share,
        cel=f"""
            self.aggregators.size() == 0 || (self.filesystems.all(f, {_SERVED_ONCE.format("f.name")}) &&
                self.accepts.all(c, c.filesystems.all(n, {_SERVED_ONCE.format("n")})))
        """,
        message="put each file system into exactly one aggregator",
    ),
)
