"""Servers that join a site, and those that must not: real processes, sockets and TLS."""

import stat
import time
import tomllib
from pathlib import Path

import pytest

from harvest_pki.certificates import load_bundle, load_certificate
from harvest_pki.folders import CaFolder, read_tls
from harvest_pki.identities import identity_of
from support.joining import Joined, Serving, agent, server, started, written
from support.processes import Running, wait_for


@pytest.fixture
def machine(tmp_path: Path) -> Joined:
    return Joined(tmp_path)


def test_a_server_joins_with_a_token_and_its_agent_streams(tmp_path: Path, site: Running, joining: Serving) -> None:
    with started(tmp_path, joining, "oss1") as here:
        tls = read_tls(here.tls)
        assert identity_of(load_certificate(tls.certificate)).text == "harvest:demo:server:oss1"
        assert load_bundle(tls.ca) == CaFolder(site.data / "ca").bundle()
        assert stat.S_IMODE((here.tls / "tls.key").stat().st_mode) == 0o600
        assert stat.S_IMODE(here.config.stat().st_mode) == 0o640
        config = tomllib.loads(here.config.read_text())
        assert config["join"] == {"address": joining.address}
        assert [(one["address"], one["server_name"]) for one in config["uplink"]] == [
            (site.address, "main.demo.harvest")
        ]
        wait_for(lambda: server(site, "oss1")["connected"], "the server to be connected")
        here.show(a=5)
        wait_for(lambda: written(site) == 5, "what the job wrote")
        left = sorted(path.name for path in here.state.iterdir() if path.name != "spool")
        assert left == sorted(["tls", str(here.tls.readlink())])


def test_what_is_there_is_replaced_by_force_only(machine: Joined, joining: Serving) -> None:
    first, second, third, fourth = joining.tokens("oss2", "oss2", "oss2", "oss2")
    said = machine.join(joining.address, first)
    assert said.returncode == 0, said.stderr
    assert "oss2 has joined site demo" in said.stdout
    serial = machine.serial

    again = machine.join(joining.address, second)
    assert (again.returncode, "is there already: --force replaces it" in again.stderr) == (2, True)
    assert machine.serial == serial
    with machine.config.open("a") as config:
        config.write("\n[lustre]\nfilesystems = []\n")
    own = machine.config.read_text()
    assert machine.join(joining.address, second, "--force").returncode == 0
    assert machine.serial != serial
    assert machine.config.read_text() == own  # it leads to the same aggregators: what else it says is kept
    machine.config.write_text("mine")
    assert machine.join(joining.address, third, "--force").returncode == 0
    assert machine.config.with_name("agent.toml.old").read_text() == "mine"

    serial = machine.serial
    refused = machine.join(joining.address, third, "--force")
    assert (refused.returncode, machine.serial) == (2, serial)
    machine.tls.rename(machine.state / "mine")
    machine.tls.mkdir()
    refused = machine.join(joining.address, fourth, "--force")
    assert (refused.returncode, "is not of `harvest-agent join`" in refused.stderr) == (2, True)


def test_a_token_is_good_once_for_its_server_and_a_short_time(machine: Joined, joining: Serving) -> None:
    used, of_another, expired = *joining.tokens("oss3", "oss4"), *joining.tokens("oss3", lifetime="1s")
    end = time.time() + 1
    assert machine.join(joining.address, used).returncode == 0
    forged = of_another.replace(":oss4:", ":oss3:")
    unknown = used.replace(used.split(":")[3], "x" * 32)
    wait_for(lambda: time.time() > end, "the token's end")
    for token, why in (
        (used, "was used already"),
        (expired, "expired at"),
        (forged, "is for server oss4, not for oss3"),
        (unknown, "is not known here"),
    ):
        other = Joined(machine.folder / "other")
        ran = other.join(joining.address, token)
        assert (ran.returncode, why in ran.stderr) == (2, True), ran.stderr
        assert token.split(":")[3] not in ran.stderr
        assert why in joining.events("joining was refused")[-1]["reason"]
        assert not other.config.exists()
        assert list(other.state.iterdir()) == []
    assert not any(token.split(":")[3] in joining.log.read_text() for token in (used, of_another, expired))


def test_a_server_that_is_not_listed_cannot_join(machine: Joined, joining: Serving) -> None:
    ran = machine.join(joining.address, *joining.tokens("oss9"))
    assert (ran.returncode, "oss9 is not listed in site demo" in ran.stderr) == (2, True)


def test_tokens_are_made_for_many_servers_at_once_and_may_be_checked(site: Running, joining: Serving) -> None:
    made = joining.tokens("oss[1-3]", "oss4")
    assert [token.split(":")[1:3] for token in made] == [["demo", f"oss{number}"] for number in range(1, 5)]
    assert len(set(made)) == 4
    with pytest.raises(Exception, match="exit status 2"):
        joining.ca("token", "--site", str(site.site), "oss[1-5]")


def test_what_is_wrong_with_the_command_is_told_and_no_token_in_it(machine: Joined, tmp_path: Path) -> None:
    token = f"harvest1:demo:oss1:{'s' * 32}:{'0' * 64}"
    for words, why in (
        (("join", "127.0.0.1"), "give the token"),
        (("join", "127.0.0.1", "--token", "x"), "this is no token"),
        (("join", "http://x", "--token", token), "is no address"),
        (("join", "127.0.0.1", "--token-file", str(tmp_path / "none")), "cannot read"),
    ):
        ran = agent(*words, "--config", str(machine.config), "--state", str(machine.state))
        assert (ran.returncode, why in ran.stderr, "s" * 32 in ran.stderr) == (2, True, False), ran.stderr
