"""What is no good ledger is refused, with what to do, and not touched."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harvest_aggregator import locking
from harvest_aggregator.errors import LedgerError
from harvest_aggregator.ledger import Fold, Ledger, Line, StoredStay
from harvest_aggregator.locking import filesystem_type, refuse_network
from harvest_aggregator.tables import SCHEMA_VERSION

STREAM = ("oss1", b"incarnation-no-1")
RESTORE = r"restore a backup \(harvest-aggregator restore\), or move the file away"
MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 0 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
28 27 0:50 / /srv rw - nfs4 filer:/export rw
29 28 254:3 / /srv/local\\040disk rw - xfs /dev/sdb rw
30 27 0:51 / /net rw - autofs systemd-1 rw
31 30 0:52 / /net rw - fuse.sshfs me@there: rw
a line that makes no sense
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    ledger.open()
    for seq in range(1, 30):
        line = Line("home", "home-OST0000", *STREAM, seq, 0, b"%d: what was read" % seq * 5000)
        ledger.accept([line], {STREAM: seq}, arrived_seconds=5.0)
    stay = StoredStay("home-OST0001", "boot-1", "oss1", 0, b"a snapshot")
    ledger.fold([Fold(filesystem="home", target="home-OST0001", stays=[stay], tally=b"a tally")])
    ledger.close()
    return path


def refused(path: Path, message: str) -> None:
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=message):
        Ledger(path).open()
    assert path.read_bytes() == before


def test_one_that_is_cut_short(path: Path) -> None:
    whole = path.read_bytes()
    for size in (len(whole) - 16384, len(whole) // 2, 16384, 100, 99, 0):
        path.write_bytes(whole[:size])
        refused(path, f"is damaged .*{RESTORE}")


def test_one_with_a_page_overwritten(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[16384 : 16384 + 4000] = b"\xff" * 4000
    path.write_bytes(whole)
    refused(path, f"is damaged .*{RESTORE}")


@pytest.mark.parametrize(
    ("kept", "read"),
    [
        (b"17: what was read", lambda ledger: ledger.lines("home")),
        (b"a tally", lambda ledger: ledger.tallies("home")),
    ],
)
def test_one_with_a_byte_changed_in_what_was_kept(path: Path, kept: bytes, read: object) -> None:
    whole = path.read_bytes()
    assert kept in whole
    path.write_bytes(whole.replace(kept, kept[:-1] + b"!"))
    ledger = Ledger(path)
    ledger.open()

    assert callable(read)
    with pytest.raises(LedgerError, match=f"is not what was written.*{RESTORE}"):
        list(read(ledger))
    ledger.close()


def test_what_is_not_a_database(path: Path) -> None:
    path.write_bytes(b"Dear diary, today nothing was read. " * 100)
    refused(path, f"is not a ledger of Harvest: {RESTORE}")


def test_a_database_of_somebody_else(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE batch (id)")
    refused(path, "is not a ledger of Harvest")


def test_one_of_a_newer_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    newer = f"has version {SCHEMA_VERSION + 1}, and this aggregator reads version {SCHEMA_VERSION}"
    refused(path, f"{newer}: run the aggregator that wrote it")


def test_one_of_which_only_the_wal_is_left(path: Path) -> None:
    path.rename(path.with_name("ledger.db-wal"))

    with pytest.raises(LedgerError, match=r"is missing, but ledger.db-wal, a part of it, is there"):
        Ledger(path).open()
    assert not path.exists()


def test_one_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "ledger.db.new").mkdir()

    with pytest.raises(LedgerError, match="cannot be used now: Is a directory"):
        Ledger(tmp_path / "ledger.db").open()


def test_one_on_a_network_file_system(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking.filesystem_type, "__defaults__", (MOUNTS.replace(" - ext4 ", " - nfs4 "),))
    with pytest.raises(LedgerError, match=r"on a network file system \(nfs4\).*put it on a local\s+disk"):
        Ledger(path).open()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        *(("/home/x", "ext4"), ("/srv", "nfs4"), ("/srv/data", "nfs4"), ("/srvother", "ext4")),
        *(("/srv/local disk/harvest", "xfs"), ("/net/there", "fuse.sshfs")),
    ],
)
def test_the_type_is_that_of_the_mount_which_is_seen_there(place: str, kind: str) -> None:
    assert filesystem_type(Path(place), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "cifs", "smb3", "lustre", "ceph", "gpfs", "beegfs", "9p", "fuse.glusterfs"])
def test_network_file_systems_are_refused(kind: str) -> None:
    with pytest.raises(LedgerError, match=f"network file system \\({kind}\\)"):
        refuse_network(Path("/data/ledger.db"), lambda _: kind)


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.fuse-overlayfs", ""]
)
def test_local_ones_are_not(kind: str) -> None:
    refuse_network(Path("/data/ledger.db"), lambda _: kind)
