"""From the files of clients to gmond: what is shown there is what Lustre counted in the period, corrected."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harvest_aggregator.sinks.running import Sinks
from harvest_aggregator.sinks.table import plans
from harvest_site.loading import load
from support.ganglia import Gmond
from support.processes import wait_for
from support.virtual_clients import PERIOD, Done, VirtualClients

METRICS = ("fs_read_bytes", "fs_write_bytes", "fs_oss_ops", "fs_mds_ops")
NIDS = {f"10.1.0.{number}@o2ib": f"vu{number}" for number in (1, 2)} | {"10.3.0.1@o2ib2": "xe1"}
OSTS = {"fs-OST0000": "2.12.9", "fs-OST0001": "2.16.1"}
SITE = """
filesystems: [{{name: fs, servers: [sost0000, sost0001, smdt0000], clients: {{interval: 20s}}}}]
clusters:
  - name: vu
    lnets: [o2ib]
    hosts: [{{pattern: {{nid: '10\\.1\\.0\\.(\\d+)@o2ib', host: 'vu\\1', address: '10.2.0.\\1'}}}}]
  - {{name: xe, lnets: [o2ib2], hosts: [{{table: [{{nid: 10.3.0.1@o2ib2, host: xe1, address: 10.4.0.1}}]}}]}}
sinks:
  - {{name: vu, ganglia: {{address: "{vu}", clusters: [vu]}}}}
  - {{name: xe, ganglia: {{address: "{xe}", clusters: [xe]}}}}
"""


class Line:
    """All of it in a line, with a gmond for each cluster at its end."""

    def __init__(self, folder: Path) -> None:
        self.gmonds = {name: Gmond(folder / name, name) for name in ("vu", "xe")}
        for gmond in self.gmonds.values():
            gmond.start()
        site = load(SITE.format(**{name: gmond.address for name, gmond in self.gmonds.items()}))
        self.clients = VirtualClients(folder, site, {**OSTS, "fs-MDT0000": "2.15.8"})
        self.sinks = Sinks()
        self.sinks.change(plans(site))
        for nid in NIDS:
            self.clients.site.connect("fs", nid, f"client of {nid}")
        self.before: Done = {}
        self.passed = 0
        self.told()  # there from the start, and idle
        self.told()

    def work(self, nid: str, ost: str, *, megabytes: int, opens: int = 0) -> None:
        target = self.clients.site.mounted(ost)
        target.bulk(b"4711", "write", 1 << 20, count=megabytes, nid=nid)
        target.bulk(b"4711", "read", 1 << 16, count=3, nid=nid)
        target.do(b"4711", "setattr", 7, nid=nid)
        self.clients.site.mounted("fs-MDT0000").do(b"4711", "open", 9, count=opens + 1, nid=nid)

    def work_everywhere(self, *, megabytes: int) -> None:
        for nid in NIDS:
            for ost in OSTS:
                self.work(nid, ost, megabytes=megabytes)

    def rates(self, *, silent: str = "") -> dict[str, list[str]]:
        """Let a period pass; return the four numbers of each host, as gmond has them."""
        values = self.told(silent=silent)
        return {host: [values[host][name] for name in METRICS] for host in NIDS.values()}

    def told(self, *, silent: str = "") -> dict[str, dict[str, str]]:
        """Let a period pass; return what both gmonds say."""
        self.passed += 1
        published = self.clients.pass_by(silent=silent)
        self.sinks.offer(published)
        wait_for(
            lambda: all(health.accepted == self.passed for health in self.sinks.healths()), "both sinks to be done"
        )
        for gmond in self.gmonds.values():
            gmond.catch_up()
        return {name: value for gmond in self.gmonds.values() for name, value in gmond.values().items()}

    def counted(self) -> dict[str, list[str]]:
        """Return, as it should be shown, what was counted for each client since this was last asked."""
        shown, before = self.clients.shown(), self.before
        self.before = shown
        return {
            host: [
                f"{(now - was) / PERIOD:.2f}"
                for now, was in zip(shown[nid], before.get(nid, (0, 0, 0, 0)), strict=True)
            ]
            for nid, host in NIDS.items()
        }

    def close(self) -> None:
        self.sinks.stop()
        self.clients.close()
        for gmond in self.gmonds.values():
            gmond.stop()


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path)
    yield line
    line.close()


def test_a_value_times_the_period_is_what_was_counted_in_it(line: Line) -> None:
    for number in range(3):
        for at, nid in enumerate(NIDS):
            for ost in OSTS:
                line.work(nid, ost, megabytes=50 - 7 * number + at, opens=number * at)
        assert line.rates() == line.counted()
    assert {name: sorted(gmond.values()) for name, gmond in line.gmonds.items()} == {
        "vu": ["vu1", "vu2"],
        "xe": ["xe1"],
    }


@pytest.mark.parametrize("event", ["clear", "zero"])
def test_counters_that_fall_are_corrected_at_once(line: Line, event: str) -> None:
    first = next(iter(NIDS))
    line.work_everywhere(megabytes=90)
    line.told()
    line.counted()
    for ost in OSTS:
        exports = line.clients.site.mounted(ost).exports
        if event == "clear":
            exports.clear()
        else:
            exports.stats[first].zero()
    line.work_everywhere(megabytes=20)

    assert line.rates() == line.counted()


def test_what_nobody_can_know_of_clients_is_counted_where_the_server_does_not_say_when_they_began(line: Line) -> None:
    line.work_everywhere(megabytes=90)
    line.told()
    for ost in OSTS:
        line.clients.site.mounted(ost).exports.stats[next(iter(NIDS))].zero()
    line.work_everywhere(megabytes=20)
    line.told()

    assert line.clients.in_doubt() == {"fs-OST0000": 2, "fs-OST0001": 0, "fs-MDT0000": 0}


def test_a_target_that_was_remounted_holds_back_only_what_it_touches(line: Line) -> None:
    """What was done there is told a period later, as a rate over the time since the mount."""
    line.work_everywhere(megabytes=90)
    line.told()
    line.counted()
    line.clients.site.remount("fs-OST0001")
    line.work_everywhere(megabytes=20)

    at_once = line.rates()
    later = line.rates()

    counted = line.counted()
    for host in NIDS.values():
        data, total = float(at_once[host][1]), float(counted[host][1])
        assert data == 20 * (1 << 20) / PERIOD  # of the other target
        assert data * PERIOD + float(later[host][1]) * 2 * PERIOD == total * PERIOD
        assert at_once[host][3] == counted[host][3]  # no MDT was touched
        assert not [value for value in (*at_once[host], *later[host]) if value.startswith("-")]


def test_an_agent_that_was_silent_for_periods_makes_no_spike(line: Line) -> None:
    line.work_everywhere(megabytes=90)
    line.told()
    line.counted()
    for _ in range(3):
        line.work("10.1.0.1@o2ib", "fs-OST0000", megabytes=30)
        assert float(line.rates(silent="sost0000")["vu1"][1]) == 0
    line.work("10.1.0.1@o2ib", "fs-OST0000", megabytes=30)

    data = float(line.rates()["vu1"][1])

    assert data * 4 * PERIOD == 4 * 30 * (1 << 20)
