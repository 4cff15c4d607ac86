"""The source ``command``: squeue for what slurmctld has, sacct for what it has forgotten."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.children import Children
from harvest_agent.slurm.sources import Reader, SlurmError, read
from harvest_core.slurm.answers import JsonJobs
from harvest_core.slurm.jobs import Names, SlurmJob
from harvest_core.slurm.texts import SACCT, SEPARATOR, SQUEUE, TextJobs

_JSON_MOST: Final = 5000
"""Jobs, above which text is asked for: JSON says more of each, and costs everybody thirty times as much."""
_ALL: Final = ("--all", "--states=all")
_TEXT: Final = ("--noheader", f"--format={SEPARATOR.join(SQUEUE)}")
_SACCT: Final = (
    "--allusers",
    "--allocations",  # no steps
    "--duplicates",  # every run of a job that was requeued
    "--noheader",
    "--parsable2",
    f"--format={','.join(SACCT)}",
)
_NO_ACCOUNTING: Final = "accounting storage is disabled"
_OURS: Final = ("SQUEUE_", "SACCT_", "SLURM_")


def environment_of(settings: SlurmSettings, own: Mapping[str, str]) -> dict[str, str]:
    """Return what commands may know: no format or filter that somebody has set for people."""
    kept = {name: value for name, value in own.items() if not name.startswith(_OURS) or name == "SLURM_CONF"}
    if settings.slurm_conf:
        kept["SLURM_CONF"] = settings.slurm_conf
    return kept | {"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


class Commands:
    """Asks by commands. Whether squeue can print JSON is found out once, by trying."""

    asked_most = 1000

    def __init__(self, settings: SlurmSettings, names: Names) -> None:
        self._names = names
        self._squeue = settings.squeue or "squeue"
        self._sacct = settings.sacct or "sacct"
        self._children = Children(environment_of(settings, os.environ), settings.limit_seconds)
        self._prints_json: bool | None = None
        self._lines: Mapping[int, SlurmJob] = {}
        self.unread = 0

    def stop(self) -> None:
        """End what is under way."""
        self._children.stop()

    def jobs(self) -> Iterator[list[SlurmJob]]:
        """Yield all that slurmctld has."""
        if self._prints_json is False:
            yield from self._text()
            return
        try:
            yield from self._json()
        except SlurmError:
            if self._prints_json:
                raise
            yield from self._text()  # if this fails too, it was not for want of JSON
            self._prints_json = False

    def _json(self) -> Iterator[list[SlurmJob]]:
        count = 0
        for jobs in self._live("--json", reader=JsonJobs(self._names)):
            count += len(jobs)
            yield jobs
        self._prints_json = count <= _JSON_MOST

    def _text(self) -> Iterator[list[SlurmJob]]:
        reader = TextJobs(tuple(SQUEUE.values()), self._names, self._lines)
        yield from self._live(*_TEXT, reader=reader)
        self._lines = reader.lines

    def _live(self, *options: str, reader: Reader) -> Iterator[list[SlurmJob]]:
        yield from read(self._children.output([_found(self._squeue), *_ALL, *options]), reader)
        self.unread = reader.unread

    def accounted(self, numbers: Sequence[int]) -> list[SlurmJob]:
        """Return every run of these jobs. Text: sacct's JSON has no uids."""
        chosen = f"--jobs={','.join(map(str, numbers))}"
        reader = TextJobs(tuple(SACCT.values()), self._names)
        try:
            pieces = read(self._children.output([_found(self._sacct), *_SACCT, chosen]), reader)
            return [job for jobs in pieces for job in jobs]
        except SlurmError as error:
            if _NO_ACCOUNTING in str(error):
                return []
            raise


def _found(command: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise SlurmError(f"there is no command {command}; say in [slurm] where it is")
    return path
