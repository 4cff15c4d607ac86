import pytest

from campaign.runner import CLIENTS, JOBS, RELAYS, Kind, run


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [JOBS, CLIENTS, RELAYS], ids=["jobs", "clients", "relays"])
def test_totals_equal_the_truth_in_every_history(kind: Kind) -> None:
    """With a start they equal what was shown, to the byte; without one, up to what was flagged and decided wrongly."""
    campaign = run(range(kind.full_size), kind)

    print("\n" + campaign.report())
    assert campaign.failures == []
    assert campaign.missing_cells() == []
