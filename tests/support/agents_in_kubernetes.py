"""Whoever asks for an agent's certificate: people with their rights, and agents in Pods of nodes that do not run."""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cryptography import x509

from harvest_operator.names import SIGNER
from harvest_operator.signing import USAGES
from harvest_pki.certificates import load_certificate
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import new_key
from harvest_pki.requests import new_request
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.processes import wait_for
from support.scenes import SECONDS

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request on the API server, as an admin sees it."""

    api: Api
    name: str

    def approve(self) -> "Request":
        """Vouch for its sender."""
        one = self.api.get(f"{REQUESTS}/{self.name}")
        one["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "mine"}]}
        self.api.put(f"{REQUESTS}/{self.name}/approval", one)
        return self

    def status(self) -> Json:
        """Return what was said about it."""
        status: Json = self.api.get(f"{REQUESTS}/{self.name}").get("status") or {}
        return status

    def conditions(self) -> dict[str, str]:
        """Return the reasons of its conditions."""
        return {one["type"]: one["reason"] for one in self.status().get("conditions", ())}

    def certificate(self) -> x509.Certificate:
        """Wait for the certificate."""
        wait_for(lambda: "certificate" in self.status(), f"a certificate: {self.status()}", seconds=SECONDS)
        return load_certificate(base64.b64decode(self.status()["certificate"]))

    def refused(self) -> tuple[str, str, str]:
        """Wait for a refusal; return its type, reason and message."""
        wait_for(lambda: self.conditions().keys() & {"Denied", "Failed"}, "a refusal", seconds=SECONDS)
        last = self.status()["conditions"][-1]
        assert "certificate" not in self.status()
        return last["type"], last["reason"], last["message"]


def asked(
    admin: Api,
    signer: str,
    server: str,
    *,
    site: str = "hard",
    sender: Api | None = None,
    pem: bytes | None = None,
    **spec: object,
) -> Request:
    """Ask a signer (``NAMESPACE.SITE``, or a whole name) for a server's certificate."""
    content = pem or new_request(Identity(site=site, kind=Kind.SERVER, name=server), new_key())
    told = {
        "signerName": signer if "/" in signer else f"{SIGNER}{signer}",
        "usages": list(USAGES),
        "request": base64.b64encode(content).decode(),
        **spec,
    }
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    body = {**head, "metadata": {"generateName": "harvest-agent-"}, "spec": told}
    return Request(admin, (sender or admin).post(REQUESTS, body)["metadata"]["name"])


def account(admin: Api, namespace: str, name: str, *roles: str) -> None:
    """Make a ServiceAccount that has ClusterRoles everywhere."""
    admin.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    for role in roles:
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-{name}-{role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        admin.apply_object(binding)


def may(admin: Api, user: str, rule: Mapping[str, Any], *, namespace: str = "") -> bool:
    """Tell whether the API server has taken up a right, everywhere or in a namespace."""
    resource, _, part = rule["resources"][0].partition("/")
    asking = {"group": rule["apiGroups"][0], "verb": rule["verbs"][-1], "resource": resource, "subresource": part}
    asking |= {"name": rule["resourceNames"][0]} if "resourceNames" in rule else {}
    asking |= {"namespace": namespace} if namespace else {}
    review = {"spec": {"user": user, "resourceAttributes": asking}}
    return bool(admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])


@contextmanager
def agent_on(plane: ControlPlane, namespace: str, name: str, node: str) -> Iterator[Api]:
    """Give the API as an agent's Pod on a node has it. Node and Pod are objects only; Kubernetes vouches for them."""
    admin = Api(plane.admin)
    admin.post("/api/v1/nodes", {"metadata": {"name": node}})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {
        "serviceAccountName": name,
        "nodeName": node,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "agent", "image": "images.example/agent:1"}],
    }
    try:
        pod = admin.post(pods, {"metadata": {"name": f"agent-{node}"}, "spec": spec})
        about = {"kind": "Pod", "apiVersion": "v1", "name": f"agent-{node}", "uid": pod["metadata"]["uid"]}
        yield Api(plane.account_kubeconfig(namespace, name, bound_to=about))
    finally:
        admin.delete(f"/api/v1/nodes/{node}")
