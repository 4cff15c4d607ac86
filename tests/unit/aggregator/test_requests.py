import pytest

from harvest.v1.stream_pb2 import Batch, JobTable, StreamRequest
from harvest_aggregator.refusals import NonsenseError
from harvest_aggregator.requests import read_hello, read_request
from support.uplinks import hello


@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 20_000, 3_000_000])
def test_the_bytes_of_a_batch_are_those_that_came(size: int) -> None:
    batch = Batch(incarnation=b"i" * 16, seq=1, lustre_version="2" * size)
    assert read_request(StreamRequest(batch=batch).SerializeToString()) == (batch.SerializeToString(), batch)


def test_fields_that_are_not_known_yet_are_kept() -> None:
    raw = Batch(seq=1).SerializeToString() + b"\xf8\x3f\x01"
    request = b"\x12" + bytes([len(raw)]) + raw
    assert read_request(request) == (raw, Batch.FromString(raw))


def test_other_encodings_of_a_batch_are_read_too() -> None:
    first, second = Batch(seq=1).SerializeToString(), Batch(tick_seconds=20).SerializeToString()
    split = b"".join(b"\x12" + bytes([len(part)]) + part for part in (first, second))
    padded = b"\x12" + bytes([len(first) | 0x80, 0x80, 0]) + first
    both = Batch(seq=1, tick_seconds=20)
    assert read_request(split) == (both.SerializeToString(), both)
    assert read_request(padded) == (first, Batch(seq=1))


@pytest.mark.parametrize(
    "data", [b"", b"\x12", b"\x12\x05\x08", b"GET / HTTP/1.1", b"\x12" + b"\xff" * 9, b"\x12\x01\x0a"]
)
def test_what_is_no_batch_is_refused(data: bytes) -> None:
    with pytest.raises(NonsenseError):
        read_request(data)


def test_a_job_table_may_come_between_batches() -> None:
    table = JobTable(full=True, last=True, unknown_jobs=[7])
    assert read_request(StreamRequest(job_table=table).SerializeToString()) == table


def test_a_hello_names_its_incarnations_and_its_boot() -> None:
    good = hello("oss1")
    assert read_hello(StreamRequest(hello=good).SerializeToString()) == good
    twice, short, unnamed, bootless = hello("oss1"), hello("oss1"), hello("oss1"), hello("oss1", boot_id="")
    twice.incarnations.append(twice.incarnations[0])
    short.incarnations[0].id = b"short"
    del unnamed.incarnations[:]
    for bad in (twice, short, unnamed, bootless):
        with pytest.raises(NonsenseError):
            read_hello(StreamRequest(hello=bad).SerializeToString())
