"""However batches come, the totals are the same: again, late, interleaved, merged and resent, under other names."""

from hypothesis import given, settings
from hypothesis import strategies as st

from properties.spools import HISTORIES, Packet, Spool, facts_of, in_order, merged_spool, outcome, renamed, spools

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200, database=None)
"""The same examples everywhere and every time."""

seeds = st.integers(0, HISTORIES - 1)
places = st.integers(0, 1 << 16)


def interleaved(streams: list[list[Packet]], turns: list[tuple[int, int]]) -> list[Packet]:
    """Return the packets of all streams, each stream's in order, switching between them as the turns say."""
    rest = [list(stream) for stream in streams]
    found: list[Packet] = []
    for turn, count in turns:
        stream = rest[turn % len(rest)]
        found += stream[:count]
        del stream[:count]
    return found + [packet for stream in rest for packet in stream]


turns = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), max_size=30)


@REPEATABLE
@given(seed=seeds, again=st.lists(st.tuples(places, places), min_size=1, max_size=20))
def test_delivering_any_batch_again_at_any_later_time_gives_the_same_totals(
    seed: int, again: list[tuple[int, int]]
) -> None:
    packets = [packet for spool in spools(seed) for packet in spool]
    sent = list(packets)
    for which, when in again:
        packet = packets[which % len(packets)]
        first = sent.index(packet)
        sent.insert(first + 1 + when % (len(sent) - first), packet)

    assert outcome(sent) == in_order(seed)


@REPEATABLE
@given(seed=seeds, turns=turns)
def test_streams_of_different_agents_interleaved_in_any_way_give_the_same_totals(
    seed: int, turns: list[tuple[int, int]]
) -> None:
    sent = interleaved([list(spool) for spool in spools(seed)], turns)

    assert outcome(sent) == in_order(seed)


@REPEATABLE
@given(seed=seeds, names=st.lists(st.sampled_from(["s0", "s1", "s0.example"]), min_size=1), turns=turns)
def test_agents_that_come_under_other_names_give_the_same_totals(
    seed: int, names: list[str], turns: list[tuple[int, int]]
) -> None:
    sent = interleaved([list(renamed(spool, names)) for spool in spools(seed)], turns)

    assert outcome(sent) == in_order(seed)


def attempts(spool: Spool, drawn: list[tuple[int, int, int, int]]) -> list[Packet]:
    """Return what an agent sends if its connection breaks now and then, and its spool is merged meanwhile.

    Each attempt sends some reads, of which fewer are acknowledged; a run of what was not is merged, also again.
    """
    sent: list[Packet] = []
    acknowledged = 0
    for count, acks, first, size in drawn:
        end = min(acknowledged + count, len(spool))
        sent += spool[acknowledged:end]
        acknowledged += acks % (end - acknowledged + 1)
        left = len(spool) - acknowledged
        start = acknowledged + first % (left + 1)
        spool = merged_spool(spool, start, start + size)
    return sent + list(spool[acknowledged:])


broken = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 200), st.integers(2, 200)), min_size=1, max_size=4
)


@REPEATABLE
@given(seed=seeds, drawn=st.tuples(broken, broken), turns=turns, again=st.lists(st.tuples(places, places), max_size=5))
def test_merged_batches_resent_and_interleaved_give_the_same_totals(
    seed: int,
    drawn: tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]],
    turns: list[tuple[int, int]],
    again: list[tuple[int, int]],
) -> None:
    streams = [attempts(spool, breaks) for spool, breaks in zip(spools(seed), drawn, strict=True)]
    sent = interleaved(streams, turns)
    for which, when in again:
        first = which % len(sent)
        sent.insert(first + 1 + when % (len(sent) - first), sent[first])

    assert outcome(sent)[0] == in_order(seed)[0]


def test_the_histories_have_what_the_properties_are_about() -> None:
    """Targets that moved between servers, agents that began again, and decisions that were flagged."""
    assert sum(all(spools(seed)) for seed in range(HISTORIES)) > HISTORIES / 2
    starts = [{facts_of(packet).incarnation for packet in spool} for seed in range(HISTORIES) for spool in spools(seed)]
    assert sum(len(incarnations) > 1 for incarnations in starts) > HISTORIES / 4
    assert sum(bool(in_order(seed)[1]) for seed in range(HISTORIES)) > HISTORIES / 4
    whole = [spool for seed in range(5) for spool in spools(seed) if spool]
    saved = [bytes_of(spool) - bytes_of(merged_spool(spool, 0, len(spool))) for spool in whole]
    assert sum(saving > 0 for saving in saved) > len(saved) / 2


def bytes_of(spool: Spool) -> int:
    return sum(len(message) for packet in spool for message in packet)
