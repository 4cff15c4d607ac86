"""Images laid out in a folder, and their programs run there as a container would run them."""

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from packing.layers import USER

# the image's files cannot be written to; what the program may write is mounted over them
_CONTAINER = """
set -eu
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc"
if [ -n "$2" ]; then mount --bind "$2" "$1/run"; fi
exec chroot --userspec="$3" "$1" "${@:4}"
"""


@dataclass(frozen=True)
class LaidOut:
    """An image of an archive, as files."""

    name: str
    config: Mapping[str, object]
    root: Path

    def run(self, *arguments: str, shared: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run its program with nothing but its own files, as its own user; ``shared`` is its ``/run``."""
        entrypoint = self.config["Entrypoint"]
        assert isinstance(entrypoint, list)
        return self.run_file(*entrypoint, *arguments, shared=shared)

    def run_file(self, *command: str, shared: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a file of the image."""
        if shared is not None:
            os.chown(shared, USER, USER)
        where = (str(self.root), str(shared or ""), str(self.config["User"]))
        return subprocess.run(
            ["unshare", "--mount", "bash", "-c", _CONTAINER, "-", *where, *command],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )


def lay_out(archive: Path, folder: Path) -> list[LaidOut]:
    """Lay out all images of an archive."""
    laid_out = []
    with tarfile.open(archive) as outer:
        for image in json.load(_file(outer, "manifest.json")):
            (name,) = image["RepoTags"]
            root = folder / name.rpartition("/")[2].partition(":")[0]
            for layer in image["Layers"]:
                with tarfile.open(fileobj=_file(outer, layer)) as inner:
                    inner.extraction_filter = lambda member, _: member  # an argument Debian's 3.11 does not know
                    inner.extractall(root)  # noqa: S202 - made by ourselves
            laid_out.append(LaidOut(name, json.load(_file(outer, image["Config"]))["config"], root))
    return laid_out


def _file(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    assert found is not None
    return found
