"""A full disk under the spool or the ledger: nothing is acknowledged that is not safe, and totals stay exact."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alive.scenes import closed, opened, run, wrong
from demo.play import CLEANUP_SECONDS, Play, settings

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


def full(play: Play, fillers: dict[str, Filler], is_over: Callable[[], bool]) -> None:
    """Let disks under spools be full until something is so; what agents read meanwhile is not kept."""
    for server, filler in fillers.items():
        filler.fill()
        play.live.face.reader_keeps_nothing(server)
    play.installation.wait_for(is_over, "the disks to have been full for long enough", meanwhile=play.step)
    for server, filler in fillers.items():
        filler.free()
        play.live.face.reader_keeps_again(server)


def test_a_full_disk_under_the_spool_for_less_than_an_eviction_interval(tmp_path: Path) -> None:
    """Sweeps that could not be kept are counted, and a full picture follows: no life ended meanwhile."""
    spool = tmp_path / "agents" / "oss2" / "spool"
    with small_disk(spool, 4):
        play = opened(tmp_path, seconds=12, simulated=settings(event_seconds=0))
        log = play.installation.agents["oss2"].log
        try:
            run(play, (4.0, lambda: full(play, {"oss2": Filler(spool)}, lambda: "sweeps were lost" in log.read_text())))

            assert wrong(play) == []
            servers = {server["name"]: server for server in play.installation.get("/api/v1/servers")["servers"]}
            assert servers["oss2"]["lost_sweeps"] > 0
        finally:
            closed(play)


def test_a_full_disk_under_the_spool_for_longer_than_an_eviction_interval(tmp_path: Path) -> None:
    """Lives that ended meanwhile have what was kept of them, which is told; all that is shown later is exact."""
    servers = ("oss1", "oss2")
    spools = [tmp_path / "agents" / server / "spool" for server in servers]
    with small_disk(spools[0], 4), small_disk(spools[1], 4):
        fillers = {server: Filler(spool) for server, spool in zip(servers, spools, strict=True)}
        play = opened(tmp_path, seconds=23, simulated=settings(event_seconds=0))

        def full_for_long() -> None:
            end_seconds = play.live.elapsed_seconds + 3 * CLEANUP_SECONDS
            full(play, fillers, lambda: play.live.elapsed_seconds >= end_seconds)

        try:
            run(play, (5.0, full_for_long))

            assert wrong(play) == []
            seconds = {
                target["name"]: target["unseen_seconds"]
                for target in play.installation.get("/api/v1/targets")["targets"]
                if target["name"] in {"scratch-OST0000", "scratch-OST0001"}  # theirs, and with the short interval
            }
            short = jobs_that_did_more_than_was_kept(play)
            print(f"\nfull disk: unseen {seconds}; not whole: {sorted(short)}")
            assert min(seconds.values()) >= 2 * CLEANUP_SECONDS - 3  # less what a tick and the filling take
            assert short, "lives that were known ended with something that was not kept"
            assert short <= {job["job"] for job in play.installation.jobs() if not job["complete"]}
            for server in servers:
                log = (tmp_path / f"{server}.log").read_text()
                begun_anew = log.count("incarnation reason=")
                assert begun_anew <= 1  # only if a sweep was lost halfway
                assert log.count("uplink.connected") == 1 + begun_anew
        finally:
            closed(play)


def jobs_that_did_more_than_was_kept(play: Play) -> set[str]:
    """Return those of which something else was kept on the same target: others nobody can name."""
    truth = play.live.site.truth
    known = {(life.scope.target, life.key) for life in truth.select() if life.shown}
    return {life.key.decode() for life in truth.unshown() if (life.scope.target, life.key) in known}


def test_a_full_disk_under_the_ledger_keeps_everything_in_the_spools(tmp_path: Path) -> None:
    data = tmp_path / "aggregator"
    with small_disk(data, 16):
        filler = Filler(data)
        play = opened(tmp_path, seconds=20)
        here = play.installation
        try:

            def fill() -> None:
                filler.fill()
                here.wait_for(
                    lambda: not here.is_ready(), "/readyz to say that nothing is durable", meanwhile=play.step
                )

            run(play, (5.0, fill), (12.0, filler.free))

            here.wait_for(here.is_ready, "/readyz to say that there is room again", meanwhile=play.step)
            assert wrong(play) == []
        finally:
            closed(play)
