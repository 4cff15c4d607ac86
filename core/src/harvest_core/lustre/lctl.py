"""``lctl get_param`` dumps: one text that holds many files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harvest_core.lustre.job_stats import RECORD_START

# A name has no blank and no colon before its first dot, so no line of job_stats or stats looks like one.
_NAME = re.compile(rb"([A-Za-z0-9_-]+(?:\.[^\s=]+)*)=(.*)")
_EXPORT = re.compile(rb"(.+?)\.exports\.([^\s]+@[^\s.]+)\.([^.\s]+)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a dump: its dotted name, split where the parts are known, and its whole value."""

    name: bytes
    value: bytes

    @property
    def parts(self) -> tuple[bytes, bytes, bytes | None, bytes] | None:
        """Return (source, target, NID or nothing, file), such as obdfilter, fs-OST0000, 10.0.0.1@tcp, stats.

        A NID keeps its dots, so it ends at the last dot behind its ``@``.
        """
        source, dot, rest = self.name.partition(b".")
        if not dot:
            return None
        export = _EXPORT.fullmatch(rest)
        if export is not None:
            return source, export[1], export[2], export[3]
        target, dot, file = rest.rpartition(b".")
        return (source, target, None, file) if dot else None


def parse_lctl(text: bytes) -> tuple[tuple[Parameter, ...], bytes]:
    """Split a dump into its parameters; also return what stands before the first of them."""
    found = list(_parameters(text))
    head = found.pop(0)
    return tuple(found), head.value


def _parameters(text: bytes) -> Iterator[Parameter]:
    """Yield what precedes the first name as an unnamed parameter, then each parameter."""
    name = b""
    value: list[bytes] = []
    for line in text.split(b"\n"):
        match = _NAME.fullmatch(line)
        if match is None or (value and value[-1].startswith(RECORD_START)):  # behind an id comes more of it, or a time
            value.append(line)
            continue
        yield Parameter(name=name, value=b"\n".join([*value, b""]) if value else b"")
        name = match[1]
        value = [match[2]] if match[2] else []
    yield Parameter(name=name, value=b"\n".join(value))
