"""`harvest agent-bundle` and `relay-bundle` as people with few rights run them: what they make is let in, no other."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.processes import free_port
from harvest_cli.__main__ import main
from harvest_pki.authorities import BACKDATED
from harvest_pki.certificates import belongs, load_bundle, load_certificate
from harvest_pki.files import read_key
from harvest_pki.folders import read_tls
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.keys import load_key, new_key
from harvest_pki.requests import new_request
from support.agents_in_kubernetes import REQUESTS, Request, account, asked, may
from support.chart import reasons
from support.forked_operators import ForkedOperator, allowed
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.operators import path_of
from support.pods import Container
from support.processes import wait_for
from support.scenes import SECONDS, Scene

RULES = {"/".join(rule["resources"]): rule for _, rule in reasons("agent-bundle.yaml")}
ENDPOINT = ("--endpoint", "harvest.example:30023")


def person(plane: ControlPlane, scene: Scene, without: str | None = None) -> Path:
    """Give the kubeconfig of somebody with the chart's role for this, or with all of it but one rule."""
    rules = [rule for name, rule in RULES.items() if name != without]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    role = f"{scene.namespace}-people"
    scene.api.apply_object({**head, "metadata": {"name": role}, "rules": rules})
    account(scene.api, scene.namespace, "ada", role)
    user = f"system:serviceaccount:{scene.namespace}:ada"
    wait_for(lambda: all(may(scene.api, user, rule) for rule in rules), "the rights", seconds=SECONDS)
    return plane.account_kubeconfig(scene.namespace, "ada")


def bundle(scene: Scene, kubeconfig: Path, folder: Path, *more: str, site: str = "hard", server: str = "oss1") -> int:
    here = ("--namespace", scene.namespace, "--kubeconfig", str(kubeconfig), "--out", str(folder))
    return main(["agent-bundle", site, server, *here, *more])


def test_a_real_agent_is_let_in_with_its_bundle_and_no_other_name_is(
    control_plane: ControlPlane, served: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The aggregator runs as its Deployment says, and reads what the operator made."""
    grpc, http = free_port(), free_port()
    folder = tmp_path / "oss1"
    assert bundle(served, person(control_plane, served), folder, "--endpoint", f"127.0.0.1:{grpc}") == 0
    said = capsys.readouterr()
    assert f"{folder} has all that the agent of oss1 needs" in said.out
    assert "asked for a certificate with request harvest-agent-" in said.err
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"agent.toml": 0o644, "ca.crt": 0o644, "tls.crt": 0o644, "tls.key": 0o600}
    certificate = load_certificate((folder / "tls.crt").read_bytes())
    assert belongs(load_key(read_key(folder / "tls.key")), certificate)
    assert identity_of(certificate).text == "harvest:hard:server:oss1"
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(days=90) + BACKDATED
    (ca,) = load_bundle((folder / "ca.crt").read_bytes())
    certificate.verify_directly_issued_by(ca)

    objects = {
        **served.children(),
        ("Secret", "influx"): served.api.get(path_of(served.namespace, ("Secret", "influx"))),
    }
    pod = tmp_path / "pod"
    pod.mkdir()
    deployment = objects["Deployment", "harvest-hard-main"]
    aggregator = Container(deployment, "aggregator", pod, {"[::]:8024": f"[::]:{http}"})
    aggregator.mount(objects)
    running = aggregator.start("--grpc", f"127.0.0.1:{grpc}")
    try:
        assert "uplink.connected" in agent_log(folder, tmp_path, "uplink.connected")
        assert (
            bundle(served, control_plane.admin, tmp_path / "oss4", "--endpoint", f"127.0.0.1:{grpc}", server="oss4")
            == 0
        )
        served.edit(filesystems=[{"name": "home", "servers": ["oss[1-3]"]}, {"name": "work", "servers": ["oss5"]}])
        served.settle("a site without oss4")
        aggregator.mount({**objects, **served.children()})
        assert "oss4 is not listed in site hard" in agent_log(tmp_path / "oss4", tmp_path, "not listed")
    finally:
        running.kill()
        running.wait()


def agent_log(folder: Path, tmp_path: Path, word: str) -> str:
    """Run an agent with a bundle as if it lay on its server, until it says a word."""
    root = tmp_path / f"root-{folder.name}"
    config = (folder / "agent.toml").read_text().replace("/etc/harvest-agent", str(folder))
    config += f'\n[lustre]\nroot = "{root}"\n\n[spool]\ndirectory = "{root}/spool"\n'
    (root / "spool").mkdir(parents=True)
    (root / "agent.toml").write_text(config)
    log = root / "log"
    command = [sys.executable, "-m", "harvest_agent", "run", "--config", str(root / "agent.toml")]
    with log.open("wb") as file:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        wait_for(lambda: word in log.read_text(), f"{word!r} in {log.read_text()}", seconds=SECONDS)
        return log.read_text()
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("harvestsites", 'cannot get resource "harvestsites"'),
        ("configmaps", 'cannot get resource "configmaps"'),
        ("certificatesigningrequests", 'cannot create resource "certificatesigningrequests"'),
    ],
)
def test_a_right_that_is_missing_is_named_with_the_role_that_has_it(
    control_plane: ControlPlane,
    served: Scene,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rule: str,
    complaint: str,
) -> None:
    assert bundle(served, person(control_plane, served, without=rule), tmp_path / "x", *ENDPOINT) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert "--clusterrole=harvest-agent-bundle" in said
    assert not (tmp_path / "x/tls.key").exists()


@pytest.mark.parametrize("rule", ["certificatesigningrequests/approval", "signers"])
def test_who_may_not_approve_waits_for_somebody_who_may(
    control_plane: ControlPlane, served: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    kubeconfig = person(control_plane, served, without=rule)
    assert bundle(served, kubeconfig, tmp_path / "x", *ENDPOINT, "--timeout", "1") == 3
    said = capsys.readouterr().err
    assert "you may not approve it: " in said
    assert "nobody approved request harvest-agent-" in said
    assert not (tmp_path / "x/tls.key").exists()
    before = {one["metadata"]["name"] for one in served.api.get(REQUESTS)["items"]}
    command = [sys.executable, "-m", "harvest_cli", "agent-bundle", "hard", "oss1", "--namespace", served.namespace]
    command += ["--kubeconfig", str(kubeconfig), "--out", str(tmp_path / "x"), *ENDPOINT, "--timeout", str(SECONDS)]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def open_ones() -> list[str]:
        signer = f"harvestsites.lustreharvest.dev/{served.namespace}.hard"
        found = served.api.get(REQUESTS, fieldSelector=f"spec.signerName={signer}")["items"]
        return [one["metadata"]["name"] for one in found if one["metadata"]["name"] not in before]

    wait_for(open_ones, "a request", seconds=SECONDS)
    Request(served.api, open_ones()[0]).approve()
    out, err = waiting.communicate(timeout=SECONDS)
    assert waiting.returncode == 0, err
    assert b"has all that the agent of oss1 needs" in out


def test_what_cannot_be_is_said_before_anything_is_asked_for(
    control_plane: ControlPlane, served: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = person(control_plane, served)

    def said(code: int, *more: str, **what: Any) -> str:  # noqa: ANN401 - names
        assert bundle(served, kubeconfig, tmp_path / "x", *more, **what) == code
        return capsys.readouterr().err

    assert f"no site hart in namespace {served.namespace}: did you mean hard?" in said(1, site="hart")
    assert "so write --namespace test-" in said(1, "--namespace", "default"), "others have sites of this name, too"
    assert "oss9 is not listed in site hard: did you mean oss" in said(1, server="oss9")
    wait_for(lambda: "ANY-NODE" in str(served.status()["aggregators"]), "a port", seconds=SECONDS)
    assert "of any node: write --endpoint main=NODE:" in said(2)
    assert "the kubeconfig has no context 'nothing'" in said(2, "--context", "nothing")
    assert bundle(served, kubeconfig, tmp_path / "x", *ENDPOINT) == 0
    key = (tmp_path / "x/tls.key").read_bytes()
    assert "tls.key is there already, and nothing is overwritten" in said(2, *ENDPOINT)
    assert (tmp_path / "x/tls.key").read_bytes() == key
    served.edit(service={"type": "NodePort", "hostnames": ["harvest.example"]})
    wait_for(lambda: "harvest.example" in str(served.status()["aggregators"]), "an endpoint", seconds=SECONDS)
    assert bundle(served, kubeconfig, tmp_path / "y") == 0
    endpoint = served.status()["aggregators"][0]["endpoint"]
    assert f'address = "{endpoint}"' in (tmp_path / "y/agent.toml").read_text()


def test_a_relay_that_the_site_accepts_gets_its_secret_and_no_other_does(
    control_plane: ControlPlane, served: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Secret is one that a sender's site may name: with it, nothing is missing there."""
    kubeconfig = person(control_plane, served)

    def relayed(code: int, relay: str, folder: str) -> str:
        here = ("--namespace", served.namespace, "--kubeconfig", str(kubeconfig), "--out", str(tmp_path / folder))
        assert main(["relay-bundle", "hard", relay, *here]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    assert "site hard takes in no relay alkindi: add it to `accepts`" in relayed(1, "alkindi", "x")
    served.edit(accepts=[{"name": "alkindi", "filesystems": ["gdata"], "lnets": ["o2ib"]}])
    told = relayed(0, "alkindi", "relay-hard")
    tls = read_tls(tmp_path / "relay-hard")
    certificate = load_certificate(tls.certificate)
    assert belongs(load_key(tls.key), certificate)
    assert identity_of(certificate).text == "harvest:hard:relay:alkindi"
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(days=90) + BACKDATED
    (ca,) = load_bundle(tls.ca)
    certificate.verify_directly_issued_by(ca)

    stranger = new_request(Identity(site="hard", kind=Kind.RELAY, name="oss1"), new_key())
    refused = asked(served.api, f"{served.namespace}.hard", "", pem=stranger).approve().refused()
    assert refused == (
        "Failed",
        "NotListed",
        "relay oss1 is not listed in site hard: add it to `accepts`, and ask again",
    )

    relays = yaml.safe_load(told.partition("  relays:\n")[2].partition("\n  where ")[0].partition("\nThen ")[0])
    (relay,) = relays
    assert relay["tlsSecretRef"] == {"name": "relay-hard"}
    sender = Scene(served.api, served.namespace, "sender")
    nodes = [{"name": "vu", "lnets": ["o2ib"], "filesystems": ["gdata"]}]
    sender.put(
        filesystems=[{"name": "gdata", "servers": ["gd1"]}],
        clusters=nodes,
        relays=[{**relay, "cluster": "vu", "endpoint": "hard.example:8023"}],
        sinks=[],
    )
    missing = "secret/relay-hard is not there"
    wait_for(lambda: missing in str(sender.status()), "a word about the Secret", seconds=SECONDS)
    secret = yaml.safe_load((tmp_path / "relay-hard/secret.yaml").read_text())
    served.api.apply(path_of(served.namespace, ("Secret", "relay-hard")), secret, force=True)
    wait_for(lambda: missing not in sender.ready()["message"], "no word about it", seconds=SECONDS)
    mounted = sender.children()["Deployment", "harvest-sender-main"]["spec"]["template"]["spec"]["volumes"]
    (source,) = next(one for one in mounted if one["name"] == "secrets")["projected"]["sources"]
    assert [item["path"] for item in source["secret"]["items"]] == [
        f"relay-hard/{name}" for name in ("tls.crt", "tls.key", "ca.crt")
    ]


def test_an_operator_that_is_away_is_told(
    control_plane: ControlPlane,
    served: Scene,
    operator: ForkedOperator,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    operator.kill()
    operator.wait()
    assert bundle(served, control_plane.admin, tmp_path / "x", *ENDPOINT, "--timeout", "1") == 3
    assert "the operator has not signed request" in capsys.readouterr().err
    assert list((tmp_path / "x").iterdir()) == []
    operator.start()
    assert bundle(served, control_plane.admin, tmp_path / "x", *ENDPOINT, "--timeout", str(SECONDS)) == 0


def test_a_kubernetes_that_is_away_is_told(
    control_plane: ControlPlane, scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = control_plane.credentials.written_kubeconfig("nobody", f"https://127.0.0.1:{free_port()}", {"token": "x"})
    assert bundle(scene, nowhere, tmp_path / "x") == 3
    said = capsys.readouterr().err
    assert "does not answer" in said
    assert len(said.splitlines()) == 1
    stranger = control_plane.credentials.written_kubeconfig("stranger", control_plane.server, {"token": "x"})
    assert bundle(scene, stranger, tmp_path / "x") == 2
    assert "Kubernetes does not know you" in capsys.readouterr().err


def test_the_chart_brings_the_role(control_plane: ControlPlane, space: str, admin: Api) -> None:
    allowed(control_plane, space)
    role = admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/harvest-agent-bundle")
    assert role["rules"] == list(RULES.values())
