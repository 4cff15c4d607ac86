"""A real aggregator in a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.uplinks import SITE, Agent, ca, issued

LIMIT_SECONDS = 60.0


def wait_for(condition: Callable[[], object], what: str, *, seconds: float = LIMIT_SECONDS) -> None:
    """Wait until something is so; fail after a limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.02)


@dataclass
class Running:
    """A process, what it logged, and where it listens."""

    folder: Path
    arguments: tuple[str, ...]
    text: str
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.data = self.folder / "data"
        self.site = self.folder / "site.yaml"
        self.log = self.folder / "log"
        self.site.write_text(self.text)
        self.ca = ca(self.data / "ca")
        self.ca.write_server(self.data / "tls", "main", now=datetime.now(UTC))

    def start(self, *, seconds: float = LIMIT_SECONDS) -> None:
        """Start it, also again after it was killed, and wait until agents may come."""
        command = [
            sys.executable,
            "-m",
            "harvest_aggregator",
            "run",
            "--site",
            str(self.site),
            "--data",
            str(self.data),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *self.arguments],
                stdout=log,
                stderr=log,
            )
        wait_for(
            lambda: self.events("agents may come") or self.process.poll() is not None,
            "the aggregator's start",
            seconds=seconds,
        )
        assert self.process.poll() is None, self.log.read_text()

    def change(self, site: str) -> None:
        """Give it another site: all of it at once, as whoever looks now must not find half of it."""
        draft = self.folder / "draft.yaml"
        draft.write_text(site)
        draft.replace(self.site)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one name in the log."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == name]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.events('agents may come')[-1]['port']}"

    @property
    def url(self) -> str:
        return str(self.events("HTTP is served")[-1]["url"])

    def get(self, path: str) -> tuple[int, Any]:
        """Ask by HTTP; return the status and what the JSON says."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=LIMIT_SECONDS) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def agent(self, name: str) -> Agent:
        """Connect an agent with a good certificate."""
        return Agent(self.address, issued(self.ca, name))

    def resident_bytes(self) -> int:
        """Return how much memory it uses now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def most_resident_bytes(self) -> int:
        """Return the most memory that it ever used."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def cpu_seconds(self) -> float:
        """Return how much it computed since its start."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Stop it in good order and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_SECONDS)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, site: str = SITE) -> Iterator[Running]:
    """Run an aggregator of a site called demo; it is gone afterwards."""
    here = Running(folder, arguments, site)
    here.start()
    try:
        yield here
    finally:
        if here.process.poll() is None:
            here.process.kill()
            here.process.wait(LIMIT_SECONDS)
