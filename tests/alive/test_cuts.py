"""The network is cut for longer than an eviction interval, and failovers happen meanwhile: totals stay exact."""

import shutil
from pathlib import Path

from alive.proxy import Proxy
from alive.scenes import closed, opened, run, wrong
from demo.play import CLEANUP_SECONDS, Play, settings


def partition(play: Play, server: str) -> Proxy:
    """Let one agent reach the aggregator through a wire that can be cut."""
    proxy = Proxy(play.installation.grpc_port)
    play.kill(server, for_seconds=0)
    config = play.installation.folder / "agents" / server / "agent.toml"
    config.write_text(play.installation.agent_config(server, port=proxy.port))
    return proxy


def test_a_cut_longer_than_an_eviction_interval_loses_nothing(tmp_path: Path) -> None:
    play = opened(tmp_path, seconds=18)
    proxies = [partition(play, server) for server in ("oss1", "mds1")]
    try:
        mended = 4.0 + 2.5 * CLEANUP_SECONDS
        acts = [(at, act) for proxy in proxies for at, act in ((4.0, proxy.cut), (mended, proxy.mend))]
        run(play, *acts)

        assert play.live.site.truth.events["evicted"] > 0
        assert wrong(play) == []
    finally:
        closed(play)
        for proxy in proxies:
            proxy.close()


def test_a_pair_fails_over_and_back_while_one_agent_is_partitioned(tmp_path: Path) -> None:
    """What the old server's agent holds comes long after its partner's data."""
    play = opened(tmp_path, seconds=24, simulated=settings(event_seconds=2.0))
    proxy = partition(play, "oss2")
    try:
        run(play, (4.0, proxy.cut), (20.0, proxy.mend))

        happened = play.live.site.truth.events
        assert happened["failover"] > 0
        assert happened["failback"] > 0
        assert wrong(play) == []
    finally:
        closed(play)
        proxy.close()


def test_an_agent_that_lost_its_state_folder_goes_on(tmp_path: Path) -> None:
    """What was acknowledged stays exact, and here that was everything."""
    play = opened(tmp_path, seconds=15)
    try:

        def lose() -> None:
            play.kill("oss2", for_seconds=0)
            shutil.rmtree(play.installation.spool("oss2"))

        run(play, (7.0, lose))

        assert wrong(play) == []
    finally:
        closed(play)
