"""munged in the aggregator's Pod: it must take the key and the folder as Kubernetes mounts them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harvest_operator.sidecars import Sidecar, containers
from harvest_site.clusters import SlurmSidecar
from support.processes import wait_for

SETTINGS = SlurmSidecar.model_validate(
    {"image": "images.example/slurm:1", "mungeSecretRef": {"name": "munge"}, "configRef": {"name": "slurm"}}
)
USER = 65532


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that another user can reach: those of pytest are closed to all but root."""
    with TemporaryDirectory(prefix="harvest-munge-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_munged_takes_a_key_of_root_that_its_group_may_read(folder: Path) -> None:
    keys, sockets = folder / "keys", folder / "sockets"
    keys.mkdir()
    sockets.mkdir()
    (keys / "munge.key").write_bytes(os.urandom(64))
    (keys / "munge.key").chmod(0o440)
    sockets.chmod(0o2777)
    for path in (keys / "munge.key", sockets):
        os.chown(path, 0, USER)
    munge, _ = containers(Sidecar("vu", SETTINGS), "Never")
    mounts = {one["mountPath"]: one["name"] for one in munge["volumeMounts"]}
    assert set(mounts) == {"/etc/munge", "/run/munge"}
    arguments = [one.replace("/etc/munge", str(keys)).replace("/run/munge", str(sockets)) for one in munge["args"]]
    program = shutil.which(munge["command"][0], path="/usr/sbin:/usr/bin:/sbin")
    assert program
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([program, *arguments], stderr=log, user=USER, group=USER, extra_groups=[])
    try:
        socket = sockets / "munge.socket.2"
        wait_for(lambda: socket.exists() or running.poll() is not None, "munged")
        assert running.poll() is None, (folder / "log").read_text()
        credential = subprocess.run(
            ["munge", "-S", socket, "-n"], capture_output=True, check=True, user=USER, group=USER, extra_groups=[]
        ).stdout
        decoded = subprocess.run(["unmunge", "-S", socket], input=credential, capture_output=True, check=True).stdout
        assert b"Success" in decoded
        assert f"({USER})".encode() in decoded
    finally:
        running.kill()
        running.wait()
