"""What a site's file says about who may join, and where aggregators are."""

from datetime import timedelta
from pathlib import Path

import pytest

from harvest_aggregator import joining
from harvest_aggregator.joining import SiteDoor, new_tokens, parse_uplinks
from harvest_pki.errors import PkiError
from harvest_pki.folders import CaFolder
from harvest_pki.joining import Uplink
from harvest_pki.joining_folders import tokens_of
from harvest_pki.tokens import digest
from harvest_site.loading import load
from harvest_site.model import Site
from unit.pki.making import DAY, NOW, authority

CA = authority()
SITE = """
filesystems:
  - {name: home, servers: ["oss[1-2]"]}
  - {name: work, servers: [oss3]}
certificates: {denySerials: ["0a"], agentLifetime: 30d}
"""
SPLIT = "aggregators: [{name: a, filesystems: [home]}, {name: b, filesystems: [work]}]\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "site.yaml").write_text(SITE)
    return tmp_path / "site.yaml"


def test_the_site_says_who_may_join_and_for_how_long(path: Path) -> None:
    door = SiteDoor(path, {}, None)("example", (CA.certificate,))
    assert door.servers == {"oss1", "oss2", "oss3"}
    assert list(door.denied_serials) == [10]
    assert door.lifetime == 30 * DAY
    assert door.uplinks["oss1"] == (Uplink(server_name="main.example.harvest"),)
    door = SiteDoor(path, {"": "h:1"}, timedelta(seconds=9))("example", (CA.certificate,))
    assert door.lifetime == timedelta(seconds=9)
    assert door.uplinks["oss3"] == (Uplink(server_name="main.example.harvest", address="h:1"),)


def test_a_change_of_the_site_counts_at_once_and_a_broken_one_lets_nobody_in(path: Path) -> None:
    door = SiteDoor(path, {}, None)
    assert "oss3" in door("example", ()).servers
    path.write_text(SITE.replace("oss3", "oss4"))
    assert "oss3" not in door("example", ()).servers
    path.write_text("filesystems: 7")
    with pytest.raises(PkiError, match=r"site\.yaml"):
        door("example", ())


def test_who_asks_again_and_again_costs_the_site_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for the CAs: what servers are told, perhaps thousands, is put together once."""
    reads: list[Path] = []

    def read(path: Path) -> Site:
        reads.append(path)
        return load(path)

    monkeypatch.setattr(joining, "load", read)
    door = SiteDoor(path, {}, None)
    for _ in range(1000):
        assert door("example", (CA.certificate,)).trusted == (CA.certificate,)
    assert reads == [path]
    both = authority().certificate, CA.certificate  # a rotation
    assert door("example", both).trusted == both


def test_each_of_several_aggregators_needs_an_address(path: Path) -> None:
    path.write_text(SITE + SPLIT)
    with pytest.raises(PkiError, match="say --uplink"):
        SiteDoor(path, {"a": "h:1"}, None)("example", ())
    with pytest.raises(PkiError, match="there is no aggregator c"):
        SiteDoor(path, {"a": "h:1", "b": "h:2", "c": "h:3"}, None)("example", ())
    uplinks = SiteDoor(path, {"a": "h:1", "b": "h:2"}, None)("example", ()).uplinks
    assert uplinks["oss1"] == (Uplink(server_name="a.example.harvest", address="h:1"),)
    assert uplinks["oss3"] == (Uplink(server_name="b.example.harvest", address="h:2"),)


def test_the_ca_of_another_site_is_refused(path: Path) -> None:
    path.write_text(
        "apiVersion: lustreharvest.dev/v1alpha1\nkind: HarvestSite\nmetadata: {name: other}\n"
        "spec: {filesystems: [{name: home, servers: [oss1]}]}\n"
    )
    with pytest.raises(PkiError, match="is site other, and the CA is that of site example"):
        SiteDoor(path, {}, None)("example", ())


def test_uplinks() -> None:
    assert parse_uplinks(["h:1", "a=[fd00::1]:2"]) == {"": "h:1", "a": "[fd00::1]:2"}
    for text in ("h", "a=", "a=h", "A=h:1", "h:1 "):
        with pytest.raises(PkiError, match="is no address"):
            parse_uplinks([text])


def test_tokens_name_the_ca_and_are_known_again(tmp_path: Path) -> None:
    ca = CaFolder(tmp_path / "ca")
    ca.create(CA)
    made = new_tokens(ca, ["oss1", "oss2"], now=NOW, lifetime=DAY)
    assert [token.server for token in made] == ["oss1", "oss2"]
    for token in made:
        entry = tokens_of(ca).find(digest(token.secret))
        assert entry is not None
        assert (entry.server, entry.expires) == (token.server, NOW + DAY)
    with pytest.raises(PkiError, match="cannot be a server's name"):
        new_tokens(ca, ["oss 1"], now=NOW, lifetime=DAY)
