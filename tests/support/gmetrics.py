"""Reads ganglia's packets, so that tests need not believe the code that makes them."""

import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One metric of one host: what it is, or its value."""

    kind: int
    host: str
    name: str
    spoofed: int
    rest: tuple[str | int, ...]

    @property
    def is_metadata(self) -> bool:
        return self.kind == 128

    @property
    def is_value(self) -> bool:
        return self.kind == 133


def decoded(data: bytes) -> Packet:
    """Return what a packet says; all of it must make sense."""
    reader = _Reader(data)
    kind, host, name, spoofed = reader.number(), reader.text(), reader.text(), reader.number()
    rest: tuple[str | int, ...]
    if kind == 128:
        rest = (reader.text(), reader.text(), reader.text(), *(reader.number() for _ in range(4)))
    elif kind == 133:
        rest = (reader.text(), reader.text())
    else:
        assert kind == 132, kind
        rest = (reader.text(), reader.number())
    assert not reader.data
    return Packet(kind=kind, host=host, name=name, spoofed=spoofed, rest=rest)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self) -> int:
        (number,), self.data = struct.unpack(">I", self.data[:4]), self.data[4:]
        assert isinstance(number, int)
        return number

    def text(self) -> str:
        length = self.number()
        padded = length + 3 & ~3
        text, self.data = self.data[:padded], self.data[padded:]
        assert len(text) == padded
        assert not text[length:].strip(b"\0")
        return text[:length].decode()
