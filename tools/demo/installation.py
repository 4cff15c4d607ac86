"""A Harvest site on this machine: its CA, an aggregator, an agent per simulated server, and how to ask it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.processes import ProcessError, Program, free_port
from harvest_pki.authorities import Authority
from harvest_pki.folders import CaFolder
from harvest_pki.keys import new_key, new_serial

SITE = "demo"
CLUSTER = "vu"
SINK = "prom"
_READY_SECONDS = 120
_ANSWER_SECONDS = 30
Filesystems = Mapping[str, tuple[str, Iterable[str]]]
"""Their names, each with its fsname and its servers."""


class Installation:
    """Everything of Harvest that runs, below one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        filesystems: Filesystems,
        interval_seconds: int = 1,
        spool_bytes: int = 64 << 20,
        slurm_host: str = "",
        prometheus: Mapping[str, object] | None = None,
        name: str = SITE,
    ) -> None:
        """``prometheus`` is how such a sink is set, if there is one; ``name`` is the site's."""
        self.folder = folder
        self.name = name
        self.servers = list(dict.fromkeys(server for _, servers in filesystems.values() for server in servers))
        self.slurm_host = slurm_host
        """Where the Slurm of the only cluster is; empty: there is none."""
        self.trees = folder / "lustre"
        self.data = folder / "aggregator"
        self.grpc_port, self.http_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.http_port}"
        self._spool_bytes = spool_bytes
        self.site_file = folder / "site.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        clusters = [{"name": CLUSTER, "filesystems": list(filesystems), "slurm": {"server": slurm_host}}]
        more = {"clusters": clusters} if slurm_host else {}
        more |= {} if prometheus is None else {"sinks": [{"name": SINK, "prometheus": prometheus}]}
        self.write_site(filesystems, interval_seconds, **more)
        self._issue()
        self.aggregator = self.program("aggregator", ["harvest-aggregator", "run", *self.run_options()])
        beside = {slurm_host: self._agent_beside_slurm(slurm_host)} if slurm_host else {}
        self.agents = {**beside, **{name: self._agent(name) for name in self.servers}}

    def _issue(self) -> None:
        """Make certificates where ``harvest-aggregator ca`` puts them; a process for each would take seconds."""
        now = datetime.now(UTC).replace(microsecond=0)
        ca = CaFolder(self.data / "ca")
        ca.create(Authority.create(self.name, key=new_key(), serial=new_serial(), now=now))
        ca.write_server(self.data / "tls", "main", now=now)
        for server in filter(None, (*self.servers, self.slurm_host)):
            ca.write_agent(self.data / "agents" / server, server, now=now)

    def write_site(self, filesystems: Filesystems, interval_seconds: int, **more: object) -> None:
        """Write the site's description."""
        spec = {
            "interval": f"{interval_seconds}s",
            "filesystems": [
                {
                    "name": name,
                    "fsname": fsname,
                    "servers": list(servers),
                    "clients": {"interval": f"{2 * interval_seconds}s"},
                }
                for name, (fsname, servers) in filesystems.items()
            ],
            **more,
        }
        site = {
            "apiVersion": "lustreharvest.dev/v1alpha1",
            "kind": "HarvestSite",
            "metadata": {"name": self.name},
            "spec": spec,
        }
        draft = self.folder / "site.draft"
        draft.write_text(json.dumps(site))  # JSON is YAML, too
        draft.replace(self.site_file)  # an aggregator that looks now must not find half of it

    def run_options(self) -> list[str]:
        """Return what the aggregator is told."""
        return [
            *("--site", str(self.site_file), "--data", str(self.data)),
            *("--grpc", f"127.0.0.1:{self.grpc_port}", "--http", f"127.0.0.1:{self.http_port}"),
        ]

    def program(self, name: str, command: list[str]) -> Program:
        """Return a program whose log is in the folder."""
        return Program(name, command, self.folder / f"{name}.log")

    def spool(self, server: str) -> Path:
        """Return where an agent keeps what was not acknowledged."""
        return self.folder / "agents" / server / "spool"

    def _agent(self, name: str) -> Program:
        return self.program(name, ["harvest-agent", "run", "--config", str(self._configured(name))])

    def _agent_beside_slurm(self, name: str) -> Program:
        here = self.trees / name
        commands = "".join(f'{one} = "{here / "bin" / one}"\n' for one in ("squeue", "sacct"))
        config = self._configured(name, f"[slurm]\nperiod_seconds = 1\n{commands}")
        agent = [str(Path(__file__).with_name("other_users.py")), str(here / "etc"), "run", "--config", str(config)]
        return self.program(name, ["python", *agent])

    def _configured(self, name: str, more: str = "") -> Path:
        folder = self.folder / "agents" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.toml").write_text(self.agent_config(name) + more)
        return folder / "agent.toml"

    def agent_config(self, name: str, *, port: int | None = None) -> str:
        """Return the configuration of the agent on one server."""
        tls = self.data / "agents" / name
        return f"""\
[lustre]
root = "{self.trees / name}"
[spool]
directory = "{self.spool(name)}"
max_bytes = {self._spool_bytes}
[[uplink]]
address = "127.0.0.1:{port or self.grpc_port}"
server_name = "main.{self.name}.harvest"
ca = "{tls / "ca.crt"}"
cert = "{tls / "tls.crt"}"
key = "{tls / "tls.key"}"
"""

    def start(self) -> None:
        """Start everything, and wait until the aggregator is ready."""
        self.aggregator.start()
        self.wait_for(self.is_ready, "the aggregator to be ready")
        for agent in self.agents.values():
            agent.start()

    def stop(self) -> None:
        """Stop everything that still runs, the agents first: they have something to say."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.stop, self.agents.values()))
        self.aggregator.stop()

    def check(self) -> None:
        """Complain if any program has ended by itself."""
        for program in (*self.agents.values(), self.aggregator):
            program.check()

    def is_ready(self) -> bool:
        """Tell whether the aggregator says it is ready."""
        try:
            return bool(self.get("/readyz")["ready"])
        except (OSError, ValueError):
            return False

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever the API says
        """Ask the API."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - our own loopback
            return json.load(answer)

    def jobs(self) -> list[dict[str, Any]]:
        """Return every job; none while the aggregator is away."""
        try:
            return every_job(self.get)
        except (urllib.error.URLError, OSError):
            return []

    def wait_for(
        self,
        what: Callable[[], bool],
        name: str,
        seconds: float = _READY_SECONDS,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until something is true, with a limit."""
        end = time.monotonic() + seconds
        while not what():
            self.check()
            meanwhile()
            if time.monotonic() > end:
                logs = "\n\n".join(f"--- {p.name}\n{p.tail()}" for p in (self.aggregator, *self.agents.values()))
                raise ProcessError(f"waited {seconds:.0f} s for {name}\n{logs}")
            time.sleep(0.05)


def every_job(get: Callable[[str], Any]) -> list[dict[str, Any]]:
    """Return what an aggregator knows of every job, also of every run and day that is over."""
    final, found = (get(f"/api/v1/jobs?limit=0{of}")["jobs"] for of in ("&state=final", ""))
    shown = {(job["cluster"], job["job"], job["start"]) for job in found}
    return [*found, *(job for job in final if (job["cluster"], job["job"], job["start"]) not in shown)]
