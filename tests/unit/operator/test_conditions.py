from datetime import timedelta

import pytest

from harvest_operator.conditions import FALSE, MEANINGS, MESSAGE_MAX, TRUE, Condition, Reason, Type, updated
from support.sites_in_kubernetes import NOW

WELL = Condition(type=Type.READY, status=TRUE, reason=Reason.RUNNING, message="so it is")
ILL = Condition(type=Type.READY, status=FALSE, reason=Reason.REFUSED, message="no")


def test_clock_moves_only_on_a_transition() -> None:
    first = updated([], [WELL], generation=1, now=NOW)
    again = updated(first, [WELL], generation=2, now=NOW + timedelta(hours=1))
    assert again == [{**first[0], "observedGeneration": 2}]
    other = updated(again, [ILL], generation=2, now=NOW + timedelta(hours=2))
    assert other[0]["lastTransitionTime"] == "2026-11-16T14:00:00Z"
    assert (other[0]["status"], other[0]["reason"], other[0]["message"]) == ("False", "Refused", "no")


def test_a_long_message_is_cut() -> None:
    long = Condition(type=Type.READY, status=FALSE, reason=Reason.REFUSED, message="x" * 5000)
    assert len(updated([], [long], generation=1, now=NOW)[0]["message"]) == MESSAGE_MAX


def test_there_is_no_condition_that_is_not_documented() -> None:
    with pytest.raises(ValueError, match="SlurmReachable is never True for the reason Refused"):
        Condition(type=Type.SLURM_REACHABLE, status=TRUE, reason=Reason.REFUSED)
    assert {one[0] for one in MEANINGS} == set(Type)
    assert {one[2] for one in MEANINGS} == set(Reason)
