"""One site from the chart to exact totals, on a real node, and what befalls it while data flows.

Each test leaves the site as it found it: running, with everybody connected.
"""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from demo.processes import BIN, free_port, run
from packing.programs import version
from support.bare_metal import BareMetal
from support.chart import CHART
from support.kubernetes.node import Node
from support.kubernetes.programs import programs
from support.operators import condition
from support.real_head import CLUSTER, NODES, OF_CLUSTER, RealHead
from support.real_site import NAME, SERVERS, SPACE, RealSite

PAGE = Path(__file__).parents[2] / "docs/how-to/operator.md"
GOAL_SECONDS = 60
ANSWER_SECONDS = 60
"""Whoever is not let in hears so at once; nobody else is to be taken for one because the machine is busy."""


def bundled(site: RealSite, server: str) -> Path:
    """Give an agent what ``harvest agent-bundle`` makes for it, also over what it has; nothing else is told to it."""
    kubeconfig = str(site.node.control_plane.admin)
    with TemporaryDirectory(dir=site.folder) as name:
        made = Path(name, server)
        run(
            "harvest",
            "agent-bundle",
            NAME,
            server,
            "--namespace",
            SPACE,
            "--out",
            str(made),
            "--kubeconfig",
            kubeconfig,
        )
        home = site.folder / server  # /etc/harvest-agent of that server
        home.mkdir(mode=0o700, exist_ok=True)
        config = (made / "agent.toml").read_text()
        assert config.count("/etc/harvest-agent/") == 3
        config = config.replace("/etc/harvest-agent/", f"{home}/")
        here = f'[lustre]\nroot = "{site.lustre.root / server}"\n[spool]\ndirectory = "{home}/spool"\n'
        (made / "agent.toml").write_text(config + here)
        for file in sorted(made.iterdir()):
            shutil.copy2(file, home / file.name)
    return home / "agent.toml"


@pytest.fixture(scope="module")
def site(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSite]:
    """Give the example site, installed by the chart, with everybody connected."""
    made = RealSite(node, tmp_path_factory.mktemp("site"))
    try:
        began = time.monotonic()
        made.install(CHART)
        made.apply()
        made.wait(lambda: made.pod().is_ready, "the aggregator's Pod")
        made.start_agents(bundled)
        exact = made.compare()
        print(f"\n{exact - began:.1f} s from helm install to the first exact totals; the goal is {GOAL_SECONDS} s")
        yield made
    finally:
        made.remove()


def test_people_look_at_it_as_the_page_says(site: RealSite, tmp_path: Path) -> None:
    (commands,) = re.findall(r"^## Looking at a site\n.*?^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    port = free_port()  # that of the page may be somebody's here
    commands = commands.replace("main 8024 &", f"main {port}:8024 &").replace("127.0.0.1:8024", f"127.0.0.1:{port}")
    assert commands.count(str(port)) == 2
    head, _, top = commands.rstrip().rpartition("\n")
    assert top.startswith("harvest top ")
    path = os.pathsep.join((str(BIN), str(programs()), os.environ["PATH"]))
    environment = {**os.environ, "KUBECONFIG": str(site.node.control_plane.admin), "PATH": path}
    listening = f"until (: > /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do kill -0 $! || exit 1; sleep 0.1; done"
    script = f"{head}\n{listening}\n{top} --once --sort ops; code=$?; kill $!; exit $code"

    def is_seen() -> bool:
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        seen = ran.stdout[ran.stdout.index("harvest top ·") :]
        if is_busy := "1000002" in seen:
            print(f"\n{seen}")
        return is_busy

    site.wait(is_seen, "the job that is busiest on the MDT")


def test_a_pod_that_is_deleted_comes_back_and_nothing_is_lost(site: RealSite) -> None:
    before = site.pod()
    site.kubectl("delete", "pod", f"--selector=lustreharvest.dev/site={NAME}", "--wait")
    site.wait(lambda: site.pod().is_ready and site.pod().uid != before.uid, "another Pod")
    site.compare()


def test_an_operator_that_is_killed_comes_back_and_tells_what_changed(site: RealSite) -> None:
    before, operator = site.pod(), site.operator()
    site.apply(filesystems=[{"name": "scratch", "servers": [*SERVERS, "oss2"]}])
    site.wait(lambda: "oss2" in site.servers(), "the aggregator's knowledge of another server")
    site.node.kill(operator.container)
    site.wait(lambda: site.operator().is_ready and site.operator().starts == operator.starts + 1, "the operator")
    site.wait(lambda: site.columns() == [NAME, "True", "Running", "2/3"], "the other server in kubectl get")
    assert condition(site.status(), "AgentsConnected") == ("False", "SomeMissing")
    site.compare()
    site.apply()
    site.wait(lambda: "oss2" not in site.servers(), "the end of the other server")
    assert site.operator().uid == operator.uid
    assert site.pod() == before


def test_a_kubelet_that_stops_and_starts_again_disturbs_nothing(site: RealSite) -> None:
    before, operator = site.pod(), site.operator()
    site.node.machine.end_program("kubelet")
    try:
        site.compare()
    finally:
        site.node.start_kubelet()
    site.compare()
    site.wait(lambda: (site.pod(), site.operator()) == (before, operator), "the same Pods")


def test_a_site_that_is_edited_is_taken_up_without_a_restart(site: RealSite) -> None:
    before = site.pod()
    site.apply(interval="2s", filesystems=[{"name": "scratch", "alias": "fast", "servers": [*SERVERS]}])
    site.wait(lambda: alias(site) == "fast", "the aggregator's knowledge of the change")
    site.compare()
    site.apply()
    site.wait(lambda: alias(site) == "scratch", "the change back")
    site.compare()
    assert site.pod() == before


def alias(site: RealSite) -> str:
    """Return how the aggregator calls the file system elsewhere."""
    (told,) = site.get("/api/v1/filesystems")["filesystems"]
    return str(told["alias"])


def test_a_ca_is_rotated_as_the_page_says(site: RealSite, tmp_path: Path) -> None:
    before = site.pod()
    old = {name: (site.folder / "oss1" / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")}
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)
    assert is_admitted(site, tmp_path)
    site.kubectl("annotate", "hs", NAME, "lustreharvest.dev/rotate-ca=2027")
    site.wait(lambda: condition(site.status(), "CertificatesValid") == ("True", "Rotating"), "the new CA")
    for server in SERVERS:
        bundled(site, server)
    assert is_admitted(site, tmp_path), "the old CA is trusted as well"
    site.wait(lambda: is_admitted(site, site.folder / "oss1"), "trust in the new CA")
    site.compare()
    site.kubectl("annotate", "hs", NAME, "lustreharvest.dev/finish-ca-rotation=2027")
    site.wait(lambda: condition(site.status(), "CertificatesValid") == ("True", "Valid"), "the end of the rotation")
    site.wait(lambda: not is_admitted(site, tmp_path), "the end of trust in the old CA")
    site.compare()
    assert site.pod() == before


def is_admitted(site: RealSite, files: Path) -> bool:
    """Tell whether TLS lets an agent with these files in: it is answered only then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(files / "ca.crt")
    context.load_cert_chain(files / "tls.crt", files / "tls.key")
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((site.node.address, 30023), timeout=ANSWER_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=f"main.{NAME}.harvest") as stream,
        ):
            return bool(stream.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


def test_the_aggregator_is_our_own_image_and_all_is_in_order(site: RealSite) -> None:
    assert site.pod().image == f"localhost/harvest-aggregator:{version()}"
    assert site.operator().image == f"localhost/harvest-operator:{version()}"
    site.wait(lambda: site.columns() == [NAME, "True", "Running", "2/2"], "the agents in kubectl get")
    assert {one["type"]: (one["status"], one["reason"]) for one in site.status()["conditions"]} == {
        "Ready": ("True", "Running"),
        "AggregatorsAvailable": ("True", "Available"),
        "CertificatesValid": ("True", "Valid"),
        "AgentsConnected": ("True", "AllConnected"),
        "SlurmReachable": ("True", "NotUsed"),
        "SinksHealthy": ("True", "Answers"),
        "RelaysHeard": ("True", "NotUsed"),
    }
    (told,) = site.status()["aggregators"]
    assert told["endpoint"] == f"{site.node.address}:30023"
    assert told["agents"] == "2/2"


def test_a_head_in_another_namespace_has_its_nodes_exactly_also_after_its_pod_was_deleted(
    site: RealSite, tmp_path: Path
) -> None:
    """As docs/how-to/relays.md says: two sites that share nothing but the folder of `harvest relay-bundle`."""
    head, began = RealHead(site), time.monotonic()
    head.apply()
    try:
        site.wait(lambda: head.pod().is_ready, "the head's Pod")
        (relay,) = head.bundle(tmp_path / "relay")
        assert relay["endpoint"] == f"harvest-{CLUSTER}-main.{CLUSTER}.svc:8023"
        filesystems = [{"name": "scratch", "servers": [*SERVERS], "clients": {"interval": "1s"}}]
        site.apply(filesystems=filesystems, clusters=[OF_CLUSTER], relays=[relay])
        first = head.compare()
        assert {nid for nid, _, _ in first} == set(NODES)
        clients = json.loads(head.text("/api/v1/clients"))["clients"]
        assert {one["nid"]: one["host"] for one in clients} == NODES
        print(f"\nthe head has its nodes after {time.monotonic() - began:.0f} s")
        head.delete_pod()
        site.wait(lambda: sum(head.totals().values()) > sum(first.values()), "what is done from now on")
        head.compare()
        print(f"it is exact again after {time.monotonic() - began:.0f} s")
        site.wait(lambda: head.condition("RelaysHeard") == ("True", "Answers"), "a relay that is heard")
        site.wait(
            lambda: condition(site.status(), "SinksHealthy") == ("True", "Answers"), "a head that takes all again"
        )
        relaying = site.pod()
    finally:
        head.remove()
        site.apply()
    site.wait(lambda: site.pod().is_ready and site.pod().uid != relaying.uid, "the site as it was")


def test_a_server_with_the_package_joins_by_token_renews_and_is_cut_off(site: RealSite, tmp_path: Path) -> None:
    """As docs/how-to/fleet.md says; here its certificates live for a minute."""
    server = BareMetal(site, "oss1", tmp_path)
    site.apply(certificates={"agentLifetime": "1m"})
    site.wait(site.is_seen, "the operator's knowledge of the change")
    token = server.token()
    said = server.join(token)
    assert f"oss1 has joined site {NAME}" in said
    site.compare()
    by_hand = site.agents["oss1"]
    with site.lustre.held():  # what is evicted while no agent reads nobody could know
        by_hand.stop()
        site.agents["oss1"] = server.agent
        server.start()
        site.wait(lambda: "uplink.connected" in server.agent.log.read_text(), "the agent of the package")
    assert "agent.end waiting=0" in by_hand.tail(), "its spool stays behind: all of it must have been sent"
    try:
        site.compare()
        serials = [server.serial]

        def renewed() -> bool:
            serials.extend({server.serial} - set(serials))
            return len(serials) > 2

        site.wait(renewed, "two renewals")
        site.compare()
        assert "is there already" in server.join(token)

        site.apply(filesystems=[{"name": "scratch", "servers": sorted({*SERVERS} - {"oss1"})}])
        began = time.monotonic()
        site.wait(lambda: f"oss1 is not listed in site {NAME}" in server.agent.log.read_text(), "the end of its stream")
        print(f"\ncut off {time.monotonic() - began:.1f} s after it was taken out of the site")
        site.wait(lambda: "oss1" not in site.connected(), "the end of the server")
        site.apply()
        site.compare()
    finally:
        server.agent.stop()
        site.agents["oss1"] = by_hand
        by_hand.start()
        site.apply()
