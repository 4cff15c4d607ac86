"""Who may join a site, as it is looked at: by the CA that is stored, and by no other."""

import copy
from datetime import datetime

import pytest

from harvest_operator.agenda import SiteKey
from harvest_operator.cluster import ForbiddenError, RefusedError, UnavailableError
from harvest_operator.joinables import Joinable
from harvest_operator.names import ROTATE_CA, Key, Object
from harvest_operator.reconciling import Reconciler
from harvest_pki.certificates import fingerprint
from harvest_site.model import KIND
from unit.operator.fakes import FakeCluster
from unit.operator.test_reconciling import look, standing

CA = "Secret", "harvest-example-ca"


class Door:
    """Who may join, as the reconciler said last, and with whose certificate."""

    def __init__(self) -> None:
        self.servers: frozenset[str] | None = None
        self.issuer: str | None = None
        self.why_closed = ""

    def follow(self, _key: SiteKey, site: Joinable, _now: datetime) -> None:
        self.servers, self.issuer, self.why_closed = site.door.servers, fingerprint(site.issuer.certificate), ""

    def close(self, _key: SiteKey, why: str) -> None:
        self.issuer, self.why_closed = None, why

    def forget(self, _key: SiteKey) -> None:
        self.servers = self.issuer = None


def opened() -> tuple[FakeCluster, Reconciler, Door]:
    """Return a site that stands, and its door."""
    cluster, _, reconciler = standing()
    door = reconciler.joining = Door()
    look(reconciler)
    look(reconciler)
    assert door.issuer is not None
    return cluster, reconciler, door


def take_out(cluster: FakeCluster, server: str) -> None:
    body = cluster.objects[KIND, "example"]
    body["metadata"]["generation"] += 1
    for one in body["spec"]["filesystems"]:
        one["servers"] = [name for name in one["servers"] if name != server] or ["other"]


def test_who_is_taken_out_joins_no_more_whatever_cannot_be_written() -> None:
    cluster, reconciler, door = opened()
    assert door.servers is not None
    assert "mds1" in door.servers
    take_out(cluster, "mds1")
    cluster.failing["ConfigMap", "harvest-example-main"] = UnavailableError("away")
    with pytest.raises(UnavailableError):
        look(reconciler)
    assert "mds1" not in door.servers


def test_who_is_taken_out_joins_no_more_though_a_rotation_cannot_begin() -> None:
    cluster, reconciler, door = opened()
    before = door.issuer
    take_out(cluster, "mds1")
    cluster.objects[KIND, "example"]["metadata"]["annotations"][ROTATE_CA] = "one"
    cluster.failing[CA] = RefusedError("no")
    look(reconciler)
    assert door.servers is not None
    assert "mds1" not in door.servers
    assert (door.issuer, door.why_closed) == (before, "")  # as it is stored
    cluster.failing.clear()
    look(reconciler)
    look(reconciler)
    assert door.issuer != before


def test_a_ca_that_is_taken_away_or_broken_gives_nobody_a_certificate_and_it_is_told() -> None:
    cluster, reconciler, door = opened()
    whole, before = copy.deepcopy(cluster.objects[CA]), door.issuer
    cluster.objects[CA]["data"]["tls.key"] = "eA=="
    look(reconciler)
    assert door.issuer is None
    assert "secret/harvest-example-ca is no CA that can be used" in door.why_closed
    told = next(one for one in cluster.statuses[-1]["conditions"] if one["type"] == "CertificatesValid")
    assert (told["status"], told["reason"]) == ("False", "CaUnusable")
    assert "until then nobody gets a certificate, and none is renewed" in told["message"]
    cluster.objects[CA] = whole
    look(reconciler)
    assert (door.issuer, door.why_closed) == (before, "")

    del cluster.objects[CA]  # it is made anew: until that is stored nobody gets one of either
    look(reconciler)
    assert (door.issuer, door.why_closed.endswith("its CA is being made")) == (None, True)
    look(reconciler)
    assert door.issuer not in {None, before}


def test_while_kubernetes_says_nothing_of_the_ca_servers_join_and_renew_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, reconciler, door = opened()
    before = door.issuer

    for error in (UnavailableError("away"), ForbiddenError("secrets is forbidden")):

        async def silent(*_: object, error: Exception = error) -> dict[Key, Object]:
            raise error

        monkeypatch.setattr(cluster, "observe", silent)
        with pytest.raises(type(error)):
            look(reconciler)
        assert (door.issuer, door.why_closed) == (before, "")
