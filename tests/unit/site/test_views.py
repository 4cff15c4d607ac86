"""What a site says when it is asked."""

from pathlib import Path

import pytest

from harvest_pki.identities import Identity, Kind
from harvest_site.loading import load
from harvest_site.parts import IMPLEMENTED, unimplemented
from harvest_site.references import secret_folder, secret_path
from harvest_site.views import (
    aggregators_for,
    aggregators_of,
    filesystem_of,
    servers_of,
    sidecar_agent,
    slurm_agents_of,
    slurm_cluster_of,
)

GOOD = Path(__file__).parents[2] / "data/sites/good"
EXAMPLE = load(GOOD / "example.yaml")
MINIMAL = load(GOOD / "minimal.yaml")


def test_what_is_not_written_has_the_values_of_the_design() -> None:
    spec = MINIMAL.spec
    (home,) = spec.filesystems
    assert (spec.interval_seconds, spec.deadline_seconds) == (20, 5.0)
    assert (home.fsname, home.alias) == ("home", "home")
    assert (home.clients.enabled, home.clients.interval_seconds) == (True, 60)
    assert (spec.ledger.retention_seconds, spec.ledger.storage.size_bytes) == (365 * 86400, 10 << 30)
    assert (spec.ledger.reclaim, spec.ledger.storage.class_name) == ("Retain", "")
    assert spec.certificates.agent_lifetime_seconds == 90 * 86400
    assert not any((spec.clusters, spec.relays, spec.accepts, spec.sinks, spec.aggregators))


@pytest.mark.parametrize(("interval", "deadline"), [("1s", 0.5), ("5s", 2.5), ("10s", 5), ("10m", 5)])
def test_a_short_interval_shortens_the_deadline(interval: str, deadline: float) -> None:
    text = f"interval: {interval}\nfilesystems: [{{name: a, servers: [s], clients: {{interval: 10m}}}}]"
    assert load(text).spec.deadline_seconds == deadline


def test_agents_may_be_lustre_servers_and_those_that_report_job_tables() -> None:
    lustre = {"oss01", "oss02", "oss03", "oss04", "mds1", "mds2", "gd-oss1", "gd-mds1"}
    assert servers_of(EXAMPLE) == lustre | {"vu-slurm1"}
    assert servers_of(load(GOOD / "cluster-head.yaml")) == set()
    assert servers_of(load(GOOD / "split.yaml")) == {"oss1", "oss2", "slurm-sidecar.vu"}


def test_an_agent_reports_to_the_aggregators_that_want_to_hear_of_it() -> None:
    assert aggregators_for(EXAMPLE, "oss01") == aggregators_for(EXAMPLE, "vu-slurm1") == aggregators_of(EXAMPLE)
    split = load(GOOD / "split.yaml")
    home, work = aggregators_of(split)
    assert aggregators_for(split, "oss1") == aggregators_for(split, "slurm-sidecar.vu") == (home, work)
    assert aggregators_for(split, "oss2") == (work,)
    assert aggregators_for(split, "nobody") == ()


def test_the_agent_beside_an_aggregator_has_a_host_name_that_no_other_clusters_has() -> None:
    split = load(GOOD / "split.yaml")
    assert slurm_agents_of(split) == {"vu": "slurm-sidecar.vu"}
    assert slurm_cluster_of(split, "slurm-sidecar.vu") == "vu"
    odd = ["a.b", "a_b", "a_-b", "a..b", "a__b", "a" + "." * 31]
    agents = [sidecar_agent(name) for name in odd]
    assert len(set(agents)) == len(odd)
    assert all(Identity(site="s", kind=Kind.SERVER, name=agent).name == agent for agent in agents)


@pytest.mark.parametrize(
    ("server", "target", "name"),
    [
        ("oss1", "scratch-OST0000", None),
        ("oss01", "scratch-OST0000", "scratch"),
        ("old-oss1", "scratch-OST0000", "scratch-old"),
        ("old-mds1", "scratch-MDT0000", "scratch-old"),
        ("mds2", "scratch-MDT0000", "scratch"),
        ("mds3", "scratch-MDT0000", None),
        ("mds2", "scratch2-MDT0000", None),
        ("mds2", "scratch-old-MDT0000", None),
        ("mds2", "nonsense", None),
    ],
)
def test_a_target_belongs_to_the_file_system_of_its_fsname_and_server(
    server: str, target: str, name: str | None
) -> None:
    found = filesystem_of(load(GOOD / "two-scratch.yaml"), server, target)
    assert (found.name if found else None) == name


def test_one_aggregator_serves_all_where_none_is_listed() -> None:
    assert [(one.name, one.filesystems) for one in aggregators_of(EXAMPLE)] == [("main", ("home", "gdata"))]
    head = aggregators_of(load(GOOD / "cluster-head.yaml"))
    assert [(one.name, one.filesystems) for one in head] == [("main", ("gdata", "archive"))]
    assert [one.name for one in aggregators_of(load(GOOD / "split.yaml"))] == ["home", "work"]


def test_secrets_are_files_in_a_folder_of_their_name() -> None:
    influx = EXAMPLE.spec.sinks[1].influxdb
    assert influx is not None
    assert secret_path(Path("/secrets"), influx.token_secret_ref) == Path("/secrets/influx/token")
    assert secret_folder(Path("/secrets"), EXAMPLE.spec.relays[0].tls_secret_ref) == Path("/secrets/relay-xe")
    other = load(GOOD / "cluster-head.yaml").spec.accepts[1].ca_secret_ref
    assert other is not None
    assert secret_path(Path("/secrets"), other) == Path("/secrets/other-ca/ca.crt")


def test_serials_are_compared_as_numbers() -> None:
    assert load(GOOD / "split.yaml").spec.certificates.denied_serials == {0x0A1B, 0xFF}


def test_parts_without_an_implementation_are_named_where_a_site_uses_them() -> None:
    every = {"clients", "lnets", "jobIds", "slurm", "hosts", "relays", "ganglia", "influxdb", "prometheus"}
    every |= {"certificates.agentLifetime", "ledger.retention", "service"}
    assert set(unimplemented(EXAMPLE)) == every - IMPLEMENTED
    assert set(unimplemented(MINIMAL)) == {"clients"} - IMPLEMENTED
    split = {"clients", "lnets", "slurm", "influxdb", "certificates.caSecretRef", "aggregators", "service"}
    split |= {"certificates.denySerials", "ledger.retention", "slurm.sidecar"}
    assert set(unimplemented(load(GOOD / "split.yaml"))) == split - IMPLEMENTED
    head = {"lnets", "hosts", "accepts", "ganglia"}
    assert set(unimplemented(load(GOOD / "cluster-head.yaml"))) == head - IMPLEMENTED
