"""An agent's `enrol` as a Pod starts it, with the chart's rights, on a real API server with a real operator."""

import json
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harvest_agent.config import Config
from harvest_pki.certificates import load_certificate
from harvest_pki.folders import read_tls
from harvest_pki.identities import identity_of
from support.agents_in_kubernetes import agent_on
from support.chart import NAMESPACE, rendered
from support.forked_operators import ForkedOperator, allowed, working
from support.kubernetes.api import Api
from support.kubernetes.control_plane import ControlPlane
from support.processes import LIMIT_SECONDS, wait_for
from support.records import put
from support.scenes import SECONDS, Scene

AGENTS = "harvest-agents"
RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


@pytest.fixture
def agents(admin: Api, scene: Scene) -> Iterator[str]:
    """Give the agents' ServiceAccount, with what the chart allows it."""
    space = scene.namespace
    objects = rendered("agents.enabled=true", f"agents.site.namespace={space}", f"agents.site.name={scene.name}")
    own = [one for one in objects if one["kind"] in RIGHTS and one["metadata"]["name"] == AGENTS]
    assert {one["kind"] for one in own} == RIGHTS
    for one in json.loads(json.dumps(own).replace(NAMESPACE, space)):
        admin.apply_object(one)
    yield f"{space}:{AGENTS}={space}/{scene.name}"
    for kind in ("clusterroles", "clusterrolebindings"):
        admin.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{AGENTS}")


def test_a_node_is_enrolled_with_the_token_that_it_has_at_the_moment(
    control_plane: ControlPlane, scene: Scene, agents: str, tmp_path: Path
) -> None:
    node, log, folder = f"node-{uuid.uuid4().hex[:8]}", tmp_path / "enrol.log", tmp_path / "tls"
    account = tmp_path / "account"
    put(account, "ca.crt", control_plane.credentials.ca.certificate.read_bytes())
    put(account, "token", "expired")
    where = {"KUBERNETES_SERVICE_HOST": control_plane.address, "KUBERNETES_SERVICE_PORT": str(control_plane.port)}
    command = [sys.executable, "-m", "harvest_agent", "enrol", "--site", f"{scene.namespace}/{scene.name}"]
    more = ["--node", node, "--folder", str(folder), "--service-account", str(account), "--root", "/host"]
    operator = ForkedOperator(
        allowed(control_plane, scene.namespace), tmp_path / "operator.log", scene.namespace, agents=agents
    )
    scene.put(filesystems=[{"name": "home", "servers": ["oss1"]}, {"name": "work", "servers": [node]}])
    with (
        agent_on(control_plane, scene.namespace, AGENTS, node) as pod,
        log.open("wb") as file,
        subprocess.Popen([*command, *more], stderr=file, env={**os.environ, **where}) as enrol,
    ):
        try:
            wait_for(lambda: "Kubernetes says 401" in log.read_text(), "a word about the token", seconds=SECONDS)
            put(account, "token.new", pod.token).replace(account / "token")
            wait_for(lambda: "Kubernetes says 404" in log.read_text(), "a word about the site", seconds=SECONDS)
            assert f"Is there a HarvestSite {scene.namespace}/{scene.name}" in log.read_text()
            with working(operator):
                wait_for((folder / "agent.toml").exists, "all files", seconds=SECONDS)
            assert identity_of(load_certificate(read_tls(folder).certificate)).name == node
            assert stat.S_IMODE((folder / "tls.key").stat().st_mode) == 0o600
            config = Config.load(str(folder / "agent.toml"))
            assert [one.server_name for one in config.uplinks] == [f"main.{scene.name}.harvest"]
            assert config.lustre.root == "/host"
        finally:
            enrol.send_signal(signal.SIGTERM)
        assert enrol.wait(LIMIT_SECONDS) == 0
    assert "PRIVATE KEY" not in log.read_text()
    assert pod.token not in log.read_text()
