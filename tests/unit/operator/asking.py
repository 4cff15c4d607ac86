"""Requests for certificates as Kubernetes would hand them out."""

import base64
from typing import Any

from harvest_operator.names import SIGNER
from harvest_operator.signing import NODE_NAME, USAGES
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import new_key
from harvest_pki.requests import new_request

KEY = new_key()
AGENTS = "system:serviceaccount:harvest-agents:agent"
APPROVED = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "it is mine"}


def asking(
    name: str,
    *conditions: dict[str, str],
    site: str = "example",
    node: str | None = None,
    user: str = "ada",
    label: str = "one",
    kind: Kind = Kind.SERVER,
    **spec: object,
) -> dict[str, Any]:
    """Return a request for a certificate; ``node`` is what Kubernetes says of its sender."""
    pem = new_request(Identity(site=site, kind=kind, name=name), KEY)
    told = {
        "signerName": f"{SIGNER}harvest.{site}",
        "usages": list(USAGES),
        "request": base64.b64encode(pem).decode(),
        "username": user,
        **({} if node is None else {"extra": {NODE_NAME: [node]}}),
        **spec,
    }
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": label},
        "spec": told,
        "status": {"conditions": list(conditions)} if conditions else {},
    }
