"""What merging leaves out, and what it must not."""

from harvest_core.facts import Facts
from harvest_core.merging import merged
from harvest_sim.counters import Counter
from unit.accounting.aggregator import SAME, Aggregator, decoded, encoded
from unit.accounting.builder import Target
from unit.accounting.printed import job


def values_of(reads: list[Facts], slot: int = 0) -> list[tuple[int, int, int]]:
    """Return (seq, first number of samples, continuous since) of a record in every read that has it."""
    found = []
    for facts in reads:
        moved = facts.moved
        for position, number in enumerate(moved.slot):
            if number == slot:
                row = sum(moved.rows[:position])
                since = moved.continuous[position] if len(moved.continuous) else 0
                found.append((facts.seq, int(moved.samples[row]), int(since)))
    return found


def busy(target: Target, *ticks: int) -> list[Facts]:
    return [target.hold(tick, job("a", tick, 10 * tick, tick - 5)) for tick in ticks]


def test_the_first_and_the_last_value_of_a_stretch_stay() -> None:
    reads = busy(Target(), 20, 40, 60, 80, 100)

    assert values_of(merged(reads)) == [(1, 20, 0), (5, 100, 1)]


def test_merging_what_was_merged_changes_nothing_and_more_reads_go_on_from_it() -> None:
    target = Target()
    reads = merged(busy(target, 20, 40, 60))
    assert values_of(merged(reads)) == values_of(reads)

    longer = merged([*reads, *busy(target, 80, 100)])

    assert values_of(longer) == [(1, 20, 0), (5, 100, 1)]


def test_every_read_stays_with_its_names_order_and_gone() -> None:
    target = Target()
    reads = busy(target, 20, 40)
    reads.append(target.hold(60, job("a", 60, 600, 55), job("b", 1, 10, 50)))
    reads.append(target.hold(80, job("b", 2, 20, 70)))

    thin = merged(reads)

    for attribute in ("seq", "tick_seconds", "names", "counters", "order_is_full", "complete", "mount", "unread_lines"):
        assert [getattr(facts, attribute) for facts in thin] == [getattr(facts, attribute) for facts in reads]
    for attribute in ("order", "gone"):
        assert [list(getattr(f, attribute)) for f in thin] == [list(getattr(f, attribute)) for f in reads]


def stays_whole(reads: list[Facts]) -> bool:
    return values_of(merged(reads)) == values_of(reads)


def test_nothing_goes_across_a_fall_of_any_record() -> None:
    target = Target()
    reads = [
        target.hold(tick, job("a", tick, tick, tick - 5), job("b", other, other, tick - 4))
        for tick, other in ((20, 9), (40, 3), (60, 2))
    ]

    assert stays_whole(reads)


def merged_total(target: Target, counter: str = "data") -> tuple[int, int]:
    target.merge_spool()
    target.deliver()
    return target.total("a", counter)


def test_nothing_goes_across_a_fall_of_bytes_while_samples_rise() -> None:
    target = Target()
    for tick, samples, amount in ((20, 5, 500), (40, 9, 900), (60, 10, 200), (80, 12, 1000)):
        target.hold(tick, job("a", samples, amount, tick - 5))

    assert merged_total(target) == (9 + 12, 900 + 1000)


def test_nothing_goes_for_a_value_that_was_not_read() -> None:
    target = Target("2.14.0")
    for tick, samples in ((20, 5), (40, 6), (60, 7)):
        target.hold(tick, job("a", samples, 100 * samples, tick - 5))
    target.hold(80, job("a", 8, 800, 75, edited=lambda text: text.replace(b"sum:%16d" % 800, b"sum:-800")))

    assert merged_total(target) == (8, 700)


def test_nothing_goes_across_a_fall_of_usecs() -> None:
    target = Target("2.14.0")
    for tick, usecs in ((20, 100), (40, 300), (60, 50), (80, 60), (100, 70)):
        target.hold(tick, job("a", tick, tick, tick - 5, punch=(tick, usecs)))

    assert merged_total(target, "punch") == (100, 300 + 20)


def test_nothing_goes_across_a_gap_a_cut_a_mount_or_a_directory_that_was_gone() -> None:
    gap = Target()
    reads = busy(gap, 20)
    gap.skip_read()
    reads += busy(gap, 60)
    gap.skip_read()
    assert stays_whole([*reads, *busy(gap, 100)])

    cut = Target()
    assert stays_whole(
        [
            *busy(cut, 20),
            cut.hold(40, job("a", 40, 400, 35), cut=True),
            *busy(cut, 60),
            cut.hold(80, job("a", 80, 800, 75), cut=True),
        ]
    )

    other = Target()
    reads = busy(other, 20)
    for tick in (40, 60):
        other.instance = tick
        reads += busy(other, tick)
    assert stays_whole(reads)

    gone = Target(instance=None)
    reads = [
        *busy(gone, 20),
        *(gone.hold(tick, job("a", tick, tick * 10, tick - 5), directory_gone=True) for tick in (40, 60)),
    ]
    assert len(values_of(merged(reads))) + len(values_of(merged(reads), slot=1)) == 3


def test_nothing_goes_while_others_vanish_move_back_or_are_read_in_part() -> None:
    vanishing = Target()
    others = [job(name, 1, 1, 1) for name in "bcd"]
    reads = [vanishing.hold(20 * n, job("a", 20 * n, 20 * n, 20 * n - 5), *others[n:]) for n in range(1, 4)]
    assert stays_whole(reads)

    back = Target()
    b, c = job("b", 1, 1, 1), job("c", 1, 1, 1)
    reads = [
        back.hold(20 * n, job("a", 20 * n, 20 * n, 20 * n - 5), *order)
        for n, order in enumerate([(b, c), (c, b), (b, c)], 1)
    ]
    assert stays_whole(reads)

    spoilt = Target()
    reads = [
        spoilt.hold(tick, job("a", tick, tick, tick - 5, edited=lambda text: text.replace(b"sync:", b"sync?")))
        for tick in (20, 40, 60)
    ]
    assert stays_whole(reads)


def test_nothing_goes_where_the_record_may_have_been_idle_or_the_clock_was_set_back() -> None:
    idle = Target(interval=61)
    reads = [idle.hold(tick, job("a", tick, tick, tick)) for tick in (60, 120, 180)]
    assert stays_whole(reads)

    unknown = Target(interval=None)
    assert stays_whole(busy(unknown, 20, 40, 60))

    clock = Target()
    reads = busy(clock, 20)
    for tick in (40, 60):
        clock.clock_step_seconds -= 1
        reads += busy(clock, tick)
    assert stays_whole(reads)


def test_extremes_of_values_that_went_are_kept() -> None:
    target = Target("2.14.0")
    reads = []
    amounts: list[int] = []
    for tick, amount in ((20, 50), (40, 7), (60, 9000), (80, 60), (100, 70)):
        amounts.append(amount)
        reads.append(target.hold(tick, job("a", at=tick - 5, write_bytes=Counter.of(amounts))))

    aggregator = Aggregator()
    for facts in merged(reads):
        aggregator.take([encoded(facts)])

    state = aggregator.state()
    assert state.extremes(b"a", state.counters["write_bytes", "bytes"]) == (7, 9000)
    assert aggregator.total("a") == (5, sum(amounts))


def test_histograms_stay_with_their_values() -> None:
    target = Target("2.16.1")
    reads = []
    amounts: list[int] = []
    for tick, amount in ((20, 50), (40, 7), (60, 9000), (80, 60)):
        amounts.append(amount)
        quiet = job("b", at=5, start=3, write_bytes=Counter.of([1]))
        reads.append(target.hold(tick, quiet, job("a", at=tick - 5, start=4, write_bytes=Counter.of(amounts))))

    aggregator = Aggregator()
    for facts in merged(reads):
        aggregator.take([encoded(facts)])

    state = aggregator.state()
    column = state.counters["write_bytes", "bytes"]
    row = state.jobs.index(b"a")
    assert {power: n for (c, power), n in state.histogram(row).items() if c == column} == {6: 2, 3: 1, 14: 1}


def test_a_stretch_that_is_certain_leaves_nothing_open_even_if_it_lasted_longer_than_the_interval() -> None:
    target = Target(interval=60)
    busy(target, *range(20, 400, 20))
    target.merge_spool()
    assert len([facts for facts in map(decoded, target.spool) if len(facts.moved.slot)]) == 2

    target.deliver()

    assert target.total("a") == (380, 3800)
    assert target.flags == []


def test_what_is_certain_of_one_record_says_nothing_of_another() -> None:
    target = Target(interval=60)
    for tick in range(20, 200, 20):
        b_samples, b_at = (9, 175) if tick == 180 else (5, 10)
        target.hold(tick, job("a", tick, 10 * tick, tick - 5), job("b", b_samples, 10 * b_samples, b_at))
    target.merge_spool()
    target.deliver()

    assert target.total("a") == (180, 1800)
    assert target.total("b") == (9, 90)
    assert target.flags == [("b", (5, 50), SAME)]


def test_a_stretch_of_which_the_first_value_was_lost_is_not_certain() -> None:
    target = Target(interval=60)
    target.read(20, job("a", 20, 200, 15))
    busy(target, *range(40, 400, 20))
    target.merge_spool()
    del target.spool[0]

    target.deliver()

    assert target.total("a")[0] >= 380
    assert target.flags != []
    assert {said for _, _, said in target.flags} <= {SAME, "new"}


def moving_by_turns(target: Target, ticks: range, start: float = 0) -> list[Facts]:
    """Let five jobs move one after the other, one in each read."""
    done = dict.fromkeys("abcde", 1)
    reads = []
    at = dict.fromkeys("abcde", ticks[0] - 5)
    for number, tick in enumerate(ticks):
        name = "abcde"[number % 5]
        done[name], at[name] = tick, tick - 5
        reads.append(target.hold(tick, *(job(n, done[n], 10 * done[n], at[n], start=start) for n in done)))
    return reads


def test_records_that_move_now_and_then_do_not_keep_each_other_from_being_merged() -> None:
    reads = moving_by_turns(Target(), range(20, 620, 20))

    assert [len(values_of(merged(reads), slot)) for slot in range(5)] == [2] * 5


def test_only_the_first_value_of_a_record_that_was_there_before_these_reads_breaks_a_stretch() -> None:
    reads = moving_by_turns(Target(), range(20, 620, 20))[5:]

    seqs = [[seq for seq, _, _ in values_of(merged(reads), slot)] for slot in range(5)]

    assert seqs == [[6, 11, 26], [7, 12, 27], [8, 13, 28], [9, 14, 29], [10, 30]]


def test_a_record_that_was_not_read_whole_may_have_fallen_since() -> None:
    target = Target("2.14.0")
    reads = []
    for tick, amount in ((20, 800), (40, 900), (60, 1000), (80, 300), (100, 400)):
        other = job("b", tick, amount, tick - 5, edited=lambda text: text.replace(b"sum:%16d" % 1000, b"sum:-1000"))
        reads.append(target.hold(tick, job("a", tick, tick, tick - 5), other))

    assert [seq for seq, _, _ in values_of(merged(reads))] == [1, 2, 3, 4, 5]


def test_a_slot_of_another_mount_is_another_record() -> None:
    target = Target("2.15.8")
    reads = [target.hold(tick, job("a", tick, tick, tick - 5, start=3)) for tick in (20, 40, 60)]
    target.remount()
    reads += [target.hold(tick, job("b", tick, tick, tick - 5, start=3)) for tick in (80, 100, 120)]

    assert [seq for seq, _, _ in values_of(merged(reads))] == [1, 3, 4, 6]


def with_a_start(target: Target) -> None:
    """Let a job work on while others are cleared, vanish and come, reads are cut and missed, and a clock goes back."""
    for number in range(1, 13):
        tick = 20 * number
        others = [job(f"b{number // 3}", 13 - number, 13 - number, tick - 5, start=1 + number // 3)]
        if number == 6:
            target.skip_read()
        if number == 8:
            target.clock_step_seconds -= 1
        target.hold(tick, job("a", tick, 10 * tick, tick - 5, start=4), *others, cut=number == 4)


def test_values_of_a_life_that_a_start_names_go_whatever_happens_to_others() -> None:
    target, plain = Target("2.15.8"), Target("2.15.8")
    with_a_start(target)
    with_a_start(plain)
    assert [seq for seq, _, _ in values_of(merged(list(map(decoded, target.spool))))] == [1, 13]

    target.merge_spool()
    target.deliver()
    plain.deliver()

    assert target.total("a") == (240, 2400)
    assert [target.total(f"b{n}") for n in range(5)] == [plain.total(f"b{n}") for n in range(5)]
    assert target.flags == plain.flags == []


def test_the_larger_value_of_a_life_that_a_start_names_stays() -> None:
    target = Target("2.15.8")
    for tick, samples in ((20, 5), (40, 9), (60, 7), (80, 8)):
        target.hold(tick, job("a", samples, 100 * samples, tick - 5, start=4))

    assert merged_total(target) == (9, 900)


def test_beside_records_without_a_start_none_is_taken_by_its_start() -> None:
    target = Target("2.15.8")
    reads = [
        target.hold(tick, job("a", tick, tick, tick - 5, start=4), job("b", other, other, tick - 5))
        for tick, other in ((20, 9), (40, 8), (60, 7))
    ]

    assert stays_whole(reads)


def test_records_that_print_alike_stay_whole() -> None:
    target = Target()
    reads = [
        target.hold(tick, job("a", tick, tick, tick - 5), job("a", 2 * tick, tick, tick - 4), job("b", tick, 1, tick))
        for tick in (20, 40, 60, 80)
    ]

    assert [len(values_of(merged(reads), slot)) for slot in range(3)] == [4, 4, 2]
