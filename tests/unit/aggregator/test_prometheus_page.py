"""docs/reference/prometheus.md says what a prometheus sink shows."""

import re
from pathlib import Path

from harvest_aggregator.sinks.prometheus_families import FAMILIES
from harvest_site.sinks import Prometheus
from unit.aggregator.test_http_page import described

PAGE = (Path(__file__).parents[3] / "docs/reference/prometheus.md").read_text()


def test_every_family_is_on_the_page() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (counter|gauge) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (
            family.name,
            family.type,
            ", ".join(f"`{label}`" for label in family.labels),
            "always" if family.setting == "always" else f"`{family.setting}`",
            family.meaning,
        )
        for family in FAMILIES
    ]


def test_every_family_has_a_name_of_its_own_and_a_setting_that_there_is() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    assert not set(names) & {name for name, *_ in described()}
    settings = {field.alias for field in Prometheus.model_fields.values()}
    assert {family.setting for family in FAMILIES} <= {*settings, "always"}
