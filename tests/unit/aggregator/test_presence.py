import pytest

from harvest.v1.stream_pb2 import RefusalReason
from harvest_aggregator.presence import MountKey, Presence, Visit
from harvest_aggregator.refusals import RefusedError

MOUNT = MountKey("home", "home-OST0000", "boot-1", 7)


def visit(agent: str = "oss1", boot_id: str = "boot-1", *, heard: float = 0, period: float = 20) -> Visit:
    return Visit(agent=agent, boot_id=boot_id, heard_seconds=heard, period_seconds=period)


def test_the_same_boot_id_is_a_restart() -> None:
    presence = Presence()
    first, second = visit(), visit()
    assert presence.arrive(first, [MOUNT], 0) is None
    assert presence.arrive(second, [MOUNT], 1) is first
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


def test_a_mount_has_one_agent_until_it_leaves_or_reports_it_no_more() -> None:
    presence = Presence()
    first, second = visit(), visit("oss2")
    presence.arrive(first, [MOUNT], 0)
    with pytest.raises(RefusedError, match="home-OST0000 is reported by agent oss1"):
        presence.arrive(second, [MOUNT], 0)
    assert list(presence.visits) == ["oss1"]
    presence.arrive(second, [], 0)
    with pytest.raises(RefusedError):
        presence.report(second, [MOUNT])
    presence.report(first, [])
    presence.report(second, [MOUNT])
    presence.leave(second)
    presence.report(first, [MOUNT])


def test_other_mounts_of_a_target_have_agents_of_their_own() -> None:
    presence = Presence()
    presence.arrive(visit(), [MOUNT], 0)
    others = [
        MountKey("home", "home-OST0000", "boot-2", 7),
        MountKey("home", "home-OST0000", "boot-1", 8),
        MountKey("other", "home-OST0000", "boot-1", 7),
    ]
    presence.arrive(visit("oss2", "boot-2"), others, 0)
