"""What `harvest agent-bundle` makes of a site, and says when it cannot."""

import argparse
import copy
import subprocess
import sys
from pathlib import Path

import pytest

from harvest_agent.config import Config
from harvest_cli import bundling
from harvest_cli.__main__ import main
from harvest_cli.arguments import parser
from harvest_cli.bundles import BundleError, Uplink, config_of, parse_endpoints, uplinks_of
from harvest_cli.config import ConfigError
from harvest_cli.kube import AwayError, ConflictError, ForbiddenError
from harvest_pki.authorities import Authority
from harvest_pki.certificates import belongs, bundle_pem, load_certificate
from harvest_pki.files import read_key
from harvest_pki.identities import identity_of
from harvest_pki.keys import load_key, new_key
from harvest_site.loading import checked
from unit.cli.asked import BODY, CA, CAS, NOW, REQUESTS, SITES, FakeKubernetes

SITE = checked(BODY)


def refused(cluster: FakeKubernetes, folder: Path, *more: str, code: int, **what: str) -> str:
    with pytest.raises(BundleError) as caught:
        cluster.made(folder, *more, **what)
    assert caught.value.code == code
    assert not (folder / "tls.key").exists()
    return str(caught.value)


def test_a_bundle_is_all_that_an_agent_needs(tmp_path: Path) -> None:
    cluster, folder = FakeKubernetes(), tmp_path / "oss1"
    told = cluster.made(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["agent.toml", "ca.crt", "tls.crt", "tls.key"]
    assert folder.stat().st_mode & 0o777 == 0o700
    key, certificate = load_key(read_key(folder / "tls.key")), load_certificate((folder / "tls.crt").read_bytes())
    assert belongs(key, certificate)
    assert identity_of(certificate).text == "harvest:example:server:oss1"
    config = Config.load(str(folder / "agent.toml"))
    assert config.agent.name == "oss1"
    (uplink,) = config.uplinks
    assert (uplink.address, uplink.server_name) == ("harvest.example:30023", "a.example.harvest")
    assert (uplink.ca, uplink.key) == ("/etc/harvest-agent/ca.crt", "/etc/harvest-agent/tls.key")
    assert config.slurm is None
    assert "ends on 2027-02-16" in told
    assert f"scp -p {folder}/* root@oss1:/etc/harvest-agent/" in told
    request = cluster.objects[f"{REQUESTS}/harvest-agent-x"]
    assert request is not None
    assert request["spec"]["signerName"] == "harvestsites.lustreharvest.dev/harvest.example"
    assert request["spec"]["usages"] == ["digital signature", "client auth"]
    assert cluster.said == ["asked for a certificate with request harvest-agent-x"]


def test_an_agent_reports_to_those_who_want_to_hear_of_it_and_the_one_beside_slurm_to_all(tmp_path: Path) -> None:
    addresses = {"a": "harvest.example:30023", "b": "[fd00::1]:30024"}
    for server, wanted in {"oss2": "a", "oss4": "ab", "oss5": "b", "slurm1": "ab"}.items():
        links = uplinks_of(SITE, BODY["status"], server, {})
        assert links == [Uplink(name, addresses[name]) for name in wanted]
        file = tmp_path / server
        file.write_text(config_of(SITE, server, links))
        assert (Config.load(str(file)).slurm is not None) == (server == "slurm1")


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    for name in ("tls.key", "agent.toml"):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        (folder / name).write_text("mine")
        with pytest.raises(BundleError, match=f"{name} is there already, and nothing is overwritten"):
            cluster.made(folder)
        assert (folder / name).read_text() == "mine"
        assert list(folder.iterdir()) == [folder / name]
    assert f"{REQUESTS}/harvest-agent-x" not in cluster.objects, "nothing was asked for"


@pytest.mark.parametrize(
    ("site", "server", "why"),
    [
        ("exampel", "oss1", "no site exampel in namespace harvest: did you mean example?"),
        ("zzz", "oss1", "no site zzz in namespace harvest: there are example"),
        ("example", "oss11", "oss11 is not listed in site example: did you mean oss1? Else add it to the `servers`"),
        ("example", "mds1", "did you mean mds1.example.org?"),
        ("example", "zzz", "zzz is not listed in site example: add it to the `servers` of a file system"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(tmp_path: Path, site: str, server: str, why: str) -> None:
    assert why in refused(FakeKubernetes(), tmp_path / "x", code=1, site=site, server=server)


def test_a_site_in_another_namespace_is_found(tmp_path: Path) -> None:
    why = refused(FakeKubernetes(), tmp_path / "x", "--namespace", "other", code=1)
    assert why == "there is no site example in namespace other: it is in harvest, so write --namespace harvest"


def test_a_person_who_may_see_little_is_told_what_can_be_told(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    cluster.failing["get", "/apis/lustreharvest.dev/v1alpha1/harvestsites"] = ForbiddenError("no")
    assert "there are example" in refused(cluster, tmp_path / "x", code=1, site="zzz")
    cluster.failing["get", SITES] = ForbiddenError("no")
    assert "no other that you may see" in refused(cluster, tmp_path / "x", code=1, site="zzz")


def test_a_cluster_without_harvest(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    cluster.objects = {}
    assert "is Harvest installed in it?" in refused(cluster, tmp_path / "x", code=2)


def test_a_site_that_breaks_a_rule(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    broken = copy.deepcopy(BODY)
    broken["spec"]["filesystems"][0]["servers"] = ["oss[2-1]"]
    cluster.objects[f"{SITES}/example"] = broken
    assert "site example breaks a rule" in refused(cluster, tmp_path / "x", code=2)


@pytest.mark.parametrize(
    ("endpoint", "code", "why"),
    [
        ("ANY-NODE:30023", 2, "at port 30023 of any node: write --endpoint a=NODE:30023"),
        ("harvest-example-a.harvest.svc:8023", 2, "for the inside of the cluster only"),
        ("", 3, "nobody knows yet where aggregator a is reached"),
    ],
)
def test_an_endpoint_that_nobody_can_know_is_asked_for(tmp_path: Path, endpoint: str, code: int, why: str) -> None:
    cluster = FakeKubernetes()
    body = copy.deepcopy(BODY)
    body["status"] = {"aggregators": [{"name": "a", "endpoint": endpoint}]} if endpoint else {}
    cluster.objects[f"{SITES}/example"] = body
    assert why in refused(cluster, tmp_path / "x", code=code)
    cluster.made(tmp_path / "y", "--endpoint", "node7:30023")
    assert 'address = "node7:30023"' in (tmp_path / "y/agent.toml").read_text()


def test_endpoints_of_several_aggregators_are_named() -> None:
    status = BODY["status"]
    assert parse_endpoints(["a=x:1", "b=[fd00::2]:2"]) == {"a": "x:1", "b": "[fd00::2]:2"}
    assert uplinks_of(SITE, status, "oss4", {"b": "x:1"}) == [Uplink("a", "harvest.example:30023"), Uplink("b", "x:1")]
    with pytest.raises(BundleError, match="write --endpoint AGGREGATOR=HOST:PORT for each of a, b"):
        uplinks_of(SITE, status, "oss4", {"": "x:1"})
    with pytest.raises(BundleError, match="b is no aggregator of site example that oss1 reports to: a"):
        uplinks_of(SITE, status, "oss1", {"b": "x:1"})
    with pytest.raises(BundleError, match="'x' is no endpoint: write HOST:PORT"):
        parse_endpoints(["x"])


def test_an_operator_that_never_looked_at_the_site(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    cluster.objects[CAS] = None
    assert "configmap/harvest-example-agents is not there" in refused(cluster, tmp_path / "x", code=3)


def test_an_operator_that_is_away(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    cluster.is_signing = False
    why = refused(cluster, tmp_path / "x", code=3)
    assert "the operator has not signed request harvest-agent-x within 60 s" in why
    assert "app.kubernetes.io/name=harvest-operator" in why
    assert "kubectl describe hs example --namespace harvest" in why
    assert cluster.said.count("still waiting: signing of harvest-agent-x") == 5
    assert 60 <= cluster.now < 61


def test_who_may_not_approve_waits_for_somebody_who_may(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    cluster.failing["replace", f"{REQUESTS}/harvest-agent-x/approval"] = ForbiddenError("cannot update approval")
    why = refused(cluster, tmp_path / "x", "--timeout", "20", code=3)
    assert "nobody approved request harvest-agent-x within 20 s" in why
    assert cluster.said[1] == "you may not approve it: cannot update approval"
    assert "kubectl certificate approve harvest-agent-x" in cluster.said[2]
    assert cluster.said[3:] == ["still waiting: approval of harvest-agent-x"]

    def by_somebody_else(seconds: float) -> None:
        one = cluster.objects[f"{REQUESTS}/harvest-agent-x"]
        assert one is not None
        one.setdefault("status", {"conditions": [{"type": "Approved", "status": "True"}]})
        FakeKubernetes.sleep(cluster, seconds)

    cluster.sleep = by_somebody_else  # type: ignore[method-assign]
    cluster.made(tmp_path / "y")
    assert (tmp_path / "y/tls.key").exists()


def test_somebody_who_approves_first_is_as_good(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    path = f"{REQUESTS}/harvest-agent-x"
    cluster.failing["replace", f"{path}/approval"] = ConflictError("the object has been modified")

    def by_somebody_else(seconds: float) -> None:
        one = cluster.objects[path]
        assert one is not None
        one.setdefault("status", {"conditions": [{"type": "Approved", "status": "True"}]})
        FakeKubernetes.sleep(cluster, seconds)

    cluster.sleep = by_somebody_else  # type: ignore[method-assign]
    cluster.made(tmp_path / "x")
    assert (tmp_path / "x/tls.key").exists()


@pytest.mark.parametrize("kind", ["Denied", "Failed"])
def test_a_refusal_is_told_in_the_operators_words(tmp_path: Path, kind: str) -> None:
    cluster = FakeKubernetes()
    cluster.refusal = {"type": kind, "status": "True", "reason": "NotListed", "message": "oss1 is not listed"}
    why = refused(cluster, tmp_path / "x", code=1)
    assert why == f"request harvest-agent-x was refused ({kind.lower()}, NotListed: oss1 is not listed)"


def test_a_request_that_somebody_deleted(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    cluster.is_signing = False
    cluster.sleep = lambda _: cluster.objects.pop(f"{REQUESTS}/harvest-agent-x")  # type: ignore[method-assign,assignment]
    assert "somebody deleted request" in refused(cluster, tmp_path / "x", code=3)


def test_a_ca_that_was_rotated_meanwhile_is_in_the_bundle(tmp_path: Path) -> None:
    cluster = FakeKubernetes()
    old = Authority.create("example", key=new_key(), serial=1, now=NOW)
    both = {"data": {"ca.crt": bundle_pem([CA.certificate, old.certificate]).decode()}}
    cluster.objects[CAS] = {"data": {"ca.crt": bundle_pem([old.certificate]).decode()}}

    def rotated(seconds: float) -> None:
        cluster.objects[CAS] = both
        FakeKubernetes.sleep(cluster, seconds)

    cluster.sleep = rotated  # type: ignore[method-assign]
    cluster.made(tmp_path / "x")
    assert (tmp_path / "x/ca.crt").read_text() == both["data"]["ca.crt"]


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ForbiddenError('cannot get resource "harvestsites"'), 2, "--clusterrole=harvest-agent-bundle"),
        (AwayError("Kubernetes does not answer"), 3, "harvest: Kubernetes does not answer"),
        (ConfigError("no cluster is configured"), 2, "harvest: no cluster is configured"),
        (BundleError("no", 1), 1, "harvest: no"),
    ],
)
def test_every_error_has_its_code_and_its_words(
    error: Exception, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(bundling, "Kube", failing)
    assert bundling.run(argparse.Namespace(kubeconfig=None, context=None)) == code
    said = capsys.readouterr().err
    assert words in said
    assert str(error) in said


def test_without_the_extra_it_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['kubernetes'] = None; from harvest_cli.__main__ import main; "
        "sys.exit(main(['agent-bundle', 'example', 'oss1']))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == (
        "harvest: agent-bundle needs the Python package kubernetes: pip install 'harvest-cli[kubernetes]'\n"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no cluster is configured: Invalid kube-config"),
        ("a: [", "the kubeconfig cannot be read (while parsing"),
        ("[]", "the kubeconfig cannot be read ("),
        (
            "contexts: []\ncurrent-context: x\nclusters: []\nusers: []\n",
            "no cluster is configured: Invalid kube-config",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    (tmp_path / "config").write_text(text)
    assert main(["agent-bundle", "example", "oss1", "--kubeconfig", str(tmp_path / "config")]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("text", ["0", "x", "86401"])
def test_a_limit_must_make_sense(text: str) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["agent-bundle", "example", "oss1", "--timeout", text])
