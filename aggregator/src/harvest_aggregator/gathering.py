"""The batches of one stream, put together to whole sweeps. Pure."""

from dataclasses import dataclass

from harvest.v1.stream_pb2 import Batch, MountedTarget
from harvest_aggregator.deliveries import Raw
from harvest_aggregator.limits import SWEEP_BYTES_MAX
from harvest_aggregator.refusals import NonsenseError
from harvest_aggregator.requests import INCARNATION_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All that an agent said of one sweep: each batch as it came, and read."""

    incarnation: bytes
    seq: int
    batches: tuple[tuple[Raw, Batch], ...]
    size_bytes: int

    @property
    def targets(self) -> tuple[MountedTarget, ...]:
        """The targets that the agent sees now."""
        return tuple(self.batches[-1][1].end.targets)


class Gathering:
    """What came of the sweep that is on its way."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """Of the batches that were wanted."""
        self._came_bytes = 0
        self._batches: list[tuple[Raw, Batch]] = []
        self._sweep: tuple[bytes, int] | None = None
        self._sweep_before = (b"", 0)
        self._target: tuple[str, bool, bytes] | None = None
        """Its name, whether this is of its clients, and the mount."""
        self._targets: set[tuple[str, bool]] = set()
        self._parts = 0

    @property
    def begun(self) -> bool:
        """Tell whether a part of a sweep is here."""
        return self._sweep is not None

    def add(self, raw: Raw, batch: Batch, *, wanted: bool) -> Sweep | None:
        """Take the next batch and return the sweep that it ends; what is not wanted is checked and left out."""
        self._check_sweep(batch)
        self._came_bytes += len(raw)
        if wanted:
            self._batches.append((raw, batch))
            self.size_bytes += len(raw)
        if self._came_bytes > SWEEP_BYTES_MAX:
            raise NonsenseError(f"sweep {batch.seq} has more than {SWEEP_BYTES_MAX >> 20} MiB")
        if not batch.last_of_sweep:
            self._check_part(batch)
            return None
        return self._end(batch)

    def _check_sweep(self, batch: Batch) -> None:
        sweep = (batch.incarnation, batch.seq)
        if self._sweep is None:
            if len(batch.incarnation) != INCARNATION_BYTES or not batch.seq:
                raise NonsenseError("a batch must say its incarnation (16 bytes) and its seq (from 1 on)")
            incarnation, seq = self._sweep_before
            if batch.incarnation == incarnation and batch.seq <= seq:
                raise NonsenseError(f"sweep {batch.seq} came after sweep {seq}")
            self._sweep = sweep
        if sweep != self._sweep:
            raise NonsenseError(f"sweep {self._sweep[1]} has no end: a batch of sweep {batch.seq} followed")

    def _check_part(self, batch: Batch) -> None:
        target = (batch.target.name, batch.HasField("exports"), batch.mount.SerializeToString())
        if not batch.target.name:
            raise NonsenseError(f"a batch of sweep {batch.seq} has no target")
        if self._target is None:
            if target[:2] in self._targets:
                raise NonsenseError(f"sweep {batch.seq} has {batch.target.name} twice")
            self._target = target
            self._targets.add(target[:2])
        if target != self._target:
            raise NonsenseError(f"the read of {self._target[0]} in sweep {batch.seq} has no end")
        if batch.part != self._parts:
            raise NonsenseError(f"part {batch.part} of {batch.target.name} in sweep {batch.seq} came as {self._parts}")
        self._parts += 1
        if batch.last_of_target:
            self._target, self._parts = None, 0

    def _end(self, batch: Batch) -> Sweep:
        if batch.HasField("target") or self._target is not None:
            raise NonsenseError(
                f"sweep {batch.seq} must end after its targets' last parts, with a batch without target"
            )
        sweep = Sweep(
            incarnation=batch.incarnation, seq=batch.seq, batches=tuple(self._batches), size_bytes=self.size_bytes
        )
        self._sweep_before = (batch.incarnation, batch.seq)
        self._sweep, self._batches, self.size_bytes, self._came_bytes = None, [], 0, 0
        self._targets.clear()
        return sweep
