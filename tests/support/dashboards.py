"""The dashboards that Harvest brings, as their files have them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from support.rules import FILES

DASHBOARDS: Final = {path.stem: json.loads(path.read_text()) for path in sorted((FILES / "dashboards").glob("*.json"))}
_VARIABLE: Final = re.compile(r"\$(\w+)|\$\{(\w+)\}")
_VALUES: Final = re.compile(r"label_values\((.*), (\w+)\)")
BUILT_IN: Final = {"__rate_interval": "1m", "__range": "1h"}
"""What Grafana fills in itself, and what is taken for it here."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel."""

    dashboard: str
    panel: str
    expression: str
    legend: str

    @property
    def variables(self) -> set[str]:
        """Those that a person chooses."""
        return {name or braced for name, braced in _VARIABLE.findall(self.expression)} - BUILT_IN.keys()

    def filled(self, values: Mapping[str, str]) -> str:
        """Return what Prometheus is asked."""
        return filled(self.expression, values)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person chooses on a dashboard: the values of a label of some series."""

    name: str
    series: str
    label: str
    takes_all: bool


def filled(expression: str, values: Mapping[str, str]) -> str:
    """Put values in the place of variables."""
    return _VARIABLE.sub(lambda match: {**BUILT_IN, **values}[match[1] or match[2]], expression)


def queries(name: str) -> Iterator[Query]:
    """Return all queries of a dashboard."""
    for panel in DASHBOARDS[name]["panels"]:
        for target in panel["targets"]:
            yield Query(name, panel["title"], target["expr"], target.get("legendFormat", ""))


def choices(name: str) -> Iterator[Choice]:
    """Return what a person chooses there, in order: what is chosen first bounds the next."""
    for variable in DASHBOARDS[name]["templating"]["list"]:
        if variable["type"] == "query":
            series, label = _VALUES.fullmatch(variable["query"]["query"]).groups()  # type: ignore[union-attr]
            yield Choice(variable["name"], series, label, variable.get("includeAll", False))


def everything(value: object) -> Iterator[tuple[str, Any]]:
    """Return every key with its value, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from everything(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from everything(inner)
