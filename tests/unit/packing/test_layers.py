import os
import tarfile
from pathlib import Path

from packing.layers import USER, written


def folder(parent: Path) -> Path:
    made = parent / "content"
    (made / "usr/bin").mkdir(parents=True)
    (made / "usr/bin/program").write_text("#!/usr/bin/python3\n")
    (made / "usr/bin/program").chmod(0o700)
    (made / "usr/bin/link").symlink_to("program")
    (made / "tmp").mkdir()
    (made / "etc").mkdir()
    (made / "etc/passwd").write_text("root:x:0:0::/:/\n")
    (made / "var/lib/state").mkdir(parents=True)
    return made


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "one"), folder(tmp_path / "other")
    os.utime(other / "etc/passwd", (1, 1))
    (other / "etc/passwd").chmod(0o600)
    first, second = written(one, tmp_path / "1.tar"), written(other, tmp_path / "2.tar")
    assert first.path.read_bytes() == second.path.read_bytes()
    assert (first.digest, first.size_bytes) == (second.digest, second.size_bytes)


def test_other_content_gives_another_digest(tmp_path: Path) -> None:
    content = folder(tmp_path)
    before = written(content, tmp_path / "1.tar")
    (content / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    assert written(content, tmp_path / "2.tar").digest != before.digest


def test_all_can_read_it_and_only_root_can_write_but_for_what_is_the_users(tmp_path: Path) -> None:
    layer = written(folder(tmp_path), tmp_path / "layer.tar", of_the_user=["var/lib/state"])
    with tarfile.open(layer.path) as tar:
        entries = {entry.name: (entry.mode, entry.uid, entry.gid) for entry in tar if not entry.issym()}
    assert entries == {
        "etc": (0o755, 0, 0),
        "etc/passwd": (0o644, 0, 0),
        "tmp": (0o1777, 0, 0),
        "usr": (0o755, 0, 0),
        "usr/bin": (0o755, 0, 0),
        "usr/bin/program": (0o755, 0, 0),
        "var": (0o755, 0, 0),
        "var/lib": (0o755, 0, 0),
        "var/lib/state": (0o755, USER, USER),
    }
