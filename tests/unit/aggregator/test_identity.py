import pytest

from harvest_aggregator.identity import admission, served_by
from harvest_pki.certificates import bundle_pem
from harvest_pki.errors import PkiError
from harvest_pki.folders import Tls
from harvest_pki.identities import Kind
from harvest_site.loading import SiteError, load
from harvest_site.views import servers_of
from unit.pki.making import DAY, NOW, authority, certificate

CA = authority("demo")
SITE = """
filesystems:
  - {name: home, servers: [oss1]}
  - {name: gdata, servers: [gd1]}
clusters: [{name: vu, lnets: [o2ib], filesystems: [home], slurm: {server: slurm1}}]
certificates: {denySerials: ["0a"]}
aggregators: [{name: a, filesystems: [home]}, {name: b, filesystems: [gdata]}]
"""


def tls(name: str = "a") -> Tls:
    own = certificate(CA, name, kind=Kind.AGGREGATOR)
    return Tls(certificate=bundle_pem([own]), key=b"", ca=bundle_pem([CA.certificate]))


def test_an_aggregator_lets_in_the_servers_of_its_own_file_systems_and_slurms() -> None:
    door = admission(served_by(load(SITE), "a"), tls(), "a")
    assert door.servers == {"oss1", "slurm1"}
    assert door.why_refused(certificate(CA, "oss1"), NOW) is None
    assert door.why_refused(certificate(CA, "slurm1"), NOW) is None
    for stranger in (
        certificate(CA, "gd1"),
        certificate(CA, "oss1", kind=Kind.RELAY),
        certificate(CA, "a", kind=Kind.AGGREGATOR),
        certificate(authority("demo"), "oss1"),
        certificate(authority("other"), "oss1"),
    ):
        assert door.why_refused(stranger, NOW)
    assert door.why_refused(certificate(CA, "oss1"), NOW + 4000 * DAY)


def test_a_site_with_other_aggregators_is_refused() -> None:
    assert servers_of(served_by(load(SITE), "b")) == {"gd1", "slurm1"}
    with pytest.raises(SiteError, match=r"there is no aggregator main.*a, b"):
        served_by(load(SITE), "main")


def test_a_certificate_of_somebody_else_is_refused() -> None:
    with pytest.raises(PkiError, match=r"tls.crt is of aggregator b of site demo.*ca issue-server a"):
        admission(served_by(load(SITE), "a"), tls("b"), "a")
    named = load(
        "{apiVersion: lustreharvest.dev/v1alpha1, kind: HarvestSite, metadata: {name: else}, "
        "spec: {filesystems: [{name: home, servers: [oss1]}]}}"
    )
    with pytest.raises(PkiError, match="site else"):
        admission(named, tls(), "a")


RELAYED = """
filesystems: [{name: home, servers: [oss1]}]
clusters: [{name: vu, lnets: [o2ib], filesystems: [home, gdata, archive]}]
relays: [{cluster: vu, filesystems: [home], endpoint: "head:8023", tlsSecretRef: {name: relay}}]
accepts:
  - {name: site, filesystems: [gdata, scratch], lnets: [o2ib]}
  - {name: other, filesystems: [archive], lnets: [o2ib], caSecretRef: {name: ca}}
aggregators: [{name: a, filesystems: [home, gdata]}, {name: b, filesystems: [archive, scratch]}]
"""


def test_each_aggregator_relays_and_accepts_what_it_serves() -> None:
    first, second = (served_by(load(RELAYED), name).spec for name in ("a", "b"))
    assert [one.filesystems for one in first.relays] == [("home",)]
    assert [(one.name, one.filesystems) for one in first.accepts] == [("site", ("gdata",))]
    assert not second.relays
    assert [(one.name, one.filesystems) for one in second.accepts] == [("site", ("scratch",)), ("other", ("archive",))]


def test_relays_that_are_accepted_may_come_and_nobody_else() -> None:
    others = authority("other")
    door = admission(served_by(load(RELAYED), "b"), tls("b"), "b", {"other": (others.certificate,)})
    assert door.why_relay_refused(certificate(CA, "site", kind=Kind.RELAY), NOW) is None
    assert door.why_relay_refused(certificate(others, "other", kind=Kind.RELAY), NOW) is None
    for stranger in (
        certificate(CA, "site"),
        certificate(CA, "nobody", kind=Kind.RELAY),
        certificate(CA, "other", kind=Kind.RELAY),
        certificate(others, "site", kind=Kind.RELAY),
        certificate(others, "other"),
        certificate(authority("other"), "other", kind=Kind.RELAY),
        certificate(authority("demo"), "site", kind=Kind.RELAY),
    ):
        assert door.why_relay_refused(stranger, NOW)
        assert door.why_refused(stranger, NOW)
    assert door.why_refused(certificate(CA, "site", kind=Kind.RELAY), NOW)
