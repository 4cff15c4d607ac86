"""/metrics: how the aggregator itself is doing, its agents, and what could not be known. No series per job."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from harvest.v1.stream_pb2 import AgentHealth, SlurmHealth
from harvest_aggregator.published import AgentStatus, Published, TargetStatus
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.accounting.sweeps import ClosedSweep

_MEANINGS: Final = {
    "harvest_build_info": "Always 1; the version is a label.",
    "harvest_streams": "Agents' streams that are open.",
    "harvest_batches_total": "Batches that came.",
    "harvest_received_bytes_total": "Bytes of batches that came.",
    "harvest_refusals_total": "Streams that were refused, by reason.",
    "harvest_queued_sweeps": "Agents' sweeps that came and are not durable yet.",
    "harvest_ledger_bytes": "Size of the ledger on disk.",
    "harvest_sweeps_closed_total": "Sweeps that were closed.",
    "harvest_reports_missing_total": "Targets that had not reported when their sweep was closed.",
    "harvest_sweep_close_seconds": "From a sweep's tick to its close.",
}


class Metrics:
    """What is counted where it happens; all may be called from any thread."""

    def __init__(
        self,
        source: Callable[[], Published],
        *,
        version: str,
        ledger_bytes: Callable[[], float],
        queued_sweeps: Callable[[], float],
        sinks: Callable[[], Sequence[Health]] = tuple,
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter
        self.registry: Final = CollectorRegistry()
        self.streams: Final = self._gauge("harvest_streams")
        self.batches: Final = self._counter("harvest_batches_total")
        self.received_bytes: Final = self._counter("harvest_received_bytes_total")
        self.refusals: Final = self._counter("harvest_refusals_total", "reason")
        self._closed: Final = self._counter("harvest_sweeps_closed_total")
        self._missing: Final = self._counter("harvest_reports_missing_total")
        self._close_seconds: Final = Histogram(
            "harvest_sweep_close_seconds",
            _MEANINGS["harvest_sweep_close_seconds"],
            buckets=(0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60),
            registry=self.registry,
        )
        self._gauge("harvest_build_info", "version").labels(version).set(1)
        self._gauge("harvest_ledger_bytes").set_function(ledger_bytes)
        self._gauge("harvest_queued_sweeps").set_function(queued_sweeps)
        self.registry.register(_Status(source, sinks))
        ProcessCollector(registry=self.registry)

    def sweep_closed(self, sweep: ClosedSweep, *, now_seconds: float) -> None:
        """Count a sweep that was closed now."""
        self._closed.inc()
        self._missing.inc(len(sweep.missing))
        self._close_seconds.observe(now_seconds - sweep.tick_seconds)

    def exposition(self, *, accept: str) -> tuple[bytes, str]:
        """Return everything as text, Prometheus' or OpenMetrics', and the type that it has."""
        encode, media_type = choose_encoder(accept)
        return encode(self.registry), media_type

    def _gauge(self, name: str, *labels: str) -> Gauge:
        return Gauge(name, _MEANINGS[name], labels, registry=self.registry)

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, _MEANINGS[name], labels, registry=self.registry)


@dataclass(frozen=True, slots=True)
class _TargetRow:
    """A number of every target."""

    name: str
    meaning: str
    value: Callable[[TargetStatus], float]


@dataclass(frozen=True, slots=True)
class _AgentRow:
    """A number of every agent that has said how it is doing."""

    name: str
    meaning: str
    value: Callable[[AgentHealth], float]


@dataclass(frozen=True, slots=True)
class _SlurmRow:
    """A number of every cluster whose agent has said how Slurm is doing."""

    name: str
    meaning: str
    value: Callable[[ClusterFacts, SlurmHealth], float]


@dataclass(frozen=True, slots=True)
class _SinkRow:
    """A number of every sink, where it has one."""

    name: str
    meaning: str
    value: Callable[[Health], float | None]


_TARGETS: Final = (
    _TargetRow(
        "harvest_unseen_seconds_total",
        "Time in which work on the target may have been done that nobody could count.",
        lambda target: target.unseen_seconds,
    ),
    _TargetRow(
        "harvest_ambiguous_resets_total",
        "Times that nobody could know whether a job's counters began again; its totals are flagged.",
        lambda target: target.ambiguous_resets,
    ),
    _TargetRow(
        "harvest_ambiguous_bytes_total",
        "By how many bytes totals would differ had each such decision been the other one.",
        lambda target: target.ambiguous_bytes,
    ),
    _TargetRow(
        "harvest_unread_lines_total",
        "Lines of job_stats that were not understood.",
        lambda target: target.unread_lines,
    ),
    _TargetRow(
        "harvest_unplaced_reads_total",
        "Reads that made no sense, or spoke of records that nobody named, and were left out.",
        lambda target: target.unplaced_reads,
    ),
    _TargetRow(
        "harvest_client_ambiguous_resets_total",
        "Times that nobody could know whether the counters of one of the target's clients began again.",
        lambda target: target.clients.ambiguous_resets,
    ),
    _TargetRow(
        "harvest_client_ambiguous_bytes_total",
        "By how many bytes clients' totals would differ had each such decision been the other one.",
        lambda target: target.clients.ambiguous_bytes,
    ),
    _TargetRow(
        "harvest_client_unread_lines_total",
        "Lines of clients' counters that were not understood.",
        lambda target: target.clients.unread_lines,
    ),
    _TargetRow(
        "harvest_client_unplaced_reads_total",
        "Reads of clients' counters that made no sense, or spoke of clients that nobody named, and were left out.",
        lambda target: target.clients.unplaced_reads,
    ),
    _TargetRow(
        "harvest_target_last_tick_seconds",
        "Tick of the last sweep in which the target was reported.",
        lambda target: target.last_tick,
    ),
)

_AGENTS: Final = (
    _AgentRow(
        "harvest_agent_late_seconds",
        "From the tick to the end of the agent's last sweep.",
        lambda health: health.late_microseconds / 1e6,
    ),
    _AgentRow(
        "harvest_agent_sweep_user_seconds",
        "CPU time that its last sweep took in the agent.",
        lambda health: health.user_microseconds / 1e6,
    ),
    _AgentRow(
        "harvest_agent_sweep_kernel_seconds",
        "CPU time that its last sweep took in the server's kernel.",
        lambda health: health.kernel_microseconds / 1e6,
    ),
    _AgentRow(
        "harvest_agent_resident_bytes",
        "Memory of the agent.",
        lambda health: health.resident_bytes,
    ),
    _AgentRow(
        "harvest_agent_spool_bytes",
        "Size of the agent's spool.",
        lambda health: health.spool_bytes,
    ),
    _AgentRow(
        "harvest_agent_spool_limit_bytes",
        "Largest size that its spool may have.",
        lambda health: health.spool_limit_bytes,
    ),
    _AgentRow(
        "harvest_agent_spool_sweeps",
        "Sweeps in its spool that wait to be acknowledged.",
        lambda health: health.spool_sweeps,
    ),
    _AgentRow(
        "harvest_agent_lost_sweeps_total",
        "Sweeps that it could not keep since it started: no room, or a disk that fails.",
        lambda health: health.lost_sweeps,
    ),
    _AgentRow(
        "harvest_agent_merged_sweeps_total",
        "Sweeps that it merged to find room since it started: totals stay exact, rates are coarser.",
        lambda health: health.merged_sweeps,
    ),
)


_SINKS: Final = (
    _SinkRow(
        "harvest_sink_accepted_total",
        "Sweeps that the sink has taken since it was started or changed.",
        lambda health: health.accepted,
    ),
    _SinkRow(
        "harvest_sink_rejected_total",
        "Sweeps that it refused and that are not tried again.",
        lambda health: health.rejected,
    ),
    _SinkRow(
        "harvest_sink_dropped_total",
        "Sweeps that were dropped because newer ones came before it had taken them.",
        lambda health: health.dropped,
    ),
    _SinkRow(
        "harvest_sink_queued_sweeps",
        "Sweeps that wait for it.",
        lambda health: health.queued,
    ),
    _SinkRow(
        "harvest_sink_last_success_seconds",
        "When it last took a sweep, in seconds since 1970.",
        lambda health: health.last_success_seconds,
    ),
)


_SLURM: Final = (
    _SlurmRow(
        "harvest_slurm_up",
        "1 while Slurm answers the cluster's agent.",
        lambda _, health: not health.problem,
    ),
    _SlurmRow(
        "harvest_slurm_answered_seconds",
        "When Slurm last answered, in seconds since 1970.",
        lambda _, health: health.answered_seconds,
    ),
    _SlurmRow(
        "harvest_slurm_queries_total",
        "How often its agent asked Slurm since it started.",
        lambda _, health: health.queries,
    ),
    _SlurmRow(
        "harvest_slurm_failed_queries_total",
        "How often no answer came, or none that made sense.",
        lambda _, health: health.failed_queries,
    ),
    _SlurmRow(
        "harvest_slurm_query_seconds",
        "What the last query took.",
        lambda _, health: health.query_microseconds / 1e6,
    ),
    _SlurmRow(
        "harvest_slurm_jobs",
        "Jobs of the cluster that are known.",
        lambda facts, _: len(facts.jobs),
    ),
    _SlurmRow(
        "harvest_slurm_unknown_jobs",
        "Jobs that did something on Lustre, and neither Slurm nor its accounting database knows.",
        lambda facts, _: len(facts.unknown),
    ),
)


class _Status(Collector):
    """What is published, at the moment somebody looks."""

    def __init__(self, source: Callable[[], Published], sinks: Callable[[], Sequence[Health]]) -> None:
        self._source = source
        self._sinks = sinks

    @override
    def collect(self) -> Iterator[Metric]:
        published = self._source()
        yield _family(
            "harvest_last_tick_seconds",
            "Tick of the last closed sweep.",
            (),
            [] if published.tick_seconds is None else [((), published.tick_seconds)],
        )
        tables = {} if published.closed is None else published.closed.tables
        yield _family(
            "harvest_table_jobs",
            "Jobs that are known.",
            ("filesystem", "kind"),
            [((filesystem, kind.lower()), len(table.jobs)) for (filesystem, kind), table in tables.items()],
        )
        for target_row in _TARGETS:
            values = [((one.filesystem, one.target), target_row.value(one)) for one in published.targets]
            yield _family(target_row.name, target_row.meaning, ("filesystem", "target"), values)
        yield from _agents(published.agents)
        healths = self._sinks()
        for sink_row in _SINKS:
            found = [((one.name,), sink_row.value(one)) for one in healths]
            numbers = [(labels, number) for labels, number in found if number is not None]
            yield _family(sink_row.name, sink_row.meaning, ("sink",), numbers)
        for slurm_row in _SLURM:
            told = [
                ((cluster,), slurm_row.value(facts, facts.health))
                for cluster, facts in published.clusters.items()
                if facts.health is not None
            ]
            yield _family(slurm_row.name, slurm_row.meaning, ("cluster",), told)


def _agents(agents: tuple[AgentStatus, ...]) -> Iterator[Metric]:
    yield _family(
        "harvest_agent_connected",
        "1 while the agent's stream is open.",
        ("agent",),
        [((agent.name,), agent.connected) for agent in agents],
    )
    yield _family(
        "harvest_agent_last_tick_seconds",
        "Tick of the agent's last sweep that is durable.",
        ("agent",),
        [((agent.name,), agent.last_tick) for agent in agents if agent.last_tick is not None],
    )
    yield _family(
        "harvest_agent_clock_offset_seconds",
        "By how much the agent's clock is ahead of the aggregator's.",
        ("agent",),
        [((agent.name,), agent.clock_offset_seconds) for agent in agents if agent.clock_offset_seconds is not None],
    )
    for row in _AGENTS:
        values = [((agent.name,), row.value(agent.health)) for agent in agents if agent.health is not None]
        yield _family(row.name, row.meaning, ("agent",), values)


def _family(
    name: str, meaning: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, meaning, labels=labels)
    for texts, value in values:
        family.add_metric(texts, value)
    return family
