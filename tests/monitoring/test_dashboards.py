"""Grafana's dashboards: files that Grafana takes, and that speak only of what there is."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from support.dashboards import DASHBOARDS, choices, everything, filled, queries
from support.promql import labels_of, spoken, unknown
from support.rules import known_metrics

NAMES = ("health", "job", "node", "overview", "server", "user")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PAGE = (Path(__file__).parents[2] / "docs/reference/monitoring.md").read_text()
KNOWN = {**known_metrics(), "ALERTS": frozenset({"alertname", "alertstate"})}
_SHOWN = frozenset({"Time", "Value", "__name__"})
"""Columns of a table that are no labels."""


@pytest.mark.parametrize("name", NAMES)
def test_grafana_takes_it_as_it_is(name: str) -> None:
    dashboard = DASHBOARDS[name]
    assert dashboard["uid"] == f"harvest-{name}"
    assert "id" not in dashboard, "a number of one Grafana: another one would overwrite something"
    assert dashboard["schemaVersion"] >= 38, "that of Grafana 10"
    assert dashboard["title"].startswith("Harvest: ")
    assert dashboard["description"]
    first, *others = dashboard["templating"]["list"]
    assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
    assert {variable["type"] for variable in others} <= {"query"}
    assert [value for key, value in everything(dashboard) if key == "datasource" and value != DATASOURCE] == []
    for variable in others:
        assert variable["datasource"] == DATASOURCE
        assert variable["definition"] == variable["query"]["query"]


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_few_told_apart_described_and_beside_each_other(name: str) -> None:
    panels = DASHBOARDS[name]["panels"]
    assert 6 <= len(panels) <= 12
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"] == DATASOURCE, panel["title"]
        assert place["x"] >= 0, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"]), panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]), panel["title"]
    for one, other in combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        is_beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        is_below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert is_beside or is_below, (one["title"], other["title"])


@pytest.mark.parametrize("name", NAMES)
def test_numbers_have_units_and_tables_only_columns_that_are_there(name: str) -> None:
    for panel in DASHBOARDS[name]["panels"]:
        if panel["type"] != "table":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            continue
        labels = frozenset().union(*(labels_of(spoken(target["expr"]), KNOWN) for target in panel["targets"]))
        named = {f"Value #{target['refId']}" for target in panel["targets"]} if len(panel["targets"]) > 1 else _SHOWN
        organize = next(one["options"] for one in panel["transformations"] if one["id"] == "organize")
        assert organize["renameByName"].keys() <= named, panel["title"]
        assert organize["excludeByName"].keys() <= labels | _SHOWN, panel["title"]
        columns = labels | set(organize["renameByName"].values())
        overridden = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert overridden <= columns, panel["title"]
        for key, url in everything(panel):
            if key == "url":
                assert set(re.findall(r"fields\.(\w+)", url)) <= columns, url


@pytest.mark.parametrize("name", NAMES)
def test_queries_and_choices_speak_only_of_metrics_and_labels_that_exist(name: str) -> None:
    for query in queries(name):
        legend = frozenset(re.findall(r"\{\{(\w+)\}\}", query.legend))
        assert unknown(query.filled(dict.fromkeys(query.variables, "x")), KNOWN, also=legend) == [], query
    for choice in choices(name):
        assert unknown(filled(choice.series, dict.fromkeys(_chosen(name), "x")), KNOWN) == [], choice
        (metric,) = spoken(choice.series).matched
        assert choice.label in KNOWN[metric], choice


def _chosen(name: str) -> list[str]:
    return [choice.name for choice in choices(name)]


@pytest.mark.parametrize("name", NAMES)
def test_every_choice_is_asked_for_and_used(name: str) -> None:
    used = set().union(*(query.variables for query in queries(name)))
    assert used == set(_chosen(name))


def test_links_lead_to_dashboards_and_choices_that_are_there() -> None:
    urls = [
        value for dashboard in DASHBOARDS.values() for key, value in everything(dashboard["panels"]) if key == "url"
    ]
    assert len(urls) > 5
    for url in urls:
        there, _, choice = url.removeprefix("/d/harvest-").partition("?")
        assert set(re.findall(r"var-(\w+)=", choice)) == set(_chosen(there)), url


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    asked = [query.filled(dict.fromkeys(query.variables, "x")) for name in NAMES for query in queries(name)]
    rules = [{"record": f"query:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    ran = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert len(rules) > 60


def test_every_dashboard_is_on_the_page() -> None:
    assert tuple(DASHBOARDS) == NAMES
    assert sorted(re.findall(r"^\| `(\w+)\.json` \|", PAGE, re.MULTILINE)) == list(NAMES)
