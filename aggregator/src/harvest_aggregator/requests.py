"""What an agent sent, from bytes; a batch also keeps the bytes that it came in."""

from typing import Final

from google.protobuf.message import DecodeError

from harvest.v1.stream_pb2 import Batch, Hello, JobTable, StreamRequest
from harvest_aggregator.deliveries import Raw
from harvest_aggregator.refusals import NonsenseError

INCARNATION_BYTES: Final = 16
_PROTOCOL: Final = 1
_TAG_OF_BATCH: Final = 0x12  # field 2 of a StreamRequest, with a length
_LENGTH_BYTES_MAX: Final = 5


def read_hello(data: bytes) -> Hello:
    """Read the first message of a stream."""
    hello = _request(data).hello
    if hello.protocol != _PROTOCOL:
        raise NonsenseError(f"a stream must begin with a Hello of protocol {_PROTOCOL}: update agent or aggregator")
    ids = [incarnation.id for incarnation in hello.incarnations]
    if not ids or len(set(ids)) < len(ids) or any(len(one) != INCARNATION_BYTES for one in ids):
        raise NonsenseError("a Hello must name its incarnations: different ids of 16 bytes, at least one")
    if not hello.boot_id:
        raise NonsenseError("a Hello must say the boot id of its server")
    return hello


def read_request(data: bytes) -> tuple[Raw, Batch] | JobTable:
    """Return a job table, or the bytes of a batch and what they say; the usual encoding is read without a copy."""
    request = _request(data)
    match request.WhichOneof("message"):
        case "batch":
            raw = _only_batch(data)
            return request.batch.SerializeToString() if raw is None else raw, request.batch
        case "job_table":
            return request.job_table
        case _:
            raise NonsenseError("only batches and job tables may follow the Hello")


def _only_batch(data: bytes) -> memoryview | None:
    """Cut the batch out where the request is nothing else: its tag, its length, and the rest."""
    if not data or data[0] != _TAG_OF_BATCH:
        return None
    length = 0
    for place, byte in enumerate(data[1 : 1 + _LENGTH_BYTES_MAX]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return memoryview(data)[place + 2 :] if length == len(data) - place - 2 else None
    return None


def _request(data: bytes) -> StreamRequest:
    try:
        return StreamRequest.FromString(data)
    except DecodeError as error:
        raise NonsenseError("a message cannot be read") from error
