"""The source ``pyslurm``: a child of its own interpreter for each question, which prints JSON lines."""

import os
from collections.abc import Iterator, Sequence
from typing import Final

from harvest_agent.config import SlurmSettings
from harvest_agent.slurm.children import Children
from harvest_agent.slurm.commands import environment_of
from harvest_agent.slurm.sources import read
from harvest_core.slurm.answers import LineJobs
from harvest_core.slurm.jobs import Names, SlurmJob

_CHILD: Final = os.path.join(os.path.dirname(__file__), "pyslurm_child.py")


class Pyslurm:
    """Asks by pyslurm, old or new, in a child: it may end the interpreter, or hang."""

    asked_most = 1000

    def __init__(self, settings: SlurmSettings, names: Names) -> None:
        self._names = names
        self._command = (settings.interpreter, "-I", _CHILD)
        self._children = Children(environment_of(settings, os.environ), settings.limit_seconds)
        self.unread = 0

    def stop(self) -> None:
        """End what is under way."""
        self._children.stop()

    def jobs(self) -> Iterator[list[SlurmJob]]:
        """Yield all that slurmctld has."""
        return self._read()

    def accounted(self, numbers: Sequence[int]) -> list[SlurmJob]:
        """Return these jobs' latest runs: pyslurm shows no others."""
        return [job for jobs in self._read(*map(str, numbers)) for job in jobs]

    def _read(self, *arguments: str) -> Iterator[list[SlurmJob]]:
        reader = LineJobs(self._names)
        yield from read(self._children.output([*self._command, *arguments]), reader)
        self.unread = reader.unread
