"""The kinds of sinks there are."""

from collections.abc import Callable, Mapping
from typing import Final

from harvest_aggregator.sinks import ganglia
from harvest_aggregator.sinks.contract import Plan
from harvest_site.model import Site
from harvest_site.sinks import Sink

KINDS: Final[Mapping[str, Callable[[Sink, Site], Plan]]] = {
    "ganglia": ganglia.planned,
}
"""By the field of the site's model that asks for one."""


def plans(site: Site) -> dict[str, Plan]:
    """Return what each sink of a site is told, by its name; kinds that are not built yet are left out."""
    return {
        sink.name: planned(sink, site)
        for sink in site.spec.sinks
        for kind, planned in KINDS.items()
        if getattr(sink, kind) is not None
    }
