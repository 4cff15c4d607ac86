"""Decisions: from a site and what is there to what is to be written and what is wrong."""

import base64
import copy
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from harvest_operator.conditions import Reason
from harvest_operator.minting import content_of
from harvest_operator.names import ADOPT, FINISH_CA_ROTATION, REFERENCES, ROTATE_CA, SITE_UID, Key, Object, key_of
from harvest_operator.plan import Plan, Verb
from harvest_pki.authorities import Authority
from harvest_pki.certificates import bundle_pem, load_bundle, load_certificate
from harvest_pki.folders import CaFolder
from harvest_pki.identities import Identity, Kind, hosts_of
from harvest_pki.keys import new_key
from support.sites_in_kubernetes import NOW, authority_data, body_of, decided, given, stored, world
from unit.operator.fakes import merged

DEPLOYMENT = "Deployment", "harvest-example-main"
VOLUME = "PersistentVolumeClaim", "harvest-example-main-ledger"
CA = "Secret", "harvest-example-ca"
TLS = "Secret", "harvest-example-main-tls"
AGENTS = "ConfigMap", "harvest-example-agents"
TOKEN = "Secret", "harvest-example-token"
ANOTHER = {"token": "chosen-by-somebody"}


class Standing:
    """A site and its cluster: every decision is carried out."""

    def __init__(self, case: str = "example", *, now: datetime = NOW) -> None:
        self.body = body_of(case)
        self.now = now
        self.objects: dict[Key, Any] = dict(world(given(case)))
        self.plan = self.step()

    def step(self) -> Plan:
        """Decide once, and do it."""
        _, _, self.plan = decided(self.body, self.objects, now=self.now)
        for write in self.plan.writes:
            key = key_of(write.manifest)
            if write.verb is Verb.DELETE:
                del self.objects[key]
            else:
                there = self.objects.get(key, {}) if write.verb is Verb.APPLY else {}
                self.objects[key] = stored(merged(there, write.manifest), version=2)
        return self.plan

    def spec(self, **parts: object) -> Plan:
        """Edit the site."""
        self.body["spec"] |= parts
        self.body["metadata"]["generation"] += 1
        return self.step()

    def annotate(self, **marks: str) -> Plan:
        self.body["metadata"]["annotations"] |= marks
        return self.step()

    def again(self) -> Plan:
        """Delete the site and make it anew: what goes with it goes."""
        uid = self.body["metadata"]["uid"]
        self.objects = {key: one for key, one in self.objects.items() if not owned_by(one, uid)}
        self.body["metadata"]["uid"] = "another"
        return self.step()


def owned_by(found: Object, uid: str) -> bool:
    return any(one["uid"] == uid for one in found["metadata"].get("ownerReferences", ()))


def writes(plan: Plan) -> list[tuple[str, str]]:
    return [(write.verb, "/".join(key_of(write.manifest))) for write in plan.writes]


def problems(plan: Plan) -> list[tuple[Reason, str]]:
    return [(one.reason, one.message) for one in plan.problems]


def content(found: Object, key: str) -> bytes:
    return base64.b64decode(found["data"][key])


def bundle(found: Object) -> tuple[x509.Certificate, ...]:
    return load_bundle(content(found, "ca.crt"))


def told(found: Object) -> tuple[x509.Certificate, ...]:
    return load_bundle(found["data"]["ca.crt"].encode())


def with_data(found: Mapping[str, Any], **texts: str) -> dict[str, Any]:
    one = copy.deepcopy(dict(found))
    one["data"] |= {key.replace("_", "."): base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return one


@pytest.mark.parametrize("case", ["example", "minimal", "split", "cluster-head", "sidecars"])
def test_what_is_as_it_should_be_is_not_written_again(case: str) -> None:
    site = Standing(case)
    assert site.plan.writes != ()
    assert site.step().writes == ()


def test_a_child_that_is_gone_comes_back_and_no_other_is_touched() -> None:
    site = Standing()
    del site.objects[DEPLOYMENT]
    assert writes(site.step()) == [("apply", "Deployment/harvest-example-main")]


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one["spec"].update(replicas=3),
        lambda one: one["spec"]["template"]["spec"]["containers"][0].update(image="other"),
        lambda one: one["spec"]["template"]["spec"]["containers"][0]["args"].append("--more"),
        lambda one: one["spec"]["strategy"].update(type="RollingUpdate"),
        lambda one: one["metadata"].update(ownerReferences=[]),
        lambda one: one["metadata"]["labels"].pop("app.kubernetes.io/part-of"),
        lambda one: one["metadata"].pop("annotations"),
    ],
)
def test_what_somebody_changed_is_repaired(change: Callable[[Any], None]) -> None:
    site = Standing()
    change(site.objects[DEPLOYMENT])
    plan = site.step()
    assert writes(plan) == [("apply", "Deployment/harvest-example-main")]
    assert site.step().writes == ()


def test_what_others_added_stays() -> None:
    site = Standing()
    one = site.objects[DEPLOYMENT]
    one["metadata"]["labels"]["theirs"] = one["metadata"]["annotations"]["theirs"] = "x"
    one["spec"]["template"]["spec"]["containers"].append({"name": "injected"})
    site.objects[CA]["metadata"]["labels"]["theirs"] = "x"
    site.annotate(**{ROTATE_CA: "one"})
    assert site.objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"][-1] == {"name": "injected"}
    assert site.objects[CA]["metadata"]["labels"]["theirs"] == "x"


def test_an_edited_interval_changes_the_site_that_is_read_and_starts_no_pod_anew() -> None:
    site = Standing()
    assert writes(site.spec(interval="30s")) == [("apply", "ConfigMap/harvest-example-main")]


def test_a_part_that_is_removed_is_pruned_and_its_ledger_stays() -> None:
    site = Standing("sidecars")
    spec = site.body["spec"]
    aggregators = [{"name": "home", "filesystems": ["home", "tape"]}, spec["aggregators"][1]]
    plan = site.spec(aggregators=aggregators)
    gone = [name for verb, name in writes(plan) if verb == "delete"]
    assert sorted(gone) == [
        "ConfigMap/harvest-many-tape",
        "Deployment/harvest-many-tape",
        "Secret/harvest-many-tape-tls",
        "Service/harvest-many-tape",
    ]
    assert writes(plan)[: len(gone)] == [("delete", name) for name in gone]  # a port that it had may be another's
    assert ("PersistentVolumeClaim", "harvest-many-tape-ledger") in site.objects
    assert ("apply", "Deployment/harvest-many-work") in writes(
        plan
    )  # Slurm's agent in it must not go on to the one that is gone
    back = site.spec(aggregators=body_of("sidecars")["spec"]["aggregators"])
    assert problems(back) == [(Reason.MISSING_REFERENCE, "secret/munge-xe is not there")]
    assert ("Deployment", "harvest-many-tape") in site.objects


def test_a_ledger_that_goes_with_its_site_goes_with_its_aggregator() -> None:
    site = Standing("split")
    plan = site.spec(aggregators=[{"name": "home", "filesystems": ["home", "work"]}])
    assert ("delete", "PersistentVolumeClaim/harvest-split-work-ledger") in writes(plan)


def test_only_what_belongs_to_this_very_site_is_pruned() -> None:
    site = Standing()
    copied = copy.deepcopy(site.objects[DEPLOYMENT])
    copied["metadata"] |= {"name": "a-copy", "ownerReferences": []}
    leaving = copy.deepcopy(site.objects[DEPLOYMENT])
    leaving["metadata"] |= {"name": "leaving", "deletionTimestamp": "2026-11-16T12:00:00Z"}
    site.objects |= {("Deployment", "a-copy"): copied, ("Deployment", "leaving"): leaving}
    assert site.step().writes == ()


def test_a_missing_reference_is_named_and_the_rest_runs() -> None:
    site = Standing()
    before = site.objects[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"][REFERENCES]
    influx = site.objects.pop(("Secret", "influx"))
    site.objects["Secret", "relay-xe"]["data"].pop("ca.crt")
    plan = site.step()
    assert problems(plan) == [
        (Reason.MISSING_REFERENCE, "secret/influx is not there"),
        (Reason.MISSING_REFERENCE, "secret/relay-xe has no ca.crt"),
    ]
    assert writes(plan) == [("apply", "Deployment/harvest-example-main")]
    site.objects["Secret", "influx"] = influx
    site.objects["Secret", "relay-xe"] = world(given("example"))["Secret", "relay-xe"]
    assert problems(site.step()) == []
    assert site.objects[DEPLOYMENT]["spec"]["template"]["metadata"]["annotations"][REFERENCES] == before


def test_a_relays_new_certificate_starts_nothing_anew_and_its_end_is_told_in_time() -> None:
    """The aggregator reads it with every call; Kubernetes brings it into the Pod."""
    site = Standing()
    head = Authority.create("xe", key=new_key(), serial=1, now=NOW)
    relay = Identity(site="xe", kind=Kind.RELAY, name="example")
    issued = head.issue(relay, new_key().public_key(), serial=2, now=NOW)  # for 90 days
    files = {"tls.crt": bundle_pem([issued]).decode(), "tls.key": "k", "ca.crt": "c"}
    secret = {"kind": "Secret", "metadata": {"name": "relay-xe", "namespace": "harvest"}, "stringData": files}
    site.objects |= world([secret])
    assert site.step().writes == ()
    assert "relay" not in site.plan.certificates.message
    for days, ends in {75: None, 77: "ends on 2027-02-14", 91: "ended on 2027-02-14"}.items():
        _, _, plan = decided(site.body, site.objects, now=NOW + timedelta(days=days))
        told = f"; the certificate of relay xe (secret/relay-xe) {ends}: its receiver makes another"
        assert (told in plan.certificates.message) == (ends is not None)
        assert (plan.certificates.status, plan.certificates.reason) == ("True", Reason.VALID)


def test_a_changed_secret_rolls_the_pods_that_use_it_and_no_others() -> None:
    site = Standing("split")
    site.objects["Secret", "munge"] = with_data(site.objects["Secret", "munge"], munge_key="another key")
    assert writes(site.step()) == [("apply", "Deployment/harvest-split-home")]
    site.objects["ConfigMap", "slurm"]["data"]["topology.conf"] = "x"  # included by slurm.conf, perhaps
    assert writes(site.step()) == [("apply", "Deployment/harvest-split-home")]
    site.objects["Secret", "influx"] = with_data(site.objects["Secret", "influx"], **ANOTHER)
    both = [("apply", "Deployment/harvest-split-home"), ("apply", "Deployment/harvest-split-work")]
    assert writes(site.step()) == both
    site.objects["Secret", "influx"] = with_data(site.objects["Secret", "influx"], unused="x")
    assert site.step().writes == ()
    site.objects["Secret", "harvest-split-token"] = with_data(site.objects["Secret", "harvest-split-token"], **ANOTHER)
    assert writes(site.step()) == both


def test_a_slurm_agent_waits_for_its_key_while_the_aggregator_runs() -> None:
    site = Standing("sidecars")
    home = "Deployment", "harvest-many-home"
    names = [one["name"] for one in site.objects[home]["spec"]["template"]["spec"]["containers"]]
    assert names == ["aggregator"]
    site.objects |= world(
        [{"kind": "Secret", "metadata": {"name": "munge-xe", "namespace": "harvest"}, "stringData": {"munge.key": "k"}}]
    )
    assert problems(site.step()) == []
    names = [one["name"] for one in site.objects[home]["spec"]["template"]["spec"]["containers"]]
    assert names == ["aggregator", "munge-xe", "slurm-xe"]


def test_a_name_that_is_taken_is_left_alone() -> None:
    for key in (DEPLOYMENT, TLS, TOKEN, CA, VOLUME, ("Service", "harvest-example-main")):
        site = Standing()
        foreign = {"kind": key[0], "metadata": {"name": key[1], "namespace": "harvest", "labels": {"app": "x"}}}
        site.objects = {**world(given("example")), key: stored(foreign)}
        plan = site.step()
        assert [reason for reason, _ in problems(plan)] == [Reason.NAME_TAKEN]
        assert f"{key[0].lower()}/{key[1]} is not Harvest's" in problems(plan)[0][1]
        assert "/".join(key) not in [name for _, name in writes(plan)]
        assert "Deployment/harvest-example-main" not in [name for _, name in writes(plan)]


def test_another_sites_object_is_not_ours_though_the_name_be_the_same() -> None:
    site = Standing()
    other = copy.deepcopy(site.objects[DEPLOYMENT])
    other["metadata"]["labels"]["lustreharvest.dev/site"] = "example-main"
    other["metadata"]["ownerReferences"] = [{"uid": "theirs"}]
    site.objects[DEPLOYMENT] = other
    assert [reason for reason, _ in problems(site.step())] == [Reason.NAME_TAKEN]


def test_ledger_and_ca_outlive_the_site_and_are_adopted_when_that_is_said() -> None:
    site = Standing()
    kept_ca = site.objects[CA]
    plan = site.again()
    assert {key for key in site.objects if key[1].startswith("harvest-example")} >= {CA, VOLUME}
    assert [reason for reason, _ in problems(plan)] == [Reason.NOT_ADOPTED, Reason.NOT_ADOPTED]
    assert "kubectl annotate hs example lustreharvest.dev/adopt=true" in problems(plan)[0][1]
    assert plan.certificates.reason is Reason.CA_UNUSABLE
    assert DEPLOYMENT not in site.objects
    site.annotate(**{ADOPT: "true"})
    assert problems(site.plan) == []
    assert site.objects[CA]["data"] == kept_ca["data"]
    assert site.objects[CA]["metadata"]["annotations"][SITE_UID] == "another"
    assert site.objects[VOLUME]["metadata"]["annotations"][SITE_UID] == "another"
    assert DEPLOYMENT in site.objects
    assert site.step().writes == ()


@pytest.mark.parametrize("key", [CA, VOLUME])
def test_the_mark_of_what_is_kept_comes_back_if_somebody_takes_it_away(key: Key) -> None:
    site = Standing()
    metadata = site.objects[key]["metadata"]
    metadata["annotations"] = metadata["labels"] = {}
    assert problems(site.step()) == []
    assert site.objects[key]["metadata"]["annotations"][SITE_UID] == site.body["metadata"]["uid"]
    assert site.objects[key]["metadata"]["labels"]["lustreharvest.dev/site"] == "example"
    assert site.step().writes == ()


def test_without_retain_ledger_and_ca_go_with_the_site() -> None:
    site = Standing()
    site.spec(ledger={"reclaim": "Delete"})
    assert owned_by(site.objects[CA], site.body["metadata"]["uid"])
    assert owned_by(site.objects[VOLUME], site.body["metadata"]["uid"])
    assert site.step().writes == ()
    site.spec(ledger={"reclaim": "Retain"})
    assert "ownerReferences" not in site.objects[CA]["metadata"]
    assert site.objects[CA]["metadata"]["annotations"][SITE_UID] == site.body["metadata"]["uid"]


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ({"size": "1Gi"}, "has 10Gi and cannot shrink to 1Gi"),
        ({"size": "10Gi", "className": "fast"}, "is of the class '' and cannot become 'fast'"),
    ],
)
def test_what_cannot_be_changed_about_a_volume_stays_and_is_told(storage: dict[str, str], text: str) -> None:
    site = Standing()
    plan = site.spec(ledger={"storage": storage})
    assert problems(plan) == [(Reason.CANNOT_CHANGE, f"persistentvolumeclaim/harvest-example-main-ledger {text}")]
    assert "PersistentVolumeClaim/harvest-example-main-ledger" not in [name for _, name in writes(site.step())]


def test_a_volume_grows() -> None:
    site = Standing()
    site.spec(ledger={"storage": {"size": "20Gi"}})
    assert site.objects[VOLUME]["spec"]["resources"]["requests"]["storage"] == "20Gi"


def test_certificates_are_renewed_before_they_end_and_no_pod_is_started_anew() -> None:
    site = Standing()
    first = load_certificate(content(site.objects[TLS], "tls.crt"))
    assert site.plan.look_again is None
    due = site.step().look_again
    assert due is not None
    assert NOW + timedelta(days=365 * 2 / 3) <= due <= NOW + timedelta(days=365 * 0.78)
    site.now = due - timedelta(seconds=1)
    assert site.step().writes == ()
    site.now = due
    assert writes(site.step()) == [("replace", "Secret/harvest-example-main-tls")]
    assert load_certificate(content(site.objects[TLS], "tls.crt")).serial_number != first.serial_number


def test_certificates_that_cannot_last_longer_than_their_ca_are_not_renewed_in_vain() -> None:
    site = Standing()
    end = bundle(site.objects[CA])[0].not_valid_after_utc
    site.now = end - timedelta(days=2)
    assert writes(site.step()) == [("replace", "Secret/harvest-example-main-tls")]
    assert "kubectl annotate hs example lustreharvest.dev/rotate-ca" in site.plan.certificates.message
    site.now = end - timedelta(hours=1)
    assert site.step().writes == ()
    site.now = end
    assert site.step().certificates.reason is Reason.CA_UNUSABLE
    assert site.plan.writes == ()


def test_hosts_of_the_service_are_in_the_certificate() -> None:
    site = Standing()
    assert hosts_of(load_certificate(content(site.objects[TLS], "tls.crt"))) == {"harvest.example"}
    service = {"hostnames": ["a.example", "x.y.harvest"], "addresses": ["2001:DB8::7"]}
    site.spec(service=service)
    assert hosts_of(load_certificate(content(site.objects[TLS], "tls.crt"))) == {"a.example", "2001:db8::7"}
    assert site.step().writes == ()


@pytest.mark.parametrize("key", ["tls_crt", "tls_key"])
def test_a_certificate_that_somebody_broke_is_made_anew(key: str) -> None:
    site = Standing()
    site.objects[TLS] = with_data(site.objects[TLS], **{key: "nonsense"})
    assert writes(site.step()) == [("replace", "Secret/harvest-example-main-tls")]
    assert site.step().writes == ()


def test_a_ca_that_somebody_broke_is_never_overwritten() -> None:
    site = Standing()
    site.objects[CA] = with_data(site.objects[CA], tls_key="nonsense")
    plan = site.step()
    assert plan.writes == ()
    assert plan.certificates.reason is Reason.CA_UNUSABLE
    assert "secret/harvest-example-ca is no CA that can be used" in plan.certificates.message


def test_a_ca_that_is_lost_stays_trusted_beside_the_new_one() -> None:
    site = Standing()
    (old,) = bundle(site.objects[CA])
    serving = content(site.objects[TLS], "tls.crt")
    del site.objects[CA]
    assert writes(site.step()) == [
        ("create", f"Secret/{CA[1]}"),
        ("replace", f"Secret/{TLS[1]}"),
        ("apply", f"ConfigMap/{AGENTS[1]}"),
    ]
    new, *others = bundle(site.objects[CA])
    assert (others, bundle(site.objects[TLS]), told(site.objects[AGENTS])) == ([old], (new, old), (new, old))
    assert content(site.objects[TLS], "tls.crt") == serving  # agents that trust the old one alone come as before
    assert site.step().writes == ()
    assert site.plan.certificates.reason is Reason.VALID
    assert site.plan.certificates.message == (
        "issued by the CA of the site; an earlier CA is still trusted, too: to end that, `kubectl annotate hs example "
        "lustreharvest.dev/rotate-ca=2026-11`, and go on as with any rotation"
    )
    del site.objects[CA]
    site.objects[TLS] = with_data(site.objects[TLS], ca_crt="nonsense")
    site.step()
    assert len(bundle(site.objects[CA])) == 1


def test_a_rotation_trusts_both_until_it_is_finished() -> None:
    site = Standing()
    (old,) = bundle(site.objects[CA])
    serving = load_certificate(content(site.objects[TLS], "tls.crt"))
    plan = site.annotate(**{ROTATE_CA: "2026"})
    assert writes(plan) == [
        ("replace", f"Secret/{CA[1]}"),
        ("replace", f"Secret/{TLS[1]}"),
        ("apply", f"ConfigMap/{AGENTS[1]}"),
    ]
    assert plan.certificates.reason is Reason.ROTATING
    new, *others = bundle(site.objects[CA])
    assert others == [old]
    assert load_certificate(content(site.objects[CA], "tls.crt")) == new  # issues for agents
    assert bundle(site.objects[TLS]) == told(site.objects[AGENTS]) == (new, old)
    assert load_certificate(content(site.objects[TLS], "tls.crt")) == serving  # agents may trust the old one only
    assert site.step().writes == ()
    site.spec(service={"hostnames": ["other.example"]})  # a certificate that is needed meanwhile is the old CA's
    load_certificate(content(site.objects[TLS], "tls.crt")).verify_directly_issued_by(old)
    plan = site.annotate(**{FINISH_CA_ROTATION: "2026"})
    assert plan.certificates.reason is Reason.VALID
    assert bundle(site.objects[CA]) == bundle(site.objects[TLS]) == told(site.objects[AGENTS]) == (new,)
    load_certificate(content(site.objects[TLS], "tls.crt")).verify_directly_issued_by(new)
    assert set(site.objects[CA]["data"]) == {"tls.crt", "tls.key", "ca.crt"}
    assert site.step().writes == ()
    assert site.annotate(**{ROTATE_CA: "2027"}).certificates.reason is Reason.ROTATING
    assert site.step().writes == ()  # the annotation of the last finish does not finish this one


def test_agents_get_certificates_of_the_newest_ca_once_that_is_stored() -> None:
    site = Standing()
    assert site.plan.issuer is None, "whether it can be written is not known yet"
    old = site.step().issuer
    assert old is not None
    assert (old.certificate,) == bundle(site.objects[CA])
    assert site.annotate(**{ROTATE_CA: "2026"}).issuer is None
    new = site.step().issuer
    assert new is not None
    assert (new.certificate, old.certificate) == bundle(site.objects[CA])
    assert site.annotate(**{FINISH_CA_ROTATION: "2026"}).issuer is None
    last = site.step().issuer
    assert last is not None
    assert last.certificate == new.certificate
    site.objects[CA] = with_data(site.objects[CA], tls_key="nonsense")
    assert site.step().issuer is None


def test_agents_are_told_of_the_aggregators_that_want_to_hear_of_them_and_of_no_other() -> None:
    """An aggregator lets nobody in whom its file systems do not list: for it an agent would keep everything."""
    data = Standing("split").objects["ConfigMap", "harvest-split-agents"]["data"]
    assert set(data) == {"ca.crt", "agent.toml", "agent.oss2.toml"}
    assert data["agent.toml"].count("[[uplink]]") == 2
    assert (data["agent.oss2.toml"].count("[[uplink]]"), "work.split.harvest" in data["agent.oss2.toml"]) == (1, True)
    long = ".".join(["a" * 60] * 4)
    site = Standing("split")
    filesystems = [{**one, "servers": [*one["servers"], long]} for one in site.body["spec"]["filesystems"][:1]]
    site.spec(filesystems=[*filesystems, *site.body["spec"]["filesystems"][1:]])
    assert set(site.objects["ConfigMap", "harvest-split-agents"]["data"]) == set(data)


def test_an_aggregator_may_not_take_the_name_of_what_agents_read() -> None:
    site = Standing()
    plan = site.spec(aggregators=[{"name": "agents", "filesystems": ["home", "gdata"]}])
    assert (
        Reason.NAME_TAKEN,
        "configmap/harvest-example-agents is an aggregator's: call that something else",
    ) in problems(plan)
    assert "site.yaml" in site.objects[AGENTS]["data"]
    assert site.step().writes == ()


def test_the_ca_out_of_its_secret_issues_for_agents_during_a_rotation_too(tmp_path: Path) -> None:
    """As docs/how-to/operator.md says."""
    site = Standing()
    site.annotate(**{ROTATE_CA: "2026"})
    folder = tmp_path / "ca"
    folder.mkdir(mode=0o700)
    for name, key in (("ca.crt", "ca.crt"), ("ca.key", "tls.key")):
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content(site.objects[CA], key))
    issued = CaFolder(folder).write_agent(tmp_path / "oss1", "oss1", now=NOW)
    new, old = bundle(site.objects[CA])
    issued.verify_directly_issued_by(new)
    assert load_bundle((tmp_path / "oss1/ca.crt").read_bytes()) == (new, old)


def test_a_rotation_ends_by_itself_with_the_old_ca() -> None:
    site = Standing()
    site.now = NOW + timedelta(days=1825)
    site.annotate(**{ROTATE_CA: "late"})
    new, old = bundle(site.objects[CA])
    site.now = old.not_valid_after_utc
    assert site.step().certificates.reason is Reason.VALID
    assert bundle(site.objects[CA]) == bundle(site.objects[TLS]) == (new,)


def test_a_ca_that_the_site_brought_is_used_and_never_written() -> None:
    site = Standing("split")
    own = "Secret", "own-ca"
    tls = "Secret", "harvest-split-work-tls"
    assert bundle(site.objects[tls]) == load_bundle(content(site.objects[own], "tls.crt"))
    old = content(site.objects[own], "tls.crt").decode()
    other = authority_data("split")
    site.objects[own] = with_data(site.objects[own], tls_crt=other["tls.crt"] + old, tls_key=other["tls.key"])
    before = content(site.objects[tls], "tls.crt")
    assert ("replace", "Secret/harvest-split-work-tls") in writes(site.step())
    assert content(site.objects[tls], "tls.crt") == before  # trusted both; nothing is due
    assert site.plan.certificates.message == (
        "issued by the CA of the site; an earlier CA is still trusted, too: when every agent has new files, take it "
        "out of secret/own-ca"
    )
    site.objects[own] = with_data(site.objects[own], tls_crt=other["tls.crt"])
    site.step()
    assert content(site.objects[tls], "tls.crt") != before
    assert not any(key[1] == "harvest-split-ca" for key in site.objects)


@pytest.mark.parametrize(
    ("change", "reason", "text"),
    [
        (None, Reason.CA_MISSING, "secret/own-ca is not there"),
        ({"tls_key": "x"}, Reason.CA_UNUSABLE, "secret/own-ca is no CA that can be used"),
        ({"other": "site"}, Reason.CA_UNUSABLE, "secret/own-ca is the CA of site other; this is site split"),
    ],
)
def test_without_a_ca_what_runs_runs_on(change: dict[str, str] | None, reason: Reason, text: str) -> None:
    site = Standing("split")
    own = "Secret", "own-ca"
    if change is None:
        del site.objects[own]
    elif "other" in change:
        data = authority_data("other")
        site.objects[own] = with_data(site.objects[own], tls_crt=data["tls.crt"], tls_key=data["tls.key"])
    else:
        site.objects[own] = with_data(site.objects[own], **change)
    plan = site.step()
    assert plan.certificates.reason is reason
    assert text in plan.certificates.message
    assert plan.writes == ()
    assert ("apply", "Deployment/harvest-split-work") in writes(
        site.spec(
            aggregators=[
                *site.body["spec"]["aggregators"][:1],
                {"name": "work", "filesystems": ["work"], "nodeSelector": {"a": "b"}},
            ]
        )
    )


def test_without_a_ca_no_pod_waits_for_a_certificate_that_nobody_issues() -> None:
    site = Standing("sidecars")
    site.objects["Secret", "harvest-many-ca"] = with_data(site.objects["Secret", "harvest-many-ca"], tls_key="x")
    site.objects |= world(
        [{"kind": "Secret", "metadata": {"name": "munge-xe", "namespace": "harvest"}, "stringData": {"munge.key": "k"}}]
    )
    plan = site.step()
    assert plan.certificates.reason is Reason.CA_UNUSABLE
    assert "Deployment/harvest-many-home" not in [name for _, name in writes(plan)]


def test_aggregators_are_asked_by_their_name_with_token_and_ca() -> None:
    (target,) = Standing().step().targets
    assert target.server_name == "main.example.harvest"
    assert target.service == "harvest-example-main"
    assert len(target.token) >= 32
    assert target.token not in repr(target)


def test_a_ledger_is_kept_if_the_same_edit_says_so_and_takes_its_aggregator_away() -> None:
    site = Standing("split")
    spec = site.body["spec"]
    plan = site.spec(
        aggregators=[{"name": "home", "filesystems": ["home", "work"]}], ledger={**spec["ledger"], "reclaim": "Retain"}
    )
    claim = "PersistentVolumeClaim", "harvest-split-work-ledger"
    assert ("delete", "/".join(claim)) not in writes(plan)
    (released,) = (write.manifest for write in plan.writes if key_of(write.manifest) == claim)
    assert "ownerReferences" not in released["metadata"]


@pytest.mark.parametrize("lost", ["secret", "marks"])
def test_a_ca_that_is_lost_after_a_rotation_is_neither_rotated_nor_forgotten_again(lost: str) -> None:
    site = Standing()
    site.annotate(**{ROTATE_CA: "one"})
    site.annotate(**{ROTATE_CA: "one", FINISH_CA_ROTATION: "one"})
    before = load_bundle(content_of(site.objects[CA])["ca.crt"])
    if lost == "secret":
        del site.objects[CA]
    else:
        site.objects[CA]["metadata"]["annotations"] = {}
    for _ in range(4):
        site.step()
    after = load_bundle(content_of(site.objects[CA])["ca.crt"])
    assert set(before) <= set(after)
    assert len(after) == (2 if lost == "secret" else 1)
