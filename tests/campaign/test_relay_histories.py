"""Some histories of relays that are written by hand: what an outage, a restored sender and a late call come to."""

import random

import pytest

from campaign.client_plan import ClientPlan
from campaign.plan import PERIOD, SERVERS, Step
from campaign.relay_history import RelayHistory
from campaign.relay_plan import FILESYSTEMS, HEADS, RELAYS, nids_of, steady
from campaign.runner import problem

_TICKS = 14
_SENDER = "alkindi"


def _played(*steps: Step, periods: int = 1, ticks: int = _TICKS) -> tuple[RelayHistory, str]:
    """Let a node of every cluster do about as much in every period, and these things happen; also say what is wrong."""
    work = [
        step._replace(site=site)
        for site, names in FILESYSTEMS.items()
        for name in names
        for head in HEADS
        for step in steady(nids_of(head, 1)[0], random.Random(f"{site} {name} {head}"), ticks, name)
    ]
    plan = ClientPlan(
        seed=0,
        versions=("2.15.8", "2.17.0"),
        cleanup_seconds=600,
        ticks=ticks,
        targets=(),
        part_records=8192,
        calm=False,
        steps=tuple(sorted([*work, *steps])),
        interval_seconds=periods * PERIOD,
    )
    history = RelayHistory(plan)
    return history, problem(plan, history.play())


def test_file_systems_of_one_name_on_three_sites_stay_apart() -> None:
    """Also where two relays send what the head does not take from them: its own, and one that another sends."""
    history, wrong = _played()

    assert wrong == ""
    vu, xe, dcc = (history.tree.heads[name].must_hold for name in HEADS)
    assert [set(held) for held in (vu, xe, dcc)] == [{"fs", "gd"}, {"fs"}, {"fs", "gd"}]
    assert [set(totals) for totals in vu.values()] == [{"10.1.0.1@o2ib"}] * 2
    assert [set(totals) for totals in dcc.values()] == [{"10.3.0.1@tcp102"}] * 2
    assert len({tuple(totals.values()) for held in (vu, xe, dcc) for totals in held.values()}) == 5
    assert history.tree.sites["xe"].compared > 0


def test_an_outage_of_a_link_a_head_or_the_sender_makes_no_spike() -> None:
    """What was told last is shown for three periods; then nothing is, until there is news."""
    history, wrong = _played(
        Step(3, 1.0, "link cut", "vu", amount=4),
        Step(3, 1.0, "head killed", "xe", amount=5),
        *(Step(10, 1.0, "site down", amount=2, site=site) for site in RELAYS),
    )
    assert wrong == ""
    nothing_shown = {head: history.tree.events["nothing shown", head] for head in HEADS}
    assert nothing_shown == {"vu": 2 * (3 + 1), "xe": 1, "dcc": 2}  # the head of xe was away itself


@pytest.mark.parametrize("what", ["agent stopped", "agent killed"])
@pytest.mark.parametrize("after", [1.0, 9.0, 15.0])
@pytest.mark.parametrize("periods", [1, 3])
def test_an_agent_that_stands_still_makes_no_spike(what: str, after: float, periods: int) -> None:
    """In the midst of a pass, or when it was read and not told: what was done meanwhile is divided by all the time."""
    still = [Step(7, after, what, op=server, amount=150, site=site) for site in FILESYSTEMS for server in SERVERS]
    history, wrong = _played(*still, periods=periods, ticks=22)

    assert wrong == ""
    assert sum(site.compared for site in history.tree.sites.values()) > 0


def test_what_a_restored_sender_does_not_have_yet_is_held() -> None:
    """Its agents cannot reach it for some ticks, except one that tells of its target: there is something to relay."""
    history, wrong = _played(
        Step(4, 1.0, "backup", site=_SENDER),
        Step(8, 1.0, "network cut", op=SERVERS[0], site=_SENDER),
        Step(8, 2.0, "aggregator restored", site=_SENDER),
    )
    assert wrong == ""
    for head in HEADS:
        assert history.tree.events["lower totals held", head] > 0


def test_of_what_no_agent_has_any_more_heads_keep_what_they_were_told() -> None:
    """A clear ends all lives on the OST that the backup does not have: its sender is behind for ever after."""
    history, wrong = _played(
        Step(3, 1.0, "backup", site=_SENDER),
        Step(12, 1.0, "exports cleared", "fs-OST0000", site=_SENDER),
        Step(12, 2.0, "segments gone", site=_SENDER),
    )
    assert wrong == ""
    site = history.tree.sites[_SENDER]
    for name in FILESYSTEMS[_SENDER]:
        [(nid, held)] = history.tree.heads["vu"].must_hold[name].items()
        latest = site.truths[name, max(tick for of, tick in site.truths if of == name)]
        assert (held == latest[nid]) == (name == "gd")


def test_a_call_that_comes_behind_a_later_one_changes_nothing() -> None:
    history, wrong = _played(
        *(Step(tick, 1.0, "call delayed", head, amount=1) for head in HEADS for tick in (4, 8)),
        Step(6, 1.0, "head killed", "vu"),
    )
    assert wrong == ""
    for head in HEADS:
        assert history.tree.events["call overtaken", head] >= 2
        assert history.tree.events["lower totals held", head] == 0
