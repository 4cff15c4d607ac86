"""Requests for certificates as Kubernetes takes them: asked, vouched for, answered. Pure."""

import base64
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from harvest_cli.bundles import NOT_FOUND, BundleError
from harvest_pki.certificates import load_bundle, load_certificate
from harvest_pki.identities import Identity, Kind

Json = dict[str, Any]

USAGES: Final = ("digital signature", "client auth")
_SIGNER: Final = "harvestsites.lustreharvest.dev"
_CALLED: Final = {Kind.SERVER: "agent", Kind.RELAY: "relay"}


def request_for(namespace: str, holder: Identity, pem: bytes) -> Json:
    """Return the request as Kubernetes takes it."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": f"harvest-{_CALLED[holder.kind]}-"},
        "spec": {
            "signerName": f"{_SIGNER}/{namespace}.{holder.site}",
            "usages": list(USAGES),
            "request": base64.b64encode(pem).decode(),
        },
    }


def approved(request: Json, holder: Identity) -> Json:
    """Return a request that we vouch for."""
    called = _CALLED[holder.kind]
    vouched = {
        "type": "Approved",
        "status": "True",
        "reason": f"Harvest{called.capitalize()}Bundle",
        "message": f"made and approved by `harvest {called}-bundle`",
    }
    return {**request, "status": {"conditions": [*_conditions(request), vouched]}}


def is_approved(request: Json) -> bool:
    """Tell whether somebody vouched for it."""
    return any(one["type"] == "Approved" for one in _conditions(request))


def certificate_of(request: Json) -> bytes | None:
    """Return the certificate once it is there; say so if there will be none."""
    for one in _conditions(request):
        if one["type"] in {"Denied", "Failed"}:
            name = request["metadata"]["name"]
            said = f"{one.get('reason', '')}: {one.get('message', '')}"
            raise BundleError(f"request {name} was refused ({one['type'].lower()}, {said})", NOT_FOUND)
    found = (request.get("status") or {}).get("certificate")
    return base64.b64decode(found) if found else None


def is_of(certificate: bytes, cas: bytes) -> bool:
    """Tell whether a certificate is of one of these CAs: between two looks the site's may have been rotated."""
    read = load_certificate(certificate)
    return any(_issued(read, one) for one in load_bundle(cas))


def _issued(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _conditions(request: Json) -> list[Json]:
    return (request.get("status") or {}).get("conditions") or []
