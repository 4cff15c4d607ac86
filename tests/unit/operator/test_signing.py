"""Which requests for certificates of agents and relays are approved, signed and refused."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from harvest_operator.minting import Mint
from harvest_operator.names import SIGNER
from harvest_operator.signing import Agents, Reply, is_open, reply, site_of
from harvest_pki.authorities import BACKDATED, Authority
from harvest_pki.certificates import load_bundle, serial_text
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.keys import new_key
from harvest_site.loading import checked
from harvest_site.model import Site
from support.sites_in_kubernetes import NOW, body_of
from unit.operator.asking import AGENTS, APPROVED, KEY, asking

SITE = checked(body_of("example"))
CA = Authority.create("example", key=new_key(), serial=1, now=NOW)
SERVER = "oss01"


def said(
    request: dict[str, Any],
    *,
    site: Site | None = SITE,
    issuer: Authority | None = CA,
    agents: Agents | None = Agents(AGENTS, ("harvest", "example")),  # noqa: B008 - it cannot change
) -> Reply | None:
    return reply(request, ("harvest", "example"), site, issuer=issuer, agents=agents, mint=Mint(), now=NOW)


def condition(found: Reply | None) -> tuple[str, str, str, str]:
    """Return part, type, reason and message of what was said last."""
    assert found is not None
    last = found.request["status"]["conditions"][-1]
    assert last["status"] == "True"
    assert last["lastUpdateTime"] == "2026-11-16T12:00:00Z"
    return found.part, last["type"], last["reason"], last["message"]


def test_what_was_approved_is_signed_as_the_aggregator_wants_it() -> None:
    found = said(asking(SERVER, APPROVED))
    assert found is not None
    assert (found.part, found.is_refusal) == ("status", False)
    assert found.issued is not None
    serial = serial_text(found.issued.serial_number)
    assert found.message == f"harvest:example:server:oss01 until 2027-02-14, serial {serial}"
    assert found.request["status"]["conditions"] == [APPROVED]
    (issued,) = load_bundle(base64.b64decode(found.request["status"]["certificate"]))
    assert identity_of(issued) == Identity(site="example", kind=Kind.SERVER, name=SERVER)
    assert issued.not_valid_after_utc - issued.not_valid_before_utc == timedelta(days=90) + BACKDATED
    assert issued.public_key() == KEY.public_key()
    assert not issued.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    issued.verify_directly_issued_by(CA.certificate)
    assert not is_open(found.request)


def test_nobody_but_who_may_approves() -> None:
    assert said(asking(SERVER)) is None
    assert said(asking(SERVER, node=SERVER)) is None, "somebody whose Pod is on that node"
    own = asking(SERVER, node=SERVER, user=AGENTS)
    assert said(own, agents=None) is None, "agents are not known to run here"
    assert said(own, agents=Agents(AGENTS, ("harvest", "other"))) is None, "they are another site's"


def test_an_agent_in_the_cluster_gets_the_certificate_of_its_own_node() -> None:
    asked = asking(SERVER, node=SERVER, user=AGENTS)
    found = said(asked)
    assert condition(found) == ("approval", "Approved", "OwnNode", "Kubernetes says that the agent runs on oss01")
    assert found is not None
    assert is_open(found.request)
    signed = said(dict(found.request))
    assert signed is not None
    assert "certificate" in signed.request["status"]


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"node": "oss02"}, "an agent asks for oss01, and runs on oss02"),
        ({}, "an agent asks for oss01, and runs nobody knows where: its token names no node"),
        ({"extra": {"authentication.kubernetes.io/node-name": ["oss01", "oss02"]}}, "runs on oss01, oss02"),
        ({"extra": {"authentication.kubernetes.io/node-name": []}}, "its token names no node"),
    ],
)
def test_an_agent_in_the_cluster_gets_nothing_for_another_node(extra: dict[str, Any], why: str) -> None:
    found = said(asking(SERVER, user=AGENTS, **extra))
    part, kind, reason, message = condition(found)
    assert (part, kind, reason) == ("approval", "Denied", "OtherNode")
    assert why in message
    assert found is not None
    assert found.is_refusal
    assert not is_open(found.request)


def test_an_agent_whose_request_cannot_be_read_is_denied() -> None:
    found = said(asking(SERVER, node=SERVER, user=AGENTS, usages=["server auth"]))
    assert condition(found)[:3] == ("approval", "Denied", "BadRequest")


def test_a_node_that_is_not_listed_is_denied_at_once() -> None:
    part, kind, reason, message = condition(said(asking("oss99", node="oss99", user=AGENTS)))
    assert (part, kind, reason) == ("approval", "Denied", "NotListed")
    assert message.startswith("oss99 is not listed in site example: add it")


def test_a_server_that_is_not_listed_is_refused_and_told_what_to_do() -> None:
    part, kind, reason, message = condition(said(asking("oss99", APPROVED)))
    assert (part, kind, reason) == ("status", "Failed", "NotListed")
    assert message.startswith("oss99 is not listed in site example: add it to the `servers` of a file system")


def test_the_agent_beside_slurm_is_listed_too() -> None:
    found = said(asking("vu-slurm1", APPROVED))
    assert found is not None
    assert "certificate" in found.request["status"]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (asking(SERVER, APPROVED, usages=["digital signature", "client auth", "server auth"]), "write digital signa"),
        (asking(SERVER, APPROVED, usages=[]), "the usages are "),
        (asking(SERVER, APPROVED, request="AAAA"), "the certificate request cannot be read"),
        (asking(SERVER, APPROVED, request="A"), "the request is not base64"),
        (asking(SERVER, APPROVED, site="other"), "asks for more than its name"),
    ],
)
def test_a_bad_request_is_refused(request_: dict[str, Any], why: str) -> None:
    part, kind, reason, message = condition(said(request_))
    assert (part, kind, reason) == ("status", "Failed", "BadRequest")
    assert why in message


def relay_said(name: str, *conditions: dict[str, str], **who: Any) -> Reply | None:  # noqa: ANN401 - as asking takes it
    """Return what the site of a cluster's head says to a relay."""
    asked = asking(name, *conditions, site="xe", kind=Kind.RELAY, **who)
    head = Authority.create("xe", key=new_key(), serial=1, now=NOW)
    key = "harvest", "xe"
    site = checked(body_of("cluster-head"))
    return reply(asked, key, site, issuer=head, agents=Agents(AGENTS, key), mint=Mint(), now=NOW)


def test_a_relay_that_is_accepted_gets_a_certificate_of_its_own_kind() -> None:
    found = relay_said("example", APPROVED)
    assert found is not None
    assert (found.part, found.reason) == ("status", "RelayCertificateIssued")
    (issued,) = load_bundle(base64.b64decode(found.request["status"]["certificate"]))
    assert identity_of(issued).text == "harvest:xe:relay:example"
    assert issued.not_valid_after_utc - issued.not_valid_before_utc == timedelta(days=90) + BACKDATED


@pytest.mark.parametrize(
    ("name", "reason", "why"),
    [
        ("nobody", "NotListed", "relay nobody is not listed in site xe: add it to `accepts`"),
        ("other", "OtherCa", "relay other is to come with a certificate of another CA: its own site issues it"),
    ],
)
def test_a_relay_that_would_not_be_let_in_is_refused(name: str, reason: str, why: str) -> None:
    found = relay_said(name, APPROVED)
    assert condition(found)[:3] == ("status", "Failed", reason)
    assert condition(found)[3].startswith(why)
    assert found is not None
    assert found.reason == "RelayRequestFailed"


def test_nobody_but_people_approves_relays() -> None:
    """Also where a node is called as a relay is: agents speak for nodes, and for nothing else."""
    assert relay_said("example") is None
    found = relay_said("example", node="example", user=AGENTS)
    assert condition(found) == ("approval", "Denied", "BadRequest", "an agent asks for the certificate of a relay")


def test_a_server_of_a_relays_name_is_no_relay() -> None:
    head = checked(body_of("cluster-head"))
    asked = asking("example", APPROVED, site="xe")
    found = reply(asked, ("harvest", "xe"), head, issuer=CA, agents=None, mint=Mint(), now=NOW)
    assert condition(found)[2] == "NotListed"


def test_without_a_site_there_is_no_certificate() -> None:
    expected = ("status", "Failed", "NoSite", "there is no site example in namespace harvest")
    assert condition(said(asking(SERVER, APPROVED), site=None)) == expected


def test_without_a_ca_it_waits() -> None:
    assert said(asking(SERVER, APPROVED), issuer=None) is None


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
def test_what_was_refused_is_over(kind: str) -> None:
    assert not is_open(asking(SERVER, APPROVED, {"type": kind, "status": "True"}))
    assert is_open(asking(SERVER, APPROVED))
    assert is_open(asking(SERVER))


@pytest.mark.parametrize(
    ("signer", "site"),
    [
        (f"{SIGNER}harvest.example", ("harvest", "example")),
        (f"{SIGNER}harvest", None),
        ("kubernetes.io/kube-apiserver-client", None),
        ("example.org/harvest.example", None),
        ("harvest.example", None),
    ],
)
def test_whose_signer_it_is(signer: str, site: tuple[str, str] | None) -> None:
    assert site_of(asking(SERVER, signerName=signer)) == site
