"""``lctl get_param`` dumps: one text that holds many files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harvest_core.lustre.job_stats import ID_BYTES_MAX, ID_COLUMN, RECORD_START

# A name has no blank and no colon before its first dot, so no line of job_stats or stats looks like one.
_NAME = re.compile(rb"([A-Za-z0-9_-]+(?:\.[^\s.=]*)*)=(.*)")


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
        source, _, rest = self.name.partition(b".")
        target, _, export = rest.partition(b".exports.")
        nid, dot, file = export.rpartition(b".")
        if b"@" in nid:
            return source, target, nid, file
        target, dot, file = rest.rpartition(b".")
        return (source, target, None, file) if dot else None


def parse_lctl(text: bytes) -> tuple[tuple[Parameter, ...], bytes]:
    """Split a dump into its parameters; also return what stands before the first of them."""
    head, *found = each_parameter(text)
    return tuple(found), head.value


def each_parameter(text: bytes) -> Iterator[Parameter]:
    """Yield what precedes the first name as an unnamed parameter, then each parameter; dumps may be large."""
    name = b""
    start = at = 0
    id_bytes = -1  # of the job id that we are in: up to 2.7 one may hold newlines, and then anything
    while at < len(text):
        end = text.find(b"\n", at) + 1 or len(text)
        line = text[at:end].removesuffix(b"\n")
        if line.startswith(RECORD_START):
            id_bytes = len(line) - ID_COLUMN
        elif id_bytes >= 0:
            id_bytes = -1 if line.lstrip(b" ").startswith(b"snapshot_time") else id_bytes + 1 + len(line)
            if id_bytes > ID_BYTES_MAX:
                id_bytes = -1
        match = None if id_bytes >= 0 else _NAME.fullmatch(line)
        if match is not None:
            yield Parameter(name=name, value=text[start:at])
            name = match[1]
            start = at + match.start(2) if match[2] else end
        at = end
    yield Parameter(name=name, value=text[start:])
