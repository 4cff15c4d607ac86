"""How a sweep is written to InfluxDB: in batches, each once, and what its answers mean."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from harvest_aggregator.published import Published
from harvest_aggregator.sinks import influxdb
from harvest_aggregator.sinks.contract import ACCEPTED, Outcome, Written
from harvest_aggregator.sinks.influx_answers import (
    CODES,
    KEPT,
    NO_ANSWER,
    NO_TLS,
    REJECTED,
    Address,
    Answer,
    SecretError,
)
from harvest_aggregator.sinks.influx_lines import MEASUREMENTS
from harvest_aggregator.sinks.influxdb import Influxdb, InfluxdbPlan
from harvest_aggregator.sinks.table import plans
from harvest_site import sinks as settings
from harvest_site.loading import load
from unit.aggregator.publishing import TICK, WRITE, published

PAGE = (Path(__file__).parents[3] / "docs/reference/sinks.md").read_text()
URL = "http://influx:8086"
FINE = Answer(204)
SITE = """
interval: 20s
filesystems: [{{name: home, servers: [oss1]}}]
{more}
sinks: [{{name: influx, influxdb: {{url: "http://influx:8086/", org: hpc, bucket: lustre, {asked}
  tokenSecretRef: {{name: influx, key: token}}}}}}]
"""


def plan(asked: str = "", more: str = "", secrets: Path | None = Path("/secrets")) -> InfluxdbPlan:
    (found,) = plans(load(SITE.format(asked=asked, more=more)), secrets).values()
    assert isinstance(found, InfluxdbPlan)
    return found


def sweep(jobs: int) -> Published:
    """Return a first sweep in which so many jobs wrote."""
    return published(
        {("home", "OST"): {b"%d" % number: {WRITE: (1, number)} for number in range(1, jobs + 1)}}, last_work=TICK
    )


class Fake:
    """A sink, and an InfluxDB that answers as it is told, or else takes everything."""

    def __init__(self, told: InfluxdbPlan | None = None, *answers: Answer | SecretError) -> None:
        self.sink = Influxdb(told or plan(), connect=self.connect)
        self.answers = list(answers)
        self.batches: list[list[int]] = []
        """The jobs of each that came."""
        self.accepted: list[int] = []
        self.addresses: list[Address] = []
        self.largest = 1_000_000

    def connect(self, address: Address) -> "Fake":
        self.addresses.append(address)
        return self

    def write(self, lines: bytes) -> Answer:
        jobs = [int(number) for number in re.findall(rb",job=(\d+),", lines)]
        self.batches.append(jobs)
        answer = self.answers.pop(0) if self.answers else FINE
        if isinstance(answer, SecretError):
            raise answer
        if len(jobs) > self.largest:
            return Answer(413, "too much")
        if answer.outcome is Outcome.ACCEPTED:
            self.accepted += jobs
        return answer

    def pause(self, _seconds: float) -> bool:
        return True


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(influxdb, "BATCH_POINTS", 4)


def written(fake: Fake, jobs: int) -> Written:
    return fake.sink.write(fake.sink.needed(sweep(jobs)), fake.pause)


def test_a_sweep_is_written_in_batches() -> None:
    fake = Fake()
    assert written(fake, 10) == ACCEPTED
    assert fake.batches == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert fake.addresses == [plan().address]


def test_nothing_new_is_no_request() -> None:
    fake = Fake()
    assert written(fake, 0) == ACCEPTED
    assert fake.batches == []


@pytest.mark.parametrize("status", [NO_ANSWER, NO_TLS, 301, 401, 403, 404, 408, 429, 500, 502, 503, 504])
def test_what_is_kept_goes_on_where_it_was_left_and_nothing_is_sent_twice(status: int) -> None:
    trouble = Answer(status, "no", wait_seconds=7.0)
    fake = Fake(None, FINE, trouble, trouble)
    waiting = fake.sink.needed(sweep(10))
    for _ in range(2):
        kept = fake.sink.write(waiting, fake.pause)
        assert (kept.outcome, kept.wait_seconds) == (Outcome.KEPT, 7.0)
        assert kept.reason.startswith(f"{URL} answers {status}: no" if status > 0 else f"{URL} cannot be asked: no")
    assert fake.sink.write(waiting, fake.pause) == ACCEPTED
    assert fake.accepted == list(range(1, 11))
    assert fake.batches == [[1, 2, 3, 4], [5, 6, 7, 8], [5, 6, 7, 8], [5, 6, 7, 8], [9, 10]]


@pytest.mark.parametrize("status", [400, 422])
def test_what_is_refused_is_told_and_the_rest_is_written(status: int) -> None:
    fake = Fake(None, FINE, Answer(status, "field type conflict"))
    told = written(fake, 10)
    assert told.outcome is Outcome.REJECTED
    why = f"{URL} answers {status}: field type conflict: {REJECTED[status]}"
    assert told.reason == f"4 of 10 points were in batches that were not taken whole: {why}"
    assert fake.accepted == [1, 2, 3, 4, 9, 10]


def test_who_stands_between_refuses_nothing() -> None:
    answer = Answer(400, "The plain HTTP request was sent to HTTPS port", is_its_own=False)
    assert answer.outcome is Outcome.KEPT
    assert Answer(413, "nginx", is_its_own=False).outcome is Outcome.REJECTED


def test_what_is_too_large_is_halved() -> None:
    fake = Fake()
    fake.largest = 1
    assert written(fake, 5) == ACCEPTED
    assert fake.batches == [[1, 2, 3, 4], [1, 2], [1], [2], [3, 4], [3], [4], [5]]
    assert fake.accepted == [1, 2, 3, 4, 5]


def test_one_point_that_is_too_large_is_refused_alone() -> None:
    fake = Fake()
    fake.largest = 0
    told = written(fake, 2)
    why = f"{URL} answers 413: too much: {REJECTED[413]}"
    assert told == Written(Outcome.REJECTED, f"2 of 2 points were in batches that were not taken whole: {why}")
    assert fake.batches == [[1, 2], [1], [2]]


def test_halves_are_gone_on_with_too() -> None:
    fake = Fake(None, Answer(413), FINE, Answer(503))
    waiting = fake.sink.needed(sweep(4))
    assert fake.sink.write(waiting, fake.pause).outcome is Outcome.KEPT
    assert fake.sink.write(waiting, fake.pause) == ACCEPTED
    assert fake.batches == [[1, 2, 3, 4], [1, 2], [3, 4], [3, 4]]


def test_a_sweep_that_is_dropped_is_not_gone_on_with() -> None:
    fake = Fake(None, Answer(503))
    assert written(fake, 2).outcome is Outcome.KEPT
    newer = fake.sink.needed(sweep(3))
    assert newer.rows[0].jobs == []  # the fake's sweeps have one tick
    assert fake.sink.write(newer, fake.pause) == ACCEPTED
    assert fake.batches == [[1, 2]]


def test_what_was_dropped_is_made_up_for_by_the_next_sweep_that_comes() -> None:
    fake = Fake()
    first, dropped, third, fourth, fifth = (later(number) for number in range(5))
    assert fake.sink.write(fake.sink.needed(first), fake.pause) == ACCEPTED
    fake.sink.needed(dropped)
    third_waiting = fake.sink.needed(third)
    assert fake.sink.write(third_waiting, fake.pause) == ACCEPTED
    assert fake.sink.write(fake.sink.needed(fourth), fake.pause) == ACCEPTED
    assert fake.sink.write(fake.sink.needed(fifth), fake.pause) == ACCEPTED
    assert fake.batches == [[100], [102], [101, 102, 103], [104]]


def test_if_the_first_is_dropped_the_next_makes_up_for_all() -> None:
    fake = Fake()
    first, second, third = (later(number) for number in range(3))
    fake.sink.needed(first)
    assert fake.sink.write(fake.sink.needed(second), fake.pause) == ACCEPTED
    assert fake.sink.write(fake.sink.needed(third), fake.pause) == ACCEPTED
    assert fake.batches == [[101], [100, 101, 102]]


def later(number: int) -> Published:
    """Return the sweep after so many others; in each a new job wrote."""
    source = published({("home", "OST"): {b"%d" % (100 + job): {WRITE: (1, 9)} for job in range(number + 1)}})
    assert source.closed is not None
    ticks = TICK + 20 * np.arange(number + 1)
    table = replace(
        source.closed.tables["home", "OST"],
        last_tick=ticks,
        snapshot_seconds=ticks,
        first_tick=ticks,
        changed_tick=ticks,
    )
    closed = replace(source.closed, tick_seconds=TICK + 20 * number, tables={("home", "OST"): table})
    return replace(source, tick_seconds=closed.tick_seconds, closed=closed)


def test_a_secret_that_cannot_be_read_keeps_the_sweep() -> None:
    fake = Fake(None, SecretError("cannot read /secrets/influx/token: Permission denied"))
    waiting = fake.sink.needed(sweep(2))
    assert fake.sink.write(waiting, fake.pause) == Written(
        Outcome.KEPT, "cannot read /secrets/influx/token: Permission denied"
    )
    assert fake.sink.write(waiting, fake.pause) == ACCEPTED


def test_a_sweep_that_is_being_written_gives_way_to_none() -> None:
    fake = Fake()
    assert fake.sink.write(fake.sink.needed(sweep(10)), lambda _: False) == ACCEPTED
    assert fake.accepted == list(range(1, 11))


def test_an_hour_of_sweeps_may_wait_and_less_of_very_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Influxdb(plan()).room_sweeps == 180
    fake = Fake()
    monkeypatch.setattr(influxdb, "ROOM_ROWS", 100)
    for jobs, room in ((1, 100), (10, 10), (60, 1), (200, 1)):
        sink = Influxdb(plan())
        sink.needed(sweep(jobs))
        assert sink.room_sweeps == room
    fake.sink.needed(sweep(0))
    assert fake.sink.room_sweeps == 100


def test_a_plan_says_all_that_matters() -> None:
    told = plan(
        "detail: [op, user], caSecretRef: {name: ca},", "clusters: [{name: a, lnets: [tcp]}, {name: b, lnets: [tcp1]}]"
    )
    assert told.address == Address(
        url=URL,
        org="hpc",
        bucket="lustre",
        token_file=Path("/secrets/influx/token"),
        ca_file=Path("/secrets/ca/ca.crt"),
    )
    assert (told.detail, told.several_clusters, plan().several_clusters) == (frozenset({"op", "user"}), True, False)
    assert plan() == plan()
    assert plan(secrets=None).address.token_file is None


# --- the page ---


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_has_every_measurement() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (always|`\w+`) \| ([^|]*) \| ([^|]*) \| .* \|$", section("influxdb"), re.MULTILINE
    )
    assert rows == [
        (
            one.name,
            "always" if one.detail is None else f"`{one.detail}`",
            ", ".join(f"`{tag}`" for tag in one.tags),
            ", ".join(f"`{field}`" for field in one.fields),
        )
        for one in MEASUREMENTS
    ]


def test_the_page_has_every_setting_and_detail() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", section("influxdb"), re.MULTILINE)
    names = {field.alias or name: field.is_required() for name, field in settings.Influxdb.model_fields.items()}
    assert {name: default == "*required*" for name, default in rows} == names
    details = re.findall(r"^\| ((?:`\w+`(?:, )?)+|none) \| [^|]+ \|$", section("influxdb"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(details))) - {"detail"} == set(get_args(settings.Detail))


def test_the_page_has_every_answer() -> None:
    rows = re.findall(r"^\| (\d+|no answer|no TLS) \| (rejected|kept) \| (.*) \|$", section("influxdb"), re.MULTILINE)
    names = {NO_ANSWER: "no answer", NO_TLS: "no TLS"}
    assert {(status, outcome): hint for status, outcome, hint in rows} == {
        (names.get(status, str(status)), outcome): hint
        for outcome, hints in (("rejected", REJECTED), ("kept", KEPT))
        for status, hint in hints.items()
    }


def test_the_page_has_every_exit_code_of_the_check() -> None:
    rows = re.findall(r"^\| (\d) \| (.*) \|$", section("influxdb"), re.MULTILINE)
    assert rows == [(str(code.value), text) for code, text in CODES.items()]
