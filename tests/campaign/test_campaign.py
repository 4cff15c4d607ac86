import pytest

from campaign.runner import FULL_SIZE, run


@pytest.mark.timeout(1200)
def test_totals_equal_the_truth_in_every_history() -> None:
    """With a start they equal what was shown, to the byte; without one, up to what was flagged and decided wrongly."""
    campaign = run(range(FULL_SIZE))

    print("\n" + campaign.report())
    assert campaign.failures == []
    assert campaign.missing_cells() == []
