"""What a relay sends: of a closed sweep, the nodes of one cluster on some file systems. Pure."""

from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from harvest.v1.stream_pb2 import RelayHead
from harvest_aggregator.clients import ClientTables
from harvest_aggregator.published import Published
from harvest_aggregator.relays.earlier import Held
from harvest_aggregator.relays.pictures import COUNTS, KINDS, MEASURES, NONE_EVER, NUMBERS, PROTOCOL, Picture
from harvest_core.accounting.mounts import Integers
from harvest_core.accounting.sweeps import ClosedTable, Floats
from harvest_site.clusters import Cluster


class Needed(NamedTuple):
    """What of a sweep may be sent."""

    tables: Mapping[str, ClientTables]
    missing: AbstractSet[str]
    """File systems with targets that had not reported."""


def needed(published: Published, filesystems: Collection[str]) -> Needed:
    """Return what is needed of a sweep to tell the nodes of some file systems."""
    missing = () if published.closed is None else published.closed.missing
    return Needed(
        {name: tables for name, tables in published.client_tables.items() if name in filesystems},
        frozenset(place.filesystem for place in missing),
    )


def head(*, software: str, site: str, cluster: Cluster, filesystem: str, period_seconds: int) -> RelayHead:
    """Return what is said of a file system at every tick."""
    return RelayHead(
        protocol=PROTOCOL,
        software=software,
        site=site,
        cluster=cluster.name,
        filesystem=filesystem,
        hops=1,  # the site may name no other file systems than those whose servers report to it
        period_seconds=period_seconds,
        lnets=cluster.lnets,
        nids=cluster.nids,
    )


def pictures(
    sweep: Needed, heads: Mapping[str, RelayHead], is_own: Callable[[str], bool], told: Mapping[str, int]
) -> Iterator[Picture]:
    """Return what is to be told of each file system: all nodes of the cluster, if that is not what was told last.

    ``heads`` are by file system, and so are the ticks that were told.
    """
    for name, head in heads.items():
        tables = sweep.tables.get(name)
        if tables is not None and tables.tick_seconds != told.get(name):
            present = RelayHead()
            present.CopyFrom(head)
            present.tick_seconds = tables.tick_seconds
            present.complete = name not in sweep.missing
            yield _picture(tables, present, is_own)


def totals_of(told: ClientTables) -> Held:
    """Return the totals of all nodes."""
    everybody = _picture(told, RelayHead(), lambda _: True)
    return dict(zip(everybody.nids, map(tuple, everybody.totals.tolist()), strict=True))


def _picture(told: ClientTables, head: RelayHead, is_own: Callable[[str], bool]) -> Picture:
    everybody = dict.fromkeys(nid for table in told.tables.values() for nid in table.jobs if nid not in told.servers)
    mine = {nid: text for nid in everybody if is_own(text := nid.decode("utf-8", "replace"))}
    place = {nid: at for at, nid in enumerate(mine)}
    totals = np.full((len(mine), NUMBERS), NONE_EVER, np.int64)
    rates = np.zeros((len(mine), NUMBERS))
    for at, kind in enumerate(KINDS):
        if (table := told.tables.get(kind)) is not None:
            rows = [row for row, nid in enumerate(table.jobs) if nid in place]
            places = [place[table.jobs[row]] for row in rows]
            some = slice(at * len(MEASURES), (at + 1) * len(MEASURES))
            totals[places, some], rates[places, some] = _measured(table, rows)
    return Picture(
        head=head,
        nids=tuple(mine.values()),
        live=frozenset(text for nid, text in mine.items() if nid in told.live),
        totals=totals,
        rates=rates,
    )


def _measured(table: ClosedTable, rows: list[int]) -> tuple[Integers, Floats]:
    """Return totals and rates of some rows, by measure."""
    totals = np.full((len(rows), len(MEASURES)), NONE_EVER, np.int64)
    rates = np.zeros(totals.shape)
    samples = table.samples[rows]
    for at, (measure, counts) in enumerate(zip(MEASURES, COUNTS, strict=True)):
        columns = [column for column, counter in enumerate(table.counters) if counts(counter)]
        is_operations = measure == "operations"
        numbers, per_second = (
            (samples, table.sample_rates[rows]) if is_operations else (table.sums[rows], table.sum_rates[rows])
        )
        # who moved data did no operations, which is known; who did neither was never there
        is_known = samples[:, slice(None) if is_operations else columns].any(axis=1)
        totals[is_known, at] = numbers[is_known][:, columns].sum(axis=1)
        rates[is_known, at] = per_second[is_known][:, columns].sum(axis=1)
    return totals, rates
