from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pyslurm_cluster import PyslurmCluster, pyslurm_cluster
from support.slurm import SlurmCluster, slurm_cluster
from support.slurm_ahead import SlurmAhead
from support.slurm_site import SlurmSite


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """Run a real Slurm, once for all tests: each looks after its own jobs only."""
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pyslurm() -> Iterator[PyslurmCluster]:
    """Run a newer Slurm, with a pyslurm that talks to it."""
    with pyslurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[SlurmSite]:
    """Follow the jobs of that Slurm: an agent beside it asks it every second."""
    slurm.cancel_all()
    made = SlurmSite(tmp_path, slurm_conf=f"{slurm.folder}/slurm.conf")
    made.start()
    try:
        yield made
    finally:
        made.stop()
        slurm.cancel_all()


@pytest.fixture
def ahead(slurm: SlurmCluster, tmp_path: Path) -> Iterator[SlurmAhead]:
    """Follow them in another time."""
    slurm.cancel_all()
    made = SlurmAhead(tmp_path, slurm)
    made.start()
    try:
        yield made
    finally:
        made.stop()
        slurm.cancel_all()
