"""A simulated Lustre that is busy by itself, and can be held still to compare what it did."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harvest_sim.live import Live, World
from harvest_sim.settings import Settings
from harvest_sim.truth import Truth

OSS: Final = {"oss1": "2.16.1"}
MDS: Final = {"mds1": "2.15.8"}
_TICK_SECONDS: Final = 0.05
_HOURS: Final = 3600.0


class BusyLustre:
    """Servers below one folder; a thread lets their time pass."""

    def __init__(self, root: Path) -> None:
        simulated = Settings(oss=OSS, mds=MDS, fsnames=("scratch",), provable=True, event_seconds=0)
        world = World(
            seconds=time.monotonic,
            epoch_seconds=int(time.time()),
            sleep=time.sleep,
            say=lambda _: None,
            is_stopped=lambda: False,
            is_report_wanted=lambda: False,
        )
        self.root = root
        self._live = Live(simulated, root=root, for_seconds=_HOURS, world=world)
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def held(self) -> Iterator[Truth]:
        """Let nothing happen meanwhile but that agents read; give what they were shown until now."""
        with self._lock:
            self._live.step()
            self._live.is_held = True
        try:
            yield self._live.site.truth
        finally:
            with self._lock:
                self._live.step()
                self._live.is_held = False

    def notice(self) -> None:
        """Take notice of all that was read."""
        assert self._thread.is_alive(), "the simulation has ended: see above"
        with self._lock:
            self._live.face.poll()

    def stop(self) -> None:
        """End it."""
        self._is_over.set()
        self._thread.join()
        self._live.face.close()

    def _run(self) -> None:
        while not self._is_over.wait(_TICK_SECONDS):
            with self._lock:
                self._live.step()
