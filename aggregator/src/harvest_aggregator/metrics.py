"""/metrics: how the aggregator itself is doing, its agents, and what could not be known. No series per job."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from harvest_aggregator.published import Published
from harvest_aggregator.refusals import LABELS, RELAY_LABELS
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.statuses import Status
from harvest_core.accounting.sweeps import ClosedSweep
from harvest_site.model import Site

_MEANINGS: Final = {
    "harvest_build_info": "Always 1; the version is a label.",
    "harvest_streams": "Agents' streams that are open.",
    "harvest_batches_total": "Batches that came.",
    "harvest_received_bytes_total": "Bytes of batches that came.",
    "harvest_refusals_total": "Streams that were refused, by reason.",
    "harvest_relay_refusals_total": "What relays told and was refused, in whole or in part, by reason.",
    "harvest_queued_sweeps": "Agents' sweeps that came and are not durable yet.",
    "harvest_ledger_bytes": "Size of the ledger on disk.",
    "harvest_sweeps_closed_total": "Sweeps that were closed.",
    "harvest_reports_missing_total": "Targets that had not reported when their sweep was closed.",
    "harvest_sweep_close_seconds": "From a sweep's tick to its close.",
    "harvest_keep_seconds": "What it took to make sweeps that came together durable, and to account for them.",
    "harvest_ready": "1 while it can do its work, as /readyz says.",
    "harvest_certificate_end_seconds": "Until when the aggregator's own certificate is valid, in seconds since 1970.",
}


class Metrics:
    """What is counted where it happens; all may be called from any thread."""

    def __init__(
        self,
        source: Callable[[], Published],
        *,
        version: str,
        site: Callable[[], Site],
        ledger_bytes: Callable[[], float],
        queued_sweeps: Callable[[], float],
        is_ready: Callable[[], bool] = lambda: True,
        certificate_end: Callable[[], float] = lambda: 0,
        agents_until: Callable[[], Mapping[str, float]] = dict,
        relays_until: Callable[[], Mapping[str, float]] = dict,
        sinks: Callable[[], Sequence[Health]] = tuple,
    ) -> None:
        """``agents_until`` says until when the certificates are valid of the agents that are here.

        ``relays_until`` says it of relays that go to other sites, by cluster.
        """
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter
        self.registry: Final = CollectorRegistry()
        self.streams: Final = self._gauge("harvest_streams")
        self.batches: Final = self._counter("harvest_batches_total")
        self.received_bytes: Final = self._counter("harvest_received_bytes_total")
        self.refusals: Final = self._counter("harvest_refusals_total", "reason")
        for reason in LABELS:
            self.refusals.labels(reason)  # a series that is not there until it counts hides its first refusal
        self.relay_refusals: Final = self._counter("harvest_relay_refusals_total", "reason")
        for reason in RELAY_LABELS:
            self.relay_refusals.labels(reason)
        self._closed: Final = self._counter("harvest_sweeps_closed_total")
        self._missing: Final = self._counter("harvest_reports_missing_total")
        self._close_seconds: Final = self._histogram(
            "harvest_sweep_close_seconds", 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60
        )
        self._keep_seconds: Final = self._histogram("harvest_keep_seconds", 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
        self._gauge("harvest_build_info", "version").labels(version).set(1)
        self._gauge("harvest_ledger_bytes").set_function(ledger_bytes)
        self._gauge("harvest_queued_sweeps").set_function(queued_sweeps)
        self._gauge("harvest_ready").set_function(is_ready)
        self._gauge("harvest_certificate_end_seconds").set_function(certificate_end)
        self.registry.register(
            Status(source, site=site, sinks=sinks, agents_until=agents_until, relays_until=relays_until)
        )
        ProcessCollector(registry=self.registry)

    def sweep_closed(self, sweep: ClosedSweep, *, now_seconds: float) -> None:
        """Count a sweep that was closed now."""
        self._closed.inc()
        self._missing.inc(len(sweep.missing))
        self._close_seconds.observe(now_seconds - sweep.tick_seconds)

    def kept(self, *, seconds: float) -> None:
        """Count sweeps that were made durable in one transaction."""
        self._keep_seconds.observe(seconds)

    def exposition(self, *, accept: str) -> tuple[bytes, str]:
        """Return everything as text, Prometheus' or OpenMetrics', and the type that it has."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type

    def _gauge(self, name: str, *labels: str) -> Gauge:
        return Gauge(name, _MEANINGS[name], labels, registry=self.registry)

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, _MEANINGS[name], labels, registry=self.registry)

    def _histogram(self, name: str, *buckets: float) -> Histogram:
        return Histogram(name, _MEANINGS[name], buckets=buckets, registry=self.registry)
