"""docs/explanation/sizing.md says what follows from docs/benchmarks.md, and nothing else."""

import re
from dataclasses import fields

import pytest

from bench import sizing
from bench.report import PAGE as BENCHMARKS
from bench.sizing import PAGE, ROWS, SITES, Costs, Site, computed, costs, series, tables

COST = Costs(**{field.name: 1.0 for field in fields(Costs)})
SITE = Site(filesystems=2, oss=3, osts=4, mds=2, jobs=1000, nodes=100, users=10, daily=5000)


def test_the_page_is_what_the_benchmarks_come_to() -> None:
    assert computed(costs(BENCHMARKS.read_text())) in PAGE.read_text(), "run: PYTHONPATH=tests python -m bench.sizing"


def test_every_cost_is_a_number_above_nothing() -> None:
    found = costs(BENCHMARKS.read_text())
    assert all(getattr(found, field.name) > 0 for field in fields(Costs)), found


def test_a_page_that_lacks_a_bench_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing about Streams"):
        tables(re.sub(r"^## Streams", "## Rivers", BENCHMARKS.read_text(), flags=re.MULTILINE), "Streams")


def test_costs_follow_records_and_nodes() -> None:
    assert SITE.targets == 14
    assert SITE.records == 14 * 500
    needed = {name: row(SITE, COST) for name, row in ROWS.items()}
    assert needed["records of jobs"] == 4 * 500
    assert needed["CPU of sweeps, % of a core"] == pytest.approx(100 * 2000e-6 / 20)
    assert needed["CPU of reading clients, % of a core"] == pytest.approx(100 * 400e-6 / 60)
    assert needed["memory, MB"] == pytest.approx(1 + (2000 + 400) / 1e6)
    assert needed["kB a second"] == pytest.approx(14 * (0.2 * 500 * 12 / 20 + 100 / 60) / 1e3)
    assert needed["CPU, % of a core"] == pytest.approx(100 * (0.2 * 7000 / 20 + 1400 / 60) * 1e-6)
    assert needed["ledger: a year of final records, GB"] == pytest.approx(5000 * 365 / 1e9)
    assert needed["recovery after a crash, s"] == pytest.approx((7000 + 1400) / 1e6)


def test_series_are_every_combination_of_labels() -> None:
    osts, mdts = 12, 2
    always = 3 * 2 * 2 + 2 * 2 * 38 + 3 * 14 + 2 * (osts * 15 + mdts * 23) + 14 + 1 + 6
    assert series(SITE, "always", 0) == always
    job = 7 * (2 + 6) + 1
    assert series(SITE, "perJob", 200) == 201 * job
    assert series(SITE, "perJob", None) == 1000 * job
    assert series(SITE, "perClient", 200) == 101 * (2 + 2 + 2 * 2)
    assert series(SITE, "perUser", 200) == 11 * (2 + 2 + 2 * 2 + mdts + 2)
    assert series(SITE, "perProcess", 200) == 11 * (mdts + 2)


def test_two_digits_are_told() -> None:
    assert [sizing._number(value) for value in (0.0123, 1.25, 12.4, 1239, 1_250_000, "")] == [  # noqa: SLF001
        *("0.012", "1.2", "12", "1,200", "1,200,000"),
        "",
    ]
    assert len(SITES) == 3
