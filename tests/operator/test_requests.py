"""Agents' certificates are asked for with requests of Kubernetes: who gets one, and who does not."""

import base64
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from harvest_operator.names import SIGNER
from harvest_pki.authorities import BACKDATED
from harvest_pki.certificates import load_bundle
from harvest_pki.identities import identity_of
from harvest_pki.keys import new_key
from support.agents_in_kubernetes import account, agent_on, asked, may
from support.chart import reasons
from support.forked_operators import ForkedOperator, allowed, working
from support.kubernetes.api import Api, ApiError
from support.kubernetes.control_plane import ControlPlane
from support.processes import wait_for
from support.proxy import before
from support.scenes import SECONDS, Scene, site

AGENT = "agent"
ASKING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "harvest-tests-asking"},
    "rules": [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]},
    ],
}


@pytest.fixture
def node() -> str:
    """Give the name of a node, and of a server: nodes belong to no namespace."""
    return f"node-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def agents(admin: Api, space: str) -> str:
    """Give the ServiceAccount of agents, which may ask for certificates."""
    admin.apply_object(ASKING)
    account(admin, space, AGENT, ASKING["metadata"]["name"])  # type: ignore[index]
    return f"{space}:{AGENT}={space}/hard"


@pytest.fixture
def knowing(control_plane: ControlPlane, space: str, tmp_path: Path, agents: str) -> ForkedOperator:
    """Give an operator that knows as whom agents run."""
    return ForkedOperator(allowed(control_plane, space), tmp_path / "operator.log", space, agents=agents)


@pytest.fixture
def noded(scene: Scene, knowing: ForkedOperator, node: str) -> Iterator[Scene]:
    """Give a site with a server that is a node of the cluster."""
    work = site(scene.name)["spec"]["filesystems"][1]
    scene.put(filesystems=[{"name": "home", "servers": ["oss1", node]}, work])
    with working(knowing):
        scene.settle("the site")
        yield scene


def trusted(scene: Scene) -> list[x509.Certificate]:
    """Return the CAs that agents in the cluster are told to trust."""
    found = scene.children()["ConfigMap", f"harvest-{scene.name}-agents"]
    return list(load_bundle(found["data"]["ca.crt"].encode()))


def events(scene: Scene) -> dict[str, str]:
    """Return reasons and types of what people were told about the site."""
    found = scene.api.get(f"/api/v1/namespaces/{scene.namespace}/events")["items"]
    return {one["reason"]: one["type"] for one in found}


def test_what_a_person_approves_is_signed(served: Scene) -> None:
    request = asked(served.api, f"{served.namespace}.hard", "oss3")
    waits = asked(served.api, f"{served.namespace}.hard", "oss4")
    certificate = request.approve().certificate()
    assert identity_of(certificate).text == "harvest:hard:server:oss3"
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(days=90) + BACKDATED
    (ca,) = trusted(served)
    certificate.verify_directly_issued_by(ca)
    assert waits.status() == {}, "nobody vouched for it"
    wait_for(lambda: "AgentCertificateIssued" in events(served), "an event", seconds=SECONDS)


def signed(subject: str, *names: x509.GeneralName) -> bytes:
    builder = x509.CertificateSigningRequestBuilder()
    builder = builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_who_is_not_listed_or_asks_for_more_is_refused_for_good(served: Scene) -> None:
    signer = f"{served.namespace}.hard"
    uri, other = (x509.UniformResourceIdentifier(f"harvest:hard:server:{name}") for name in ("oss1", "oss2"))
    refused = {
        "NotListed": [asked(served.api, signer, "oss9")],
        "BadRequest": [
            asked(served.api, signer, "", pem=signed("oss1", uri, other)),
            asked(served.api, signer, "", pem=signed("oss1", x509.DNSName("main.hard.harvest"))),
            asked(served.api, signer, "", pem=signed("oss1", other)),
            asked(served.api, signer, "oss1", site="other"),
            asked(served.api, signer, "oss1", usages=["digital signature", "client auth", "server auth"]),
        ],
    }
    for reason, requests in refused.items():
        for request in requests:
            request.approve()
            assert request.refused()[:2] == ("Failed", reason)
    assert "add it to the `servers`" in refused["NotListed"][0].refused()[2]
    wait_for(lambda: events(served).get("AgentRequestFailed") == "Warning", "an event", seconds=SECONDS)
    served.edit(filesystems=[{"name": "home", "servers": ["oss[1-9]"]}, {"name": "work", "servers": ["oss5"]}])
    asked(served.api, signer, "oss9").approve().certificate()
    assert "certificate" not in refused["NotListed"][0].status()


def test_requests_of_others_are_left_alone(served: Scene, admin: Api) -> None:
    """Another signer's, and those of a site in a namespace that this operator does not serve."""
    elsewhere = f"other-{served.namespace}"
    admin.post("/api/v1/namespaces", {"metadata": {"name": elsewhere}})
    try:
        Scene(admin, elsewhere, "hard").put()
        foreign = [
            asked(admin, "example.org/harvest.hard", "oss1").approve(),
            asked(admin, f"example.org/{served.namespace}.hard", "oss1").approve(),
            asked(admin, f"{elsewhere}.hard", "oss1").approve(),
            asked(admin, f"{elsewhere}.nothing", "oss1").approve(),
        ]
        nobody = asked(admin, f"{served.namespace}.nothing", "oss1", site="nothing").approve()
        assert nobody.refused()[:2] == ("Failed", "NoSite")
        asked(admin, f"{served.namespace}.hard", "oss1").approve().certificate()
        assert [request.conditions() for request in foreign] == [{"Approved": "Test"}] * 4
        assert not any("certificate" in request.status() for request in foreign)
    finally:
        admin.delete(f"/api/v1/namespaces/{elsewhere}")


@pytest.mark.parametrize("path", ["a/b.c", "a/../../b.c", "..", "a.B", ".a", "a%2fb.c"])
def test_the_name_of_a_signer_leads_nowhere_but_to_a_site(admin: Api, path: str) -> None:
    """Namespace and site of a signer become parts of paths that the operator asks for: Kubernetes takes plain names."""
    with pytest.raises(ApiError, match=r"spec\.signerName"):
        asked(admin, f"{SIGNER}{path}", "oss1")


def test_an_agent_in_a_pod_gets_the_certificate_of_its_own_node(
    control_plane: ControlPlane, noded: Scene, node: str
) -> None:
    signer = f"{noded.namespace}.hard"
    with agent_on(control_plane, noded.namespace, AGENT, node) as pod:
        own = asked(noded.api, signer, node, sender=pod)
        assert identity_of(own.certificate()).name == node
        assert own.conditions() == {"Approved": "OwnNode"}
        assert asked(noded.api, signer, "oss1", sender=pod).refused()[:2] == ("Denied", "OtherNode")
        person = asked(noded.api, signer, node)
        unlisted = f"{node}-more"
        with agent_on(control_plane, noded.namespace, AGENT, unlisted) as other:
            assert asked(noded.api, signer, node, sender=other).refused()[:2] == ("Denied", "OtherNode")
            assert asked(noded.api, signer, unlisted, sender=other).refused()[:2] == ("Denied", "NotListed")
    assert person.status() == {}, "a person is no agent"
    unbound = Api(control_plane.account_kubeconfig(noded.namespace, AGENT))
    kind, reason, message = asked(noded.api, signer, node, sender=unbound).refused()
    assert (kind, reason) == ("Denied", "OtherNode")
    assert "its token names no node" in message


def test_what_happened_while_the_operator_was_away_is_made_up_for(served: Scene, operator: ForkedOperator) -> None:
    operator.kill()
    operator.wait()
    request = asked(served.api, f"{served.namespace}.hard", "oss1").approve()
    operator.start()
    request.certificate()


def test_killed_between_approving_and_signing_the_next_one_signs(
    control_plane: ControlPlane, scene: Scene, agents: str, node: str, tmp_path: Path
) -> None:
    with before(control_plane.server, control_plane.credentials.ca.certificate) as proxy:
        kubeconfig = allowed(control_plane, scene.namespace, server=proxy.url)
        operator = ForkedOperator(kubeconfig, tmp_path / "operator.log", scene.namespace, agents=agents)
        scene.put(filesystems=[{"name": "home", "servers": [node]}, {"name": "work", "servers": ["oss5"]}])

        def written() -> None:
            if proxy.writes[-1][1].endswith("/approval"):
                operator.kill()

        proxy.written = written
        operator.start()
        scene.settle("the site")
        with agent_on(control_plane, scene.namespace, AGENT, node) as pod:
            request = asked(scene.api, f"{scene.namespace}.hard", node, sender=pod)
            wait_for(lambda: not operator.is_alive(), "the end of the operator", seconds=SECONDS)
            operator.wait()
            assert (request.conditions(), "certificate" in request.status()) == ({"Approved": "OwnNode"}, False)
        with working(operator):
            request.certificate()
        assert sum(path.endswith(f"{request.name}/approval") for _, path in proxy.writes) == 1


def test_during_a_rotation_agents_are_told_of_both_cas_and_get_certificates_of_the_new_one(served: Scene) -> None:
    (old,) = trusted(served)
    served.annotate(rotate_ca="2026-11")
    wait_for(lambda: len(trusted(served)) == 2, "both CAs", seconds=SECONDS)
    new, also = trusted(served)
    assert also == old
    asked(served.api, f"{served.namespace}.hard", "oss1").approve().certificate().verify_directly_issued_by(new)
    served.annotate(finish_ca_rotation="2026-11")
    wait_for(lambda: trusted(served) == [new], "the new CA alone", seconds=SECONDS)


def test_a_ca_that_the_site_brings_signs_too(served: Scene) -> None:
    asked(served.api, f"{served.namespace}.hard", "oss1").approve().certificate()
    stored = served.children()["Secret", "harvest-hard-ca"]["data"]
    own = {"metadata": {"name": "own"}, "data": {name: stored[name] for name in ("tls.crt", "tls.key")}}
    served.api.post(f"/api/v1/namespaces/{served.namespace}/secrets", own)
    served.edit(certificates={"caSecretRef": {"name": "own"}, "agentLifetime": "2d"})
    wait_for(lambda: lifetime(served) == timedelta(days=2) + BACKDATED, "a shorter life", seconds=SECONDS)
    (ca,) = load_bundle(base64.b64decode(stored["tls.crt"]))
    assert trusted(served) == [ca]


def lifetime(scene: Scene) -> timedelta:
    certificate = asked(scene.api, f"{scene.namespace}.hard", "oss1").approve().certificate()
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc


RULES = {
    " ".join([*rule["resources"], *rule["verbs"]]): rule
    for _, rule in reasons()
    if rule["apiGroups"] == ["certificates.k8s.io"]
}


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("certificatesigningrequests list watch", 'cannot list resource "certificatesigningrequests"'),
        ("certificatesigningrequests/status update", 'cannot update resource "certificatesigningrequests/status"'),
        ("certificatesigningrequests/approval update", 'cannot update resource "certificatesigningrequests/approval"'),
        ("signers approve", "user not permitted to approve requests with signerName"),
        ("signers sign", "user not permitted to sign requests with signerName"),
    ],
)
def test_a_right_that_is_missing_is_told_and_stops_nothing_but_certificates_of_agents(
    control_plane: ControlPlane, scene: Scene, agents: str, node: str, tmp_path: Path, rule: str, complaint: str
) -> None:
    kubeconfig = allowed(control_plane, scene.namespace, without=RULES[rule])
    operator = ForkedOperator(kubeconfig, tmp_path / "operator.log", scene.namespace, agents=agents)
    scene.put(filesystems=[{"name": "home", "servers": [node]}, {"name": "work", "servers": ["oss5"]}])
    with working(operator), agent_on(control_plane, scene.namespace, AGENT, node) as pod:
        scene.settle("the site")
        request = asked(scene.api, f"{scene.namespace}.hard", node, sender=pod)
        wait_for(lambda: complaint in scene.ready()["message"], "a word about it", seconds=SECONDS)
        assert (scene.ready()["status"], scene.ready()["reason"]) == ("False", "Refused")
        assert complaint.replace('"', '\\"') in operator.log.read_text()
        allowed(control_plane, scene.namespace)
        user = f"system:serviceaccount:{scene.namespace}:{scene.namespace}"
        wait_for(lambda: may(scene.api, user, RULES[rule]), "the right", seconds=SECONDS)
        scene.annotate(look="again")
        request.certificate()
        wait_for(lambda: scene.ready()["reason"] != "Refused", "no word about it", seconds=SECONDS)
