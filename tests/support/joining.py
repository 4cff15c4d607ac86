"""A CA that servers join at, in a process of its own, and agents that have joined."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harvest_pki.certificates import load_certificate
from support.processes import LIMIT_SECONDS, Running, wait_for
from support.records import job_stats, put, record

SITE = """
interval: 1s
filesystems:
  - {name: fs, servers: ["oss[1-4]"]}
"""
OST0 = "proc/fs/lustre/obdfilter/fs-OST0000"


def agent(*words: str, said: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the agent."""
    return subprocess.run(
        [sys.executable, "-m", "harvest_agent", *words], capture_output=True, text=True, input=said, check=False
    )


@dataclass
class Serving:
    """``ca serve`` of the site of a running aggregator."""

    of: Running
    options: tuple[str, ...] = ()
    port: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def log(self) -> Path:
        return self.of.folder / "joining.log"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, at the same port as before, and wait until servers may join."""
        words = ["serve", "--site", str(self.of.site), "--listen", self.address, "--uplink", self.of.address]
        before = len(self.events("servers may join"))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command(*words, *self.options), stdout=log, stderr=log)
        wait_for(
            lambda: len(self.events("servers may join")) > before or self.process.poll() is not None,
            "a CA that servers join at",
        )
        assert self.process.poll() is None, self.log.read_text()
        self.port = self.events("servers may join")[-1]["port"]

    def stop(self) -> int:
        """Stop it in good order and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_SECONDS)

    def ca(self, *words: str) -> str:
        """Run another command of the CA, and return what it said."""
        return subprocess.run(self._command(*words), capture_output=True, text=True, check=True).stdout

    def tokens(self, *servers: str, lifetime: str = "1h") -> list[str]:
        """Make tokens."""
        return self.ca("token", "--lifetime", lifetime, *servers).split()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one name in the log."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [event for line in lines if line.endswith("}") and (event := json.loads(line))["event"] == name]

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "harvest_aggregator", "ca", *words, "--data", str(self.of.data)]


@dataclass
class Joined:
    """A server that joins, and its agent."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.config, self.state = self.folder / "etc/agent.toml", self.folder / "state"
        self.tls, self.log, self.root = self.state / "tls", self.folder / "agent.log", self.folder / "root"

    def join(self, address: str, token: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Join as an administrator does."""
        files = ("--config", str(self.config), "--state", str(self.state))
        return agent("join", address, "--token-file", "-", *files, *options, said=token)

    def start(self) -> None:
        """Start the agent over a small tree, in which job ``a`` wrote once."""
        put(self.root, "proc/fs/lustre/version", "lustre: 2.15.8\n")
        put(self.root, f"{OST0}/instance", "7\n")
        self.show(a=1)
        if "[lustre]" not in (text := self.config.read_text()):
            self.config.write_text(f'{text}\n[lustre]\nroot = "{self.root}"\n')
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "harvest_agent", "run", "--config", str(self.config)]
            self.process = subprocess.Popen(command, stderr=log)

    def show(self, **written: int) -> None:
        """Let jobs have written so often."""
        draft = put(self.root, "draft", job_stats(*(record(job, written=count) for job, count in written.items())))
        (self.root / OST0).mkdir(parents=True, exist_ok=True)
        draft.replace(self.root / OST0 / "job_stats")

    @property
    def serial(self) -> int:
        return load_certificate((self.tls / "tls.crt").read_bytes()).serial_number

    def said(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT_SECONDS)


@contextlib.contextmanager
def serving(of: Running, *options: str) -> Iterator[Serving]:
    """Let servers join a site; nobody can afterwards."""
    here = Serving(of, options)
    here.start()
    try:
        yield here
    finally:
        if here.process.poll() is None:
            here.process.kill()
            here.process.wait(LIMIT_SECONDS)


@contextlib.contextmanager
def started(folder: Path, at: Serving, name: str = "oss1") -> Iterator[Joined]:
    """Give a server that has joined, and whose agent runs."""
    here = Joined(folder / name)
    (token,) = at.tokens(name)
    ran = here.join(at.address, token)
    assert ran.returncode == 0, ran.stderr
    here.start()
    try:
        yield here
    finally:
        here.kill()


def server(of: Running, name: str) -> dict[str, Any]:
    """Return what an aggregator says of a server."""
    _, said = of.get("api/v1/servers")  # before its first sweep it says no servers
    return next((one for one in said.get("servers", ()) if one["name"] == name), {"connected": False})


def written(of: Running, job: str = "a") -> int:
    """Return how often a job has written, as the aggregator adds it up."""
    status, said = of.get(f"api/v1/jobs/-/{job}")
    return int(said["filesystems"]["fs"]["ost"]["write_bytes"]) >> 20 if status == 200 else 0
