"""Which certificates were given is noted beside the site before anybody has them."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from typing_extensions import override

from harvest_operator.cluster import ConflictError, RefusedError
from harvest_operator.issued import BYTES_MAX, line_of, note, noted, place_of
from harvest_operator.minting import content_of, secret
from harvest_operator.names import MANAGED_BY
from harvest_operator.plan import Verb, Write
from harvest_pki.certificates import serial_text
from harvest_pki.checks import RENEWAL_GRACE
from harvest_pki.identities import Identity, Kind
from harvest_pki.joining import RENEW_PATH, Answer, RenewRequest
from harvest_pki.keys import new_key, new_serial
from harvest_pki.requests import new_request
from harvest_site.loading import checked
from unit.operator.asking import APPROVED, asking
from unit.operator.fakes import FakeCluster
from unit.operator.test_joining import BODY, OLD, OWNER, SERVER, SERVER_KEY, scenario
from unit.operator.test_joining import Scene as Joining
from unit.operator.test_reconciling import look, standing
from unit.pki.making import DAY, NOW

PLACE = place_of(OWNER, checked(BODY))
KEY = "Secret", "harvest-example-issued"
LIFETIME = 90 * DAY


def issued(name: str = "oss1", kind: Kind = Kind.SERVER, now: datetime = NOW) -> x509.Certificate:
    holder = Identity(site="example", kind=kind, name=name)
    return OLD.issue(holder, SERVER_KEY.public_key(), serial=new_serial(), now=now, lifetime=LIFETIME)


def lines(cluster: FakeCluster) -> list[str]:
    return content_of(cluster.objects[KEY])["issued"].decode().splitlines()


def test_a_line_says_serial_end_and_holder() -> None:
    one = issued("head", Kind.RELAY)
    until = f"{NOW + LIFETIME:%Y-%m-%dT%H:%M:%SZ}"
    assert line_of(one) == f"{serial_text(one.serial_number)} {until} relay head"


def test_all_that_may_be_used_or_renewed_is_kept_and_nothing_else() -> None:
    cluster, first, second = FakeCluster(), issued(), issued("oss2", now=NOW + DAY)
    over = NOW + LIFETIME + RENEWAL_GRACE
    for one, now in ((first, NOW), (second, over - timedelta(seconds=1))):
        asyncio.run(note(cluster, PLACE, one, now))
    assert lines(cluster) == [line_of(first), line_of(second)]
    third = issued("oss3", now=over)
    asyncio.run(note(cluster, PLACE, third, over))
    assert lines(cluster) == [line_of(second), line_of(third)]


@pytest.mark.parametrize("name", ["oss1", "o" * 253])
def test_it_is_bounded_and_the_newest_stay(name: str) -> None:
    filler = [f"{number:040x} 2099-01-01T00:00:00Z server {name}" for number in range(BYTES_MAX // 67)]
    found = secret({**PLACE, "resourceVersion": "1"}, {"issued": "\n".join(filler).encode(), "mine": b"x"})
    new = issued()
    write = noted(found, PLACE, new, NOW)
    content = content_of(write.manifest)
    kept = content["issued"].decode().splitlines()
    assert kept == [*filler[1 - len(kept) :], line_of(new)]
    assert BYTES_MAX - len(f"{filler[0]}\n") < len(content["issued"]) <= BYTES_MAX
    assert (write.verb, content["mine"]) == (Verb.REPLACE, b"x")


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
def test_it_outlives_the_site_where_the_ca_does_and_is_no_child_that_is_looked_at(reclaim: str) -> None:
    body: dict[str, Any] = {**BODY, "spec": {**BODY["spec"], "ledger": {"reclaim": reclaim}}}
    place = place_of(OWNER, checked(body))
    assert ("ownerReferences" in place) == (reclaim == "Delete")
    assert MANAGED_BY not in place.get("labels", {})


class Contested(FakeCluster):
    """Somebody else writes first, some times."""

    left = 0

    @override
    async def write(self, write: Write) -> None:
        if self.left:
            self.left -= 1
            self.put(noted(self.objects.get(KEY), PLACE, issued("other"), NOW).manifest)
            raise ConflictError("was changed")
        await super().write(write)


def test_of_two_who_note_at_once_neither_is_lost() -> None:
    cluster, own = Contested(), issued()
    cluster.left = 2
    asyncio.run(note(cluster, PLACE, own, NOW))
    assert len(lines(cluster)) == 3
    assert lines(cluster)[-1] == line_of(own)
    cluster.left = 99
    with pytest.raises(ConflictError):
        asyncio.run(note(cluster, PLACE, own, NOW))


@scenario
async def _are_noted(scene: Joining) -> None:
    first = await scene.join(scene.token())
    old = Answer.parse(first.body).certificate
    renewal = RenewRequest.signed(old, SERVER_KEY, new_request(SERVER, new_key())).body()
    second = Answer.parse((await scene.ask(RENEW_PATH, renewal)).body).certificate
    given = [x509.load_pem_x509_certificate(one) for one in (old, second)]
    assert lines(scene.cluster) == [line_of(one) for one in given]
    scene.cluster.failing[KEY] = RefusedError("exceeded quota")
    assert (await scene.ask(RENEW_PATH, renewal)).status == 503
    assert len(lines(scene.cluster)) == 2


def test_who_joins_or_renews_is_noted_and_gets_nothing_where_that_cannot_be() -> None:
    _are_noted()


def test_what_is_signed_for_a_request_is_noted_first() -> None:
    cluster, _, reconciler = standing()
    look(reconciler)
    cluster.put(asking("oss01", APPROVED, label="by-hand"))
    cluster.failing[KEY] = RefusedError("exceeded quota")
    look(reconciler)
    assert cluster.answers == []
    assert "exceeded quota" in cluster.statuses[-1]["conditions"][0]["message"]
    cluster.failing.clear()
    look(reconciler)
    assert cluster.answers == [("by-hand", "status", "AgentCertificateIssued")]
    (line,) = lines(cluster)
    assert line.endswith(" server oss01")
    assert [line.split()[0] in one.message for one in cluster.events if one.reason == "AgentCertificateIssued"] == [
        True
    ]
