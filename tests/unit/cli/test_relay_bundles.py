"""What `harvest relay-bundle` makes of a site that takes in relays, and says when it cannot."""

import base64
import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harvest_cli.bundles import BundleError
from harvest_pki.certificates import belongs, load_certificate
from harvest_pki.folders import read_tls
from harvest_pki.identities import identity_of
from harvest_pki.keys import load_key
from harvest_site.loading import checked
from unit.cli.asked import BODY, REQUESTS, SITES, FakeKubernetes

HEAD: dict[str, Any] = {
    "clusters": [{"name": "xe", "lnets": ["o2ib2"], "filesystems": ["gdata", "archive"]}],
    "accepts": [
        {"name": "alkindi", "filesystems": ["gdata", "archive"], "lnets": ["o2ib2"]},
        {"name": "other", "filesystems": ["far"], "lnets": ["o2ib2"], "caSecretRef": {"name": "other-ca"}},
    ],
}


def head(endpoint: str = "xehead.example:30023", **more: object) -> FakeKubernetes:
    """Give a Kubernetes whose site is a cluster's own, with one aggregator."""
    cluster = FakeKubernetes()
    status = {"aggregators": [{"name": "main", "endpoint": endpoint}]} if endpoint else {}
    cluster.objects[f"{SITES}/example"] = {**copy.deepcopy(BODY), "spec": {**HEAD, **more}, "status": status}
    return cluster


def made(cluster: FakeKubernetes, folder: Path, *more: str, relay: str = "alkindi") -> str:
    return cluster.made(folder, *more, server=relay, command="relay-bundle")


def refused(cluster: FakeKubernetes, folder: Path, *more: str, code: int, relay: str = "alkindi") -> str:
    with pytest.raises(BundleError) as caught:
        made(cluster, folder, *more, relay=relay)
    assert caught.value.code == code
    assert not folder.exists()
    assert cluster.request == "", "nothing was asked for"
    return str(caught.value)


def sender(told: str, **more: object) -> Any:  # noqa: ANN401 - what YAML says
    """Return the relays that the sender is told to write, as its site reads them."""
    (block,) = re.findall(r"^  relays:\n((?:    - .*\n)+)", told, re.MULTILINE)
    relays = yaml.safe_load(block)
    names = [name for one in relays for name in one["filesystems"]]
    spec = {
        "filesystems": [{"name": name, "servers": ["oss1"]} for name in names],
        "clusters": [{"name": "xe", "lnets": ["o2ib2"], "filesystems": names}],
        "relays": relays,
        **more,
    }
    return checked({**BODY, "spec": spec}).spec.relays


def test_a_bundle_is_the_secret_that_the_sender_names(tmp_path: Path) -> None:
    cluster, folder = head(), tmp_path / "relay-example"
    told = made(cluster, folder)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "tls.crt": 0o644, "tls.key": 0o600, "secret.yaml": 0o600}
    tls = read_tls(folder)
    certificate = load_certificate(tls.certificate)
    assert belongs(load_key(tls.key), certificate)
    assert identity_of(certificate).text == "harvest:example:relay:alkindi"
    secret = yaml.safe_load((folder / "secret.yaml").read_text())
    assert (secret["kind"], secret["metadata"]["name"]) == ("Secret", "relay-example")
    assert {name: base64.b64decode(value) for name, value in secret["data"].items()} == {
        name: (folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")
    }
    assert "ends on 2027-02-16" in told
    assert f"kubectl apply --namespace NAMESPACE --filename {folder}/secret.yaml" in told
    assert cluster.said == ["asked for a certificate with request harvest-relay-x"]
    request = cluster.objects[f"{REQUESTS}/harvest-relay-x"]
    assert request is not None
    assert request["spec"]["signerName"] == "harvestsites.lustreharvest.dev/harvest.example"
    (vouched,) = request["status"]["conditions"]
    assert (vouched["reason"], vouched["message"]) == (
        "HarvestRelayBundle",
        "made and approved by `harvest relay-bundle`",
    )


def test_what_the_sender_writes_is_told_as_its_site_takes_it(tmp_path: Path) -> None:
    (relay,) = sender(made(head(), tmp_path / "a", "--secret", "to-xe"))
    assert (relay.cluster, relay.endpoint, relay.aggregator) == ("xe", "xehead.example:30023", "main")
    assert relay.filesystems == ("gdata", "archive")
    assert relay.tls_secret_ref.name == "to-xe"
    assert yaml.safe_load((tmp_path / "a/secret.yaml").read_text())["metadata"]["name"] == "to-xe"
    told = made(head("ANY-NODE:30023"), tmp_path / "b")
    assert "where ANY-NODE is the address of any node of this cluster, for aggregator main" in told
    assert 'endpoint: "HOST:PORT"' in made(head(""), tmp_path / "c"), "nobody knows yet, and nothing waits for it"
    assert "  install -d -m 700 SECRETS/relay-example && cp -p " in told


def shared(*names: str) -> list[dict[str, Any]]:
    """Give file systems to as many aggregators: a, b, c."""
    return [{"name": "abc"[at], "filesystems": filesystems.split()} for at, filesystems in enumerate(names)]


def test_the_aggregator_that_wants_to_hear_of_the_relay_is_named(tmp_path: Path) -> None:
    (relay,) = sender(
        made(head(aggregators=shared("far", "archive gdata")), tmp_path / "a").replace("HOST:PORT", "head:8023")
    )
    assert (relay.cluster, relay.aggregator, relay.filesystems) == ("xe", "b", ("gdata", "archive"))


def test_aggregators_of_different_clusters_are_named_each_with_its_own(tmp_path: Path) -> None:
    clusters = [
        {"name": "xe", "lnets": ["o2ib2"], "filesystems": ["gdata"], "jobIds": {"format": "xe.%j"}},
        {"name": "vu", "lnets": ["o2ib3"], "filesystems": ["archive"], "jobIds": {"format": "vu.%j"}},
    ]
    told = made(head(clusters=clusters, aggregators=shared("gdata", "archive", "far")), tmp_path / "a")
    relays = sender(told.replace("HOST:PORT", "head:8023"), clusters=clusters)
    assert [(one.cluster, one.aggregator, one.filesystems) for one in relays] == [
        ("xe", "a", ("gdata",)),
        ("vu", "b", ("archive",)),
    ]


@pytest.mark.parametrize("mounted", [["gdata", "archive"], []])
def test_aggregators_that_share_what_a_relay_tells_of_a_cluster_are_refused(tmp_path: Path, mounted: list[str]) -> None:
    clusters = [{"name": "xe", "lnets": ["o2ib2"], "filesystems": mounted}]
    cluster = head(clusters=clusters, aggregators=shared("gdata", "archive", "far"))
    assert refused(cluster, tmp_path / "x", code=2) == (
        "aggregators a, b of site example share what relay alkindi tells of a cluster (gdata, archive), and a "
        "cluster's relay goes to one aggregator: give all of these file systems to one, such as a "
        "(`aggregators[].filesystems`), and apply the site"
    )


def test_a_relay_that_would_not_be_let_in_is_refused_before_anything_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    assert (
        refused(head(), folder, code=1, relay="alkind")
        == "site example takes in no relay alkind: did you mean alkindi? Else add it to `accepts`, and apply the site"
    )
    assert "takes in no relay zzz: add it to `accepts`" in refused(head(), folder, code=1, relay="zzz")
    why = refused(head(), folder, code=2, relay="other")
    assert "relay other is to come with a certificate of another CA (secret/other-ca)" in why
    assert "cannot be the name of a Secret" in refused(head(), folder, "--secret", "To_XE", code=2)


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    cluster = head()
    (tmp_path / "secret.yaml").write_text("mine")
    tmp_path.chmod(0o700)
    with pytest.raises(BundleError, match=r"secret.yaml is there already, and nothing is overwritten"):
        made(cluster, tmp_path)
    assert (tmp_path / "secret.yaml").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "secret.yaml"]
    assert cluster.request == ""
