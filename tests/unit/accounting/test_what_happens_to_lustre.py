"""The second table of DESIGN §5, where Lustre does something: what the total must be then."""

import pytest

from unit.accounting.aggregator import SAME
from unit.accounting.builder import Target
from unit.accounting.printed import job

WITH_START = "2.15.8"
NO_START = "2.12.9"
BACK = [pytest.param(2, 200, id="lower"), pytest.param(5, 500, id="equal"), pytest.param(9, 900, id="higher")]


# --- idle past job_cleanup_interval, vanishes, returns from zero ---


@pytest.mark.parametrize(("samples", "amount"), BACK)
@pytest.mark.parametrize("seen_gone", [True, False])
def test_idle_past_the_interval_and_back_is_exact_with_start_time(
    samples: int,
    amount: int,
    seen_gone: bool,  # noqa: FBT001
) -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5))
    if seen_gone:
        target.read(720)

    target.read(740, job("a", samples, amount, 735, start=730))

    assert target.total("a") == (5 + samples, 500 + amount)
    assert target.flags == []


@pytest.mark.parametrize(("samples", "amount"), BACK)
@pytest.mark.parametrize("seen_gone", [True, False])
def test_idle_past_the_interval_and_back_is_exact_without_start_time_where_order_tells(
    samples: int,
    amount: int,
    seen_gone: bool,  # noqa: FBT001
) -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    target.read(320, job("a", 5, 500, 10), job("b", 2, 20, 310))
    if seen_gone:
        target.read(720, job("b", 3, 30, 710))

    target.read(740, job("b", 4, 40, 730), job("a", samples, amount, 735))

    assert target.total("a") == (5 + samples, 500 + amount)
    assert target.total("b") == (4, 40)
    assert target.flags == []


def test_idle_past_the_interval_and_back_is_exact_or_flagged_without_start_time() -> None:
    """A lone record that no read saw vanish: lower is exact, the rest is flagged with what may be missing."""
    for samples, flags in ((2, []), (5, [("a", (5, 500), SAME)]), (9, [("a", (5, 500), SAME)])):
        target = Target(NO_START)
        target.read(20, job("a", 5, 500, 10))
        target.read(720, job("a", samples, 100 * samples, 715))

        assert target.flags == flags
        missing = sum(amount for _, (amount, _), _ in flags)
        assert target.total("a") == (5 + samples - missing, 100 * (5 + samples - missing))


# --- remount, reboot, failover ---


@pytest.mark.parametrize("version", [WITH_START, NO_START, "2.15.0", "2.17.0"])
def test_remount_reboot_and_failover_are_exact_while_both_agents_live(version: str) -> None:
    here = Target(version)
    here.read(20, job("a", 5, 500, 10, start=5))
    here.remount()
    here.read(40, job("a", 6, 600, 35, start=30))
    here.reboot(50)
    here.read(60, job("a", 7, 700, 58, start=55))
    there = here.on("oss2")
    there.read(80, job("a", 8, 800, 75, start=70))
    here.instance = 9
    here.restart_agent()
    here.read(100, job("a", 9, 900, 95, start=90))

    assert here.total("a") == (35, 3500)
    assert here.flags == []


@pytest.mark.parametrize("version", [WITH_START, NO_START])
def test_failover_where_the_old_servers_spool_arrives_hours_later_is_exact(version: str) -> None:
    old = Target(version)
    old.read(20, job("a", 5, 500, 10, start=5))
    for tick, samples in ((40, 6), (60, 7), (80, 9)):
        old.hold(tick, job("a", samples, 100 * samples, tick - 5, start=5))
    new = old.on("oss2")
    for tick in range(100, 10_000, 100):
        new.read(tick, job("a", tick, 10 * tick, tick - 5, start=90))

    old.deliver()

    assert new.total("a") == (9 + 9900, 900 + 99_000)
    assert new.flags == []


# --- clear ---


def test_clear_is_exact_with_start_time() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 7, 70, 15, start=6))
    target.read(40, job("a", 6, 600, 35, start=30), job("b", 8, 80, 36, start=31))

    assert (target.total("a"), target.total("b")) == ((11, 1100), (15, 150))
    assert target.flags == []


def test_clear_is_exact_or_flagged_without_start_time() -> None:
    """That c fell proves a clear; of a and b, back in their old order and higher, nothing is proven any more."""
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10), job("b", 7, 70, 15), job("c", 9, 90, 16))

    target.read(40, job("a", 6, 600, 33), job("b", 8, 80, 35), job("c", 2, 20, 36))

    assert target.total("c") == (9 + 2, 90 + 20)
    assert (target.total("a"), target.total("b")) == ((6, 600), (8, 80))
    assert target.flags == [("a", (5, 500), SAME), ("b", (7, 70), SAME)]


def test_clear_is_exact_without_start_time_for_those_that_are_back_in_another_order() -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10), job("b", 7, 70, 15), job("c", 1, 10, 16))

    target.read(40, job("c", 1, 10, 33), job("a", 6, 600, 35), job("b", 8, 80, 36))

    assert (target.total("a"), target.total("b")) == ((11, 1100), (15, 150))
    assert target.flags == [("c", (1, 10), SAME)], "it was cleared too, but nothing proves it"


def test_clear_after_which_all_are_back_in_order_and_higher_within_one_read_is_invisible() -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10), job("b", 7, 70, 15))

    target.read(40, job("a", 6, 600, 35), job("b", 8, 80, 36))

    assert (target.total("a"), target.total("b")) == ((6, 600), (8, 80))
    assert target.flags == []


# --- never shown by Lustre at all ---


def test_never_shown_before_an_unmount_counts_as_unseen_and_its_jobs_are_incomplete() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5), job("gone", 1, 1, 12, start=6))
    target.read(40, job("a", 6, 600, 30, start=5))
    assert target.aggregator.unseen_seconds == 0

    target.remount()
    target.read(80, job("b", 1, 10, 70, start=70))

    assert target.aggregator.unseen_seconds == 40
    assert target.aggregator.incomplete_jobs == {"a", "b"}, "b may have begun before the unmount"


def test_never_shown_while_no_agent_ran_for_longer_than_the_interval_counts_as_unseen() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5), job("gone", 1, 1, 12, start=6))
    target.restart_agent()
    target.read(920, job("a", 6, 600, 910, start=5), job("new", 1, 1, 915, start=905))

    assert target.aggregator.unseen_seconds == 900 - 600
    assert target.aggregator.incomplete_jobs == {"a", "new", "gone"}


@pytest.mark.parametrize(("interval", "unseen"), [(40, 80), (30, 80), (41, 0), (600, 0), (0, 0)])
def test_never_shown_where_the_interval_is_below_two_periods_counts_as_unseen(interval: int, unseen: int) -> None:
    target = Target(NO_START, interval=interval)
    for tick in range(20, 120, 20):
        target.read(tick, job("a", tick, tick, tick - 1))

    assert target.aggregator.unseen_seconds == unseen


# --- clocks ---


def test_clocks_that_step_forward_cost_a_flag_at_most() -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10))
    target.clock_step_seconds = 4000
    target.read(40, job("a", 6, 600, 4030))

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


def test_clocks_that_step_back_hide_idle_time_so_that_it_counts_as_idle() -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10))
    target.clock_step_seconds = -580
    target.read(640, job("a", 6, 600, 40))

    assert target.total("a") == (6, 600)
    assert target.flags == [("a", (5, 500), SAME)]


def test_clocks_that_stepped_back_before_the_last_value_hide_nothing() -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10))
    target.clock_step_seconds = -580
    target.read(40, job("a", 5, 500, 10), job("b", 1, 1, -560))
    target.read(60, job("a", 6, 600, -525), job("b", 2, 2, -530))
    before = len(target.flags)

    target.read(80, job("a", 7, 700, -505), job("b", 3, 3, -510))

    assert target.total("a") == (7, 700)
    assert len(target.flags) == before


@pytest.mark.parametrize(("set_back_seconds", "window_seconds"), [(10, 30), (4000, 4020), (0.5, 20), (-15, 5)])
def test_clocks_that_step_leave_the_time_of_a_rate_true(set_back_seconds: float, window_seconds: int) -> None:
    """The ticks are the server's own: 20 and 40, and 20 s plus what the clock was set back by lie between them."""
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10))
    target.booted_at -= set_back_seconds

    work = target.read(40, job("a", 6, 600, 30))

    assert set(work.window_seconds.tolist()) == {window_seconds}
    assert target.aggregator.unseen_seconds == max(window_seconds - 600, 0)


def test_clocks_that_step_change_nothing_with_start_time() -> None:
    target = Target(WITH_START)
    target.read(20, job("a", 5, 500, 10, start=5))
    target.clock_step_seconds = -3600
    target.read(40, job("a", 6, 600, -3570, start=5))
    target.clock_step_seconds = 3600
    target.read(60, job("a", 2, 200, 3650, start=3640))

    assert target.total("a") == (8, 800)
    assert target.flags == []


def test_times_that_count_from_boot_are_compared_within_one_mount_only() -> None:
    """Both records say that they began ten seconds after the boot."""
    target = Target("2.15.0")
    target.read(1000, job("a", 5, 500, 900, start=target.booted_at + 10))
    target.reboot(2000)
    target.read(2020, job("a", 4, 400, 2015, start=2010))

    assert target.total("a") == (9, 900)
    assert target.flags == []
