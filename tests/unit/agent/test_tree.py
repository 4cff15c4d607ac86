"""Finding Lustre's files wherever a version keeps them."""

import os
from pathlib import Path

import pytest

from harvest_agent.tree import SMALL_BYTES, Tree, open_regular, read_number, read_small
from support.records import put


def names(tree: Tree, *filesystems: str) -> list[tuple[str, str]]:
    return [(target.source, target.name) for target in tree.targets(filesystems)]


def test_finds_osts_and_mdts_and_no_plain_files(tmp_path: Path) -> None:
    put(tmp_path, "proc/fs/lustre/obdfilter/home-OST0001/job_stats", "")
    put(tmp_path, "proc/fs/lustre/mdt/home-MDT0000/job_stats", "")
    put(tmp_path, "proc/fs/lustre/obdfilter/num_refs", "2\n")

    assert names(Tree(str(tmp_path))) == [("mdt", "home-MDT0000"), ("obdfilter", "home-OST0001")]


def test_services_of_a_metadata_server_are_no_targets(tmp_path: Path) -> None:
    """Since there are job_stats, metadata targets are below mdt; what is below mds are request queues."""
    put(tmp_path, "proc/fs/lustre/mds/MDS/mdt/stats", "")
    put(tmp_path, "proc/fs/lustre/mdt/home-MDT0000/job_stats", "")

    assert names(Tree(str(tmp_path)), "home") == [("mdt", "home-MDT0000")]


def test_home_never_takes_home2(tmp_path: Path) -> None:
    for fs in ("home", "home2", "home-OST0000"):
        put(tmp_path, f"proc/fs/lustre/obdfilter/{fs}-OST0000/job_stats", "")

    assert names(Tree(str(tmp_path)), "home") == [("obdfilter", "home-OST0000")]
    assert names(Tree(str(tmp_path)), "home2", "home") == [
        ("obdfilter", "home-OST0000"),
        ("obdfilter", "home2-OST0000"),
    ]


def test_one_target_may_be_spread_over_proc_sys_and_debugfs(tmp_path: Path) -> None:
    """So it is on 2.17: job_stats in /proc, settings in /sys, stats and exports in debugfs."""
    put(tmp_path, "proc/fs/lustre/obdfilter/fs-OST0000/job_stats", "")
    put(tmp_path, "sys/fs/lustre/obdfilter/fs-OST0000/instance", "5\n")
    put(tmp_path, "sys/kernel/debug/lustre/obdfilter/fs-OST0000/stats", "")
    put(tmp_path, "sys/kernel/debug/lustre/obdfilter/fs-OST0000/exports/10.0.0.1@tcp/stats", "")

    (target,) = Tree(str(tmp_path)).targets()

    assert read_number(target.file("instance")) == 5
    assert (target.file("stats") or "").endswith("debug/lustre/obdfilter/fs-OST0000/stats")
    assert [nid for nid, _ in target.exports()] == ["10.0.0.1@tcp"]
    assert target.file("brw_stats") is None


def test_a_list_of_exports_has_nids_only(tmp_path: Path) -> None:
    put(tmp_path, "proc/fs/lustre/obdfilter/fs-OST0000/job_stats", "")
    for nid in ("0@lo", "fd00:172:16:11::5@tcp", "172.16.1.25@o2ib2", "123@kfi"):
        put(tmp_path, f"proc/fs/lustre/obdfilter/fs-OST0000/exports/{nid}/stats", "")
    put(tmp_path, "proc/fs/lustre/obdfilter/fs-OST0000/exports/clear", "")

    (target,) = Tree(str(tmp_path)).targets()

    assert [nid for nid, _ in target.exports()] == ["0@lo", "123@kfi", "172.16.1.25@o2ib2", "fd00:172:16:11::5@tcp"]


def test_exports_that_cannot_be_listed_are_not_gone(tmp_path: Path) -> None:
    put(tmp_path, "proc/fs/lustre/obdfilter/fs-OST0000/job_stats", "")
    (target,) = Tree(str(tmp_path)).targets()
    exports = tmp_path / "proc/fs/lustre/obdfilter/fs-OST0000/exports"

    assert list(target.exports(or_fail=True)) == []
    assert target.is_gone(str(exports))
    exports.symlink_to("exports")  # to itself: any error but that nothing is there
    assert list(target.exports()) == []
    assert not target.is_gone(str(exports / "10.0.0.1@tcp/stats"))
    with pytest.raises(OSError, match="exports"):
        list(target.exports(or_fail=True))


def test_a_client_that_shows_in_two_places_is_one(tmp_path: Path) -> None:
    for place in ("proc/fs/lustre", "sys/kernel/debug/lustre"):
        put(tmp_path, f"{place}/obdfilter/fs-OST0000/exports/10.0.0.1@tcp/stats", "")

    (target,) = Tree(str(tmp_path)).targets()

    assert [(nid, os.path.relpath(folder, tmp_path)) for nid, folder in target.exports()] == [
        ("10.0.0.1@tcp", "proc/fs/lustre/obdfilter/fs-OST0000/exports/10.0.0.1@tcp")
    ]


def test_a_link_that_leads_nowhere_is_no_target(tmp_path: Path) -> None:
    put(tmp_path, "proc/fs/lustre/obdfilter/fs-OST0000/job_stats", "")
    (tmp_path / "proc/fs/lustre/obdfilter/fs-OST0001").symlink_to("fs-OST0001")
    (tmp_path / "proc/fs/lustre/obdfilter/fs-OST0002").symlink_to("gone")
    tree = Tree(str(tmp_path))

    assert names(tree) == [("obdfilter", "fs-OST0000")]
    assert tree.unreadable == {}


def test_settings_are_found_in_old_and_new_places(tmp_path: Path) -> None:
    put(tmp_path, "proc/fs/lustre/jobid_var", "procname_uid\n")
    put(tmp_path, "sys/fs/lustre/version", "2.15.8\n")

    tree = Tree(str(tmp_path))

    assert tree.setting("jobid_var") == "procname_uid"
    assert tree.setting("version") == "2.15.8"
    assert tree.setting("enable_stats_header") is None


def test_what_is_not_there_is_nothing_and_no_error(tmp_path: Path) -> None:
    assert Tree(str(tmp_path)).targets() == []
    assert read_small(str(tmp_path / "gone")) is None
    assert read_small(str(tmp_path)) is None
    assert read_number(None) is None


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """A FIFO would block for ever, a device never end."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    tree = Tree(str(tmp_path))

    for name in ("fifo", "zero"):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(str(tmp_path / name))
        assert tree.read(str(tmp_path / name)) is None
    assert tree.unreadable == dict.fromkeys([str(tmp_path / "fifo"), str(tmp_path / "zero")], "not a regular file")


def test_a_small_file_is_read_to_its_end_though_the_kernel_gives_a_page_at_a_time() -> None:
    text = read_small("/proc/self/maps") or b""

    assert len(text) > 2 * os.sysconf("SC_PAGE_SIZE")
    assert text.split()[-1] == Path("/proc/self/maps").read_bytes().split()[-1]


def test_a_file_that_is_not_small_is_read_up_to_a_bound_in_whole_lines(tmp_path: Path) -> None:
    file = put(tmp_path, "stats", b"12345 7\n" * (SMALL_BYTES // 8 - 1) + b"12345 789\n" + b"more\n")
    tree = Tree(str(tmp_path))

    text = tree.read(str(file)) or b""

    assert len(text) == SMALL_BYTES - 8
    assert text.endswith(b" 7\n")
    assert tree.unreadable == {str(file): f"only its first {SMALL_BYTES} bytes were read"}


@pytest.mark.parametrize("text", ["", "five", "-1", "99999999999999999999"])
def test_a_number_that_makes_no_sense_is_unknown(tmp_path: Path, text: str) -> None:
    assert read_number(str(put(tmp_path, "instance", text))) is None
