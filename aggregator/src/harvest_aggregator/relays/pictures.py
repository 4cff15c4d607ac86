"""What the nodes of one cluster did on one file system, as the wire tells it. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harvest.v1.stream_pb2 import RelayHead, RelayRequest
from harvest_core.accounting.mounts import Integers
from harvest_core.accounting.sweeps import Floats
from harvest_core.accounting.totals import counts_operations, counts_read_bytes, counts_written_bytes
from harvest_core.facts import MDT, OST
from harvest_core.lustre.names import parse_nid
from harvest_site.nids import NidRange

PROTOCOL: Final = 1
KINDS: Final = (OST, MDT)
MEASURES: Final = ("read_bytes", "write_bytes", "operations")
COUNTS: Final = (counts_read_bytes, counts_written_bytes, counts_operations)
"""Which counters add to each measure."""
NUMBERS: Final = len(KINDS) * len(MEASURES)
"""Of each node: by kind of target, by measure."""
NONE_EVER: Final = -1
"""In the place of a total: nothing of the kind was ever counted."""
NODES_MAX: Final = 1 << 18
"""On one file system, by one relay."""
_PART_NODES: Final = 16_384
"""At most 3.5 MB, whatever the numbers."""
_NID_CHARACTERS_MAX: Final = 100
_RANGES_MAX: Final = 100
"""More than a cluster may have."""


class PictureError(Exception):
    """What came is nothing that a relay would say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picture:
    """All nodes at one tick, each once."""

    head: RelayHead
    nids: tuple[str, ...]
    live: frozenset[str]
    totals: Integers
    """Rows are nodes."""
    rates: Floats
    """Likewise, per second at the tick."""


def parts(picture: Picture) -> Iterator[RelayRequest]:
    """Return the messages that tell a picture: one at least, each of a size that is taken."""
    for first in range(0, max(len(picture.nids), 1), _PART_NODES):
        some = slice(first, first + _PART_NODES)
        yield RelayRequest(
            head=None if first else picture.head,
            nid=picture.nids[some],
            live=[nid in picture.live for nid in picture.nids[some]],
            total=picture.totals[some].ravel().tolist(),
            rate=picture.rates[some].ravel().tolist(),
        )


def put_together(messages: Sequence[RelayRequest]) -> Picture:
    """Return the picture that messages tell; raises PictureError."""
    if not messages or not messages[0].HasField("head") or any(one.HasField("head") for one in messages[1:]):
        raise PictureError("the first message of a call, and only that one, says what it is about")
    head = messages[0].head
    if head.protocol != PROTOCOL:
        raise PictureError(f"it speaks protocol {head.protocol}, and this aggregator {PROTOCOL}: update the older one")
    if head.tick_seconds <= 0 or head.period_seconds <= 0:
        raise PictureError("it has no tick, or no period")
    if len(head.lnets) > _RANGES_MAX or not _can_be_read(head.nids):
        raise PictureError("it tells of nodes in ranges that cannot be read, or on more networks than there are")
    nids = tuple(nid for one in messages for nid in one.nid)
    if len(nids) > NODES_MAX:
        raise PictureError(f"{len(nids)} nodes are more than the {NODES_MAX} that are taken")
    if len(set(nids)) != len(nids) or any(_is_strange(nid) for nid in nids):
        raise PictureError("a node is there twice, or has no NID that could be")
    live = [is_live for one in messages for is_live in one.live]
    totals = _numbers((one.total for one in messages), np.int64, len(nids))
    rates = _numbers((one.rate for one in messages), np.float64, len(nids))
    if len(live) != len(nids) or (totals < NONE_EVER).any() or not np.isfinite(rates).all() or (rates < 0).any():
        raise PictureError("its numbers cannot be: a node has too few, or one is below zero")
    here = frozenset(nid for nid, is_live in zip(nids, live, strict=True) if is_live)
    return Picture(head=head, nids=nids, live=here, totals=totals, rates=rates)


def _can_be_read(ranges: Sequence[str]) -> bool:
    try:
        return len(list(map(NidRange.parse, ranges))) <= _RANGES_MAX
    except ValueError:
        return False


def _is_strange(nid: str) -> bool:
    return len(nid) > _NID_CHARACTERS_MAX or parse_nid(nid) is None


def _numbers(columns: Iterable[Iterable[float]], kind: type[np.generic], nodes: int) -> NDArray[Any]:
    numbers = np.array([number for column in columns for number in column], kind)
    if len(numbers) != nodes * NUMBERS:
        raise PictureError(f"{len(numbers)} numbers are not {NUMBERS} of each of {nodes} nodes")
    return numbers.reshape(nodes, NUMBERS)
