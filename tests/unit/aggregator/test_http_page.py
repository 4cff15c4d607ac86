"""docs/reference/http.md says what there is."""

import re
from pathlib import Path
from typing import Any

from starlette.routing import Route

from harvest_aggregator.catalogue import SORTS
from harvest_aggregator.questions import GROUP_PARAMETERS, JOB_PARAMETERS, LIMIT, VIEW_PARAMETERS
from harvest_aggregator.serving import TOKEN_CHARACTERS_MIN
from unit.aggregator.publishing import BUSY, PLACED, client, metrics
from unit.aggregator.test_http_metrics import SOURCE
from unit.aggregator.test_people import SOURCE as JANES

PAGE = (Path(__file__).parents[3] / "docs/reference/http.md").read_text()
NAMES = {"home", "scratch", "1", "11", "22", "33", "open", "create"}
"""Keys that are names of things, not fields."""


def test_every_route_is_on_the_page() -> None:
    app: Any = client().app
    routes = [route.path for route in app.routes if isinstance(route, Route)]
    shown = re.findall(r"^\| `(/[^`]*)` \|", PAGE, re.MULTILINE)
    named = {"{job:anything}": "CLUSTER/ID", "{user:anything}": "USER", "{sink}": "SINK"}
    assert shown == [re.sub(r"\{.*\}", lambda part: named[part[0]], path) for path in routes]


def test_every_parameter_is_on_the_page() -> None:
    asked = dict(re.findall(r"^\| `(/api/v1/[^`]*)` \| ([^|]*) \|", PAGE, re.MULTILINE))
    assert tuple(re.findall(r"`([a-z]+)`", asked["/api/v1/jobs"])) == JOB_PARAMETERS
    assert tuple(re.findall(r"`([a-z]+)`", asked["/api/v1/views/short"])) == VIEW_PARAMETERS
    assert tuple(re.findall(r"`([a-z]+)`", asked["/api/v1/attribution"])) == GROUP_PARAMETERS
    meant = PAGE.partition("## Parameters")[2].partition("## Jobs")[0]
    assert {*JOB_PARAMETERS, "by", "start"} == set(
        re.findall(r"`([a-z]+)`", "".join(re.findall(r"^\| (`.*?) \|", meant, re.MULTILINE)))
    )
    assert {f"`{sort}`" for sort in ("job", *SORTS)} <= set(re.findall(r"`[a-z_.]+`", meant))
    assert f"Default: {LIMIT} |" in meant
    assert f"at least {TOKEN_CHARACTERS_MIN} printable characters" in PAGE


def test_every_field_is_on_the_page() -> None:
    shown: set[str] = set()
    for source in (BUSY, SOURCE):
        for path in ("/healthz", "/readyz", "/api/v1/jobs?limit=x"):
            shown |= fields(client(source).get(path).json())
        for name in ("filesystems", "servers", "targets", "jobs", "jobs/-/11", "views/totals", "views/filesystems"):
            shown |= fields(client(source).get(f"/api/v1/{name}").json())
    shown |= fields(client(JANES).get("/api/v1/attribution?by=process").json())
    shown |= fields(client(JANES).get("/api/v1/users/jane").json())
    shown |= fields(client(PLACED).get("/api/v1/jobs?server=oss1").json())
    assert shown - NAMES <= set(re.findall(r"[`\"]([a-z_]+)[`\"]", PAGE))


def fields(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(fields, value.values()))
    return set().union(*map(fields, value)) if isinstance(value, list) else set()


def test_every_metric_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(harvest_[a-z_]+)` \| ([a-z]+) \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert rows == described()


def described() -> list[tuple[str, str, str, str]]:
    """Return every metric with its type, labels and meaning, as the page has them."""
    counted = metrics(SOURCE)
    return [
        (
            family.name + ("_total" if family.type == "counter" else ""),
            family.type,
            ", ".join(f"`{label}`" for label in family.samples[0].labels if label != "le"),
            family.documentation,
        )
        for family in counted.registry.collect()
        if family.name.startswith("harvest_")
    ]
