import os
import stat
from pathlib import Path

import pytest

from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Fold, Ledger, Line, StoredStay

STREAM = ("oss1", b"incarnation-no-1")


def line(seq: int, *, target: str = "home-OST0000", part: int = 0, payload: bytes = b"what was read") -> Line:
    return Line("home", target, *STREAM, seq, part, payload)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ledger.db"


def opened(path: Path) -> Ledger:
    ledger = Ledger(path)
    ledger.open()
    return ledger


def test_what_was_accepted_is_there_after_reopening(path: Path) -> None:
    ledger = opened(path)
    ledger.accept([line(1), line(1, part=1), line(1, target="home-OST0001")], {STREAM: 1}, arrived_seconds=5.0)
    ledger.close()

    again = opened(path)

    assert list(again.lines("home")) == [line(1), line(1, part=1), line(1, target="home-OST0001")]
    assert list(again.lines("data")) == []
    assert again.acked(*STREAM) == 1
    assert again.acked("oss1", b"another") == 0
    again.close()


def test_a_batch_that_comes_again_is_kept_once(path: Path) -> None:
    ledger = opened(path)
    ledger.accept([line(1)], {}, arrived_seconds=5.0)
    ledger.accept([line(1, payload=b"the same, merged"), line(2)], {STREAM: 2}, arrived_seconds=6.0)

    assert list(ledger.lines("home")) == [line(1), line(2)]
    ledger.close()


def test_a_fold_replaces_the_batches_of_its_targets_alone(path: Path) -> None:
    ledger = opened(path)
    ledger.accept([line(1), line(1, target="home-OST0001")], {STREAM: 1}, arrived_seconds=5.0)
    old = StoredStay("home-OST0000", "boot-1", "oss1", 0, b"first")
    new = StoredStay("home-OST0000", "boot-2", "oss2", 1, b"second")
    ledger.fold([Fold(filesystem="home", target="home-OST0000", stays=[new, old], tally=b"{}")])
    ledger.fold([Fold(filesystem="home", target="home-OST0000", stays=[new._replace(payload=b"third")], tally=b"{1}")])

    assert list(ledger.lines("home")) == [line(1, target="home-OST0001")]
    assert list(ledger.stays("home")) == [old, new._replace(payload=b"third")]
    assert list(ledger.tallies("home")) == [("home-OST0000", b"{1}")]
    ledger.close()


def test_incarnations_that_an_agent_names_no_more_are_forgotten(path: Path) -> None:
    ledger = opened(path)
    ledger.accept([], {STREAM: 7, ("oss1", b"older"): 3, ("oss2", b"older"): 4}, arrived_seconds=5.0)
    ledger.forget("oss1", [STREAM[1]])
    ledger.close()

    again = opened(path)

    assert (again.acked(*STREAM), again.acked("oss1", b"older"), again.acked("oss2", b"older")) == (7, 0, 4)
    again.close()


def test_space_of_dropped_batches_is_used_again(path: Path) -> None:
    ledger = opened(path)
    sizes = []
    for seq in range(1, 41):
        ledger.accept([line(seq, payload=bytes(1 << 20))], {STREAM: seq}, arrived_seconds=5.0)
        if seq % 4 == 0:
            ledger.fold([Fold(filesystem="home", target="home-OST0000", stays=[], tally=b"")])
        ledger.settle()
        sizes.append(sum(file.stat().st_size for file in path.parent.iterdir()))

    assert max(sizes) < 40 << 20
    assert sizes[-1] <= max(sizes[:20])
    ledger.close()


def test_only_the_owner_can_read_it(path: Path) -> None:
    umask = os.umask(0)
    try:
        ledger = opened(path)
    finally:
        os.umask(umask)

    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    ledger.close()


def test_a_second_one_is_refused_and_told_who_has_it(path: Path) -> None:
    ledger = opened(path)

    with pytest.raises(LedgerError, match=rf"process {os.getpid()} has the ledger .* open: stop that one first"):
        opened(path)
    ledger.close()
    opened(path).close()


def test_whoever_lost_the_ledger_writes_no_more(path: Path) -> None:
    ledger = opened(path)
    ledger.accept([line(1)], {STREAM: 1}, arrived_seconds=5.0)
    thief = Ledger(path)
    thief._take()  # noqa: SLF001 - as after a lock that did not hold

    with pytest.raises(LedgerError, match="another aggregator has taken the ledger"):
        ledger.accept([line(2)], {STREAM: 2}, arrived_seconds=6.0)
    assert ledger.acked(*STREAM) == 1
    thief.accept([line(2)], {STREAM: 2}, arrived_seconds=6.0)
    thief.close()
    ledger.close()


def test_a_full_disk_changes_nothing_and_passes(path: Path) -> None:
    ledger = opened(path)
    ledger.accept([line(1)], {STREAM: 1}, arrived_seconds=5.0)
    assert ledger._open is not None  # noqa: SLF001 - the limit stands for a disk
    pages = ledger._open.connection.cursor().execute("PRAGMA max_page_count = 20").fetchone()[0]  # noqa: SLF001

    for _ in range(2):
        with pytest.raises(LedgerError, match="no room for the ledger"):
            ledger.accept([line(2, payload=bytes(1 << 20))], {STREAM: 2}, arrived_seconds=6.0)
    with pytest.raises(LedgerError, match="no room for the ledger"):
        ledger.probe()
    assert (list(ledger.lines("home")), ledger.acked(*STREAM)) == ([line(1)], 1)

    ledger._open.connection.cursor().execute(f"PRAGMA max_page_count = {pages * 100}")  # noqa: SLF001
    ledger.probe()
    ledger.accept([line(2)], {STREAM: 2}, arrived_seconds=7.0)
    assert (list(ledger.lines("home")), ledger.acked(*STREAM)) == ([line(1), line(2)], 2)
    ledger.close()
