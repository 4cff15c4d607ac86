"""jobHarvest's five views, with its names and meanings."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from harvest_aggregator.catalogue import MEASURES, Catalogue, Integers, Numbers, Part, added
from harvest_aggregator.jobs import operations
from harvest_core.accounting.mounts import NEVER
from harvest_core.facts import MDT, OST

Json = dict[str, Any]
_SERVERS: Final = {"oss": OST, "mds": MDT}
"""As jobHarvest calls the two kinds."""


def totals(parts: tuple[Part, ...], chosen: Integers) -> list[Json]:
    """Return, by job, what it ever did: file system, kind of server, field."""
    return _whole(parts, chosen, rates=False)


def rates(parts: tuple[Part, ...], chosen: Integers) -> list[Json]:
    """Return the same per second."""
    return _whole(parts, chosen, rates=True)


def short(parts: tuple[Part, ...], chosen: Integers) -> list[Json]:
    """Return, by job, the rates that matter on every file system there is, zeros included."""
    names = list(dict.fromkeys(part.filesystem for part in parts))
    columns = [supershort(tuple(part for part in parts if part.filesystem == name), chosen) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def supershort(parts: tuple[Part, ...], chosen: Integers) -> list[Json]:
    """Return, by job, the same rates summed over file systems."""
    columns = [_measured([part for part in parts if part.kind == kind], chosen) for kind in _SERVERS.values()]
    return [
        {server: dict(zip(MEASURES, values, strict=True)) for server, values in zip(_SERVERS, row, strict=True)}
        for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


BY_JOB: Final[Mapping[str, Callable[[tuple[Part, ...], Integers], list[Json]]]] = {
    "totals": totals,
    "rates": rates,
    "short": short,
    "supershort": supershort,
}


def filesystems(catalogue: Catalogue) -> Json:
    """Return the rates of file systems, summed over jobs."""
    shown: Json = {}
    for part in catalogue.parts:
        server = next(name for name, kind in _SERVERS.items() if kind == part.kind)
        shown.setdefault(part.filesystem, {name: dict.fromkeys(MEASURES, 0.0) for name in _SERVERS})[server] = {
            measure: part.total(measure, rates=True) for measure in MEASURES
        }
    return shown


def add_former(shown: Json, former: Json, filesystem: str | None) -> None:
    """Add to a job's totals what it had done when its record was written."""
    for name, kinds in former["filesystems"].items():
        for server, kind in _SERVERS.items():
            work = kinds[kind.lower()]
            counts = {measure: work[measure] for measure in MEASURES}
            counts |= {op: counted["samples"] for op, counted in work["ops"].items() if op not in MEASURES}
            if filesystem in {None, name} and any(counts.values()):
                fields = shown.setdefault(name, {}).setdefault(server, {"snapshot_time": former["last_tick_seconds"]})
                fields.update({op: fields.get(op, 0) + count for op, count in counts.items()})


def _whole(parts: tuple[Part, ...], chosen: Integers, *, rates: bool) -> list[Json]:
    shown: list[Json] = [{} for _ in range(len(chosen))]
    for part in parts:
        rows = part.row[chosen]
        here = np.flatnonzero(rows >= 0)
        server = next(name for name, kind in _SERVERS.items() if kind == part.kind)
        for place, fields in zip(here.tolist(), _fields(part, rows[here], rates=rates), strict=True):
            shown[place].setdefault(part.filesystem, {})[server] = fields
    return shown


def _fields(part: Part, rows: Integers, *, rates: bool) -> Iterable[Json]:
    """Return, by row, the measures, how often every other operation was done, and when anything was last."""
    counts: Numbers = (part.table.sample_rates if rates else part.table.samples)[rows]
    others = {name: one for name, one in operations(part.table.counters).items() if name not in MEASURES}
    columns = [part.measured(measure, rates=rates, rows=rows).tolist() for measure in MEASURES]
    columns += [added(counts, operation.columns).tolist() for operation in others.values()]
    for tick, row in zip(part.table.last_tick[rows].tolist(), zip(*columns, strict=True), strict=True):
        fields = dict(zip((*MEASURES, *others), row, strict=True))
        done = {name: value for name, value in fields.items() if value or name in MEASURES}
        yield {**done, "snapshot_time": None if tick == NEVER else tick}


def _measured(parts: Iterable[Part], chosen: Integers) -> NDArray[np.float64]:
    """Return the rates of jobs, a column for each measure, summed over parts."""
    rates = np.zeros((len(chosen), len(MEASURES)))
    for part in parts:
        rows = part.row[chosen]
        here = np.flatnonzero(rows >= 0)
        for column, measure in enumerate(MEASURES):
            rates[here, column] += part.measured(measure, rates=True, rows=rows[here])
    return rates
