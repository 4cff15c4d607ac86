"""All packages, made once for all tests."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from packing.rpm import Package, all_packages, pack
from support.rpm_root import EPOCH


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Package, Path]:
    """Give the files of all packages of this tree."""
    wanted = all_packages()
    return dict(zip(wanted, pack(tmp_path_factory.mktemp("rpm"), wanted, epoch=EPOCH), strict=True))
