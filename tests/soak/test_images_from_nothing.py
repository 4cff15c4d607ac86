from pathlib import Path

import pytest

from packing.programs import pack


def test_images_made_twice_from_nothing_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's and Python's packages are fetched twice: this compares what is made of them, on one day."""
    for name in ("one", "other"):
        monkeypatch.setenv("HARVEST_CACHE", str(tmp_path / name))
        pack(tmp_path / f"{name}.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "other.tar").read_bytes()
