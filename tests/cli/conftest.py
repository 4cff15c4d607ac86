"""One site for all tests here: they look at it, and change nothing."""

from collections.abc import Iterator

import pytest

from cli.scene import Scene


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("site"))
    try:
        made.start()
        made.freeze()
        yield made
    finally:
        made.stop()


@pytest.fixture
def scene(site: Scene) -> Scene:
    """Return the site, in which nothing moves any more."""
    assert site.is_frozen, "a test before this one let time go on"
    return site
