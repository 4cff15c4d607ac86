import json
import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from harvest_pki import files
from harvest_pki.certificates import load_bundle
from harvest_pki.errors import PkiError
from harvest_pki.folders import CaFolder, newest, read_tls
from harvest_pki.identities import Identity, Kind
from unit.pki.making import DAY, KEY, NOW, authority

OLD, NEW = authority(), authority()
OSS1 = Identity(site="example", kind=Kind.SERVER, name="oss1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a CA once: waiting for the disk takes most of a test's time."""
    folder = tmp_path_factory.mktemp("made") / "ca"
    CaFolder(folder).create(OLD)
    return folder


@pytest.fixture
def ca(made: Path, tmp_path: Path) -> CaFolder:
    return CaFolder(shutil.copytree(made, tmp_path / "data/ca"))


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def in_the_way(file: Path) -> Iterator[None]:
    """Let the file not be replaced meanwhile."""
    aside = file.rename(file.parent.parent / "aside")
    file.mkdir()
    yield
    file.rmdir()
    aside.rename(file)


def test_keys_are_for_their_owner_alone(ca: CaFolder, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ca.create(OLD, force=True)
        ca.write_server(tmp_path / "data/tls", "main", now=NOW)
    finally:
        os.umask(before)

    assert (mode(ca.path), mode(tmp_path / "data/tls")) == (0o700, 0o700)
    assert modes(ca.path) == {"ca.crt": 0o644, "ca.key": 0o600, "issued.jsonl": 0o644}
    assert modes(tmp_path / "data/tls") == {"tls.crt": 0o644, "tls.key": 0o600, "ca.crt": 0o644}


@pytest.mark.parametrize("open_mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_read_is_refused_with_the_command_that_mends_it(
    ca: CaFolder, tmp_path: Path, open_mode: int
) -> None:
    ca.write_agent(tmp_path / "oss1", "oss1", now=NOW)
    for path, use in ((ca.path / "ca.key", ca.load), (tmp_path / "oss1/tls.key", lambda: read_tls(tmp_path / "oss1"))):
        path.chmod(open_mode)
        with pytest.raises(PkiError, match=f"others can read the key {path}: chmod 600 {path}"):
            use()
        path.chmod(0o400)
        use()


@pytest.mark.parametrize(
    ("mode", "owner", "reader", "refused"),
    [
        (0o100600, 1000, 1000, False),
        (0o100400, 1000, 1000, False),
        (0o100640, 1000, 1000, True),
        (0o100604, 1000, 1000, True),
        (0o100440, 0, 1000, False),  # as Kubernetes mounts it for a Pod's group
        (0o100640, 0, 1000, False),
        (0o100660, 0, 1000, True),
        (0o100444, 0, 1000, True),
        (0o100640, 0, 0, True),
    ],
)
def test_who_may_read_a_key(mode: int, owner: int, reader: int, refused: bool) -> None:  # noqa: FBT001
    assert files.too_open(mode=mode, owner=owner, reader=reader) is refused


@pytest.mark.parametrize("open_mode", [0o770, 0o702, 0o1777])
def test_a_folder_in_which_others_can_write_is_refused(ca: CaFolder, tmp_path: Path, open_mode: int) -> None:
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(open_mode)
    with pytest.raises(PkiError, match=f"others can write in {out}: choose another folder"):
        ca.write_agent(out, "oss1", now=NOW)
    assert (list(out.iterdir()), ca.issued()) == ([], ())


def test_what_is_written_is_read_again(ca: CaFolder, tmp_path: Path) -> None:
    issued = ca.write_agent(tmp_path / "oss1", "oss1", now=NOW)

    assert ca.load().certificate == OLD.certificate
    assert load_bundle(read_tls(tmp_path / "oss1").certificate) == (issued,)
    assert load_bundle(read_tls(tmp_path / "oss1").ca) == (OLD.certificate,)


def test_a_key_is_not_shown_by_chance(ca: CaFolder, tmp_path: Path) -> None:
    ca.write_agent(tmp_path / "oss1", "oss1", now=NOW)
    assert "PRIVATE" not in f"{read_tls(tmp_path / 'oss1')!r} {ca.load()!r}"


def test_a_ca_is_never_replaced_by_chance(ca: CaFolder) -> None:
    for left in ("issued.jsonl", "ca.key", "ca.crt"):
        with pytest.raises(PkiError, match=r"there is a CA already .*`ca rotate`.*--force"):
            ca.create(NEW)
        assert (ca.path / left).exists()
        (ca.path / left).unlink()
    ca.create(NEW)
    ca.create(OLD, force=True)
    assert ca.load().certificate == OLD.certificate


def test_a_missing_ca_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(PkiError, match=f"there is no CA in {tmp_path}: make one with `ca init`"):
        CaFolder(tmp_path).load()


def test_the_index_remembers_what_was_issued(ca: CaFolder, tmp_path: Path) -> None:
    agent = ca.write_agent(tmp_path / "oss1", "oss1", now=NOW)
    server = ca.write_server(tmp_path / "tls", "main", now=NOW)
    request = ca.issue(OSS1, KEY.public_key(), now=NOW, lifetime=DAY)

    shown = [(entry.serial, entry.kind, entry.name, entry.not_after) for entry in ca.issued()]
    assert shown == [
        (agent.serial_number, Kind.SERVER, "oss1", NOW + 90 * DAY),
        (server.serial_number, Kind.AGGREGATOR, "main", NOW + 365 * DAY),
        (request.serial_number, Kind.SERVER, "oss1", NOW + DAY),
    ]
    assert [entry.serial for entry in newest(ca.issued())] == [request.serial_number, server.serial_number]


def test_the_index_forgets_what_ended_a_month_ago(ca: CaFolder) -> None:
    first = ca.issue(OSS1, KEY.public_key(), now=NOW, lifetime=DAY)
    second = ca.issue(OSS1, KEY.public_key(), now=NOW + 30 * DAY)
    third = ca.issue(OSS1, KEY.public_key(), now=NOW + 31 * DAY)
    assert first.serial_number != second.serial_number
    assert [entry.serial for entry in ca.issued()] == [second.serial_number, third.serial_number]


@pytest.mark.parametrize("line", ["", "{}", "[]", "{", '{"serial": 1}', "\x1b[2J"])
def test_a_broken_index_is_told_with_the_line(ca: CaFolder, line: str) -> None:
    ca.issue(OSS1, KEY.public_key(), now=NOW)
    with (ca.path / "issued.jsonl").open("a") as index:
        index.write(f"{line}\n")
    with pytest.raises(PkiError, match=r"issued.jsonl, line 2 is broken") as told:
        ca.issue(OSS1, KEY.public_key(), now=NOW)
    assert "\x1b" not in str(told.value)


def test_a_ca_without_an_index_begins_one(ca: CaFolder) -> None:
    (ca.path / "issued.jsonl").unlink()
    ca.issue(OSS1, KEY.public_key(), now=NOW)
    assert len(ca.issued()) == 1


def test_commands_at_the_same_time_lose_nothing(ca: CaFolder) -> None:
    names = [f"oss{number}" for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for name in names:
            pool.submit(ca.issue, Identity(site="example", kind=Kind.SERVER, name=name), KEY.public_key(), now=NOW)
    assert sorted(entry.name for entry in ca.issued()) == sorted(names)


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(ca: CaFolder, tmp_path: Path) -> None:
    out = tmp_path / "oss1"
    ca.write_agent(out, "oss1", now=NOW)
    names = set(out.iterdir())
    for file in (out / "ca.crt", out / "tls.key", out / "tls.crt"):
        before = file.read_bytes()
        with in_the_way(file), pytest.raises(PkiError, match=f"cannot write {file}: Is a directory"):
            ca.write_agent(out, "oss1", now=NOW)
        assert (file.read_bytes(), set(out.iterdir())) == (before, names)


def test_a_key_without_its_certificate_is_told_and_mended_by_issuing_again(ca: CaFolder, tmp_path: Path) -> None:
    out = tmp_path / "oss1"
    ca.write_agent(out, "oss1", now=NOW)
    with in_the_way(out / "tls.crt"), pytest.raises(PkiError, match="cannot write"):
        ca.write_agent(out, "oss1", now=NOW)
    with pytest.raises(PkiError, match=r"tls.crt and tls.key do not belong together: issue both again"):
        read_tls(out)
    ca.write_agent(out, "oss1", now=NOW)
    read_tls(out)


def test_a_certificate_is_in_the_index_before_anybody_has_it(ca: CaFolder, tmp_path: Path) -> None:
    out = tmp_path / "oss1"
    ca.write_agent(out, "oss1", now=NOW)
    with in_the_way(out / "ca.crt"), pytest.raises(PkiError, match="cannot write"):
        ca.write_agent(out, "oss1", now=NOW)
    assert len(ca.issued()) == 2


def test_links_are_replaced_and_not_followed(ca: CaFolder, tmp_path: Path) -> None:
    out, precious = tmp_path / "oss1", tmp_path / "precious"
    out.mkdir()
    precious.write_text("mine")
    (out / "tls.key").symlink_to(precious)
    ca.write_agent(out, "oss1", now=NOW)
    assert precious.read_text() == "mine"
    assert not (out / "tls.key").is_symlink()


def test_the_new_ca_issues_and_both_are_trusted(ca: CaFolder, tmp_path: Path) -> None:
    ca.rotate(NEW, now=NOW)
    issued = ca.write_agent(tmp_path / "oss1", "oss1", now=NOW)

    issued.verify_directly_issued_by(NEW.certificate)
    assert load_bundle(read_tls(tmp_path / "oss1").ca) == (NEW.certificate, OLD.certificate)


def test_a_rotation_that_was_cut_short_changes_nothing_and_can_be_repeated(ca: CaFolder) -> None:
    """The bundle is written first, and the key decides."""
    key = (ca.path / "ca.key").read_bytes()
    ca.rotate(NEW, now=NOW)
    files.write(ca.path / "ca.key", key, mode=files.KEY_MODE)  # as if it had not come to it

    ca.issue(OSS1, KEY.public_key(), now=NOW).verify_directly_issued_by(OLD.certificate)
    newer = authority()
    ca.rotate(newer, now=NOW)
    assert ca.load().certificate == newer.certificate
    ca.finish_rotation(now=NOW, force=True)
    assert ca.bundle() == (newer.certificate,)


def test_another_sites_ca_cannot_take_over(ca: CaFolder) -> None:
    with pytest.raises(PkiError, match="the CA of site example; it cannot become that of site other"):
        ca.rotate(authority("other"), now=NOW)


def test_the_old_ca_stays_while_somebody_needs_it(ca: CaFolder) -> None:
    for number in range(7):
        ca.issue(Identity(site="example", kind=Kind.SERVER, name=f"oss{number}"), KEY.public_key(), now=NOW)
    ca.rotate(NEW, now=NOW)
    ca.issue(OSS1, KEY.public_key(), now=NOW)

    with pytest.raises(PkiError, match="still needed by oss0, oss2, oss3, oss4, oss5 and 1 more: issue new"):
        ca.finish_rotation(now=NOW)
    ca.finish_rotation(now=NOW + 90 * DAY)  # all others ended
    assert ca.bundle() == (NEW.certificate,)


def test_the_old_ca_can_be_dropped_by_force(ca: CaFolder) -> None:
    ca.issue(OSS1, KEY.public_key(), now=NOW)
    ca.rotate(NEW, now=NOW)
    ca.finish_rotation(now=NOW, force=True)
    assert ca.bundle() == (NEW.certificate,)


def test_the_index_is_plain_json_without_secrets(ca: CaFolder, tmp_path: Path) -> None:
    ca.write_agent(tmp_path / "oss1", "oss1", now=NOW)
    (line,) = (ca.path / "issued.jsonl").read_text().splitlines()
    assert list(json.loads(line)) == ["serial", "kind", "name", "not_after", "ca"]


def test_what_is_no_folder_is_told(ca: CaFolder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(PkiError, match=f"cannot make the folder {out}: "):
            ca.write_agent(out, "oss1", now=NOW)
    with pytest.raises(PkiError, match=r"cannot read .*tls.crt: No such file"):
        read_tls(tmp_path)
    with pytest.raises(PkiError, match="cannot open the folder"), files.locked(tmp_path / "none"):
        pass
