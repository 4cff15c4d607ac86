"""A target wherever it is mounted: which stay facts belong to, and what nobody saw between two mounts."""

from itertools import permutations

import pytest

from harvest_core.accounting.apply import OutOfOrderError
from harvest_core.accounting.mounts import UnnamedError
from harvest_core.accounting.targets import TargetAccount
from unit.accounting.aggregator import decoded
from unit.accounting.builder import Target
from unit.accounting.printed import job


def test_facts_go_to_the_stay_of_their_boot() -> None:
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    target.reboot(30)
    target.read(40, job("a", 1, 1, 35))
    target.on("oss2").read(60, job("a", 1, 1, 55))

    [account] = target.aggregator.accounts.values()
    assert list(account.stays) == ["oss1 boot 0", "oss1 boot 1", "oss2 boot 0"]


def test_between_two_stays_nobody_saw_what_was_done_and_who_was_there_is_incomplete() -> None:
    """Also who is there first afterwards: it may have come when nobody looked any more."""
    target = Target()
    target.read(20, job("a", 1, 1, 10), job("b", 1, 1, 10))
    target.read(40, job("b", 2, 2, 30), job("c", 1, 1, 35))

    work = target.on("oss2").read(100, job("d", 1, 1, 90))

    assert work.unseen_seconds == 60
    assert set(work.incomplete_jobs) == {b"b", b"c", b"d"}


def test_back_where_it_was_the_time_elsewhere_was_seen() -> None:
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    partner = target.on("oss2")
    partner.read(60, job("b", 1, 1, 50))
    partner.read(80, job("b", 2, 2, 70))
    target.instance = 3
    target.remount()

    work = target.read(140, job("c", 1, 1, 130))

    assert (work.unseen_seconds, work.incomplete_jobs) == (60, [b"a", b"b", b"c"])
    assert target.aggregator.unseen_seconds == 40 + 60


def test_late_facts_of_a_former_stay_count_no_time_again_and_name_who_was_there_then() -> None:
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    target.hold(40, job("a", 1, 1, 10), job("b", 1, 1, 35))
    target.hold(60, job("a", 1, 1, 10), job("b", 2, 2, 55))
    assert target.on("oss2").read(100, job("c", 1, 1, 90)).unseen_seconds == 80  # as far as is known then

    first, second = target.deliver()

    assert (first.unseen_seconds, first.incomplete_jobs) == (0, [b"b"])
    assert (second.unseen_seconds, second.incomplete_jobs) == (0, [])


def test_late_facts_of_a_former_stay_name_who_was_there_also_where_its_clock_was_set_forward() -> None:
    """By that clock it began after its partner did."""
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    target.booted_at += 300
    target.hold(340, job("a", 1, 1, 10), job("b", 1, 1, 335))
    target.on("oss2").read(60, job("c", 1, 1, 50))

    assert b"b" in target.deliver()[-1].incomplete_jobs


def test_time_that_late_facts_cover_is_taken_off_what_is_counted_next() -> None:
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    target.hold(80, job("a", 1, 1, 10))
    partner = target.on("oss2")
    partner.read(100, job("c", 1, 1, 90))
    target.deliver()
    partner.remount()

    work = partner.read(200, job("c", 1, 1, 190))

    assert work.unseen_seconds == 100 - 60
    assert target.aggregator.unseen_seconds == 20 + 100


def test_what_a_late_mount_did_not_see_itself_is_not_counted_again() -> None:
    target = Target(interval=600)
    target.read(20, job("a", 1, 1, 10))
    target.hold(1020, job("a", 1, 1, 10))
    assert target.on("oss2").read(1040, job("c", 1, 1, 1030)).unseen_seconds == 1020

    [late] = target.deliver()

    assert late.unseen_seconds == 0


def test_who_was_there_last_is_incomplete_where_no_instance_tells_mounts_apart() -> None:
    target = Target("2.5.0", instance=None)
    target.read(20, job("a", 1, 1, 10))
    target.on("oss2").read(60, job("b", 1, 1, 50))
    target.read(100, job("a", 2, 2, 90))

    work = target.on("oss3").read(120, job("c", 1, 1, 110))

    assert work.incomplete_jobs == [b"a", b"b", b"c"]


def test_what_is_between_two_mounts_is_counted_in_whatever_order_they_come() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    partner = target.on("oss2")
    partner.hold(60, job("b", 1, 1, 50))
    third = partner.on("oss3")
    third.hold(80, job("c", 1, 1, 70))
    facts = [decoded(one.spool[0]) for one in (target, partner, third)]

    for order in permutations(facts):
        account = TargetAccount()
        works = [account.apply(read) for read in order]

        assert sum(work.unseen_seconds for work in works) == 40 + 20
        assert {name for work in works for name in work.incomplete_jobs} == {b"a", b"b", b"c"}


def test_what_was_counted_before_a_restart_is_not_counted_again() -> None:
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    partner = target.on("oss2")
    partner.read(60, job("b", 1, 1, 50))
    target.aggregator.restore(target.aggregator.backup())

    work = partner.read(80, job("b", 2, 2, 70))

    assert (work.unseen_seconds, work.incomplete_jobs) == (0, [])


def test_what_was_applied_before_gives_no_work() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    facts = decoded(target.spool[0])
    account = TargetAccount()
    account.apply(facts)

    assert account.apply(facts).mount is None


def test_facts_that_cannot_be_placed_leave_no_stay_behind() -> None:
    target = Target()
    target.hold(20, job("a", 1, 1, 10))
    facts = decoded(target.spool[0])
    facts.names = ()
    account = TargetAccount()

    with pytest.raises(UnnamedError):
        account.apply(facts)

    assert account.stays == {}


def test_an_earlier_incarnation_is_refused_once_a_later_one_was_applied() -> None:
    target = Target()
    target.read(20, job("a", 1, 1, 10))
    target.hold(40, job("a", 2, 2, 30))
    [late] = target.spool
    target.spool = []
    target.restart_agent()
    target.read(60, job("a", 3, 3, 50))

    with pytest.raises(OutOfOrderError):
        target.aggregator.take(late)


@pytest.mark.parametrize(("version", "instance"), [("2.15.8", 1), ("2.12.9", 1), ("2.5.0", None)])
def test_an_agent_that_comes_under_another_name_counts_nothing_twice(version: str, instance: int | None) -> None:
    target = Target(version, instance=instance)
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 7, 12, start=6))
    target.rename_agent("oss1.example")

    work = target.read(40, job("a", 6, 600, 30, start=5), job("b", 1, 7, 12, start=6))

    assert (target.total("a"), target.total("b")) == ((6, 600), (1, 7))
    assert (work.unseen_seconds, work.incomplete_jobs, target.flags) == (0, [], [])


def test_a_spool_that_is_sent_again_under_another_name_counts_nothing_twice() -> None:
    target = Target()
    target.hold(20, job("a", 5, 500, 10))
    target.hold(40, job("a", 6, 600, 30))
    sent = list(target.spool)
    target.deliver()
    target.rename_agent("oss1.example")
    target.read(60, job("a", 7, 700, 50))

    for sweep in sent:
        assert target.aggregator.take(sweep).mount is None

    assert target.total("a") == (7, 700)


@pytest.mark.parametrize("remounted", [False, True])
def test_what_somebody_else_read_before_what_is_known_of_a_boot_cannot_be_placed(remounted: bool) -> None:  # noqa: FBT001 a table's cell
    """Lower counters would look like another life, and another instance like another mount."""
    target = Target()
    target.read(20, job("a", 1, 100, 10))
    target.restart_agent()
    target.hold(40, job("a", 5, 500, 30))
    [late] = target.spool
    target.spool = []
    if remounted:
        target.remount()
    target.rename_agent("oss1.example")
    target.read(60, job("a", 6, 600, 50))
    before = target.total("a")

    with pytest.raises(OutOfOrderError, match="earlier"):
        target.aggregator.take(late)

    assert target.total("a") == before


def test_a_clock_that_was_set_back_makes_nothing_earlier() -> None:
    target = Target()
    target.read(4000, job("a", 1, 100, 3990))
    target.clock_step_seconds = -3600
    target.rename_agent("oss1.example")

    target.read(4020, job("a", 6, 600, 410))

    assert target.total("a") == (6, 600)
