"""``harvest-agent dump``: a bundle for a bug report, without the names of jobs unless asked."""

import hashlib
import io
import re
import secrets
import string
import tarfile
from collections.abc import Iterator, Sequence

from harvest_agent.doctor import examine
from harvest_agent.tree import TargetFiles, Tree, read_small
from harvest_core.lustre.job_stats import RECORD_START, lines_of, parse_record, split_records

FILE_LIMIT = 4 * 1024 * 1024
"""Of each job_stats file; where a server prints something odd it does so early and often."""
_SETTINGS = ("version", "jobid_var", "jobid_name", "enable_stats_header")
_SMALL_FILES = ("instance", "job_cleanup_interval", "stats", "md_stats", "recovery_status")
_WORD = re.compile(rb"\\x[0-9A-F]{2}|[0-9A-Za-z\x80-\xff]+")
_ALPHABETS = tuple(
    frozenset(alphabet)
    for alphabet in (
        string.digits.encode(),
        string.ascii_lowercase.encode(),
        string.ascii_uppercase.encode(),
        range(0x80, 0xA0),
        range(0xA0, 0xC0),
        range(0xC0, 0x100),
    )
)
"""Bytes that a server prints alike; each is masked by one of its own kind."""
_KNOWN = frozenset(
    b"job_stats job_id snapshot_time start_time elapsed_time samples unit min max sum sumsq hist secs nsecs usecs "
    b"bytes reqs usec job stats id time snapshot start elapsed".split()
)


def bundle(tree: Tree, filesystems: Sequence[str], *, show_job_ids: bool) -> bytes:
    """Return a .tar.gz with what the agent reads on this server, and what the doctor says."""
    secret = secrets.token_bytes(16)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in _files(tree, filesystems, None if show_job_ids else secret):
            entry = tarfile.TarInfo(f"harvest-dump/{name.lstrip('/')}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def _files(tree: Tree, filesystems: Sequence[str], secret: bytes | None) -> Iterator[tuple[str, bytes]]:
    if secret is not None:
        yield "README", b"Job ids are masked, alike for alike. Network addresses are not.\n"
    report, problems = examine(tree, filesystems, quote_lines=secret is None)
    text = report + "\n" + "".join(f"\n{problem.what}\n  -> {problem.mend}\n" for problem in problems)
    yield "doctor.txt", text.encode()
    for setting in _SETTINGS:
        value = tree.setting(setting)
        if value is not None:
            yield f"settings/{setting}", value.encode() + b"\n"
    for target in tree.targets(filesystems):
        yield from _target_files(tree, target, secret)


def _target_files(tree: Tree, target: TargetFiles, secret: bytes | None) -> Iterator[tuple[str, bytes]]:
    for name in _SMALL_FILES:
        path = target.file(name)
        if path is not None and (text := read_small(path)) is not None:
            yield tree.shown(path), text
    for _, folder in target.exports():
        for name in ("stats", "uuid"):
            if (text := read_small(f"{folder}/{name}")) is not None:
                yield tree.shown(f"{folder}/{name}"), text
    path = target.file("job_stats")
    if path is None:
        return
    try:
        with open(path, "rb") as file:
            text = file.read(FILE_LIMIT)
    except OSError as error:
        yield tree.shown(path) + ".error", str(error).encode()
        return
    yield tree.shown(path), text if secret is None else masked(text, secret)


def masked(text: bytes, secret: bytes) -> bytes:
    """Hide the ids of a job_stats file and keep its shape: letters stay letters, digits digits.

    Lines that were not understood may hold part of an id: of them only the format's own words survive.
    """
    out = []
    for piece in split_records(text):
        record = parse_record(piece) if piece.startswith(RECORD_START) else None
        strange = set(record.unread) if record else None
        for number, line in enumerate(lines_of(piece)):
            if record and number == 0:
                out.append(RECORD_START + masked_line(line[len(RECORD_START) :], secret, known_only=False))
            elif strange is None or line in strange or _continues_id(record.job if record else b"", number, line):
                out.append(masked_line(line, secret, known_only=True))
            else:
                out.append(line)
    return b"\n".join([*out, b""])


def _continues_id(job: bytes, number: int, line: bytes) -> bool:
    parts = job.split(b"\n")
    return number < len(parts) and parts[number] == line


def masked_line(line: bytes, secret: bytes, *, known_only: bool) -> bytes:
    """Replace every word by another of the same shape, always the same one."""

    def other(match: re.Match[bytes]) -> bytes:
        word = match[0]
        if known_only and word in _KNOWN:
            return word
        if not word.startswith(b"\\x"):
            noise = hashlib.shake_128(secret + word).digest(len(word))
            return bytes(_like(byte, number) for byte, number in zip(word, noise, strict=True))
        byte = int(word.removeprefix(b"\\x"), 16)  # an escape of a plain character is shape, not name
        return word if byte < 0x80 else b"\\x%02X" % _like(byte, hashlib.shake_128(secret + word).digest(1)[0])

    return _WORD.sub(other, line)


def _like(byte: int, noise: int) -> int:
    for alphabet in _ALPHABETS:
        if byte in alphabet:
            return sorted(alphabet)[noise % len(alphabet)]
    return byte
