"""``harvest-agent doctor``: what is here, what is wrong, and the command that mends it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harvest_agent.native import Native
from harvest_agent.reading import Reader, TargetRead
from harvest_agent.tables import duration, size, table
from harvest_agent.tree import TargetFiles, Tree, read_number, read_small
from harvest_core.lustre.names import is_server, parse_target, parse_uuids, parse_version
from harvest_core.lustre.stats import parse_stats

SWEEP_SECONDS = 20
"""The usual time between two sweeps; a record must outlive two of them to be seen for certain."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and what to do about it."""

    what: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The exports of one target."""

    live: int
    """Client nodes connected now."""
    listed: int
    """Client nodes with counters, also those that left."""
    unread: tuple[bytes, ...]


def examine(tree: Tree, filesystems: Sequence[str], *, quote_lines: bool = True) -> tuple[str, list[Problem]]:
    """Look at everything once; return the report and what is wrong.

    Lines that were not understood are quoted, unless they must not be: they may name jobs.
    """
    reader = Reader(tree, filesystems)
    reads = reader.sweep(lambda *_: None)
    clients = {read.target: _clients(read.target) for read in reads}
    version = tree.setting("version")
    problems = [
        *_server_problems(tree, version, reads),
        *(
            problem
            for read in reads
            for problem in _target_problems(read, version, clients[read.target], quote_lines=quote_lines)
        ),
    ]
    report = "\n".join(_report(tree, version, reads, clients))
    return report, problems


def _report(
    tree: Tree, version: str | None, reads: list[TargetRead], clients: dict[TargetFiles, Clients]
) -> Iterator[str]:
    kinds = Counter("OSS" if read.target.source == "obdfilter" else "MDS" for read in reads)
    role = " and ".join(sorted(kinds)) or ("client" if tree.mounts_as_client() else "no Lustre server")
    yield f"role      {role}"
    yield f"version   {version_line(version)}"
    yield f"job ids   jobid_var={tree.setting('jobid_var')}, jobid_name={tree.setting('jobid_name')}"
    yield f"scanner   {'compiled' if Native.load(seed=0) else 'pure Python (slower)'}"
    if reads:
        yield ""
        yield table(
            ["TARGET", "MOUNT", "CLEANUP", "JOBS", "CLIENTS", "UNREAD", "TEXT", "OWN CPU", "KERNEL CPU"],
            [_row(read, clients[read.target]) for read in reads],
            right=set(range(1, 9)),
        )
        own = sum(read.user_seconds for read in reads)
        kernel = sum(read.kernel_seconds for read in reads)
        yield ""
        yield (
            f"one sweep costs {duration(own)} of own CPU and {duration(kernel)} of the kernel's "
            f"({100 * (own + kernel) / SWEEP_SECONDS:.2f} % of a core at one sweep every {SWEEP_SECONDS} s)"
        )


def version_line(version: str | None) -> str:
    """Return the line of the version file that names Lustre's own version."""
    lines = (version or "unknown").splitlines()
    return next((line.removeprefix("lustre:").strip() for line in lines if line.startswith("lustre:")), lines[0])


def _row(read: TargetRead, clients: Clients) -> list[str]:
    interval = read_number(read.target.file("job_cleanup_interval"))
    return [
        read.target.name,
        "?" if read.instance is None else str(read.instance),
        "?" if interval is None else f"{interval} s",
        str(len(read.scanner.order)) if read.complete else "?",
        f"{clients.live} ({clients.listed} listed)",
        str(read.unread.count + len(clients.unread)),
        size(read.bytes_read),
        duration(read.user_seconds),
        duration(read.kernel_seconds),
    ]


def _clients(target: TargetFiles) -> Clients:
    """Count client nodes; exports of servers are left out, directories outlive their clients."""
    live = listed = 0
    unread: list[bytes] = []
    for nid, folder in target.exports():
        uuids = parse_uuids(read_small(f"{folder}/uuid") or b"")
        if is_server(nid, uuids):
            continue
        listed += 1
        live += bool(uuids)
        stats = parse_stats(read_small(f"{folder}/stats") or b"")
        unread.extend((*stats.unread, *stats.doubtful))
    return Clients(live=live, listed=listed, unread=tuple(unread))


def _server_problems(tree: Tree, version: str | None, reads: list[TargetRead]) -> Iterator[Problem]:
    for place in tree.forbidden():
        yield Problem(
            f"{tree.shown(place)} may not be read: permission denied",
            "run as root, or give the agent CAP_DAC_READ_SEARCH",
        )
    if not reads:
        yield Problem(
            "no Lustre target is mounted here" + (", only a client" if tree.mounts_as_client() else ""),
            "run it on an OSS or MDS; there, see `lctl dl` and `mount -t lustre`",
        )
        return
    if version is None:
        yield Problem("the Lustre version cannot be read", "see `lctl get_param version`")
    if tree.setting("jobid_var") == "disable":
        yield Problem(
            "jobid_var is disabled: clients send no job id, so nothing can be counted per job",
            "on the MGS: lctl set_param -P jobid_var=SLURM_JOB_ID",
        )
    if tree.setting("enable_stats_header") == "0":
        yield Problem(
            "enable_stats_header is 0: records do not show when they began, so a job that was forgotten "
            "and came back can be told only by order and decrease",
            "lctl set_param enable_stats_header=1",
        )
    if Native.load(seed=0) is None:
        yield Problem(
            "the compiled scanner is missing: each sweep costs far more CPU",
            "install the package built for this machine (or run `make` in the source tree)",
        )


def _target_problems(
    read: TargetRead, version: str | None, clients: Clients, *, quote_lines: bool
) -> Iterator[Problem]:
    target = read.target
    if read.problem is not None:
        mend = "run as root, or give the agent CAP_DAC_READ_SEARCH" if "ermission" in read.problem else "look again"
        yield Problem(f"{target.name}: job_stats could not be read: {read.problem}", mend)
    interval = read_number(target.file("job_cleanup_interval"))
    never = {0, 1} if (parse_version(version or "") or ()) >= (2, 14, 56) else {0}  # 1 is halved to 0 there
    if interval is not None and interval not in never and interval <= 2 * SWEEP_SECONDS:
        yield Problem(
            f"{target.name}: job_cleanup_interval is {interval} s: jobs may be forgotten before they are read",
            f"lctl set_param {target.source}.{target.name}.job_cleanup_interval=600",
        )
    if parse_target(target.name) is None:
        yield Problem(
            f"{target.name}: its name does not say which file system it belongs to",
            "it is read only while no file systems are chosen",
        )
    lines = [*read.unread.examples, *clients.unread][:3]
    if lines:
        count = read.unread.count + len(clients.unread)
        examples = "; ".join(ascii(line.decode("utf-8", "replace"))[:160] for line in lines)
        yield Problem(
            f"{target.name}: {count} lines were not understood" + (f", for example {examples}" if quote_lines else ""),
            "harvest-agent dump, and send the bundle to us",
        )
