"""Ranges of Lustre's network addresses: ``10.1.[0-3].*@o2ib``, ``fd00:1::/64@tcp``, ``[1-400]@kfi``."""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network, NetmaskValueError
from typing import Final, Self

from harvest_core.lustre.names import parse_nid

NID_RANGE_PATTERN: Final = (
    r"(([0-9]{1,3}|\*|\[[0-9]{1,3}-[0-9]{1,3}\])([.]([0-9]{1,3}|\*|\[[0-9]{1,3}-[0-9]{1,3}\])){3}"
    r"|[0-9]{1,10}|\[[0-9]{1,10}-[0-9]{1,10}\]"
    r"|[0-9a-f:]{2,39}(/[0-9]{1,3})?)@[a-z]([a-z0-9]{0,14}[a-z])?([1-9][0-9]{0,8})?"
)
NID_RANGE_INSTEAD: Final = "a range such as 10.1.[0-3].*@o2ib, fd00:1::/64@tcp or [1-400]@kfi"
_OCTET_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class NidRange:
    """Addresses of one network, as bounds of each part: an IPv4 address has four parts, every other kind one."""

    network: str
    version: int | None
    """Of IP; nothing for networks whose addresses are numbers."""
    parts: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a range; ValueError says what is wrong with the text."""
        if re.fullmatch(NID_RANGE_PATTERN, text) is None:
            raise ValueError(f"write {NID_RANGE_INSTEAD}")
        address, _, network = text.partition("@")
        if ":" in address:
            try:
                whole = IPv6Network(address)
            except (AddressValueError, NetmaskValueError):
                raise ValueError(f"write {NID_RANGE_INSTEAD}") from None
            except ValueError:
                raise ValueError(f"write it as {IPv6Network(address, strict=False)}@{network}") from None
            return cls(network, 6, ((int(whole.network_address), int(whole.broadcast_address)),))
        parts = tuple(_bounds(part) for part in address.split("."))
        if len(parts) == 1:
            return cls(network, None, parts)
        if max(high for _, high in parts) > _OCTET_MAX:
            raise ValueError("a part of an IPv4 address is larger than 255: write numbers from 0 to 255")
        return cls(network, 4, parts)

    def contains(self, nid: str) -> bool:
        """Tell whether an address as servers print it is within."""
        network, version, numbers = _taken_apart(nid)
        return (
            network == self.network
            and version == self.version
            and all(low <= number <= high for number, (low, high) in zip(numbers, self.parts, strict=True))
        )

    def overlaps(self, other: Self) -> bool:
        """Tell whether any address is in both."""
        return (self.network, self.version) == (other.network, other.version) and all(
            a[0] <= b[1] and b[0] <= a[1] for a, b in zip(self.parts, other.parts, strict=True)
        )


def _bounds(part: str) -> tuple[int, int]:
    if part == "*":
        return 0, _OCTET_MAX
    low, _, high = part.strip("[]").partition("-")
    if int(high or low) < int(low):
        raise ValueError(f"the range {part} runs backwards: write [{high}-{low}]")
    return int(low), int(high or low)


@lru_cache(maxsize=16)  # one after another is compared with all ranges of a site
def _taken_apart(nid: str) -> tuple[str | None, int | None, tuple[int, ...]]:
    parsed = parse_nid(nid)
    if parsed is None:
        return None, None, ()
    address = parsed.address
    if re.fullmatch("[0-9]{1,10}", address):
        return parsed.network, None, (int(address),)
    try:
        if ":" in address:
            return parsed.network, 6, (int(IPv6Address(address)),)
        return parsed.network, 4, tuple(IPv4Address(address).packed)
    except AddressValueError:
        return None, None, ()
