"""The example site on our own node, as people make it: by the chart, with agents of a busy Lustre outside."""

import base64
import json
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from demo.comparison import OpKey, differences, told_totals, true_totals
from demo.installation import every_job
from demo.processes import Program
from support.busy_lustre import MDS, OSS, BusyLustre
from support.chart import NAMESPACE, OPERATOR, helm
from support.kubernetes.node import Node
from support.kubernetes.resources import sites_path
from support.operators import status_of

EXAMPLE: Final = Path(__file__).parents[2] / "docs/how-to/example-site.yaml"
SPACE: Final = "harvest"
NAME: Final = "example"
PATH: Final = f"{sites_path(SPACE)}/{NAME}"
CHILD: Final = f"harvest-{NAME}-main"
"""Deployment, Service and so on of the aggregator."""
SERVERS: Final = (*OSS, *MDS)
SETTINGS: Final = ("--set=images.prefix=localhost/", "--set=images.pullPolicy=Never")
_KINDS: Final = "deployments,replicasets,pods,services,configmaps,secrets,persistentvolumeclaims,serviceaccounts"
_RESTRICTED: Final = "pod-security.kubernetes.io/enforce=restricted"
_SECONDS: Final = 180.0
_PAUSE_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 5.0
"""Whoever asks while a Pod goes may get no answer at all."""


class Pod(NamedTuple):
    """What tells whether a Pod is another one, or was begun again."""

    uid: str = ""
    starts: int = 0
    is_ready: bool = False
    container: str = ""
    image: str = ""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "Pod":
        """Read what Kubernetes says of it; where that is nothing yet, it is not there."""
        for one in found.get("status", {}).get("containerStatuses", ()):
            (told,) = found["spec"]["containers"]  # what is told of a container names any of its image's names
            container = one.get("containerID", "").rpartition("/")[2]
            return cls(found["metadata"]["uid"], one["restartCount"], one["ready"], container, told["image"])
        return cls()


class RealSite:
    """What is installed, and what it says."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self.api = node.api
        self.folder = folder
        self.lustre = BusyLustre(folder / "lustre")
        self.agents: dict[str, Program] = {}

    def install(self, chart: Path, *settings: str) -> None:
        """Install a chart, with our own images, where the strictest rules are enforced."""
        self.node.kubectl("delete", "crd", "harvestsites.lustreharvest.dev", "--ignore-not-found")  # of other tests
        self.node.kubectl("create", "namespace", NAMESPACE)
        self.node.kubectl("label", "namespace", NAMESPACE, _RESTRICTED)
        self.node.offer_volume()
        self.helm("install", str(chart), *SETTINGS, *settings)

    def helm(self, verb: str, *arguments: str) -> str:
        """Do something with the release."""
        where = ("--namespace", NAMESPACE, "--kubeconfig", str(self.node.control_plane.admin))
        ran = helm(verb, "harvest", *where, *arguments)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def apply(self, **changes: object) -> None:
        """Apply the example as it is here, with some fields of its spec changed."""
        namespace, site = yaml.safe_load_all(EXAMPLE.read_text())
        assert namespace["metadata"]["labels"] == dict([_RESTRICTED.split("=")])
        dry = {"name": "gmond", "ganglia": {"address": "127.0.0.1:8649", "dryRun": True}}
        here = {"interval": "1s", "sinks": [dry], "service": {"nodePort": 30023, "addresses": [self.node.address]}}
        site["spec"] |= here | changes
        self.node.kubectl("apply", "--filename=-", told=yaml.safe_dump_all([namespace, site]))

    def start_agents(self, bundle: Callable[["RealSite", str], Path]) -> None:
        """Start an agent of every server, with the files that are made for it."""
        for server in SERVERS:
            config = bundle(self, server)
            command = ["harvest-agent", "run", "--config", str(config)]
            self.agents[server] = Program(server, command, self.folder / f"{server}.log")
            self.agents[server].start()

    def remove(self) -> None:
        """End all of it, inside and outside the cluster; the definition of sites stays."""
        for agent in self.agents.values():
            agent.stop()
        self.lustre.stop()
        self.node.kubectl("delete", "hs", "--all", "--all-namespaces")
        self.helm("uninstall", "--ignore-not-found", "--wait")
        self.node.kubectl("delete", "namespace", SPACE, NAMESPACE, "--ignore-not-found", "--timeout=3m")

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the site's namespace."""
        return self.node.kubectl("--namespace", SPACE, *arguments)

    def status(self) -> dict[str, Any]:
        """Return what is told about the site."""
        return status_of(self.api, SPACE, NAME)

    def is_seen(self) -> bool:
        """Tell whether the operator has acted on the site as it is now."""
        body = self.api.get(PATH)
        return bool(body["status"]["observedGeneration"] == body["metadata"]["generation"])

    def columns(self) -> list[str]:
        """Return what ``kubectl get hs`` shows of the site, but its age."""
        return self.kubectl("get", "hs", NAME, "--no-headers").split()[:-1]

    def pod(self) -> Pod:
        """Return the aggregator's Pod."""
        return self._pod(SPACE, f"lustreharvest.dev/site={NAME}")

    def operator(self) -> Pod:
        """Return the operator's Pod."""
        return self._pod(NAMESPACE, "app.kubernetes.io/name=harvest-operator")

    def _pod(self, namespace: str, selector: str) -> Pod:
        listed = self.api.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)["items"]
        (found,) = [one for one in listed if "deletionTimestamp" not in one["metadata"]] or [{}]
        return Pod.of(found)

    def left(self, namespace: str, label: str) -> set[str]:
        """Return what there is with a label."""
        return set(
            self.node.kubectl("get", _KINDS, "--namespace", namespace, f"--selector={label}", "--output=name").split()
        )

    def get(self, path: str) -> Any:  # noqa: ANN401 - whatever the API says
        """Ask the aggregator from outside the cluster."""
        service = self.api.get(f"/api/v1/namespaces/{SPACE}/services/{CHILD}")
        ports = {port["name"]: port["nodePort"] for port in service["spec"]["ports"]}
        token = self.secret(f"harvest-{NAME}-token")["token"].decode()
        question = urllib.request.Request(
            f"https://{self.node.address}:{ports['https']}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        trusting = ssl._create_unverified_context()  # noqa: S323, SLF001 - its certificate is for another name
        with urllib.request.urlopen(question, timeout=_ANSWER_SECONDS, context=trusting) as told:  # noqa: S310
            return json.load(told)

    def secret(self, name: str, namespace: str = SPACE) -> dict[str, bytes]:
        """Return what a Secret holds."""
        data = self.api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")["data"]
        return {key: base64.b64decode(value) for key, value in data.items()}

    def wait(self, so: Callable[[], object], what: str) -> None:
        """Wait for something, also while the aggregator is away; where it does not come, tell what everybody said."""
        deadline = time.monotonic() + _SECONDS
        while not _is_so(so):
            for agent in self.agents.values():
                agent.check()
            assert time.monotonic() < deadline, f"waited in vain for: {what}\n{self._said()}"
            time.sleep(_PAUSE_SECONDS)

    def _said(self) -> str:
        said = [f"--- {one.name}\n{one.tail()}" for one in self.agents.values()]
        for name, space in ((CHILD, SPACE), (OPERATOR, NAMESPACE)):
            said += [f"--- {name}", self._output("logs", f"deployment/{name}", "--namespace", space, "--tail=20")]
        return "\n".join([*said, self._output("get", "pods,hs", "--all-namespaces", "--output=wide")])

    def _output(self, *arguments: str) -> str:
        ran = subprocess.run(self.node.kubectl_command(*arguments), capture_output=True, text=True, check=False)
        return ran.stdout + ran.stderr

    def compare(self) -> float:
        """Wait for news, then hold Lustre until all that it showed is accounted for: every total must be the true one.

        Return when that was known.
        """
        with self.lustre.held() as truth:
            known_samples = _samples(true_totals(truth))
        self.wait(lambda: _samples(told_totals(every_job(self.get))) > known_samples, "what is done from now on")
        with self.lustre.held() as truth:
            for ahead_seconds in (2, 1):  # who begins the next sweep is known to have kept the one before
                tick = int(time.time()) + ahead_seconds
                self.wait(partial(self._has_swept, tick), "a sweep of all servers")
            self.lustre.notice()
            jobs = self._jobs()
            known = time.monotonic()
            found = differences(truth, jobs)
            assert found == [], found
        return known

    def _jobs(self) -> list[dict[str, Any]]:
        """Return every job, as the first whole answer has it: on a machine that is busy it may take some questions."""
        answers: list[list[dict[str, Any]]] = []

        def answered() -> bool:
            answers.append(every_job(self.get))
            return True

        self.wait(answered, "an answer about all jobs")
        return answers[0]

    def servers(self) -> set[str]:
        """Return the servers that the aggregator knows."""
        return {one["name"] for one in self.get("/api/v1/servers")["servers"]}

    def connected(self) -> set[str]:
        """Return the servers whose agents the aggregator hears."""
        return {one["name"] for one in self.get("/api/v1/servers")["servers"] if one["connected"]}

    def _has_swept(self, tick: int) -> bool:
        told = self.get("/api/v1/servers")
        connected = {one["name"]: one["last_tick_seconds"] for one in told["servers"] if one["name"] in SERVERS}
        return all(known is not None and known >= tick for known in (told["tick_seconds"], *connected.values()))


def _samples(totals: Mapping[OpKey, tuple[int, int]]) -> int:
    return sum(samples for samples, _ in totals.values())


def _is_so(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except (OSError, HTTPException):  # it is away, or goes in the middle of an answer
        return False
