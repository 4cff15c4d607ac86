"""Several images in one file, as ``docker save`` writes it; a layer that they share is in it once."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packing.layers import USER, Layer


@dataclass(frozen=True)
class Image:
    """What an image is made of, lowest layer first."""

    name: str
    architecture: str
    layers: Sequence[Layer]
    command: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """How much it takes on a node that has none of its layers."""
        return sum(layer.size_bytes for layer in self.layers)


def write_archive(target: Path, images: Sequence[Image]) -> None:
    """Write the images; the same images give the same bytes."""
    begun = target.with_name(f"{target.name}.begun")
    with tarfile.open(begun, "w", format=tarfile.GNU_FORMAT) as tar:
        layers = {layer.digest: layer for image in images for layer in image.layers}
        for digest, layer in sorted(layers.items()):
            entry = tarfile.TarInfo(f"{digest}.tar")
            entry.size = layer.size_bytes
            with layer.path.open("rb") as content:
                tar.addfile(entry, content)
        manifest = []
        for image in images:
            config = _config(image)
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _put(tar, name, config)
            files = [f"{layer.digest}.tar" for layer in image.layers]
            manifest.append({"Config": name, "RepoTags": [image.name], "Layers": files})
        _put(tar, "manifest.json", json.dumps(manifest).encode())
    begun.rename(target)


def _config(image: Image) -> bytes:
    content = {
        "architecture": image.architecture,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",  # when it was made is no part of what it is
        "config": {
            "User": f"{USER}:{USER}",  # numbers: Kubernetes cannot tell whether a name is root
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "Entrypoint": list(image.command),
            "WorkingDir": "/",
            "Labels": dict(image.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in image.layers]},
    }
    return json.dumps(content, sort_keys=True).encode()


def _put(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
