"""The example of lustreHarvest for real: each head's gmond has its own nodes and no other, and values are right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from relays.site_wide import FILESYSTEM, LOCAL, MEASURES, PERIOD, SiteWide, nids
from support.processes import wait_for

Key = tuple[str, str, str]
"""Cluster, host and metric."""
_SECONDS = 180
_PASSES_MOST = 50
"""A machine that is slow may leave out passes: then a value is of so many periods."""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[SiteWide]:
    tree = SiteWide(tmp_path)
    try:
        tree.start()
        yield tree
    finally:
        tree.stop()


def values(tree: SiteWide) -> dict[Key, str]:
    """Return all that the gmonds have."""
    return {
        (cluster, host, metric): value
        for cluster, head in tree.heads.items()
        for host, metrics in head.gmond.values().items()
        for metric, value in metrics.items()
    }


def counted(tree: SiteWide) -> dict[Key, int]:
    """Return what agents have seen of each node of each cluster, on the site-wide file system and on its own."""
    found: dict[Key, int] = {}
    for cluster, head in tree.heads.items():
        for lustre in filter(None, (tree.lustre, head.lustre)):
            done = lustre.shown()
            for nid, host in nids(cluster).items():
                both = zip(MEASURES, done.get(nid, (0, 0, 0, 0)), strict=True)
                found |= {(cluster, host, f"{lustre.name}_{measure}"): number for measure, number in both}
    return found


def is_told(tree: SiteWide) -> bool:
    """Tell whether every head has all that its nodes did, on both file systems."""
    done = counted(tree)
    for cluster, head in tree.heads.items():
        names = [lustre.name for lustre in (tree.lustre, head.lustre) if lustre is not None]
        must = {
            (name, nid): done[cluster, host, f"{name}_write_bytes"]
            for name in names
            for nid, host in nids(cluster).items()
        }
        if head.counters() != must:
            return False
    return True


def is_well(tree: SiteWide) -> bool:
    """Let a moment pass; tell whether nobody warns of anything."""
    tree.step()
    return not any(here.get("/readyz")["warnings"] for here in tree.installations)


def pulse(tree: SiteWide) -> tuple[dict[Key, int], dict[Key, set[str]]]:
    """Let all nodes do something once, and wait until that is over; return what was counted, and all values meanwhile.

    It is over when it is in all totals, and all is zero in gmond: it may have been another value before.
    """
    before = counted(tree)
    for lustre in tree.lustres:
        lustre.work()
    seen: dict[Key, set[str]] = {}

    def is_over() -> bool:
        tree.step()
        now = values(tree)
        for key, value in now.items():
            seen.setdefault(key, set()).add(value)
        is_counted = all(number > before[key] for key, number in counted(tree).items())
        is_zero = now.keys() == before.keys() and set(now.values()) == {"0.00"}
        return is_counted and is_zero and is_told(tree)

    wait_for(is_over, "work to be over", seconds=_SECONDS)
    return {key: number - before[key] for key, number in counted(tree).items()}, seen


def test_each_gmond_has_its_own_nodes_with_the_site_wide_and_the_local_file_system(tree: SiteWide) -> None:
    first, _ = pulse(tree)
    for cluster, head in tree.heads.items():
        assert head.gmond.hosts() == head.hosts
        names = [FILESYSTEM, LOCAL[cluster]] if cluster in LOCAL else [FILESYSTEM]
        metrics = {f"{name}_{measure}" for name in names for measure in MEASURES}
        assert all(found.keys() == metrics for found in head.gmond.values().values())

    missing = set(first)
    while missing:  # a pass that was left out, or a gmond that was not asked in time: then once more
        done, seen = pulse(tree)
        assert done == first
        for key, found in seen.items():
            possible = {f"{done[key] / (PERIOD * passes):.2f}" for passes in range(1, _PASSES_MOST)} | {"0.00"}
            assert found <= possible, f"{key}: {found} of {done[key]}"
        missing -= {key for key in missing if f"{done[key] / PERIOD:.2f}" in seen[key]}

    assert len({first[key] for key in first if key[2] == f"{FILESYSTEM}_write_bytes"}) == 7, "no two nodes are alike"
    wait_for(lambda: is_well(tree), "all to be well", seconds=_SECONDS)
    for head in tree.heads.values():
        assert head.gmond.hosts() == head.hosts
