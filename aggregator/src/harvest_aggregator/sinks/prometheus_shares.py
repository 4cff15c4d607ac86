"""From a closed sweep to what is known of users, whose the jobs are, and of clients, where they run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from harvest_aggregator.catalogue import MEASURES, Catalogue, Integers, added
from harvest_aggregator.clients import Client
from harvest_aggregator.published import Published
from harvest_aggregator.showing import Column
from harvest_aggregator.sinks.prometheus_series import Done, Picture, Series, Subject, Totals
from harvest_aggregator.sinks.prometheus_totals import OPERATIONS, RATED, READ, WRITE, busiest, gathered, numbers_of
from harvest_core.accounting.totals import Counter
from harvest_core.facts import MDT, OST


class _Share(NamedTuple):
    """What some did on one file system."""

    who: list[Subject]
    columns: tuple[Column, ...]
    table: Integers
    """By subject and column."""


def _picture(
    shares: Sequence[_Share],
    *,
    new: Iterable[Subject],
    is_over: Callable[[Subject], bool],
    scopes: frozenset[str],
    scope: Callable[[Column], str],
    labels: Callable[[Subject], tuple[str, ...]] = lambda _: (),
    waits: bool = False,
    nameless: Sequence[Subject] = (),
) -> Picture:
    def totals(series: Series) -> Totals:
        return gathered(
            (numbers_of(series, share.who), [series.column(column) for column in share.columns], share.table)
            for share in shares
        )

    return Picture(
        totals=totals,
        everybody={
            column: total
            for share in shares
            for column, total in zip(share.columns, share.table.sum(axis=0).tolist(), strict=True)
        },
        new=new,
        is_over=is_over,
        begin=partial(_done, shares),
        scopes=scopes,
        scope=scope,
        labels=labels,
        waits=waits,
        nameless=nameless,
    )


def _done(shares: Sequence[_Share], subjects: Sequence[Subject]) -> Done:
    found: dict[Subject, dict[Column, int]] = {subject: {} for subject in subjects}
    for share in shares:
        for at, subject in enumerate(share.who):
            if subject in found:
                pairs = zip(share.columns, share.table[at].tolist(), strict=True)
                found[subject].update((column, total) for column, total in pairs if total)
    return found


_KINDS: Final = (OST, MDT)
_MEASURED: Final = ((READ, ""), (WRITE, ""), *((OPERATIONS, kind.lower()) for kind in _KINDS))
"""What is shown of users and clients: a metric, and a component where it is told apart."""


def _columns_of(kind: str) -> tuple[int, int, int]:
    """Return where of these what a kind of target counts belongs: read, written, operations."""
    return 0, 1, 2 + _KINDS.index(kind)


def users(published: Published, catalogue: Catalogue, *, everybody: bool) -> Picture:
    """Return what jobs did, by whose they are; a column is (file system, cluster, metric, component)."""
    owners = {name: owner for name, owner in published.owners.items() if name in catalogue.number}
    owned = {owner: amounts for owner, amounts in published.owned.items() if not owner.outside}
    present = list(dict.fromkeys([*owners.values(), *owned]))
    place = {owner: at for at, owner in enumerate(present)}
    owner_of = np.full(catalogue.count, -1, np.int64)
    for name, owner in owners.items():
        owner_of[catalogue.number[name]] = place[owner]
    here = {part.filesystem for part in catalogue.parts}
    tables = {filesystem: np.zeros((len(present), len(_MEASURED)), np.int64) for filesystem in here}
    rates = np.zeros((2, len(present)))
    for part in catalogue.parts:
        rows = np.flatnonzero(owner_of[part.job] >= 0)
        mine = owner_of[part.job[rows]]
        for measure, column in zip(MEASURES, _columns_of(part.kind), strict=True):
            np.add.at(tables[part.filesystem][:, column], mine, part.measured(measure, rates=False, rows=rows))
            np.add.at(rates[RATED[measure]], mine, part.measured(measure, rates=True, rows=rows))
        for owner, amounts in owned.items():
            _add_amounts(
                tables[part.filesystem][place[owner]], amounts.get((part.filesystem, part.kind), {}), part.kind
            )
    names: list[Subject] = [(owner.account, owner.user) for owner in present]
    clusters = {name for name, facts in published.clusters.items() if facts.jobs} | {one.cluster for one in present}
    shares = []
    for filesystem, table in tables.items():
        for cluster in clusters:
            of = [at for at, owner in enumerate(present) if owner.cluster == cluster]
            columns = tuple((filesystem, cluster, *measured) for measured in _MEASURED)
            shares.append(_Share([names[at] for at in of], columns, table[of]))
    active = {(owner.account, owner.user) for owner in owners.values()}
    return _picture(
        shares,
        new=dict.fromkeys(names) if everybody else dict.fromkeys(names[at] for at in busiest(rates)),
        is_over=lambda subject: subject not in active,
        scopes=frozenset(f"{filesystem} {cluster}" for filesystem in here for cluster in clusters),
        scope=lambda column: " ".join(column[:2]),
    )


def _add_amounts(row: Integers, counters: Mapping[Counter, tuple[int, int]], kind: str) -> None:
    for (measure, counts), column in zip(MEASURES.items(), _columns_of(kind), strict=True):
        for counter, (samples, total) in counters.items():
            if counts(counter):
                row[column] += samples if measure == "iops" else total


def clients(published: Published, named: Callable[[Client], tuple[str, ...] | None], *, everybody: bool) -> Picture:
    """Return what clients did, by NID; a column is (file system, metric, component).

    Who has no name yet is not shown yet, but among the others.
    """
    known = {client.nid: client for client in published.clients}
    shares = []
    for filesystem, told in published.client_tables.items():
        somewhere = chain(*(table.jobs for table in told.tables.values()), told.earlier)
        nids = dict.fromkeys(nid for nid in somewhere if nid not in told.servers)
        place = {nid: at for at, nid in enumerate(nids)}
        numbers = np.zeros((len(nids), len(_MEASURED)), np.int64)
        for kind, table in told.tables.items():
            rows = [row for row, nid in enumerate(table.jobs) if nid in place]
            places = [place[table.jobs[row]] for row in rows]
            for (measure, counts), column in zip(MEASURES.items(), _columns_of(kind), strict=True):
                columns = [number for number, counter in enumerate(table.counters) if counts(counter)]
                numbers[places, column] += added((table.samples if measure == "iops" else table.sums)[rows], columns)
        lessened = [nid for nid in told.earlier if nid in place]
        earlier = np.array([told.earlier[nid] for nid in lessened], np.int64).reshape(-1, len(_KINDS), len(MEASURES))
        for at, kind in enumerate(_KINDS):
            numbers[np.ix_([place[nid] for nid in lessened], _columns_of(kind))] -= earlier[:, at]
        who: list[Subject] = [nid.decode("utf-8", "replace") for nid in nids]
        shares.append(_Share(who, tuple((filesystem, *measured) for measured in _MEASURED), numbers))
    found = list(known.values())
    rates = np.zeros((2, len(found)))
    for at, client in enumerate(found):
        for one in client.filesystems.values():
            rates[0, at] += (one.read_bytes or 0) + (one.write_bytes or 0)
            rates[1, at] += (one.oss_ops or 0) + (one.mds_ops or 0)
    order = range(len(found)) if everybody else busiest(rates)
    nameless = {client.nid for client in found if named(client) is None}
    return _picture(
        shares,
        new=(found[at].nid for at in order if found[at].nid not in nameless),
        is_over=lambda subject: subject not in known or not known[str(subject)].is_live,
        scopes=frozenset(published.client_tables),
        scope=lambda column: column[0],
        labels=lambda subject: named(known[str(subject)]) or (),
        nameless=sorted(nameless) if everybody else (),
        waits=True,  # with a link that is cut all nodes of a file system are gone at once, and none of them is over
    )
