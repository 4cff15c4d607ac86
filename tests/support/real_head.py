"""The site of a cluster's head on our own node, in a namespace of its own: its nodes come by relay from a real site."""

import ssl
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from demo.processes import run
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_sim.lives import Subject
from harvest_sim.ops import Kind
from harvest_sim.truth import Truth
from support.operators import condition, status_of
from support.real_site import NAME, SPACE, Pod, RealSite

CLUSTER: Final = "xe"
"""Also the site's name, and its namespace's."""
NODES: Final = {f"10.1.0.{number}@o2ib": f"xe{number}" for number in range(1, 5)}
"""Half of those that the simulation has."""
OF_CLUSTER: Final = {"name": CLUSTER, "nids": ["10.1.0.[1-4]@o2ib"], "filesystems": ["scratch"]}
_LOOK: Final = "look"
_SELECTOR: Final = f"lustreharvest.dev/site={CLUSTER}"
_ANSWER_SECONDS: Final = 5.0
Done = dict[tuple[str, str, str], int]
"""By NID, what is counted, and the kind of target where that is told."""


class RealHead:
    """A site without file systems, that other Pods alone reach as a relay does; and what it says of its nodes."""

    def __init__(self, site: RealSite) -> None:
        self.site = site
        self.api = site.api

    def apply(self) -> None:
        """Make it, and a port by which tests look at it from outside."""
        pattern = {"nid": r"10\.1\.0\.(\d)@o2ib", "host": rf"{CLUSTER}\1"}
        spec = {
            "interval": "1s",
            "clusters": [{**OF_CLUSTER, "hosts": [{"pattern": pattern}]}],
            "accepts": [{"name": NAME, "filesystems": ["scratch"], "lnets": ["o2ib"]}],
            "sinks": [{"name": "prom", "prometheus": {"perClient": "all"}}],
            "service": {"type": "ClusterIP"},
            "ledger": {"storage": {"size": "1Gi"}},
        }
        head = {"apiVersion": "lustreharvest.dev/v1alpha1", "kind": "HarvestSite"}
        looked_at = {"port": 8024, "targetPort": "https"}
        look = {"type": "NodePort", "selector": dict([_SELECTOR.split("=")]), "ports": [looked_at]}
        objects = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CLUSTER}},
            {**head, "metadata": {"name": CLUSTER, "namespace": CLUSTER}, "spec": spec},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _LOOK, "namespace": CLUSTER}, "spec": look},
        ]
        self.site.node.offer_volume()
        self.site.node.kubectl("apply", "--filename=-", told=yaml.safe_dump_all(objects))

    def remove(self) -> None:
        """Take it away again, which is no matter of anybody who comes later."""
        self.site.node.kubectl("delete", "namespace", CLUSTER, "--ignore-not-found", "--wait=false")

    def bundle(self, folder: Path) -> list[dict[str, Any]]:
        """Make a certificate for the relay, give it to the sender; return what the sender is told to write."""
        kubeconfig = str(self.site.node.control_plane.admin)
        made = ("--namespace", CLUSTER, "--out", str(folder), "--kubeconfig", kubeconfig)
        told = run("harvest", "relay-bundle", CLUSTER, NAME, *made)
        self.site.node.kubectl("apply", f"--namespace={SPACE}", f"--filename={folder}/secret.yaml")
        relays: list[dict[str, Any]] = yaml.safe_load(told.partition("  relays:\n")[2].partition("\nThen ")[0])
        return relays

    def pod(self) -> Pod:
        """Return the aggregator's Pod."""
        listed = self.api.get(f"/api/v1/namespaces/{CLUSTER}/pods", labelSelector=_SELECTOR)["items"]
        (found,) = [one for one in listed if "deletionTimestamp" not in one["metadata"]] or [{}]
        return Pod.of(found)

    def delete_pod(self) -> None:
        """Delete it, and wait for another one."""
        before = self.pod()
        self.site.node.kubectl("delete", "pod", f"--namespace={CLUSTER}", f"--selector={_SELECTOR}", "--wait")
        self.site.wait(lambda: self.pod().is_ready and self.pod().uid != before.uid, "another Pod of the head")

    def condition(self, name: str) -> tuple[str, str]:
        """Return status and reason of one of its conditions."""
        return condition(status_of(self.api, CLUSTER, CLUSTER), name)

    def text(self, path: str) -> str:
        """Ask its aggregator from outside the cluster."""
        (port,) = self.api.get(f"/api/v1/namespaces/{CLUSTER}/services/{_LOOK}")["spec"]["ports"]
        token = self.site.secret(f"harvest-{CLUSTER}-token", CLUSTER)["token"].decode()
        question = urllib.request.Request(
            f"https://{self.site.node.address}:{port['nodePort']}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        trusting = ssl._create_unverified_context()  # noqa: S323, SLF001 - its certificate is for another name
        with urllib.request.urlopen(question, timeout=_ANSWER_SECONDS, context=trusting) as told:  # noqa: S310
            return str(told.read().decode())

    def totals(self) -> Done:
        """Return what its prometheus sink says that every node did."""
        return {
            (one.labels["nid"], family.name.removeprefix("harvest_client_"), one.labels.get("component", "")): round(
                one.value
            )
            for family in text_string_to_metric_families(self.text("/metrics/prom"))
            if family.name.startswith("harvest_client_")
            for one in family.samples
            if one.value
        }

    def compare(self) -> Done:
        """Hold Lustre until the head says exactly what agents were shown of its nodes; return it."""
        with self.site.lustre.held() as truth:

            def is_so() -> bool:
                self.site.lustre.notice()
                return bool(shown(truth)) and self.totals() == shown(truth)

            try:
                self.site.wait(is_so, "the truth at the head")
            except AssertionError as error:
                differs = sorted(set(self.totals().items()) ^ set(shown(truth).items()))
                raise AssertionError(f"{error}: {differs}, {self.text('/readyz')}") from error
            return shown(truth)


def shown(truth: Truth) -> Done:
    """Return what the cluster's nodes did, as far as files on the servers ever said so to a reader."""
    found: Done = Counter()
    for row in truth.rows(Subject.EXPORT):
        nid, counter = row.life.key.decode(), (row.op.name, row.op.unit)
        if nid not in NODES or row.op.name == "ping":
            continue
        if counts_read_bytes(counter):
            found[nid, "read_bytes", ""] += row.shown_sum
        elif counts_written_bytes(counter):
            found[nid, "write_bytes", ""] += row.shown_sum
        elif counts_operations(counter):
            found[nid, "operations", "ost" if row.life.scope.kind is Kind.OST else "mdt"] += row.shown_samples
    return {key: value for key, value in found.items() if value}
