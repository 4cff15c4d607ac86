"""The source ``command``: squeue for what slurmctld has, sacct for what it has forgotten."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.children import Children
from harvest_agent.slurm.sources import Reader, SlurmError, TooSlowError, read
from harvest_core.slurm.answers import JsonJobs
from harvest_core.slurm.jobs import Names, SlurmJob
from harvest_core.slurm.texts import OLD_SQUEUE, SACCT, SEPARATOR, SQUEUE, TextJobs

_JSON_MOST: Final = 5000
"""Jobs, above which text is asked for: JSON also has flags, and costs everybody thirty times as much."""
_ALL: Final = ("--all", "--states=all")
_LONG: Final = ",".join(f"{column}:0{SEPARATOR}" for column in SQUEUE).removesuffix(SEPARATOR)  # 0: as wide as it is
_FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "json": ("--json",),
    "text": ("--noheader", f"--Format={_LONG}"),
    "old text": ("--noheader", f"--format={SEPARATOR.join(OLD_SQUEUE)}"),
}
"""What squeue can print, the best first; not every version can do all."""
_SACCT: Final = (
    "--allusers",
    "--allocations",  # no steps
    "--duplicates",  # every run of a job that was requeued
    "--noheader",
    "--parsable2",
    f"--format={','.join(SACCT)}",
)
_NO_CONTROLLER: Final = "slurm_load_jobs"
"""What squeue names when slurmctld did not answer: in its complaint, or among the errors of its JSON."""
_NO_ACCOUNTING: Final = "accounting storage is disabled"
_OURS: Final = ("SQUEUE_", "SACCT_", "SLURM_")


def environment_of(settings: SlurmSettings, own: Mapping[str, str]) -> dict[str, str]:
    """Return what commands may know: no format or filter that somebody has set for people, no federation."""
    kept = {name: value for name, value in own.items() if not name.startswith(_OURS) or name == "SLURM_CONF"}
    if settings.slurm_conf:
        kept["SLURM_CONF"] = settings.slurm_conf
    return kept | {"SLURM_TIME_FORMAT": "%s", "SQUEUE_LOCAL": "1", "LC_ALL": "C"}


class Commands:
    """Asks by commands. What squeue can print is found out once, by trying, as soon as there is a job."""

    asked_most = 1000

    def __init__(self, settings: SlurmSettings, names: Names) -> None:
        self._names = names
        self._squeue = settings.squeue or "squeue"
        self._sacct = settings.sacct or "sacct"
        self._children = Children(environment_of(settings, os.environ), settings.limit_seconds)
        self._forms = tuple(_FORMS)
        self._lines: Mapping[int, SlurmJob] = {}
        self.unread = 0

    def stop(self) -> None:
        """End what is under way."""
        self._children.stop()

    def jobs(self) -> Iterator[list[SlurmJob]]:
        """Yield all that slurmctld has. It is asked once: other forms are tried where squeue cannot print the first."""
        problem = None
        for form in self._forms:
            count = 0
            try:
                for jobs in self._printed(form):
                    count += len(jobs)
                    yield jobs
            except TooSlowError:
                self._forms = _after(form)  # there may be too many jobs for this one
                raise
            except SlurmError as error:
                if _NO_CONTROLLER in str(error):
                    raise
                problem = error
                continue
            if count:
                self._forms = ("text", "old text") if form == "json" and count > _JSON_MOST else (form,)
            return
        raise problem or SlurmError("squeue was not asked")

    def _printed(self, form: str) -> Iterator[list[SlurmJob]]:
        columns = SQUEUE if form == "text" else OLD_SQUEUE
        text = TextJobs(tuple(columns.values()), self._names, self._lines)
        reader: Reader = JsonJobs(self._names) if form == "json" else text
        yield from read(self._children.output([_found(self._squeue), *_ALL, *_FORMS[form]]), reader)
        self.unread = reader.unread
        self._lines = text.lines

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


def _after(form: str) -> tuple[str, ...]:
    """Return the forms in the order in which to try them after this one."""
    forms = tuple(_FORMS)
    place = forms.index(form) + 1
    return (*forms[place:], *forms[:place])


def _found(command: str) -> str:
    path = shutil.which(command)
    if path is None:
        raise SlurmError(f"there is no command {command}; say in [slurm] where it is")
    return path
