"""Agents as a DaemonSet on a real node: each gets the certificate of its own node, and counts what the node shows."""

import base64
import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from demo.comparison import differences, told_totals
from demo.play import TICK_SECONDS
from harvest_agent.enrol.requests import REQUESTS, Site, request
from harvest_pki.certificates import load_certificate
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.keys import new_key
from harvest_pki.requests import new_request
from harvest_sim.live import Live, World
from harvest_sim.settings import Settings
from support.chart import CHART, helm
from support.kubernetes.api import Api
from support.kubernetes.node import NODE, Node
from support.kubernetes.resources import sites_path
from support.processes import wait_for
from support.records import put

SPACE, SITE = "storage", "daemon"
RELEASE = HOME = "lustre"
AGENTS = "lustre-harvest-agents"
SECONDS = 300.0
ENROL = ("logs", f"daemonset/{AGENTS}", "--container=enrol", f"--namespace={HOME}")
AGENT_POD = ("pod", f"--namespace={HOME}", "--selector=app.kubernetes.io/name=harvest-agents")

AGGREGATOR_POD = ("pod", f"--namespace={SPACE}", "--selector=lustreharvest.dev/aggregator=main")


@dataclass(frozen=True)
class Scene:
    """A node that is a Lustre server, simulated, and a site in the same cluster."""

    node: Node
    live: Live

    def ask(self, path: str) -> Any:  # noqa: ANN401 - whatever the API says
        """Ask the aggregator as somebody outside the cluster; nothing where nobody answers."""
        api = self.node.api
        ports = api.get(f"/api/v1/namespaces/{SPACE}/services/harvest-{SITE}-main")["spec"]["ports"]
        (port,) = (one["nodePort"] for one in ports if one["name"] == "https")
        token = base64.b64decode(api.get(f"/api/v1/namespaces/{SPACE}/secrets/harvest-{SITE}-token")["data"]["token"])
        trusting = ssl._create_unverified_context()  # noqa: S323, SLF001 - its certificate is for another name
        question = urllib.request.Request(
            f"https://{self.node.address}:{port}{path}", headers={"Authorization": f"Bearer {token.decode()}"}
        )
        try:
            with urllib.request.urlopen(question, timeout=5, context=trusting) as told:  # noqa: S310 - our own
                return json.load(told)
        except (OSError, HTTPException):
            return {}

    def told(self, path: str, what: str) -> list[dict[str, Any]]:
        """Return what the aggregator lists. It is asked until it answers: no answer is not an empty list."""
        answers: list[dict[str, Any]] = []

        def answered() -> bool:
            answers.append(self.ask(path))
            return what in answers[-1]

        wait_for(answered, f"an answer about {what}", seconds=SECONDS)
        return list(answers[-1][what])

    def jobs(self) -> list[dict[str, Any]]:
        """Return every job, also every run and day that is over."""
        final, found = (self.told(f"/api/v1/jobs?limit=0{of}", "jobs") for of in ("&state=final", ""))
        shown = {(job["cluster"], job["job"], job["start"]) for job in found}
        return [*found, *(job for job in final if (job["cluster"], job["job"], job["start"]) not in shown)]

    def is_connected(self) -> bool:
        """Tell whether the node's agent has an open stream."""
        servers = self.ask("/api/v1/servers").get("servers", [])
        return [one["connected"] for one in servers if one["name"] == NODE] == [True]

    def list_servers(self, *names: str) -> None:
        """Say which servers the site has."""
        filesystems = [{"name": "scratch", "servers": list(names)}]
        self.node.api.patch(f"{sites_path(SPACE)}/{SITE}", {"spec": {"filesystems": filesystems}})

    def pod(self) -> dict[str, Any]:
        """Return the agent's Pod."""
        (found,) = json.loads(self.node.kubectl("get", *AGENT_POD, "--output=json"))["items"]
        return dict(found)

    def runs(self, *, not_as: dict[str, Any]) -> bool:
        """Tell whether the agent runs in another Pod than this one."""
        found = json.loads(self.node.kubectl("get", *AGENT_POD, "--output=json"))["items"]
        others = [one for one in found if one["metadata"]["uid"] != not_as["metadata"]["uid"]]
        states = [state for one in others for state in one["status"].get("containerStatuses", [])]
        return any("running" in one["state"] for one in states)

    def agent(self) -> Api:
        """Return the API server as the agent's Pod reaches it."""
        pod = self.pod()["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
        return Api(self.node.control_plane.account_kubeconfig(HOME, AGENTS, bound_to=bound))

    def finish(self) -> None:
        """Let the work end, and wait until all that was shown has been swept, and once more: then it is safe."""
        self.live.stop()
        self._go_on_until(lambda: self.live.is_over)
        for _ in range(2):
            tick = int(time.time()) + 1
            self._go_on_until(lambda tick=tick: self._is_swept(tick))  # type: ignore[misc]  # mypy knows no such lambda
        self.live.face.poll()

    def _is_swept(self, tick: int) -> bool:
        told = self.ask("/api/v1/servers")
        ticks = [told.get("tick_seconds"), *(one["last_tick_seconds"] for one in told.get("servers", []))]
        return all(known is not None and known >= tick for known in ticks)

    def _go_on_until(self, condition: Callable[[], bool]) -> None:
        def gone_on() -> bool:
            self.live.step()
            return condition()

        wait_for(gone_on, "the sweeps after the last work", seconds=SECONDS)


@contextmanager
def working(live: Live) -> Iterator[None]:
    """Let the simulated jobs do their I/O meanwhile."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(TICK_SECONDS):
            live.step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def lustre() -> Iterator[Path]:
    """Give a folder for what the node would have below /proc and /sys."""
    with TemporaryDirectory(prefix="harvest-lustre-") as folder:
        for name in ("proc", "sys"):  # of some versions all is in one of them
            (Path(folder) / NODE / name).mkdir(parents=True)
        yield Path(folder)


@pytest.fixture
def live(lustre: Path) -> Iterator[Live]:
    """Give a Lustre server that is idle."""
    settings = Settings(
        oss={NODE: "2.15.8"}, mds={NODE: "2.15.8"}, fsnames=("scratch",), provable=True, event_seconds=0
    )
    world = World(
        seconds=time.monotonic,
        epoch_seconds=int(time.time()),
        sleep=time.sleep,
        say=lambda _: None,
        is_stopped=lambda: False,
        is_report_wanted=lambda: False,
    )
    made = Live(settings, root=lustre, for_seconds=SECONDS, world=world)
    yield made
    made.face.close()


@pytest.fixture
def scene(node: Node, live: Live, lustre: Path, tmp_path: Path) -> Iterator[Scene]:
    """Install the chart with agents, and a site that does not list the node."""
    spaces = {SPACE: "restricted", HOME: "privileged"}
    for name, level in spaces.items():
        labels = {"pod-security.kubernetes.io/enforce": level}
        node.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    node.offer_volume()
    values = {
        "crds": {"enabled": False},
        "images": {"prefix": "localhost/", "pullPolicy": "Never"},
        "namespaces": [SPACE],
        "agents": {
            "enabled": True,
            "site": {"namespace": SPACE, "name": SITE},
            "nodeSelector": {"kubernetes.io/hostname": NODE},
            "lustreRoot": str(lustre / NODE),
        },
    }
    site = {
        "apiVersion": "lustreharvest.dev/v1alpha1",
        "kind": "HarvestSite",
        "metadata": {"name": SITE},
        "spec": {"interval": "1s", "filesystems": [{"name": "scratch", "servers": ["elsewhere"]}]},
    }
    here = (RELEASE, f"--namespace={HOME}", f"--kubeconfig={node.control_plane.admin}")
    try:
        node.api.post(sites_path(SPACE), site)
        installed = helm("install", *here, str(CHART), "--values", str(put(tmp_path, "values", json.dumps(values))))
        assert installed.returncode == 0, installed.stderr
        yield Scene(node, live)
    finally:
        node.api.delete(f"{sites_path(SPACE)}/{SITE}")
        helm("uninstall", *here, "--wait")
        node.kubectl("delete", "namespace", *spaces, "--timeout=2m")


def test_a_node_that_is_listed_gets_its_own_certificate_and_counts_exactly_also_in_another_pod(scene: Scene) -> None:
    node, began = scene.node, time.monotonic()

    def refused() -> bool:
        pods = json.loads(node.kubectl("get", *AGENT_POD, "--output=json"))["items"]
        states = [one for pod in pods for one in pod["status"].get("initContainerStatuses", [])]
        is_there = any("running" in one["state"] for one in states)
        return is_there and "reason=NotListed" in node.kubectl(*ENROL)

    wait_for(refused, "the operator's refusal of a node that is not listed", seconds=SECONDS)
    assert f"{NODE} is not listed in site {SITE}" in node.kubectl(*ENROL)
    assert scene.pod()["status"]["containerStatuses"][0]["state"].keys() == {"waiting"}
    print(f"\nrefused after {time.monotonic() - began:.0f} s")

    denied = certificate_asked_for(scene, "elsewhere")
    wait_for(lambda: conditions(node.api, denied), "an answer to who asks for another's certificate", seconds=SECONDS)
    assert conditions(node.api, denied) == {"Denied": "OtherNode"}
    assert "certificate" not in node.api.get(f"{REQUESTS}/{denied}")["status"]

    scene.list_servers(NODE)
    wait_for(scene.is_connected, "the agent of a node that is listed", seconds=SECONDS)
    print(f"connected after {time.monotonic() - began:.0f} s")
    assert certified(node.api) == {f"harvest:{SITE}:server:{NODE}"}
    pod = scene.pod()
    assert pod["status"]["podIP"] == node.address  # the network is the host's

    with working(scene.live):
        wait_for(lambda: len(scene.jobs()) > 3, "jobs", seconds=SECONDS)
        node.kubectl("delete", *AGGREGATOR_POD, "--wait")  # so that the last sweeps are in the spool and nowhere else
        node.kubectl("delete", *AGENT_POD, "--wait")
        wait_for(lambda: scene.runs(not_as=pod), "another Pod", seconds=SECONDS)
        wait_for(scene.is_connected, "its stream", seconds=SECONDS)
        before = told_totals(scene.jobs())
        wait_for(lambda: told_totals(scene.jobs()) != before, "what the other Pod reads", seconds=SECONDS)
        print(f"another Pod counts after {time.monotonic() - began:.0f} s")
    scene.finish()
    assert differences(scene.live.site.truth, scene.jobs()) == []
    print(f"exact after {time.monotonic() - began:.0f} s")


def certificate_asked_for(scene: Scene, name: str) -> str:
    """Ask for a server's certificate with the rights of the agent's Pod; return the request's name."""
    pem = new_request(Identity(site=SITE, kind=Kind.SERVER, name=name), new_key())
    made = scene.agent().post(REQUESTS, request(Site(namespace=SPACE, name=SITE), pem))
    return str(made["metadata"]["name"])


def conditions(api: Api, name: str) -> dict[str, str]:
    """Return what was decided about a request, with the reasons."""
    found = api.get(f"{REQUESTS}/{name}").get("status", {}).get("conditions", [])
    return {one["type"]: one["reason"] for one in found}


def certified(api: Api) -> set[str]:
    """Return for whom certificates of the site were issued."""
    signer = Site(namespace=SPACE, name=SITE).signer
    issued = [
        one["status"].get("certificate") for one in api.get(REQUESTS)["items"] if one["spec"]["signerName"] == signer
    ]
    return {identity_of(load_certificate(base64.b64decode(one))).text for one in issued if one}
