"""Names that Lustre gives to things: targets, file systems, network addresses, connections."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_TARGET = re.compile(r"(.+)-(OST|MDT)([0-9a-f]{4})", re.DOTALL)
_NETWORK = re.compile(r"([a-z][a-z0-9]{0,15}?)([0-9]{0,9})")
_SERVER_CONNECTION = re.compile(rb".+(?:-mdtlov_UUID|-(?:lwp|osp)-.+)")


@dataclass(frozen=True, slots=True)
class Target:
    """A target's name taken apart."""

    fsname: str
    kind: str
    """``OST`` or ``MDT``."""
    index: int


def parse_target(name: str) -> Target | None:
    """Read ``home-OST001f``; file system names may themselves contain dashes."""
    match = _TARGET.fullmatch(name)
    return Target(fsname=match[1], kind=match[2], index=int(match[3], 16)) if match else None


def of_filesystem(target: str, fsname: str) -> bool:
    """Tell whether a target belongs to exactly this file system: ``home`` never takes ``home2-OST0000``."""
    parsed = parse_target(target)
    return parsed is not None and parsed.fsname == fsname


class Nid(NamedTuple):
    """A network address: where a client is on which Lustre network. Tens of thousands are made at once."""

    address: str
    """An IPv4 or IPv6 address, or the number of networks that have no other (kfi, gni, lo)."""
    network: str
    """``tcp``, ``o2ib2``…; the number 0 is never written. Networks of unknown kind stay as ``<type:num>``."""

    @property
    def is_loopback(self) -> bool:
        """Tell whether this is the server talking to itself."""
        return self.network == "lo"


def parse_nid(text: str) -> Nid | None:
    """Read ``10.0.0.1@tcp``, ``fd00:172:16:11::5@tcp``, ``0@lo``, ``123@kfi``, ``1f@<20:3>``."""
    address, at, network = text.rpartition("@")
    if not at or not address or not network or "@" in address:
        return None
    known = _network(network)
    return None if known is None else Nid(address=address, network=known)


@lru_cache(maxsize=256)
def _network(text: str) -> str | None:
    """Return a network as it is always written here; a site has few, and tens of thousands of addresses."""
    match = _NETWORK.fullmatch(text)
    if match is not None:
        return match[1] + (str(int(match[2])) if match[2].strip("0") else "")
    return text if re.fullmatch(r"<[0-9]+:[0-9]+>", text) else None


def parse_uuids(text: bytes) -> tuple[bytes, ...]:
    """Return the connections of one NID, one line each; none while no client is connected there."""
    return tuple(line.strip() for line in text.split(b"\n") if line.strip())


def is_server(nid: str, uuids: tuple[bytes, ...]) -> bool:
    """Tell whether an export belongs to a Lustre server and not to a client."""
    parsed = parse_nid(nid)
    if parsed is not None and parsed.is_loopback:
        return True
    return bool(uuids) and all(_SERVER_CONNECTION.fullmatch(uuid) for uuid in uuids)


def parse_version(text: str) -> tuple[int, ...] | None:
    """Read ``2.15.8``, ``lustre: 2.12.9`` or ``2.14.0_ddn164-1-g…`` as comparable numbers."""
    match = re.search(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?", text)
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def parse_number(text: bytes) -> int | None:
    """Read a file that holds one whole number, such as ``instance``."""
    word = text.strip()
    return int(word) if re.fullmatch(rb"[0-9]{1,18}", word) else None
