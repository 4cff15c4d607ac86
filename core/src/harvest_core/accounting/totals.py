"""From records to jobs: sums over lives, mounts and targets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import Integers

Counter = tuple[str, str]
"""(name, unit)."""

READ, WRITE = "read_bytes", "write_bytes"
_OLD_DATA = {("read", "bytes"): READ, ("write", "bytes"): WRITE}
"""Up to 2.5 the counters of bytes had the names that are latencies from 2.14 on."""
_NO_OPERATIONS = {
    *("read", "write"),  # RPCs of the bytes that are counted beside them
    *("samedir_rename", "crossdir_rename", "parallel_rename_file", "parallel_rename_dir", "rename_trylocks"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWork:
    """What one job did on one kind of target of a file system."""

    counters: Mapping[Counter, tuple[int, int]]
    """(samples, sum) of every counter."""

    @property
    def read_bytes(self) -> int:
        """Bytes read."""
        return self._data(READ)

    @property
    def write_bytes(self) -> int:
        """Bytes written."""
        return self._data(WRITE)

    @property
    def iops(self) -> int:
        """Operations: all but data, its RPCs, and the parts of renames."""
        return sum(
            samples
            for (name, unit), (samples, _) in self.counters.items()
            if unit != "bytes" and name not in _NO_OPERATIONS and name not in {READ, WRITE}
        )

    def _data(self, name: str) -> int:
        return sum(
            total
            for (counter, unit), (_, total) in self.counters.items()
            if unit == "bytes" and _OLD_DATA.get((counter, unit), counter) == name
        )


def job_totals(stays: Iterable[Stay]) -> dict[bytes, JobWork]:
    """Add up what every job did in the given stays: those of one kind of target of one file system."""
    sums: dict[bytes, dict[Counter, tuple[int, int]]] = {}
    for stay in stays:
        for _, mount in stay.mounts:
            names = list(mount.counters)
            for row, job in enumerate(mount.jobs):
                _add(sums.setdefault(job, {}), names, mount.total(row))
    return {job: JobWork(counters=counters) for job, counters in sums.items()}


def _add(into: dict[Counter, tuple[int, int]], names: list[Counter], values: Integers) -> None:
    for column in np.flatnonzero(values.any(axis=1)):
        samples, total = into.get(names[column], (0, 0))
        into[names[column]] = (samples + int(values[column, 0]), total + int(values[column, 1]))
