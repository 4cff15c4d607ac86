"""The site file changes while agents are connected."""

from datetime import UTC, datetime
from itertools import pairwise
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
            log = here.agents["oss2"].log
            refused = "refused: server oss2 is not listed"
            here.wait_for(lambda: refused in log.read_text(), "the agent to be refused", meanwhile=play.step)
            here.wait_for(lambda: not servers(play)["oss2"]["connected"], "it to be away", meanwhile=play.step)
            seen.update(servers(play)["oss2"])

        def list_again() -> None:
            write_site(play)
            # it would come by itself within a minute or so; a new certificate lets it try at once
            ca = CaFolder(here.data / "ca")
            here.wait_for(lambda: servers(play)["oss2"]["listed"], "the site to be read", meanwhile=play.step)
            ca.write_agent(here.data / "agents/oss2", "oss2", now=datetime.now(UTC).replace(microsecond=0))

        run(play, (3.0, lambda: write_site(play, without="oss2")), (8.0, look), (10.0, list_again))

        assert (seen["listed"], seen["connected"]) == (False, False)
        assert wrong(play) == []
        assert servers(play)["oss2"]["connected"]
        begun_anew = [
            line for line in here.agents["oss2"].log.read_text().splitlines() if "incarnation reason=" in line
        ]
        assert [line for line in begun_anew if "the server was booted" not in line] == [], "it goes on where it was"
    finally:
        closed(play)


def test_agents_follow_a_changed_interval(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=10, simulated=settings(event_seconds=0))
    ticks: dict[str, list[int]] = {name: [] for name in play.installation.servers}
    try:

        def follow(seconds: int, following: set[str]) -> bool:
            """Look at the last ticks; tell whether on every server, by now, some in a row were so far apart."""
            for name, server in servers(play).items():
                seen = ticks[name]
                if seen[-1:] != [server["last_tick_seconds"]]:
                    seen.append(server["last_tick_seconds"])
                steps = [after - before for before, after in pairwise(seen[-5:])]
                if steps == [seconds] * 4 and not seen[-1] % seconds:
                    following.add(name)
            return following == ticks.keys()

        def change(seconds: int) -> None:
            write_site(play, interval_seconds=seconds)
            following: set[str] = set()
            play.installation.wait_for(
                lambda: follow(seconds, following), f"a sweep of every server each {seconds} s", meanwhile=play.step
            )

        run(play, (3.0, lambda: change(2)), (6.0, lambda: change(1)))

        assert wrong(play) == []
    finally:
        closed(play)
