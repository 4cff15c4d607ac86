from collections.abc import Iterator

import pytest

from support.slurm import SlurmCluster, slurm_cluster


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """Run a real Slurm, once for all tests: each looks after its own jobs only."""
    with slurm_cluster() as cluster:
        yield cluster
