"""Names: each once, and none that means something else."""

from collections.abc import Iterable, Iterator
from typing import Final

from harvest_site.fields import shown
from harvest_site.model import Spec
from harvest_site.rules.rule import Finding, Path, Rule

AMBIGUOUS: Final = "ambiguous"
"""Shown as the cluster of ids that several clusters may have made."""


def _repeated(named: Iterable[tuple[Path, str]]) -> Iterator[Finding]:
    first: dict[str, Path] = {}
    for path, name in named:
        if name in first:
            yield path, f"{shown(name)} stands twice"
        first.setdefault(name, path)


def _names(spec: Spec, part: str) -> Iterator[tuple[Path, str]]:
    return (((part, index, "name"), entry.name) for index, entry in enumerate(getattr(spec, part)))


def _unique(part: str, what: str) -> Rule:
    return Rule(
        id=f"{part}-names",
        at=("",),
        reads=(part,),
        check=lambda spec: _repeated(_names(spec, part)),
        cel=f"self.{part}.all(a, self.{part}.exists_one(b, b.name == a.name))",
        message=f"give each {what} a name of its own",
    )


def _aliases(spec: Spec) -> Iterator[Finding]:
    accepted = {name for accept in spec.accepts for name in accept.filesystems}
    taken: set[str] = set()
    for index, filesystem in enumerate(spec.filesystems):
        if filesystem.alias in taken | (accepted - {filesystem.name}):
            yield ("filesystems", index, "alias"), f"{shown(filesystem.alias)} is another file system's, too"
        taken.add(filesystem.alias)


def _slurm_servers(spec: Spec) -> Iterator[Finding]:
    return _repeated(
        (("clusters", index, "slurm", "server"), cluster.slurm.server)
        for index, cluster in enumerate(spec.clusters)
        if cluster.slurm is not None and cluster.slurm.server is not None
    )


RULES: Final = (
    _unique("filesystems", "file system"),
    _unique("clusters", "cluster"),
    _unique("accepts", "relay that is taken in"),
    _unique("sinks", "sink"),
    _unique("aggregators", "aggregator"),
    Rule(
        id="filesystem-aliases",
        at=("",),
        reads=("filesystems", "accepts"),
        check=_aliases,
        cel="""
            self.filesystems.all(a,
                self.filesystems.exists_one(b,
                    (has(b.alias) ? b.alias : b.name) == (has(a.alias) ? a.alias : a.name)) &&
                !self.accepts.exists(c, has(a.alias) && a.alias != a.name && a.alias in c.filesystems))
        """,
        message="give each file system an alias of its own: metrics are named after it",
    ),
    Rule(
        id="relay-clusters-once",
        at=("",),
        reads=("relays",),
        check=lambda spec: _repeated(
            (("relays", index, "cluster"), relay.cluster) for index, relay in enumerate(spec.relays)
        ),
        cel="self.relays.all(a, self.relays.exists_one(b, b.cluster == a.cluster))",
        message="write one relay per cluster, with all its file systems",
    ),
    Rule(
        id="slurm-servers-once",
        at=("",),
        reads=("clusters",),
        check=_slurm_servers,
        cel="""
            self.clusters.all(a, !has(a.slurm) || !has(a.slurm.server) ||
                self.clusters.exists_one(b, has(b.slurm) && has(b.slurm.server) && b.slurm.server == a.slurm.server))
        """,
        message="name a different agent for each cluster: an agent reports one job table",
    ),
    Rule(
        id="cluster-name-reserved",
        at=("clusters[]",),
        reads=("clusters",),
        check=lambda spec: (
            (path, f"{shown(name)} is not free") for path, name in _names(spec, "clusters") if name == AMBIGUOUS
        ),
        cel=f"self.name != '{AMBIGUOUS}'",
        message="write another name: this one marks jobs that may be several clusters'",
    ),
)
