"""Jobs out of squeue's and sacct's text, line by line. Free text is the last column: it may hold the separator."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from harvest_core.slurm.jobs import SHARED, Names, SlurmJob, job_of

SEPARATOR: Final = "|"
SQUEUE: Final = {
    "JobID": "id",
    "JobArrayID": "printed",
    "UserID": "uid",
    "UserName": "user",
    "GroupName": "group",
    "Account": "account",
    "Partition": "partition",
    "State": "state",
    "SubmitTime": "submit_seconds",
    "StartTime": "start_seconds",
    "EndTime": "end_seconds",
    "NumNodes": "nodes",
    "exit_code": "exit_code",
    "RestartCnt": "restarts",
    "Name": "name",
}
"""The columns to ask squeue for (``--Format``), and what they are."""
OLD_SQUEUE: Final = {
    "%A": "id",
    "%i": "printed",
    "%U": "uid",
    "%u": "user",
    "%g": "group",
    "%a": "account",
    "%P": "partition",
    "%T": "state",
    "%V": "submit_seconds",
    "%S": "start_seconds",
    "%e": "end_seconds",
    "%D": "nodes",
    "%j": "name",
}
"""Likewise one whose longer columns have no separator (``--format``)."""
SACCT: Final = {
    "JobIDRaw": "id",
    "JobID": "printed",
    "UID": "uid",
    "User": "user",
    "Group": "group",
    "Account": "account",
    "Partition": "partition",
    "State": "state",
    "Submit": "submit_seconds",
    "Start": "start_seconds",
    "End": "end_seconds",
    "NNodes": "nodes",
    "ExitCode": "exit_code",
    "JobName": "name",
}
"""Likewise of sacct."""
_PRINTED: Final = re.compile(r"(?P<first>\d{1,10})(?:_(?P<task>\d{1,10})|\+(?P<offset>\d{1,10})|_\[[^]]*\])?")
_STEP: Final = re.compile(r"\d+(?:[_+]\d+)?\.\w")


_LINE_MOST: Final = 1 << 16


class TextJobs:
    """Reads jobs piece by piece; a line that makes no sense costs that line only."""

    def __init__(self, columns: Sequence[str], names: Names, before: Mapping[int, SlurmJob] | None = None) -> None:
        self._columns = columns
        self._names = names
        self._before = before or {}
        self.lines: dict[int, SlurmJob] = {}
        """What each line said, by its hash: one that is printed again as it was need not be read again."""
        self._rest = b""
        self._known: dict[str, str] = {}
        self._is_any = False
        self._example = ""
        self.unread = 0
        """Lines that are no job's; steps are none."""
        self.problem = ""
        """Why this is no answer at all."""

    def feed(self, piece: bytes) -> list[SlurmJob]:
        """Return the jobs of the lines that end in this piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE_MOST:
            self._rest = self._rest[:_LINE_MOST]
        return self._read(lines)

    def end(self) -> list[SlurmJob]:
        """Return what is left, after the last piece."""
        rest, self._rest = self._rest, b""
        jobs = self._read([rest])
        if self.unread and not self._is_any:
            self.problem = f"{self.unread} lines, and none is a job's: {self._example!r}"
        return jobs

    def _read(self, lines: Sequence[bytes]) -> list[SlurmJob]:
        jobs = []
        for line in lines:
            if not line.strip():
                continue
            key = hash(line)
            job = self._before.get(key) or self._job(line.decode("utf-8", "replace"))
            if job is not None:
                self.lines[key] = job
                jobs.append(job)
        self._is_any |= bool(jobs)
        return jobs

    def _job(self, line: str) -> SlurmJob | None:
        values = line.split(SEPARATOR, len(self._columns) - 1)
        said: dict[str, object] = dict(zip(self._columns, values, strict=False))
        said |= {name: self._known.setdefault(word, word) for name in SHARED if (word := str(said.get(name, "")))}
        printed = str(said.pop("printed", ""))
        if _STEP.match(printed):
            return None
        shape = _PRINTED.fullmatch(printed)
        if shape is None or len(values) < len(self._columns):
            self._strange(line)
            return None
        if shape["task"] is not None:
            said |= {"array_id": shape["first"], "array_task": shape["task"]}
        if shape["offset"] is not None:
            said |= {"het_leader": shape["first"], "het_offset": shape["offset"]}
        job = job_of(said, self._names)
        if job is None:
            self._strange(line)
        return job

    def _strange(self, line: str) -> None:
        self.unread += 1
        self._example = line[:80]
