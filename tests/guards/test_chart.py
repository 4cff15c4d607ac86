"""The chart and its page say the same, and nothing that the chart takes goes without a word."""

import json
import re
from collections.abc import Iterator
from typing import Any

from support.chart import CHART, README, readme, reasons, values

PAGE = (CHART.parents[1] / "docs/reference/chart.md").read_text()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_the_readme_has_every_value_with_its_default_and_its_comment() -> None:
    assert README.read_text() == readme(), "run: PYTHONPATH=tests .venv/bin/python -m support.chart"


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, inner in schema["properties"].items():
        if inner.get("properties") and key != "resources":
            yield from leaves(inner, f"{path}{key}.")
        else:
            yield f"{path}{key}"


def test_the_schema_knows_these_values_and_no_others() -> None:
    assert set(leaves(SCHEMA)) - {"global"} == {path for path, _, _ in values()}
    objects = [SCHEMA, *(one for one in SCHEMA["properties"].values() if "properties" in one)]
    assert all(one["additionalProperties"] is False for one in objects)


def test_every_rule_has_its_reason_and_no_wildcard() -> None:
    """All signers of a domain are written with a star: Kubernetes knows no other way."""
    documented = re.findall(r"^\| ([a-z/]+) \| ([a-z, ]+) \| (To .*) \|$", PAGE, re.MULTILINE)
    found = [*reasons(), *reasons("agent-bundle.yaml"), *reasons("join.yaml")]
    assert documented == [("/".join(rule["resources"]), ", ".join(rule["verbs"]), reason) for reason, rule in found]
    assert "*" not in json.dumps([rule for _, rule in found]).replace("harvestsites.lustreharvest.dev/*", "")
