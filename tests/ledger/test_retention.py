"""Final records that are too old leave the ledger, a few at a time; nothing that was added up falls with them."""

import time
from pathlib import Path

from harvest_aggregator import records, sqlite
from harvest_aggregator.catalogue import Catalogues
from harvest_aggregator.inventory import filesystems
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger, write_let_go
from harvest_aggregator.records import Records
from harvest_site.loading import load
from support.deliveries import INTERVAL, START, Writer
from unit.aggregator.test_records import record

DAY = 86400
OLD, YOUNG = 2500, 300
LIMIT_SECONDS = 120
SITE = "{{interval: 20s, filesystems: [{{name: home, servers: [oss1]}}], ledger: {{retention: {}d}}}}"
WRITTEN = {("home", "OST"): {("write_bytes", "bytes"): (7, 7_000_000)}}


def seeded(path: Path) -> None:
    """Make a ledger in which most records are 40 days old and some 10, with what they did in all."""
    sqlite.make(path)
    connection = sqlite.connect(path)
    with connection.begin():
        records.write(connection, [record(number) for number in range(OLD)], START - 40 * DAY)
        records.write(connection, [record(OLD + number) for number in range(YOUNG)], START - 10 * DAY)
        write_let_go(connection, WRITTEN)
    sqlite.disconnect(connection)


def test_old_records_leave_sweeps_go_on_and_no_total_of_a_file_system_falls(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    seeded(path)
    kept = Records(path)
    agent, now = Writer(), [START + 1.0]
    site = load(SITE.format(30))
    keeper = Keeper(Ledger(path), site, now=lambda: now[0])
    keeper.start()
    left: list[int] = []

    def sweep_until(least: int) -> None:
        """Let sweep follow sweep until so few are left; each must be closed."""
        until = time.monotonic() + LIMIT_SECONDS
        while not left or left[-1] > least:
            assert time.monotonic() < until, left
            now[0] = agent.tick + INTERVAL + 1.0
            keeper.accept(agent.sweep({b"7": len(left) + 1})).result(LIMIT_SECONDS)
            while keeper.published.tick_seconds != agent.tick:
                assert time.monotonic() < until
                time.sleep(0.01)
            source = keeper.published
            (home,) = filesystems(site, source, Catalogues().of(source.closed, source.identities))
            assert home["ost"]["write_bytes"] == 7_000_000 + (len(left) + 1 << 20)
            left.append(gone_on(left[-1] if left else OLD + YOUNG + 1, until))

    def gone_on(before: int, until: float) -> int:
        """Wait until there are fewer."""
        while (now_left := kept.matching({})) >= before:
            assert time.monotonic() < until
            time.sleep(0.01)
        return now_left

    try:
        sweep_until(YOUNG)
        assert left == sorted(left, reverse=True)
        assert len({*left}) > 3, "they did not leave a few at a time"
        assert {one["job"] for one in kept.each({}, sort="job", limit=1000, offset=0)} == {
            str(number) for number in range(OLD, OLD + YOUNG)
        }
        keeper.change_site(load(SITE.format(5))).result(LIMIT_SECONDS)
        sweep_until(0)
    finally:
        keeper.stop()
    assert kept.matching({}) == 0


def test_a_record_to_which_late_work_was_added_is_as_young_as_that(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    seeded(path)
    ledger = Ledger(path)
    ledger.open()
    ledger.write_runs((), [record(7)], START)
    while ledger.expire(START - DAY):
        pass
    ledger.close()

    (only,) = Records(path).each({}, sort="job", limit=10, offset=0)
    assert (only["job"], only["late"], only["filesystems"]["home"]["ost"]["read_bytes"]) == ("7", True, 14)
