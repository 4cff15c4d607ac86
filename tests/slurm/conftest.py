from collections.abc import Iterator

import pytest

from support.pyslurm_cluster import PyslurmCluster, pyslurm_cluster
from support.slurm import SlurmCluster, slurm_cluster


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
