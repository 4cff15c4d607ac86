"""Dashboards on the demo: a real Prometheus scrapes it, and every query of every panel finds something."""

import math
import time
from collections.abc import Iterable
from pathlib import Path

from alive.scenes import closed
from demo.installation import SINK
from demo.play import SLURM_HOST, Play, installed, settings
from support.dashboards import DASHBOARDS, Query, choices, filled, queries
from support.prometheus import Prometheus, scraping
from support.rules import RULES

FIRST_SECONDS = 15
"""As long there is nothing to be asked: rates need two scrapes, and new series begin at 0."""
LIMIT_SECONDS = 240
Choices = list[dict[str, str]]


def possible(prometheus: Prometheus, dashboard: str) -> Choices:
    """Return what a person can choose on a dashboard, each choice bounded by those before."""
    options: Choices = [{}]
    for choice in choices(dashboard):
        options = [
            {**before, choice.name: value}
            for before in options
            for value in (
                [".*"]
                if choice.takes_all
                else prometheus.ask(f"label/{choice.label}/values", **{"match[]": filled(choice.series, before)})
            )
        ]
    return options


def finds_something(prometheus: Prometheus, query: Query, options: Choices) -> bool:
    """Tell whether it does, for anything that a person may choose."""
    asked = dict.fromkeys(query.filled(values) for values in options)
    return any(not math.isnan(value) for one in asked for value in prometheus.query(one).values())


def still_empty(prometheus: Prometheus, asked: Iterable[Query]) -> list[Query]:
    """Return the queries that find nothing."""
    options = {name: possible(prometheus, name) for name in DASHBOARDS}
    return [query for query in asked if not finds_something(prometheus, query, options[query.dashboard])]


def test_every_query_of_every_dashboard_finds_something_in_the_demo(tmp_path: Path) -> None:
    simulated = settings(slurm=SLURM_HOST)
    play = Play(installed(tmp_path, simulated), simulated, for_seconds=2 * LIMIT_SECONDS)
    place = play.installation.url.removeprefix("http://")
    asked = empty = [query for name in DASHBOARDS for query in queries(name)]
    try:
        play.start()
        with scraping(
            tmp_path / "prometheus", f"{place}/metrics", f"{place}/metrics/{SINK}", rules=RULES
        ) as prometheus:
            began = time.monotonic()
            look_at = began + FIRST_SECONDS
            while empty and time.monotonic() < began + LIMIT_SECONDS:
                play.step()
                if time.monotonic() >= look_at:
                    empty = still_empty(prometheus, empty)
                    look_at = time.monotonic() + 1
            choosable = {name: possible(prometheus, name) for name in DASHBOARDS}
            nothing = [Query("user", "", expression, "") for expression in ('up{job="$user"}', "harvest_ready > 1")]
            assert still_empty(prometheus, nothing) == nothing, "what finds nothing is found out"
        print(f"\n{len(asked)} queries after {time.monotonic() - began:.0f} s of {play.live.elapsed_seconds:.0f} s")
        assert [f"{one.dashboard}: {one.panel}: {one.expression}" for one in empty] == []
        assert [name for name, options in choosable.items() if not options] == []
    finally:
        closed(play)
