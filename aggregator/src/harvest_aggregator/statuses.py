"""What /metrics tells of targets, agents, sinks and clusters, at the moment somebody looks: a table of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from harvest.v1.stream_pb2 import AgentHealth, SlurmHealth
from harvest_aggregator.published import Published, RelayStatus, TargetStatus
from harvest_aggregator.sinks.backlog import Health
from harvest_aggregator.slurm import ClusterFacts, slurm_troubles
from harvest_core.accounting.sweeps import Place
from harvest_site.model import Site
from harvest_site.views import servers_of


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


@dataclass(frozen=True, slots=True)
class _RelayRow:
    """A number of every file system that a relay tells of."""

    name: str
    meaning: str
    value: Callable[[RelayStatus], float]


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

_RELAYS: Final = (
    _RelayRow("harvest_relay_nodes", "Nodes that the relay told of last.", lambda one: one.nodes),
    _RelayRow("harvest_relay_last_tick_seconds", "Tick of what the relay told last.", lambda one: one.tick_seconds),
    _RelayRow(
        "harvest_relay_complete",
        "1 if all targets that should have reported to the sender had done so.",
        lambda one: one.complete,
    ),
    _RelayRow(
        "harvest_relay_lower_nodes",
        "Nodes that were told with lower totals than before: those from before stand until they are passed.",
        lambda one: one.lower_nodes,
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
        "harvest_sink_up",
        "0 while the sink is in trouble: the warnings of /readyz say which.",
        lambda health: health.trouble is None,
    ),
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


class Status(Collector):
    """What is published, at the moment somebody looks."""

    def __init__(
        self,
        source: Callable[[], Published],
        *,
        site: Callable[[], Site],
        sinks: Callable[[], Sequence[Health]],
        agents_until: Callable[[], Mapping[str, float]],
        relays_until: Callable[[], Mapping[str, float]],
    ) -> None:
        self._source = source
        self._site = site
        self._sinks = sinks
        self._agents_until = agents_until
        self._relays_until = relays_until

    @override
    def collect(self) -> Iterator[Metric]:
        published, site = self._source(), self._site()
        yield _family(
            "harvest_interval_seconds",
            "Time between two sweeps, as the site says.",
            (),
            [((), site.spec.interval_seconds)],
        )
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
        missing = frozenset() if published.closed is None else published.closed.missing
        yield _family(
            "harvest_target_missing",
            "1 if the target was expected and had not reported when the last sweep was closed.",
            ("filesystem", "target"),
            [
                ((one.filesystem, one.target), Place(one.filesystem, one.kind, one.target) in missing)
                for one in published.targets
            ],
        )
        yield from _agents(published, servers_of(site))
        yield _family(
            "harvest_agent_certificate_end_seconds",
            "Until when the certificate is valid with which the agent came, in seconds since 1970.",
            ("agent",),
            [((agent,), until) for agent, until in sorted(self._agents_until().items())],
        )
        for relay_row in _RELAYS:
            values = [((one.relay, one.filesystem), relay_row.value(one)) for one in published.relayed]
            yield _family(relay_row.name, relay_row.meaning, ("relay", "filesystem"), values)
        yield _family(
            "harvest_relay_certificate_end_seconds",
            "Until when the certificate of the relay to the cluster's head is valid, in seconds since 1970.",
            ("cluster",),
            [((cluster,), until) for cluster, until in sorted(self._relays_until().items())],
        )
        healths = self._sinks()
        for sink_row in _SINKS:
            found = [((one.name,), sink_row.value(one)) for one in healths]
            numbers = [(labels, number) for labels, number in found if number is not None]
            yield _family(sink_row.name, sink_row.meaning, ("sink",), numbers)
        yield _family(
            "harvest_slurm_up",
            "1 while the cluster's agent is connected and Slurm answers it.",
            ("cluster",),
            [
                ((name,), trouble is None)
                for name, trouble in slurm_troubles(published.clusters, published.agents_here).items()
            ],
        )
        for slurm_row in _SLURM:
            told = [
                ((cluster,), slurm_row.value(facts, facts.health))
                for cluster, facts in published.clusters.items()
                if facts.health is not None
            ]
            yield _family(slurm_row.name, slurm_row.meaning, ("cluster",), told)


def _agents(published: Published, listed: frozenset[str]) -> Iterator[Metric]:
    agents, here = published.agents, published.agents_here
    yield _family(
        "harvest_agent_connected",
        "1 while the agent's stream is open; 0 for every other server of the site, also one that never came.",
        ("agent",),
        [((name,), name in here) for name in sorted(here | listed)],
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
