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


def standing(
    site: Site, published: Published, sinks: Iterable[Health], relays: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """Return which agents are here, when the last sweep was closed, and how sinks, relays and Slurm are doing.

    ``relays`` are the troubles of those that come here, by the relay's name.
    """
    expected = servers_of(site)
    here = published.agents_here
    away = sorted(expected - here)
    return {
        "tick_seconds": published.tick_seconds,
        "agents": {"connected": len(expected & here), "expected": len(expected), "missing": away[:_NAMED]},
        "sinks": [{"name": sink.name, "trouble": sink.trouble} for sink in sinks],
        "relays": _relays(site, relays),
        "slurm": [
            {"cluster": name, "trouble": trouble} for name, trouble in slurm_troubles(published.clusters, here).items()
        ],
    }


def _relays(site: Site, troubles: Iterable[tuple[str, str]]) -> list[dict[str, str | None]]:
    """Return every relay that is taken in, and those that come unbidden."""
    found: dict[str, list[str]] = {one.name: [] for one in site.spec.accepts}
    for name, trouble in troubles:
        found.setdefault(name, []).append(trouble)
    return [{"name": name, "trouble": "; ".join(whys) or None} for name, whys in found.items()]
