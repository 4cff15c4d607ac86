"""One server, several names: one after the other it may have them, at once it may not."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from alive.scenes import closed, opened, run, wrong
from demo.installation import Installation
from demo.play import settings
from demo.processes import free_port
from harvest_pki.folders import CaFolder

NEW = "oss1-renamed"


def is_listed(here: Installation, name: str) -> bool:
    return any(server["name"] == name and server["listed"] for server in here.get("/api/v1/servers")["servers"])


def test_an_agent_that_comes_back_under_another_name_changes_no_total(tmp_path: Path) -> None:
    """Its spool, which it sends anew under that name, changes none either. This server tells no start_time."""
    play = opened(tmp_path, seconds=12, simulated=replace(settings(event_seconds=0), cleanup_seconds=60))
    here = play.installation
    try:

        def rename() -> None:
            play.kill("oss1", for_seconds=math.inf)
            ca = CaFolder(here.data / "ca")
            ca.write_agent(here.data / "agents/oss1", NEW, now=datetime.now(UTC).replace(microsecond=0))
            here.write_site({"scratch": ("scratch", [NEW, *(name for name in here.servers if name != "oss1")])}, 1)
            here.wait_for(lambda: is_listed(here, NEW), "the site to be read", meanwhile=play.step)
            play.kill("oss1", for_seconds=0)  # that is, it comes back now

        run(play, (4.0, rename))

        assert wrong(play) == []
        targets = here.get("/api/v1/targets")["targets"]
        assert {target["server"] for target in targets if target["server"].startswith("oss1")} == {NEW}
        assert not any(target["unplaced_reads"] for target in targets)
    finally:
        closed(play)


def test_a_second_agent_on_a_server_is_refused_with_what_it_has_spooled(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=12, simulated=replace(settings(event_seconds=0), cleanup_seconds=60))
    here = play.installation
    config = tmp_path / "second.toml"
    second = here.program("second", ["harvest-agent", "run", "--config", str(config)])
    (tmp_path / "second-spool").mkdir()

    def configure(port: int) -> None:
        text = here.agent_config("oss1", port=port).replace(str(here.spool("oss1")), str(tmp_path / "second-spool"))
        config.write_text(text.replace(str(here.data / "agents/oss1"), str(tmp_path / "second-tls")))

    def spooled() -> bool:
        return "problem text=" in second.log.read_text()  # after its first sweep: nobody listens

    def begin() -> None:
        ca = CaFolder(here.data / "ca")
        ca.write_agent(tmp_path / "second-tls", NEW, now=datetime.now(UTC).replace(microsecond=0))
        here.write_site({"scratch": ("scratch", [NEW, *here.servers])}, 1)
        configure(free_port())
        second.start()

    def connect() -> None:
        here.wait_for(
            lambda: spooled() and is_listed(here, NEW), "sweeps of the second agent", 120, meanwhile=play.step
        )
        second.stop()
        configure(here.grpc_port)
        second.start()

    try:
        run(play, (2.0, begin), (6.0, connect))
        refused = "is reported by agent oss1 already: run one agent on each server"
        here.wait_for(lambda: refused in second.log.read_text(), "the second agent to be refused", meanwhile=play.step)
        second.stop()
        here.write_site({"scratch": ("scratch", here.servers)}, 1)

        assert refused in here.aggregator.log.read_text()
        assert wrong(play) == []
        assert not any(target["unplaced_reads"] for target in here.get("/api/v1/targets")["targets"])
    finally:
        second.kill()
        closed(play)
