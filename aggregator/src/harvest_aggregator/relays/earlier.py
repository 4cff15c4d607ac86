"""What nodes had done before anybody here could know when: it is in totals, and no counter shows it. Pure."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from harvest.v1.stream_pb2 import RelayHead
from harvest_aggregator.relays.pictures import COUNTS, KINDS, NUMBERS, Picture
from harvest_core.accounting.apply import Work
from harvest_core.accounting.totals import counts_operations
from harvest_core.lustre.names import parse_nid
from harvest_site.nids import NidRange

Held = Mapping[str, tuple[int, ...]]
"""Six numbers of each node."""
FORGOTTEN: Final = ""
"""In the place of a NID: all those together of whom nothing is held any more."""
_NOTHING: Final = (0,) * NUMBERS


class Reach(NamedTuple):
    """Whose nodes a head hears of: those that the sender tells, on networks that the head accepts."""

    lnets: tuple[str, ...] = ()
    nids: tuple[str, ...] = ()
    """With no networks and no ranges, as older senders have it: all."""
    accepted: tuple[str, ...] = ()
    """None, as in older ledgers: all."""

    def beyond(self, nids: Iterable[str]) -> list[str]:
        """Return those nodes that are out of reach."""
        ranges = [NidRange.parse(text) for text in self.nids]

        def is_told(nid: str, network: str) -> bool:
            return network in self.lnets or any(one.contains(nid) for one in ranges)

        found = []
        for nid in nids:
            parsed = parse_nid(nid)
            network = "" if parsed is None else parsed.network
            is_accepted = not self.accepted or network in self.accepted
            if not is_accepted or ((self.lnets or ranges) and not is_told(nid, network)):
                found.append(nid)
        return found


def reach_of(head: RelayHead, accepted: Iterable[str]) -> Reach:
    """Return whose nodes a call tells, as far as they are accepted."""
    return Reach(tuple(head.lnets), tuple(head.nids), tuple(accepted))


def of_strangers(held: Held, before: Reach, picture: Picture) -> Held:
    """Return what nodes had done that are told for the first time and were out of reach until now.

    Whoever was within reach and was not told is new to the sender itself: all it did, it did since.
    """
    strangers = set(before.beyond(nid for nid in picture.nids if nid not in held))
    rows = zip(picture.nids, picture.totals.tolist(), strict=True)
    return {nid: _known(totals) for nid, totals in rows if nid in strangers}


def less_forgotten(earlier: Held, before: Held, held: Held) -> Held:
    """Return what is earlier when some are held no more: what counters had of them stays in the sum of all."""
    gone = before.keys() - held.keys()
    found = {nid: numbers for nid, numbers in earlier.items() if nid not in gone}
    if gone:
        done = [_less(earlier.get(nid, _NOTHING), _known(before[nid])) for nid in gone]
        found[FORGOTTEN] = tuple(map(sum, zip(earlier.get(FORGOTTEN, _NOTHING), *done, strict=True)))
    return found


def moved(former: Held, earlier: Held, now: Held) -> Held:
    """Return what is earlier when totals come from elsewhere: with it, counters go on where the former totals end."""
    found = {}
    for nid in {**former, **earlier, **now}:
        shown = _less(_known(former.get(nid, _NOTHING)), earlier.get(nid, _NOTHING))
        found[nid] = _less(_known(now.get(nid, _NOTHING)), shown)
    return {nid: numbers for nid, numbers in found.items() if any(numbers)}


def beside(held: Held, earlier: Held, told: Collection[str]) -> dict[bytes, tuple[int, ...]]:
    """Return what the totals of nodes are to be lessened by; who is not told of any more has as much as it had."""
    here = set(told)
    found = {nid: numbers for nid, numbers in earlier.items() if nid in here or nid not in held}
    for nid in held.keys() - here:
        found[nid] = _less(earlier.get(nid, _NOTHING), _known(held[nid]))
    return {nid.encode(): numbers for nid, numbers in found.items()}


def of_read(kind: str, work: Work) -> Held:
    """Return what nodes did on a target until it was read."""
    assert work.mount is not None  # noqa: S101 - a read that was applied
    mount, counters = work.mount, list(work.mount.counters)
    numbers = np.zeros((len(mount.jobs), NUMBERS), np.int64)
    for at, counts in enumerate(COUNTS, KINDS.index(kind) * len(COUNTS)):
        is_counted = np.array([counts(counter) for counter in counters], np.bool_)[work.column]
        amounts = work.samples if counts is counts_operations else work.sum
        np.add.at(numbers[:, at], work.row[is_counted], amounts[is_counted])
    clients = np.flatnonzero(numbers.any(axis=1) & ~mount.is_server[: len(numbers)])
    return {mount.jobs[row].decode("utf-8", "replace"): tuple(numbers[row].tolist()) for row in clients}


def plus(earlier: Held, more: Iterable[Held]) -> Held:
    """Return all together."""
    found = {**earlier}
    for nid, numbers in chain.from_iterable(one.items() for one in more):
        found[nid] = tuple(map(sum, zip(numbers, found.get(nid, _NOTHING), strict=True)))
    return found


def _known(totals: Iterable[int]) -> tuple[int, ...]:
    return tuple(max(total, 0) for total in totals)


def _less(some: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(one - less for one, less in zip(some, other, strict=True))
