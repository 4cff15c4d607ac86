"""What every node does on every file system: the type that accounting fills, and the API and the sinks read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Rates(NamedTuple):
    """What a node does per second on one file system; nothing where nothing of that kind was ever counted for it."""

    read_bytes: float | None
    write_bytes: float | None
    oss_ops: float | None
    mds_ops: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One host: all its NIDs together."""

    host: str
    """Name by the site's rules; the NID itself where no rule is given."""
    address: str
    """Its ganglia address."""
    cluster: str | None
    nids: tuple[str, ...]
    is_live: bool
    filesystems: Mapping[str, Rates]
    """By the file system's name in the site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Every node at one tick, closed and durable."""

    tick_seconds: int
    nodes: tuple[Node, ...]
