"""The lively site that demo and scenes are played on."""

from random import Random

from harvest_sim.demo import build_player, build_site
from harvest_sim.settings import Settings
from harvest_sim.slurm import Queue


def test_each_server_has_the_next_as_partner_and_one_that_is_alone_has_none() -> None:
    settings = Settings(oss={"a": "2.12.9", "b": "2.15.4"}, mds={"m": "2.16.1"}, provable=True)
    site = build_site(settings, Random(1), epoch_seconds=0)
    servers = {name: target.servers for name, target in site.targets.items()}
    assert {tuple(pair) for name, pair in servers.items() if "OST" in name} == {("a", "b"), ("b", "a")}
    assert [list(pair) for name, pair in servers.items() if "MDT" in name] == [["m"]]

    alone = build_site(Settings(oss={"a": "2.12.9"}, mds={"m": "2.16.1"}, provable=True), Random(1), epoch_seconds=0)
    assert {tuple(target.servers) for target in alone.targets.values()} == {("a",), ("m",)}


def test_a_site_of_old_servers_alone_plays_too() -> None:
    settings = Settings(oss={"a": "2.12.9"}, mds={"m": "2.16.1"}, provable=True)
    site = build_site(settings, Random(1), epoch_seconds=0)
    player = build_player(settings, site, Random(1), seconds=20, queue=Queue())
    player.play_until(20 * 10**9)
    assert site.truth.lives
