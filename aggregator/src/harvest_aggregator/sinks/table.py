"""The kinds of sinks there are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harvest_aggregator.sinks import ganglia, influxdb, prometheus
from harvest_aggregator.sinks.contract import Plan
from harvest_aggregator.sinks.prometheus import Ask, nobody
from harvest_site.model import Site
from harvest_site.sinks import Sink

KINDS: Final[Mapping[str, Callable[[Sink, Site, Path | None, Ask], Plan]]] = {
    "ganglia": lambda sink, site, secrets, _: ganglia.planned(sink, site, secrets),
    "influxdb": lambda sink, site, secrets, _: influxdb.planned(sink, site, secrets),
    "prometheus": lambda sink, site, _, ask: prometheus.planned(sink, site, ask),
}
"""By the field of the site's model that asks for one."""


def plans(site: Site, secrets: Path | None = None, ask: Ask = nobody) -> dict[str, Plan]:
    """Return what each sink of a site is told, by its name.

    ``ask`` asks whoever keeps the ledger what sinks have shown.
    """
    return {
        sink.name: planned(sink, site, secrets, ask)
        for sink in site.spec.sinks
        for kind, planned in KINDS.items()
        if getattr(sink, kind) is not None
    }
