"""An object server's files as Lustre 2.15.8 prints them, always the same for the same arguments.

Every operation of every job has counted something, which is the worst case for a reader. This text is the
bench's own and not the simulator's, so that figures of different years tell of the same input.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

FSNAME = "bench"
OSTS = 8
OPS = (
    *("read_bytes", "write_bytes", "read", "write", "getattr", "setattr", "punch", "sync"),
    *("destroy", "create", "statfs", "get_info", "set_info", "quotactl", "prealloc"),
)
_MOVING = frozenset({"read_bytes", "write_bytes", "read", "write", "getattr", "punch"})
_CLIENT_OPS = ("read_bytes", "write_bytes", "read", "write", "sync", "create", "statfs", "get_info")
"""What a client that reads and writes shows on a real server."""
Counted = Mapping[tuple[str, str], tuple[int, int]]
"""By operation and unit: how often it was done, and its sum."""
_FIRST_SECOND = 1_700_000_000
_SWEEP_SECONDS = 10
_FIRST_JOB = 1_200_000

_RECORD = (
    b"- job_id:          %d\n"
    b"  snapshot_time:   %d.%09d secs.nsecs\n"
    b"  start_time:      %d.%09d secs.nsecs\n"
    b"  elapsed_time:    %d.%09d secs.nsecs\n"
) + b"".join(
    b"  %-16s { samples: %%11d, unit: %s, min: %%8d, max: %%8d, sum: %%16d, sumsq: %%18d }\n"
    % (op.encode() + b":", unit)
    for op in OPS
    for unit in [b"bytes" if op.endswith("_bytes") else b"usecs"]
)


class JobTree:
    """The job_stats files of an object server with as many jobs on each target."""

    def __init__(self, root: Path, jobs: int) -> None:
        self.files = [folder / "job_stats" for folder in _targets(root)]
        self.records = OSTS * jobs
        self._moves = [0] * jobs
        self._write()

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(path.stat().st_size for path in self.files)

    def move(self, one_in: int) -> int:
        """Let every n-th job work, or none for 0; return how many records that changes."""
        if not one_in:
            return 0
        for job in range(0, len(self._moves), one_in):
            self._moves[job] += 1
        self._write()
        return OSTS * len(range(0, len(self._moves), one_in))

    def counted(self, ost: int) -> Iterator[tuple[bytes, Counted]]:
        """Yield every job of a target with what its record says."""
        for job, moves in enumerate(self._moves):
            samples = [_job_samples(ost, job, number, moves) for number in range(len(OPS))]
            yield b"%d" % (_FIRST_JOB + job), _counted(OPS, samples)

    def _write(self) -> None:
        """Write every file anew; who reads one meanwhile sees all of the old one or all of the new one."""
        for ost, path in enumerate(self.files):
            draft = path.with_name("draft")
            with draft.open("wb") as file:
                file.write(b"job_stats:\n")
                file.writelines(_record(ost, job, moves) for job, moves in enumerate(self._moves))
            draft.replace(path)


class ClientTree:
    """What an object server shows of as many clients on each target; the folders of all are made once."""

    def __init__(self, root: Path, clients: int) -> None:
        self._targets = list(_targets(root))
        self._folders = [f"10.{nid >> 16}.{nid >> 8 & 255}.{nid & 255}@o2ib" for nid in range(clients)]
        self._moves = [0] * clients
        self._target_moves = 0
        self.clients = OSTS * clients
        for ost, target in enumerate(self._targets):
            (target / "job_stats").write_bytes(b"job_stats:\n")
            (target / "instance").write_bytes(b"7\n")
            (target / "exports").mkdir()
            for client, nid in enumerate(self._folders):
                folder = f"{target}/exports/{nid}"
                os.mkdir(folder)  # noqa: PTH102 (as in _put)
                _put(f"{folder}/uuid", b"5e1e8f6c-0b5d-4c3a-9d9f-%04x%08x\n" % (ost, client))
        self._write()
        self.move_targets()

    def move(self, one_in: int = 1) -> None:
        """Let every client, or every n-th, read and write on every target, which counts it, too."""
        for client in range(0, len(self._moves), one_in):
            self._moves[client] += 1
        self._write(one_in)
        self.move_targets()

    def counted(self, ost: int) -> Iterator[tuple[bytes, Counted]]:
        """Yield every client of a target, by its NID, with what its file says."""
        for client, (nid, moves) in enumerate(zip(self._folders, self._moves, strict=True)):
            first = _client_samples(ost, client, moves)
            yield nid.encode(), _counted(_CLIENT_OPS, range(first, first + len(_CLIENT_OPS)))

    def move_targets(self) -> None:
        """Let the targets count what none of these clients did."""
        self._target_moves += 1
        for target in self._targets:
            _put(f"{target}/stats", _stats(_FIRST_SECOND, 0, self._target_moves))

    def _write(self, one_in: int = 1) -> None:
        for ost, target in enumerate(self._targets):
            for client in range(0, len(self._folders), one_in):
                moves = self._moves[client]
                seconds = _FIRST_SECOND + 418_061 + moves * _SWEEP_SECONDS
                stats = _stats(seconds, client * 7919 + ost, _client_samples(ost, client, moves))
                _put(f"{target}/exports/{self._folders[client]}/stats", stats)


def _targets(root: Path) -> Iterator[Path]:
    for ost in range(OSTS):
        folder = root / "proc/fs/lustre/obdfilter" / f"{FSNAME}-OST{ost:04x}"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _record(ost: int, job: int, moves: int) -> bytes:
    """Return a job's record after so many moves: six operations and the snapshot time differ in each."""
    elapsed = 3600 + job % 7200 + moves * _SWEEP_SECONDS
    born = (job * 7919 + ost * 104_729) % 500_000_000
    nanoseconds = born + moves * 15_485_863 % 500_000_000
    numbers: list[int] = []
    for number, op in enumerate(OPS):
        numbers += _values(op, _job_samples(ost, job, number, moves))
    snapshot = _FIRST_SECOND + moves * _SWEEP_SECONDS
    times = (snapshot, nanoseconds, snapshot - elapsed, born, elapsed, nanoseconds - born)
    return _RECORD % (_FIRST_JOB + job, *times, *numbers)


def _job_samples(ost: int, job: int, number: int, moves: int) -> int:
    """Return how often a job has done an operation, by its number."""
    return 1000 + job * 7 + ost * 13 + number * 101 + (moves * 3 if OPS[number] in _MOVING else 0)


def _client_samples(ost: int, client: int, moves: int) -> int:
    """Return how often a client has done the first operation; of each other one more."""
    return 81_647 + client * 17 + ost * 13 + moves * 3


def _stats(seconds: int, nanoseconds: int, samples: int) -> bytes:
    times = ((b"snapshot_time", seconds), (b"start_time", _FIRST_SECOND), (b"elapsed_time", seconds - _FIRST_SECOND))
    lines = [b"%-25s %d.%09d secs.nsecs\n" % (name, when, nanoseconds) for name, when in times]
    for number, op in enumerate(_CLIENT_OPS):
        values = _values(op, samples + number)
        lines.append(b"%-25s %d samples [%s] %d %d %d %d\n" % (op.encode(), values[0], _unit(op).encode(), *values[1:]))
    return b"".join(lines)


def _counted(ops: Sequence[str], samples: Iterable[int]) -> Counted:
    values = [_values(op, count) for op, count in zip(ops, samples, strict=True)]
    return {(op, _unit(op)): (one[0], one[3]) for op, one in zip(ops, values, strict=True)}


def _unit(op: str) -> str:
    return "bytes" if op.endswith("_bytes") else "usecs"


def _put(path: str, text: bytes) -> None:
    """Write a file in a third of pathlib's time: there are hundreds of thousands. Nobody ever sees half of one."""
    handle = os.open(f"{path}.draft", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(handle, text)
    os.close(handle)
    os.rename(f"{path}.draft", path)  # noqa: PTH104 (as above)


def _values(op: str, samples: int) -> tuple[int, int, int, int, int]:
    """Return samples, min, max, sum and sum of squares as they are for transfers of 1 MiB or calls of 415 µs."""
    if op.endswith("_bytes"):
        return samples, 4096, 1 << 20, samples << 20, (samples << 40) % (1 << 63)
    return samples, 3, 9117, samples * 415, samples * 415 * 415
