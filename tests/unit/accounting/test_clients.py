"""The rule of lives for clients: their files are read one after the other, so that a clear may show in some only."""

import pytest

from harvest_core.accounting.mounts import UnnamedError
from harvest_core.facts import Facts
from harvest_core.merging import merged
from unit.agent.client_files import Followed, sent

A, B, C = "10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"


def followed_with(**written: int) -> Followed:
    """Return clients that were accounted for once: a, b and c have written so much."""
    followed = Followed()
    write(followed, **written)
    followed.account_for()
    return followed


def write(followed: Followed, **written: int) -> None:
    for name, count in written.items():
        followed.ost.show({"a": A, "b": B, "c": C}[name], write_bytes=count)


def test_counters_that_only_grow_are_one_life_and_nothing_is_flagged() -> None:
    followed = followed_with(a=5, b=9)
    for step in (1, 2, 3):
        write(followed, a=5 + step)
        assert followed.account_for().ambiguities == []

    assert (followed.total(A), followed.total(B)) == (8, 9)


def test_if_one_client_fell_the_others_that_moved_may_have_been_cleared_too() -> None:
    """They go on, and are flagged: it was one of them only, or they did more since than ever before."""
    followed = followed_with(a=5, b=9)
    write(followed, a=7, b=1)

    work = followed.account_for()

    assert (followed.total(A), followed.total(B)) == (7, 9 + 1)
    assert [(flag.was_new, flag.amount.tolist()) for flag in work.ambiguities] == [(False, [[5, 5]])]


def test_who_was_read_before_a_clear_that_others_showed_is_in_doubt_a_pass_later() -> None:
    followed = followed_with(a=5, b=9)
    write(followed, b=1)
    assert followed.account_for().ambiguities == []  # a had not moved
    write(followed, a=6)

    first = followed.account_for()
    write(followed, a=8)
    second = followed.account_for()

    assert [flag.amount.tolist() for flag in first.ambiguities] == [[[5, 5]]]
    assert second.ambiguities == []


def test_who_fell_itself_has_the_clear_behind_it() -> None:
    followed = followed_with(a=5, b=9)
    write(followed, a=1, b=1)
    followed.account_for()
    write(followed, a=2, b=2)

    assert followed.account_for().ambiguities == []
    assert (followed.total(A), followed.total(B)) == (5 + 2, 9 + 2)


def test_a_directory_that_is_gone_puts_the_others_in_doubt() -> None:
    followed = followed_with(a=5, b=9)
    followed.ost.vanish(B)
    followed.account_for()
    write(followed, a=6)

    assert len(followed.account_for().ambiguities) == 1


def test_a_pass_in_which_no_file_was_read_ends_no_doubt() -> None:
    followed = followed_with(a=5, b=9)
    write(followed, b=1)
    followed.account_for()
    followed.account_for()  # the target counted nothing
    write(followed, a=6)

    assert len(followed.account_for().ambiguities) == 1


def test_the_same_numbers_after_the_target_was_seen_unmounted_are_another_life() -> None:
    """Before 2.5.3 nothing else tells two mounts apart, and these files do not say when they last counted."""
    followed = Followed()
    followed.ost.instance = None
    followed.restart()
    write(followed, a=5)
    followed.account_for()
    followed.restart(was_gone=True)

    work = followed.account_for()

    assert (followed.total(A), work.ambiguities) == (5 + 5, [])


def test_the_same_numbers_told_by_another_agent_are_the_same_life() -> None:
    followed = followed_with(a=5)
    followed.restart()

    followed.account_for()

    assert followed.total(A) == 5


def test_who_moved_is_there_also_where_the_passes_that_told_of_it_are_lost() -> None:
    """As in a ledger that was restored, if the agent has only its latest segments: these name all that they use."""
    followed = Followed()
    write(followed, a=5, b=9)
    followed.passed()
    followed.clients.differences.begin_segment()
    for written in (6, 7, 8):
        write(followed, a=written)
        followed.account_for()

    assert (followed.total(A), followed.account_for().resets) == (8, [])


def test_what_was_done_in_passes_that_are_lost_is_in_no_rate() -> None:
    """The latest segment says that a client is there; how much it had done by then, only the lost ones said."""
    followed = Followed()
    write(followed, b=9)
    followed.passed()
    followed.clients.differences.begin_segment()
    write(followed, a=1)  # before b in the order, which is told again from there on
    followed.account_for()
    write(followed, b=10)

    work = followed.account_for()

    assert (followed.total(B), work.window_seconds.tolist()) == (10, [0])


def test_facts_about_the_marks_of_an_unnamed_client_change_nothing() -> None:
    followed = followed_with(a=5)
    write(followed, a=7)
    facts = followed.passed()
    assert facts.clients is not None
    facts.clients.slot, facts.clients.live, facts.clients.server = (
        facts.moved.slot + 9,
        facts.moved.slot,
        facts.moved.slot,
    )

    with pytest.raises(UnnamedError):
        followed.account_for(facts)

    assert followed.total(A) == 5


def test_a_first_sight_that_begins_later_than_now_has_no_rate() -> None:
    """The clock was set back since: nobody knows how long ago it began."""
    followed = Followed()
    followed.ost.show(A, start=10, write_bytes=5)
    followed.ost.show(B, start=1000, write_bytes=5)

    work = followed.account_for()

    assert work.window_seconds.tolist() == [60, 0]


# --- a full spool ---


def values(reads: list[Facts], slot: int) -> list[int]:
    return [
        int(facts.moved.sum[position])
        for facts in reads
        for position, one in enumerate(facts.moved.slot)
        if one == slot
    ]


def test_in_a_full_spool_only_the_first_and_last_value_of_a_client_that_nothing_disturbed_stay() -> None:
    followed = Followed()
    reads = []
    for step in range(1, 7):
        write(followed, a=step)
        reads.append(followed.passed())

    thin = merged(reads)

    assert values(thin, 0) == [1, 2, 6]  # before the first pass there may have been a clear
    for facts in thin:
        assert followed.account_for(sent(facts)).ambiguities == []
    assert followed.total(A) == 6


def test_around_a_pass_that_shows_a_clear_every_value_stays() -> None:
    followed = Followed()
    reads = []
    for step in range(1, 9):
        write(followed, a=step, b=9 + step if step < 5 else step)
        reads.append(followed.passed())

    thin = merged(reads)

    assert values(thin, 1) == [10, 11, 13, 5, 6, 8]
    assert values(thin, 0) == [1, 2, 4, 5, 6, 8]
    plain = Followed()
    for facts in reads:
        plain.account_for(sent(facts))
    flags = [flag.amount.tolist() for facts in thin for flag in followed.account_for(sent(facts)).ambiguities]
    assert flags == [[[4, 4]], [[5, 5]]]
    assert [followed.total(nid) for nid in (A, B)] == [plain.total(nid) for nid in (A, B)] == [8, 13 + 8]
