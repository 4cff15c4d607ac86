"""The network is cut for longer than an eviction interval, and failovers happen meanwhile: totals stay exact."""

from pathlib import Path

import pytest

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
    play = opened(tmp_path, seconds=240, simulated=settings(event_seconds=2.0))
    proxy = partition(play, "oss2")
    try:
        happened = play.live.site.truth.events
        run(play, (4.0, proxy.cut), (20.0, proxy.mend), enough=lambda: happened["failover"] and happened["failback"])

        assert happened["failover"] > 0
        assert happened["failback"] > 0
        assert wrong(play) == []
    finally:
        closed(play)
        proxy.close()


def last_tick(play: Play, server: str) -> int:
    """Return the tick of the last sweep of a server that is acknowledged."""
    servers = play.installation.get("/api/v1/servers")["servers"]
    return next(int(one["last_tick_seconds"]) for one in servers if one["name"] == server)


def test_an_agent_that_lost_its_state_folder_goes_on(tmp_path: Path) -> None:
    """What was acknowledged stays exact, and here that was everything."""
    play = opened(tmp_path, seconds=15)
    try:

        def lose() -> None:
            play.lose_state("oss2", acknowledged_tick=last_tick(play, "oss2"))

        run(play, (7.0, lose))

        assert wrong(play) == []
    finally:
        closed(play)


@pytest.mark.parametrize("server", ["oss1", "oss2"])
def test_a_lost_state_folder_costs_only_what_nobody_else_shows_any_more(tmp_path: Path, server: str) -> None:
    """What was acknowledged stays exact, records that are still there are whole again, of the rest it is said."""
    play = opened(tmp_path, seconds=24)
    proxy = partition(play, server)
    acknowledged: list[int] = []
    cut_ns: list[int] = []
    try:

        def cut() -> None:
            proxy.cut()
            cut_ns.append(play.live.site.now_ns)
            acknowledged.append(last_tick(play, server))

        def is_there_something_to_lose() -> bool:
            """Tell whether a record came and went behind the cut."""
            return any(
                life.is_over and life.created_ns > cut_ns[0]
                for life in play.live.site.truth.select()
                if life.scope.server == server
            )

        def lose() -> None:
            play.installation.wait_for(is_there_something_to_lose, "a record to end unseen", meanwhile=play.step)
            play.lose_state(server, acknowledged_tick=acknowledged[0])
            proxy.mend()

        run(play, (6.0, cut), (6.0 + 2.5 * CLEANUP_SECONDS, lose))

        assert wrong(play) == []
        lost = [life for life in play.live.site.truth.unshown() if life.scope.server == server and life.is_over]
        assert lost
        targets = {one["name"]: one for one in play.installation.get("/api/v1/targets")["targets"]}
        assert [life.scope.target for life in lost if not targets[life.scope.target]["unseen_seconds"]] == []
        complete = {job["job"].encode(errors="surrogateescape") for job in play.installation.jobs() if job["complete"]}
        assert [life.readable_key for life in lost if life.shown and life.readable_key in complete] == []
        print(
            f"\n{len(lost)} records of {server} were not shown to the end, {sum(not life.shown for life in lost)} never"
        )
    finally:
        closed(play)
        proxy.close()
