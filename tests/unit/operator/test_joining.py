"""Servers that join a site of the operator, without Kubernetes and without sockets."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from harvest_cli.tokens import secret_of
from harvest_operator.authorities import Trust
from harvest_operator.cluster import ConflictError
from harvest_operator.joinables import Joinable, entry_of, is_over, joinable
from harvest_operator.joining import Joining
from harvest_operator.minting import Mint
from harvest_operator.names import Owner
from harvest_pki.authorities import Authority
from harvest_pki.certificates import fingerprint, load_bundle, load_certificate
from harvest_pki.checks import issued_by
from harvest_pki.desks import Desk, Reply
from harvest_pki.identities import Identity, Kind, joining_name
from harvest_pki.joining import CA_PATH, JOIN_PATH, RENEW_PATH, Answer, JoinRequest, RenewRequest, Uplink
from harvest_pki.keys import new_key, new_secret
from harvest_pki.requests import new_request
from harvest_pki.tokens import Entry, Token, digest
from harvest_site.loading import checked
from unit.operator.fakes import FakeCluster
from unit.pki.making import NOW, authority

KEY = "storage", "example"
BODY: dict[str, Any] = {
    "apiVersion": "lustreharvest.dev/v1alpha1",
    "kind": "HarvestSite",
    "metadata": {"name": "example", "namespace": "storage", "uid": "u1"},
    "spec": {
        "filesystems": [{"name": "home", "servers": ["oss[1-2]"]}, {"name": "work", "servers": ["oss[2-3]"]}],
        "aggregators": [
            {"name": "a", "filesystems": ["home"], "service": {"type": "NodePort"}},
            {"name": "b", "filesystems": ["work"], "service": {"type": "ClusterIP", "hostnames": ["b.example"]}},
        ],
    },
}
OWNER = Owner.of(BODY)
OLD, NEW = authority(), authority()
OBJECTS = {("Service", "harvest-example-a"): {"spec": {"ports": [{"name": "grpc", "nodePort": 30023}]}}}
SERVER_KEY = new_key()
SERVER = Identity(site="example", kind=Kind.SERVER, name="oss1")


def kept(entry: Entry) -> dict[str, Any]:
    """Return the Secret of a token as Kubernetes has it."""
    made = secret_of(BODY, entry)
    return {**made, "metadata": {**made["metadata"], "creationTimestamp": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"}}


def site(*issuers: Authority) -> Joinable:
    """Return the site with CAs: of a rotation the old one last."""
    bundle = tuple(one.certificate for one in issuers)
    trust = Trust(bundle=bundle, issuer=issuers[-1], for_agents=issuers[0])
    return joinable(checked(BODY), OWNER, trust, OBJECTS)


class Scene:
    """An operator's desk, and somebody who asks at it from a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster = FakeCluster()
        self.now = NOW
        self.joining = Joining(self.cluster, loop, Mint())
        self.joining.follow(KEY, site(OLD), NOW)
        self.said: list[str] = []
        self.desk = Desk(clock=lambda: self.now, monotonic=lambda: 0.0, say=lambda event, **_: self.said.append(event))

    def token(self, server: str = "oss1") -> str:
        token = Token(site="example", server=server, secret=new_secret(), ca="0" * 64)
        self.cluster.put(kept(Entry.of(token, now=NOW, lifetime=timedelta(hours=1))))
        return token.secret

    async def ask(self, path: str, body: bytes, ca: Authority = OLD) -> Reply:
        place = self.joining.place(name(ca))
        assert place is not None
        return await asyncio.to_thread(self.desk.post, place, path, body, "10.0.0.1")

    async def join(self, secret: str, server: str = "oss1", *, key: Any = SERVER_KEY) -> Reply:  # noqa: ANN401
        identity = Identity(site="example", kind=Kind.SERVER, name=server)
        return await self.ask(JOIN_PATH, JoinRequest(secret=secret, request=new_request(identity, key)).body())


def name(ca: Authority) -> str:
    return joining_name("example", fingerprint(ca.certificate))


def scenario(test: Callable[[Scene], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def whole() -> None:
            await test(Scene(asyncio.get_running_loop()))

        asyncio.run(whole())

    return run


def test_uplinks_are_told_as_the_status_shows_them() -> None:
    uplinks = site(OLD).door.uplinks
    a = Uplink(server_name="a.example.harvest", address=":30023")
    b = Uplink(server_name="b.example.harvest", address="b.example:8023")
    assert uplinks == {"oss1": (a,), "oss2": (a, b), "oss3": (b,)}


@scenario
async def _joins(scene: Scene) -> None:
    secret = scene.token("oss2")
    reply = await scene.join(secret, "oss2")
    answer = Answer.parse(reply.body)
    assert issued_by(load_certificate(answer.certificate), OLD.certificate)
    assert [one.address for one in answer.uplinks] == [":30023", "b.example:8023"]
    (found,) = [one for one in scene.cluster.objects.values() if "token" in one["data"]]
    entry = entry_of(found)
    assert entry is not None
    assert entry.used_by
    assert secret not in json.dumps(found)
    assert found["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert (await scene.join(secret, "oss2")).status is HTTPStatus.OK
    assert (await scene.join(secret, "oss2", key=new_key())).status is HTTPStatus.FORBIDDEN
    assert (await scene.join(new_secret(), "oss2")).status is HTTPStatus.FORBIDDEN


def test_a_server_joins_once_with_a_token_of_the_command() -> None:
    _joins()


@scenario
async def _is_beaten(scene: Scene) -> None:
    secret = scene.token()
    (key,) = scene.cluster.objects
    scene.cluster.failing[key] = ConflictError("somebody was faster")
    assert (await scene.join(secret)).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert scene.said == ["joining is in trouble"]
    scene.cluster.failing.clear()
    assert (await scene.join(secret)).status is HTTPStatus.OK


def test_of_two_who_come_at_once_one_must_come_again() -> None:
    _is_beaten()


@scenario
async def _rotates(scene: Scene) -> None:
    old = Answer.parse((await scene.join(scene.token())).body).certificate
    scene.joining.follow(KEY, site(NEW, OLD), NOW)
    assert {scene.joining.context(name(one)) is not None for one in (OLD, NEW)} == {True}
    body = RenewRequest.signed(old, SERVER_KEY, new_request(SERVER, new_key())).body()
    answer = Answer.parse((await scene.ask(RENEW_PATH, body)).body)
    assert issued_by(load_certificate(answer.certificate), NEW.certificate)
    assert load_bundle(answer.ca) == (NEW.certificate, OLD.certificate)
    scene.joining.follow(KEY, site(NEW), NOW)
    assert (await scene.ask(RENEW_PATH, body)).status is HTTPStatus.FORBIDDEN
    scene.joining.forget(KEY)
    assert scene.joining.place(name(NEW)) is None
    assert scene.joining.context(name(NEW)) is None
    assert scene.joining.context(None) is None


def test_a_rotation_is_survived_and_a_site_that_is_gone_is_joined_no_more() -> None:
    _rotates()


@scenario
async def _closes(scene: Scene) -> None:
    old = Answer.parse((await scene.join(scene.token())).body).certificate
    secret = scene.token("oss2")
    body = RenewRequest.signed(old, SERVER_KEY, new_request(SERVER, new_key())).body()
    scene.joining.close(KEY, "secret/own-ca is not there")
    assert (await scene.join(secret, "oss2")).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert (await scene.ask(RENEW_PATH, body)).status is HTTPStatus.SERVICE_UNAVAILABLE
    place = scene.joining.place(name(OLD))
    assert place is not None
    assert scene.desk.get(place, CA_PATH).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert scene.said[1:] == ["joining is in trouble"] * 3
    assert scene.joining.context(name(OLD)) is not None  # whoever comes is told to come again, by whom he trusts
    scene.joining.follow(KEY, site(OLD), NOW)
    assert (await scene.join(secret, "oss2")).status is HTTPStatus.OK  # the token is good as it was
    assert (await scene.ask(RENEW_PATH, body)).status is HTTPStatus.OK
    scene.joining.close(("storage", "never heard of"), "nothing")


def test_without_a_ca_nobody_gets_a_certificate_and_all_may_come_again() -> None:
    _closes()


@pytest.mark.parametrize(("hours", "over"), [(0, False), (24, False), (25, True)])
def test_tokens_are_kept_for_a_day_after_their_end(hours: int, over: bool) -> None:  # noqa: FBT001
    token = Token(site="example", server="oss1", secret=new_secret(), ca="0" * 64)
    entry = Entry.of(token, now=NOW, lifetime=timedelta(hours=1))
    assert is_over(kept(entry), NOW + timedelta(hours=hours)) is over


def test_a_secret_that_is_something_else_is_no_token() -> None:
    token = Token(site="example", server="oss1", secret=new_secret(), ca="0" * 64)
    made = kept(Entry.of(token, now=NOW, lifetime=timedelta(hours=1)))
    assert entry_of(made) is not None
    for data in ({}, {"token": "AAAA"}, {"token": "e30="}):
        assert entry_of({**made, "data": data}) is None
    other = kept(replace(Entry.of(token, now=NOW, lifetime=timedelta(hours=1)), digest="1" * 64))
    assert entry_of({**made, "data": other["data"]}) is None


@pytest.mark.parametrize(
    "expires", ["2026-11-18T00:00:00", "9999-12-31T23:59:59+00:00", "2099-01-01T00:00:00+00:00", "soon", 5]
)
def test_a_token_with_an_end_that_cannot_be_is_none_and_disturbs_nobody(expires: object) -> None:
    """Whoever may create Secrets writes what he likes into them."""
    token = Token(site="example", server="oss1", secret=new_secret(), ca="0" * 64)
    made = kept(Entry.of(token, now=NOW, lifetime=timedelta(hours=1)))
    line = json.dumps({"digest": digest(token.secret), "server": "oss1", "expires": expires})
    assert is_over({**made, "data": {"token": base64.b64encode(line.encode()).decode()}}, NOW)
    nested = base64.b64encode(b"[" * 100_000).decode()
    assert is_over({**made, "data": {"token": nested}}, NOW)


@scenario
async def _waits(scene: Scene) -> None:
    trust = Trust(bundle=(OLD.certificate,), issuer=OLD, for_agents=OLD)
    scene.joining.follow(KEY, joinable(checked(BODY), OWNER, trust, {}), NOW)
    secret = scene.token()
    assert (await scene.join(secret)).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert (await scene.join(scene.token("oss3"), "oss3")).status is HTTPStatus.OK
    scene.joining.follow(KEY, site(OLD), NOW)
    assert (await scene.join(secret)).status is HTTPStatus.OK


def test_nobody_joins_before_its_aggregators_have_addresses_and_no_token_is_lost_by_that() -> None:
    _waits()
