"""The site file changes while agents are connected."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alive.scenes import closed, opened, run, wrong
from demo.play import Play, settings
from harvest_pki.folders import CaFolder


def servers(play: Play) -> dict[str, dict[str, Any]]:
    return {server["name"]: server for server in play.installation.get("/api/v1/servers")["servers"]}


def write_site(play: Play, *, without: str | None = None, interval_seconds: int = 1) -> None:
    here = play.installation
    listed = [name for name in here.servers if name != without]
    here.write_site({"scratch": ("scratch", listed)}, interval_seconds)


def test_a_server_that_is_not_listed_for_a_while_is_cut_and_loses_nothing(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=16)
    here = play.installation
    seen: dict[str, Any] = {}
    try:

        def look() -> None:
            seen.update(servers(play)["oss2"], log=here.agents["oss2"].log.read_text())

        def list_again() -> None:
            write_site(play)
            # it would come by itself within a minute or so; a new certificate lets it try at once
            ca = CaFolder(here.data / "ca")
            here.wait_for(lambda: servers(play)["oss2"]["listed"], "the site to be read", meanwhile=play.step)
            ca.write_agent(here.data / "agents/oss2", "oss2", now=datetime.now(UTC).replace(microsecond=0))

        run(play, (3.0, lambda: write_site(play, without="oss2")), (8.0, look), (10.0, list_again))

        assert (seen["listed"], seen["connected"]) == (False, False)
        assert "refused: server oss2 is not listed" in seen["log"]
        assert wrong(play) == []
        assert servers(play)["oss2"]["connected"]
        assert "incarnation" not in here.agents["oss2"].log.read_text(), "it goes on where it was"
    finally:
        closed(play)


def test_agents_follow_a_changed_interval(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=14, simulated=settings(event_seconds=0))
    ticks: dict[str, set[int]] = {name: set() for name in play.installation.servers}
    try:

        def look() -> None:
            for name, server in servers(play).items():
                ticks[name].add(server["last_tick_seconds"])

        looks = [(7.0 + number / 4, look) for number in range(25)]
        run(play, (3.0, lambda: write_site(play, interval_seconds=2)), *looks)

        for name, seen in ticks.items():
            assert len(seen) >= 3, name
            assert not [tick for tick in seen if tick % 2], name
        began = time.monotonic()
        write_site(play)
        here = play.installation
        here.wait_for(
            lambda: any(server["last_tick_seconds"] % 2 for server in servers(play).values()),
            "sweeps at every second again",
            meanwhile=play.step,
        )
        assert time.monotonic() - began < 15
        assert wrong(play) == []
    finally:
        closed(play)
