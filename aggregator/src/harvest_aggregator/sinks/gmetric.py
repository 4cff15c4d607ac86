"""Ganglia's packets (3.1 and later): XDR, one metric of one host each. Pure."""

from typing import Final

_METADATA: Final = 128
_UNSIGNED: Final = 132
_STRING: Final = 133
_SLOPE_BOTH: Final = 3
TMAX_SECONDS: Final = 60
"""How often a value is expected; after four times that ganglia's page takes it for stale."""


def spoofed(address: str, host: str) -> str:
    """Return in whose name a packet is sent.

    gmond takes all up to the first colon for the address: those of IPv6 are written with dashes.
    """
    return f"{address.replace(':', '-')}:{host}"


def metadata(host: str, metric: str, units: str, *, dmax_seconds: int) -> bytes:
    """Return what gmond must know of a metric before it takes values."""
    return b"".join(
        (
            _head(_METADATA, host, metric),
            _text("float"),
            _text(metric),
            _text(units),
            _number(_SLOPE_BOTH),
            _number(TMAX_SECONDS),
            _number(dmax_seconds),
            _number(0),  # extra elements
        )
    )


def value(host: str, metric: str, text: str) -> bytes:
    """Return a value, as text: a binary float would keep seven digits of it."""
    return _head(_STRING, host, metric) + _text("%s") + _text(text)


def heartbeat(host: str, started_seconds: int) -> bytes:
    """Return what a host's own gmond would send: that it is there, and since when."""
    return _head(_UNSIGNED, host, "heartbeat") + _text("%u") + _number(started_seconds)


def _head(kind: int, host: str, metric: str) -> bytes:
    return _number(kind) + _text(host) + _text(metric) + _number(1)  # 1: in another's name


def _number(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _number(len(encoded)) + encoded + bytes(-len(encoded) % 4)
