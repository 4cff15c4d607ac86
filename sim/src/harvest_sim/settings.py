"""The settings of a simulated site on disk."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from harvest_sim.versions import Version, traits


class SettingsError(Exception):
    """The settings cannot be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to simulate."""

    oss: Mapping[str, str]
    """The object servers by name, each with its Lustre version; each has the next one as failover partner."""
    mds: Mapping[str, str]
    """The metadata servers likewise."""
    fsnames: tuple[str, ...] = ("demo",)
    """The file systems; each has targets on every server."""
    osts_per_oss: int = 2
    provable: bool = False
    """Whether every total can be told for certain: what leaves no trace without start_time happens only where there is
    one, and elsewhere a record comes back only when readers know that it was gone, however seldom they read. Also, some
    OSTs have one job each and no other: nothing but its own record tells what became of it."""
    cleanup_seconds: int = 4
    """job_cleanup_interval of every target."""
    event_seconds: float = 2.0
    """The pause between two events such as clear, remount, failover; 0 = none."""
    publish_seconds: float = 0.2
    """How often the files are written anew."""
    linger_seconds: float = 5.0
    """How long to wait at the end until readers have seen everything."""
    slurm: str = ""
    """The host with a Slurm that knows the jobs; empty: there is none."""
    seed: int = 1

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Check a mapping and return settings, or say what is wrong with it."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(raw.keys() - known):
            raise SettingsError(f"unknown settings: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        if not raw.get("oss") or not raw.get("mds"):
            raise SettingsError("at least one oss and one mds are needed, such as oss = {oss1 = '2.15.4'}")
        for server, version in {**raw["oss"], **raw["mds"]}.items():
            try:
                traits(Version.parse(str(version)))
            except ValueError as error:
                raise SettingsError(f"server {server}: {error}") from error
        return cls(**{**raw, "fsnames": tuple(raw.get("fsnames", ("demo",)))})


def load(path: Path) -> dict[str, Any]:
    """Read a TOML or JSON file of settings."""
    text = path.read_text()
    raw = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    if not isinstance(raw, dict):
        raise SettingsError(f"{path} must hold a table of settings")
    return raw
