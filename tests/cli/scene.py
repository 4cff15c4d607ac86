"""One simulated Lustre site with two file systems, each with an aggregator of its own; agents report to both."""

import json
import os
import re
import subprocess
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from demo.installation import Installation
from demo.play import Play
from demo.processes import BIN
from harvest_sim.settings import Settings
from support.processes import wait_for

HARVEST = str(BIN / "harvest")
_SERVERS = {"oss1": "2.16.1"}, {"mds1": "2.15.8"}
_LIMIT_SECONDS = 90.0
Json = dict[str, Any]


class Scene:
    """The site, and what its aggregators say."""

    def __init__(self, folder: Path) -> None:
        simulated = Settings(
            oss=_SERVERS[0],
            mds=_SERVERS[1],
            fsnames=("scratch", "home"),
            osts_per_oss=1,
            provable=True,
            event_seconds=0,
            linger_seconds=60,
        )
        servers = [*simulated.oss, *simulated.mds]
        self.folder = folder
        self.scratch, self.home = (
            Installation(folder / name, filesystems={name: (name, servers)}) for name in simulated.fsnames
        )
        for server in servers:
            config = self.home.agent_config(server)
            uplink = config[config.index("[[uplink]]") :]
            (self.scratch.folder / "agents" / server / "agent.toml").write_text(
                self.scratch.agent_config(server) + uplink
            )
        self.play = Play(self.scratch, simulated, for_seconds=10 * _LIMIT_SECONDS)
        self.urls = [self.scratch.url, self.home.url]
        self.is_frozen = False

    def start(self) -> None:
        """Start everything."""
        self.home.aggregator.start()
        self.home.wait_for(self.home.is_ready, "the second aggregator to be ready")
        self.play.start()

    def stop(self) -> None:
        """Stop everything."""
        self.scratch.stop()
        self.home.stop()
        self.play.live.face.close()

    def freeze(self) -> None:
        """Go on until there is enough to see, and take the agents away: no sweep is closed without them."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        while not self.is_frozen:
            assert time.monotonic() < deadline, f"there is not enough to see: {self.told('jobs?limit=0')}"
            self.play.step()
            if not self._is_enough():
                continue
            for server in self.scratch.agents:
                self.play.kill(server, for_seconds=0)  # the next step brings it back
            self._wait_until_still()
            self.is_frozen = self._is_enough()

    def _wait_until_still(self) -> None:
        """Wait until all that agents said is closed: nobody is connected, nothing is queued, no sweep is open."""
        for one in (self.scratch, self.home):
            wait_for(partial(_is_still, one), "nothing to come any more")

    def _is_enough(self) -> bool:
        """Tell whether jobs are busy on both file systems, jobs and nodes are known to both, and nodes are busy."""
        both = [answer["jobs"] for answer in self.told("jobs?limit=0")]
        busy = [[job for job in jobs if any(rates(job).values())] for jobs in both]
        shared = set.intersection(*({job["job"] for job in jobs} for jobs in both))
        nodes = [answer["clients"] for answer in self.told("clients")]
        known = set.intersection(*({one["nid"] for one in clients} for clients in nodes))
        live = [one for clients in nodes for one in clients if one["live"]]
        moving = [one for one in live if any(any(on.values()) for on in one["filesystems"].values())]
        return all(len(jobs) > 2 for jobs in busy) and bool(shared) and bool(known) and len(moving) > 2

    def told(self, path: str) -> list[Json]:
        """Return what each aggregator says."""
        return [one.get(f"/api/v1/{path}") for one in (self.scratch, self.home)]

    def run(
        self, *arguments: str, urls: list[str] | None = None, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end."""
        return subprocess.run(
            [HARVEST, *arguments],
            env=self.environment(urls, **environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def json(self, *arguments: str, urls: list[str] | None = None) -> Json:
        """Run the command for a program."""
        ran = self.run("--json", *arguments, urls=urls)
        assert (ran.returncode, ran.stderr) == (0, "")
        answer: Json = json.loads(ran.stdout)
        return answer

    def environment(self, urls: list[str] | None = None, **more: str) -> dict[str, str]:
        """Return the environment of somebody who looks at this site, and has no configuration."""
        own = {"HARVEST_URL": " ".join(self.urls if urls is None else urls), "HOME": str(self.folder)}
        outer = {
            key: value for key, value in os.environ.items() if key not in {"XDG_CONFIG_HOME", "HARVEST_TOKEN_FILE"}
        }
        return {**outer, **own, **more}


def _is_still(aggregator: Installation) -> bool:
    with urllib.request.urlopen(f"{aggregator.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own loopback
        metrics = dict(re.findall(r"^(\w+) ([0-9.]+)$", answer.read().decode(), re.MULTILINE))
    told = aggregator.get("/api/v1/servers")
    ticks = [server["last_tick_seconds"] for server in told["servers"]]
    is_quiet = all(float(metrics[f"harvest_{name}"]) == 0 for name in ("streams", "queued_sweeps"))
    return is_quiet and None not in ticks and told["tick_seconds"] >= max(ticks)


def rates(job: Json) -> dict[str, float]:
    """Return what a job does per second, by the names of top's orders."""
    ost, mdt = ([on[kind]["rates"] for on in job["filesystems"].values()] for kind in ("ost", "mdt"))
    return {
        "read": sum(one["read_bytes"] for one in (*ost, *mdt)),
        "write": sum(one["write_bytes"] for one in (*ost, *mdt)),
        "ops": sum(one["iops"] for one in (*ost, *mdt)),
        "metadata": sum(one["iops"] for one in mdt),
    }
