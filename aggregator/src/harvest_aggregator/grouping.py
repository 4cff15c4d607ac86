"""From what NIDs do to what hosts do. Pure, apart from what the naming asks."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from harvest_aggregator.hosts import Host
from harvest_aggregator.nodes import Node, Rates

Counted = tuple[bool, Mapping[str, Rates]]
"""Of one NID: whether it is live, and what it does, by file system."""


class Grouped(NamedTuple):
    """All nodes that have a name, and how many NIDs have none, or none yet."""

    nodes: tuple[Node, ...]
    left_out: int


def grouped(counted: Mapping[str, Counted], host_of: Callable[[str], Host | None]) -> Grouped:
    """Sum the NIDs of each host; in the order of NIDs, so that equal counts give equal sums to the last digit."""
    groups: dict[tuple[str, str | None], tuple[str, list[str]]] = {}
    named = 0
    for nid in sorted(counted):
        host = host_of(nid)
        if host is None:
            continue
        named += 1
        key = (host.name, host.cluster)
        if key in groups:
            groups[key][1].append(nid)
        else:
            groups[key] = (host.address, [nid])
    nodes = tuple(
        Node(
            host=name,
            address=address,
            cluster=cluster,
            nids=tuple(nids),
            is_live=any(counted[nid][0] for nid in nids),
            filesystems=_summed([counted[nid][1] for nid in nids]),
        )
        for (name, cluster), (address, nids) in groups.items()
    )
    return Grouped(nodes, len(counted) - named)


def _summed(parts: Sequence[Mapping[str, Rates]]) -> dict[str, Rates]:
    sums = dict(parts[0])  # most hosts have one NID
    for part in parts[1:]:
        for filesystem, rates in part.items():
            before = sums.get(filesystem)
            sums[filesystem] = rates if before is None else Rates(*map(_plus, before, rates))
    return sums


def _plus(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
