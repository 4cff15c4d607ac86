"""The chart as it was first becomes today's while data flows, and goes away at last."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from demo.processes import run
from packing.programs import version
from support.chart import CHART, NAMESPACE, OPERATOR
from support.kubernetes.node import Node
from support.kubernetes.resources import CRD
from support.operators import condition
from support.real_site import CHILD, NAME, PATH, SETTINGS, SPACE, RealSite

FIRST = Path(__file__).parents[1] / "data/charts/first"
"""As it was, but for the definition of sites, which is long: today's without what is newer."""
LEDGER = {"storage": {"size": "1Gi"}, "retention": "30d"}


def first_chart(folder: Path) -> Path:
    """Return the chart as it was first; its sites cannot say how long the ledger keeps what is over."""
    chart = folder / "first"
    shutil.copytree(FIRST, chart)
    definition = yaml.safe_load(CRD.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del schema["ledger"]["properties"]["retention"]
    schema["ledger"].get("default", {}).pop("retention", None)
    (chart / "files").mkdir()
    (chart / "files/harvestsites.yaml").write_text(yaml.safe_dump(definition))
    return chart


def issued(site: RealSite, server: str) -> Path:
    """Give an agent its files as one did then: with the CA out of its Secret."""
    ca = site.folder / "ca/ca"
    if not ca.exists():
        ca.mkdir(parents=True)
        kept = site.secret(f"harvest-{NAME}-ca")
        (ca / "ca.crt").write_bytes(kept["ca.crt"])
        (ca / "ca.key").touch(mode=0o600)
        (ca / "ca.key").write_bytes(kept["tls.key"])
    run("harvest-aggregator", "ca", "issue-agent", "--data", str(ca.parent), server)
    tls = ca.parent / "agents" / server
    config = site.folder / f"{server}.toml"
    config.write_text(
        f'[[uplink]]\naddress = "{site.status()["aggregators"][0]["endpoint"]}"\nserver_name = "main.{NAME}.harvest"\n'
        f'ca = "{tls}/ca.crt"\ncert = "{tls}/tls.crt"\nkey = "{tls}/tls.key"\n'
        f'[lustre]\nroot = "{site.lustre.root / server}"\n[spool]\ndirectory = "{site.folder}/{server}-spool"\n'
    )
    return config


@pytest.fixture
def site(node: Node, tmp_path: Path) -> Iterator[RealSite]:
    """Give the example site, installed by the chart of then with images of then, which are today's by another name."""
    for image in ("operator", "aggregator"):
        node.tag(f"localhost/harvest-{image}:{version()}", f"localhost/harvest-{image}:then")
    made = RealSite(node, tmp_path)
    try:
        made.install(first_chart(tmp_path), "--set=images.tag=then")
        made.apply()
        made.wait(lambda: made.pod().is_ready, "the aggregator's Pod")
        made.start_agents(issued)
        made.compare()
        yield made
    finally:
        made.remove()


def test_the_first_chart_is_upgraded_and_uninstalled_while_data_flows(site: RealSite) -> None:
    with pytest.raises(AssertionError, match=r'unknown field "spec.ledger.retention"'):
        site.apply(ledger=LEDGER)
    then = site.pod(), site.operator()
    assert [one.image for one in then] == [f"localhost/harvest-{name}:then" for name in ("aggregator", "operator")]

    site.helm("upgrade", str(CHART), *SETTINGS, "--set=operator.resources.limits.memory=1Gi", "--wait")
    site.wait(lambda: site.pod().is_ready and site.pod().uid != then[0].uid, "an aggregator of today")
    now = site.pod(), site.operator()
    assert [one.image for one in now] == [
        f"localhost/harvest-{name}:{version()}" for name in ("aggregator", "operator")
    ]
    deployment = site.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{OPERATOR}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    site.compare()
    site.apply(ledger=LEDGER)
    assert site.api.get(PATH)["spec"]["ledger"]["retention"] == "30d"
    site.wait(lambda: condition(site.status(), "Ready") == ("True", "Running"), "a site in order")
    site.compare()

    site.helm("uninstall", "--wait")
    site.wait(lambda: not site.left(NAMESPACE, "app.kubernetes.io/instance=harvest"), "the end of the operator")
    ours = ("--selector=app.kubernetes.io/instance=harvest", "--output=name")
    rest = site.node.kubectl("get", "clusterroles,clusterrolebindings,customresourcedefinitions", *ours).split()
    assert rest == ["customresourcedefinition.apiextensions.k8s.io/harvestsites.lustreharvest.dev"]
    site.compare()
    assert site.pod() == now[0], "sites go on without the operator"

    site.kubectl("delete", "hs", NAME)
    kept = {f"secret/harvest-{NAME}-ca", f"persistentvolumeclaim/{CHILD}-ledger"}
    site.wait(lambda: site.left(SPACE, f"lustreharvest.dev/site={NAME}") == kept, "the end of all but ledger and CA")
