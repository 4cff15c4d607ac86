"""Nodes and the sweeps that they are in, made in a line."""

from collections.abc import Mapping

from harvest_aggregator.nodes import Node, Nodes, Rates
from harvest_aggregator.published import Published
from harvest_aggregator.sinks.ganglia import GangliaPlan
from harvest_aggregator.sinks.table import plans
from harvest_site.loading import load

TICK = 1_700_000_000
BUSY = Rates(1000.125, 2000.5, 30.0, 4.25)
IDLE = Rates(0.0, 0.0, 0.0, 0.0)


def node(
    number: int,
    rates: Rates | Mapping[str, Rates] = BUSY,
    *,
    cluster: str | None = "vu",
    live: bool = True,
    subnet: int = 1,
) -> Node:
    return Node(
        host=f"{cluster or 'n'}{number}",
        address=f"10.{subnet}.{number >> 8}.{number & 255}",
        cluster=cluster,
        nids=(f"10.9.{number >> 8}.{number & 255}@o2ib",),
        is_live=live,
        filesystems={"home": rates} if isinstance(rates, Rates) else rates,
    )


def sweep(*nodes: Node, tick: int = TICK, nodes_tick: int | None = None) -> Published:
    return Published(
        tick_seconds=tick, nodes=Nodes(tick_seconds=tick if nodes_tick is None else nodes_tick, nodes=nodes)
    )


def plan(address: str = "127.0.0.1:8649", *, more: str = "", interval: str = "20s") -> GangliaPlan:
    """Return what a sink is told by a site of two clusters and two file systems, of which one has an alias."""
    site = load(f"""
interval: {interval}
filesystems:
  - {{name: home, servers: [oss1]}}
  - {{name: scratch2, alias: scr, servers: [oss2]}}
clusters: [{{name: vu, lnets: [o2ib]}}, {{name: xe, lnets: [o2ib2]}}]
sinks: [{{name: gmond, ganglia: {{address: "{address}"{more}}}}}]
""")
    (found,) = plans(site).values()
    assert isinstance(found, GangliaPlan)
    return found
