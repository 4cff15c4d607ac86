"""``harvest-agent doctor``: what is here, what is wrong, and the command that mends it."""

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harvest_agent.native import Native
from harvest_agent.reading import Reader, TargetRead
from harvest_agent.tables import duration, shown, size, some, table
from harvest_agent.tree import TargetFiles, Tree
from harvest_core.lustre.names import is_server, of_filesystem, parse_target, parse_uuids, parse_version
from harvest_core.lustre.stats import parse_stats

SWEEP_SECONDS = 20
"""The usual time between two sweeps; a record must outlive two of them to be seen for certain."""
_PERMIT = "run as root, or give the agent CAP_DAC_READ_SEARCH"
_PATHS_SHOWN = 5


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


def examine(
    tree: Tree, filesystems: Sequence[str], *, show_job_ids: bool = True, needs_lustre: bool = True
) -> tuple[str, list[Problem]]:
    """Look at everything once; return the report and what is wrong. An agent that asks Slurm needs no Lustre beside it.

    Lines that were not understood are quoted, unless they must not be: they may name jobs.
    """
    targets = tree.targets(filesystems)
    reads = Reader(tree, filesystems).sweep(lambda *_: None)
    clients = {read.target: _clients(tree, read.target) for read in reads}
    version = tree.setting("version")
    report = "\n".join(_report(tree, version, targets, reads, clients, show_job_ids=show_job_ids))
    problems = [
        *_server_problems(tree, version, targets, reads),
        *(_missing_targets(tree, filesystems, targets) if needs_lustre or targets else ()),
        *(
            problem
            for read in reads
            for problem in _target_problems(read, version, clients[read.target], quote_lines=show_job_ids)
        ),
    ]
    return report, [*_unreadable(tree), *problems]


def is_job_id(jobid_name: str) -> bool:
    """Tell whether the setting is an id itself (so it is where jobid_var is nodelocal) and not a pattern of ids."""
    return "%" not in jobid_name


def _report(
    tree: Tree,
    version: str | None,
    targets: list[TargetFiles],
    reads: list[TargetRead],
    clients: dict[TargetFiles, Clients],
    *,
    show_job_ids: bool,
) -> Iterator[str]:
    kinds = {"OSS" if target.source == "obdfilter" else "MDS" for target in targets}
    role = " and ".join(sorted(kinds)) or ("client" if tree.mounts_as_client() else "no Lustre server")
    variable, name = tree.setting("jobid_var"), tree.setting("jobid_name")
    if name is not None and is_job_id(name) and not show_job_ids:
        name = "(masked)"
    settings = f"jobid_var={shown(str(variable))}, jobid_name={shown(str(name))}"
    yield f"role      {role}"
    yield f"version   {shown(version_line(version))}"
    yield f"job ids   {settings} (the server's own; clients decide)"
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
    interval = read.target.number("job_cleanup_interval")
    return [
        shown(read.target.name),
        "?" if read.instance is None else str(read.instance),
        "?" if interval is None else f"{interval} s",
        str(len(read.scanner.order)) if read.complete else "?",
        f"{clients.live} ({clients.listed} listed)",
        str(read.unread.count + len(clients.unread)),
        size(read.bytes_read),
        duration(read.user_seconds),
        duration(read.kernel_seconds),
    ]


def _clients(tree: Tree, target: TargetFiles) -> Clients:
    """Count client nodes; exports of servers are left out, directories outlive their clients."""
    live = listed = 0
    unread: list[bytes] = []
    for nid, folder in target.exports():
        uuids = parse_uuids(tree.read(f"{folder}/uuid") or b"")
        if is_server(nid, uuids):
            continue
        listed += 1
        live += bool(uuids)
        stats = parse_stats(tree.read(f"{folder}/stats") or b"")
        unread.extend((*stats.unread, *stats.doubtful))
    return Clients(live=live, listed=listed, unread=tuple(unread))


def _unreadable(tree: Tree) -> Iterator[Problem]:
    """Tell what could not be read, one problem for each reason."""
    for reason in sorted(set(tree.unreadable.values())):
        paths = sorted(tree.shown(path) for path, why in tree.unreadable.items() if why == reason)
        yield Problem(f"{reason}: {some(paths, _PATHS_SHOWN)}", _mend(reason))


def _mend(reason: str) -> str:
    denied = {os.strerror(errno.EACCES), os.strerror(errno.EPERM)}
    return _PERMIT if reason in denied else "run the doctor again; if it stays, look with `ls -l`"


def _missing_targets(tree: Tree, filesystems: Sequence[str], targets: list[TargetFiles]) -> Iterator[Problem]:
    parsed = [(target.name, parse_target(target.name)) for target in tree.targets()]
    mounted = sorted({target.fsname if target else name for name, target in parsed})
    for fs in filesystems:
        if mounted and not any(of_filesystem(target.name, fs) for target in targets):
            yield Problem(
                f"no target of file system {shown(fs)} is mounted here, only of {some(mounted, _PATHS_SHOWN)}",
                "give --filesystem another name, or leave it out",
            )
    if not mounted:
        hidden = ", as far as may be seen" if tree.unreadable else ""
        client = ", only a client" if tree.mounts_as_client() else ""
        yield Problem(
            f"no Lustre target is mounted here{client}{hidden}",
            "run it on an OSS or MDS; there, see `lctl dl` and `mount -t lustre`",
        )


def _server_problems(
    tree: Tree, version: str | None, targets: list[TargetFiles], reads: list[TargetRead]
) -> Iterator[Problem]:
    if not targets:
        return
    if version is None:
        yield Problem("the Lustre version cannot be read", "see `lctl get_param version`")
    # clients decide, each for itself; but on most sites all nodes have the same setting
    if tree.setting("jobid_var") == "disable" and not any(read.scanner.order for read in reads):
        yield Problem(
            "jobid_var is disabled and no target shows a job: nothing can be counted per job",
            "on the MGS: lctl set_param -P jobid_var=SLURM_JOB_ID",
        )
    if tree.setting("enable_stats_header") == "0":
        yield Problem(
            "enable_stats_header is 0: records do not show when they began, so a job that was forgotten "
            "and came back can be told only by order and decrease",
            "lctl set_param enable_stats_header=1",
        )
    shows_jobs = {read.target for read in reads}
    for target in targets:
        if target not in shows_jobs and tree.unreadable.keys().isdisjoint(target.folders):
            yield Problem(
                f"{shown(target.name)}: it has no job_stats, so no job can be seen there",
                f"see `lctl get_param {target.source}.{shown(target.name)}.job_stats`",
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
    name = shown(target.name)
    if read.problem is not None:
        yield Problem(f"{name}: job_stats could not be read: {read.problem}", _mend(read.problem))
    interval = target.number("job_cleanup_interval")
    never = {0, 1} if (parse_version(version or "") or ()) >= (2, 14, 56) else {0}  # 1 is halved to 0 there
    if interval is not None and interval not in never and interval <= 2 * SWEEP_SECONDS:
        yield Problem(
            f"{name}: job_cleanup_interval is {interval} s: jobs may be forgotten before they are read",
            f"lctl set_param {target.source}.{name}.job_cleanup_interval=600",
        )
    if parse_target(target.name) is None:
        yield Problem(
            f"{name}: its name does not say which file system it belongs to",
            "it is read only while no file systems are chosen",
        )
    lines = [*read.unread.examples, *clients.unread][:3]
    if lines:
        count = read.unread.count + len(clients.unread)
        examples = "; ".join(ascii(line.decode("utf-8", "replace"))[:160] for line in lines)
        yield Problem(
            f"{name}: {count} lines were not understood" + (f", for example {examples}" if quote_lines else ""),
            "harvest-agent dump, and send the bundle to us",
        )
