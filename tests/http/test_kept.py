"""What agents deliver to a real keeper with a real ledger is what HTTP answers, before and after a restart."""

import time
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from harvest_aggregator.deliveries import Delivery
from harvest_aggregator.http import app
from harvest_aggregator.keeping import Keeper
from harvest_aggregator.ledger import Ledger
from harvest_aggregator.metrics import Metrics
from harvest_aggregator.records import Records
from harvest_site.loading import load
from support.deliveries import INTERVAL, SITE, START, Writer

MIB = 1 << 20


class House:
    """A keeper and those who ask it, at a time that is said."""

    def __init__(self, path: Path) -> None:
        self.now = float(START)
        site = load(SITE)
        self.keeper = Keeper(
            Ledger(path),
            site,
            now=lambda: self.now,
            on_close=lambda sweep, now: self.metrics.sweep_closed(sweep, now_seconds=now),
            on_kept=lambda seconds: self.metrics.kept(seconds=seconds),
        )
        self.metrics = Metrics(
            lambda: self.keeper.published,
            version="1",
            site=lambda: site,
            ledger_bytes=lambda: 0,
            queued_sweeps=lambda: 0,
        )
        self.client = TestClient(
            app(
                lambda: self.keeper.published,
                site=lambda: site,
                readiness=list,
                metrics=self.metrics,
                records=Records(path),
                token=None,
            )
        )
        self.keeper.start()

    def after(self, delivery: Delivery) -> Any:  # noqa: ANN401 - JSON
        """Deliver a second after the tick and return the job 7 of that sweep."""
        tick = delivery.batches[-1][1].tick_seconds
        self.now = tick + 1.0
        self.keeper.accept(delivery).result(timeout=60)
        return self.asked("jobs/-/7", tick=tick)

    def asked(self, path: str, *, tick: int) -> Any:  # noqa: ANN401 - JSON
        """Ask when the sweep is closed."""
        until = time.monotonic() + 60
        while self.keeper.published.tick_seconds != tick:
            assert time.monotonic() < until, self.keeper.published.tick_seconds
            time.sleep(0.02)
        return self.client.get(f"/api/v1/{path}").json()


def test_what_is_delivered_is_answered_and_survives(tmp_path: Path) -> None:
    agent = Writer()
    house = House(tmp_path / "ledger.db")
    assert house.after(agent.sweep({b"7": 10}))["filesystems"]["home"]["ost"]["write_bytes"] == 10 * MIB
    job, tick = house.after(agent.sweep({b"7": 30})), START + 2 * INTERVAL
    assert (job["tick_seconds"], job["filesystems"]["home"]["ost"]["write_bytes"]) == (tick, 30 * MIB)
    assert job["filesystems"]["home"]["ost"]["rates"]["write_bytes"] == 20 * MIB / INTERVAL
    assert house.client.get("/api/v1/views/supershort").json()["7"]["oss"]["write_bytes"] == 20 * MIB / INTERVAL
    (target,) = house.client.get("/api/v1/targets").json()["targets"]
    assert (target["name"], target["server"], target["last_tick_seconds"]) == ("home-OST0000", "oss1", tick)
    counted = house.metrics.exposition(accept="")[0].decode().splitlines()
    assert "harvest_sweeps_closed_total 2.0" in counted
    assert "harvest_sweep_close_seconds_sum 2.0" in counted
    assert "harvest_keep_seconds_count 2.0" in counted
    house.keeper.stop()

    again = House(tmp_path / "ledger.db")
    again.now = tick + 5.0
    assert again.asked("jobs", tick=tick)["jobs"][0]["filesystems"]["home"]["ost"]["write_bytes"] == 30 * MIB
    again.keeper.stop()
