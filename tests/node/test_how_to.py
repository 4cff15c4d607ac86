"""A site as a person makes it: the documentation's commands, on our own node, with agents outside the cluster."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from packing.programs import archive_path
from support.kubernetes.node import Node
from support.kubernetes.programs import programs

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/how-to"
LIMIT_SECONDS = 180


def commands(page: str) -> list[list[str]]:
    """Return the lines of a page's blocks, block by block."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in blocks]


def done(command: str, node: Node) -> str:
    """Run a command as somebody would who has the rights of an admin."""
    paths = (str(Path(sys.executable).parent), str(programs()), os.environ["PATH"])
    environment = {**os.environ, "KUBECONFIG": str(node.control_plane.admin), "PATH": os.pathsep.join(paths)}
    ran = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def installed(node: Node) -> Iterator[Node]:
    """Do what the page says."""
    create, make, load, helm, apply = commands("kind.md")[0]
    assert create == "kind create cluster --config kind-config.yaml"  # test_kind.py has it read by kind
    assert make == "make images"
    assert load == f"kind load image-archive {archive_path().relative_to(ROOT)} --name harvest"
    node.offer_volume()
    node.kubectl("delete", "crd", "harvestsites.lustreharvest.dev")  # of other tests; the chart brings its own
    began = time.monotonic()
    done(helm, node)
    print(f"\nhelm install took {time.monotonic() - began:.1f} s")
    done(apply, node)
    try:
        yield node
    finally:
        done("kubectl delete hs --all --all-namespaces", node)
        done("helm uninstall harvest --namespace harvest-system --wait", node)
        done("kubectl delete namespace harvest harvest-system --timeout=2m", node)


def test_the_five_commands_for_kind_lead_to_a_site_that_is_ready(installed: Node) -> None:
    for command in commands("kind.md")[1]:
        print(done(command, installed))
    status = json.loads(installed.kubectl("get", "hs", "example", "--namespace=harvest", "--output=json"))["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
    assert status["aggregators"][0]["endpoint"] == "127.0.0.1:30023"


def test_what_is_installed_without_the_internet_is_the_same(installed: Node, tmp_path: Path) -> None:
    images, package = commands("without-internet.md")[0]
    assert images == "make images FRESH=1"
    done(f"{package} {tmp_path}".replace("--destination dist", "--destination"), installed)
    here, there = (line for block in commands("without-internet.md")[1:] for line in block if line.startswith("helm"))
    assert "--set images.prefix=localhost/ --set images.pullPolicy=Never" in there
    for command in (here, there):
        render = command.replace("helm install harvest harvest-", f"helm template harvest {tmp_path}/harvest-")
        assert "kind: Deployment" in done(render.replace("--create-namespace", ""), installed)
