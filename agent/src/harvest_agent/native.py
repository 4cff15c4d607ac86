"""The compiled hot loop (agent/native/scan.c), called through ctypes."""

import ctypes
from array import array
from itertools import accumulate
from pathlib import Path
from typing import Final, Self

from harvest_core.lustre.columns import Codes, JobColumns

LIBRARY: Final = Path(__file__).with_name("libharvest_scan.so")
_RECORDS: Final = 4096
_ROWS: Final = 65536
_PER_RECORD: Final = ("id_end", "snapshot", "whole", "start", "rows", "regular")
_PER_ROW: Final = ("code", "samples", "minimum", "maximum", "sum")
_PER_BUCKET: Final = ("hist_row", "hist_power", "hist_count")
_NUMBERS: Final = ctypes.POINTER(ctypes.c_int64)


class _Names(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p), ("at", _NUMBERS), ("size", _NUMBERS), ("count", ctypes.c_int64))


class _Columns(ctypes.Structure):
    _fields_ = (
        *((name, _NUMBERS) for name in (*_PER_RECORD, *_PER_ROW, *_PER_BUCKET)),
        *((name, ctypes.c_int64) for name in ("room", "hist_room", "used", "hist_used")),
    )


def _numbers(size: int) -> "array[int]":
    return array("q", bytes(8 * size))


def _pointer(numbers: "array[int]") -> "ctypes._Pointer[ctypes.c_int64]":
    return ctypes.cast(numbers.buffer_info()[0], _NUMBERS)


class Native:
    """The compiled engine; its working memory is made once and reused."""

    def __init__(self, library: ctypes.CDLL, seed: int) -> None:
        self._split = library.harvest_split
        self._split.restype = ctypes.c_long
        self._parse = library.harvest_parse
        self._parse.restype = None
        self._seed = ctypes.c_uint64(seed)
        self._starts = _numbers(_RECORDS + 1)
        self._hashes = _numbers(_RECORDS)
        self._out = {name: _numbers(_RECORDS) for name in _PER_RECORD}
        self._out |= {name: _numbers(_ROWS) for name in (*_PER_ROW, *_PER_BUCKET)}
        self._columns = _Columns(**{name: _pointer(numbers) for name, numbers in self._out.items()})
        self._columns.room = self._columns.hist_room = _ROWS
        self._names = _Names(count=0)
        self._known: Codes | None = None
        self._keep: object = None

    @classmethod
    def load(cls, *, seed: int, path: Path = LIBRARY) -> Self | None:
        """Return the engine, or nothing where the library was not built for this machine."""
        try:
            return cls(ctypes.CDLL(str(path)), seed)
        except (OSError, AttributeError):  # not there, for another machine, or of another version
            return None

    def split(self, buffer: bytearray, size: int, *, final: bool) -> tuple[list[int], list[int]]:
        """Cut and hash the records of the buffer."""
        text = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        count = self._split(
            text,
            ctypes.c_long(size),
            ctypes.c_int(final),
            self._seed,
            _pointer(self._starts),
            _pointer(self._hashes),
            ctypes.c_long(_RECORDS),
        )
        return self._starts[: count + 1].tolist(), self._hashes[:count].tolist()

    def parse(
        self, buffer: bytearray, starts: list[int], ends: list[int], codes: Codes, into: JobColumns
    ) -> list[tuple[int, int]]:
        """Read the regular ones of these records."""
        self._learn(codes)
        text = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        columns = self._columns
        columns.used = columns.hist_used = 0
        begin, end = array("q", starts), array("q", ends)
        self._parse(
            text,
            _pointer(begin),
            _pointer(end),
            ctypes.c_long(len(starts)),
            ctypes.byref(self._names),
            ctypes.byref(columns),
        )
        out = self._out
        regular = [number for number, good in enumerate(out["regular"][: len(starts)]) if good]
        for name in ("snapshot", "whole", "start", "rows"):
            numbers = out[name][: len(starts)]
            if len(regular) < len(starts):
                numbers = array("q", [numbers[number] for number in regular])
            getattr(into, name).extend(numbers)
        for name in _PER_ROW:
            getattr(into, name).extend(out[name][: columns.used])
        for name in _PER_BUCKET:
            getattr(into, name).extend(out[name][: columns.hist_used])
        ids = out["id_end"]
        return [(number, ids[number]) for number in regular]

    def _learn(self, codes: Codes) -> None:
        """Hand over counters that were met for the first time."""
        if codes is self._known and self._names.count == len(codes.known):
            return
        self._known = codes
        entries = [f"{name}\0{unit}\0".encode("utf-8", "surrogateescape") for name, unit in codes.known]
        sizes = array("q", map(len, entries))
        places = array("q", [0, *accumulate(sizes)])
        text = b"".join(entries)
        self._keep = (text, sizes, places)
        self._names = _Names(text=text, at=_pointer(places), size=_pointer(sizes), count=len(entries))
