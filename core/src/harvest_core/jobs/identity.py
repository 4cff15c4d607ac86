"""Whose job an id is: the cluster that made it, the number that Slurm knows it by, or a process and its user."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from harvest_core.job_ids import PROCESS, JobIdFormat, JobIdParts, guess

UNKNOWN: Final = "-"
"""No cluster of the site says that the id is its own."""
AMBIGUOUS: Final = "ambiguous"
"""Several may: nobody guesses which."""
_NUMBER_MOST: Final = (1 << 32) - 1
"""Slurm's own numbers have 32 bits."""
_REMEMBERED: Final = 1 << 20
PROCESSES_MOST: Final = 20_000
"""So many programs of users have a name of their own; what more there are is each user's `other`."""
OTHER: Final = "other"


class JobName(NamedTuple):
    """A job as people know it."""

    cluster: str
    job: bytes
    """The cluster's own id, such as a Slurm number; a process and its user; or the id as Lustre shows it."""


class Process(NamedTuple):
    """What was run outside any job."""

    name: str
    uid: int


@dataclass(frozen=True, slots=True)
class Identity:
    """What an id says."""

    name: JobName
    number: int | None = None
    """By which Slurm knows it."""
    process: Process | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIds:
    """How the ids of one cluster look, and on which file systems they can be."""

    cluster: str
    filesystems: frozenset[str]
    format: JobIdFormat | None = None
    """Absent: it claims what no other cluster does, if it is the only such one."""
    range: tuple[int, int] | None = None
    """First and last number that a job can have."""

    def claim(self, job: bytes) -> JobIdParts | None:
        """Take an id apart if it is this cluster's."""
        if self.format is None:
            return None
        parts = self.format.parse(job)
        if parts is None or self.range is None or not parts.job:
            return parts
        is_one = parts.job.isdecimal() and self.range[0] <= int(parts.job) <= self.range[1]
        return parts if is_one else None


class Identities:
    """Tells whose the ids of a site's file systems are. What was told once is remembered, up to a bound."""

    def __init__(self, clusters: Iterable[ClusterIds] = ()) -> None:
        self.clusters = tuple(clusters)
        self._told: dict[tuple[str, bytes], Identity] = {}
        self._processes: set[JobName] = set()

    def of(self, filesystem: str, job: bytes) -> Identity:
        """Return whose job an id is on a file system."""
        told = self._told.get((filesystem, job))
        if told is None:
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            told = self._told[filesystem, job] = self._bounded(self._found(filesystem, job))
        return told

    def keep(self, names: Container[JobName]) -> None:
        """Forget all others, which makes room for other programs: they are over, or were told of them since."""
        self._processes = {name for name in self._processes if name in names}
        told = list(self._told.items())  # at once: those who read ask, too
        self._told = {key: one for key, one in told if one.name in names}

    def _bounded(self, found: Identity) -> Identity:
        """Return an identity by which not too many programs are told apart: every command on a login node is one."""
        if found.process is None or found.name in self._processes:
            return found
        if len(self._processes) >= PROCESSES_MOST:
            uid = found.process.uid
            return Identity(JobName(found.name.cluster, f"{OTHER}.{uid}".encode()), process=Process(OTHER, uid))
        self._processes.add(found.name)
        return found

    def _found(self, filesystem: str, job: bytes) -> Identity:
        here = [one for one in self.clusters if filesystem in one.filesystems]
        claimed = [(one.cluster, parts) for one in here if (parts := _certain(one.claim(job))) is not None]
        if claimed:
            cluster, parts = claimed[0]
            return _identity(cluster if len(claimed) == 1 else AMBIGUOUS, job, parts)
        guessed = guess(job)
        # a process runs where a job's variable is not set, on nodes of any cluster
        is_process = guessed is not None and guessed.uid is not None
        may_be = here if is_process else [one for one in here if one.format is None]
        cluster = UNKNOWN if not may_be else may_be[0].cluster if len(may_be) == 1 else AMBIGUOUS
        return _identity(cluster, job, guessed or JobIdParts())


NOBODYS: Final = Identities()
"""Of a site without clusters."""


def _certain(parts: JobIdParts | None) -> JobIdParts | None:
    """Take what a format made of an id that only looks like its own: a process, where any text may be a job."""
    if parts is None or parts.job is None or parts.job.isdecimal() or parts.uid is not None:
        return parts
    is_process = PROCESS is not None and PROCESS.parse(parts.job.encode("utf-8", "surrogateescape")) is not None
    return None if is_process else parts


def _identity(cluster: str, job: bytes, parts: JobIdParts) -> Identity:
    """Name a job by what its cluster calls it; a field through which the cut at 31 bytes went names nothing."""
    if parts.job and parts.doubtful != "job":
        number = int(parts.job) if parts.job.isdecimal() and len(parts.job) <= 10 else None
        known = number if number is not None and 0 < number <= _NUMBER_MOST else None
        return Identity(JobName(cluster, parts.job.encode("utf-8", "surrogateescape")), number=known)
    if parts.executable and parts.uid and parts.doubtful not in {"uid", "executable"}:
        name = f"{parts.executable}.{parts.uid}".encode("utf-8", "surrogateescape")
        return Identity(JobName(cluster, name), process=Process(parts.executable, int(parts.uid)))
    return Identity(JobName(cluster, job))
