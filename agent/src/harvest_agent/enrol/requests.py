"""What is asked of Kubernetes, and what its answers mean. Pure."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SITE: Final = re.compile(rf"({_LABEL})/({_LABEL})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The HarvestSite whose agent this is."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``NAMESPACE/NAME``; raises ValueError for anything else."""
        found = _SITE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not NAMESPACE/NAME of a HarvestSite, such as harvest/example")
        return cls(namespace=found[1], name=found[2])

    @property
    def signer(self) -> str:
        """Who is to sign, in the words of a CertificateSigningRequest."""
        return f"harvestsites.lustreharvest.dev/{self.namespace}.{self.name}"

    @property
    def public(self) -> str:
        """Where the operator puts what every agent of the site may know."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps/harvest-{self.name}-agents"


def request(site: Site, pem: bytes) -> dict[str, Any]:
    """Return the object that asks for a certificate."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "harvest-agent-"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": site.signer,
            "usages": ["digital signature", "client auth"],
        },
    }


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is decided yet."""

    text: str


@dataclass(frozen=True, slots=True)
class Issued:
    """Here is the certificate, as PEM."""

    certificate: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """This request will never get one; another may, once somebody has done what the text says."""

    reason: str
    text: str


def answer(found: Mapping[str, Any]) -> Waiting | Issued | Refused:
    """Return what a CertificateSigningRequest says; a refusal stands, whatever else it says."""
    status = found.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or () if one.get("status") != "False"}
    for kind in ("Denied", "Failed"):
        if kind in conditions:
            said = conditions[kind]
            return Refused(said.get("reason") or kind, said.get("message") or "no reason was given")
    if status.get("certificate"):
        try:
            return Issued(base64.b64decode(status["certificate"], validate=True))
        except (binascii.Error, ValueError, TypeError):
            return Refused("Unreadable", "the certificate in the request's status is no base64")
    if "Approved" in conditions:
        return Waiting("it is approved and not signed yet: does the site exist, and does the operator run?")
    return Waiting("nobody has approved it yet: does the operator run, with --agents for this ServiceAccount?")
