import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from packing.archive import Image, write_archive
from packing.layers import Layer, written


@pytest.fixture
def images(tmp_path: Path) -> list[Image]:
    def layer(name: str) -> Layer:
        content = tmp_path / name
        content.mkdir()
        (content / f"{name}.txt").write_text(name)
        return written(content, tmp_path / f"{name}.tar")

    base = layer("base")
    return [
        Image("localhost/one:1", "amd64", [base, layer("one")], ["/one"], {"title": "one"}),
        Image("localhost/two:1", "arm64", [base, layer("two")], ["/two"]),
    ]


def content_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        assert len(names) == len(set(names))
        return {name: file.read() for name in names if (file := tar.extractfile(name))}


def test_a_shared_layer_is_in_the_archive_once_and_every_name_is_its_digest(
    tmp_path: Path, images: list[Image]
) -> None:
    write_archive(tmp_path / "archive.tar", images)
    content = content_of(tmp_path / "archive.tar")
    assert len([name for name in content if name.endswith(".tar")]) == 3
    for name, data in content.items():
        if name != "manifest.json":
            assert name.partition(".")[0] == hashlib.sha256(data).hexdigest()


def test_the_manifest_leads_to_each_images_layers_in_their_order(tmp_path: Path, images: list[Image]) -> None:
    write_archive(tmp_path / "archive.tar", images)
    content = content_of(tmp_path / "archive.tar")
    manifest = json.loads(content["manifest.json"])
    assert [entry["RepoTags"] for entry in manifest] == [["localhost/one:1"], ["localhost/two:1"]]
    for entry, image in zip(manifest, images, strict=True):
        config: dict[str, Any] = json.loads(content[entry["Config"]])
        digests = [layer.digest for layer in image.layers]
        assert entry["Layers"] == [f"{digest}.tar" for digest in digests]
        assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in digests]
        assert config["architecture"] == image.architecture
        assert config["config"]["Entrypoint"] == image.command
        assert config["config"]["Labels"] == image.labels


def test_programs_run_as_somebody_whom_kubernetes_knows_not_to_be_root(tmp_path: Path, images: list[Image]) -> None:
    write_archive(tmp_path / "archive.tar", images)
    content = content_of(tmp_path / "archive.tar")
    users = [json.loads(content[entry["Config"]])["config"]["User"] for entry in json.loads(content["manifest.json"])]
    assert [[int(part) > 0 for part in user.split(":")] for user in users] == [[True, True], [True, True]]


def test_the_same_images_give_the_same_bytes(tmp_path: Path, images: list[Image]) -> None:
    write_archive(tmp_path / "1.tar", images)
    write_archive(tmp_path / "2.tar", images)
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
