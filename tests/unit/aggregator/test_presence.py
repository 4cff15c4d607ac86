import pytest

from harvest.v1.stream_pb2 import RefusalReason
from harvest_aggregator.presence import Presence, StayKey, Visit
from harvest_aggregator.refusals import RefusedError

STAY = StayKey("home", "home-OST0000", "boot-1")


def visit(agent: str = "oss1", boot_id: str = "boot-1", *, heard: float = 0, period: float = 20) -> Visit:
    return Visit(agent=agent, boot_id=boot_id, heard_seconds=heard, period_seconds=period)


def test_the_same_boot_id_is_a_restart() -> None:
    presence = Presence()
    first, second = visit(), visit()
    assert presence.arrive(first, [STAY], 0) is None
    assert presence.arrive(second, [STAY], 1) is first
    presence.report(first, [])
    presence.leave(first)
    assert presence.visits == {"oss1": second}
    presence.leave(second)
    assert presence.visits == {}


@pytest.mark.parametrize(("period", "silent_at"), [(1, 30), (20, 50), (60, 150)])
def test_another_boot_id_is_a_clone_until_the_first_has_been_silent(period: float, silent_at: float) -> None:
    presence = Presence()
    presence.arrive(visit(period=period), [], 0)
    with pytest.raises(RefusedError) as caught:
        presence.arrive(visit(boot_id="boot-2"), [], silent_at - 1.5)
    assert caught.value.refusal.reason == RefusalReason.REFUSAL_REASON_CLONE
    assert caught.value.refusal.retry_after_seconds == 2
    assert presence.arrive(visit(boot_id="boot-2"), [], silent_at) is not None


def test_a_stay_has_one_agent_until_it_leaves_or_reports_it_no_more() -> None:
    presence = Presence()
    first, second = visit(), visit("oss2")
    presence.arrive(first, [STAY], 0)
    with pytest.raises(RefusedError, match="home-OST0000 on boot boot-1 is reported by agent oss1"):
        presence.arrive(second, [STAY], 0)
    assert list(presence.visits) == ["oss1"]
    presence.arrive(second, [], 0)
    with pytest.raises(RefusedError):
        presence.report(second, [STAY])
    presence.report(first, [])
    presence.report(second, [STAY])
    presence.leave(second)
    presence.report(first, [STAY])


def test_other_stays_of_a_target_have_agents_of_their_own() -> None:
    presence = Presence()
    presence.arrive(visit(), [STAY], 0)
    others = [StayKey("home", "home-OST0000", "boot-2"), StayKey("other", "home-OST0000", "boot-1")]
    presence.arrive(visit("oss2", "boot-2"), others, 0)


def test_what_one_agent_reports_no_other_may_bring() -> None:
    presence = Presence()
    first, second, copy = visit(), visit("oss1b"), visit("oss9", "boot-9")
    presence.arrive(first, [STAY], 0)
    for other, server in ((second, "oss1b"), (copy, "oss1")):
        presence.arrive(other, [], 0)
        with pytest.raises(
            RefusedError, match="home-OST0000 on boot boot-1 is reported by agent oss1 already"
        ) as caught:
            presence.bring(other, STAY, server)
        assert caught.value.refusal.reason == RefusalReason.REFUSAL_REASON_TARGET_TAKEN
    presence.bring(first, STAY, "oss1")
    presence.leave(first)
    presence.bring(second, STAY, "oss1b")


def test_what_an_agent_that_is_here_read_no_other_may_bring_before_it_has_said_what_it_reports() -> None:
    presence = Presence()
    copy = visit("oss9", "boot-9")
    presence.arrive(visit(), [], 0)
    presence.arrive(copy, [], 0)
    with pytest.raises(RefusedError, match="by agent oss1 already"):
        presence.bring(copy, STAY, "oss1")


def test_what_an_agent_brought_of_its_own_boot_is_its_own() -> None:
    presence = Presence()
    first, second = visit(), visit("oss1b")
    presence.arrive(first, [], 0)
    presence.arrive(second, [], 0)
    presence.bring(first, STAY, "oss1")
    with pytest.raises(RefusedError, match="by agent oss1 already"):
        presence.bring(second, STAY, "oss1b")
    with pytest.raises(RefusedError, match="by agent oss1 already"):
        presence.report(second, [STAY])


def test_late_reads_may_come_from_a_former_server_and_a_former_boot_and_under_a_former_name() -> None:
    presence = Presence()
    before, partner = visit("oss1", "boot-3"), visit("oss2", "boot-2")
    presence.arrive(partner, [StayKey("home", "home-OST0000", "boot-2")], 0)
    presence.arrive(before, [], 0)
    presence.bring(before, STAY, "oss1")
    presence.bring(before, STAY, "oss1.example")
    presence.bring(partner, STAY, "oss1")  # an older boot: its spool was moved
