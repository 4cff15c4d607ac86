"""The second table of DESIGN §5, where Harvest's own parts fail: what the total must be then."""

import pytest

from unit.accounting.aggregator import NEW, decoded
from unit.accounting.builder import Target
from unit.accounting.printed import job

VERSIONS = ["2.12.9", "2.15.8", "2.17.0"]


def history(target: Target, ticks: range) -> None:
    """Spool reads in which a is busy and b moves now and then."""
    for tick in ticks:
        b_tick = tick - tick % 60
        target.hold(
            tick, job("a", tick, 10 * tick, tick - 1, start=1), job("b", b_tick + 1, b_tick, b_tick + 1, start=2)
        )


# --- agent restarted, late, silent ---


@pytest.mark.parametrize("version", VERSIONS)
def test_agent_restarted_is_exact_and_what_did_not_move_counts_once(version: str) -> None:
    target = Target(version)
    for tick in range(20, 400, 20):
        history(target, range(tick, tick + 1))
        target.deliver()
        target.restart_agent()

    assert target.total("a") == (380, 3800)
    assert target.total("b") == (361, 360)
    assert target.flags == []


@pytest.mark.parametrize("version", VERSIONS)
def test_agent_late_by_hours_is_exact(version: str) -> None:
    target = Target(version)
    history(target, range(20, 400, 20))
    target.restart_agent()
    history(target, range(400, 800, 20))
    target.deliver()

    assert target.total("a") == (780, 7800)
    assert target.total("b") == (781, 780)
    assert target.flags == []


@pytest.mark.parametrize("version", VERSIONS)
def test_agent_silent_for_less_than_the_interval_is_exact(version: str) -> None:
    target = Target(version)
    history(target, range(20, 80, 20))
    target.restart_agent()
    history(target, range(560, 620, 20))
    target.deliver()

    assert target.total("a") == (600, 6000)
    assert target.total("b") == (601, 600)
    assert target.flags == []


# --- batch delivered twice, merged and resent ---


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_delivered_twice_at_any_later_time_changes_nothing(version: str) -> None:
    target = Target(version)
    history(target, range(20, 400, 20))
    sent = list(target.spool)
    for number, sweep in enumerate(sent):
        target.aggregator.take(sweep)
        for again in sent[: number + 1]:
            assert target.aggregator.take(again).mount is None

    assert target.total("a") == (380, 3800)
    assert target.total("b") == (361, 360)
    assert target.flags == []


def test_batch_of_an_earlier_incarnation_delivered_again_changes_nothing() -> None:
    target = Target("2.12.9")
    history(target, range(20, 100, 20))
    first = list(target.spool)
    target.deliver()
    target.restart_agent()
    target.read(100, job("a", 3, 30, 95), job("b", 2, 20, 96))

    for sweep in first:
        target.aggregator.take(sweep)

    assert target.total("a") == (83, 830)
    assert target.total("b") == (63, 80)
    assert target.flags == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("delivered", [0, 1, 5])
def test_batch_merged_and_resent_is_exact(version: str, delivered: int) -> None:
    """Some were delivered before, but their acknowledgement was lost."""
    target = Target(version)
    history(target, range(20, 400, 20))
    for sweep in target.spool[:delivered]:
        target.aggregator.take(sweep)
    values = sum(len(decoded(sweep).moved.slot) for sweep in target.spool)
    target.merge_spool()
    assert sum(len(decoded(sweep).moved.slot) for sweep in target.spool) < values / 2
    resent = list(target.spool)

    target.deliver()
    for sweep in resent:
        target.aggregator.take(sweep)

    assert target.total("a") == (380, 3800)
    assert target.total("b") == (361, 360)
    assert target.flags == []


def test_batch_merged_keeps_every_life_that_ended_in_it() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10), job("b", 1, 10, 15))
    for tick, samples in ((40, 6), (60, 9), (80, 2), (100, 7)):
        target.hold(tick, job("a", samples, 100 * samples, tick - 5), job("b", 1, 10, 15))
    target.hold(120, job("b", 1, 10, 15), job("a", 8, 800, 115))
    target.merge_spool()
    target.deliver()

    assert target.total("a") == (9 + 7 + 8, 2400)
    assert target.flags == []


# --- aggregator killed ---


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("killed_at", [0, 1, 7, 18])
def test_aggregator_killed_is_exact(version: str, killed_at: int) -> None:
    """It recovers from its last snapshot and the batches after it; agents send what was not acknowledged again."""
    target = Target(version)
    history(target, range(20, 400, 20))
    sent = list(target.spool)
    for sweep in sent[:killed_at]:
        target.aggregator.take(sweep)
    snapshot = target.aggregator.backup()
    for sweep in sent[killed_at : killed_at + 3]:
        target.aggregator.take(sweep)

    target.aggregator.restore(snapshot)
    for sweep in sent[max(killed_at - 2, 0) :]:
        target.aggregator.take(sweep)

    assert target.total("a") == (380, 3800)
    assert target.total("b") == (361, 360)
    assert target.flags == []


# --- agent's state folder lost ---


def test_state_folder_lost_is_exact_for_what_was_acknowledged_and_the_rest_is_counted_as_unseen() -> None:
    target = Target("2.15.8")
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 10, 12, start=6))
    target.hold(40, job("a", 7, 700, 30, start=5), job("b", 2, 20, 32, start=6))
    target.spool.clear()
    target.restart_agent()

    target.read(720, job("b", 3, 30, 700, start=6), job("a", 2, 200, 710, start=705))

    assert target.total("a") == (5 + 2, 500 + 200), "of the first life, what was acknowledged"
    assert target.total("b") == (3, 30), "it lives on"
    assert target.aggregator.unseen_seconds == 700 - 600
    assert target.flags == []


def test_state_folder_lost_without_start_time_flags_what_may_have_begun_again() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10))
    target.hold(40, job("a", 7, 700, 30))
    target.spool.clear()
    target.restart_agent()

    target.read(720, job("a", 8, 800, 710))

    assert target.total("a") == (5 + 8, 500 + 800)
    assert target.flags == [("a", (5, 500), NEW)]


# --- ledger restored from an old backup ---


@pytest.mark.parametrize("version", VERSIONS)
def test_ledger_restored_is_exact_as_far_as_agents_still_hold_the_segments(version: str) -> None:
    target = Target(version)
    history(target, range(20, 200, 20))
    segments = list(target.spool)
    for sweep in segments[:3]:
        target.aggregator.take(sweep)
    backup = target.aggregator.backup()
    for sweep in segments[3:]:
        target.aggregator.take(sweep)

    target.aggregator.restore(backup)
    for sweep in segments:
        target.aggregator.take(sweep)

    assert target.total("a") == (180, 1800)
    assert target.total("b") == (181, 180)
    assert target.flags == []


def test_ledger_restored_without_segments_goes_on_exactly_where_lives_are_still_shown() -> None:
    target = Target("2.15.8")
    target.read(20, job("a", 5, 500, 10, start=5), job("b", 1, 10, 12, start=6))
    backup = target.aggregator.backup()
    target.read(40, job("a", 7, 700, 30, start=5), job("b", 1, 10, 12, start=6))

    target.aggregator.restore(backup)
    target.restart_agent()
    target.read(60, job("a", 9, 900, 50, start=5), job("b", 2, 20, 55, start=6))

    assert (target.total("a"), target.total("b")) == ((9, 900), (2, 20))
    assert target.flags == []


def test_ledger_restored_without_segments_flags_the_rest() -> None:
    target = Target("2.12.9")
    target.read(20, job("a", 5, 500, 10))
    backup = target.aggregator.backup()
    target.read(40, job("a", 7, 700, 30))

    target.aggregator.restore(backup)
    target.restart_agent()
    target.read(720, job("a", 9, 900, 710))

    assert target.total("a") == (5 + 9, 500 + 900)
    assert target.flags == [("a", (5, 500), NEW)]
