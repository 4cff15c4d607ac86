"""Whenever records that are gone leave the accounting, totals are the same, and no more is in doubt."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from properties.spools import HISTORIES, in_order, outcome, spools


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(seed=st.integers(0, HISTORIES - 1), often=st.integers(1, 9), again=st.integers(0, 1 << 16))
def test_parking_between_any_reads_gives_the_same_totals(seed: int, often: int, again: int) -> None:
    packets = [packet for spool in spools(seed) for packet in spool]
    packets.append(packets[again % len(packets)])  # which was applied before

    totals, flagged = outcome(packets, parked_after=range(0, len(packets), often))

    assert totals == in_order(seed)[0]
    assert not Counter(flagged) - Counter(in_order(seed)[1])
