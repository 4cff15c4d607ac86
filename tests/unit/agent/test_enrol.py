"""How an agent in a Pod comes to its certificate, and keeps it: no Kubernetes here, but what it would say."""

import base64
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from harvest_agent.__main__ import main
from harvest_agent.config import Config
from harvest_agent.enrol.api import ApiError, PodApi
from harvest_agent.enrol.enrolling import Enrolment
from harvest_agent.enrol.renewal import SETTLE, renewal_time
from harvest_agent.enrol.requests import REQUESTS, Issued, Refused, Site, Waiting, answer
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, load_certificate
from harvest_pki.checks import issued_by
from harvest_pki.folders import read_tls
from harvest_pki.identities import Identity, Kind, identity_of
from harvest_pki.keys import new_key, new_serial
from harvest_pki.requests import new_request, requested
from unit.pki.making import DAY, NOW, authority, certificate

SITE = Site(namespace="storage", name="example")
TOML = """
[[uplink]]
address = "harvest-example-main.storage.svc:8023"
server_name = "main.example.harvest"
ca = "/run/harvest/tls/ca.crt"
cert = "/run/harvest/tls/tls.crt"
key = "/run/harvest/tls/tls.key"
"""


@dataclass
class Kubernetes:
    """What the API server would say, and the operator behind it."""

    ca: Authority
    now: datetime = NOW
    refusal: dict[str, str] | None = None
    """The condition that every new request gets, instead of a certificate."""
    is_awake: bool = True
    trouble: ApiError | None = None
    config: str = TOML
    of_servers: dict[str, str] = field(default_factory=dict)
    trusted: list[x509.Certificate] = field(default_factory=list)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get(self, path: str) -> Mapping[str, Any]:
        if self.trouble is not None:
            raise self.trouble
        if path == "/api/v1/namespaces/storage/configmaps/harvest-example-agents":
            trusted = self.trusted or [self.ca.certificate]
            return {"data": {"ca.crt": bundle_pem(trusted).decode(), "agent.toml": self.config, **self.of_servers}}
        name = path.removeprefix(f"{REQUESTS}/")
        if name not in self.requests:
            raise ApiError(f"Kubernetes says 404: {name} not found", 404)
        return self.requests[name] | ({"status": self._decided(name)} if self.is_awake else {})

    def post(self, path: str, body: object) -> Mapping[str, Any]:
        assert path == REQUESTS
        assert isinstance(body, dict)
        name = f"{body['metadata']['generateName']}{len(self.requests)}"
        self.requests[name] = body | {"metadata": {"name": name}}
        return self.requests[name]

    def _decided(self, name: str) -> dict[str, Any]:
        if self.refusal is not None:
            return {"conditions": [{"type": "Approved", "status": "True"}, self.refusal]}
        pem = base64.b64decode(self.requests[name]["spec"]["request"])
        made = self.ca.issue(*requested(pem, "example"), serial=new_serial(), now=self.now, lifetime=90 * DAY)
        return {"certificate": base64.b64encode(bundle_pem([made])).decode()}


@pytest.fixture
def kubernetes() -> Kubernetes:
    return Kubernetes(authority())


def enrolment(kubernetes: Kubernetes, folder: Path, node: str = "oss1") -> Enrolment:
    return Enrolment(kubernetes, site=SITE, node=node, folder=folder / "tls")


def own(folder: Path) -> x509.Certificate:
    return load_certificate(read_tls(folder / "tls").certificate)


def test_a_node_gets_its_certificate_and_the_agent_all_that_it_needs(kubernetes: Kubernetes, tmp_path: Path) -> None:
    wait = enrolment(kubernetes, tmp_path).step(NOW, 0.5)

    assert 30 <= wait <= 60
    assert identity_of(own(tmp_path)).text == "harvest:example:server:oss1"
    assert Config.load(str(tmp_path / "tls/agent.toml")).uplinks[0].server_name == "main.example.harvest"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {"ca.crt": 0o644, "tls.crt": 0o644, "tls.key": 0o600, "agent.toml": 0o644}
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    (asked,) = kubernetes.requests.values()
    assert asked["spec"]["signerName"] == "harvestsites.lustreharvest.dev/storage.example"
    assert asked["spec"]["usages"] == ["digital signature", "client auth"]


@pytest.mark.parametrize("more", ['[slurm]\nsqueue = "/tmp/mine"\n', '[lustre]\nroot = "/tmp"\n', "name = 1\n"])
def test_a_site_says_where_to_send_and_nothing_of_what_is_run(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    kubernetes.config = more + TOML if more.startswith("name") else TOML + more
    enrolment(kubernetes, tmp_path).step(NOW, 0.5)
    assert "agent.toml of the site is not for this version of the agent: it has " in capsys.readouterr().err
    assert not (tmp_path / "tls/agent.toml").exists()
    assert kubernetes.requests == {}


def test_every_request_has_its_time_after_refusals(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes.refusal = {"type": "Denied", "status": "True", "reason": "NotListed", "message": "add oss1"}
    here = enrolment(kubernetes, tmp_path)
    for _ in range(6):
        kubernetes.is_awake = False
        assert here.step(NOW, 0.5) <= 1
        kubernetes.is_awake = True
        here.step(NOW, 0.5)
    said = capsys.readouterr().err
    assert said.count("enrol.refused") == 6
    assert "enrol.waits" not in said


def test_what_is_there_is_used_again_and_nothing_is_written_twice(kubernetes: Kubernetes, tmp_path: Path) -> None:
    first = enrolment(kubernetes, tmp_path)
    first.step(NOW, 0.5)
    before = {path.name: path.stat().st_ino for path in (tmp_path / "tls").iterdir()}
    first.step(NOW + DAY, 0.5)
    enrolment(kubernetes, tmp_path).step(NOW + 2 * DAY, 0.5)
    assert {path.name: path.stat().st_ino for path in (tmp_path / "tls").iterdir()} == before
    assert len(kubernetes.requests) == 1


def test_files_of_another_node_are_replaced(kubernetes: Kubernetes, tmp_path: Path) -> None:
    enrolment(kubernetes, tmp_path, "oss1").step(NOW, 0.5)
    enrolment(kubernetes, tmp_path, "oss2").step(NOW, 0.5)
    assert identity_of(own(tmp_path)).name == "oss2"


def test_a_refusal_is_told_with_its_reason_and_tried_again_ever_later(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes.refusal = {"type": "Failed", "status": "True", "reason": "NotListed", "message": "add oss1 to servers"}
    one = enrolment(kubernetes, tmp_path)
    waits = [one.step(NOW, 1.0) for _ in range(8)]
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600]
    assert 'reason=NotListed text="add oss1 to servers" again_seconds=10' in capsys.readouterr().err
    assert not (tmp_path / "tls/agent.toml").exists()
    assert len(kubernetes.requests) == 8

    kubernetes.refusal = None
    one.step(NOW, 1.0)
    assert (tmp_path / "tls/agent.toml").exists()


def test_a_request_is_waited_for_and_not_made_again(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubernetes.is_awake = False
    one = enrolment(kubernetes, tmp_path)
    assert [one.step(NOW, 1.0) for _ in range(6)] == [1, 2, 4, 8, 16, 30]
    assert len(kubernetes.requests) == 1
    assert capsys.readouterr().err.count("enrol.waits") == 1

    kubernetes.requests.clear()  # Kubernetes throws away what is old
    one.step(NOW, 1.0)
    assert "404" in capsys.readouterr().err
    kubernetes.is_awake = True
    one.step(NOW, 1.0)
    assert identity_of(own(tmp_path)).name == "oss1"


def test_trouble_is_told_once_and_files_stay(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = enrolment(kubernetes, tmp_path)
    one.step(NOW, 0.5)
    kubernetes.trouble = ApiError("Kubernetes says 403: forbidden", 403)
    assert [one.step(NOW, 1.0) for _ in range(3)] == [1, 2, 4]
    said = capsys.readouterr().err
    assert said.count("enrol.trouble") == 1
    assert "Is there a HarvestSite storage/example, and does its operator run?" in said
    assert identity_of(own(tmp_path)).name == "oss1"


def test_the_certificate_is_renewed_after_two_thirds_of_its_life(kubernetes: Kubernetes, tmp_path: Path) -> None:
    one = enrolment(kubernetes, tmp_path)
    one.step(NOW, 0.5)
    first = own(tmp_path)
    one.step(NOW + 59 * DAY, 0.5)
    assert own(tmp_path) == first
    kubernetes.now = NOW + 70 * DAY
    one.step(kubernetes.now, 0.5)
    assert own(tmp_path).not_valid_after_utc == kubernetes.now + 90 * DAY
    assert own(tmp_path).public_key() != first.public_key()


def test_a_renewal_that_is_refused_leaves_what_is_good(kubernetes: Kubernetes, tmp_path: Path) -> None:
    one = enrolment(kubernetes, tmp_path)
    one.step(NOW, 0.5)
    first = own(tmp_path)
    kubernetes.refusal = {"type": "Denied", "status": "True", "message": "no"}
    assert one.step(NOW + 80 * DAY, 1.0) == 10
    assert own(tmp_path) == first


def test_a_rotation_of_the_ca_is_followed_when_aggregators_have_heard_of_it(
    kubernetes: Kubernetes, tmp_path: Path
) -> None:
    one = enrolment(kubernetes, tmp_path)
    one.step(NOW, 0.5)
    first = own(tmp_path)
    old, kubernetes.ca = kubernetes.ca, authority()
    kubernetes.trusted = [kubernetes.ca.certificate, old.certificate]

    one.step(NOW + DAY, 0.5)
    assert own(tmp_path) == first
    assert (tmp_path / "tls/ca.crt").read_bytes() == bundle_pem(kubernetes.trusted)
    one.step(NOW + DAY + 2 * SETTLE, 0.5)
    assert issued_by(own(tmp_path), kubernetes.ca.certificate)
    one.step(NOW + 2 * DAY, 0.5)
    assert len(kubernetes.requests) == 2


def test_a_ca_that_issues_and_is_not_first_does_not_make_it_ask_for_ever(
    kubernetes: Kubernetes, tmp_path: Path
) -> None:
    kubernetes.trusted = [authority().certificate, kubernetes.ca.certificate]
    one = enrolment(kubernetes, tmp_path)
    for hours in range(10):
        one.step(NOW + timedelta(hours=hours), 0.5)
    assert len(kubernetes.requests) == 1


def test_a_changed_configuration_is_passed_on_and_a_broken_one_is_not(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = enrolment(kubernetes, tmp_path)
    one.step(NOW, 0.5)
    kubernetes.config = TOML + "[spool]\nmax_bytes = 2097152\n"
    one.step(NOW, 0.5)
    assert (tmp_path / "tls/agent.toml").read_text() == kubernetes.config
    kubernetes.config = TOML + "[of_the_future]\n"
    one.step(NOW, 0.5)
    assert "of_the_future" not in (tmp_path / "tls/agent.toml").read_text()
    assert "not for this version of the agent" in capsys.readouterr().err


def test_a_server_that_not_all_aggregators_want_has_a_configuration_of_its_own(
    kubernetes: Kubernetes, tmp_path: Path
) -> None:
    kubernetes.config = TOML + TOML.replace("main.", "other.")
    kubernetes.of_servers = {"agent.oss1.toml": TOML, "agent.oss2.toml": "[nonsense"}
    enrolment(kubernetes, tmp_path).step(NOW, 0.5)
    assert (tmp_path / "tls/agent.toml").read_text() == TOML
    del kubernetes.of_servers["agent.oss1.toml"]
    enrolment(kubernetes, tmp_path).step(NOW, 0.5)
    assert (tmp_path / "tls/agent.toml").read_text() == kubernetes.config


def test_where_the_pod_has_the_hosts_files_is_said_in_the_configuration(kubernetes: Kubernetes, tmp_path: Path) -> None:
    one = Enrolment(kubernetes, site=SITE, node="oss1", folder=tmp_path / "tls", root="/host")
    one.step(NOW, 0.5)
    config = Config.load(str(tmp_path / "tls/agent.toml"))
    assert config.lustre.root == "/host"
    assert len(config.uplinks) == 1


def test_a_certificate_for_another_key_is_not_taken(
    kubernetes: Kubernetes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = enrolment(kubernetes, tmp_path)
    kubernetes.is_awake = False
    one.step(NOW, 0.5)
    (name,) = kubernetes.requests
    stranger = base64.b64encode(
        new_request(Identity(site="example", kind=Kind.SERVER, name="oss1"), new_key())
    ).decode()
    kubernetes.requests[name]["spec"]["request"] = stranger
    kubernetes.is_awake = True
    assert one.step(NOW, 1.0) == 10
    assert "reason=Unusable" in capsys.readouterr().err
    assert not (tmp_path / "tls/tls.key").exists()


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        ({}, Waiting("nobody has approved it yet")),
        ({"status": {"conditions": None}}, Waiting("nobody has approved it yet")),
        ({"status": {"conditions": [{"type": "Approved", "status": "True"}]}}, Waiting("it is approved")),
        ({"status": {"certificate": "YQ=="}}, Issued(b"a")),
        ({"status": {"certificate": "?"}}, Refused("Unreadable", "the certificate")),
        ({"status": {"conditions": [{"type": "Denied"}]}}, Refused("Denied", "no reason was given")),
        (
            {"status": {"conditions": [{"type": "Failed", "reason": "NoSite", "message": "x"}], "certificate": "YQ=="}},
            Refused("NoSite", "x"),
        ),
    ],
)
def test_what_a_requests_status_means(status: dict[str, Any], meaning: Waiting | Issued | Refused) -> None:
    found = answer(status)
    assert type(found) is type(meaning)
    if isinstance(meaning, Issued):
        assert found == meaning
    else:
        assert not isinstance(found, Issued)
        assert found.text.startswith(meaning.text)
        assert getattr(found, "reason", None) == getattr(meaning, "reason", None)


def test_a_certificate_that_nobody_trusts_any_more_is_renewed_at_once() -> None:
    one = certificate(authority(), lifetime=90 * DAY)
    assert renewal_time(one, [authority().certificate], trusted_since=NOW) == NOW


def test_agents_that_came_together_do_not_renew_together() -> None:
    ca = authority()
    times = {renewal_time(certificate(ca), [ca.certificate], trusted_since=NOW) for _ in range(20)}
    assert len(times) > 10


@pytest.mark.parametrize("text", ["example", "a/b/c", "Storage/example", "/example", "storage/"])
def test_a_site_is_a_namespace_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAMESPACE/NAME"):
        Site.parse(text)


def test_outside_a_pod_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="no Pod"):
        PodApi(tmp_path, {})


def test_ready_tells_by_its_exit_code_whether_an_agent_can_start(tmp_path: Path) -> None:
    asked = ["enrol", "--ready", "--folder", str(tmp_path)]
    assert main(asked) == 1
    (tmp_path / "agent.toml").touch()
    assert main(asked) == 0


def test_without_a_site_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enrol"]) == 2
    assert "enrol needs --site and --node" in capsys.readouterr().err
