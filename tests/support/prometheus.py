"""A real Prometheus on loopback, and its promtool."""

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.processes import free_port
from support.processes import LIMIT_SECONDS, wait_for

Labels = frozenset[tuple[str, str]]
_STOP_SECONDS = 60.0


@dataclass
class Prometheus:
    """A server that scrapes some places."""

    folder: Path
    url: str
    process: subprocess.Popen[bytes]

    def ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - whatever it says
        """Ask its API."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=LIMIT_SECONDS) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def query(self, query: str, *, at: float | None = None) -> dict[Labels, float]:
        """Return what an instant query finds."""
        when = {} if at is None else {"time": str(at)}
        found = self.ask("query", query=query, **when)["result"]
        return {frozenset(one["metric"].items()): float(one["value"][1]) for one in found}

    def samples(self, selector: str) -> dict[Labels, list[tuple[float, float]]]:
        """Return everything that it ever scraped of some series."""
        found = self.ask("query", query=f"{selector}[1h]")["result"]
        return {
            frozenset(one["metric"].items()): [(float(at), float(value)) for at, value in one["values"]]
            for one in found
        }

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=LIMIT_SECONDS):  # noqa: S310
                return True
        except urllib.error.URLError:
            return False

    def is_scraping(self) -> bool:
        """Tell whether its last scrapes all went well."""
        active = self.ask("targets")["activeTargets"]
        return bool(active) and all(one["health"] == "up" for one in active)


@contextlib.contextmanager
def scraping(
    folder: Path, *places: str, seconds: float = 1.0, timeout_seconds: float = 10.0, rules: Sequence[Path] = ()
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes addresses (host:port/path), and evaluates files of rules as often."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        {
            "job_name": f"place{number}",
            "metrics_path": "/" + path,
            "honor_labels": True,
            "static_configs": [{"targets": [host]}],
        }
        for number, (host, _, path) in enumerate(place.partition("/") for place in places)
    ]
    timeout = min(timeout_seconds, seconds)
    every = {"scrape_interval": f"{round(seconds * 1000)}ms", "scrape_timeout": f"{round(timeout * 1000)}ms"}
    config = folder / "prometheus.yml"
    every["evaluation_interval"] = every["scrape_interval"]
    files = [str(path) for path in rules]
    config.write_text(json.dumps({"global": every, "rule_files": files, "scrape_configs": jobs}))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    here = Prometheus(folder, f"http://127.0.0.1:{port}", process)
    try:
        wait_for(lambda: here.is_ready() or process.poll() is not None, "Prometheus")
        assert process.poll() is None, (folder / "log").read_text()
        yield here
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def complaints(text: bytes) -> str:
    """Return what promtool has to say about a page of metrics."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode()
