"""The CustomResourceDefinition: what it is made of. Whether an API server takes it is tried in tests/crd."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from harvest_site.__main__ import crd_text
from harvest_site.crd import definition
from harvest_site.rules import RULES
from harvest_site.schemas import TEXT_MAX

FILE = Path(__file__).parents[3] / "charts/harvest/files/harvestsites.yaml"
VERSION = definition()["spec"]["versions"][0]
ROOT = VERSION["schema"]["openAPIV3Schema"]


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from schemas(schema[key], f"{path}[]")


OURS = [(path, schema) for path, schema in schemas(ROOT) if path not in {"", ".apiVersion", ".kind", ".metadata"}]


def test_the_chart_has_the_definition_that_the_model_gives() -> None:
    """Else: python -m harvest_site crd > charts/harvest/files/harvestsites.yaml."""
    assert FILE.read_text() == crd_text()


def test_it_is_read_back_as_it_is() -> None:
    assert yaml.safe_load(crd_text()) == definition()


def test_every_text_list_and_mapping_has_a_bound() -> None:
    """Without bounds the API server reckons with the worst, and refuses rules as too costly."""
    for path, schema in OURS:
        match schema["type"]:
            case "string":
                assert {"maxLength", "enum", "format"} & schema.keys(), path
            case "array":
                assert schema["maxItems"] > 0, path
            case "object":
                assert "properties" in schema or "maxProperties" in schema or path.endswith("dns"), path
            case kind:
                assert kind in {"integer", "boolean"}, path


def test_every_field_is_described_for_kubectl_explain() -> None:
    assert [path for path, schema in OURS if not path.endswith("[]") and not schema.get("description")] == []


def test_nothing_unknown_is_kept() -> None:
    assert [path for path, schema in schemas(ROOT) if "x-kubernetes-preserve-unknown-fields" in schema] == []


def test_every_list_says_how_two_writers_share_it() -> None:
    for path, schema in OURS:
        if schema["type"] == "array":
            kind = schema["x-kubernetes-list-type"]
            assert kind in {"set", "atomic"} or schema["x-kubernetes-list-map-keys"], path


def test_every_rule_stands_in_it_with_its_message() -> None:
    said = {rule["message"] for _, schema in schemas(ROOT) for rule in schema.get("x-kubernetes-validations", ())}
    assert {rule.message for rule in RULES} <= said


def test_no_text_that_has_the_right_shape_is_too_long_for_the_api_server() -> None:
    """The model knows no bound where the schema has the bound of all texts, so the shape must be one."""
    for path, schema in OURS:
        rules = [rule["rule"] for rule in schema.get("x-kubernetes-validations", ()) if schema["type"] == "string"]
        shapes = [shape[1] for rule in rules if (shape := re.fullmatch(r"self\.matches\((.*)\)", rule))]
        for shape in [*map(json.loads, shapes), *([schema["pattern"]] if "pattern" in schema else [])]:
            assert schema["maxLength"] != TEXT_MAX or longest_match(shape) <= TEXT_MAX, path


def longest_match(pattern: str) -> int:
    """Return how long a text can be that matches: Python's own reckoning, which it does not promise to anybody."""
    return re._parser.parse(pattern).getwidth()[1]  # type: ignore[attr-defined,no-any-return] # noqa: SLF001


def test_people_see_what_they_look_for() -> None:
    columns = {column["name"]: column.get("priority", 0) for column in VERSION["additionalPrinterColumns"]}
    assert columns == {"Ready": 0, "Reason": 0, "Agents": 0, "Message": 1, "Age": 0}
    names = definition()["spec"]["names"]
    assert (names["plural"], names["shortNames"], names["categories"]) == ("harvestsites", ["hs"], ["harvest"])
    assert VERSION["subresources"] == {"status": {}}
