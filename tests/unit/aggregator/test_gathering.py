import pytest

from harvest.v1.stream_pb2 import Batch
from harvest_aggregator import gathering
from harvest_aggregator.gathering import Gathering, Sweep
from harvest_aggregator.refusals import NonsenseError
from support.uplinks import sweep

LATER = b"j" * 16


def gathered(*batches: Batch, unwanted: str = "") -> list[Sweep]:
    here = Gathering()
    came = [
        here.add(one.SerializeToString(), one, wanted=one.target.name != unwanted or not unwanted) for one in batches
    ]
    return [one for one in came if one is not None]


def test_a_sweep_is_whole_with_its_end() -> None:
    batches = [*sweep(1, "a-OST0000", "a-OST0001", parts=2), *sweep(3), *sweep(1, incarnation=LATER)]
    whole = gathered(*batches)
    assert [(one.incarnation, one.seq) for one in whole] == [(b"i" * 16, 1), (b"i" * 16, 3), (LATER, 1)]
    assert [read for one in whole for _, read in one.batches] == batches
    assert sum(one.size_bytes for one in whole) == sum(map(Batch.ByteSize, batches))


def test_what_is_not_wanted_is_left_out_and_checked_all_the_same() -> None:
    (whole,) = gathered(*sweep(1, "a-OST0000", "b-OST0000", parts=2), unwanted="a-OST0000")
    assert [read.target.name for _, read in whole.batches] == ["b-OST0000", "b-OST0000", ""]
    with pytest.raises(NonsenseError):
        gathered(*sweep(1, "a-OST0000", parts=3)[1:], unwanted="a-OST0000")


def test_a_target_may_also_have_its_clients_read() -> None:
    first, last = sweep(1, "a-OST0000")
    clients = Batch()
    clients.CopyFrom(first)
    clients.exports.SetInParent()
    (whole,) = gathered(first, clients, last)
    assert len(whole.batches) == 3
    with pytest.raises(NonsenseError):
        gathered(first, clients, clients)


TWO = sweep(1, "a-OST0000", "a-OST0001", parts=2)


@pytest.mark.parametrize(
    "batches",
    [
        [Batch(seq=1)],
        [Batch(incarnation=LATER)],
        [Batch(incarnation=LATER, seq=1)],
        [*sweep(2), *sweep(2)],
        [TWO[0], *sweep(2)],
        [TWO[0], *sweep(1, incarnation=LATER)],
        [TWO[1]],
        [TWO[0], TWO[0]],
        [TWO[0], TWO[2]],
        [TWO[0], TWO[4]],
        [TWO[0], TWO[1], TWO[0]],
        [Batch(incarnation=LATER, seq=1, last_of_sweep=True, target=TWO[0].target)],
    ],
)
def test_what_is_out_of_order_is_refused(batches: list[Batch]) -> None:
    with pytest.raises(NonsenseError):
        gathered(*batches)


def test_a_sweep_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SWEEP_BYTES_MAX", 100)
    with pytest.raises(NonsenseError, match="sweep 1 has more than"):
        gathered(*sweep(1, "a-OST0000", "a-OST0001"), unwanted="a-OST0000")
