"""A site, and where its servers join."""

from collections.abc import Iterator

import pytest

from support.joining import SITE, Serving, serving
from support.processes import Running, running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("site"), site=SITE) as here:
        yield here


@pytest.fixture(scope="module")
def joining(site: Running) -> Iterator[Serving]:
    with serving(site) as here:
        yield here
