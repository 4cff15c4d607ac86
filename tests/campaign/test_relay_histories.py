"""Some histories of relays that are written by hand: what an outage, a restored sender and a late call come to."""

import random

from campaign.client_plan import ClientPlan
from campaign.plan import PERIOD, SERVERS, TARGETS, Step
from campaign.relay_history import RelayHistory
from campaign.relay_plan import HEADS, nids_of, steady
from campaign.runner import problem

_TICKS = 14


def _played(*steps: Step) -> tuple[RelayHistory, str]:
    """Let a node of every cluster do about as much in every period, and these things happen; also say what is wrong."""
    work = [step for head in HEADS for step in steady(nids_of(head, 1)[0], random.Random(head), _TICKS)]
    plan = ClientPlan(
        seed=0,
        versions=("2.15.8", "2.17.0"),
        cleanup_seconds=600,
        ticks=_TICKS,
        targets=TARGETS,
        part_records=8192,
        calm=False,
        steps=tuple(sorted([*work, *steps])),
        interval_seconds=PERIOD,
    )
    history = RelayHistory(plan)
    return history, problem(plan, history.play())


def test_an_outage_of_a_link_a_head_or_the_sender_makes_no_spike() -> None:
    """What was told last is shown for three periods; then nothing is, until there is news."""
    history, wrong = _played(
        Step(3, 1.0, "link cut", "vu", amount=4),
        Step(3, 1.0, "head killed", "xe", amount=5),
        Step(10, 1.0, "site down", amount=2),
    )
    assert wrong == ""
    nothing_shown = {head: history.world.events["nothing shown", head] for head in HEADS}
    assert nothing_shown == {"vu": 3 + 1, "xe": 1, "dcc": 1}  # the head of xe was away itself


def test_what_a_restored_sender_does_not_have_yet_is_held() -> None:
    """Its agents cannot reach it for some ticks, except one that tells of its target: there is something to relay."""
    history, wrong = _played(
        Step(4, 1.0, "backup"),
        Step(8, 1.0, "network cut", op=SERVERS[0]),
        Step(8, 2.0, "aggregator restored"),
    )
    assert wrong == ""
    for head in HEADS:
        assert history.world.events["lower totals held", head] > 0


def test_a_call_that_comes_behind_a_later_one_changes_nothing() -> None:
    history, wrong = _played(
        *(Step(tick, 1.0, "call delayed", head, amount=1) for head in HEADS for tick in (4, 8)),
        Step(6, 1.0, "head killed", "vu"),
    )
    assert wrong == ""
    for head in HEADS:
        assert history.world.events["call overtaken", head] == 2
        assert history.world.events["lower totals held", head] == 0
