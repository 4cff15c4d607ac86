"""Sweeps of the spool with fewer values in them: core's merging, on messages."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from harvest.v1.stream_pb2 import StreamRequest
from harvest_agent.segments import DamagedError, Record
from harvest_core.differences import PART_RECORDS
from harvest_core.facts import Facts
from harvest_core.merging import merged
from harvest_core.wire import WireError, concatenated, in_parts, joined, plain, read, write

Sweep = tuple[int, list[Record]]
"""Seq, and its records; the last one says how the sweep went."""


def thinned(sweeps: Sequence[Sweep]) -> list[Sweep]:
    """Return the same sweeps of one incarnation without the values that nobody needs; one target at a time."""
    found: dict[str, dict[int, list[Record]]] = {}
    for seq, records in sweeps:
        for record in records[:-1]:
            found.setdefault(record.target, {}).setdefault(seq, []).append(record)
    thin = {target: _thinned_target(reads) for target, reads in found.items()}
    return [
        (seq, [*(record for reads in thin.values() for record in reads.get(seq, ())), records[-1]])
        for seq, records in sweeps
    ]


def _thinned_target(reads: dict[int, list[Record]]) -> dict[int, list[Record]]:
    try:
        facts = [
            joined([read(StreamRequest.FromString(record.payload).batch, plain) for record in records], concatenated)
            for records in reads.values()
        ]
    except (DecodeError, WireError) as error:
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
