"""How an aggregator stands, in few words: what the operator shows of it, and what a monitor asks for."""

from collections.abc import Iterable
from typing import Any, Final

from harvest_aggregator.published import Published
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.slurm import slurm_troubles
from harvest_site.model import Site
from harvest_site.views import servers_of

_NAMED: Final = 20
"""So many agents that are not here are named: a site may have hundreds."""


def standing(site: Site, published: Published, sinks: Iterable[Health]) -> dict[str, Any]:
    """Return which agents are here, when the last sweep was closed, and how sinks and Slurm are doing."""
    expected = servers_of(site)
    here = published.agents_here
    away = sorted(expected - here)
    return {
        "tick_seconds": published.tick_seconds,
        "agents": {"connected": len(expected & here), "expected": len(expected), "missing": away[:_NAMED]},
        "sinks": [{"name": sink.name, "trouble": sink.trouble} for sink in sinks],
        "slurm": [
            {"cluster": name, "trouble": trouble} for name, trouble in slurm_troubles(published.clusters, here).items()
        ],
    }
