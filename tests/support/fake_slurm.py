"""Commands in the place of squeue and sacct that fail in all the ways Slurm may; else they print what they are told."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCRIPT = """#!/bin/sh
cd '{folder}'
echo "$$ {name} $*" >> calls
case "$(cat mode)" in
hang) echo $$ >> hung; sleep 3600 & echo $! >> hung; wait ;;
fail) echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1 ;;
garbage) head -c 300000 /dev/urandom ;;
flood)
  case "$*" in
  *--json*) echo $$ >> hung; exec tr '\\0' x < /dev/zero ;;
  *) if [ -e /proc/$(tail -1 hung) ]; then touch two-at-once; fi; cat squeue.txt ;;
  esac ;;
no-controller) echo '{{"jobs": [], "errors": [{{"source": "slurm_load_jobs", "error": "Unspecified error"}}]}}' ;;
cut) head -c 100 squeue.json ;;
*)
  case "{name} $*" in
  sacct*) cat sacct.txt ;;
  *--json*) if [ -e squeue.json ]; then cat squeue.json; else echo "unrecognized option '--json'" >&2; exit 1; fi ;;
  *--Format*) if [ -e squeue.txt ]; then cat squeue.txt; else echo "Invalid job format specification" >&2; exit 1; fi ;;
  *) cat squeue.old ;;
  esac ;;
esac
"""


@dataclass
class FakeSlurm:
    """A folder with both commands."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        for name in ("squeue", "sacct"):
            path = self.folder / name
            path.write_text(_SCRIPT.format(folder=self.folder, name=name))
            path.chmod(0o755)
        self.does("well")
        self.accounts()
        (self.folder / "squeue.old").write_text("")

    def does(self, mode: str) -> None:
        """Be well, hang, fail, print garbage or half an answer, or be missing."""
        self._replace("mode", mode)
        here, away = self.folder / "squeue", self.folder / "squeue.away"
        if mode == "missing":
            here.rename(away)
        elif away.exists():
            away.rename(here)

    def shows(self, *jobs: dict[str, Any]) -> None:
        """Print these as `squeue --json` does."""
        self._replace("squeue.json", json.dumps({"meta": {}, "errors": [], "jobs": jobs}))

    def prints(self, *lines: str) -> None:
        """Print these as squeue does where text is wanted."""
        self._replace("squeue.txt", "".join(f"{line}\n" for line in lines))

    def prints_of_old(self, *lines: str) -> None:
        """Print these as an old squeue does, which knows only short columns."""
        self._replace("squeue.old", "".join(f"{line}\n" for line in lines))

    def accounts(self, *lines: str) -> None:
        """Print these as sacct does."""
        self._replace("sacct.txt", "".join(f"{line}\n" for line in lines))

    def section(self, **settings: object) -> str:
        """Return a section of the agent's configuration."""
        said = {"squeue": str(self.folder / "squeue"), "sacct": str(self.folder / "sacct"), "period_seconds": 1}
        return "[slurm]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in (said | settings).items())

    def calls(self, name: str) -> list[str]:
        """Return what a command was called with."""
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line.split(" ", 2)[2] for line in lines if line.split(" ")[1] == name]

    def hung(self) -> list[int]:
        """Return the processes that hung."""
        return (
            [int(line) for line in (self.folder / "hung").read_text().split()]
            if (self.folder / "hung").exists()
            else []
        )

    def _replace(self, name: str, content: str) -> None:
        (self.folder / "new").write_text(content)
        (self.folder / "new").replace(self.folder / name)
