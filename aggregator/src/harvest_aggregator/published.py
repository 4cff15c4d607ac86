"""What others see of the aggregator's work: replaced as a whole when a sweep closes, never changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from harvest.v1.stream_pb2 import AgentHealth, ReadCost
from harvest_aggregator.amounts import Amounts
from harvest_aggregator.clients import Client, ClientTables
from harvest_aggregator.nodes import Nodes
from harvest_aggregator.owners import Owned, Owner
from harvest_aggregator.slurm import ClusterFacts
from harvest_core.accounting.mounts import Integers
from harvest_core.accounting.sweeps import ClosedSweep, Place
from harvest_core.accounting.totals import Counter
from harvest_core.jobs.identity import NOBODYS, Identities, JobName

JobKey = tuple[str, bytes]
"""(file system, job id)."""


class InDoubt(NamedTuple):
    """What could not be known of a job: by so much its totals would differ had everything been decided otherwise."""

    resets: int = 0
    """How often nobody could know whether a record began again."""
    bytes: int = 0
    samples: int = 0
    """Of all operations."""

    def plus(self, other: Self) -> "InDoubt":
        """Return both together."""
        return InDoubt(*map(sum, zip(self, other, strict=True)))


class Unknown(NamedTuple):
    """What could not be known of the counters of a target's clients, since ever."""

    unread_lines: int = 0
    ambiguous_resets: int = 0
    ambiguous_bytes: int = 0
    unplaced_reads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """One target: where it is, and what could not be known about it, since ever."""

    filesystem: str
    target: str
    kind: str
    server: str
    """Empty, and the last tick 0, until a read of it could be placed."""
    boot_id: str = ""
    instance: int | None
    """Lustre's count of mounts."""
    last_tick: int
    unread_lines: int
    unseen_seconds: int
    ambiguous_resets: int
    ambiguous_bytes: int
    unplaced_reads: int = 0
    """Reads that made no sense or spoke of records that nobody named, and were left out."""
    clients: Unknown = field(default_factory=Unknown)
    cost: ReadCost
    """Of the last read; zeros until there is one after a start of the aggregator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """One agent: whether it is there, and how its last sweep went."""

    name: str
    connected: bool
    targets: frozenset[Place] = frozenset()
    """Those mounted there when it last said so."""
    last_tick: int | None
    health: AgentHealth | None
    clock_offset_seconds: float | None
    """How far its clock is ahead of ours; the way of its last sweep to us makes it look behind by so much."""
    needs_full_picture: bool = False
    """It speaks of records that it never named to us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayStatus:
    """What a relay told last of one file system."""

    relay: str
    filesystem: str
    tick_seconds: int
    period_seconds: int
    complete: bool
    """All targets that should have reported there had done so."""
    nodes: int
    lower_nodes: int
    """Told with less than before: what was told before stands until it is passed."""
    is_ahead: bool = False
    """It was told as of a time to come, by a clock that is wrong there or here: its rates are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TargetTotals:
    """What was done on one target since ever, by all jobs together and by each that is watched."""

    counters: tuple[Counter, ...]
    samples: Integers
    """By counter."""
    sums: Integers
    jobs: tuple[JobName, ...] = ()
    job_samples: Integers
    """By job and counter."""
    job_sums: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One closed, durable sweep, and how things stand around it."""

    tick_seconds: int | None = None
    """Of the sweep."""
    closed: ClosedSweep | None = None
    targets: tuple[TargetStatus, ...] = ()
    agents: tuple[AgentStatus, ...] = ()
    flagged: Mapping[JobKey, InDoubt] = field(default_factory=dict)
    """Jobs of which it could not be known whether records began again."""
    incomplete: frozenset[JobKey] = frozenset()
    """Jobs that may have done more than was ever shown."""
    clients: tuple[Client, ...] = ()
    """Every client by its NID, as it was told last: clients have a longer period."""
    nodes: Nodes | None = None
    """Likewise by host, and when that was."""
    identities: Identities = NOBODYS
    """Whose jobs ids are."""
    clusters: Mapping[str, ClusterFacts] = field(default_factory=dict)
    """What Slurm says, by cluster."""
    earlier: Mapping[JobKey, Amounts] = field(default_factory=dict)
    """What earlier runs did of jobs that were requeued, or whose numbers are used again: it is in the tables, too."""
    starts: Mapping[JobName, int] = field(default_factory=dict)
    """When their present runs began, as far as anybody knows."""
    first_tick: int | None = None
    """Of the first sweep since the aggregator began, or the site changed: totals that are as old may be older."""
    let_go: Amounts = field(default_factory=dict)
    """What all jobs together did that are over and in no table any more."""
    before: Mapping[JobName, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """Records of jobs that showed again after these were written, the newest first."""
    owners: Mapping[JobName, Owner] = field(default_factory=dict)
    """Whose the present runs of jobs are."""
    owned: Owned = field(default_factory=dict)
    """What runs did that are over: those of which nothing is in the tables, or which are among the earlier ones."""
    finished: Owned = field(default_factory=dict)
    """Likewise, those included whose final records were written after the sweep was closed."""
    by_target: Mapping[Place, TargetTotals] | None = None
    """What all jobs did on each target, and those that are watched; nothing where no sink shows it."""
    client_tables: Mapping[str, ClientTables] = field(default_factory=dict)
    """What every client did in all, by file system."""
    relayed: tuple[RelayStatus, ...] = ()
    """What relays told since the aggregator began."""
    over: frozenset[JobName] = frozenset()
    """Jobs that are in the sweep, and whose final records were written after it was closed."""

    @property
    def agents_here(self) -> frozenset[str]:
        """The agents whose stream is open."""
        return frozenset(agent.name for agent in self.agents if agent.connected)
