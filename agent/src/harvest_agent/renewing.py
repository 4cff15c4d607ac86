"""Has the certificate renewed in time, by children that end again; aggregators are connected anew with new files."""

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

from harvest_agent.config import Config, JoinSettings
from harvest_agent.logs import say
from harvest_agent.timing import BackOff

_CHILD: Final = "harvest_agent.joining.looking"
_CHILD_SECONDS: Final = 180.0
_FIRST_SECONDS: Final = 5.0
_USUAL_SECONDS: Final = 3600.0


class Renewal:
    """A thread that looks at the site's CA from time to time."""

    def __init__(self, settings: JoinSettings, folder: str) -> None:
        self._asked = json.dumps({"address": settings.address, "folder": folder})
        self._stopped = threading.Event()
        self._troubles = BackOff(first_seconds=10.0, most_seconds=_USUAL_SECONDS)
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)

    @classmethod
    def of(cls, config: Config) -> "Renewal | None":
        """Return the renewal that a configuration wants, if any."""
        return None if config.join is None else cls(config.join, os.path.dirname(config.uplinks[0].cert))

    def start(self) -> None:
        """Begin, not in step with other agents."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing any more; what a child has begun it finishes, or leaves as it was."""
        self._stopped.set()

    def problems(self) -> list[str]:
        """Return what is wrong, for a person."""
        return [] if self._problem is None else [self._problem]

    def _run(self) -> None:
        wait = _FIRST_SECONDS * random.random()  # noqa: S311 - only spreads agents
        while not self._stopped.wait(wait):
            wait = self._looked(random.random())  # noqa: S311

    def _looked(self, chance: float) -> float:
        """Look once; return how long to wait. Nothing ends the thread, or the certificate would end unnoticed."""
        try:
            return self._taken(self._look(), chance)
        except Exception as error:  # noqa: BLE001 - a bug, or a log that cannot be written
            self._problem = f"what renews the certificate failed: {type(error).__name__}: {error}"
            return self._troubles.seconds(chance)

    def _taken(self, said: Mapping[str, Any], chance: float) -> float:
        """Take in what a child says; return how long to wait."""
        for event in said.get("events", ()):
            say(**event)
        self._problem = said.get("problem")
        usual = float(said.get("wait_seconds", _USUAL_SECONDS))
        if self._problem is None:
            self._troubles.succeeded()
            return usual
        return min(usual, self._troubles.seconds(chance))

    def _look(self) -> Mapping[str, Any]:
        command = [sys.executable, "-m", _CHILD]
        try:
            child = subprocess.run(  # noqa: S603 - ourselves
                command, input=self._asked.encode(), capture_output=True, timeout=_CHILD_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            return {"problem": f"the certificate cannot be renewed: {error}"}
        if child.returncode:
            last = child.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
            return {"problem": f"the certificate cannot be renewed: {last[-1]}"}
        try:
            said: Mapping[str, Any] = json.loads(child.stdout)
        except ValueError:
            return {"problem": "the certificate cannot be renewed: what was to do it said nothing"}
        return said
