"""A Kubernetes with one site and an operator, for commands that ask it for a certificate."""

import base64
import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harvest_cli.arguments import parser
from harvest_cli.bundling import Bundling
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem
from harvest_pki.keys import new_key
from harvest_pki.requests import requested

Json = dict[str, Any]
NOW = datetime(2026, 11, 18, tzinfo=UTC)
CA = Authority.create("example", key=new_key(), serial=1, now=NOW)
SITES = "/apis/lustreharvest.dev/v1alpha1/namespaces/harvest/harvestsites"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CAS = "/api/v1/namespaces/harvest/configmaps/harvest-example-agents"
BODY: Json = {
    "apiVersion": "lustreharvest.dev/v1alpha1",
    "kind": "HarvestSite",
    "metadata": {"name": "example", "namespace": "harvest"},
    "spec": {
        "filesystems": [
            {"name": "home", "servers": ["oss[1-4]", "mds1.example.org"]},
            {"name": "work", "servers": ["oss[4-5]"]},
        ],
        "clusters": [{"name": "vu", "lnets": ["tcp"], "filesystems": ["home"], "slurm": {"server": "slurm1"}}],
        "aggregators": [{"name": "a", "filesystems": ["home"]}, {"name": "b", "filesystems": ["work"]}],
    },
    "status": {
        "aggregators": [
            {"name": "a", "endpoint": "harvest.example:30023"},
            {"name": "b", "endpoint": "[fd00::1]:30024"},
        ]
    },
}


class FakeKubernetes:
    """A cluster with one site, and an operator that signs what was approved."""

    def __init__(self) -> None:
        self.namespace = "harvest"
        self.objects: dict[str, Json | None] = {
            "/apis/lustreharvest.dev/v1alpha1": {},
            SITES: {"items": [BODY]},
            "/apis/lustreharvest.dev/v1alpha1/harvestsites": {"items": [BODY]},
            f"{SITES}/example": BODY,
            CAS: {"data": {"ca.crt": bundle_pem([CA.certificate]).decode()}},
        }
        self.failing: dict[tuple[str, str], Exception] = {}
        self.request = ""
        """Name of the last one."""
        self.is_signing = True
        self.refusal: Json | None = None
        self.now = 0.0
        self.said: list[str] = []

    def get(self, path: str) -> Json | None:
        self._fail("get", path)
        return copy.deepcopy(self.objects.get(path))

    def create(self, path: str, body: Json) -> Json:
        self._fail("create", path)
        self.request = body["metadata"]["generateName"] + "x"
        one = {**body, "metadata": {"name": self.request}}
        self.objects[f"{path}/{self.request}"] = one
        return copy.deepcopy(one)

    def replace(self, path: str, body: Json) -> Json:
        self._fail("replace", path)
        self.objects[path.removesuffix("/approval")] = body
        return copy.deepcopy(body)

    def sleep(self, seconds: float) -> None:
        """Let time pass; the operator looks at requests meanwhile."""
        self.now += seconds
        one = self.objects.get(f"{REQUESTS}/{self.request}")
        conditions = (one or {}).get("status", {}).get("conditions", [])
        if one is None or not conditions or not self.is_signing:
            return
        if self.refusal is not None:
            conditions.append(self.refusal)
            return
        identity, key = requested(base64.b64decode(one["spec"]["request"]), "example")
        certificate = CA.issue(identity, key, serial=2, now=NOW)
        one["status"]["certificate"] = base64.b64encode(bundle_pem([certificate])).decode()

    def made(
        self, folder: Path, *more: str, site: str = "example", server: str = "oss1", command: str = "agent-bundle"
    ) -> str:
        options = parser().parse_args([command, site, server, "--out", str(folder), *more])
        return Bundling(self, options, say=self.said.append, clock=lambda: self.now, sleep=self.sleep).made()

    def _fail(self, verb: str, path: str) -> None:
        if (error := self.failing.get((verb, path))) is not None:
            raise error
