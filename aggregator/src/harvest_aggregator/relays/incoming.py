"""What is taken in of what relays send: whose nodes, of which file systems, and which totals. Pure."""

from collections.abc import Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from harvest.v1.stream_pb2 import RelayedFilesystem, RelayHead, RelayRefusal, RelayRefusalReason
from harvest_aggregator.clients import ClientTables
from harvest_aggregator.relays.earlier import Held, Reach, beside, reach_of
from harvest_aggregator.relays.pictures import KINDS, MEASURES, NODES_MAX, NONE_EVER, NUMBERS, Picture
from harvest_core.accounting.mounts import NEVER, Integers
from harvest_core.accounting.sweeps import ClosedTable, Floats
from harvest_core.lustre.names import parse_nid
from harvest_site.model import Accept, Site

LOCAL: Final = RelayRefusalReason.RELAY_REFUSAL_REASON_LOCAL
FILESYSTEM: Final = RelayRefusalReason.RELAY_REFUSAL_REASON_FILESYSTEM
HOPS: Final = RelayRefusalReason.RELAY_REFUSAL_REASON_HOPS
NODES: Final = RelayRefusalReason.RELAY_REFUSAL_REASON_NODES
PROTOCOL: Final = RelayRefusalReason.RELAY_REFUSAL_REASON_PROTOCOL
_NEAR_PERIODS: Final = 3
"""A tick that is further away is nobody's present: its totals count, its rates do not."""
_COUNTERS: Final = (("read_bytes", "bytes"), ("write_bytes", "bytes"), ("operations", "reqs"))
"""By measure."""


class Verdict(NamedTuple):
    """What of a picture is taken, and why the rest is not."""

    taken: Picture | None
    refusals: tuple[RelayRefusal, ...] = ()


def judged(picture: Picture, sender: str, site: Site) -> Verdict:
    """Decide what of a picture a site takes in."""
    head = picture.head
    name = head.filesystem
    if name in {one.name for one in site.spec.filesystems}:
        return _refused(LOCAL, f"{name!a} is a file system of this site itself: take it out of the relay")
    accept = accepting(name, sender, site)
    if accept is None:
        return _refused(
            FILESYSTEM,
            f"{name!a} is not taken from relay {sender}: add it to the `filesystems` of its `accepts`, or take it out "
            "of the relay",
        )
    if head.hops != 1:
        return _refused(HOPS, f"{name!a} came over {head.hops} relays: only the site whose servers it has may send it")
    return _of_networks(picture, accept)


def accepting(filesystem: str, sender: str, site: Site) -> Accept | None:
    """Return the words with which a site takes in a file system from a relay, if it does."""
    return next((one for one in site.spec.accepts if one.name == sender and filesystem in one.filesystems), None)


def _of_networks(picture: Picture, accept: Accept) -> Verdict:
    inside = np.array([_network(nid) in accept.lnets for nid in picture.nids], np.bool_)
    if inside.all():
        return Verdict(picture)
    outside = [nid for nid, is_inside in zip(picture.nids, inside, strict=True) if not is_inside]
    refusal = RelayRefusal(
        reason=NODES,
        message=f"{len(outside)} nodes of {picture.head.filesystem!a} are on none of the networks "
        f"{', '.join(accept.lnets)} that relay {accept.name} may report, such as {outside[0]}: correct the cluster's "
        "`lnets` or `nids` there, or the `lnets` of `accepts` here",
    )
    if not inside.any():
        return Verdict(None, (refusal,))
    nids = tuple(nid for nid, is_inside in zip(picture.nids, inside, strict=True) if is_inside)
    taken = Picture(
        head=picture.head,
        nids=nids,
        live=picture.live.intersection(nids),
        totals=picture.totals[inside],
        rates=picture.rates[inside],
    )
    return Verdict(taken, (refusal,))


def _network(nid: str) -> str | None:
    parsed = parse_nid(nid)
    return None if parsed is None else parsed.network


def _refused(reason: RelayRefusalReason.ValueType, message: str) -> Verdict:
    return Verdict(None, (RelayRefusal(reason=reason, message=message),))


class Kept(NamedTuple):
    """What outlives a receiver, of one file system."""

    held: Held
    """The highest totals that were ever told of each node."""
    tick_seconds: int
    """Of the latest picture that changed anything; 0 where that was not written down."""
    reach: Reach = Reach()
    """Whose nodes it told."""
    earlier: Held = MappingProxyType({})
    """What of each node's totals no counter shows; of some it is less than nothing, which they did elsewhere."""
    is_local: bool = False
    """Whether agents of this site read the file system now: then what is earlier is of their totals."""


def dump(kept: Kept) -> bytes:
    """Return what is kept as bytes that ``load`` reads."""
    lnets, nids, accepted = kept.reach
    return RelayedFilesystem(
        head=RelayHead(tick_seconds=kept.tick_seconds, lnets=lnets, nids=nids),
        nid=list(kept.held),
        total=list(chain.from_iterable(kept.held.values())),
        accepted_lnets=accepted,
        earlier_nid=list(kept.earlier),
        earlier_total=list(chain.from_iterable(kept.earlier.values())),
        is_local=kept.is_local,
    ).SerializeToString()


def load(payload: bytes) -> Kept:
    """Read what was dumped; raises ValueError."""
    message = RelayedFilesystem.FromString(payload)
    return Kept(
        _by_node(message.nid, message.total),
        message.head.tick_seconds,
        reach_of(message.head, message.accepted_lnets),
        _by_node(message.earlier_nid, message.earlier_total),
        message.is_local,
    )


def _by_node(nids: Sequence[str], numbers: Sequence[int]) -> Held:
    rows = np.array(numbers, np.int64).reshape(len(nids), NUMBERS)
    return dict(zip(nids, map(tuple, rows.tolist()), strict=True))


class Merged(NamedTuple):
    """What is held from now on, and what is shown of the nodes of a picture."""

    held: Held
    totals: Integers
    """By node of the picture."""
    lower: int
    """So many nodes were told with less than before: what was told before stands until it is passed."""


def merged(held: Held, picture: Picture) -> Merged:
    """Take in a picture. No total ever falls: one that is lower is a sender's that was restored, never a new life."""
    nothing = (NONE_EVER,) * NUMBERS
    before = np.array([held.get(nid, nothing) for nid in picture.nids], np.int64).reshape(-1, NUMBERS)
    totals = np.maximum(before, picture.totals)
    lower = int((picture.totals < before).any(axis=1).sum())
    told = dict(zip(picture.nids, map(tuple, totals.tolist()), strict=True))
    kept = {**{nid: one for nid, one in held.items() if nid not in told}, **told}  # who was told last comes last
    for nid in list(kept)[: max(len(kept) - NODES_MAX, 0)]:
        del kept[nid]
    return Merged(kept, totals, lower)


def is_present(head: RelayHead, now_seconds: float) -> bool:
    """Tell whether rates of this tick say something about now."""
    return abs(now_seconds - head.tick_seconds) <= _NEAR_PERIODS * head.period_seconds


def is_overtaken(head: RelayHead, latest_tick: int, now_seconds: float) -> bool:
    """Tell whether a later picture came before this one, unless that was of a clock which was ahead."""
    return head.tick_seconds < latest_tick <= now_seconds + _NEAR_PERIODS * head.period_seconds


def tables(picture: Picture, totals: Integers, kept: Kept) -> ClientTables:
    """Return a picture as clients of a file system of the site itself are told, with these totals."""
    jobs = tuple(nid.encode() for nid in picture.nids)
    size = len(MEASURES)
    return ClientTables(
        tables={
            kind: _table(jobs, totals[:, at * size : (at + 1) * size], picture.rates[:, at * size : (at + 1) * size])
            for at, kind in enumerate(KINDS)
        },
        servers=frozenset(),
        tick_seconds=picture.head.tick_seconds,
        live=frozenset(nid.encode() for nid in picture.live),
        earlier=beside(kept.held, kept.earlier, picture.nids),
    )


def _table(jobs: tuple[bytes, ...], totals: Integers, rates: Floats) -> ClosedTable:
    """Return the nodes on one kind of target; of how many calls bytes were moved is not told, only whether by any."""
    is_bytes = np.array([unit == "bytes" for _, unit in _COUNTERS])
    known = np.maximum(totals, 0)
    nobody_knows = np.full(len(jobs), NEVER, np.int64)
    return ClosedTable(
        jobs=jobs,
        counters=_COUNTERS,
        samples=np.where(is_bytes, (totals != NONE_EVER).astype(np.int64), known),
        sums=np.where(is_bytes, known, 0),
        sample_rates=np.where(is_bytes, 0.0, rates),
        sum_rates=np.where(is_bytes, rates, 0.0),
        last_tick=nobody_knows,
        snapshot_seconds=nobody_knows,
        first_tick=nobody_knows,
        changed_tick=nobody_knows,
        _rows={job: row for row, job in enumerate(jobs)},
    )
