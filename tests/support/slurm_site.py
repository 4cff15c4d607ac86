"""A Slurm beside simulated Lustre servers: Harvest on all of them, and jobs whose I/O somebody decides."""

import json
import re
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from random import Random
from typing import Any
from urllib.error import HTTPError

from demo.comparison import Difference, differences
from demo.installation import Installation
from demo.processes import Program
from harvest_sim.disk import DiskFace
from harvest_sim.site import Site

TARGETS = {"home-OST0000": "oss1", "home-OST0001": "oss2", "home-MDT0000": "mds1"}
VERSIONS = {"oss1": "2.16.1", "oss2": "2.17.0", "mds1": "2.15.8"}
SLURM_HOST = "slurm1"
CLUSTER = "vu"
_STEP_SECONDS = 0.05
_LIMIT_SECONDS = 120.0


class SlurmSite:
    """All of it but Slurm, of which its agent is told; time passes while somebody waits for something."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.lustre = Site(Random(1), epoch_seconds=int(time.time()))
        for server, version in VERSIONS.items():
            self.lustre.add_server(server, version)
        for target, server in TARGETS.items():
            self.lustre.add_target(target, [server])
        self.harvest = Installation(folder, filesystems={"home": ("home", [*VERSIONS, SLURM_HOST])})
        self.harvest.write_site(
            {"home": ("home", list(VERSIONS))},
            1,
            clusters=[{"name": CLUSTER, "filesystems": ["home"], "slurm": {"server": SLURM_HOST}}],
        )
        self.face = DiskFace(self.lustre, self.harvest.trees, Random(2))
        (self.harvest.trees / SLURM_HOST).mkdir(parents=True)
        self._configure(settings)
        self._began = time.monotonic()

    def _configure(self, settings: dict[str, object]) -> None:
        written = "".join(
            f"{name} = {json.dumps(value)}\n" for name, value in ({"period_seconds": 1} | settings).items()
        )
        file = self.harvest.folder / "agents" / SLURM_HOST / "agent.toml"
        file.write_text(self.harvest.agent_config(SLURM_HOST) + "[slurm]\n" + written)

    @property
    def agent(self) -> Program:
        """The one beside Slurm."""
        return self.harvest.agents[SLURM_HOST]

    def start(self) -> None:
        self.face.publish()
        self.harvest.start()
        self.wait(lambda: self.tick() is not None, "a first sweep")

    def stop(self) -> None:
        self.harvest.stop()
        self.face.close()

    def step(self) -> None:
        """Let a moment pass, for servers as for everybody."""
        self.lustre.advance(time.monotonic() - self._began - self.lustre.now_ns / 1e9)
        self.face.poll()
        self.face.publish()
        time.sleep(_STEP_SECONDS)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        self.harvest.wait_for(lambda: bool(condition()), what, _LIMIT_SECONDS, self.step)

    def work(self, job: int | bytes, size: int) -> None:
        """Let a job write on both OSTs, and open files."""
        name = job if isinstance(job, bytes) else b"%d" % job
        for target, amount in (("home-OST0000", size), ("home-OST0001", 3 * size)):
            self.lustre.mounted(target).bulk(name, "write", amount)
        self.lustre.mounted("home-MDT0000").do(name, "open", 10, count=size)

    # --- what Harvest says

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        return self.harvest.get(f"/api/v1/{path}")

    def tick(self) -> int | None:
        found: int | None = self.get("jobs")["tick_seconds"]
        return found

    def metric(self, name: str) -> int:
        """Return what the aggregator's metrics say of the cluster."""
        with urllib.request.urlopen(f"{self.harvest.url}/metrics", timeout=10) as said:  # noqa: S310 - our own loopback
            metrics = said.read().decode()
        (found,) = re.findall(rf'^{name}{{cluster="{CLUSTER}"}} (\S+)$', metrics, re.MULTILINE)
        return int(float(found))

    def trouble(self) -> str:
        """Return what the aggregator warns of."""
        warnings = [
            one for one in self.harvest.get("/readyz")["warnings"] if one.startswith(f"Slurm of cluster {CLUSTER}")
        ]
        return "; ".join(warnings)

    def is_named(self, problem: str) -> bool:
        """Tell whether warnings and metrics say that Slurm is in some trouble."""
        return problem in self.trouble() and not self.metric("harvest_slurm_up")

    def is_well(self) -> bool:
        """Tell whether warnings and metrics say that Slurm answers."""
        return not self.trouble() and bool(self.metric("harvest_slurm_up"))

    def jobs(self, path: str = "jobs?limit=0") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(path)["jobs"]
        return found

    def job(self, number: int, start: int | None = None) -> dict[str, Any] | None:
        """Return one job; nothing while Harvest does not know it."""
        query = "" if start is None else f"?start={start}"
        try:
            found: dict[str, Any] = self.get(f"jobs/{CLUSTER}/{number}{query}")
        except HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return None
        return found

    def differences(self) -> list[Difference]:
        """Return the totals that are not the truth."""
        return differences(self.lustre.truth, self.jobs())

    def settle(self) -> None:
        """Wait until all that was done is shown and accounted for."""
        self.step()  # now it is in the servers' files, before any sweep that is waited for
        for _ in range(2):  # only a reader that begins another sweep is known to have kept the one before
            self.wait(partial(self._has_swept, int(time.time())), "a sweep of all servers")
        self.face.poll()

    def _has_swept(self, after: int) -> bool:
        servers = self.get("servers")
        of_agents = [one["last_tick_seconds"] for one in servers["servers"] if one["name"] in self.harvest.agents]
        ticks = [servers["tick_seconds"], *of_agents]
        return all(tick is not None and tick > after for tick in ticks)

    def is_in(self, number: int, slurm_state: str, *states: str) -> bool:
        """Tell whether Harvest says that a job is in some state of Slurm's, and in one of some of its own."""
        job = self.job(number)
        return job is not None and job["slurm_state"] == slurm_state and (not states or job["state"] in states)
