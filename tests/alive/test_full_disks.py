"""A full disk under the spool or the ledger: nothing is acknowledged that is not safe, and totals stay exact."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alive.scenes import closed, opened, run, wrong
from demo.play import settings

AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "-n"]


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[None]:
    """Put a small disk of its own under a folder."""
    path.mkdir(parents=True, exist_ok=True)
    options = f"size={megabytes}m,mode=0700,uid={os.geteuid()}"
    subprocess.run([*AS_ROOT, "mount", "-t", "tmpfs", "-o", options, "harvest-test", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(path)], check=True)


class Filler:
    """A file that takes all the room there is."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "filler"

    def fill(self) -> None:
        """Leave nothing."""
        with self._path.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def free(self) -> None:
        """Give it back."""
        self._path.unlink()


def test_a_full_disk_under_the_spool_for_less_than_an_eviction_interval(tmp_path: Path) -> None:
    """Sweeps that could not be kept are counted, and a full picture follows: no life ended meanwhile."""
    spool = tmp_path / "agents" / "oss2" / "spool"
    with small_disk(spool, 4):
        filler = Filler(spool)
        play = opened(tmp_path, seconds=12, simulated=settings(event_seconds=0))
        try:
            run(play, (4.0, filler.fill), (6.0, filler.free))

            assert wrong(play) == []
            servers = {server["name"]: server for server in play.installation.get("/api/v1/servers")["servers"]}
            assert servers["oss2"]["lost_sweeps"] > 0
        finally:
            closed(play)


def test_a_full_disk_under_the_ledger_keeps_everything_in_the_spools(tmp_path: Path) -> None:
    data = tmp_path / "aggregator"
    with small_disk(data, 16):
        filler = Filler(data)
        play = opened(tmp_path, seconds=20)
        reasons = []
        try:

            def ask() -> None:
                reasons.append(play.installation.is_ready())

            run(play, (5.0, filler.fill), (11.0, ask), (12.0, filler.free))

            assert reasons == [False], "/readyz says that nothing is durable"
            assert play.installation.is_ready()
            assert wrong(play) == []
        finally:
            closed(play)
