"""Tables of file systems, servers and targets."""

from collections.abc import Iterable, Sequence

from harvest_cli.replies import Json
from harvest_cli.rows import RATES, rate_cells
from harvest_cli.sheets import Column, Sheet
from harvest_cli.units import ABSENT, age, count, moment, name, size


def filesystems_sheet(answer: Json) -> Sheet:
    """Return ``harvest fs``: what all jobs do, and did, on each."""
    return Sheet(
        title=f"per second, at {moment(answer['tick_seconds'])}; and all that was ever done",
        columns=(
            Column("FILE SYSTEM"),
            Column("SERVERS", right=True, rank=2),
            Column("TARGETS", right=True, rank=2),
            Column("JOBS", right=True),
            *RATES,
            Column("EVER READ", right=True, rank=1),
            Column("EVER WRITTEN", right=True, rank=1),
            Column("EVER OPS", right=True, rank=1),
        ),
        rows=[
            (
                name(one["name"]),
                count(len(one["servers"])),
                count(one["targets"]),
                count(one["jobs"]),
                *rate_cells({**_summed(one, rates=True), "metadata_ops": one["mdt"]["rates"]["iops"]}),
                size(_summed(one)["read_bytes"]),
                size(_summed(one)["write_bytes"]),
                count(_summed(one)["iops"]),
            )
            for one in answer["filesystems"]
        ],
    )


def _summed(filesystem: Json, *, rates: bool = False) -> Json:
    kinds = [filesystem[kind]["rates"] if rates else filesystem[kind] for kind in ("ost", "mdt")]
    return {measure: sum(kind[measure] for kind in kinds) for measure in ("read_bytes", "write_bytes", "iops")}


def targets_sheet(targets: Iterable[Json], now_seconds: float | None) -> Sheet:
    """Return the targets of one file system."""
    return Sheet(
        columns=(
            Column("TARGET"),
            Column("SERVER"),
            Column("MOUNT", right=True, rank=2),
            Column("LAST READ", right=True),
            Column("RECORDS", right=True),
            Column("TEXT", right=True, rank=1),
            Column("CPU", right=True, rank=1),
            Column("UNREAD", right=True),
            Column("UNSEEN", right=True),
            Column("AMBIGUOUS", right=True),
        ),
        rows=[
            (
                name(one["name"]) + (" (missing)" if one["missing"] else ""),
                name(one["server"]),
                name(one["mount"]),
                _ago(now_seconds, one["last_tick_seconds"]),
                count(one["records"]),
                size(one["bytes"]),
                f"{1000 * one['cpu_seconds']:.1f} ms",
                count(one["unread_lines"] + one["unplaced_reads"]),
                "0" if not one["unseen_seconds"] else age(one["unseen_seconds"]),
                size(one["ambiguous_bytes"]),
            )
            for one in targets
        ],
        notes=[
            "UNREAD: lines and reads that were not understood",
            "UNSEEN: time in which work may have been done that nobody could count",
            "AMBIGUOUS: by how much totals may be off",
        ],
    )


def _ago(now_seconds: float | None, seconds: float | None) -> str:
    return ABSENT if now_seconds is None or seconds is None else f"{age(now_seconds - seconds)} ago"


def servers_sheet(servers: Sequence[Json], now_seconds: float | None) -> Sheet:
    """Return ``harvest servers``: each with its agent."""
    several = len({one["aggregator"] for one in servers}) > 1
    return Sheet(
        columns=(
            Column("SERVER"),
            *([Column("AGGREGATOR", rank=1)] if several else []),
            Column("AGENT"),
            Column("FILE SYSTEMS", rank=3),
            Column("TARGETS", right=True),
            Column("LAST SWEEP", right=True),
            Column("TOOK", right=True, rank=2),
            Column("CPU", right=True),
            Column("MEMORY", right=True),
            Column("SPOOL", right=True),
            Column("LOST", right=True, rank=2),
            Column("PROBLEMS", right=True),
        ),
        rows=[
            (
                name(one["name"]),
                *([name(one["aggregator"])] if several else []),
                "connected" if one["connected"] else "away",
                name(",".join(one["filesystems"])),
                count(len(one["targets"])),
                _ago(now_seconds, one["last_tick_seconds"]),
                _seconds(one["late_seconds"]),
                _seconds(one["cpu_seconds"]),
                size(one["resident_bytes"]),
                size(one["spool_bytes"]),
                count(one["lost_sweeps"]),
                count(len(one["problems"])),
            )
            for one in servers
        ],
        notes=["`harvest doctor` says what is wrong."] if any(one["problems"] for one in servers) else [],
    )


def _seconds(seconds: float | None) -> str:
    return ABSENT if seconds is None else f"{seconds:.2f} s"
