"""One look at a server, or at an ``lctl get_param`` dump of one: rows for people and programs."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from harvest_agent.scan import BUFFER_BYTES, Engine, best_engine, pieces
from harvest_agent.tree import SOURCES, TargetFiles, Tree, open_regular
from harvest_core.lustre.counters import Counter, counted, printable
from harvest_core.lustre.job_stats import RECORD_START, JobRecord, parse_job_stats, parse_record, split_records
from harvest_core.lustre.lctl import each_parameter
from harvest_core.lustre.names import of_filesystem
from harvest_core.lustre.stats import parse_stats

Row = dict[str, Any]
"""One JSON object of ``sample --json``; the contract is docs/reference/agent.md."""


def sample_tree(tree: Tree, filesystems: Sequence[str] = ()) -> Iterator[Row]:
    """Yield every counter of every target; whatever cannot be read becomes a row that says so."""
    engine = best_engine()
    buffer = bytearray(BUFFER_BYTES)
    for target in tree.targets(filesystems):
        path = target.file("job_stats")
        if path is not None:
            yield from _job_rows(tree, target, path, engine, buffer)
        for nid, folder in target.exports():
            path = f"{folder}/stats"
            if (text := tree.read(path)) is not None:
                yield from _export_rows(target.source, target.name, nid, tree.shown(path), text)
    for path, why in tree.unreadable.items():
        yield from unread_rows(tree.shown(path), [why.encode()])


def _job_rows(tree: Tree, target: TargetFiles, path: str, engine: Engine, buffer: bytearray) -> Iterator[Row]:
    """Stream a file of any size through the buffer."""
    shown = tree.shown(path)
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            for starts, _ in pieces(file.readinto, engine, buffer):
                head = parse_job_stats(bytes(buffer[: starts[0]]))
                yield from unread_rows(shown, head.unread)
                for start, end in pairwise(starts):
                    record = parse_record(bytes(buffer[start:end]))
                    yield from job_rows(target.source, target.name, shown, record)
    except OSError as error:  # the target was unmounted under our hands, or may not be read
        yield from unread_rows(shown, [str(error.strerror).encode()])


def sample_lctl(text: bytes, filesystems: Sequence[str] = ()) -> Iterator[Row]:
    """Yield every counter of a dump; parameters that are no counters of jobs or clients are passed over."""
    for parameter in each_parameter(text):
        parts = parameter.parts
        if not parameter.name:
            yield from unread_rows("lctl", [line for line in parameter.value.split(b"\n") if line.strip()])
        if parts is None:
            continue
        source, target, nid, file = (None if part is None else printable(part) for part in parts)
        if source not in SOURCES or target is None:
            continue
        if filesystems and not any(of_filesystem(target, fs) for fs in filesystems):
            continue
        name = printable(parameter.name)
        if file == "job_stats" and nid is None:
            for piece in split_records(parameter.value):
                if piece.startswith(RECORD_START):
                    yield from job_rows(source, target, name, parse_record(piece))
                else:
                    yield from unread_rows(name, parse_job_stats(piece).unread)
        elif file == "stats" and nid is not None:
            yield from _export_rows(source, target, nid, name, parameter.value)


def job_rows(source: str, target: str, file: str, record: JobRecord) -> Iterator[Row]:
    """Yield a record's counters, then its lines that were not understood, or only in part."""
    for counter in record.counters:
        yield {
            "kind": "job",
            "source": source,
            "target": target,
            "job": printable(record.job),
            **_numbers(counter),
            "snapshot_time": record.snapshot_time,
            "start_time": record.start_time,
        }
    yield from unread_rows(file, record.unread)
    yield from unread_rows(file, record.doubtful)


def _numbers(counter: Counter) -> Row:
    return {
        "op": counter.name,
        "unit": counter.unit,
        "samples": counter.samples,
        "min": counter.minimum,
        "max": counter.maximum,
        "sum": counter.sum,
    }


def _export_rows(source: str, target: str, nid: str, file: str, text: bytes) -> Iterator[Row]:
    stats = parse_stats(text)
    for counter in stats.counters:
        yield {
            "kind": "export",
            "source": source,
            "target": target,
            "nid": nid,
            "op": counter.name,
            "unit": counter.unit,
            "samples": counted(counter.samples),
            "sum": counted(counter.sum),
        }
    yield from unread_rows(file, stats.unread)
    yield from unread_rows(file, stats.doubtful)


def unread_rows(file: str, lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield a row for each line that was not understood."""
    for line in lines:
        yield {"kind": "unread", "file": file, "line": printable(line)}
