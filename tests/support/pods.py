"""A container of a Pod as a plain process: what kubelet would mount is written into a folder, and paths lead there."""

import base64
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harvest_operator.names import Key

Json = dict[str, Any]


class Container:
    """One container of a Deployment's Pod. It runs as whoever runs the test, on ports that the test gives."""

    def __init__(self, deployment: Json, name: str, folder: Path, replaced: Mapping[str, str]) -> None:
        self._pod: Json = deployment["spec"]["template"]["spec"]
        (self._own,) = (one for one in self._pod["containers"] if one["name"] == name)
        self._folder = folder
        self._replaced = dict(replaced)
        self._mounts = {mount["mountPath"]: folder / mount["name"] for mount in self._own["volumeMounts"]}
        self.log = folder / f"{name}.log"

    def mount(self, objects: Mapping[Key, Json]) -> None:
        """Write what the volumes hold now, as kubelet does: a file that did not change stays as it is."""
        for volume in self._pod["volumes"]:
            target = self._folder / volume["name"]
            if target in self._mounts.values():
                target.mkdir(mode=0o700, exist_ok=True)
                for name, content in _files(volume, objects):
                    self._write(target / name, content)

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Run its command."""
        (command,) = self._own["command"]
        module = [sys.executable, "-m", command.replace("-", "_")]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*module, *map(self._here, self._own["args"]), *arguments], stdin=subprocess.DEVNULL, stderr=log
            )

    def _write(self, path: Path, content: bytes) -> None:
        text = self._here(content.decode()).encode() if path.suffix == ".toml" else content
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists() or path.read_bytes() != text:
            draft = path.with_name(f".{path.name}")
            draft.touch(mode=0o600)
            draft.write_bytes(text)
            draft.replace(path)

    def _here(self, text: str) -> str:
        for place, folder in sorted(self._mounts.items(), reverse=True):
            text = text.replace(place, str(folder)) if text.startswith("/") or "\n" in text else text
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text


def _files(volume: Json, objects: Mapping[Key, Json]) -> Iterator[tuple[str, bytes]]:
    match volume:
        case {"secret": source}:
            yield from _items("Secret", source["secretName"], source.get("items"), objects)
        case {"configMap": source}:
            yield from _items("ConfigMap", source["name"], source.get("items"), objects)
        case {"projected": {"sources": sources}}:
            for source in sources:
                yield from _items("Secret", source["secret"]["name"], source["secret"]["items"], objects)
        case _:
            return


def _items(kind: str, name: str, items: list[Json] | None, objects: Mapping[Key, Json]) -> Iterator[tuple[str, bytes]]:
    data = objects[kind, name]["data"]
    for item in items or [{"key": key, "path": key} for key in data]:
        text = data[item["key"]]
        yield item["path"], base64.b64decode(text) if kind == "Secret" else text.encode()
