"""The rules and dashboards that Harvest brings, and every metric that they may speak of."""

import re
from pathlib import Path
from typing import Any, Final

import yaml

from harvest_aggregator.sinks.prometheus_families import FAMILIES
from unit.aggregator.publishing import metrics
from unit.aggregator.test_http_metrics import SOURCE

FILES: Final = Path(__file__).parents[2] / "charts/harvest/files"
RULES: Final = sorted((FILES / "rules").glob("*.yaml"))
_BY: Final = re.compile(r"sum by \(([^)]*)\)")


def rules() -> list[dict[str, Any]]:
    """Return every rule of every group."""
    documents = [yaml.safe_load(path.read_text()) for path in RULES]
    return [rule for document in documents for group in document["groups"] for rule in group["rules"]]


def own_metrics() -> dict[str, frozenset[str]]:
    """Return what the aggregator tells of itself, each name of a series with its labels."""
    return {
        sample.name: frozenset(sample.labels)
        for family in metrics(SOURCE).registry.collect()
        for sample in family.samples
    }


def known_metrics() -> dict[str, frozenset[str]]:
    """Return every metric that there is, with its labels: the aggregator's own, the sink's, and what rules record."""
    shown = {family.name: frozenset(family.labels) for family in FAMILIES}
    recorded = {
        rule["record"]: frozenset(re.findall(r"\w+", _BY.match(rule["expr"])[1]))  # type: ignore[index]
        for rule in rules()
        if "record" in rule
    }
    return {**own_metrics(), **shown, **recorded}
