"""Our own images on a real node, without the operator."""

import json
import os
import secrets
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from harvest_pki.folders import CaFolder
from packing.layers import USER
from packing.programs import version
from support.kubernetes.node import Node
from support.processes import LIMIT_SECONDS, wait_for
from support.records import job_stats, put, record
from support.uplinks import ca

MANIFEST = Path(__file__).with_name("aggregator.yaml")
GRPC, HTTPS = 30123, 30124
TOKEN = secrets.token_hex()
_ANSWER_SECONDS = 5.0
"""Whoever asks while a Pod goes may get no answer at all: its address is gone, and nobody says so."""


def asked(node: Node, path: str) -> Any:  # noqa: ANN401 - whatever the API says
    """Ask the aggregator as somebody outside the cluster; nothing where nobody answers yet."""
    trusting = ssl._create_unverified_context()  # noqa: S323, SLF001 - its certificate is for another name
    question = urllib.request.Request(
        f"https://{node.address}:{HTTPS}{path}", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    try:
        with urllib.request.urlopen(question, timeout=_ANSWER_SECONDS, context=trusting) as told:  # noqa: S310
            return json.load(told)
    except (OSError, HTTPException):
        return {}


def written(node: Node) -> dict[str, int]:
    """Return how many bytes each job wrote."""
    jobs = asked(node, "/api/v1/jobs").get("jobs", [])
    return {job["job"]: job["filesystems"]["scratch"]["ost"]["write_bytes"] for job in jobs}


@pytest.fixture
def volume() -> Iterator[Path]:
    """Give a folder that Pods can reach: those of pytest are closed to all but root."""
    with TemporaryDirectory(prefix="harvest-volume-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def deployed(node: Node, volume: Path, tmp_path: Path) -> Iterator[CaFolder]:
    """Deploy an aggregator; give its CA."""
    authority = ca(tmp_path / "ca", site="example")
    authority.write_server(tmp_path / "server", "main", now=datetime.now(UTC))
    (volume / "ledger").mkdir(mode=0o700)
    os.chown(volume / "ledger", USER, USER)
    text = MANIFEST.read_text().replace("FOLDER", f"{volume}/ledger").replace("VERSION", version())
    files = [f"--from-file={name}={tmp_path}/server/{name}" for name in ("tls.crt", "tls.key", "ca.crt")]
    node.kubectl("apply", "--filename=-", told=text)
    node.kubectl("create", "secret", "generic", "tls", "--namespace=by-hand", *files)
    node.kubectl("create", "secret", "generic", "token", "--namespace=by-hand", f"--from-literal=token={TOKEN}")
    yield authority
    node.kubectl("delete", "--filename=-", "--timeout=120s", told=text)


def test_an_aggregator_becomes_ready_under_the_strictest_rules_and_counts_what_comes_through_a_node_port(
    node: Node, deployed: CaFolder, volume: Path, tmp_path: Path
) -> None:
    available = ("wait", "--for=condition=Available", "deployment/aggregator", "--namespace=by-hand", "--timeout=120s")
    node.kubectl(*available)
    wait_for(lambda: asked(node, "/readyz").get("ready"), "the way through the node port")

    show(tmp_path, written=3)
    tls = tmp_path / "agent"
    deployed.write_agent(tls, "oss1", now=datetime.now(UTC))
    config = put(
        tmp_path,
        "agent.toml",
        f'[[uplink]]\naddress = "{node.address}:{GRPC}"\nserver_name = "main.example.harvest"\n'
        f'ca = "{tls}/ca.crt"\ncert = "{tls}/tls.crt"\nkey = "{tls}/tls.key"\n'
        f'[lustre]\nroot = "{tmp_path}/root"\n[spool]\ndirectory = "{tmp_path}/spool"\n',
    )
    agent = subprocess.Popen([sys.executable, "-m", "harvest_agent", "run", "--config", str(config)])
    try:
        answers: list[dict[str, int]] = []

        def shows() -> bool:
            answers.append(written(node))
            return bool(answers[-1])

        wait_for(shows, "the first sweep")
        assert answers[-1] == {"4711": 3 << 20}
        node.kubectl("delete", "pod", "--selector=app=aggregator", "--namespace=by-hand", "--wait")
        show(tmp_path, written=5)
        node.kubectl(*available)
        wait_for(lambda: written(node) == {"4711": 5 << 20}, "what was written meanwhile", seconds=3 * LIMIT_SECONDS)
    finally:
        agent.terminate()
        agent.wait(LIMIT_SECONDS)
    assert {path.stat().st_uid for path in (volume / "ledger").iterdir()} == {USER}


def show(folder: Path, *, written: int) -> None:
    """Let a job have written so much."""
    draft = put(folder, "draft", job_stats(record("4711", written=written)))
    target = folder / "root/proc/fs/lustre/obdfilter/scratch-OST0000/job_stats"
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)


def test_a_pod_that_wants_to_be_root_is_refused_there(node: Node) -> None:
    """Else the rules would prove nothing."""
    node.api.post("/api/v1/namespaces", {"metadata": {"name": "strict"}})
    node.api.enforce("strict", "restricted")
    refused = subprocess.run(
        node.kubectl_command("run", "root", "--namespace=strict", f"--image=localhost/harvest-agent:{version()}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert 'violates PodSecurity "restricted' in refused.stderr
    node.kubectl("delete", "namespace", "strict", "--wait=false")
