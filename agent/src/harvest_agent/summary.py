"""The tables of ``harvest-agent sample``: the busiest jobs and clients."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from harvest_agent.sampling import Row
from harvest_agent.tables import shown, size, some, table
from harvest_core.lustre.names import parse_target

SHOWN = 20
_READ = {"read_bytes", "read"}
_WRITE = {"write_bytes", "write"}
_NO_WORK = {
    "ping",
    "samedir_rename",
    "crossdir_rename",
    "parallel_rename_file",
    "parallel_rename_dir",
    "rename_trylocks",
}
"""Keep-alives, and parts of ``rename`` that are counted there already."""


@dataclass(slots=True)
class _Total:
    read: int = 0
    written: int = 0
    operations: int = 0
    targets: set[str] = field(default_factory=set)


def summary(rows: Iterable[Row]) -> str:
    """Add the counters up per job and per client over this server's targets, and show the largest."""
    totals: dict[str, dict[tuple[str, str], _Total]] = {"job": {}, "export": {}}
    unread: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["kind"] == "unread":
            unread[row["file"]] += 1
            continue
        target = parse_target(row["target"])
        who = row["job"] if row["kind"] == "job" else row["nid"]
        total = totals[row["kind"]].setdefault((target.fsname if target else row["target"], who), _Total())
        total.targets.add(row["target"])
        if row["unit"] == "bytes" and row["op"] in _READ:
            total.read += row["sum"] or 0
        elif row["unit"] == "bytes" and row["op"] in _WRITE:
            total.written += row["sum"] or 0
        elif row["op"] not in _READ | _WRITE | _NO_WORK:
            total.operations += row["samples"] or 0
    parts = [_table(title, totals[kind]) for kind, title in (("job", "JOB"), ("export", "CLIENT")) if totals[kind]]
    if unread:
        parts.append(
            f"{sum(unread.values())} lines could not be read, of {some(list(unread), SHOWN)}; `--json` shows them."
        )
    return "\n\n".join(parts or ["No counters were found. `harvest-agent doctor` says why."])


def _table(title: str, totals: dict[tuple[str, str], _Total]) -> str:
    ranked = sorted(totals.items(), key=lambda item: (-item[1].read - item[1].written, -item[1].operations, item[0]))
    lines = [
        [*map(shown, names), str(len(total.targets)), size(total.read), size(total.written), str(total.operations)]
        for names, total in ranked[:SHOWN]
    ]
    text = table(["FS", title, "TARGETS", "READ", "WRITTEN", "OPERATIONS"], lines, right={2, 3, 4, 5})
    rest = len(ranked) - len(lines)
    return text + (f"\n… and {rest} more, all smaller; `--json` shows all." if rest else "")
