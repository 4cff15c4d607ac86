"""The jobs of a closed sweep, numbered; the next sweep's catalogue stands on the one before."""

from collections.abc import Mapping
from weakref import ref

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harvest_aggregator.catalogue import Catalogue, Catalogues, added
from harvest_core.accounting.sweeps import ClosedSweep
from unit.aggregator.publishing import READ, Did, published


def closed(tables: Mapping[tuple[str, str], Mapping[bytes, Did]]) -> ClosedSweep:
    sweep = published(tables).closed
    assert sweep is not None
    return sweep


def did(**jobs: int) -> dict[bytes, Did]:
    return {job.encode(): {READ: (1, amount)} for job, amount in jobs.items()}


def read(catalogue: Catalogue, filesystem: str | None = None) -> dict[bytes, int]:
    """Return what each job read, by way of all numbers of the catalogue."""
    total: dict[bytes, int] = {}
    everyone = catalogue.on(filesystem)
    for number in catalogue.first(everyone, 0, filesystem=filesystem, sort="read_bytes").tolist():
        name = catalogue.jobs[number].name
        assert catalogue.number[name] == number
        job = name.job
        for part in catalogue.only(filesystem):
            row = int(part.row[number])
            if row >= 0:
                assert part.job[row] == number
                assert part.table.jobs[row] == job
                total[job] = total.get(job, 0) + int(part.table.sums[row].sum())
    return total


def test_jobs_of_several_tables_are_one_job_each() -> None:
    catalogue = Catalogues().of(closed({("home", "OST"): did(a=1, b=20), ("work", "OST"): did(c=5, a=300)}))
    assert list(read(catalogue).items()) == [(b"a", 301), (b"b", 20), (b"c", 5)]
    assert read(catalogue, "work") == {b"c": 5, b"a": 300}


def test_new_jobs_and_tables_join_those_known_before() -> None:
    catalogues = Catalogues()
    before = catalogues.of(closed({("home", "OST"): did(a=1)}))
    after = catalogues.of(closed({("home", "OST"): did(a=2, b=3), ("home", "MDT"): did(b=10, c=1)}))
    assert read(after) == {b"b": 13, b"a": 2, b"c": 1}
    assert read(before) == {b"a": 1}
    assert before.count == 1


def test_jobs_and_tables_that_are_gone_are_forgotten() -> None:
    catalogues = Catalogues()
    before = catalogues.of(closed({("home", "OST"): did(a=1, b=2), ("work", "OST"): did(d=4)}))
    assert read(catalogues.of(closed({("home", "OST"): did(b=3, c=9), ("work", "OST"): did(d=5)}))) == {
        b"c": 9,
        b"d": 5,
        b"b": 3,
    }
    assert read(catalogues.of(closed({("home", "OST"): did(b=3, c=9)}))) == {b"c": 9, b"b": 3}
    assert read(before) == {b"d": 4, b"b": 2, b"a": 1}


def test_a_sweep_that_is_asked_for_after_its_successor_is_still_itself() -> None:
    catalogues = Catalogues()
    before, after = closed({("home", "OST"): did(a=1)}), closed({("home", "OST"): did(a=2, b=3)})
    assert read(catalogues.of(after)) == {b"b": 3, b"a": 2}
    assert read(catalogues.of(before)) == {b"a": 1}
    assert read(catalogues.of(after)) == {b"b": 3, b"a": 2}
    assert read(catalogues.of(None)) == {}


def test_no_table_is_kept_that_nobody_asks_for() -> None:
    catalogues, sweep = Catalogues(), closed({("home", "OST"): did(a=1)})
    samples = ref(sweep.tables["home", "OST"].samples)
    catalogues.of(sweep)
    del sweep
    assert samples() is None


def test_a_table_without_jobs_or_counters_is_no_trouble() -> None:
    catalogue = Catalogues().of(closed({("home", "OST"): {}, ("home", "MDT"): {b"a": {}}}))
    assert read(catalogue) == {b"a": 0}


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 32))
def test_the_first_few_are_the_start_of_all(amounts: list[int], limit: int) -> None:
    jobs: dict[bytes, Did] = {b"%d" % job: {READ: (1, amount)} for job, amount in enumerate(amounts)}
    catalogue = Catalogues().of(closed({("home", "OST"): jobs}))
    shown = catalogue.first(catalogue.on(None), limit, filesystem=None, sort="bytes").tolist()
    everyone = sorted(range(len(amounts)), key=lambda job: -amounts[job])
    assert shown == (everyone[:limit] if limit else everyone)


@given(st.lists(st.integers(0, 7), max_size=8, unique=True))
def test_columns_are_added_whichever_way(columns: list[int]) -> None:
    values = np.arange(80).reshape(10, 8)
    assert added(values, columns).tolist() == values[:, columns].sum(axis=1).tolist()
