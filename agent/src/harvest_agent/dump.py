"""``harvest-agent dump``: a bundle for a bug report, without the names of jobs unless asked."""

import io
import os
import re
import secrets
import string
import tarfile
from collections.abc import Iterator, Sequence

from harvest_agent.doctor import examine, is_job_id
from harvest_agent.tree import TargetFiles, Tree, open_regular
from harvest_core.lustre.job_stats import ID_BYTES_MAX, RECORD_START, lines_of, parse_record, split_records

FILE_LIMIT = 4 * 1024 * 1024
"""Of each job_stats file; where a server prints something odd it does so early and often."""
_SETTINGS = ("version", "jobid_var", "jobid_name", "enable_stats_header")
_SMALL_FILES = ("instance", "job_cleanup_interval", "stats", "md_stats", "recovery_status")
_WORD = re.compile(rb"\\x[0-9A-F]{2}|[0-9A-Za-z\x80-\xff]+")
_SIGNS = b"\xd7\xf7"
_ALPHABETS = (
    string.digits.encode(),
    string.ascii_lowercase.encode(),
    string.ascii_uppercase.encode(),
    bytes(range(0x80, 0xA0)),
    bytes(range(0xA0, 0xC0)),
    bytes(byte for byte in range(0xC0, 0x100) if byte not in _SIGNS),
    _SIGNS,
)
"""Bytes that a server prints alike; each is masked by one of its own kind."""
_KNOWN = frozenset(
    b"job stats id snapshot start elapsed time samples unit min max sum sumsq hist secs nsecs usecs usec bytes reqs "
    b"read write getattr setattr punch sync destroy create statfs get set info quotactl prealloc open close mknod link "
    b"unlink mkdir rmdir rename getxattr setxattr samedir crossdir parallel file dir trylocks migrate fallocate "
    b"readpage".split()
)
_TIME = re.compile(rb" *(?:snapshot|start|elapsed)_time *: *[0-9]{1,20}(?:\.[0-9]{1,9})?(?: secs\.[nu]secs)? *")
_OPERATION = re.compile(
    rb" *[0-9a-z_]+: +\{ samples: *-?[0-9]+, unit: *[a-z]+(?:, (?:min|max|sum|sumsq): *-?[0-9]+)*"
    rb"(?:, hist: \{(?: *[0-9]+[KMG]?: *[0-9]+,?)* *\})? *\} *"
)


class Mask:
    """Replaces words by others of the same shape: alike for alike, different for different, none by itself."""

    def __init__(self) -> None:
        self._tables = [_exchange() for _ in range(ID_BYTES_MAX)]

    def line(self, text: bytes, known: frozenset[bytes] = frozenset()) -> bytes:
        """Mask every word but the known ones."""
        return _WORD.sub(lambda match: match[0] if match[0] in known else self._word(match[0]), text)

    def _word(self, word: bytes) -> bytes:
        tables = self._tables
        if word.startswith(b"\\x"):  # an escaped blank or quote is shape, not name, and stays as it is
            return b"\\x%02X" % tables[0][int(word.removeprefix(b"\\x"), 16)]
        return bytes(tables[place % len(tables)][byte] for place, byte in enumerate(word))


def _exchange() -> bytes:
    """Return for each byte another of its alphabet, by chance; each is given once."""
    table = bytearray(range(256))
    for alphabet in _ALPHABETS:
        order = secrets.SystemRandom().sample(alphabet, len(alphabet))
        for byte, other in zip(order, [*order[1:], order[0]], strict=True):
            table[byte] = other
    return bytes(table)


def bundle(tree: Tree, filesystems: Sequence[str], *, show_job_ids: bool) -> bytes:
    """Return a .tar.gz with what the agent reads on this server, and what the doctor says."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in _files(tree, filesystems, None if show_job_ids else Mask()):
            entry = tarfile.TarInfo(f"harvest-dump/{name.lstrip('/')}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def _files(tree: Tree, filesystems: Sequence[str], mask: Mask | None) -> Iterator[tuple[str, bytes]]:
    if mask is not None:
        yield "README", b"Job ids are masked, alike for alike. Network addresses are not.\n"
    report, problems = examine(tree, filesystems, show_job_ids=mask is None)
    text = report + "\n" + "".join(f"\n{problem.what}\n  -> {problem.mend}\n" for problem in problems)
    yield "doctor.txt", text.encode()
    for setting in _SETTINGS:
        value = tree.setting(setting)
        if value is not None:
            is_id = setting == "jobid_name" and is_job_id(value)
            yield f"settings/{setting}", (mask.line(value.encode()) if mask and is_id else value.encode()) + b"\n"
    for target in tree.targets(filesystems):
        yield from _target_files(tree, target, mask)


def _target_files(tree: Tree, target: TargetFiles, mask: Mask | None) -> Iterator[tuple[str, bytes]]:
    for name in _SMALL_FILES:
        path = target.file(name)
        if path is not None and (text := tree.read(path)) is not None:
            yield tree.shown(path), text
    for _, folder in target.exports():
        for name in ("stats", "uuid"):
            if (text := tree.read(f"{folder}/{name}")) is not None:
                yield tree.shown(f"{folder}/{name}"), text
    path = target.file("job_stats")
    if path is None:
        return
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            text = file.read(FILE_LIMIT)
    except OSError as error:
        yield tree.shown(path) + ".error", str(error.strerror).encode()
        return
    yield tree.shown(path), text if mask is None else masked(text, mask)


def masked(text: bytes, mask: Mask) -> bytes:
    """Hide the ids of a job_stats file and keep its shape: letters stay letters, digits digits.

    A line that is not as servers print it may hold part of an id: of it only the format's own words survive.
    """
    out = []
    for piece in split_records(text):
        lines = lines_of(piece)
        if piece.startswith(RECORD_START):
            count = _id_lines(lines, parse_record(piece).job)
            out.append(RECORD_START + mask.line(b"\n".join(lines[:count])[len(RECORD_START) :]))
            lines = lines[count:]
        out += [line if _is_regular(line) else mask.line(line, _KNOWN) for line in lines]
    return b"\n".join([*out, b""])


def _id_lines(lines: list[bytes], job: bytes) -> int:
    """Count the lines of the id; a newline in it may also have been printed as an escape."""
    count = job.count(b"\n") + 1
    return count if b"\n".join(lines[:count]).endswith(job) else 1


def _is_regular(line: bytes) -> bool:
    """Tell whether a server printed this line; a counter is longer than any id that tries to look like one."""
    if len(line) > ID_BYTES_MAX and _OPERATION.fullmatch(line):
        return True
    return _TIME.fullmatch(line) is not None
