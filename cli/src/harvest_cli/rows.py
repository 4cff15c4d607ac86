"""What the commands show of the API's answers, as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from harvest_cli.replies import Json
from harvest_cli.sheets import Column, Sheet
from harvest_cli.units import ABSENT, age, count, moment, name, per_second, size
from harvest_cli.work import amount, process, rates

AMBIGUOUS: Final = "*"
INCOMPLETE: Final = "!"
_MARKS: Final = {
    AMBIGUOUS: "nobody could know whether its counters began again: `harvest job ID` says how much is in doubt",
    INCOMPLETE: "it may have done more than Lustre ever showed",
}
RATES: Final = (
    Column("READ", right=True),
    Column("WRITE", right=True),
    Column("OPS", right=True),
    Column("META", right=True),
)


def rate_cells(numbers: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return what is done per second: bytes read and written, operations, and those on metadata."""
    return (
        per_second(size(numbers.get("read_bytes"))),
        per_second(size(numbers.get("write_bytes"))),
        per_second(count(numbers.get("iops"))),
        per_second(count(numbers.get("metadata_ops"))),
    )


def job_name(job: Json) -> str:
    """Return what a job is called: array tasks as Slurm prints them."""
    return name(job.get("array") or job["job"])


def marks(job: Json) -> str:
    """Return what must be known of a job's totals."""
    doubtful = AMBIGUOUS if job["ambiguous_resets"] else ""
    return doubtful + ("" if job["complete"] else INCOMPLETE)


def explained(jobs: Iterable[Json]) -> list[str]:
    """Return what the marks of these jobs mean."""
    used = {mark for job in jobs for mark in marks(job)}
    return [f"{mark} {text}" for mark, text in _MARKS.items() if mark in used]


def jobs_sheet(answer: Json, *, offset: int, now_seconds: float | None) -> Sheet:
    """Return ``harvest jobs``."""
    jobs = answer["jobs"]
    rest = answer["matched"] - offset - len(jobs)
    paging = [
        f"{len(jobs)} of {answer['matched']} jobs" + (f"; the next: --offset {offset + len(jobs)}" if rest > 0 else "")
    ]
    return Sheet(
        title=f"at {moment(answer['tick_seconds'])}",
        columns=(
            Column("JOB"),
            Column("", rank=0),
            Column("CLUSTER", rank=3),
            Column("USER"),
            Column("ACCOUNT", rank=4),
            Column("STATE", rank=2),
            Column("NAME", rank=5),
            Column("READ", right=True),
            Column("WRITE", right=True),
            Column("OPS", right=True),
            Column("META", right=True),
            Column("READING", right=True, rank=1),
            Column("WRITING", right=True, rank=1),
            Column("OPS/S", right=True, rank=1),
            Column("LAST", right=True, rank=6),
        ),
        rows=[_job_row(job, now_seconds) for job in jobs],
        notes=[*explained(jobs), *paging],
    )


def _job_row(job: Json, now_seconds: float | None) -> tuple[str, ...]:
    read, write, ops, _ = rate_cells(rates(job))
    last = job.get("last_tick_seconds")
    return (
        job_name(job),
        marks(job),
        name(job["cluster"]),
        name(job.get("user")),
        name(job.get("account")),
        name(job.get("state")),
        name(job.get("name") or process(job)),
        size(amount(job, "read_bytes")),
        size(amount(job, "write_bytes")),
        count(amount(job, "iops")),
        count(amount(job, "mdt_iops")),
        read,
        write,
        ops,
        ABSENT if last is None or now_seconds is None else f"{age(now_seconds - last)} ago",
    )


def job_sheets(job: Json) -> Iterator[Sheet]:
    """Yield ``harvest job``: who it is, what it did where, and every operation."""
    yield Sheet(columns=(Column(""), Column("")), rows=list(_facts(job)))
    yield Sheet(
        columns=(Column("FILE SYSTEM"), Column(""), *_TOTALS, Column("READING", right=True), *_NOW),
        rows=[
            (name(filesystem), kind, *_total_cells(work[kind]), *rate_cells(work[kind]["rates"])[:3])
            for filesystem, work in sorted(job["filesystems"].items())
            for kind in ("ost", "mdt")
            if any(work[kind][part] for part in ("read_bytes", "write_bytes", "iops", "ops"))
        ],
        notes=list(_doubts(job)),
    )
    yield Sheet(
        columns=(
            Column("OPERATION"),
            Column("FILE SYSTEM"),
            Column(""),
            Column("TIMES", right=True),
            Column("SUM", right=True),
            Column("EACH", right=True),
        ),
        rows=[
            (name(op), name(filesystem), kind, *_op_cells(op, numbers))
            for filesystem, work in sorted(job["filesystems"].items())
            for kind in ("ost", "mdt")
            for op, numbers in sorted(work[kind]["ops"].items(), key=lambda item: -item[1]["samples"])
        ],
    )


_TOTALS: Final = (Column("READ", right=True), Column("WRITE", right=True), Column("OPS", right=True))
_NOW: Final = (Column("WRITING", right=True), Column("OPS/S", right=True))


def _total_cells(work: Mapping[str, Any]) -> tuple[str, str, str]:
    return size(work["read_bytes"]), size(work["write_bytes"]), count(work["iops"])


def _op_cells(op: str, numbers: Mapping[str, Any]) -> tuple[str, str, str]:
    samples, total = numbers["samples"], numbers["sum"]
    each = total / samples if samples else None
    if op in {"read_bytes", "write_bytes"}:
        return count(samples), size(total), size(each)
    if not total:  # this server does not say how long they took
        return count(samples), ABSENT, ABSENT
    return count(samples), _time(total), _time(each)


def _time(usecs: float | None) -> str:
    if usecs is None:
        return ABSENT
    return f"{usecs:.0f} us" if usecs < 1000 else f"{usecs / 1000:.1f} ms" if usecs < 1e6 else f"{usecs / 1e6:.1f} s"


def _facts(job: Json) -> Iterator[tuple[str, str]]:
    slurm = job.get("slurm_state")
    state = name(job.get("state")) + (f" (Slurm: {name(slurm)})" if slurm else "")
    called = name(job["job"]) + (f" ({name(job['array'])})" if job.get("array") else "")
    yield "job", f"{called} {marks(job)}".rstrip()
    yield "name", name(job.get("name") or process(job))
    yield "cluster", name(job["cluster"])
    yield "user", name(job.get("user"))
    yield "account", name(job.get("account"))
    if job.get("partition") or job.get("nodes"):
        yield "partition", f"{name(job.get('partition'))}, {count(job.get('nodes'))} nodes"
    yield "state", state
    for what in ("submit", "start", "end"):
        if job.get(f"{what}_seconds") is not None:
            yield what, moment(job[f"{what}_seconds"])
    yield "last work", moment(job.get("last_tick_seconds"))
    yield "seen at", moment(job["tick_seconds"])


def _doubts(job: Json) -> Iterator[str]:
    if job["ambiguous_resets"]:
        yield (
            f"{AMBIGUOUS} {count(job['ambiguous_resets'])} times nobody could know if its counters began again: "
            f"totals may be off by at most {size(job['ambiguous_bytes'])}, {count(job['ambiguous_samples'])} operations"
        )
    if not job["complete"]:
        yield f"{INCOMPLETE} {_MARKS[INCOMPLETE]}"
    if job.get("late"):
        yield "work came to light after its end, and was added"


def user_sheets(answer: Json, now_seconds: float | None) -> Iterator[Sheet]:
    """Yield ``harvest user``."""
    total, rate = answer.get("totals") or {}, answer.get("rates") or {}
    facts = [
        ("user", name(answer["user"])),
        ("accounts", ", ".join(map(name, answer["accounts"])) or ABSENT),
        *((what, f"{size(total.get(key))}, now {per_second(size(rate.get(key)))}") for what, key in _BYTES),
        ("operations", f"{count(total.get('iops'))}, now {per_second(count(rate.get('iops')))}"),
    ]
    yield Sheet(columns=(Column(""), Column("")), rows=facts)
    jobs = {**answer, "matched": len(answer["jobs"])}
    yield jobs_sheet(jobs, offset=0, now_seconds=now_seconds)


_BYTES: Final = (("read", "read_bytes"), ("written", "write_bytes"))


def node_sheet(clients: Sequence[Json], tick_seconds: float | None) -> Sheet:
    """Return ``harvest node``: what it does on each file system, by NID."""
    return Sheet(
        title=f"at {moment(tick_seconds)}",
        columns=(
            Column("NODE"),
            Column("NID"),
            Column("CLUSTER", rank=2),
            Column("LIVE"),
            Column("FILE SYSTEM"),
            Column("READ", right=True),
            Column("WRITE", right=True),
            Column("OST OPS", right=True),
            Column("MDT OPS", right=True),
        ),
        rows=[
            (
                name(client["host"]),
                name(client["nid"]),
                name(client["cluster"]),
                "yes" if client["live"] else "no",
                name(filesystem),
                per_second(size(numbers["read_bytes"])),
                per_second(size(numbers["write_bytes"])),
                per_second(count(numbers["oss_ops"])),
                per_second(count(numbers["mds_ops"])),
            )
            for client in clients
            for filesystem, numbers in sorted(client["filesystems"].items()) or [("", _NOTHING)]
        ],
    )


_NOTHING: Final = dict.fromkeys(("read_bytes", "write_bytes", "oss_ops", "mds_ops"))
