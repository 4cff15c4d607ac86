"""Commands that the packing runs, and the folder where it keeps what takes long."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


class PackingError(Exception):
    """An image or a package cannot be made, and why."""


def cache_folder(part: str = "images") -> Path:
    """Return where layers and the like are kept, as other tools of the project do it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("HARVEST_CACHE") or Path(home) / "harvest") / part
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Let nobody else work in the folder meanwhile."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command of which only a failure is interesting; return what it printed."""
    ran = subprocess.run(  # noqa: S603 - the commands are in this package
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
    )
    if ran.returncode:
        raise PackingError(f"{Path(command[0]).name} failed:\n{ran.stdout[-2000:]}{ran.stderr[-4000:]}")
    return ran.stdout


@cache
def uv() -> str:
    """Return the path of the project's uv."""
    return run("bash", "-c", '. tools/uv.sh; need_uv; echo "$uv"').strip()


@cache
def architecture() -> str:
    """Return what Debian and container images call this machine."""
    return run("dpkg", "--print-architecture").strip()


def say(text: str) -> None:
    """Tell a person what takes time."""
    print(f"[harvest] {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command's progress
