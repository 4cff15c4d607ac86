"""Sweeps of the spool with fewer values in them: core's merging, on messages."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from harvest.v1.stream_pb2 import Batch, StreamRequest
from harvest_agent.segments import DamagedError, Record
from harvest_core.differences import PART_RECORDS
from harvest_core.facts import Facts
from harvest_core.merging import merged
from harvest_core.wire import WireError, concatenated, in_parts, joined, plain, read, write

Sweep = tuple[int, list[Record]]
"""Seq, and its records; the last one says how the sweep went."""


def thinned(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """Return the same sweeps of one incarnation without the values that nobody needs; one target at a time."""
    found: dict[tuple[str, bool], dict[int, list[Batch]]] = {}
    for seq, records in sweeps:
        for record in records[:-1]:
            batch = _batch(record)
            key = (record.target, batch.HasField("exports"))  # clients have reads of their own
            found.setdefault(key, {}).setdefault(seq, []).append(batch)
    thin = {key: _thinned_target(reads) for key, reads in found.items()}
    return [
        (seq, [*(record for reads in thin.values() for record in reads.get(seq, ())), records[-1]])
        for seq, records in sweeps
    ]


def _batch(record: Record) -> Batch:
    try:
        return StreamRequest.FromString(record.payload).batch
    except DecodeError as error:
        raise DamagedError(f"a sweep that cannot be understood: {error}") from error


def _thinned_target(reads: dict[int, list[Batch]]) -> dict[int, list[Record]]:
    try:
        facts = [joined([read(batch, plain) for batch in batches], concatenated) for batches in reads.values()]
    except WireError as error:
        raise DamagedError(f"a sweep that cannot be understood: {error}") from error
    return {
        seq: [batch_record(part) for part in in_parts(thin, PART_RECORDS)]
        for seq, thin in zip(reads, merged(facts), strict=True)
    }


def batch_record(facts: Facts) -> Record:
    """Return a part of a read as it is spooled and sent."""
    request = StreamRequest()
    write(request.batch, facts)
    return Record(facts.target, request.SerializeToString())
