"""A stay as bytes and back."""

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harvest_core.accounting.apply import Stay, apply
from harvest_core.accounting.mounts import BY_ROW, MountState
from harvest_core.accounting.snapshots import SnapshotError, dump, load
from harvest_core.facts import Facts
from harvest_sim.counters import Counter
from unit.accounting.aggregator import decoded
from unit.accounting.builder import Target
from unit.accounting.printed import job


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value with its types, such that == compares all of it."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.tolist())
    if isinstance(value, MountState):
        return {name: plain(item[: len(value.jobs)] if name in BY_ROW else item) for name, item in vars(value).items()}
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple | set):
        return (type(value), [plain(item) for item in value])
    return (type(value), value)


def all_of(stay: Stay) -> Any:  # noqa: ANN401
    return {name: plain(value) for name, value in vars(stay).items()}


def two_restarts_and_a_remount() -> list[Facts]:
    """Return reads after which a lot is known: lives that ended, equal ids, extremes, histograms, doubts."""
    target = Target("2.16.1", header=False)
    sizes = Counter.of([100, 5000])
    target.hold(20, job("a", at=10, write_bytes=sizes), job("x?", 3, 300, 11), job("x?", 4, 400, 12))
    target.hold(40, job("a", at=30, write_bytes=Counter.of([100])), job("x?", 5, 500, 31), job("x?", 4, 400, 12))
    target.hold(60, job("x?", 6, 600, 51), cut=True)
    target.restart_agent()
    target.hold(700, *[job(f"j{n}", n + 1, 10 * n, 690, punch=n + 1) for n in range(90)], job("a", 9, 900, 695))
    target.remount()
    target.clock_step_seconds = -5
    target.hold(720, job("a", 1, 10, 710), job("b", 1, 10, 711))
    target.hold(740, job("b", 2, 20, 731))
    return [decoded(sweep) for sweep in target.spool]


def with_starts() -> list[Facts]:
    target = Target("2.15.8", instance=None)
    target.hold(20, job("a", 5, 500, 10, start=5), job("b", 5, 500, 10, start=6))
    target.hold(40, job("a", 1, 100, 30, start=25), job(b"\xff\xfe".decode("latin-1"), 1, 1, 31, start=26))
    target.hold(60)
    return [decoded(sweep) for sweep in target.spool]


def nothing_there() -> list[Facts]:
    target = Target()
    target.hold(20)
    target.hold(40, *[job(f"j{n}", 1, 1, 30) for n in range(200)])
    return [decoded(sweep) for sweep in target.spool]


HISTORIES = pytest.mark.parametrize("history", [two_restarts_and_a_remount, with_starts, nothing_there])


@HISTORIES
def test_every_field_is_as_it_was(history: Callable[[], list[Facts]]) -> None:
    stay = Stay()
    assert all_of(load(dump(stay))) == all_of(stay)
    for facts in history():
        apply(stay, facts)

        assert all_of(load(dump(stay))) == all_of(stay)


@HISTORIES
def test_what_is_applied_after_loading_gives_the_same(history: Callable[[], list[Facts]]) -> None:
    stay, loaded = Stay(), Stay()
    for facts in history():
        work = apply(stay, facts)
        loaded = load(dump(loaded))
        again = apply(loaded, facts)

        assert all_of(loaded) == all_of(stay)
        assert vars(MountState()).keys() == vars(loaded.mounts[-1][1]).keys()
        for name in ("row", "column", "samples", "sum", "window_seconds"):
            assert getattr(again, name).tolist() == getattr(work, name).tolist()
        assert again.resets == work.resets
        assert [flag.amount.tolist() for flag in again.ambiguities] == [
            flag.amount.tolist() for flag in work.ambiguities
        ]


def test_a_field_that_was_added_is_dumped_or_refused() -> None:
    stay = Stay()
    for facts in with_starts():
        apply(stay, facts)
    state = stay.mounts[-1][1]
    vars(state)["added"] = object()
    with pytest.raises(TypeError, match="no place for object"):
        dump(stay)

    vars(state)["added"] = {(1, b"a"): [2, None]}
    with pytest.raises(SnapshotError, match="added"):
        load(dump(stay))


def test_numbers_of_any_size_come_back() -> None:
    stay = Stay()
    for facts in with_starts():
        apply(stay, facts)
    state = stay.mounts[-1][1]
    low, high = -(1 << 63), (1 << 63) - 1
    for numbers in ([low, high], [high, high], [low, low], [0, 255], [-1, 255], [0, 65536], [7, 7 + (1 << 32)]):
        state.sums[0, :2] = numbers
        state.closed[0] = np.array([numbers, numbers])
        state.clock_back = numbers[1]

        assert all_of(load(dump(stay))) == all_of(stay)


def written_by(version: int, body: bytes) -> bytes:
    return struct.pack("<6sHQI", b"HVstay", version, len(body), zlib.crc32(body)) + body


def test_what_is_damaged_or_foreign_is_refused() -> None:
    stay = Stay()
    for facts in with_starts():
        apply(stay, facts)
    payload = dump(stay)
    for place in range(0, len(payload), 7):
        damaged = bytearray(payload)
        damaged[place] ^= 1
        with pytest.raises(SnapshotError):
            load(bytes(damaged))
    for end in (0, 5, 20, 30, len(payload) - 1):
        with pytest.raises(SnapshotError):
            load(payload[:end])
    with pytest.raises(SnapshotError, match="format 4"):
        load(written_by(4, payload[20:]))


@pytest.mark.parametrize("body", [b"", b"n", b"z", b"dV", b"lia", b"lV" + b"\xff" * 8, b"d" + b"V" + bytes(8)])
def test_nonsense_with_a_good_checksum_is_refused(body: bytes) -> None:
    with pytest.raises(SnapshotError):
        load(written_by(2, body))
