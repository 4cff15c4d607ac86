"""What a server's agent needs to join a site in Kubernetes, from what the site says. Pure."""

import base64
import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from harvest_pki.certificates import load_bundle, load_certificate
from harvest_pki.identities import Identity, Kind
from harvest_site.model import Site
from harvest_site.views import aggregators_for, servers_of, slurm_agents_of

Json = dict[str, Any]

NOT_FOUND, WRONG, NO_ANSWER = 1, 2, 3
HOME: Final = "/etc/harvest-agent"
"""Where the files belong on the server."""
ROLE: Final = "harvest-agent-bundle"
USAGES: Final = ("digital signature", "client auth")
_SIGNER: Final = "harvestsites.lustreharvest.dev"
_ENDPOINT: Final = re.compile(r"(?:([a-z0-9-]{1,63})=)?((?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5})")
_ANY_NODE: Final = "ANY-NODE:"
_NEAR: Final = 5


class BundleError(Exception):
    """There is no bundle; the message says why and what to do, ``code`` is the command's exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Uplink:
    """One aggregator, as it is reached from outside the cluster."""

    aggregator: str
    address: str


def parse_endpoints(texts: Iterable[str]) -> dict[str, str]:
    """Read ``[AGGREGATOR=]HOST:PORT``; the one without a name stands for all."""
    found: dict[str, str] = {}
    for text in texts:
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            raise BundleError(f"{text!r} is no endpoint: write HOST:PORT, or AGGREGATOR=HOST:PORT", WRONG)
        found[match[1] or ""] = match[2]
    return found


def no_such_site(name: str, namespace: str, sites: Sequence[tuple[str, str]]) -> BundleError:
    """Say that a site is not there, and which are: ``sites`` are namespaces and names."""
    here = [other for space, other in sites if space == namespace]
    elsewhere = [space for space, other in sites if other == name]
    if elsewhere:
        hint = f": it is in {', '.join(elsewhere[:_NEAR])}, so write --namespace {elsewhere[0]}"
    elif near := difflib.get_close_matches(name, here, 1):
        hint = f": did you mean {near[0]}?"
    elif here:
        hint = f": there are {', '.join(here[:_NEAR])}"
    else:
        hint = ", and no other that you may see: `kubectl get hs --all-namespaces`"
    return BundleError(f"there is no site {name} in namespace {namespace}{hint}", NOT_FOUND)


def check_listed(site: Site, server: str) -> None:
    """Refuse a server that would not be let in."""
    names = servers_of(site)
    if server in names:
        return
    near = difflib.get_close_matches(server, names, 1) or [
        name for name in sorted(names) if name.partition(".")[0] == server.partition(".")[0]
    ]
    hint = f"did you mean {near[0]}? Else add" if near else "add"
    raise BundleError(
        f"{server} is not listed in site {site.name}: {hint} it to the `servers` of a file system, or as a cluster's "
        "`slurm.server`, and apply the site",
        NOT_FOUND,
    )


def uplinks_of(site: Site, status: Mapping[str, Any], server: str, given: Mapping[str, str]) -> list[Uplink]:
    """Return how the agent of a server reaches every aggregator that wants to hear of it."""
    told = {line["name"]: line.get("endpoint", "") for line in status.get("aggregators") or ()}
    wanting = [one.name for one in aggregators_for(site, server)]
    if unknown := sorted(given.keys() - {"", *wanting}):
        raise BundleError(
            f"{unknown[0]} is no aggregator of site {site.name} that {server} reports to: {', '.join(wanting)}", WRONG
        )
    if "" in given and len(wanting) > 1:
        raise BundleError(
            f"{server} reports to several aggregators: write --endpoint AGGREGATOR=HOST:PORT for each of "
            f"{', '.join(wanting)}",
            WRONG,
        )
    return [Uplink(name, given.get(name) or given.get("") or _outside(name, told.get(name, ""))) for name in wanting]


def _outside(name: str, endpoint: str) -> str:
    """Return where an aggregator is reached from outside, as the site's status says."""
    if endpoint.startswith(_ANY_NODE):
        port = endpoint.removeprefix(_ANY_NODE)
        raise BundleError(
            f"aggregator {name} is reached at port {port} of any node: write --endpoint {name}=NODE:{port}, or put the "
            "address into the site's service.hostnames",
            WRONG,
        )
    if endpoint.rpartition(":")[0].endswith(".svc"):
        raise BundleError(
            f"aggregator {name} has a Service for the inside of the cluster only ({endpoint}): write --endpoint "
            f"{name}=HOST:PORT if it is reached otherwise, or give its service the type NodePort or LoadBalancer",
            WRONG,
        )
    if not endpoint:
        raise BundleError(
            f"nobody knows yet where aggregator {name} is reached: look at `kubectl describe hs`, or write --endpoint "
            f"{name}=HOST:PORT",
            NO_ANSWER,
        )
    return endpoint


def config_of(site: Site, server: str, uplinks: Iterable[Uplink]) -> str:
    """Write the agent's configuration."""
    lines = [
        f"# The agent of {server}, site {site.name}. All four files belong into {HOME}; only root may read tls.key.",
        "[agent]",
        f"name = {json.dumps(server)}",
    ]
    for one in uplinks:
        name = Identity(site=str(site.name), kind=Kind.AGGREGATOR, name=one.aggregator).text
        lines += ["", "[[uplink]]", f"address = {json.dumps(one.address)}", f"server_name = {json.dumps(name)}"]
        lines += [
            f'{key} = "{HOME}/{file}"' for key, file in (("ca", "ca.crt"), ("cert", "tls.crt"), ("key", "tls.key"))
        ]
    if server in slurm_agents_of(site).values():
        lines += [
            "",
            "# It reports a cluster's jobs: see docs/reference/agent.md for where Slurm's commands are.",
            "[slurm]",
        ]
    return "\n".join(lines) + "\n"


def request_for(namespace: str, site: str, pem: bytes) -> Json:
    """Return the request as Kubernetes takes it."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "harvest-agent-"},
        "spec": {
            "signerName": f"{_SIGNER}/{namespace}.{site}",
            "usages": list(USAGES),
            "request": base64.b64encode(pem).decode(),
        },
    }


def approved(request: Json) -> Json:
    """Return a request that we vouch for."""
    vouched = {
        "type": "Approved",
        "status": "True",
        "reason": "HarvestAgentBundle",
        "message": "made and approved by `harvest agent-bundle`",
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
