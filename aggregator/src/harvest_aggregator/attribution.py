"""Who does how much: what jobs did, added up by whoever is behind them."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from harvest_aggregator.catalogue import MEASURES, Catalogue, Integers
from harvest_aggregator.owners import Owned
from harvest_aggregator.people import GROUPINGS, People
from harvest_core.accounting.totals import JobWork
from harvest_core.facts import MDT

Json = dict[str, Any]

_RATES: Final = (*MEASURES, "metadata_ops")
_OWNERS: Final = ("account", "user")
"""By what all that is over is added up."""
NOTHING_DONE: Final[Json] = {"jobs": 0, **dict.fromkeys(MEASURES, 0), "rates": dict.fromkeys(_RATES, 0.0)}


def attributed(
    catalogue: Catalogue, people: People, numbers: Integers, by: str, filesystem: str | None = None
) -> list[Json]:
    """Return, for some jobs, each of those behind them and what all their jobs did; who does most now comes first."""
    persons, place_of = people.grouped(numbers, by)
    group = np.full(catalogue.count, -1, np.int64)
    group[numbers] = place_of
    totals = {measure: np.zeros(len(persons), np.int64) for measure in MEASURES}
    rates = {measure: np.zeros(len(persons)) for measure in _RATES}
    for part in catalogue.only(filesystem):
        mine = group[part.job]
        rows = np.flatnonzero(mine >= 0)
        for measure in MEASURES:
            np.add.at(totals[measure], mine[rows], part.measured(measure, rates=False, rows=rows))
            now = np.bincount(mine[rows], part.measured(measure, rates=True, rows=rows), len(persons))
            rates[measure] += now
            if measure == "iops" and part.kind == MDT:
                rates["metadata_ops"] += now
    jobs = np.bincount(place_of[place_of >= 0], minlength=len(persons))
    return _ordered(
        {
            "name": getattr(person, GROUPINGS[by][0]),
            **{name: getattr(person, name) for name in GROUPINGS[by]},
            "jobs": int(jobs[place]),
            **{measure: int(totals[measure][place]) for measure in MEASURES},
            "rates": {measure: float(numbers[place]) for measure, numbers in rates.items()},
        }
        for place, person in enumerate(persons)
    )


def with_finished(rows: list[Json], by: str, finished: Owned, filesystem: str | None = None) -> list[Json]:
    """Return the same rows with what is over, if that is known by whom it is asked for: so no total ever falls."""
    fields = GROUPINGS[by]
    if not set(fields) <= set(_OWNERS):
        return rows
    known = {tuple(row[name] for name in fields): {**row} for row in rows}
    for owner, amounts in finished.items():
        key = tuple(getattr(owner, name) or None for name in fields)
        if key[0] is None:
            continue
        row = known.setdefault(key, {"name": key[0], **dict(zip(fields, key, strict=True)), **NOTHING_DONE})
        for (place, _), counters in amounts.items():
            if filesystem in {None, place}:
                done = JobWork(counters=counters)
                for measure in MEASURES:
                    row[measure] += getattr(done, measure)
    return _ordered(known.values())


def _ordered(rows: Iterable[Json]) -> list[Json]:
    """Return rows in order: who does most now, then who did most in all."""

    def weight(row: Json) -> tuple[float, ...]:
        rates = row["rates"]
        return -(rates["read_bytes"] + rates["write_bytes"]), -rates["iops"], -(row["read_bytes"] + row["write_bytes"])

    return sorted(rows, key=weight)
