"""A stay as bytes and back: every field of it and of its mounts, whatever they are called.

Values describe themselves, and many of one kind lie side by side as a column: numbers in as few bytes as they need,
names with their lengths. A field that is added is written by itself; one of a type that nobody foresaw is refused.
"""

import itertools
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from harvest_core.accounting.apply import Stay
from harvest_core.accounting.mounts import BY_ROW, MountState

_MAGIC: Final = b"HVstay"
_VERSION: Final = 3
_HEADER: Final = struct.Struct("<6sHQI")
"""Magic, version, length and checksum of what follows."""
_COUNT: Final = struct.Struct("<Q")
_ARRAY: Final = struct.Struct("<BBqB")
"""Type, width, the least number, and how many dimensions follow."""
_TYPES: Final = ("|b1", "<i2", "<i4", "<i8")
_WIDTHS: Final = ("", "u1", "<u2", "<u4")
"""Of what is above the least number; one more: as it is."""
_SEQUENCES: Final[dict[type, str]] = {list: "l", tuple: "t", set: "S"}
_SCALARS: Final[dict[type, str]] = {int: "i", bool: "b", bytes: "y", str: "s"}
_MADE_BY: Final = {tag: kind for kind, tag in (*_SEQUENCES.items(), *_SCALARS.items())}
_Kind = TypeVar("_Kind", Stay, MountState)


class SnapshotError(Exception):
    """Bytes that are no snapshot, are damaged, or were written by another version."""


def dump(stay: Stay) -> bytes:
    """Return a stay as bytes."""
    writer = _Writer()
    writer.value(_fields(stay))
    body = b"".join(writer.pieces)
    return _HEADER.pack(_MAGIC, _VERSION, len(body), zlib.crc32(body)) + body


def load(payload: bytes) -> Stay:
    """Return the stay that was dumped."""
    if len(payload) < _HEADER.size or not payload.startswith(_MAGIC):
        raise SnapshotError("this is no snapshot of a target")
    _, version, size, checksum = _HEADER.unpack_from(payload)
    if version != _VERSION:
        raise SnapshotError(f"the snapshot has format {version}; this Harvest reads format {_VERSION}")
    body = payload[_HEADER.size :]
    if len(body) != size or zlib.crc32(body) != checksum:
        raise SnapshotError("the snapshot is damaged")
    try:
        return _stay(_Reader(body).value())
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, struct.error) as error:
        raise SnapshotError(f"the snapshot makes no sense: {error}") from error


# --- what is in it ---


def _fields(stay: Stay) -> dict[str, Any]:
    mounts = [(instance, _mount_fields(state)) for instance, state in stay.mounts]
    return {**vars(stay), "mounts": mounts}


def _mount_fields(state: MountState) -> dict[str, Any]:
    return {name: value[: len(state.jobs)] if name in BY_ROW else value for name, value in vars(state).items()}


def _stay(fields: dict[str, Any]) -> Stay:
    mounts = [(instance, _restored(MountState(), values)) for instance, values in fields["mounts"]]
    return _restored(Stay(), {**fields, "mounts": mounts})


def _restored(thing: _Kind, fields: dict[str, Any]) -> _Kind:
    if vars(thing).keys() != fields.keys():
        raise SnapshotError(f"fields differ from this Harvest's: {sorted(vars(thing).keys() ^ fields.keys())}")
    vars(thing).update(fields)
    return thing


# --- how it is written ---
# A tag says what follows: a value, or a column of values of one type (capital: of whatever types).


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def value(self, value: Any) -> None:  # noqa: ANN401 - whatever a field holds
        if value is None:
            self._tag("n")
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, dict):
            self._tag("d")
            self.column(list(value))
            self.column(list(value.values()))
        elif type(value) in _SEQUENCES:
            self._tag(_SEQUENCES[type(value)])
            self.column(sorted(value) if isinstance(value, set) else value)
        elif type(value) in _SCALARS:
            self._tag(_SCALARS[type(value)])
            self.column([int(value) if isinstance(value, bool) else value])
        else:
            raise TypeError(f"a snapshot has no place for {type(value).__name__}")

    def column(self, values: Sequence[Any]) -> None:
        types = set(map(type, values))
        kind = types.pop() if len(types) == 1 else object
        if kind is int:
            self._tag("i")
            self._array(np.array(values, np.int64))
        elif kind is bytes:
            self._tag("y")
            self._array(np.array(list(map(len, values)), np.int64))
            self.pieces.append(b"".join(values))
        elif kind is str:
            self._tag("s")
            self.column([value.encode() for value in values])
        elif kind is tuple and len(set(map(len, values))) == 1 and values[0]:
            self._tag("t")
            self._count(len(values[0]))
            for place in range(len(values[0])):  # zip(*values) would make an iterator for each of them
                self.column([value[place] for value in values])
        elif kind is dict:
            self._tag("d")
            self._array(np.array(list(map(len, values)), np.int64))
            self.column([key for value in values for key in value])
            self.column([item for value in values for item in value.values()])
        elif kind is np.ndarray and len({(value.shape, value.dtype) for value in values}) == 1:
            self._tag("a")
            self._array(np.stack(list(values)))
        else:
            self._tag("V")
            self._count(len(values))
            for value in values:
                self.value(value)

    def _tag(self, tag: str) -> None:
        self.pieces.append(tag.encode())

    def _count(self, count: int) -> None:
        self.pieces.append(_COUNT.pack(count))

    def _array(self, numbers: NDArray[Any]) -> None:
        """Write numbers as what they are above the least of them, in as few bytes as that needs."""
        code = _TYPES.index(numbers.dtype.str)
        low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
        width = next((place for place, bits in enumerate((0, 8, 16, 32)) if high - low < 1 << bits), len(_WIDTHS))
        self._tag("a")
        self.pieces += (_ARRAY.pack(code, width, low, numbers.ndim), *(_COUNT.pack(size) for size in numbers.shape))
        if width == len(_WIDTHS):
            self.pieces.append(numbers.tobytes())
        elif width:
            self.pieces.append((numbers.astype(np.int64) - low).astype(_WIDTHS[width]).tobytes())


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)
        self._at = 0
        self._names: dict[bytes, bytes] = {}
        """An id is in several fields: once in memory is enough."""

    def value(self) -> Any:  # noqa: ANN401 - whatever a field holds
        tag = self._tag()
        if tag == "n":
            return None
        if tag == "a":
            self._at -= 1
            return self._array()
        if tag == "d":
            return dict(zip(self.column(), self.column(), strict=True))
        column = self.column()
        return _MADE_BY[tag](column if tag in _SEQUENCES.values() else column[0])

    def column(self) -> list[Any]:
        return _COLUMNS[self._tag()](self)

    def integers(self) -> list[int]:
        return list(self._array().tolist())

    def names(self) -> list[bytes]:
        ends = np.cumsum(self._array()).tolist()
        blob = bytes(self._take(ends[-1]))
        pieces = (blob[begin:end] for begin, end in itertools.pairwise([0, *ends]))
        return [self._names.setdefault(piece, piece) for piece in pieces]

    def texts(self) -> list[str]:
        return [value.decode() for value in self.column()]

    def tuples(self) -> list[tuple[Any, ...]]:
        return list(zip(*(self.column() for _ in range(self._count())), strict=True))

    def dicts(self) -> list[dict[Any, Any]]:
        lengths = self.integers()
        pairs = zip(self.column(), self.column(), strict=True)
        return [dict(itertools.islice(pairs, length)) for length in lengths]

    def arrays(self) -> list[NDArray[Any]]:
        return [numbers.copy() for numbers in self._array()]

    def values(self) -> list[Any]:
        return [self.value() for _ in range(self._count())]

    def _tag(self) -> str:
        return bytes(self._take(1)).decode()

    def _count(self) -> int:
        return int(_COUNT.unpack(self._take(_COUNT.size))[0])

    def _take(self, size: int) -> memoryview:
        piece = self._body[self._at : self._at + size]
        if len(piece) != size:
            raise ValueError("it ends too early")
        self._at += size
        return piece

    def _array(self) -> NDArray[Any]:
        if self._tag() != "a":
            raise ValueError("numbers were expected")
        code, width, low, dimensions = _ARRAY.unpack(self._take(_ARRAY.size))
        shape = [self._count() for _ in range(dimensions)]
        kind = np.dtype(_TYPES[code])
        if not width:
            return np.full(shape, low, kind)
        stored = kind if width == len(_WIDTHS) else np.dtype(_WIDTHS[width])
        numbers = np.frombuffer(self._take(math.prod(shape) * stored.itemsize), stored).reshape(shape)
        return numbers.copy() if width == len(_WIDTHS) else (numbers.astype(np.int64) + low).astype(kind)


_COLUMNS: Final[dict[str, Callable[[_Reader], list[Any]]]] = {
    "i": _Reader.integers,
    "y": _Reader.names,
    "s": _Reader.texts,
    "t": _Reader.tuples,
    "d": _Reader.dicts,
    "a": _Reader.arrays,
    "V": _Reader.values,
}
