"""The second table of DESIGN §5 where servers print strange things; and what else is kept of a life."""

import re
from collections.abc import Callable

import pytest

from harvest_sim.counters import Counter
from unit.accounting.builder import Target
from unit.accounting.printed import job

NO_START = "2.12.9"


# --- one bad line, a negative value, a foreign op, a strange id ---


def test_one_bad_line_costs_its_value_only_and_the_op_goes_on_at_its_next_good_value() -> None:
    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10, punch=2), job("b", 1, 10, 15))

    facts = target.hold(
        40,
        job("a", 6, 600, 30, punch=3, edited=lambda text: text.replace(b"write_bytes:", b"write_bytes?")),
        job("b", 2, 20, 35),
    )
    target.deliver()
    assert facts.unread_lines == 1
    assert target.total("a") == (5, 500)
    assert target.total("a", "punch") == (3, 0)
    assert target.total("b") == (2, 20)

    target.read(60, job("a", 7, 700, 50, punch=3), job("b", 2, 20, 35))
    assert target.total("a") == (7, 700)
    assert target.flags == []


@pytest.mark.parametrize("value", [b"-5", b"9223372036854775807", b"18446744073709551615", b"5x"])
def test_a_negative_or_saturated_sum_is_left_out_and_goes_on_at_its_next_good_value(value: bytes) -> None:
    target = Target("2.14.0")
    target.read(20, job("a", 5, 500, 10, punch=(2, 20)))
    spoilt = b"sum:" + value + b","

    facts = target.hold(
        40, job("a", 6, 600, 30, punch=(3, 30), edited=lambda text: text.replace(b"sum:%16d," % 600, spoilt))
    )
    target.deliver()
    assert facts.unread_lines == 1
    assert target.total("a") == (6, 500)
    assert target.total("a", "punch") == (3, 30)

    target.read(60, job("a", 7, 700, 50, punch=(4, 40)))
    assert target.total("a") == (7, 700)
    assert target.flags == []


def test_a_negative_number_of_samples_is_left_out_and_goes_on_at_its_next_good_value() -> None:
    def spoilt(text: bytes) -> bytes:
        return text.replace(b"samples:%12d, unit: bytes" % 6, b"samples:%12d, unit: bytes" % -6)

    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10, punch=2))
    target.read(40, job("a", 6, 600, 30, punch=3, edited=spoilt))
    assert (target.total("a"), target.total("a", "punch")) == ((5, 600), (3, 0))

    target.read(60, job("a", 7, 700, 50, punch=3))

    assert target.total("a") == (7, 700)
    assert target.flags == []


def test_a_foreign_op_disturbs_no_other_and_counts_on_its_own() -> None:
    def with_foreign(count: int) -> Callable[[bytes], bytes]:
        return lambda text: text + b"  quantum_leap:    { samples: %11d, unit:  reqs }\n" % count

    target = Target(NO_START)
    target.read(20, job("a", 5, 500, 10))
    for tick, count in ((40, 3), (60, 4)):
        target.read(tick, job("a", tick, 100 * tick, tick - 5, edited=with_foreign(count)))

    assert target.total("a") == (60, 6000)
    assert target.total("a", "quantum_leap") == (4, 0)
    assert target.flags == []


@pytest.mark.parametrize("version", ["2.12.9", "2.15.8", "2.16.1"])
def test_a_strange_id_is_an_id_like_any_other(version: str) -> None:
    strange = ["null", "- job_id:", '"quoted" \\x41', "caf\xe9", " blank ", "a: b, {c}"]
    target = Target(version)
    for tick, samples in ((20, 5), (40, 6)):
        jobs = [job(name, samples, 100 * samples, tick - 5, start=3 + n) for n, name in enumerate(strange)]
        facts = target.hold(tick, *jobs)
        assert facts.unread_lines == 0
        target.deliver()

    assert [target.total(name) for name in strange] == [(6, 600)] * len(strange)
    assert target.flags == []


# --- kept per life ---


def test_minimum_and_maximum_are_kept_per_job_and_histograms_per_life() -> None:
    target = Target("2.16.1")
    target.read(20, job("a", at=10, start=5, write_bytes=Counter.of([100, 5000])))
    target.read(40, job("a", at=30, start=5, write_bytes=Counter.of([100, 5000, 7])))
    target.read(60, job("a", at=55, start=50, write_bytes=Counter.of([100, 9000])))

    state = target.aggregator.state()
    column = state.counters["write_bytes", "bytes"]
    assert state.extremes(b"a", column) == (7, 9000)
    counts: dict[int, int] = {}
    for (_, power), count in [item for row in range(len(state.jobs)) for item in state.histogram(row).items()]:
        counts[power] = counts.get(power, 0) + count
    assert counts == {3: 1, 7: 2, 13: 1, 14: 1}


def test_histograms_of_lives_that_are_over_are_added_to_the_jobs_own() -> None:
    target = Target("2.16.1", header=False)
    target.read(20, job("a", at=10, write_bytes=Counter.of([100, 5000])))
    target.read(40, job("a", at=30, write_bytes=Counter.of([100])))
    target.read(60, job("a", at=50, write_bytes=Counter.of([100, 100])))

    state = target.aggregator.state()
    column = state.counters["write_bytes", "bytes"]
    assert target.total("a") == (4, 5300)
    assert state.closed_histograms == {(b"a", column, 7): 1, (b"a", column, 13): 1}
    assert state.histogram(0) == {(column, 7): 2}
    assert target.flags == []


def test_a_value_that_was_not_read_where_a_life_began_is_nobodys() -> None:
    """Neither the former life's once more, nor a reason to see another life in the next read."""
    target = Target("2.14.0")
    target.read(20, job("a", 5, 500, 10, punch=(9, 90)))
    spoilt = job("a", 7, 700, 30, punch=(1, 10), edited=lambda text: _spoilt(text, b"write_bytes"))
    target.read(40, spoilt)
    assert target.total("a") == (5, 500)

    target.read(60, job("a", 8, 800, 50, punch=(2, 20)))

    assert target.total("a") == (5 + 8, 500 + 800)
    assert target.total("a", "punch") == (9 + 2, 90 + 20)


def _spoilt(text: bytes, counter: bytes) -> bytes:
    """Return a record of which one counter's numbers are negative."""
    lines = text.splitlines(keepends=True)
    return b"".join(re.sub(rb"(samples|sum):( +)\d", rb"\1:\2-", line) if counter in line else line for line in lines)


def test_of_a_value_after_one_that_was_not_read_nobody_can_say_in_which_time_it_was_reached() -> None:
    target = Target("2.14.0")
    target.read(20, job("a", 5, 500, 10, punch=(9, 90)))
    target.read(40, job("a", 7, 700, 30, punch=(9, 90), edited=lambda text: _spoilt(text, b"write_bytes")))

    work = target.read(60, job("a", 8, 800, 50, punch=(10, 100)))
    assert work.window_seconds.tolist() == [0, 0]

    work = target.read(80, job("a", 9, 900, 70, punch=(10, 100)))
    assert work.window_seconds.tolist() == [20]
