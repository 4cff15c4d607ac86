"""Which requests for certificates are approved, signed or refused. Pure: clock and randomness are arguments.

They are agents', or relays' of other sites. Whoever approves vouches that the sender is the one that it names: a person
with the right to, or, for agents that run as a DaemonSet, the operator itself, where Kubernetes vouches for the node on
which the sender runs.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509

from harvest_operator.agenda import SiteKey
from harvest_operator.conditions import MESSAGE_MAX, TRUE, timestamp
from harvest_operator.minting import Mint
from harvest_operator.names import SIGNER, Object
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, serial_text
from harvest_pki.errors import PkiError, shown
from harvest_pki.identities import Identity, Kind
from harvest_pki.keys import PublicKey
from harvest_pki.requests import requested
from harvest_site.model import Site
from harvest_site.views import servers_of, vouched_relays_of

USAGES: Final = ("digital signature", "client auth")
NODE_NAME: Final = "authentication.kubernetes.io/node-name"
"""What Kubernetes says of a token that is bound to a Pod: on which node the Pod is."""
APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"
_AGENT: Final = "Agent"
_EVENTS: Final = {Kind.SERVER: _AGENT, Kind.RELAY: "Relay"}
"""How the reasons of events begin; who did not say what it is, is taken for an agent."""


@dataclass(frozen=True, slots=True)
class Agents:
    """As whom the agents of a DaemonSet run, and of which site they are."""

    user: str
    site: SiteKey


@dataclass(frozen=True, slots=True)
class Reply:
    """A request as it is to be written: its part ``approval`` or ``status``; and what is said about it."""

    request: Object
    part: str
    reason: str
    message: str
    issued: x509.Certificate | None = None
    """What is given with it."""

    @property
    def is_refusal(self) -> bool:
        """Tell whether its sender gets no certificate."""
        return any(one["type"] in {DENIED, FAILED} for one in _conditions(self.request))


def site_of(request: Object) -> SiteKey | None:
    """Return the site of whose signer a certificate is asked for, if it is one of ours."""
    signer: str = request["spec"]["signerName"]
    namespace, dot, name = signer.removeprefix(SIGNER).partition(".")
    return (namespace, name) if signer.startswith(SIGNER) and dot else None


def is_open(request: Object) -> bool:
    """Tell whether something may still happen to a request."""
    said = {one["type"] for one in _conditions(request)}
    return not said & {DENIED, FAILED} and not (request.get("status") or {}).get("certificate")


def reply(
    request: Object,
    key: SiteKey,
    site: Site | None,
    *,
    issuer: Authority | None,
    agents: Agents | None,
    mint: Mint,
    now: datetime,
) -> Reply | None:
    """Return what is to be said about an open request for a certificate of a site; perhaps nothing yet.

    ``issuer`` is the site's CA: without it an approved request waits.
    """
    is_approved = any(one["type"] == APPROVED for one in _conditions(request))
    if not is_approved and (agents is None or agents != Agents(request["spec"].get("username", ""), key)):
        return None
    refused = FAILED if is_approved else DENIED
    if site is None:
        return _said(request, refused, "NoSite", f"there is no site {key[1]} in namespace {key[0]}", now)
    try:
        identity, public_key = _read(request, key)
    except PkiError as error:
        return _said(request, refused, "BadRequest", str(error), now)
    whose = _EVENTS[identity.kind]
    if (why := _why_not(identity, site, by_agent=not is_approved)) is not None:
        return _said(request, refused, *why, now, whose)
    if not is_approved:
        return _approval(request, identity.name, now)
    return None if issuer is None else _signed(request, identity, public_key, site, issuer, mint, now)


def _why_not(identity: Identity, site: Site, *, by_agent: bool) -> tuple[str, str] | None:
    """Return the reason for which the site's CA speaks for nobody of this name, and what to do."""
    name = identity.name
    if by_agent and identity.kind is not Kind.SERVER:
        return "BadRequest", f"an agent asks for the certificate of a {identity.kind}"
    if identity.kind is Kind.SERVER and name not in servers_of(site):
        where = "add it to the `servers` of a file system, or as a cluster's `slurm.server`, and ask again"
        return "NotListed", f"{name} is not listed in site {identity.site}: {where}"
    if identity.kind is Kind.RELAY and name not in vouched_relays_of(site):
        if any(one.name == name for one in site.spec.accepts):
            where = "its own site issues it, or `caSecretRef` is taken out of `accepts`"
            return "OtherCa", f"relay {name} is to come with a certificate of another CA: {where}"
        return "NotListed", f"relay {name} is not listed in site {identity.site}: add it to `accepts`, and ask again"
    return None


def _signed(
    request: Object,
    identity: Identity,
    public_key: PublicKey,
    site: Site,
    issuer: Authority,
    mint: Mint,
    now: datetime,
) -> Reply:
    lifetime = timedelta(seconds=site.spec.certificates.agent_lifetime_seconds)
    issued = issuer.issue(identity, public_key, serial=mint.serial(), now=now, lifetime=lifetime)
    written = base64.b64encode(bundle_pem([issued])).decode()
    said = f"{identity.text} until {issued.not_valid_after_utc:%Y-%m-%d}, serial {serial_text(issued.serial_number)}"
    reason = f"{_EVENTS[identity.kind]}CertificateIssued"
    return Reply(_with(request, certificate=written), "status", reason, said, issued)


def _approval(request: Object, name: str, now: datetime) -> Reply:
    """Approve what an agent asks for its own node, and nothing else."""
    nodes: Sequence[str] = (request["spec"].get("extra") or {}).get(NODE_NAME) or []
    if list(nodes) == [name]:
        return _said(request, APPROVED, "OwnNode", f"Kubernetes says that the agent runs on {name}", now)
    where = f"on {', '.join(map(shown, nodes))}" if nodes else "nobody knows where: its token names no node"
    return _said(request, DENIED, "OtherNode", f"an agent asks for {name}, and runs {where}", now)


def _read(request: Object, key: SiteKey) -> tuple[Identity, PublicKey]:
    usages = request["spec"].get("usages") or []
    if sorted(usages) != sorted(USAGES):
        raise PkiError(f"the usages are {', '.join(map(shown, usages))}: write {', '.join(USAGES)}")
    try:
        data = base64.b64decode(request["spec"]["request"])
    except binascii.Error as error:
        raise PkiError("the request is not base64") from error
    return requested(data, key[1])


def _said(request: Object, kind: str, reason: str, message: str, now: datetime, whose: str = _AGENT) -> Reply:
    condition = {
        "type": kind,
        "status": TRUE,
        "reason": reason,
        "message": message[:MESSAGE_MAX],
        "lastUpdateTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
    }
    told = _with(request, conditions=[*_conditions(request), condition])
    return Reply(told, "status" if kind == FAILED else "approval", f"{whose}Request{kind}", f"{reason}: {message}")


def _with(request: Object, **status: object) -> Object:
    return {**request, "status": {**(request.get("status") or {}), **status}}


def _conditions(request: Object) -> list[dict[str, Any]]:
    return (request.get("status") or {}).get("conditions") or []
