"""What `harvest token create` leaves beside a site, and says when it cannot."""

import base64
import json
from datetime import timedelta

import pytest
from typing_extensions import override

from harvest_cli.bundles import WRONG, BundleError
from harvest_cli.bundling import done
from harvest_cli.kube import ForbiddenError
from harvest_cli.signing_requests import Json
from harvest_cli.tokens import ROLE, create
from harvest_pki.certificates import fingerprint
from harvest_pki.errors import PkiError
from harvest_pki.tokens import Entry, Token, digest
from unit.cli.asked import BODY, CA, CAS, NOW, FakeKubernetes

SITE = {**BODY, "metadata": {**BODY["metadata"], "uid": "u1"}}


class Kubernetes(FakeKubernetes):
    """A cluster whose site can be joined."""

    def __init__(self) -> None:
        super().__init__()
        self.objects["/apis/lustreharvest.dev/v1alpha1/namespaces/harvest/harvestsites/example"] = SITE
        self.created: list[tuple[str, Json]] = []

    @override
    def create(self, path: str, body: Json) -> Json:
        self.created.append((path, body))
        return body

    def tokens(self, *servers: str, hours: int = 1, site: str = "example") -> list[Token]:
        return create(self, "harvest", site, servers, lifetime=timedelta(hours=hours), now=NOW)


def test_a_token_for_each_server_and_only_hashes_are_kept() -> None:
    cluster = Kubernetes()
    made = cluster.tokens("oss[1-2]", "slurm1")
    assert [(one.site, one.server) for one in made] == [("example", name) for name in ("oss1", "oss2", "slurm1")]
    assert {one.ca for one in made} == {fingerprint(CA.certificate)}
    assert len({one.secret for one in made}) == 3
    assert not any(one.secret in json.dumps(cluster.created) for one in made)
    for token, (path, secret) in zip(made, cluster.created, strict=True):
        assert path == "/api/v1/namespaces/harvest/secrets"
        assert secret["metadata"]["name"] == f"harvest-example-join-{digest(token.secret)[:32]}"
        entry = Entry.parse(base64.b64decode(secret["data"]["token"]).decode())
        assert entry == Entry.of(token, now=NOW, lifetime=timedelta(hours=1))


def test_whoever_is_not_listed_gets_none_and_nobody_else_either() -> None:
    cluster = Kubernetes()
    with pytest.raises(BundleError, match="oss9 is not listed"):
        cluster.tokens("oss1", "oss9")
    with pytest.raises(BundleError, match="write a host name"):
        cluster.tokens("oss[1-")
    with pytest.raises(BundleError, match="there is no site other"):
        cluster.tokens("oss1", site="other")
    with pytest.raises(PkiError, match="7 days"):
        cluster.tokens("oss1", hours=24 * 8)
    cluster.objects[CAS] = None
    with pytest.raises(BundleError, match="the operator has not looked at the site yet"):
        cluster.tokens("oss1")
    assert cluster.created == []


def test_who_lacks_the_right_is_told_of_one_for_the_sites_namespace_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """In the whole cluster, creating Secrets would be far too much."""

    def refused() -> str:
        raise ForbiddenError("secrets is forbidden")

    assert done(ROLE, refused, everywhere=False) == WRONG
    told = capsys.readouterr().err
    assert f"kubectl create rolebinding {ROLE}-YOU --clusterrole={ROLE} --user=YOU --namespace=" in told
    assert "clusterrolebinding" not in told
