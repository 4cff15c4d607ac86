"""What is told about a site comes from its aggregators: a real one, run as its Deployment says."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.processes import free_port
from harvest_operator.names import FINISH_CA_ROTATION, ROTATE_CA, Key
from support.kubernetes.api import Api
from support.kubernetes.clusters import Cluster
from support.kubernetes.resources import sites_path
from support.operators import children, condition, operating, path_of, status_of
from support.pods import Container
from support.processes import wait_for

SECONDS = 120.0
SITE = {
    "apiVersion": "lustreharvest.dev/v1alpha1",
    "kind": "HarvestSite",
    "metadata": {"name": "told"},
    "spec": {
        "interval": "1s",
        "filesystems": [{"name": "home", "servers": ["oss1"]}],
        "clusters": [
            {
                "name": "vu",
                "lnets": ["tcp"],
                "filesystems": ["home"],
                "slurm": {
                    "sidecar": {
                        "image": "images.example/slurm:1",
                        "mungeSecretRef": {"name": "munge"},
                        "configRef": {"name": "slurm"},
                    }
                },
            }
        ],
        "sinks": [
            {"name": "gmond", "ganglia": {"address": "127.0.0.1:8649", "dryRun": True}},
            {
                "name": "influx",
                "influxdb": {
                    "url": "http://127.0.0.1:9",
                    "org": "o",
                    "bucket": "b",
                    "tokenSecretRef": {"name": "influx", "key": "token"},
                },
            },
        ],
    },
}
GIVEN: list[dict[str, Any]] = [
    {"kind": "Secret", "metadata": {"name": "munge"}, "stringData": {"munge.key": "not a real one" * 4}},
    {"kind": "Secret", "metadata": {"name": "influx"}, "stringData": {"token": "not-a-real-token"}},
    {"kind": "ConfigMap", "metadata": {"name": "slurm"}, "data": {"slurm.conf": "ClusterName=nobody\n"}},
]


def objects(api: Api, namespace: str) -> dict[Key, Any]:
    names = [(one["kind"], one["metadata"]["name"]) for one in GIVEN]
    return {**children(api, namespace, "told"), **{key: api.get(path_of(namespace, key)) for key in names}}


@contextmanager
def running(process: "subprocess.Popen[bytes]", log: Path) -> Iterator[None]:
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


def logged(container: Container, event: str) -> int:
    lines = container.log.read_text().splitlines() if container.log.exists() else []
    return sum(json.loads(line).get("event") == event for line in lines if line.startswith("{"))


def test_the_status_is_what_aggregators_say(api: Api, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    grpc, http = free_port(), free_port()
    asked = ("--namespace", namespace, "--aggregator-address", f"127.0.0.1:{http}")
    site = f"{sites_path(namespace)}/told"
    for one in GIVEN:
        api.apply(path_of(namespace, (one["kind"], one["metadata"]["name"])), {"apiVersion": "v1", **one})
    api.apply(site, SITE)
    with operating(cluster.kubeconfig, tmp_path / "first", *asked):
        wait_for(lambda: len(children(api, namespace, "told")) == 8, "the site", seconds=SECONDS)

    deployment = children(api, namespace, "told")["Deployment", "harvest-told-main"]
    ports = {"[::]:8024": f"[::]:{http}", "127.0.0.1:8023": f"127.0.0.1:{grpc}"}
    (tmp_path / "main").mkdir()
    (tmp_path / "beside").mkdir()
    main = Container(deployment, "aggregator", tmp_path / "main", ports)
    beside = Container(deployment, "slurm-vu", tmp_path / "beside", ports)
    for container in (main, beside):
        container.mount(objects(api, namespace))
    with running(main.start("--grpc", f"127.0.0.1:{grpc}"), main.log):
        wait_for(lambda: logged(main, "agents may come"), "the aggregator", seconds=SECONDS)
        with running(beside.start(), beside.log):
            wait_for(lambda: "uplink.connected" in beside.log.read_text(), "the Slurm agent", seconds=SECONDS)
            with operating(cluster.kubeconfig, tmp_path / "second", *asked):
                wait_for(lambda: status_of(api, namespace, "told").get("agents") == "1/2", "agents", seconds=SECONDS)
                told = status_of(api, namespace, "told")
                assert condition(told, "AgentsConnected") == ("False", "SomeMissing")
                assert "1 of 2 are missing: oss1" in str(told["conditions"])
                assert condition(told, "SlurmReachable") == ("False", "InTrouble")

                new_ca = {ROTATE_CA: "one", FINISH_CA_ROTATION: "one"}
                api.patch(site, {"metadata": {"annotations": new_ca}})
                before = objects(api, namespace)["Secret", "harvest-told-main-tls"]["data"]["tls.crt"]
                wait_for(
                    lambda: objects(api, namespace)["Secret", "harvest-told-main-tls"]["data"]["tls.crt"] != before,
                    "certificates of the new CA",
                    seconds=SECONDS,
                )
            connected = beside.log.read_text().count("uplink.connected")
            for container in (main, beside):
                container.mount(objects(api, namespace))
            wait_for(lambda: logged(main, "changed files are in use"), "the new certificates in use", seconds=SECONDS)
            wait_for(
                lambda: beside.log.read_text().count("uplink.connected") > connected, "the agent again", seconds=SECONDS
            )
            api.patch(f"{site}/status", {"status": {"agents": "0/0"}})
            with operating(cluster.kubeconfig, tmp_path / "third", *asked):
                wait_for(lambda: status_of(api, namespace, "told").get("agents") == "1/2", "agents", seconds=SECONDS)

    with operating(cluster.kubeconfig, tmp_path / "fourth", *asked):
        wait_for(lambda: status_of(api, namespace, "told").get("agents") == "?/2", "silence", seconds=SECONDS)
        told = status_of(api, namespace, "told")
        assert condition(told, "AgentsConnected") == condition(told, "SinksHealthy") == ("Unknown", "NoAnswer")
