from pathlib import Path

import pytest

from harvest_agent.tree import Tree
from harvest_core.lustre.names import (
    Nid,
    Target,
    is_server,
    of_filesystem,
    parse_nid,
    parse_number,
    parse_target,
    parse_uuids,
    parse_version,
)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("home-OST0000", Target("home", "OST", 0)),
        ("home-MDT001f", Target("home", "MDT", 31)),
        ("my-home-OSTffff", Target("my-home", "OST", 65535)),
        ("a-OST0000-MDT0001", Target("a-OST0000", "MDT", 1)),
        ("OST0001", None),
        ("-OST0001", None),
        ("home-OST001", None),
        ("home-OST00001", None),
        ("home-OST00fg", None),
        ("home-OST0000-osc-MDT0000x", None),
        ("home-MGS", None),
        ("", None),
    ],
)
def test_a_target_is_taken_apart_or_refused(name: str, target: Target | None) -> None:
    assert parse_target(name) == target


@pytest.mark.parametrize("other", ["home2-OST0000", "my-home-OST0000", "hom-OST0000", "Home-OST0000", "home"])
def test_home_never_takes_the_targets_of_another_file_system(other: str) -> None:
    assert not of_filesystem(other, "home")


def test_home_takes_its_own_targets() -> None:
    assert of_filesystem("home-OST0000", "home")
    assert of_filesystem("home-MDT0001", "home")


def test_home_finds_only_its_own_targets_in_a_tree(tmp_path: Path) -> None:
    for name in ("home-OST0000", "home2-OST0000", "my-home-OST0000"):
        folder = tmp_path / "proc/fs/lustre/obdfilter" / name
        folder.mkdir(parents=True)
        (folder / "job_stats").write_bytes(b"job_stats:\n")
    tree = Tree(str(tmp_path))
    assert [target.name for target in tree.targets(["home"])] == ["home-OST0000"]
    assert [target.name for target in tree.targets(["home2", "my-home"])] == ["home2-OST0000", "my-home-OST0000"]
    assert len(tree.targets()) == 3


@pytest.mark.parametrize(
    ("text", "nid"),
    [
        ("10.0.0.1@tcp", Nid("10.0.0.1", "tcp")),
        ("10.0.0.1@tcp0", Nid("10.0.0.1", "tcp")),
        ("10.0.0.1@tcp3", Nid("10.0.0.1", "tcp3")),
        ("172.16.1.25@o2ib", Nid("172.16.1.25", "o2ib")),
        ("172.16.1.25@o2ib2", Nid("172.16.1.25", "o2ib2")),
        ("172.16.1.25@o2ib10", Nid("172.16.1.25", "o2ib10")),
        ("fd00:172:16:11::5@tcp", Nid("fd00:172:16:11::5", "tcp")),
        ("123@kfi", Nid("123", "kfi")),
        ("4077@gni1", Nid("4077", "gni1")),
        ("0@lo", Nid("0", "lo")),
        ("1f@<20:3>", Nid("1f", "<20:3>")),
        ("clear", None),
        ("@tcp", None),
        ("10.0.0.1@", None),
        ("10.0.0.1", None),
        ("a@b@tcp", None),
        ("1f@<20>", None),
        ("10.0.0.1@TCP", None),
        ("", None),
    ],
)
def test_every_spelling_of_a_network_address_is_read_and_nothing_else(text: str, nid: Nid | None) -> None:
    assert parse_nid(text) == nid


def test_only_the_server_itself_is_loopback() -> None:
    assert Nid("0", "lo").is_loopback
    assert not Nid("10.0.0.1", "tcp").is_loopback


def test_a_nid_has_one_connection_per_line_and_none_while_nobody_is_connected() -> None:
    assert parse_uuids(b"") == ()
    assert parse_uuids(b"\n") == ()
    assert parse_uuids(b"0c5ad3b1-0000-4000-8000-000000000001\nfs-MDT0000-lwp-OST0000_UUID\n") == (
        b"0c5ad3b1-0000-4000-8000-000000000001",
        b"fs-MDT0000-lwp-OST0000_UUID",
    )


@pytest.mark.parametrize(
    ("nid", "uuids", "server"),
    [
        ("0@lo", (), True),
        ("0@lo", (b"0c5ad3b1-0000-4000-8000-000000000001",), True),
        ("10.0.0.1@tcp", (b"fs-MDT0000-mdtlov_UUID",), True),
        ("10.0.0.1@tcp", (b"fs-MDT0000-lwp-OST0000_UUID", b"fs-OST0000-osp-MDT0000_UUID"), True),
        ("10.0.0.1@tcp", (b"0c5ad3b1-0000-4000-8000-000000000001",), False),
        ("10.0.0.1@tcp", (b"fs-MDT0000-mdtlov_UUID", b"0c5ad3b1-0000-4000-8000-000000000001"), False),
        ("10.0.0.1@tcp", (), False),
    ],
)
def test_servers_are_known_by_their_connections(nid: str, uuids: tuple[bytes, ...], *, server: bool) -> None:
    assert is_server(nid, uuids) is server


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.15.8", (2, 15, 8)),
        ("2.7", (2, 7)),
        ("lustre: 2.12.9\nkernel: patchless_client\nbuild:  2.12.9\n", (2, 12, 9)),
        ("2.14.0_ddn164-1-gabcdef0", (2, 14, 0)),
        ("2.9.58_86_g2383a62", (2, 9, 58)),
        ("2.5.37.7", (2, 5, 37, 7)),
        ("unknown", None),
        ("", None),
    ],
)
def test_versions_are_read_as_comparable_numbers(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("text", "number"), [(b"12\n", 12), (b"0", 0), (b"", None), (b"-1\n", None), (b"1 2\n", None), (b"0x1f\n", None)]
)
def test_a_file_of_one_number_is_that_number_or_nothing(text: bytes, number: int | None) -> None:
    assert parse_number(text) == number


def test_numbers_of_absurd_length_are_no_names() -> None:
    """Python refuses to convert them: the parsers must not get that far."""
    assert parse_nid("1@tcp" + "1" * 5000) is None
    assert parse_version("2." + "1" * 5000) is not None
