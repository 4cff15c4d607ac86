"""What streams hand over, and what they need of whoever keeps it."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from harvest.v1.stream_pb2 import Batch, JobQuestion, JobTable, MountedTarget

Raw = bytes | memoryview
"""A batch as it came; large, so never copied."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One or more whole sweeps of one incarnation, in order; the last one's end comes last."""

    agent: str
    incarnation: bytes
    seq: int
    """Of the last sweep."""
    batches: tuple[tuple[Raw, Batch], ...]
    """Each as it came, and read."""


class Keeping(Protocol):
    """The keeper, as streams see it; a future may fail with a LedgerError."""

    def resume(self, agent: str, incarnations: Sequence[bytes]) -> Future[dict[bytes, int]]:
        """Return the last durable seq of each incarnation."""

    def accept(self, delivery: Delivery) -> Future[None]:
        """Make a delivery durable."""

    def needs_full_picture(self, agent: str) -> bool:
        """Tell whether something came that cannot be placed without one."""

    def learn_jobs(self, cluster: str, table: JobTable) -> Future[None]:
        """Take in what a cluster's Slurm says."""

    def job_question(self, agent: str) -> JobQuestion | None:
        """Return what an agent's Slurm should be asked, once."""

    def connected(self, agent: str, targets: Sequence[MountedTarget]) -> None:
        """Note that an agent is here, and what it reports."""

    def disconnected(self, agent: str) -> None:
        """Note that an agent is gone."""
