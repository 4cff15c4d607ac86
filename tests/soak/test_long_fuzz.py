import pytest

from support.fuzzing import fuzz


@pytest.mark.timeout(7200)
def test_a_million_damaged_texts_are_read() -> None:
    fuzz(1_000_000, seed=2)
