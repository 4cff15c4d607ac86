"""How large machines must be, from what was measured: docs/explanation/sizing.md is computed from docs/benchmarks.md.

``PYTHONPATH=tests python -m bench.sizing`` writes the page's tables anew, as every ``run.py --write`` does.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.report import PAGE as BENCHMARKS
from bench.report import table
from bench.trees import OSTS
from harvest_aggregator.sinks.prometheus_families import FAMILIES, Family

PAGE: Final = BENCHMARKS.with_name("explanation") / "sizing.md"
_BEGIN: Final = "<!-- computed: written by python -m bench.sizing -->"
_END: Final = "<!-- /computed -->"
INTERVAL_SECONDS: Final = 20
CLIENT_SECONDS: Final = 60
_DAY_SECONDS: Final = 86_400
RETENTION_DAYS: Final = 365
MOVED: Final = 0.2
"""Of the jobs that Lustre remembers, so many do something in a sweep."""
NUMBERS: Final = 12
"""That a moved record has: samples and sum of six operations."""
JOB_OPERATIONS: Final = 6
OPERATIONS: Final = {"ost": 15, "mdt": 23}
"""That servers of Lustre 2.15 count."""
TOP: Final = 200
Table = Mapping[str | tuple[str, str], Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What there is at a site."""

    filesystems: int
    oss: int
    osts: int
    """Of each OSS."""
    mds: int
    """With one MDT each."""
    jobs: int
    """That Lustre remembers at a time, each on all targets of one file system."""
    nodes: int
    """That mount all file systems."""
    users: int
    daily: int
    """Jobs that end in a day."""

    @property
    def targets(self) -> int:
        return self.oss * self.osts + self.mds

    @property
    def on_target(self) -> float:
        """Records of jobs on each target."""
        return self.jobs / self.filesystems

    @property
    def records(self) -> float:
        return self.targets * self.on_target

    @property
    def client_files(self) -> float:
        """Files of nodes, on all targets."""
        return self.targets * self.nodes


SITES: Final = {
    "small": Site(filesystems=1, oss=4, osts=4, mds=1, jobs=200, nodes=200, users=50, daily=2_000),
    "medium": Site(filesystems=2, oss=20, osts=8, mds=4, jobs=2_000, nodes=2_000, users=300, daily=20_000),
    "large": Site(filesystems=4, oss=100, osts=8, mds=32, jobs=20_000, nodes=10_000, users=2_000, daily=100_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What was measured."""

    agent_record_us: float
    """CPU of a sweep per record, one in five moved."""
    agent_mb: float
    agent_record_bytes: float
    client_file_us: float
    client_file_bytes: float
    """Memory of the agent."""
    client_wire_bytes: float
    number_bytes: float
    """On the wire."""
    record_us: float
    """CPU of the aggregator per moved record."""
    aggregator_mb: float
    record_bytes: float
    """Memory of the aggregator, at its peak."""
    ledger_record_bytes: float
    final_bytes: float
    recovery_record_us: float


def costs(page: str) -> Costs:
    """Read what was measured from the page of benchmarks."""
    sweeps, memory = tables(page, "Sweeps")[:2]
    (exports,) = tables(page, "Exports")
    accounting = next(iter(tables(page, "Accounting")[0].values()))
    (ledger,) = tables(page, "Ledger")[0].values()
    (records,) = tables(page, "Records")[0].values()
    streams = next(iter(tables(page, "Streams")[0].values()))
    size = {size: float(memory["agent"][f"N = {size}"]) for size in (100, 5000)}
    files = OSTS * int(re.search(r"^## Exports: (\d+)", page, re.MULTILINE)[1])  # type: ignore[index]
    moved = exports["all moved"]
    return Costs(
        agent_record_us=float(sweeps["one in five", "5000"]["agent µs/record"]),
        agent_mb=size[100],
        agent_record_bytes=(size[5000] - size[100]) * 1e6 / (OSTS * (5000 - 100)),
        client_file_us=float(moved["CPU µs/file"]),
        client_file_bytes=(float(moved["peak RSS MB"]) - size[100]) * 1e6 / files,
        client_wire_bytes=float(moved["spooled MB"]) * 1e6 / files,
        number_bytes=float(accounting["bytes per moved number on the wire"]),
        record_us=float(streams["a sweep, CPU s: mean"]),  # of a million
        aggregator_mb=float(streams["RSS without agents, MB"]),
        record_bytes=float(streams["peak RSS, MB"]) - float(streams["RSS without agents, MB"]),
        ledger_record_bytes=float(ledger["MB of files"]),
        final_bytes=float(records["bytes each"]),
        recovery_record_us=float(streams["recovery, s / CPU s"].split(" / ")[0]),
    )


def tables(page: str, heading: str) -> list[Table]:
    """Return the tables below a heading: by the first cell of a row, or the first two, and by the column's name."""
    part = re.search(rf"^## {heading}:.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if part is None:
        raise ValueError(
            f"{BENCHMARKS.name} has nothing about {heading}: write it anew with tests/bench/run.py --write"
        )
    found: list[Table] = []
    for text in re.findall(r"(?:^\|.*\|\n?)+", part[0], re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in text.splitlines()]
        is_double = len({row[0] for row in rows}) < len(rows)
        found.append({(row[0], row[1]) if is_double else row[0]: dict(zip(head, row, strict=True)) for row in rows})
    return found


ROWS: Final[Mapping[str, Callable[[Site, Costs], float | str]]] = {
    "**an OSS: agent**": lambda _site, _cost: "",
    "records of jobs": lambda site, _: site.osts * site.on_target,
    "CPU of sweeps, % of a core": lambda site, cost: (
        site.osts * site.on_target * cost.agent_record_us / INTERVAL_SECONDS / 1e4
    ),
    "CPU of reading clients, % of a core": lambda site, cost: (
        site.osts * site.nodes * cost.client_file_us / CLIENT_SECONDS / 1e4
    ),
    "memory, MB": lambda site, cost: (
        cost.agent_mb
        + site.osts * (site.on_target * cost.agent_record_bytes + site.nodes * cost.client_file_bytes) / 1e6
    ),
    "spool of a day, MB": lambda site, cost: _sent(site, cost, site.osts) * _DAY_SECONDS / 1e6,
    "**all servers: network**": lambda _site, _cost: "",
    "kB a second": lambda site, cost: _sent(site, cost, site.targets) / 1e3,
    "**aggregator**": lambda _site, _cost: "",
    "thousand records of jobs": lambda site, _: site.records / 1e3,
    "CPU, % of a core": lambda site, cost: (
        (MOVED * site.records / INTERVAL_SECONDS + site.client_files / CLIENT_SECONDS) * cost.record_us / 1e4
    ),
    "aggregator's memory, MB": lambda site, cost: (
        cost.aggregator_mb + (site.records + site.client_files) * cost.record_bytes / 1e6
    ),
    "ledger: what is alive, MB": lambda site, cost: (
        64 + (site.records + site.client_files) * cost.ledger_record_bytes / 1e6
    ),
    "ledger: a year of final records, GB": lambda site, cost: site.daily * RETENTION_DAYS * cost.final_bytes / 1e9,
    "recovery after a crash, s": lambda site, cost: (site.records + site.client_files) * cost.recovery_record_us / 1e6,
}
"""What a site needs: each row of the page. A cost per record in µs is, per million records, in seconds."""


def _sent(site: Site, cost: Costs, targets: float) -> float:
    """Return what so many targets send, in bytes per second."""
    jobs = MOVED * site.on_target * NUMBERS * cost.number_bytes / INTERVAL_SECONDS
    return targets * (jobs + site.nodes * cost.client_wire_bytes / CLIENT_SECONDS)


SETTINGS: Final = {
    "always": ("always", 0),
    "`perUser: top`": ("perUser", TOP),
    "`perProcess: top`": ("perProcess", TOP),
    "`perJob: top`": ("perJob", TOP),
    "`perJob: all`": ("perJob", None),
    "`perClient: top`": ("perClient", TOP),
    "`perClient: all`": ("perClient", None),
}
"""Settings of a prometheus sink, with how many things each shows; none: all."""


def series(site: Site, setting: str, shown: int | None) -> float:
    """Return how many series a setting of a prometheus sink makes at most, ``other`` included."""
    there = {"perJob": site.jobs, "perClient": site.nodes, "perUser": site.users, "perProcess": site.users}
    count = there.get(setting, 0) if shown is None else min(shown, there.get(setting, 0)) + 1
    return sum(_series(site, family, count) for family in FAMILIES if family.setting == setting)


def _series(site: Site, family: Family, count: float) -> float:
    """Return the series of one family: every combination of its labels, for so many jobs, nodes or users."""
    labels = set(family.labels)
    osts, mdts = site.oss * site.osts, site.mds
    each = count if family.setting != "always" else 1
    if "target" in labels:
        kinds: dict[str, float] = {"ost": osts, "mdt": mdts} if "component" in labels else {"mdt": mdts}
        if family.setting == "perJob":
            kinds = {kind: number / site.filesystems for kind, number in kinds.items()}
            return each * sum(kinds.values()) * (JOB_OPERATIONS if "operation" in labels else 1)
        return each * sum(number * (OPERATIONS[kind] if "operation" in labels else 1) for kind, number in kinds.items())
    each *= site.filesystems if "fs" in labels else 1
    if "operation" in labels:
        return each * sum(OPERATIONS.values())
    if "name" in labels:
        return 6  # stages
    return each * (len(OPERATIONS) if "component" in labels else 1)


def computed(cost: Costs) -> str:
    """Return the page's tables."""
    head = ("", *SITES)
    described = {
        "file systems": "filesystems",
        "OSS": "oss",
        "OSTs of each": "osts",
        "MDS with an MDT each": "mds",
        "jobs that Lustre remembers": "jobs",
        "nodes": "nodes",
        "users": "users",
        "jobs a day": "daily",
    }
    given = [(name, *(f"{getattr(site, field):,}" for site in SITES.values())) for name, field in described.items()]
    needed = [(name, *(_number(row(site, cost)) for site in SITES.values())) for name, row in ROWS.items()]
    shown = [
        (name, *(_number(series(site, *setting)) for site in SITES.values())) for name, setting in SETTINGS.items()
    ]
    return "\n\n".join(
        (
            "### The sites",
            table(head, given),
            "### What they need",
            table(head, needed),
            "### Series in Prometheus, at most",
            table(head, shown),
        )
    )


def _number(value: float | str) -> str:
    """Write two digits that count; more would be a promise."""
    if isinstance(value, str):
        return value
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def write() -> None:
    """Write the page's tables anew."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    PAGE.write_text(f"{before}{_BEGIN}\n\n{computed(costs(BENCHMARKS.read_text()))}\n\n{_END}{after}")


if __name__ == "__main__":
    write()
