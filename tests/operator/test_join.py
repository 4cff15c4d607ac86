"""Servers join a site of a real API server, with tokens that somebody with few rights has made."""

import base64
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harvest_agent.joining.client import Address, AwayError, RefusedError, renew, trusted_now
from harvest_cli.__main__ import main
from harvest_pki.certificates import load_bundle, load_certificate, serial_text
from harvest_pki.checks import issued_by
from harvest_pki.folders import read_tls
from harvest_pki.identities import identity_of
from harvest_pki.keys import load_key, new_key
from support.agents_in_kubernetes import account, may
from support.chart import reasons
from support.forked_operators import ForkedOperator, allowed
from support.joining import Joined
from support.kubernetes.control_plane import ControlPlane
from support.processes import wait_for
from support.scenes import SECONDS, Scene

RULES = [rule for _, rule in reasons("join.yaml")]


@pytest.fixture
def operator(control_plane: ControlPlane, space: str, tmp_path: Path) -> ForkedOperator:
    """Give an operator with the chart's rights at which servers can join."""
    return ForkedOperator(allowed(control_plane, space), tmp_path / "operator.log", space, join="127.0.0.1:0")


@pytest.fixture
def person(control_plane: ControlPlane, scene: Scene) -> Iterator[Path]:
    """Give the kubeconfig of somebody with the chart's role for making tokens, and no other right."""
    role = f"{scene.namespace}-tokens"
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    scene.api.apply_object({**head, "metadata": {"name": role}, "rules": RULES})
    account(scene.api, scene.namespace, "ada", role)
    user = f"system:serviceaccount:{scene.namespace}:ada"
    wait_for(lambda: all(may(scene.api, user, rule) for rule in RULES), "the rights", seconds=SECONDS)
    yield control_plane.account_kubeconfig(scene.namespace, "ada")
    scene.api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")


def logged(operator: ForkedOperator, event: str) -> list[dict[str, object]]:
    lines = operator.log.read_text().splitlines() if operator.log.exists() else []
    return [said for line in lines if line.endswith("}") and (said := json.loads(line))["event"] == event]


def address_of(operator: ForkedOperator) -> str:
    """Return where servers join, once they may."""
    wait_for(lambda: logged(operator, "servers may join"), "a port", seconds=SECONDS)
    return f"127.0.0.1:{logged(operator, 'servers may join')[-1]['port']}"


def issued(scene: Scene) -> list[list[str]]:
    """Return what was noted of certificates that were given: serial, end, kind and name."""
    found = scene.api.get(f"/api/v1/namespaces/{scene.namespace}/secrets/harvest-{scene.name}-issued")
    return [line.split() for line in base64.b64decode(found["data"]["issued"]).decode().splitlines()]


def test_a_server_joins_renews_and_is_cut_off(
    served: Scene, operator: ForkedOperator, person: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = address_of(operator)
    here = ("--namespace", served.namespace, "--kubeconfig", str(person))
    assert main(["token", "create", "hard", "oss[1-2]", *here]) == 0
    first, second = capsys.readouterr().out.split()
    assert main(["token", "create", "hard", "oss9", *here]) == 1
    assert "oss9 is not listed" in capsys.readouterr().err

    server = Joined(tmp_path / "oss1")
    ran = server.join(address, first)
    assert ran.returncode == 0, ran.stderr
    tls = read_tls(server.tls)
    certificate = load_certificate(tls.certificate)
    assert identity_of(certificate).text == "harvest:hard:server:oss1"
    agents = served.children()["ConfigMap", "harvest-hard-agents"]["data"]
    (ca,) = trusted = load_bundle(agents["ca.crt"].encode())
    assert load_bundle(tls.ca) == trusted
    assert issued_by(certificate, ca)
    (uplink,) = tomllib.loads(server.config.read_text())["uplink"]
    assert uplink["server_name"] == "main.hard.harvest"
    assert uplink["address"].startswith("127.0.0.1:")  # any node: the one where it has joined

    other = Joined(tmp_path / "other")
    again = other.join(address, first)
    assert (again.returncode, "was used already" in again.stderr) == (2, True)
    stolen = other.join(address, second.replace(":oss2:", ":oss1:"))
    assert (stolen.returncode, "is for server oss2" in stolen.stderr) == (2, True)
    secrets = served.api.get(f"/api/v1/namespaces/{served.namespace}/secrets")
    assert not any(token.split(":")[3] in json.dumps(secrets) for token in (first, second))

    def renewed() -> int:
        made, _ = renew(Address.parse(address), tls.certificate, load_key(tls.key), new_key(), trusted)
        return made.serial_number

    other_serial = renewed()
    assert other_serial != certificate.serial_number
    noted = [[serial, kind, name] for serial, _, kind, name in issued(served)]
    serials = [serial_text(one) for one in (certificate.serial_number, other_serial)]
    assert noted == [[serial, "server", "oss1"] for serial in serials]
    served.annotate(rotate_ca="new")

    def follows() -> bool:
        return len(trusted_now(Address.parse(address), "hard", trusted)) > 1

    wait_for(follows, "the new CA", seconds=SECONDS)
    made, answer = renew(Address.parse(address), tls.certificate, load_key(tls.key), new_key(), trusted)
    assert not issued_by(made, ca)
    assert len(load_bundle(answer.ca)) == 2
    served.edit(filesystems=[{"name": "home", "servers": ["oss[2-4]"]}, {"name": "work", "servers": ["oss5"]}])

    def cut_off() -> bool:
        try:
            renewed()
        except RefusedError as error:
            return "oss1 is not listed" in str(error)
        except AwayError:  # it has renewed often enough; who is not listed hears that first
            return False
        return False

    wait_for(cut_off, "the server to be refused", seconds=SECONDS)
    assert logged(operator, "a server joined")


def test_while_the_ca_is_broken_nobody_joins_or_renews_and_all_is_well_once_it_is_mended(
    served: Scene, operator: ForkedOperator, person: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = address_of(operator)
    here = ("--namespace", served.namespace, "--kubeconfig", str(person))
    assert main(["token", "create", "hard", "oss[1-2]", *here]) == 0
    first, second = capsys.readouterr().out.split()
    server = Joined(tmp_path / "oss1")
    ran = server.join(address, first)
    assert ran.returncode == 0, ran.stderr
    tls = read_tls(server.tls)
    trusted, at = load_bundle(tls.ca), Address.parse(address)

    def answers() -> bool:
        try:
            return trusted_now(at, "hard", trusted) == trusted
        except AwayError:
            return False

    secret = f"/api/v1/namespaces/{served.namespace}/secrets/harvest-hard-ca"
    whole = served.api.get(secret)["data"]["tls.key"]
    served.api.patch(secret, {"data": {"tls.key": "eA=="}})
    wait_for(lambda: not answers(), "the CA to be seen as it is", seconds=SECONDS)
    with pytest.raises(AwayError, match="the CA cannot answer now"):
        renew(at, tls.certificate, load_key(tls.key), new_key(), trusted)

    def told() -> bool:
        conditions = served.status()["conditions"]
        return any((one["type"], one["reason"]) == ("CertificatesValid", "CaUnusable") for one in conditions)

    wait_for(told, "a condition that says so", seconds=SECONDS)
    waiting = Joined(tmp_path / "oss2")
    ran = waiting.join(address, second)
    assert (ran.returncode, "the CA cannot answer now" in ran.stderr) == (2, True)
    reasons = [str(said["reason"]) for said in logged(operator, "joining is in trouble")]
    assert reasons
    assert all("secret/harvest-hard-ca is no CA that can be used" in reason for reason in reasons)
    served.api.patch(secret, {"data": {"tls.key": whole}})
    wait_for(answers, "the CA to be seen as it was", seconds=SECONDS)
    renew(at, tls.certificate, load_key(tls.key), new_key(), trusted)
    ran = waiting.join(address, second)
    assert ran.returncode == 0, ran.stderr


def test_one_certificate_is_denied_by_the_serial_that_was_noted_and_the_next_one_is_not(
    served: Scene, operator: ForkedOperator, person: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for(lambda: logged(operator, "servers may join"), "a port", seconds=SECONDS)
    at = Address.parse(f"127.0.0.1:{logged(operator, 'servers may join')[-1]['port']}")
    here = ("--namespace", served.namespace, "--kubeconfig", str(person))
    assert main(["token", "create", "hard", "oss1", *here]) == 0
    server = Joined(tmp_path / "oss1")
    ran = server.join(at.text, capsys.readouterr().out.strip())
    assert ran.returncode == 0, ran.stderr
    tls, key = read_tls(server.tls), new_key()
    trusted = load_bundle(tls.ca)
    _, answer = renew(at, tls.certificate, load_key(tls.key), key, trusted)
    stolen, _, _, name = issued(served)[0]
    assert name == "oss1"
    served.edit(certificates={"denySerials": [stolen]})

    wanted = served.api.get(served.path)["metadata"]["generation"]
    wait_for(lambda: served.status()["observedGeneration"] == wanted, "the edit to be seen", seconds=SECONDS)
    with pytest.raises(RefusedError, match="is denied by `denySerials`"):
        renew(at, tls.certificate, load_key(tls.key), new_key(), trusted)
    again, _ = renew(at, answer.certificate, key, new_key(), trusted)
    assert serial_text(again.serial_number) == issued(served)[-1][0]
