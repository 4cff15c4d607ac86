"""Who does how much: what jobs did, added up by whoever is behind them."""

from typing import Any

import numpy as np

from harvest_aggregator.catalogue import MEASURES, Catalogue, Integers
from harvest_aggregator.people import GROUPINGS, People
from harvest_core.facts import MDT

Json = dict[str, Any]


def attributed(
    catalogue: Catalogue, people: People, numbers: Integers, by: str, filesystem: str | None = None
) -> list[Json]:
    """Return, for some jobs, each of those behind them and what all their jobs did; who does most now comes first."""
    persons, place_of = people.grouped(numbers, by)
    group = np.full(catalogue.count, -1, np.int64)
    group[numbers] = place_of
    totals = {measure: np.zeros(len(persons), np.int64) for measure in MEASURES}
    rates = {measure: np.zeros(len(persons)) for measure in (*MEASURES, "metadata_ops")}
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
    order = np.lexsort((-rates["iops"], -(rates["read_bytes"] + rates["write_bytes"])))
    return [
        {
            "name": getattr(persons[place], GROUPINGS[by][0]),
            **{name: getattr(persons[place], name) for name in GROUPINGS[by]},
            "jobs": int(jobs[place]),
            **{measure: int(totals[measure][place]) for measure in MEASURES},
            "rates": {measure: float(numbers[place]) for measure, numbers in rates.items()},
        }
        for place in order.tolist()
    ]
